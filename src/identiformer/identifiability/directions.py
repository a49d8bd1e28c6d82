"""In which directions a row of weights may move."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from identiformer.identifiability.head import AttentionHead
from identiformer.identifiability.linalg import broadcast, condition, qr, singular_values, svd, triangle
from identiformer.identifiability.spectrum import centre
from identiformer.identifiability.ties import equal_tokens
from identiformer.identifiability.tolerance import ROUNDING, resolution, used_columns


class Level(StrEnum):
    """Which other rows of weights are allowed, from the widest to the narrowest."""

    FREE = "free"
    SIMPLEX = "simplex"
    GENERATABLE = "generatable"


class Directions(NamedTuple):
    """An orthonormal basis of the directions of a level, for every row.

    - `basis`: `[*batch, n, m]`, $U$. Columns that a row does not have are zero.
    - `dimension`: `[*batch]`, the number of columns that it has, dim U.
    """

    basis: Float[Tensor, "*#batch n m"]
    dimension: Int[Tensor, "*#batch"]


class KeySpace(NamedTuple):
    r"""The differences between keys, in coordinates of one scale: $Y = (K - 1 k) B$, orthonormal when centred.

    - `coordinates`: `[*batch, n, p]`, $Y$. Keys that are the same have the same coordinates exactly. Columns
      beyond the rank are zero.
    - `noise`: `[*batch, p]`, how far the rounding of keys may have moved each column, which has length 1.
    - `dimension`: `[*batch]`, the rank.
    """

    coordinates: Float[Tensor, "*#batch n p"]
    noise: Float[Tensor, "*#batch p"]
    dimension: Int[Tensor, "*#batch"]


def directions(head: AttentionHead, level: Level) -> Directions:
    r"""An orthonormal basis of the directions in which the weights can move.

    - `free`: $\mathbb{R}^n$;
    - `simplex`: $\{v : \sum v = 0\}$;
    - `generatable`: $\{\mathrm{diag}(a) (K - 1 a^\top K) \theta\}$, the tangent space of
      $\{\mathrm{softmax}(\text{bias} + K \theta)\}$ at $a$,

    each over the visible tokens. The whole basis is formed here, `n × n` at the first two levels;
    certificates do without.

    **Returns:** [`Directions`][].

    **Source:** `free`: Brunner et al. 2020 (arXiv 1908.04211), section 3. `simplex` and the role of the key:
    arXiv 2106.01269, section 3.
    """
    if level == Level.FREE:
        return Directions(torch.diag_embed(head.mask.to(torch.float64)), head.tokens)
    if level == Level.SIMPLEX:
        return _simplex(head.mask)
    return tangents(head.weights, key_space(head, support(head)).coordinates, head.eps)


def support(head: AttentionHead) -> Bool[Tensor, "*#batch n"]:
    """The tokens whose weight can move with the query: visible, and of a weight that is not exactly zero."""
    positive = head.weights > 0
    # The usual case, and then what depends on keys alone is computed once for all rows.
    return head.mask if bool((positive == head.mask).all()) else positive


def key_space(head: AttentionHead, mask: Bool[Tensor, "*#batch n"]) -> KeySpace:
    r"""The [`KeySpace`][] of the tokens in `mask`.

    A singular value of the centred keys counts if it exceeds
    $\max(n, d_k) \cdot \varepsilon \cdot \sigma_{\max}(K)$. The scale is that of the keys before centring,
    since that is the scale of the rounding errors in them: equal keys give no direction.
    """
    keys = head.keys.masked_fill(~mask[..., None], 0.0)
    scale = singular_values(triangle(keys))[..., 0]
    relative = resolution(mask.sum(dim=-1), used_columns(keys), head.eps)
    cutoff = torch.maximum(relative, torch.full_like(relative, ROUNDING)) * scale
    _, spread, basis = svd(triangle(centre(keys, mask)))
    kept = spread > cutoff[..., None]
    dimension = kept.sum(dim=-1)
    most = max(int(dimension.max()), 1)
    # Measured from one token of the row, so that a part common to all keys costs no accuracy.
    first = mask.to(torch.int8).argmax(dim=-1)[..., None, None]
    shifted = keys - keys.gather(-2, first.expand(*keys.shape[:-2], 1, keys.shape[-1]))
    unit = (kept / spread.where(kept, 1.0))[..., :most]
    coordinates = shifted @ (unit[..., None] * basis[..., :most, :]).mT
    group = equal_tokens((head.keys,), mask, head.eps).group.clamp(min=0)
    coordinates = coordinates.gather(-2, group[..., None].expand_as(coordinates))
    return KeySpace(coordinates.masked_fill(~mask[..., None], 0.0), cutoff[..., None] * unit, dimension)


def tangents(
    weights: Float[Tensor, "*#batch n"], coordinates: Float[Tensor, "*#batch n p"], eps: float
) -> Directions:
    r"""An orthonormal basis of the directions $\mathrm{diag}(a) (X - 1 a^\top X)$ of a softmax with keys $X$.

    With $X_0$ the row of the heaviest token, they are $(I - a 1^\top)$ times the columns of
    $Y = \mathrm{diag}(a) (X - 1 X_0)$.

    Peaked rows are the difficulty. With weights of 1, 1e-15 and 1e-30, all directions are smaller than the
    rounding error of $X - 1 a^\top X$ at the first token, and those of the last token far smaller than those
    of the second. In $Y$ the first token is zero and nothing cancels. Where $Y$ is ill-conditioned, a basis
    of its columns comes from elimination with complete pivoting, in which every row keeps an error relative
    to its own size, however rows differ in size. What follows deals with columns of one scale.

    **Arguments:**

    - `weights`: `[*batch, n]`, zero where there is no token.
    - `coordinates`: `[*batch, n, p]`, $X$, of full column rank but for columns of zeros at the end.
    - `eps`: of the model's dtype. The basis is exact to well below it.
    """
    batch = broadcast(weights.shape[:-1], coordinates.shape[:-2])
    width = coordinates.shape[-1]
    heaviest = weights.argmax(dim=-1)[..., None, None].expand(*batch, 1, width)
    origin = coordinates.expand(*batch, *coordinates.shape[-2:]).gather(-2, heaviest)
    share = (weights / weights.sum(dim=-1, keepdim=True))[..., None]
    shifted = coordinates - origin
    moves = share * shifted
    basis, upper = qr(moves - share * moves.sum(dim=-2, keepdim=True))
    present = (coordinates != 0).any(dim=-2).expand(*batch, width)
    dimension = present.sum(dim=-1)
    # Columns of zeros must not count: something of the size of the others stands in for them.
    filler = upper.abs().amax(dim=(-2, -1), keepdim=True) * torch.diag_embed((~present).to(torch.float64))
    graded = ~(condition(upper + filler) * ROUNDING < 0.1 * eps)
    if bool(graded.any()):
        part = share.expand(*batch, -1, 1)[graded]
        lower, dimension[graded] = _graded_column_space(part[..., 0], shifted[graded])
        basis[graded], _ = qr(lower - part * lower.sum(dim=-2, keepdim=True))
    # The columns that a row lacks are the last ones, and arbitrary after the factorisation. Tokens without weight
    # have not moved, whatever its rounding says.
    columns = torch.arange(basis.shape[-1], device=basis.device)
    kept = (columns < dimension[..., None])[..., None, :] & (weights > 0)[..., :, None]
    return Directions(basis * kept, dimension)


def _simplex(mask: Bool[Tensor, "*#batch n"]) -> Directions:
    r"""Helmert's basis: column $j$ is $(1, …, 1, -j, 0, …) / \sqrt{j (j + 1)}$ over the visible tokens."""
    tokens = mask.sum(dim=-1)
    place = (mask.cumsum(dim=-1) - 1)[..., :, None]
    column = torch.arange(1, mask.shape[-1], device=mask.device)
    entries = (place < column).to(torch.float64) - column * (place == column)
    present = mask[..., :, None] & (column < tokens[..., None, None])
    return Directions(entries * present / (column * (column + 1)).to(torch.float64).sqrt(), tokens - 1)


