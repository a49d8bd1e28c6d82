"""Attention captured from a batch that is ready for the model."""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from contextlib import ExitStack
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel

from identiformer.capturing.handoff import one_at_a_time
from identiformer.capturing.interface import IMPLEMENTATION, reaches, watched_by
from identiformer.capturing.layer import CapturedLayer
from identiformer.capturing.loan import on_loan
from identiformer.capturing.observation import Observation
from identiformer.capturing.recorder import Recorder
from identiformer.capturing.rows import Rows, check_rows
from identiformer.errors import InputError

Give = Callable[[CapturedLayer], None]


def capture_inputs(
    model: PreTrainedModel,
    inputs: Mapping[str, Tensor],
    *,
    rows: Rows = "pooled",
    layers: Collection[int] | None = None,
    heads: Collection[int] | None = None,
) -> Generator[CapturedLayer, None, None]:
    """The attention heads with which a model computes on one batch.

    As [`capture`][identiformer.capturing.capture], for what a tokenizer or an image processor has already made.

    Args:
        model: A transformers model.
        inputs: What it is called with, on its device; texts padded on either side, with an `attention_mask`.
        rows, layers, heads: As of `capture`.

    Returns:
        A generator of layers, in the order in which the model runs them.

    Raises:
        InputError: As `capture`.
    """
    check_rows(rows)
    texts = range(len(next(iter(inputs.values()), ())))
    wanted = Wanted(model, rows, layers, heads)
    return one_at_a_time(lambda give: wanted.capture(inputs, texts, give))


class Wanted:
    """What to capture of a model, batch after batch.

    Args:
        model: The model.
        rows, layers, heads: As of `capture`.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        rows: Rows,
        layers: Collection[int] | None,
        heads: Collection[int] | None,
    ):
        self._model = model
        self._rows: Rows = rows
        self._layers = None if layers is None else set(layers)
        self._heads = heads
        if rows == "pooled":
            _check_pooled(model)

    def capture(self, inputs: Mapping[str, Tensor], texts: Sequence[int], give: Give) -> None:
        """Run the model on a batch, and hand each of its layers to `give` before the next one is computed."""
        if self._layers is not None and min(self._layers, default=0) < 0:
            # From the end; how many there are, a first run tells.
            count = self._run(inputs, (), texts, give)
            self._layers = {self._number(layer, count) for layer in self._layers}
        count = self._run(inputs, self._layers, texts, give)
        for layer in self._layers or ():
            self._number(layer, count)

    def _run(
        self, inputs: Mapping[str, Tensor], layers: Collection[int] | None, texts: Sequence[int], give: Give
    ) -> int:
        """One forward pass; the number of its attention layers."""
        recorder = Recorder(self._model, self._rows, layers, self._heads, texts, _decoded(inputs), give)
        with ExitStack() as stack:
            stack.enter_context(torch.no_grad())
            through_interface = reaches(self._model)
            stack.enter_context(on_loan(self._model, IMPLEMENTATION if through_interface else None))
            stack.enter_context(watched_by(recorder))
            recorder.watch_linears(stack)
            if not through_interface:
                stack.enter_context(Observation(recorder, len(texts)))
            model: Any = self._model
            model(**inputs)
            recorder.finish()
        if not recorder.count:
            raise InputError(
                f"{type(self._model).__name__} computed without any attention that could be captured: is it a "
                "transformer with softmax attention?"
            )
        return recorder.count

    def _number(self, layer: int, count: int) -> int:
        if not -count <= layer < count:
            raise InputError(f"there is no layer {layer}: the model has layers 0 to {count - 1}")
        return layer % count


def _decoded(inputs: Mapping[str, Tensor]) -> Tensor | None:
    """Where the decoder's padding is, if it is given the text itself: classifiers do that, and give it no mask."""
    if any(name.startswith("decoder_") for name in inputs) or "attention_mask" not in inputs:
        return None
    return inputs["attention_mask"].bool()


def _check_pooled(model: PreTrainedModel) -> None:
    """Refuse `pooled` where a classifier is known to read the mean of all rows."""
    if getattr(model.config, "classifier_pooling", None) == "mean" and hasattr(model, "classifier"):
        raise InputError(
            f"{type(model).__name__} classifies the mean of all rows (classifier_pooling): there is no pooled row; "
            "ask for rows 'all' or a number"
        )
