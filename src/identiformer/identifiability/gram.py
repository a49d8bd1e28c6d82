r"""What Gram matrices settle about ranks and singular values, and how far their rounding reaches.

$M^\top M$ is small, cheap to form, and its eigenvalues are the squares of the singular values of $M$. Squaring costs
half of the digits: with unit roundoff $u$, a singular value of $\sqrt u\, \sigma_{\max}$ drowns in rounding. So a Gram
matrix only decides what its rounding cannot change, and everything here comes with a bound of that rounding.
What it leaves open goes to the exact path (`exact.py`).

**The Gram matrix.** Each entry of a computed $M^\top M$ is a sum of $k$ products, in any order, so that
$|\hat G - G| \le \gamma_k |M|^\top |M|$ with $\gamma_k = k u / (1 - k u)$ and
$\|\hat G - G\|_2 \le \gamma_k \|M\|_F^2$ (Higham, Accuracy and Stability of Numerical Algorithms, 2nd edition, 3.5).

**Its eigenvalues.** By Weyl's inequality they are off by no more than that, and by what the eigenvalue solver adds:
$p(s)\, u \|G\|_2$ for size $s$, with $p$ of modest growth (LAPACK Users' Guide, 4.7); $p(s) = s$ is taken.

**Its Cholesky factor.** $\hat L \hat L^\top = G + E$ with $\|E\| \le \gamma_{s+1} \mathrm{tr}\, G$ (Higham, theorem
10.3). Conversely, if the factorisation of $G - \tau I$ goes through, the least eigenvalue of $G$ exceeds
$\tau - \gamma_{s+1} \mathrm{tr}\, G$: a proof of full rank, for a tenth of the cost of the eigenvalues.

The sum of these is the `room` of a [`Gram`][]. Eigenvalues that lie further than `room` from a threshold are on the
side on which they seem to be, and $\sqrt{\hat\lambda}$ has a relative error of at most `room` $/ 2 \lambda$.

**Factors in place of matrices.** Where $\hat L \hat L^\top = M M^\top + E$, there is an $F$ with
$\hat L \hat L^\top = (M F)(M F)^\top$ and $\|F - I\| \le \|E\| / (2 \lambda_{\min}) + \dots$ on the row space of $M$.
So $\hat L$ in place of $M$ changes every singular value of $A M$, whatever $A$ is, by the same relative amount, small
ones included (Ipsen, Relative perturbation results for matrix eigenvalues and singular values, Acta Numerica 7, 1998).

Masses beyond `1e±140`, where squares leave the range of float64, have infinite room: they decide nothing.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from identiformer.identifiability.least_eigenvalue import least_eigenvalue
from identiformer.identifiability.linalg import cholesky, triangle

UNIT = torch.finfo(torch.float64).eps / 2
# Up to which error a least singular value counts as computed: relative to itself, or, if that is more, to the greatest
# (as long as it is but a thousandth of itself).
_ACCURACY = 4e-7
_FLOOR = 4e-9
# What errors are, of the bounds that hold in any case. Sums of 30 to 500 terms lose but the square root of what their
# bounds say (Higham and Mary, SIAM J. Sci. Comput. 41, 2019), and errors in all directions do not meet in the one that
# counts. Ranks are never decided by this, only how many digits of a margin can be relied upon.
_TYPICAL = 1 / 30
# The exact path, which is compared with, has rounding errors too: relative to the cutoff they are far below this.
_SLACK = 1e-6
# How far a factor may change singular values, relative to themselves.
_FACTOR = 1e-8
_RANGE = 1e140


class Gram(NamedTuple):
    r"""A Gram matrix: $M^\top M$, or $M M^\top$ if that is smaller.

    - `matrix`: `[*batch, s, s]`; the identity where `room` is infinite.
    - `mass`: `[*batch]`, its trace, $\|M\|_F^2$.
    - `room`: `[*batch]`: no eigenvalue is further from what is computed of it.
    """

    matrix: Float[Tensor, "*batch s s"]
    mass: Float[Tensor, "*batch"]
    room: Float[Tensor, "*batch"]

    @property
    def size(self) -> int:
        """The number of rows and of columns, $s$."""
        return self.matrix.shape[-1]


class Count(NamedTuple):
    """How many of some singular values exceed a cutoff.

    - `rank`: `[*batch]`, how many.
    - `least`: `[*batch]`, the least of those that the dimension allows.
    - `known`: `[*batch]`: the rank is beyond doubt and, if it is full, `least` is accurate.
    """

    rank: Int[Tensor, "*batch"]
    least: Float[Tensor, "*batch"]
    known: Bool[Tensor, "*batch"]


def gram(matrix: Float[Tensor, "*batch n d"]) -> Gram:
    """The [`Gram`][] matrix of the columns, or of the rows if there are fewer."""
    tall = matrix.shape[-2] >= matrix.shape[-1]
    product = matrix.mT @ matrix if tall else matrix @ matrix.mT
    return bounded(product, max(matrix.shape[-2:]))


def bounded(product: Float[Tensor, "*batch s s"], terms: int, times: float = 1.0) -> Gram:
    r"""The [`Gram`][] of a product each of whose entries is a sum of `terms` products.

    `times`: by what the error of the product is larger than $\gamma_k$ times its trace.
    """
    size = product.shape[-1]
    mass = product.diagonal(dim1=-2, dim2=-1).sum(dim=-1)
    room = (times * terms + size + 8) * UNIT * mass
    usable = (mass > 1 / _RANGE) & (mass < _RANGE)
    if not bool(usable.all()):
        product = product.where(usable[..., None, None], torch.eye(size).to(product))
        mass = mass.where(usable, 1.0)
        room = room.where(usable, torch.inf)
    return Gram(product, mass, room)


def shifted_factor(
    of: Gram, threshold: Float[Tensor, "*#batch"]
) -> tuple[Float[Tensor, "*batch s s"], Float[Tensor, "*batch"], Bool[Tensor, "*batch"]]:
    r"""The Cholesky factor of $G - t I$, $t$, and whether all eigenvalues are proven to exceed `threshold` by it.

    $t$ is `threshold` and `room`. The factor is of no use where nothing is proven.
    """
    shift = threshold + of.room
    # Infinity must not reach the factorisation; no eigenvalue exceeds the trace.
    possible = shift < of.mass
    shift = shift.where(possible, 0.0)
    # In the order in which factorisations want it: they would copy it otherwise, and it is symmetric.
    shifted = of.matrix.mT.expand(*possible.shape, of.size, of.size).clone().mT
    shifted.diagonal(dim1=-2, dim2=-1).sub_(shift[..., None])
    factor, definite = cholesky(shifted)
    return factor, shift, definite & possible


def exceeds(of: Gram, threshold: Float[Tensor, "*#batch"]) -> Bool[Tensor, "*batch"]:
    """Whether all eigenvalues are proven to exceed a threshold, by a Cholesky factorisation."""
    return shifted_factor(of, threshold)[2]


def full_rank(of: Gram, cutoff: Float[Tensor, "*#batch"]) -> Bool[Tensor, "*batch"]:
    """Whether all singular values are proven to exceed a cutoff, beyond doubt of the exact path too."""
    return exceeds(of, (cutoff * (1 + _SLACK)).square())


def count(
    squares: Float[Tensor, "*#batch s"],
    dimension: Int[Tensor, "*#batch"],
    scale: Float[Tensor, "*#batch"],
    cutoff: Float[Tensor, "*#batch"],
    room: Float[Tensor, "*#batch"],
    shift: Float[Tensor, "*#batch"] | float = 0.0,
    stretch: Float[Tensor, "*#batch"] | float = 0.0,
    blur: Float[Tensor, "*#batch"] | float = 0.0,
) -> Count:
    r"""How many singular values exceed a cutoff, given their squares with bounds of their errors.

    **Arguments:**

    - `squares`: $\hat\sigma^2$ in ascending order.
    - `dimension`: how many of them there are at most. Those below the greatest `dimension` are zero by
      construction, and not looked at.
    - `scale`, `cutoff`: the greatest singular value, and up to where one counts as zero.
    - `room`, `shift`, `stretch`: $\hat\sigma^2 = (\sigma (1 + \delta) + e)^2 + f$ with
      $|f| \le$ `room`, $|e| \le$ `shift`, $|\delta| \le$ `stretch`.
    - `blur`: singular values this close to the cutoff are left open in any case.
    """
    size = squares.shape[-1]
    most = dimension.clamp(max=size)
    above = _above(cutoff, shift, stretch, blur) + room
    below = (cutoff * (1 - _SLACK - stretch) - shift - blur).clamp(min=0.0).square() - room
    place = torch.arange(size, device=squares.device)
    structural = place < (size - most)[..., None]
    high = (squares > above[..., None]) & ~structural
    clear = (high | structural | (squares < below[..., None])).all(dim=-1)
    rank = high.sum(dim=-1)
    first = (size - most).clamp(max=size - 1)
    square = squares.expand(*rank.shape, size).gather(-1, first.expand(rank.shape)[..., None])[..., 0]
    accurate = _accurate(square, scale, room, shift, stretch)
    least = square.clamp(min=0.0).sqrt()
    return Count(rank, least, clear & ((rank < dimension) | (dimension == 0) | accurate))


def count_full(
    of: Gram,
    dimension: Int[Tensor, "*#batch"],
    scale: Float[Tensor, "*#batch"],
    cutoff: Float[Tensor, "*#batch"],
    shift: Float[Tensor, "*#batch"] | float = 0.0,
    stretch: Float[Tensor, "*#batch"] | float = 0.0,
    blur: Float[Tensor, "*#batch"] | float = 0.0,
) -> Count:
    """[`count`][] for matrices all of whose eigenvalues are above the cutoff, without computing them.

    A factorisation proves it, and the least eigenvalue follows from its factor. `known` nowhere else. Where there are
    fewer eigenvalues than `dimension`, and never are there more, the least is of no interest, and 0.
    """
    factor, moved, proven = shifted_factor(of, _above(cutoff, shift, stretch, blur))
    short = (dimension > of.size).expand(proven.shape)
    rank = dimension.clamp(max=of.size).expand(proven.shape)
    if bool(short.all()):
        return Count(rank, torch.zeros_like(of.mass), proven)
    if not bool(proven.all()):
        factor = factor.where(proven[..., None, None], torch.eye(of.size).to(factor))
    found = least_eigenvalue(factor)
    square = found.value + moved
    accurate = found.converged & _accurate(square, scale, of.room, shift, stretch)
    return Count(rank, square.sqrt().masked_fill(short, 0.0), proven & (short | accurate))


def _above(
    cutoff: Float[Tensor, "*#batch"],
    shift: Float[Tensor, "*#batch"] | float,
    stretch: Float[Tensor, "*#batch"] | float,
    blur: Float[Tensor, "*#batch"] | float,
) -> Float[Tensor, "*#batch"]:
    """The square that a singular value has to exceed, `room` aside."""
    return (cutoff * (1 + _SLACK + stretch) + shift + blur).square()


def _accurate(
    square: Float[Tensor, "*batch"],
    scale: Float[Tensor, "*#batch"],
    room: Float[Tensor, "*#batch"],
    shift: Float[Tensor, "*#batch"] | float,
    stretch: Float[Tensor, "*#batch"] | float,
) -> Bool[Tensor, "*batch"]:
    """Whether the root of a square is accurate enough for a margin."""
    least = square.clamp(min=0.0).sqrt()
    error = _TYPICAL * (0.5 * room / square + shift / least + stretch)
    return error < torch.maximum(least.new_tensor(_ACCURACY), (_FLOOR * scale / least).clamp(max=1e-3))


def greatest(squares: Float[Tensor, "*batch s"]) -> Float[Tensor, "*batch"]:
    """The greatest singular value of eigenvalues in ascending order."""
    return squares[..., -1].clamp(min=0.0).sqrt()


def row_factor(matrix: Float[Tensor, "*batch d e"]) -> Float[Tensor, "*batch d m"]:
    r"""$L$ with $L L^\top = M M^\top$, square or with fewer columns than rows.

    By Cholesky where that changes no singular value of any $A M$ by more than 1e-8 of itself (see above), from
    the thin $M^\top = Q R$ elsewhere.
    """
    if matrix.shape[-1] < matrix.shape[-2]:
        return triangle(matrix.mT).mT
    product = gram(matrix)
    safe = exceeds(product, product.room / _FACTOR)
    lower, _ = cholesky(product.matrix)
    if not bool(safe.all()):
        lower[~safe] = triangle(matrix[~safe].mT).mT
    return lower
