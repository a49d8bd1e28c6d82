"""Which query rows of each text are captured."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from identiformer.capturing.visibility import Visibility
from identiformer.errors import InputError

Rows = Literal["pooled", "all"] | int


@dataclass(frozen=True, eq=False)
class Queries:
    """The query rows that a batch has.

    Args:
        real: The rows that are no padding, `[texts, rows]`.
        causal: Whether no row sees a later token.
    """

    real: Tensor
    causal: bool

    @classmethod
    def of_self_attention(cls, seen: Visibility, texts: int, rows: int) -> Queries:
        """Where rows and tokens are the same: a token that no row sees is padding."""
        visible = seen.visible.expand(texts, -1, rows, -1).any(dim=1)  # [texts, rows, n]
        if visible.shape[1] != visible.shape[2]:  # tokens before the rows, of a cache or a prefix
            return cls.all(texts, rows, visible.device)
        return cls(visible.any(dim=1), not bool(visible.triu(diagonal=1).any()))

    @classmethod
    def all(cls, texts: int, rows: int, device: torch.device) -> Queries:
        """Rows of which none is padding, as far as is known."""
        return cls(torch.ones(texts, rows, dtype=torch.bool, device=device), causal=False)

    def positions(self, rows: Rows) -> Tensor:
        """The positions of the rows wanted, `[texts, R]`; -1 where a text has fewer than others.

        Args:
            rows: `pooled`: the last row where no row sees a later token, and the first one elsewhere. `all`, or a
                number: that many, from the first.
        """
        count = self.real.sum(dim=1)  # [texts]
        if rows == "pooled":
            order = torch.arange(self.real.shape[1], device=self.real.device)
            last = torch.where(self.real, order, -1).amax(dim=1)
            first = self.real.long().argmax(dim=1).where(count > 0, -1)
            return (last if self.causal else first)[:, None]
        most = int(count.max()) if rows == "all" else min(int(rows), int(count.max()))
        # Real rows before padding, in their order.
        ordered = (~self.real).long().argsort(dim=1, stable=True)[:, :most]
        beyond = torch.arange(most, device=count.device) >= count[:, None]
        return ordered.masked_fill(beyond, -1)


def check_rows(rows: Rows) -> None:
    """Raise an `InputError` where `rows` is nothing that can be asked for."""
    if rows in ("pooled", "all") or (isinstance(rows, int) and not isinstance(rows, bool) and rows > 0):
        return
    raise InputError(f"rows is {rows!r}: give 'pooled', 'all', or how many rows of each text, from the first")


def filled(positions: Tensor) -> Tensor:
    """Positions with the text's first one in place of -1."""
    return torch.where(positions < 0, positions[:, :1], positions).clamp(min=0)
