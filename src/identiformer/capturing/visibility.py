"""From what is added to the logits to the tokens that a row sees, and to the bias of those."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from identiformer.capturing.call import AttentionCall

# A bias this far below the greatest of its row leaves a weight of exactly zero in every floating-point type, unless
# logits differ by thousands. Masks of older models write it for tokens that are not to be seen.
_HIDDEN = 1e4


@dataclass(frozen=True, eq=False)
class Visibility:
    """What a call adds to its logits, taken apart.

    Args:
        visible: The tokens that each row sees, `[texts or 1, heads or 1, rows or 1, n]`.
        bias: What is added to the logits of those, of a shape of that kind, and 0 elsewhere; `None`: nothing.
    """

    visible: Tensor
    bias: Tensor | None

    def at(self, rows: Tensor) -> Visibility:
        """That of some rows: `rows` `[texts, R]`."""
        bias = None if self.bias is None else rows_of(self.bias, rows)
        return Visibility(rows_of(self.visible, rows), bias)


def visibility(call: AttentionCall) -> Visibility:
    """What the rows of a call see.

    A token is hidden from a row where a boolean mask says so, and where a mask that is added to the logits holds minus
    infinity, or the least number of its type, or one that is lower by 10,000 than the greatest of its row. All
    other numbers are bias.
    """
    shape = (1, 1, 1, call.key.shape[2])
    visible = torch.ones(shape, dtype=torch.bool, device=call.query.device)
    bias: Tensor | None = None
    for added in call.added:
        added = added[(None,) * (4 - added.ndim)]
        if added.dtype == torch.bool:
            visible = visible & added
            continue
        seen = added > added.amax(dim=-1, keepdim=True) - _HIDDEN
        # A row whose tokens are all hidden has no greatest one to compare with.
        seen &= added > torch.finfo(added.dtype).min / 2
        visible = visible & seen
        kept = added.double().masked_fill(~seen, 0.0)
        bias = kept if bias is None else bias + kept
    if bias is not None:
        bias = bias.masked_fill(~visible, 0.0)
        bias = _without_repeats(bias) if bool((bias != 0).any()) else None
    return Visibility(_without_repeats(visible), bias)


def rows_of(tensor: Tensor, rows: Tensor) -> Tensor:
    """Some rows of a tensor: `[texts or 1, heads, all rows, m]` and `rows` `[texts, R]` -> `[texts, heads, R, m]`.

    What is the same for all rows, `[texts, heads, 1, m]`, stays as it is.
    """
    if tensor.shape[2] == 1:
        return tensor
    texts, (heads, m) = rows.shape[0], (tensor.shape[1], tensor.shape[3])
    index = rows[:, None, :, None].expand(texts, heads, rows.shape[1], m)
    return tensor.expand(texts, *tensor.shape[1:]).gather(2, index)


def _without_repeats(tensor: Tensor) -> Tensor:
    """One head, and one row, where all are equal: what hangs on them is then computed once."""
    for dimension in (1, 2):
        first = tensor.narrow(dimension, 0, 1)
        if bool((tensor == first).all()):
            tensor = first
    return tensor
