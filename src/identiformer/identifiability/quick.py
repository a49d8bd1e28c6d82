r"""The quick path: what Gram matrices settle about heads, for a fraction of the cost of the exact path.

A head whose $T$ has more rows than columns is settled at `free` and `simplex` by one Cholesky factorisation, of the
Gram matrix $G$ of the centred $W$ (which stands in for $T$): if $G \succ \tau^2$, then $[T\ 1]$ has full column
rank, and so has $T$. Short heads need two sets of eigenvalues, for $\sigma_{\min}$ is their margin. `gram.py` says what
of this is beyond doubt.
"""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple
from weakref import WeakKeyDictionary

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from identiformer.identifiability.findings import HeadFindings, LevelFinding
from identiformer.identifiability.gram import (
    UNIT,
    Gram,
    bounded,
    count,
    exceeds,
    full_rank,
    gram,
    greatest,
    row_factor,
)
from identiformer.identifiability.head import AttentionHead
from identiformer.identifiability.linalg import (
    eigenvalues,
    square_norm,
)
from identiformer.identifiability.tolerance import (
    ROUNDING,
    OutputTolerance,
    output_tolerance,
    resolution,
)

# Least eigenvalues, as multiples of their room: of what is used as a factor, of what needs no refinement, and what is
# tried first: as much more as the room of `whole` may be than that of `inside`.
ENOUGH = 1e5
AMPLE = 3e8
_FIRST = 3.5 * AMPLE


class QuickHeads(NamedTuple):
    """[`HeadFindings`][], and where `free` and `simplex` of them are beyond doubt: `linear`.

    `only_one` says only what follows from the simplex.
    """

    findings: HeadFindings
    linear: Bool[Tensor, "*#batch"]


class HeadGrams:
    r"""The Gram matrices of a head, each computed once; kept as long as the head is.

    - `reduced`: `[*batch, n, r]`, $W$, and `centred`, the same less its mean over visible tokens.
    - `inside`: of the centred $W$.
    - `tall`: all heads have more tokens than $[T\ 1]$ has columns.
    """

    def __init__(
        self, head: AttentionHead, matrix: Float[Tensor, "*#batch n r"], tolerance: OutputTolerance
    ) -> None:
        self.reduced = matrix
        self.tolerance = tolerance
        # The bases of the exact path are accurate to a tenth of the model's precision: what is decided here must hold
        # for rows too, where their directions are all there are.
        self.blur = 0.1 * head.eps
        self.tokens = head.tokens
        self.mean, self.centred = centred_at(self.reduced, head)
        self.mass = square_norm(self.reduced)
        inside = gram(self.centred)
        # The mean's own rounding adds a second-order term, which only counts where all tokens are nearly the same.
        self.inside = inside._replace(room=inside.room + (2 * self.length * UNIT) ** 2 * self.mass)
        self.tall = bool((self.tokens > self.columns + 1).all())

    @property
    def length(self) -> int:
        """The number of tokens, those of padding included."""
        return self.reduced.shape[-2]

    @property
    def columns(self) -> int:
        """The number of columns of $W$, $r$."""
        return self.reduced.shape[-1]

    @cached_property
    def whole(self) -> Gram:
        """The Gram matrix of $W$."""
        if not self.tall:
            return gram(self.reduced)
        # What centring took away is of rank one. Its sums err by three times what those of a product do.
        away = self.mean.mT * (self.tokens[..., None, None] * self.mean)
        return bounded(self.inside.matrix + away, self.length, times=3.0)

    @cached_property
    def whole_squares(self) -> Float[Tensor, "*batch s"]:
        r"""The squares of the singular values of $T$, ascending."""
        return eigenvalues(self.whole.matrix)

    @cached_property
    def inside_squares(self) -> Float[Tensor, "*batch s"]:
        r"""The squares of the singular values of the centred $T$, ascending."""
        return eigenvalues(self.inside.matrix)

    @cached_property
    def floor(self) -> Float[Tensor, "*batch"]:
        """A proven lower bound of the eigenvalues of `inside`; 0 if there is none worth having."""
        return _floor(self.inside)

    @cached_property
    def whole_floor(self) -> Float[Tensor, "*batch"]:
        """The same of `whole`, whose eigenvalues are at least those of `inside` where both are of the columns."""
        enough = self.columns <= self.length and bool((self.floor >= AMPLE * self.whole.room).all())
        return self.floor if enough else _floor(self.whole)

    @cached_property
    def slim(self) -> Float[Tensor, "*batch n m"]:
        """$W$, or something with its singular values and no more columns than rows."""
        return self.reduced if self.columns <= self.length else row_factor(self.reduced)

    @cached_property
    def scaled(self) -> QuickHeads:
        r"""What is settled, with $\sigma_{\max}(T)$ and the cutoff that follows from it."""
        largest = greatest(self.whole_squares)
        return self._tall(largest) or self._counted(largest)

    @cached_property
    def unscaled(self) -> QuickHeads:
        """What is settled, with upper bounds of these two for what they cost to compute."""
        if "scaled" in self.__dict__:
            return self.scaled
        return self.full or self.scaled

    @cached_property
    def full(self) -> QuickHeads | None:
        r"""The same, if all heads have full column rank, and more tokens than that; `None` if one may not."""
        # An upper bound of the greatest singular value will do.
        return self._tall(square_norm(self.whole.matrix).pow(0.25))

    def _tall(self, largest: Float[Tensor, "*batch"]) -> QuickHeads | None:
        """If all heads have full column rank, and more tokens than that: no margin, but also no doubt."""
        if not self.tall:
            return None
        cutoff = self.tolerance.cutoff(largest) + self.blur * largest
        known = (self.floor > 1.01 * cutoff.square()) & self.whole.room.isfinite()
        if not bool(known.all()):
            known = known | full_rank(self.inside, cutoff)
        if not bool(known.all()):
            return None
        tokens, none = self.tokens, torch.zeros_like(largest)
        free = LevelFinding(tokens, tokens - self.columns, none)
        simplex = LevelFinding(tokens - 1, tokens - 1 - self.columns, none)
        cutoff = self.tolerance.cutoff(largest)
        return QuickHeads(HeadFindings(free, simplex, largest, cutoff, torch.zeros_like(known)), known)

    def _counted(self, largest: Float[Tensor, "*batch"]) -> QuickHeads:
        """By counting eigenvalues."""
        tokens, cutoff = self.tokens, self.tolerance.cutoff(largest)
        blur = self.blur * largest
        whole = count(self.whole_squares, tokens, largest, cutoff, self.whole.room, blur=blur)
        inside = count(self.inside_squares, tokens - 1, largest, cutoff, self.inside.room, blur=blur)
        free = LevelFinding(tokens, tokens - whole.rank, whole.least)
        nullity = torch.minimum(free.nullity, tokens - 1 - inside.rank)
        simplex = LevelFinding(tokens - 1, nullity, inside.least)
        findings = HeadFindings(free, simplex, largest, cutoff, nullity == 0)
        return QuickHeads(findings, whole.known & inside.known)


