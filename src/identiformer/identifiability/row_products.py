r"""The products of matrices that settle rows at `generatable`, in two ways, with bounds of their rounding.

A row $a$ moves in the columns of $Z = \mathrm{diag}(a) (X - 1 a^\top X)$, $X$ being coordinates of the keys that are
orthonormal over the tokens. $Z^\top Z$ and $Z^\top W$ are all that `quick_rows.py` needs of it.

**By $Z$ itself** ([`by_tangents`][]). $Z$ is computed from the heaviest token, $X - 1 x_0$, where nothing cancels:
with $\|x_j\| \le 1$ off by $\delta$ at most, $\|\Delta Z\|_F \le 4 ((t + 6) u + \delta) (1 - a_0)$, $t$ being the
number of tokens and $u$ the unit roundoff. $Z^\top W$ is off by at most $\gamma_t \|Z\|_F \|W\|_F$. This serves
peaked rows too.

**By tables** ([`by_tables`][]), for many rows of a head. With $m = \sum a_j x_j$ and
$g = \sum a_j^2 x_j - \tfrac12 \|a\|^2 m$,

$$Z^\top Z = \sum a_j^2\, x_j x_j^\top - g m^\top - m g^\top, \qquad
Z^\top W = \sum a_j\, x_j w_j^\top - m \left(\sum a_j w_j\right)^\top:$$

one product of all rows, $a$ and $a^2$, with a table of the tokens' $x_j x_j^\top$ and $x_j w_j^\top$. No $Z$ is
formed, and of what is symmetric a quarter need not be computed. What is subtracted cancels the more, the more peaked
a row is, and the bounds say so. With

$$\kappa = \sum a_j^2 \|x_j\|^2, \quad \upsilon = \sum a_j^2 \|x_j\|, \quad \nu = \sum a_j \|x_j\|, \quad
s = \sum a_j^2, \quad \omega = \sum a_j \|x_j\| \|w_j\|, \quad \varphi = \sum a_j \|w_j\|,$$

the terms of $Z^\top Z$ have Frobenius norms of at most $\kappa + 4 \upsilon \nu + 3 s \nu^2$, each counted as often as
it has rounded factors, and those of $Z^\top W$ of $\omega + 3 \nu \varphi$. Every sum has $t$ terms. Weights off by
$(t + 1) u$ of themselves, which is what it takes to make them sum to 1, and coordinates off by $\delta$ move $Z$ by
$\|\Delta Z\|_F \le (t + 2) u\, (\|Z\|_F + \sqrt s\, \nu) + 2 \delta \sqrt s$.

**The least singular value of $Z$.** Columns of $X$ are orthonormal and sum to 0, so that $\|Z \theta\|^2 =
\sum a_j^2 (x_j^\top \theta - m^\top \theta)^2 \ge a_{\min}^2 \|X \theta\|^2$: it is no less than the least weight.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from identiformer.identifiability.gram import UNIT, Gram, bounded, gram
from identiformer.identifiability.linalg import lengths

# Numbers of a table at once, 16 MiB: tokens are taken in as many parts as that takes.
_TABLE = 2**21
# Up to what errors of coordinates, relative to all of them, their columns count as orthonormal.
_NEARLY = 0.04


class HeadsOfRows(NamedTuple):
    r"""What rows need to know of their heads.

    - `reduced`: `[H, n, r]`, $W$, and `mass`, `[H]`, $\|W\|_F^2$.
    - `coordinates`: `[H, p, n]`, $X^\top$, and `noise`, `[H]`, $\delta$: by how much one token's may be off.
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


class RowProducts(NamedTuple):
    r"""The products of some rows.

    - `matrix`, `mass`, `room`: the [`Gram`][] matrix of $Z$, `[H, R, p, p]`; `room` bounds what is wrong with it.
    - `seen`: `[H, R, p, r]`, $Z^\top W$, and `lost`, `[H, R]`, a bound of its error's norm.
    - `moved`: `[H, R]`, a bound of $\|\Delta Z\|_F$: of which $Z$ these are the products.
    - `least`: `[H, R]`, a lower bound of $\sigma_{\min}(Z)^2$, which may be 0.
    """

    matrix: Float[Tensor, "H R p p"]
    mass: Float[Tensor, "H R"]
    room: Float[Tensor, "H R"]
    seen: Float[Tensor, "H R p r"]
    lost: Float[Tensor, "H R"]
    moved: Float[Tensor, "H R"]
    least: Float[Tensor, "H R"]

    def rows(self, part: slice) -> RowProducts:
        """Some rows of every head."""
        return RowProducts(*(tensor[:, part] for tensor in self))


