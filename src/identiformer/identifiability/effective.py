"""The part of the attention weights that the output depends on."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from identiformer.identifiability.head import AttentionHead
from identiformer.identifiability.pieces import halves
from identiformer.identifiability.spectrum import centre, output_scale, spectrum


def effective_attention(head: AttentionHead, keep_sum: bool = False) -> Float[Tensor, "*batch n"]:
    r"""$a \Pi$ with $\Pi$ the orthogonal projector onto the column space of $T$, so that $(a \Pi) T = a T$.

    It is what is left of $a$ after removing the part in the null space of $T^\top$, which the output does not
    see. It is not a distribution: entries can be negative.

    **Arguments:**

    - `head`: of any batch shape.
    - `keep_sum`: project onto the column space of $[T\ 1]$ instead, which keeps the sum of the weights.

    **Returns:** `[*batch, n]`, 0 for tokens that are not visible. Directions whose singular value counts as
    zero ([`output_cutoff`][]) are left out, so $(a \Pi) T = a T$ holds to the precision of the model.

    **Source:** Brunner et al. 2020 (arXiv 1908.04211), section 3.2.
    """
    parts = halves(head)
    if parts is not None:
        both = [effective_attention(part, keep_sum) for part in (parts.one, parts.other)]
        return torch.cat(both, dim=parts.dimension)
    cutoff = output_scale(head).cutoff
    matrix = centre(head.reduced, head.mask) if keep_sum else head.reduced
    left = spectrum(matrix, cutoff).left
    inside = (left @ (left.mT @ head.weights[..., None]))[..., 0]
    if keep_sum:
        # The ones vector is orthogonal to the centred columns: its share is the mean.
        inside = inside + head.weights.sum(dim=-1, keepdim=True) / head.tokens[..., None]
    return inside.masked_fill(~head.mask, 0.0)
