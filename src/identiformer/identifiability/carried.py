"""Whether the values of a head carry its keys."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from identiformer.identifiability.directions import KeySpace
from identiformer.identifiability.head import AttentionHead
from identiformer.identifiability.linalg import lengths, singular_values
from identiformer.identifiability.spectrum import Scale, Spectrum, centre, spectrum
from identiformer.identifiability.tolerance import ROUNDING, resolution, used_columns


def carries_keys(
    head: AttentionHead, keys: KeySpace, centred: Spectrum, scale: Scale
) -> Bool[Tensor, "*#batch"]:
    r"""Whether the columns of $K$ lie in the column space of $[T\ 1]$, in one of two ways:

    - seen in $T$ itself;
    - in that of $[V\ 1]$, where $D$ has full row rank: then $T = V D$ has the column space of $V$. That sees
      more where keys are carried softly, $V' = [V\ K]$ and $D' = [D; E]$ with a small $E$. When there are about
      as many tokens as columns of $V'$, $T$ has a singular value below its cutoff, whose direction may hold a
      part of the keys that is large beside rounding, though small by the measure of $E$.

    **Arguments:** `keys` of all visible tokens; `centred`: the spectrum of $T$ less the mean of its rows; `scale`: of
    $T$.
    """
    columns = centre(keys.coordinates, head.mask)
    carried = _within(columns, keys, centred, scale.cutoff, scale.greatest, head.eps)
    most = (head.tokens - 1).clamp(max=centred.singular.shape[-1])
    doubtful = ~carried & (centred.rank < most)
    if head.output_projection is None or not bool(doubtful.any()):
        return carried
    return carried | (doubtful & _carried_by_values(head, head.output_projection, keys, columns))


def _carried_by_values(
    head: AttentionHead,
    projection: Float[Tensor, "*#batch d_v d_e"],
    keys: KeySpace,
    columns: Float[Tensor, "*#batch n p"],
) -> Bool[Tensor, "*#batch"]:
    """Whether keys lie in the column space of $[V 1]$, and $D$ has full row rank, by columns of one size."""
    values = centre(head.values, head.mask)
    size = lengths(values, dim=-2)
    unit = values / size.where(size > 0, 1.0)[..., None, :]
    rows = singular_values(size[..., :, None] * projection)
    short, wide = projection.shape[-2:]
    if short > wide:
        return torch.zeros_like(columns[..., 0, 0], dtype=torch.bool)
    sizes = torch.tensor([short, wide], device=columns.device)
    full = rows[..., -1] > resolution(sizes[:1], sizes[1:], head.eps) * rows[..., 0]
    greatest = singular_values(unit)[..., 0]
    cutoff = resolution(head.tokens, used_columns(unit), head.eps).clamp(min=ROUNDING) * greatest
    return full & _within(columns, keys, spectrum(unit, cutoff), cutoff, greatest, head.eps)


def _within(
    columns: Float[Tensor, "*#batch n p"],
    keys: KeySpace,
    space: Spectrum,
    cutoff: Float[Tensor, "*#batch"],
    greatest: Float[Tensor, "*#batch"],
    eps: float,
) -> Bool[Tensor, "*#batch"]:
    r"""Whether keys lie in a column space.

    Of each principal direction of the centred keys, as a unit vector, the part outside of that space must be
    rounding noise: no more than what rounding may do to it, and less than $\sqrt\varepsilon$ besides, so that
    a direction which itself is hardly above the noise is not carried by default.
    """
    inside = space.left.mT @ columns
    outside = lengths(columns - space.left @ inside, dim=-2)
    # What our own arithmetic loses where the keys hang on small singular values.
    weakest = space.singular.where(space.singular > cutoff[..., None], torch.inf)
    hanging = lengths(inside / weakest[..., None], dim=-2) * greatest[..., None]
    arithmetic = (ROUNDING * (1 + hanging)).clamp(max=1e-8)
    return (outside <= torch.maximum(keys.noise.clamp(max=eps**0.5), arithmetic)).all(dim=-1)