def by_tangents(heads: HeadsOfRows, share: Float[Tensor, "H R n"]) -> RowProducts:
    """The products of rows whose weights sum to 1, from each row's own $Z$."""
    amount, rows, tokens = share.shape
    coordinates = heads.coordinates
    size = coordinates.shape[-2]
    first, heaviest = share.max(dim=-1)
    # [H, R, p, n] from here on: the transpose of Z.
    origin = coordinates.gather(-1, heaviest[:, None, :].expand(-1, size, -1)).mT.contiguous()
    moves = (coordinates[:, None] - origin[..., None]).mul_(share[..., None, :])
    tangents = moves.sub_(moves.sum(dim=-1, keepdim=True) * share[..., None, :])
    of = gram(tangents)
    # One product for all rows of a head.
    seen = (tangents.reshape(amount, rows * size, tokens) @ heads.reduced).view(amount, rows, size, -1)
    lost = tokens * UNIT * (of.mass * heads.mass[:, None]).sqrt()
    error = (tokens + 6) * UNIT + heads.noise[:, None]
    moved = 4 * error * ((1 - first).clamp(min=0.0) + UNIT)
    return RowProducts(*of, seen, lost, moved, _least(heads, share))


def by_tables(heads: HeadsOfRows, share: Float[Tensor, "H R n"]) -> RowProducts:
    """The same from sums over the tokens, one head after the other: for many rows of a head."""
    each = [_of_one_head(heads.at(slice(i, i + 1)), share[i : i + 1]) for i in range(len(share))]
    if len(each) == 1:
        return each[0]
    return RowProducts(*(torch.cat(part) for part in zip(*each, strict=True)))


def _of_one_head(heads: HeadsOfRows, share: Float[Tensor, "1 R n"]) -> RowProducts:
    tokens = share.shape[-1]
    across = heads.coordinates  # [1, p, n]
    coordinates, reduced = across[0].mT.contiguous(), heads.reduced[0]
    size = coordinates.shape[-1]
    squared = share.square()
    mean, response = share @ across.mT, share @ heads.reduced  # [1, R, p], [1, R, r]
    mass = squared.sum(dim=-1)  # s
    half = squared @ across.mT - 0.5 * mass[..., None] * mean
    # Transposed, as factorisations and solutions want them: they would copy them otherwise.
    matrix, seen = _sums(squared[0], coordinates, None), _sums(share[0], reduced, coordinates)
    matrix = matrix.baddbmm_(
        torch.stack([half[0], mean[0]], dim=-1), torch.stack([mean[0], half[0]], dim=-2), alpha=-1
    )
    seen = seen.baddbmm_(response[0][..., None], mean[0][:, None], alpha=-1).mT

    long, wide = lengths(coordinates), lengths(reduced)  # [n]
    kappa, upsilon = squared @ long.square(), squared @ long
    nu, omega, phi = share @ long, share @ (long * wide), share @ wide
    terms = kappa + 4 * upsilon * nu + 3 * mass * nu.square()
    of: Gram = bounded(matrix[None].mT, 0)
    room = (tokens + size + 16) * UNIT * terms
    lost = (tokens + 6) * UNIT * (omega + 3 * nu * phi)
    root = mass.sqrt()
    moved = (tokens + 2) * UNIT * (terms.sqrt() + root * nu) + 2.1 * heads.noise[:, None] * root
    return RowProducts(of.matrix, of.mass, of.room + room, seen[None], lost, moved, _least(heads, share))


def _sums(
    share: Float[Tensor, "R n"], left: Float[Tensor, "n p"], right: Float[Tensor, "n r"] | None
) -> Float[Tensor, "R p r"]:
    r"""$\sum_j a_j\, l_j r_j^\top$ for every row; $r = l$ where `right` is `None`."""
    rows, size = len(share), left.shape[-1]
    if right is not None:
        return _table(share, left, right).view(rows, size, -1)
    # The upper right quarter is the lower left one, transposed.
    part = size // 2
    sums = left.new_empty(rows, size, size)
    sums[:, part:] = _table(share, left[:, part:], left).view(rows, size - part, size)
    sums[:, :part, :part] = _table(share, left[:, :part], left[:, :part]).view(rows, part, part)
    sums[:, :part, part:] = sums[:, part:, :part].mT
    return sums


def _table(
    share: Float[Tensor, "R n"], left: Float[Tensor, "n p"], right: Float[Tensor, "n r"]
) -> Float[Tensor, "R pr"]:
    columns = left.shape[-1] * right.shape[-1]
    step = max(_TABLE // max(columns, 1), 1)
    sums: Tensor | None = None
    for start in range(0, len(left), step):
        part = slice(start, start + step)
        table = (left[part, :, None] * right[part, None, :]).flatten(1)
        sums = share[:, part] @ table if sums is None else sums.addmm_(share[:, part], table)
    return left.new_zeros(len(share), columns) if sums is None else sums


def _least(heads: HeadsOfRows, share: Float[Tensor, "H R n"]) -> Float[Tensor, "H R"]:
    # Tokens that are not visible have no weight. Visible ones without any are no matter for products at all.
    least = share.where(share > 0, 1.0).amin(dim=-1)
    orthonormal = heads.noise * share.shape[-1] ** 0.5 < _NEARLY
    return (0.9 * least.square()).where(orthonormal[:, None], 0.0)
