"""What counts as zero: the one place where the precision of the model decides about rank."""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from identiformer.identifiability.head import AttentionHead
from identiformer.identifiability.linalg import lengths

# What the arithmetic here may lose, relative to its greatest terms, as opposed to that of the model.
ROUNDING = 32 * torch.finfo(torch.float64).eps


def resolution(
    rows: Int[Tensor, "*#batch"], columns: Int[Tensor, "*#batch"], eps: float
) -> Float[Tensor, "*#batch"]:
    r"""The relative size below which a singular value counts as zero: $\max(\text{shape}) \cdot \varepsilon$.

    Capped at $\max(\varepsilon, 10^{-3})$. In bfloat16, $\max(\text{shape}) \cdot \varepsilon$ passes 1 at
    128 tokens and would call every matrix zero, though rounding moves its singular values by a fraction of
    $\varepsilon \sigma_{\max}$. For float32 the cap is out of reach below 8000 tokens.

    **Arguments:** `rows`, `columns`: the shape of the matrix, without padding; `eps`: of the model's dtype.

    **Source:** the rule is that of `numpy.linalg.matrix_rank`; Golub and Van Loan, Matrix Computations,
    5.4.1.
    """
    return (torch.maximum(rows, columns) * eps).clamp(max=max(eps, 1e-3)).to(torch.float64)


def used_columns(
    matrix: Float[Tensor, "*#batch n d"], mask: Bool[Tensor, "*#batch n"] | None = None
) -> Int[Tensor, "*#batch"]:
    """The number of columns that are not zero (in the rows of `mask`), so that padding does not count."""
    if mask is not None:
        matrix = matrix.masked_fill(~mask[..., None], 0.0)
    # The usual case: one row tells all. Otherwise, quicker than comparing each entry.
    full = (matrix[..., 0, :] != 0).sum(dim=-1)
    if bool((full == matrix.shape[-1]).all()):
        return full
    return ((matrix.amax(dim=-2) > 0) | (matrix.amin(dim=-2) < 0)).sum(dim=-1)


class OutputTolerance(NamedTuple):
    r"""What a singular value must exceed: `relative` $\sigma_{\max}(T)$ and `absolute`; see [`output_cutoff`][]."""

    relative: Float[Tensor, "*#batch"]
    absolute: Float[Tensor, "*#batch"]

    def cutoff(self, greatest: Float[Tensor, "*#batch"]) -> Float[Tensor, "*#batch"]:
        """Up to where a singular value counts as zero, given the greatest."""
        return torch.maximum(self.relative * greatest, self.absolute)


def output_cutoff(head: AttentionHead, greatest: Float[Tensor, "*#batch"]) -> Float[Tensor, "*#batch"]:
    r"""Singular values of $T^\top U$ up to this count as zero, at every level:

    $$\tau = \max(n, d_e) \cdot \varepsilon \cdot \sigma_{\max}(T),$$

    with the visible tokens for $n$, and for $d_e$ the columns of $D$ (of $V$ where there is no $D$) that are
    not zero. The scale is that of $T$, not of $T^\top U$: where all tokens have the same $T$, $T^\top U$ on
    the simplex is nothing but rounding noise, and compared with itself it would have full rank. With one
    $\tau$ for all levels their nullities are nested, by interlacing.

    Where the product $V D$ cancels, $\sigma_{\max}(T)$ may itself be noise. $\tau$ is therefore at least the error of
    that product in the model's precision ([`product_error`][]).

    **Arguments:** `greatest`: $\sigma_{\max}(T)$.
    """
    return output_tolerance(head).cutoff(greatest)


def output_tolerance(head: AttentionHead) -> OutputTolerance:
    """What of [`output_cutoff`][] does not depend on the greatest singular value."""
    projection = head.output_projection
    values = head.visible_values
    columns = used_columns(values if projection is None else projection)
    # Our own arithmetic needs a few roundings too, which matters for tiny float64 heads only.
    relative = resolution(head.tokens, columns, head.eps).clamp(min=ROUNDING)
    if projection is None:
        return OutputTolerance(relative, torch.zeros_like(relative))
    terms = lengths(values, dim=-2) * lengths(projection, dim=-1)
    return OutputTolerance(relative, product_error(terms, head.tokens, columns, head.eps))


def product_error(
    terms: Float[Tensor, "*#batch d_v"],
    rows: Int[Tensor, "*#batch"],
    columns: Int[Tensor, "*#batch"],
    eps: float,
) -> Float[Tensor, "*#batch"]:
    r"""What rounding in the model does to the singular values of a product $V D$.

    At most $\varepsilon \sum_j \|V_{:j}\| \|D_{j:}\|$. In half precisions that bound passes $\sigma_{\max}(V D)$
    itself, though nothing cancels. There, it is what independent roundings of $V$ do: an error matrix $E$ with
    $\|E\|_F^2 = \varepsilon^2 \sum_j \|V_{:j}\|^2 \|D_{j:}\|^2$ and entries of one size has
    $\sigma_{\max}(E) \approx (n^{-1/2} + d_e^{-1/2}) \|E\|_F$.

    **Arguments:** `terms`: $\|V_{:j}\| \|D_{j:}\|$; `rows`, `columns`: the shape of the product, without padding;
    `eps`: of the model's dtype.

    **Source:** for the largest singular value of a random matrix, Vershynin, High-Dimensional Probability, section 4.4.
    """
    if eps <= torch.finfo(torch.float32).eps:
        return max(eps, ROUNDING) * terms.sum(dim=-1)
    spread = rows.clamp(min=1) ** -0.5 + columns.clamp(min=1) ** -0.5
    return eps * spread * lengths(terms)