def _floor(of: Gram) -> Float[Tensor, "*batch"]:
    strong = exceeds(of, _FIRST * of.room)
    if bool(strong.all()):
        return _FIRST * of.room
    weak = exceeds(of, ENOUGH * of.room)
    least = torch.where(strong, _FIRST, ENOUGH) * of.room
    return least.where(weak & least.isfinite(), 0.0)


_GRAMS: WeakKeyDictionary[AttentionHead, HeadGrams] = WeakKeyDictionary()
_OF_VALUES: WeakKeyDictionary[AttentionHead, HeadGrams] = WeakKeyDictionary()


def head_grams(head: AttentionHead) -> HeadGrams:
    """The [`HeadGrams`][] of a head: certificates and effective attention share them."""
    found = _GRAMS.get(head)
    if found is None:
        found = _GRAMS[head] = HeadGrams(head, head.reduced, output_tolerance(head))
    return found


def space_grams(head: AttentionHead) -> HeadGrams:
    r"""The [`HeadGrams`][] of a head, or of $V$ in place of $W$ where its column space is that of $T$.

    So it is where $D$ has full row rank, and $V$ full column rank: $\sigma_{\min}(T) \ge \sigma_{\min}(V)
    \sigma_{\min}(D)$. The latter is at least the least singular value of any choice of columns of $D$, and then $T$
    is not needed, which costs more than all else. Ranks and projectors of either are the same; margins are not.
    """
    if head in _GRAMS:
        return _GRAMS[head]
    if head not in _OF_VALUES:
        _OF_VALUES[head] = _grams_of_values(head) or head_grams(head)
    return _OF_VALUES[head]


def _grams_of_values(head: AttentionHead) -> HeadGrams | None:
    projection, values = head.output_projection, head.visible_values
    if projection is None or projection.shape[-1] <= projection.shape[-2]:
        return None
    width, outputs = projection.shape[-2:]
    if values.shape[-2] <= width + 1:
        return None
    # Twice as many columns as rows: for random ones, the least singular value is then a third of the typical one.
    some = gram(projection[..., : 2 * width])
    least = some.mass / (32 * width)
    if not bool(exceeds(some, least).all()):
        return None
    # Upper bounds for W, and the same for V: over the least singular value of D.
    relative = resolution(head.tokens, torch.full_like(head.tokens, outputs), head.eps).clamp(min=ROUNDING)
    largest = square_norm(projection).sqrt()
    ratio = largest / least.sqrt()
    product = max(head.eps, ROUNDING) * square_norm(values).sqrt() * ratio
    found = HeadGrams(head, values, OutputTolerance(relative * ratio, product))
    return None if found.full is None else found


def centred_at(
    matrix: Float[Tensor, "*#batch n d"], head: AttentionHead
) -> tuple[Float[Tensor, "*#batch 1 d"], Float[Tensor, "*#batch n d"]]:
    """The mean row of a matrix whose rows are 0 for tokens that are not visible, and the matrix less that mean."""
    mean = matrix.sum(dim=-2, keepdim=True) / head.tokens[..., None, None]
    centred = matrix - mean
    return mean, centred if bool(head.mask.all()) else centred.masked_fill(~head.mask[..., None], 0.0)
