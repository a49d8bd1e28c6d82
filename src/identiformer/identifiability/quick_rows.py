r"""The quick path: what Gram matrices settle about `generatable`, row by row.

With coordinates $X$ of the keys (orthonormal over the tokens, see [`QuickKeys`][]), the directions of a row are the
columns of $Z = \mathrm{diag}(a) (X - 1 a^\top X)$. For $Z^\top Z = L L^\top$, $Z L^{-\top}$ is an orthonormal basis,
and the singular values of

$$F = L^{-1} Z^\top W$$

are those of $T^\top U$. Their squares are the eigenvalues of $F F^\top$, of the size of the keys.

**Rounding.** Let $t$ be the number of tokens, $p$ that of keys' columns, $u$ the unit roundoff, and
$\zeta = 1 / \|L^{-1}\|_F$, which $\sigma_{\min}(Z)$ exceeds.

- $Z$ is computed from the heaviest token, $X - 1 x_0$, where nothing cancels: with $\|x_j\| \le 1$, off by $\delta$ at
  most, $\|\Delta Z\|_F \le 4 ((t + 6) u + \delta) (1 - a_0)$. It turns the space by an angle of at most
  $\|\Delta Z\| / \zeta$, which moves a singular value by at most that angle times $\sqrt 2 \sigma_{\max}(T)$.
- $Z^\top W$ is off by at most $\gamma_t \|Z\|_F \|W\|_F$; inverting $L$ and multiplying by it adds
  $2 \gamma_p \|L\|_F \|F\|_F$, $\|L\|_F = \|Z\|_F$. Over $\zeta$, both move singular values by at most that.
- $Z^\top Z$ and its factor: all singular values change by the same small share, `room` $/ 2 \zeta^2$.
- $F F^\top$ and its eigenvalues: the `room` of that Gram matrix, which is what counts for small margins. Where it is
  too much, the singular values of $F$ itself are computed.

Rows so peaked that this is too much, and those with weights of zero, are left to the exact path.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from identiformer.identifiability.findings import LevelFinding
from identiformer.identifiability.gram import UNIT, Count, count, gram
from identiformer.identifiability.linalg import (
    cholesky,
    eigenvalues,
    singular_values,
    solve_lower,
    split,
    square_norm,
)
from identiformer.identifiability.pieces import at_once

# The share by which the factor of Z may change singular values, at most: as long as its square does not count.
_STRETCH = 1e-4
# Numbers of Z at once: what stays in the cache.
_NUMBERS_AT_ONCE = 2**17


class HeadsOfRows(NamedTuple):
    r"""What rows need to know of their heads.

    - `reduced`: `[H, n, r]`, $W$, and `mass`, `[H]`, $\|W\|_F^2$.
    - `coordinates`: `[H, p, n]`, $X^\top$, and `noise`, `[H]`, by how much one token's may be off.
    - `greatest`, `cutoff`: `[H]`, $\sigma_{\max}(T)$, and the cutoff for $\sigma(T^\top U)$.
    """

    reduced: Float[Tensor, "H n r"]
    mass: Float[Tensor, " H"]
    coordinates: Float[Tensor, "H p n"]
    noise: Float[Tensor, " H"]
    greatest: Float[Tensor, " H"]
    cutoff: Float[Tensor, " H"]

    def at(self, index: slice | Tensor) -> HeadsOfRows:
        """Some of the heads."""
        return HeadsOfRows(*(tensor[index] for tensor in self))


class Squares(NamedTuple):
    r"""The squares of the singular values of $F$, ascending, and the bounds of their errors that [`count`][] takes.

    `usable`: the factor of $Z$ is good enough; if it is not, nothing else has a meaning.
    """

    squares: Float[Tensor, "H R s"]
    room: Float[Tensor, "H R"]
    shift: Float[Tensor, "H R"]
    stretch: Float[Tensor, "H R"]
    usable: Bool[Tensor, "H R"]


def quick_rows(
    heads: HeadsOfRows, weights: Float[Tensor, "H R n"], eps: float
) -> tuple[LevelFinding, Bool[Tensor, "H R"]]:
    """What is found of `generatable`, and whether it is beyond doubt.

    **Arguments:** `weights`: positive ones, for every token that is visible; `eps`: of the model's dtype.
    """
    squares = _in_pieces(heads, weights, squared=True)
    found = _count(heads, squares, eps)
    finding, known = _finding(heads, found), found.known & squares.usable
    rest = (squares.usable & ~known).nonzero(as_tuple=True)
    each = at_once(heads.reduced[0].numel() + heads.coordinates[0].numel())
    for head, row in zip(split(rest[0], each), split(rest[1], each), strict=True):
        if len(row):
            some = heads.at(head)
            squares = _in_pieces(some, weights[head, row][:, None], squared=False)
            found = _count(some, squares, eps)
            finding = finding.put((head, row), _finding(some, found).map(lambda tensor: tensor[:, 0]))
            known = known.index_put((head, row), (found.known & squares.usable)[:, 0])
    return finding, known


def _finding(heads: HeadsOfRows, found: Count) -> LevelFinding:
    dimension = torch.full_like(found.rank, heads.coordinates.shape[-2])
    return LevelFinding(dimension, dimension - found.rank, found.least)


def _count(heads: HeadsOfRows, found: Squares, eps: float) -> Count:
    rows = found.room.shape
    scale = heads.greatest[:, None].expand(rows)
    dimension = torch.full(rows, heads.coordinates.shape[-2], device=scale.device)
    # The basis of the exact path is accurate to a tenth of the model's precision.
    blur = 0.1 * eps * scale
    cutoff = heads.cutoff[:, None].expand(rows)
    return count(found.squares, dimension, scale, cutoff, found.room, found.shift, found.stretch, blur)


def _in_pieces(heads: HeadsOfRows, weights: Float[Tensor, "H R n"], squared: bool) -> Squares:
    amount, rows, tokens = weights.shape
    few = max(_NUMBERS_AT_ONCE // (heads.coordinates.shape[-2] * tokens), 1)
    step = min(rows, few)
    width = max(few // step, 1)
    lines: list[Squares] = []
    for i in range(0, amount, width):
        some = heads.at(slice(i, i + width))
        line = [_squares(some, weights[i : i + width, j : j + step], squared) for j in range(0, rows, step)]
        lines.append(Squares(*(torch.cat(part, dim=1) for part in zip(*line, strict=True))))
    return Squares(*(torch.cat(part) for part in zip(*lines, strict=True)))


def _squares(heads: HeadsOfRows, weights: Float[Tensor, "H R n"], squared: bool) -> Squares:
    r"""`squared`: by the eigenvalues of $F F^\top$, or by the singular values of $F$."""
    amount, rows, tokens = weights.shape
    share = weights / weights.sum(dim=-1, keepdim=True)
    coordinates = heads.coordinates
    size = coordinates.shape[-2]
    first, heaviest = share.max(dim=-1)
    # [H, R, p, n] from here on: the transpose of Z.
    origin = coordinates.gather(-1, heaviest[:, None, :].expand(-1, size, -1)).mT.contiguous()
    moves = (coordinates[:, None] - origin[..., None]).mul_(share[..., None, :])
    tangents = moves.sub_(moves.sum(dim=-1, keepdim=True) * share[..., None, :])
    of = gram(tangents)
    factor, definite = cholesky(of.matrix)
    inverse = solve_lower(factor, torch.eye(size).to(factor).expand_as(factor))
    per_zeta = square_norm(inverse).sqrt()
    stretch = 0.5 * of.room * per_zeta.square()
    usable = definite & (stretch < _STRETCH)
    if not bool(usable.all()):
        inverse = inverse.where(usable[..., None, None], 0.0)
    # One product for all rows of a head.
    seen = (tangents.reshape(amount, rows * size, tokens) @ heads.reduced).view(amount, rows, size, -1)
    responses = inverse @ seen

    error = (tokens + 6) * UNIT + heads.noise[:, None]
    turned = 8 * error * ((1 - first).clamp(min=0.0) + UNIT) * heads.greatest[:, None]
    response = square_norm(responses).sqrt()
    product = (tokens * heads.mass.sqrt())[:, None] + 2 * size * response
    shift = (turned + UNIT * of.mass.sqrt() * product) * per_zeta
    if squared:
        small = gram(responses)
        return Squares(eigenvalues(small.matrix), small.room, shift, stretch, usable)
    singular = singular_values(responses).flip(-1)
    added = (size + responses.shape[-1]) * UNIT * response
    return Squares(singular.square(), torch.zeros_like(shift), shift + added, stretch, usable)
