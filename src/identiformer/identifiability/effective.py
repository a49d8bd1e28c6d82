"""The part of the attention weights that the output depends on."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from identiformer.identifiability.head import AttentionHead
from identiformer.identifiability.layout import Layout
from identiformer.identifiability.linalg import split
from identiformer.identifiability.pieces import at_once, halves_by_head
from identiformer.identifiability.quick_effective import quick_effective
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
    return project_weights(head, keep_sum)


def project_weights(
    head: AttentionHead, keep_sum: bool = False, quick: bool = True
) -> Float[Tensor, "*batch n"]:
    """[`effective_attention`][], or with `quick=False` by the exact path throughout, which agrees to 1e-8."""
    parts = halves_by_head(head)
    if parts is not None:
        both = [project_weights(part, keep_sum, quick) for part in (parts.one, parts.other)]
        return torch.cat(both, dim=parts.dimension)
    layout = Layout.of(head)
    if quick:
        found, settled = quick_effective(head, layout, keep_sum)
    else:
        found = layout.by_row(head.weights, 1)
        settled = torch.zeros(len(found), dtype=torch.bool, device=found.device)
    rest = (~settled).nonzero()[:, 0]
    if len(rest):
        each = head.keys.shape[-2] * (4 * head.values.shape[-1] + found.shape[1])
        exact = [
            _exact(layout.list_of(head, index), found[index], keep_sum)
            for index in split(rest, at_once(each))
        ]
        found = found.index_put((rest,), torch.cat(exact))
    return layout.batch(found, 1).masked_fill(~head.mask, 0.0)


def _exact(head: AttentionHead, weights: Float[Tensor, "k R n"], keep_sum: bool) -> Float[Tensor, "k R n"]:
    cutoff = output_scale(head).cutoff
    matrix = centre(head.reduced, head.mask) if keep_sum else head.reduced
    left = spectrum(matrix, cutoff).left
    inside = (weights @ left) @ left.mT
    if keep_sum:
        # The ones vector is orthogonal to the centred columns: its share is the mean.
        inside = inside + weights.sum(dim=-1, keepdim=True) / head.tokens[:, None, None]
    return inside
