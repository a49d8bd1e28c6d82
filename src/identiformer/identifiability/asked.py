"""Which weights a question is about: those of single tokens, or the totals of groups of tokens."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
import torch
from jaxtyping import Int
from numpy.typing import NDArray
from torch import Tensor

from identiformer.errors import InputError
from identiformer.identifiability.head import AttentionHead
from identiformer.identifiability.polytope import RowPolytope

# Up to here two weights are the same.
_SAME = 1e-9
# Numbers that no token has are groups without weight; more of them than this are a mistake, and would fill the memory.
_GROUPS_A_TOKEN = 100


def check_groups(groups: Int[Tensor, " n"], tokens: int) -> int:
    """How many groups there are.

    **Raises:** `InputError` for groups of another shape than `[tokens]`, or of negative numbers other than -1.
    """
    if tuple(groups.shape) != (tokens,):
        raise InputError(
            f"groups have shape {tuple(groups.shape)} and the row has {tokens} tokens: "
            f"give them shape ({tokens},), a group for each token"
        )
    if bool((groups < -1).any()):
        raise InputError(
            f"groups hold {int(groups.min())}: count groups from 0, and give -1 to tokens in none"
        )
    if int(groups.max()) >= _GROUPS_A_TOKEN * tokens:
        raise InputError(
            f"groups have numbers up to {int(groups.max())} for {tokens} tokens: count groups from 0"
        )
    return int(groups.max()) + 1


_Greatest = TypeVar("_Greatest", float, Tensor)


def equal_up_to(greatest: _Greatest, eps: float) -> _Greatest:
    r"""By how much weights of a row may differ that count as equal: less than the model can tell.

    **Arguments:** `greatest`: the greatest of them, of one row or of many; `eps`: of the model's dtype.
    """
    if isinstance(greatest, Tensor):
        return (eps * greatest).clamp(min=_SAME)
    return max(_SAME, eps * greatest)


class Asked:
    """The tokens, or groups of tokens, of one row.

    **Arguments:**

    - `head`: one row, without batch dimensions.
    - `polytope`: its own.
    - `groups`: `[n]`, the number of each token's group, counted from 0; -1 for tokens that are in none. `None`:
      each token is asked about on its own.

    **Attributes:**

    - `totals`: `[g, visible]`, for each visible token, or each group, a 1 for the tokens that count.
    - `numbers`: `[g]`, which tokens, or groups, those are.

    **Raises:** `InputError` for groups of another shape, or of negative numbers other than -1.
    """

    def __init__(
        self, head: AttentionHead, polytope: RowPolytope, groups: Int[Tensor, " n"] | None = None
    ) -> None:
        tokens = head.weights.shape[-1]
        if groups is None:
            self.numbers, self.length = polytope.visible, tokens
            self.totals = np.eye(len(polytope.weights))
        else:
            self.length = check_groups(groups, tokens)
            self.numbers = np.arange(self.length)
            members = groups.cpu().numpy()[polytope.visible] == self.numbers[:, None]
            self.totals = members.astype(np.float64)
        self._device = head.weights.device
        self._room = equal_up_to(float(self.of(polytope.weights).max(initial=0.0)), head.eps)

    def of(self, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        """The weights asked about, in rows of weights of the visible tokens: `[..., g]`."""
        return rows @ self.totals.T

    def on_top(self, rows: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Which of them carry the greatest weight in one of the rows: `[g]`.

        Weights count as equal that differ by less than the model can tell.
        """
        weights = np.atleast_2d(self.of(rows))
        return (weights >= weights.max(axis=-1, keepdims=True, initial=0.0) - self._room).any(axis=0)

    def in_reach(self, upper: NDArray[np.float64], floor: float) -> NDArray[np.bool_]:
        """Which of them may weigh as much as some other one always does."""
        return upper >= floor - self._room

    def spread(self, values: NDArray[Any]) -> Tensor:
        """Values at the places of tokens, `[n]`, or groups; 0 for tokens that are not visible."""
        spread = np.zeros(self.length, dtype=values.dtype)
        spread[self.numbers] = values
        return torch.as_tensor(spread, device=self._device)

    def gather(self, values: Tensor) -> NDArray[Any]:
        """The other way round."""
        return values.cpu().numpy()[self.numbers]