def _graded_column_space(
    weights: Float[Tensor, "rows n"], matrix: Float[Tensor, "rows n p"]
) -> tuple[Float[Tensor, "rows n p"], Int[Tensor, " rows"]]:
    r"""A well-scaled basis of the columns of $\mathrm{diag}(a) M$, for weights of any size, and its rank.

    The unit lower triangular factor of $P \, \mathrm{diag}(a) M \, Q = L U$ with complete pivoting. Eliminating
    multiplies rows of $M$ by quotients in which the weights cancel, so they are left out of it: they choose the
    pivots and scale $L$. Equal rows of $M$ then eliminate each other exactly. Columns beyond the rank are zero.

    **Source:** Higham, Accuracy and Stability of Numerical Algorithms, 2nd edition, section 9.
    """
    tokens, columns = matrix.shape[-2:]
    lower = torch.zeros_like(matrix)
    rank = torch.zeros_like(weights[..., 0], dtype=torch.int64)
    rest = matrix
    for step in range(min(tokens, columns)):
        size, where = (weights[..., None] * rest).abs().flatten(-2).max(dim=-1)
        row, column = (where // columns)[:, None], (where % columns)[:, None]
        pivots = rest.gather(-2, row[..., None].expand(-1, 1, columns))
        pivot = pivots.gather(-1, column[..., None])
        pivot = pivot.where(pivot != 0, 1.0)
        quotients = rest.gather(-1, column[..., None].expand(-1, tokens, 1)) / pivot
        heaviest = weights.gather(-1, row)
        # Finite even where the pivot's weight is subnormal: heavier rows have a quotient of 0 then.
        ratio = (weights / heaviest.where(heaviest > 0, 1.0)).clamp(max=torch.finfo(weights.dtype).max)
        lower[..., step] = quotients[..., 0] * ratio
        rank += size > 0
        rest = rest - quotients * pivots
        # Eliminated exactly, not up to rounding.
        rest = rest.scatter(-2, row[..., None].expand(-1, 1, columns), 0.0)
        rest = rest.scatter(-1, column[..., None].expand(-1, tokens, 1), 0.0)
    return lower, rank
