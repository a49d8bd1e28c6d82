r"""The quick path: what Gram matrices settle about `generatable`, row by row.

The directions of a row are the columns of $Z$ (`row_products.py`). For $Z^\top Z = L L^\top$, $Z L^{-\top}$ is an
orthonormal basis, and the singular values of

$$F = L^{-1} Z^\top W$$

are those of $T^\top U$. Their squares are the eigenvalues of $F F^\top$, of the size of the keys. Most rows have full
rank, which a Cholesky factorisation of $F F^\top$ proves, and of these only the least eigenvalue is wanted.

**Rounding.** Let $p$ be the number of keys' columns, $u$ the unit roundoff, and $\zeta$ a lower bound of
$\sigma_{\min}(Z)$: that of the row's weights, or $1 / \|L^{-1}\|_F$ where that is not enough.

- $Z$ is off by `moved`. It turns the space by an angle of at most $\|\Delta Z\| / \zeta$, which moves a singular
  value by at most that angle times $\sqrt 2 \sigma_{\max}(T)$.
- $Z^\top W$ is off by `lost`; solving with $L$ adds $2 \gamma_p \|L\|_F \|F\|_F$, $\|L\|_F = \|Z\|_F$. Over
  $\zeta$, both move singular values by at most that.
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
from identiformer.identifiability.gram import UNIT, Count, count, count_full, gram
from identiformer.identifiability.linalg import (
    cholesky,
    eigenvalues,
    singular_values,
    solve_lower,
    square_norm,
)
from identiformer.identifiability.pieces import in_parts
from identiformer.identifiability.row_products import HeadsOfRows, RowProducts, by_tables, by_tangents

# The share by which the factor of Z may change singular values, at most: as long as its square does not count.
_STRETCH = 1e-4
# Up to which share the bound of the weights is good enough for all digits of a margin.
_EASY = 1e-6
# Numbers of Z at once: what stays in the cache.
_NUMBERS_AT_ONCE = 2**18
# From so many rows of a head on, tables of its tokens pay.
_TABLED = 16
# Rows for which a table is used at once.
_ROWS_AT_ONCE = 128
# From this size on, the least eigenvalue with its proof takes less time than all of them.
_LARGE = 32


class _Found(NamedTuple):
    """`counts`, and where they mean anything: `usable`, the factor of Z is good enough."""

    counts: Count
    usable: Bool[Tensor, "H R"]


def quick_rows(
    heads: HeadsOfRows, weights: Float[Tensor, "H R n"], eps: float
) -> tuple[LevelFinding, Bool[Tensor, "H R"]]:
    """What is found of `generatable`, and whether it is beyond doubt.

    **Arguments:** `weights`: positive ones, for every token that is visible; `eps`: of the model's dtype.
    """
    share = weights / weights.sum(dim=-1, keepdim=True)
    if share.shape[1] >= _TABLED:
        found = _tabled(heads, share, eps)
        found = _again(heads, share, eps, found, ~found.counts.known, squared=True)
    else:
        found = _in_pieces(heads, share, eps, squared=True)
    found = _again(heads, share, eps, found, found.usable & ~found.counts.known, squared=False)
    dimension = torch.full_like(found.counts.rank, heads.coordinates.shape[-2])
    finding = LevelFinding(dimension, dimension - found.counts.rank, found.counts.least)
    return finding, found.counts.known


def _again(
    heads: HeadsOfRows,
    share: Float[Tensor, "H R n"],
    eps: float,
    found: _Found,
    open_ones: Bool[Tensor, "H R"],
    squared: bool,
) -> _Found:
    """`found`, with some rows computed from tangents of their own."""
    each = heads.reduced[0].numel() + heads.coordinates[0].numel()
    for place in in_parts(open_ones.nonzero(as_tuple=True), each):
        some = _in_pieces(heads.at(place[0]), share[place][:, None], eps, squared)
        counts = Count(
            *(old.index_put(place, new[:, 0]) for old, new in zip(found.counts, some.counts, strict=True))
        )
        found = _Found(counts, found.usable.index_put(place, some.usable[:, 0]))
    return found


def _tabled(heads: HeadsOfRows, share: Float[Tensor, "H R n"], eps: float) -> _Found:
    size, width = heads.coordinates.shape[-2], heads.reduced.shape[-1]
    step = max(_NUMBERS_AT_ONCE // (size * (size + width)), 1)
    lines: list[_Found] = []
    for i in range(len(share)):
        some, line = heads.at(slice(i, i + 1)), list[_Found]()
        for j in range(0, share.shape[1], _ROWS_AT_ONCE):
            products = by_tables(some, share[i : i + 1, j : j + _ROWS_AT_ONCE])
            starts = range(0, products.mass.shape[1], step)
            line += [_settle(some, products.rows(slice(start, start + step)), eps) for start in starts]
        lines.append(_joined(line, dim=1))
    return _joined(lines, dim=0)


def _in_pieces(heads: HeadsOfRows, share: Float[Tensor, "H R n"], eps: float, squared: bool) -> _Found:
    amount, rows, tokens = share.shape
    few = max(_NUMBERS_AT_ONCE // (heads.coordinates.shape[-2] * tokens), 1)
    step = min(rows, few)
    width = max(few // step, 1)
    lines: list[_Found] = []
    for i in range(0, amount, width):
        some = heads.at(slice(i, i + width))
        line = [
            _settle(some, by_tangents(some, share[i : i + width, j : j + step]), eps, squared)
            for j in range(0, rows, step)
        ]
        lines.append(_joined(line, dim=1))
    return _joined(lines, dim=0)


def _joined(parts: list[_Found], dim: int) -> _Found:
    counts = Count(*(torch.cat(part, dim=dim) for part in zip(*(one.counts for one in parts), strict=True)))
    return _Found(counts, torch.cat([one.usable for one in parts], dim=dim))


def _settle(heads: HeadsOfRows, rows: RowProducts, eps: float, squared: bool = True) -> _Found:
    r"""`squared`: by the eigenvalues of $F F^\top$, or by the singular values of $F$."""
    size = rows.matrix.shape[-1]
    factor, definite = cholesky(rows.matrix)
    per_zeta = _per_zeta(rows, factor, _EASY if squared else 0.0)
    stretch = 0.5 * rows.room * per_zeta.square()
    usable = definite & (stretch < _STRETCH)
    if not bool(usable.all()):
        factor = factor.where(usable[..., None, None], torch.eye(size).to(factor))
    responses = solve_lower(factor, rows.seen)
    response = square_norm(responses).sqrt()
    turned = 2 * rows.moved * heads.greatest[:, None]
    shift = (turned + rows.lost + 2 * size * UNIT * rows.mass.sqrt() * response) * per_zeta
    counts = _count(heads, responses, shift, stretch, eps, squared)
    return _Found(counts._replace(known=counts.known & usable), usable)


def _per_zeta(rows: RowProducts, factor: Float[Tensor, "H R p p"], enough: float) -> Float[Tensor, "H R"]:
    r"""$1 / \zeta$, from the weights where that keeps `stretch` below `enough`."""
    floor = rows.least - rows.room
    easy = 0.5 * rows.room < enough * floor
    bound = floor.where(easy, 1.0).rsqrt()
    if bool(easy.all()):
        return bound
    some = factor[~easy]
    inverse = solve_lower(some, torch.eye(some.shape[-1]).to(some).expand_as(some))
    return bound.masked_scatter(~easy, square_norm(inverse).sqrt())


def _count(
    heads: HeadsOfRows,
    responses: Float[Tensor, "H R p r"],
    shift: Float[Tensor, "H R"],
    stretch: Float[Tensor, "H R"],
    eps: float,
    squared: bool,
) -> Count:
    size, width = responses.shape[-2:]
    scale = heads.greatest[:, None].expand(shift.shape)
    dimension = torch.full(shift.shape, size, device=shift.device)
    # The basis of the exact path is accurate to a tenth of the model's precision.
    blur = 0.1 * eps * scale
    cutoff = heads.cutoff[:, None].expand(shift.shape)
    if not squared:
        singular = singular_values(responses).flip(-1)
        shift = shift + (size + width) * UNIT * square_norm(responses).sqrt()
        return count(
            singular.square(), dimension, scale, cutoff, torch.zeros_like(shift), shift, stretch, blur
        )
    small = gram(responses)
    # With many more columns than rows, the least singular values lie too close together.
    if small.size < _LARGE or width > size + size // 16:
        return count(eigenvalues(small.matrix), dimension, scale, cutoff, small.room, shift, stretch, blur)
    found = count_full(small, dimension, scale, cutoff, shift, stretch, blur)
    rest = ~found.known
    if not bool(rest.any()):
        return found
    more = count(
        eigenvalues(small.matrix[rest]),
        dimension[rest],
        scale[rest],
        cutoff[rest],
        small.room[rest],
        shift[rest],
        stretch[rest],
        blur[rest],
    )
    return Count(*(old.masked_scatter(rest, new) for old, new in zip(found, more, strict=True)))
