r"""The quick path: what Gram matrices settle about `generatable`, row by row.

With coordinates $X$ of the keys (orthonormal over the tokens, see [`QuickKeys`][]), the directions of a row are the
columns of $Z = \mathrm{diag}(a) (X - 1 a^\top X)$. For $Z^\top Z = L L^\top$, $Z L^{-\top}$ is an orthonormal basis,
and the singular values of

$$F = L^{-1} Z^\top W$$

are those of $T^\top U$. Their squares are the eigenvalues of $F F^\top$, of the size of the keys.

**Rounding.** Let $t$ be the number of tokens, $p$ that of keys' columns, $u$ the unit roundoff, and
$\zeta = 1 / \|L^{-1}\|_F$, which $\sigma_{\min}(Z)$ exceeds.

- $Z$ is computed from the heaviest token, $X - 1 x_0$, where nothing cancels: $\|\Delta Z\|_F \le 4 (t + 6) u
  (1 - a_0)$, for $\|x_j\| \le 1$. It turns the space by an angle of at most $\|\Delta Z\| / \zeta$, which moves a
  singular value by at most that angle times $\sqrt 2 \sigma_{\max}(T)$.
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
    square_norm,
)

# The share by which the factor of Z may change singular values, at most.
_STRETCH = 1e-7
# Numbers of Z at once: what stays in the cache.
_NUMBERS_AT_ONCE = 2**17


class HeadsOfRows(NamedTuple):
    r"""What rows need to know of their heads.

    - `reduced`: `[H, n, r]`, $W$.
    - `coordinates`: `[H, p, n]`, $X^\top$.
    - `mask`: `[H, n]`, visible tokens.
    - `greatest`, `cutoff`: `[H]`, $\sigma_{\max}(T)$, and the cutoff for $\sigma(T^\top U)$.
    """

    reduced: Float[Tensor, "H n r"]
    coordinates: Float[Tensor, "H p n"]
    mask: Bool[Tensor, "H n"]
    greatest: Float[Tensor, " H"]
    cutoff: Float[Tensor, " H"]

    def at(self, index: slice) -> HeadsOfRows:
        """Some of the heads."""
        return HeadsOfRows(*(tensor[index] for tensor in self))


def quick_rows(
    heads: HeadsOfRows, weights: Float[Tensor, "H R n"], eps: float
) -> tuple[LevelFinding, Bool[Tensor, "H R"]]:
    """What is found of `generatable`, and whether it is beyond doubt."""
    amount, rows = weights.shape[:2]
    each = heads.coordinates.shape[-1] * heads.coordinates.shape[-2]
    at_once = max(_NUMBERS_AT_ONCE // each, 1)
    step = min(rows, at_once)
    width = max(at_once // step, 1)
    parts = [
        [
            _count(heads.at(slice(i, i + width)), weights[i : i + width, j : j + step], eps)
            for j in range(0, rows, step)
        ]
        for i in range(0, amount, width)
    ]
    rank, least, known = (
        torch.cat([torch.cat([part[field] for part in line], dim=1) for line in parts]) for field in range(3)
    )
    dimension = torch.full_like(rank, heads.coordinates.shape[-2])
    return LevelFinding(dimension, dimension - rank, least), known


def _count(heads: HeadsOfRows, weights: Float[Tensor, "H R n"], eps: float) -> Count:
    amount, rows, tokens = weights.shape
    coordinates = heads.coordinates
    size = coordinates.shape[-2]
    share = weights / weights.sum(dim=-1, keepdim=True)
    heaviest = share.argmax(dim=-1)
    # [H, R, p, n] from here on: the transpose of Z.
    origin = coordinates.gather(-1, heaviest[:, None, :].expand(-1, size, -1)).mT
    moves = (coordinates[:, None] - origin[..., None]).mul_(share[..., None, :])
    tangents = moves.sub_(moves.sum(dim=-1, keepdim=True) * share[..., None, :])
    of = gram(tangents)

    factor, definite = cholesky(of.matrix)
    inverse = solve_lower(factor, torch.eye(size).to(factor).expand_as(factor))
    zeta = 1 / square_norm(inverse).sqrt()
    stretch = 0.5 * of.room / zeta.square()
    moving = (share.where(heads.mask[:, None], 1.0) > 0).all(dim=-1)
    usable = definite & moving & (stretch < _STRETCH)
    if not bool(usable.all()):
        inverse = inverse.where(usable[..., None, None], 0.0)
    # One product for all rows of a head.
    seen = (tangents.reshape(amount, rows * size, tokens) @ heads.reduced).view(amount, rows, size, -1)
    responses = inverse @ seen

    greatest = heads.greatest[:, None]
    rest = (1 - share.amax(dim=-1)).clamp(min=0.0) + UNIT
    turned = 8 * (tokens + 6) * UNIT * rest * greatest
    response = square_norm(responses).sqrt()
    product = (tokens * square_norm(heads.reduced).sqrt())[:, None] + 2 * size * response
    shift = (turned + UNIT * of.mass.sqrt() * product) / zeta

    squared = gram(responses)
    dimension = torch.full_like(heaviest, size)
    scale, cutoff = greatest.expand_as(shift), heads.cutoff[:, None].expand_as(shift)
    # The basis of the exact path is accurate to a tenth of the model's precision.
    blur = 0.1 * eps * scale
    found = count(eigenvalues(squared.matrix), dimension, scale, cutoff, squared.room, shift, stretch, blur)
    again = usable & ~found.known
    if bool(again.any()):
        singular = singular_values(responses[again]).flip(-1)
        added = (size + responses.shape[-1]) * UNIT * response[again]
        second = count(
            singular.square(),
            dimension[again],
            scale[again],
            cutoff[again],
            torch.zeros_like(added),
            shift[again] + added,
            stretch[again],
            blur[again],
        )
        for field, better in zip(found, second, strict=True):
            field[again] = better
    return found._replace(known=found.known & usable)
