"""The column space of T, once with and once without the ones vector."""

from __future__ import annotations

from typing import NamedTuple

from jaxtyping import Bool, Float, Int
from torch import Tensor

from identiformer.identifiability.head import AttentionHead
from identiformer.identifiability.linalg import singular_values, svd
from identiformer.identifiability.tolerance import output_cutoff


class Spectrum(NamedTuple):
    r"""The thin factorisation of a matrix with its rank decided: $W = L \, \mathrm{diag}(\sigma) \, R^\top$.

    - `left`: `[*batch, n, m]`, $L$; columns beyond the rank are zero, so $L L^\top$ is the projector.
    - `singular`: `[*batch, m]`, $\sigma$, all of them, in descending order.
    - `rank`: `[*batch]`.
    """

    left: Float[Tensor, "*#batch n m"]
    singular: Float[Tensor, "*#batch m"]
    rank: Int[Tensor, "*#batch"]


class Scale(NamedTuple):
    r"""What singular values of a head are measured by.

    - `singular`: `[*batch, m]`, those of $T$.
    - `greatest`: `[*batch]`, $\sigma_{\max}(T)$.
    - `cutoff`: `[*batch]`, up to where a singular value counts as zero.
    """

    singular: Float[Tensor, "*#batch m"]
    greatest: Float[Tensor, "*#batch"]
    cutoff: Float[Tensor, "*#batch"]


def output_scale(head: AttentionHead) -> Scale:
    """The singular values of $T$, and up to where they count as zero."""
    singular = singular_values(head.reduced)
    greatest = singular[..., 0]
    return Scale(singular, greatest, output_cutoff(head, greatest))


def centre(
    matrix: Float[Tensor, "*#batch n d"], mask: Bool[Tensor, "*#batch n"]
) -> Float[Tensor, "*#batch n d"]:
    r"""$(I - \tfrac1n 1 1^\top) M$ over the rows of `mask`, zero elsewhere.

    Its singular values are those of $U^\top M$ for any orthonormal basis $U$ of $\{v : \sum v = 0\}$, with a
    zero for the direction that is missing: the basis itself, $n \times (n - 1)$, is never formed.
    """
    outside = ~mask[..., None]
    count = mask.sum(dim=-1)[..., None, None]
    # Twice, since a large common part leaves a rounding error that is again common.
    for _ in range(2):
        matrix = matrix.masked_fill(outside, 0.0)
        matrix = matrix - matrix.sum(dim=-2, keepdim=True) / count
    return matrix.masked_fill(outside, 0.0)


def spectrum(matrix: Float[Tensor, "*#batch n d"], cutoff: Float[Tensor, "*#batch"]) -> Spectrum:
    """The [`Spectrum`][] of a matrix whose singular values up to `cutoff` count as zero."""
    left, singular, _ = svd(matrix)
    kept = singular > cutoff[..., None]
    return Spectrum(left * kept[..., None, :], singular, kept.sum(dim=-1))
