"""A batch as a list of heads, each with a list of rows."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from identiformer.identifiability.head import AttentionHead


@dataclass(frozen=True, eq=False)
class Layout:
    """How the batch of an [`AttentionHead`][] falls into heads and rows.

    The last batch dimensions along which keys, values, projection and visibility do not change are those of
    rows, the others those of heads: what does not depend on the row is then computed once a head, and rows
    of a head can be taken together in one product.

    - `heads`: the batch dimensions of heads.
    - `rows`: the batch dimensions of rows.
    """

    heads: torch.Size
    rows: torch.Size

    @staticmethod
    def of(head: AttentionHead) -> Layout:
        """The layout of a batch."""
        batch = head.batch_shape
        given = [(head.keys, 2), (head.values, 2), (head.mask, 1)]
        if head.output_projection is not None:
            given.append((head.output_projection, 2))
        shared = 0
        while shared < len(batch) and all(
            tensor.ndim - own <= shared or tensor.shape[tensor.ndim - own - shared - 1] == 1
            for tensor, own in given
        ):
            shared += 1
        return Layout(batch[: len(batch) - shared], batch[len(batch) - shared :])

    def by_head(self, tensor: Tensor, own: int = 0) -> Tensor:
        """`[*heads, *ones, ...]`, which may lack leading dimensions and broadcast, as `[H, ...]`.

        `own`: how many dimensions come after the batch.
        """
        before = max(tensor.ndim - own - len(self.rows), 0)
        after = tensor.shape[tensor.ndim - own :]
        compact = tensor.reshape((*tensor.shape[:before], *after))
        return compact.expand((*self.heads, *after)).reshape(self.heads.numel(), *after)

    def by_row(self, tensor: Tensor, own: int = 0) -> Tensor:
        """`[*batch, ...]` as `[H, R, ...]`."""
        after = tensor.shape[tensor.ndim - own :]
        return tensor.reshape(self.heads.numel(), self.rows.numel(), *after)

    def batch(self, tensor: Tensor, own: int = 0) -> Tensor:
        """`[H, R, ...]` or `[H, ...]`, which is the same for all rows of a head, as `[*batch, ...]`."""
        after = tensor.shape[tensor.ndim - own :]
        if tensor.ndim - own == 1:
            ones = (1,) * len(self.rows)
            return tensor.reshape((*self.heads, *ones, *after)).expand((*self.heads, *self.rows, *after))
        return tensor.reshape((*self.heads, *self.rows, *after))

    def list_of(self, head: AttentionHead, index: Int[Tensor, " k"]) -> AttentionHead:
        """Some heads as a list `[k]`, with one row that is uniform: what is asked of it does not depend on rows."""

        place = torch.unravel_index(index, (*self.heads, *(1 for _ in self.rows)))

        def pick(tensor: Tensor, own: int) -> Tensor:
            batch = tensor.shape[: tensor.ndim - own]
            if batch.numel() == 1:  # shared by all
                return tensor.reshape((1, *tensor.shape[tensor.ndim - own :]))
            aligned = place[len(place) - len(batch) :]
            return tensor[tuple(at * (size > 1) for at, size in zip(aligned, batch, strict=True))]

        visible: Bool[Tensor, "*#k n"] = pick(head.mask, 1)
        uniform: Float[Tensor, "k n"] = visible / visible.sum(dim=-1, keepdim=True, dtype=torch.float64)
        return AttentionHead(
            weights=uniform.expand(len(index), -1),
            keys=pick(head.keys, 2),
            values=pick(head.values, 2),
            output_projection=None if head.output_projection is None else pick(head.output_projection, 2),
            visible=visible,
            dtype=head.dtype,
        )
