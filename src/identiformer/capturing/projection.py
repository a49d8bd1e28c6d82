"""The output projection of a layer: the linear layer that receives what attention gave, found by watching."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from transformers.pytorch_utils import Conv1D

from identiformer.capturing.rounding import epsilon
from identiformer.capturing.visibility import rows_of

LINEAR = (nn.Linear, Conv1D)

_NONE = "no linear layer receives what attention gave, as it was given (a gate or a norm between?)"
_SEVERAL = "several linear layers receive what attention gave (an adapter?): none of them alone projects it"
_NO_NUMBERS = (
    "attention gave NaN or infinity: the model's weights, or what it computes of these texts, are no numbers"
)
_OTHER = "the linear layer that receives what attention gave computes something else than x W + b from it"


@dataclass(frozen=True, eq=False)
class Projection:
    """The output projection of each head, or why there is none.

    Args:
        matrix: `[heads, d_v, d_e]`, or `[1, d_v, d_e]` where heads are added up before it; `None`: see `reason`.
        reason: Why there is none, in one line.
    """

    matrix: Tensor | None
    reason: str = ""


class ProjectionSearch:
    """Waits for the linear layers after a call of attention.

    What a linear layer receives is compared by its numbers, with the heads' outputs side by side and with their sum.
    Neither names nor the order of modules play a part.

    Args:
        mixed: What attention gave, `[texts, rows, heads, d_v]`.
        rows: The rows to compare, `[texts, R]`.
    """

    def __init__(self, mixed: Tensor, rows: Tensor):
        self._shape = mixed.shape
        self._rows = rows
        chosen = rows_of(mixed.transpose(1, 2), rows).transpose(1, 2)  # [texts, R, heads, d_v]
        self._side_by_side = chosen.flatten(2)
        self._sum = chosen.sum(dim=2)
        self._numbers = bool(chosen.isfinite().all())
        self._found: list[Projection] = []

    @property
    def found(self) -> bool:
        """Whether a layer received it."""
        return bool(self._found)

    def offer(self, linear: nn.Module, received: Tensor, given: Tensor) -> bool:
        """A linear layer ran: whether it received what attention gave.

        Args:
            linear: The layer.
            received, given: Its input and output, `[texts, rows, m]`, or with the first two dimensions as one.
        """
        texts, rows, heads, size = self._shape
        width = received.shape[-1]
        if width not in (heads * size, size) or received.numel() != texts * rows * width:
            return False
        received = self._chosen(received)
        if _same(received, self._side_by_side):
            self._found.append(_read(linear, received, self._chosen(given), heads))
        elif _same(received, self._sum, slack=heads * torch.finfo(received.dtype).eps):
            self._found.append(_read(linear, received, self._chosen(given), 1))
        else:
            return False
        return True

    def result(self) -> Projection:
        """What was found."""
        if not self._numbers:  # NaN is like nothing, itself included: no layer would be found
            return Projection(None, _NO_NUMBERS)
        if len(self._found) > 1:
            return Projection(None, _SEVERAL)
        return self._found[0] if self._found else Projection(None, _NONE)

    def _chosen(self, tensor: Tensor) -> Tensor:
        """`[texts, rows, m]` or `[texts * rows, m]` -> `[texts, R, m]`, with the rows to compare."""
        texts, rows = self._shape[:2]
        return rows_of(tensor.reshape(texts, 1, rows, tensor.shape[-1]), self._rows)[:, 0]


def _same(received: Tensor, expected: Tensor, slack: float = 0.0) -> bool:
    """Whether the numbers are the same, but for a share `slack` of the greatest."""
    if received.shape != expected.shape:
        return False
    expected = expected.to(received.dtype)
    if not slack:
        return torch.equal(received, expected)
    return bool(((received - expected).abs() <= slack * expected.abs().max()).all())


def _read(linear: nn.Module, received: Tensor, given: Tensor, heads: int) -> Projection:
    r"""The matrix of a linear layer, once its output is what the matrix makes of its input.

    The input is that of all heads, so this is also the check that they add up: with `x` the heads' outputs side by
    side, $x W + b = \sum_h a_h V_h D_h + b$.
    """
    weight, bias = getattr(linear, "weight", None), getattr(linear, "bias", None)
    width, size = received.shape[-1], given.shape[-1]
    if not isinstance(weight, Tensor) or sorted(weight.shape) != sorted((width, size)):
        return Projection(None, _OTHER)
    matrix = weight.detach().double()
    if isinstance(linear, nn.Linear):
        matrix = matrix.mT  # it keeps its matrix as [d_e, m], Conv1D as [m, d_e]
    x, total = received.double(), given.double()
    expected, bound = x @ matrix, x.abs() @ matrix.abs()
    if bias is not None:
        expected, bound = expected + bias.detach().double(), bound + bias.detach().double().abs()
    off = (expected - total).abs()
    # The input was rounded to its type, and so is each product and each of the sums, whose errors are independent.
    if not bool((off <= max(8.0, width**0.5) * epsilon(given.dtype) * bound).all()):
        return Projection(None, _OTHER)
    return Projection(matrix.reshape(heads, width // heads, size))
