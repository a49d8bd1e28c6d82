"""A forward pass watched: attention calls numbered, joined with their output projections, and handed out."""

from __future__ import annotations

import dataclasses
from collections import deque
from collections.abc import Callable, Collection, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from identiformer.capturing.call import AttentionCall
from identiformer.capturing.heads import verified_heads
from identiformer.capturing.interface import watching
from identiformer.capturing.layer import CapturedLayer, Kind
from identiformer.capturing.projection import LINEAR, ProjectionSearch
from identiformer.capturing.rows import Queries, Rows, filled
from identiformer.capturing.visibility import Visibility, visibility
from identiformer.errors import InputError

_NO_ROW = (
    "in the encoder of an encoder-decoder no row stands for the text, the decoder reads them all: ask for rows 'all' "
    "or a number"
)


@dataclass(frozen=True, eq=False)
class _Pending:
    """A call whose output projection is not known yet."""

    layer: int
    kind: Kind
    call: AttentionCall
    seen: Visibility
    positions: Tensor
    search: ProjectionSearch


class Recorder:
    """Watches one forward pass and hands out its layers, each before the next one is computed.

    Args:
        model: The model.
        rows: Which rows of each text.
        layers: Numbers of layers wanted, none negative; `None`: all.
        heads: Numbers of heads wanted in each; `None`: all.
        texts: Which texts the batch holds.
        decoded: Which rows of the decoder are no padding, `[texts, rows]`, where the decoder is given the text itself
            and no mask.
        give: What is called with each layer.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        rows: Rows,
        layers: Collection[int] | None,
        heads: Collection[int] | None,
        texts: Sequence[int],
        decoded: Tensor | None,
        give: Callable[[CapturedLayer], None],
    ):
        self.count = 0
        self._model = model
        self._rows: Rows = rows
        self._layers = layers
        self._heads = heads
        self._texts = tuple(texts)
        self._decoded = decoded
        self._give = give
        self._pending: _Pending | None = None
        # Rows, and of which kind of attention: known from the first call of each on, whether it is wanted or not.
        self._queries: Queries | None = None
        self._queries_kind: Kind | None = None
        self._decoder = _decoder_modules(model)
        self._kinds: list[Kind] = []
        self._without_row: list[int] = []  # layers that were wanted, and have no pooled row
        # Inputs and outputs of the last linear layers: they tell where queries and values come from.
        self._linears: deque[tuple[nn.Module, Tensor, Tensor]] = deque(maxlen=4)

    def watch_linears(self, stack: ExitStack) -> None:
        """Watch every linear layer of the model until `stack` is left."""

        def hook(module: nn.Module, args: tuple[Any, ...], output: Any) -> None:
            if watching() is self and args and isinstance(args[0], Tensor) and isinstance(output, Tensor):
                with torch._C.DisableTorchFunction():  # what is done here is none of the model's doing
                    self._linear(module, args[0], output)

        for module in self._model.modules():
            if isinstance(module, LINEAR):
                stack.callback(module.register_forward_hook(hook).remove)

    def attention(self, call: AttentionCall) -> None:
        """A call of attention."""
        self._close()
        number, self.count = self.count, self.count + 1
        kind = self._kind(call)
        self._kinds.append(kind)
        self._linears.clear()
        wanted = self._layers is None or number in self._layers
        if not wanted and kind in ("cross", self._queries_kind):
            return
        texts, _, rows, _ = call.query.shape
        if texts != len(self._texts):
            call = dataclasses.replace(call, broken=f"it is computed of {texts} parts and not of whole texts")
        if call.broken:
            if wanted:
                self._refuse(number, kind, call)
            return
        seen = visibility(call)
        queries = self._rows_of_call(kind, seen, texts, rows)
        if not wanted:
            return
        if kind == "self" and self._decoder and self._rows == "pooled":
            self._without_row.append(number)
            self._refuse(number, kind, dataclasses.replace(call, broken=_NO_ROW))
            return
        positions = queries.positions(self._rows)
        search = ProjectionSearch(call.mixed, filled(positions))
        self._pending = _Pending(number, kind, call, seen, positions, search)

    def _rows_of_call(self, kind: Kind, seen: Visibility, texts: int, rows: int) -> Queries:
        """The rows that a call has: in `cross`, those of the attention to the decoder's own tokens before it."""
        if kind != "cross" or self._queries is None:
            self._queries, self._queries_kind = Queries.of_self_attention(seen, texts, rows), kind
            if kind == "decoder" and self._decoded is not None and self._decoded.shape == (texts, rows):
                self._queries = Queries(self._decoded, causal=True)
        if self._queries.real.shape != (texts, rows):
            return Queries.all(texts, rows, seen.visible.device)
        return self._queries

    def finish(self) -> None:
        """The forward pass has ended."""
        self._close()
        if self._layers is not None and self._without_row:
            named = ", ".join(map(str, self._without_row))
            others = [number for number, kind in enumerate(self._kinds) if kind != "self"]
            raise InputError(
                f"layer{'s' if len(self._without_row) > 1 else ''} {named}: {_NO_ROW}, or for layers out of "
                f"{', '.join(map(str, others))}"
            )

    def _linear(self, module: nn.Module, received: Tensor, given: Tensor) -> None:
        self._linears.append((module, received, given))
        if self._pending is None:
            return
        search = self._pending.search
        if not search.offer(module, received.detach(), given.detach()) and search.found:
            self._close()

    def _close(self) -> None:
        """Hand out the pending layer. Not at once when its projection is found: another layer may receive the same."""
        pending, self._pending = self._pending, None
        if pending is None:
            return
        wanted = self._wanted_heads(pending.layer, pending.call)
        result = verified_heads(
            pending.call, pending.seen, filled(pending.positions), pending.search.result(), wanted
        )
        self._give(
            CapturedLayer(
                layer=pending.layer,
                kind=pending.kind,
                heads=result.heads,
                head_numbers=result.numbers,
                refused=result.refused,
                rows=pending.positions,
                texts=self._texts,
                levels=result.levels,
                sink=pending.call.sinks is not None,
                note=result.note,
            )
        )

    def _refuse(self, layer: int, kind: Kind, call: AttentionCall) -> None:
        """Hand out a layer of which nothing can be said but why."""
        refused = dict.fromkeys(self._wanted_heads(layer, call), call.broken)
        nowhere = torch.empty(len(self._texts), 0, dtype=torch.long, device=call.query.device)
        self._give(CapturedLayer(layer, kind, None, (), refused, nowhere, self._texts))

    def _wanted_heads(self, layer: int, call: AttentionCall) -> list[int]:
        count = call.query.shape[1]
        wanted = list(range(count)) if self._heads is None else sorted(set(self._heads))
        for head in wanted:
            if not 0 <= head < count:
                raise InputError(f"there is no head {head} in layer {layer}: it has heads 0 to {count - 1}")
        return wanted

    def _kind(self, call: AttentionCall) -> Kind:
        """`cross` where keys are of other tokens than queries: computed from another input, or in another number."""
        query, value = (self._source(tensor) for tensor in (call.query, call.value))
        elsewhere = query is not None and value is not None and not _same_memory(query, value)
        if elsewhere or call.query.shape[2] != call.key.shape[2]:
            return "cross"
        modules = (call.module, *(module for module, _, _ in self._linears))
        return "decoder" if any(module in self._decoder for module in modules) else "self"

    def _source(self, tensor: Tensor) -> Tensor | None:
        """The input of the linear layer whose output a tensor is a view of; `None` where it is no view of any."""
        for _, received, given in self._linears:
            if _same_memory(given, tensor):
                return received
        return None


def _same_memory(one: Tensor, other: Tensor) -> bool:
    return one.untyped_storage().data_ptr() == other.untyped_storage().data_ptr()


def _decoder_modules(model: PreTrainedModel) -> set[nn.Module]:
    """The modules of the decoder of an encoder-decoder; none of other models."""
    if not getattr(model.config, "is_encoder_decoder", False):
        return set()
    return set(model.get_decoder().modules())
