"""A model run with other attention weights in place of its own, in one row of one head."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from identiformer.capturing.call import AttentionCall
from identiformer.capturing.interface import IMPLEMENTATION, reaches, watched_by, watching
from identiformer.capturing.loan import on_loan
from identiformer.capturing.observation import Observation
from identiformer.capturing.projection import LINEAR
from identiformer.errors import InputError


def run_with_weights(
    model: PreTrainedModel,
    inputs: Mapping[str, Tensor],
    *,
    layer: int,
    head: int,
    row: int,
    weights: Tensor,
) -> Any:
    """What a model gives for one text when a row of a head has these attention weights and all else is as ever.

    Args:
        model: A transformers model whose attention can be captured.
        inputs: What it is called with: one text.
        layer, head: As `CapturedLayer` numbers them.
        row: The position of the query.
        weights: `[n]`, as those of a captured head: the last one is that of the sink, where there is one.

    Returns:
        The model's output.

    Raises:
        InputError: If there is no such row, or the weights are of another number of tokens.
    """
    watcher = _Substitution(layer, head, row, weights.detach())
    with ExitStack() as stack:
        stack.enter_context(torch.no_grad())
        through_interface = reaches(model)
        stack.enter_context(on_loan(model, IMPLEMENTATION if through_interface else None))
        stack.enter_context(watched_by(watcher))
        for module in model.modules():
            if isinstance(module, LINEAR):
                stack.callback(module.register_forward_pre_hook(watcher.before_linear).remove)
        if not through_interface:
            stack.enter_context(Observation(watcher, 1))
        output = model(**inputs)
    if not watcher.done:
        raise InputError(f"layer {layer} of {type(model).__name__} has no output projection to change")
    return output


class _Substitution:
    """Waits for the attention of a layer, and changes what the linear layer receives that reads it.

    Attention itself is left alone: what the model computes on the way, in whatever way, stays what it was.
    """

    def __init__(self, layer: int, head: int, row: int, weights: Tensor):
        self.done = False
        self._layer, self._head, self._row, self._weights = layer, head, row, weights
        self._count = 0
        self._mixed: Tensor | None = None
        self._change: Tensor | None = None

    def attention(self, call: AttentionCall) -> None:
        """A call of attention, after it was computed."""
        number, self._count = self._count, self._count + 1
        self._mixed = None
        if number != self._layer:
            return
        texts, rows, heads, _ = call.mixed.shape
        if texts != 1 or not (0 <= self._row < rows and 0 <= self._head < heads):
            raise InputError(
                f"there is no row {self._row} of head {self._head} in one text: layer {self._layer} has {texts} texts, "
                f"{heads} heads and {rows} rows"
            )
        values = call.value[0, self._head * call.value.shape[1] // heads].double()  # [n, d_v]
        weights = self._weights.double()
        if call.sinks is not None:
            weights = weights[:-1]  # a sink has no value
        if weights.shape[0] != values.shape[0]:
            raise InputError(f"{weights.shape[0]} weights were given: the row sees {values.shape[0]} tokens")
        self._mixed = call.mixed.detach()
        self._change = (weights @ values).to(call.mixed.dtype) - self._mixed[0, self._row, self._head]

    def before_linear(self, _module: nn.Module, arguments: tuple[Any, ...]) -> tuple[Any, ...] | None:
        """A linear layer is about to run: change its input if it is what the layer's attention gave."""
        mixed, change = self._mixed, self._change
        if watching() is not self or mixed is None or change is None or not arguments:
            return None
        received = arguments[0]
        if not isinstance(received, Tensor):
            return None
        rows, heads, size = mixed.shape[1:]
        flat = received.reshape(-1, received.shape[-1])
        if flat.shape == (rows, heads * size) and torch.equal(flat, mixed[0].flatten(1).to(flat.dtype)):
            columns = slice(self._head * size, (self._head + 1) * size)
        elif flat.shape == (rows, size) and torch.allclose(flat, mixed[0].sum(dim=1).to(flat.dtype)):
            columns = slice(None)
        else:
            return None
        changed = flat.clone()
        changed[self._row, columns] += change.to(flat.dtype)
        self.done = True
        return (changed.reshape(received.shape), *arguments[1:])
