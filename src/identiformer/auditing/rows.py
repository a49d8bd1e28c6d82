"""From captured heads to rows of heads.parquet."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from identiformer.auditing.table import SCHEMA
from identiformer.capturing import CapturedLayer
from identiformer.identifiability import Level, Verdict, certify, weight_intervals
from identiformer.identifiability.certainty import tops_certain

_VERDICTS = np.array([verdict.label for verdict in Verdict], dtype=object)


def audited(captured: CapturedLayer) -> CapturedLayer:
    """The layer; or why it is left out, where its rows see but the one token that a decoder begins with."""
    if captured.kind != "decoder" or captured.heads is None or captured.heads.weights.shape[-1] > 1:
        return captured
    reason = (
        "it attends to the decoder's own tokens, of which there is one: its weight is 1 whatever the text"
    )
    refused = dict(captured.refused) | dict.fromkeys(captured.head_numbers, reason)
    return replace(captured, heads=None, head_numbers=(), refused=refused)


def head_rows(
    captured: CapturedLayer,
    text_ids: Sequence[int],
    shifts: Sequence[int],
    token_text: Callable[[int, int], str],
    tolerance: float,
    intervals_of: Collection[tuple[int, int, int]],
) -> pa.Table | None:
    """The rows of heads.parquet for one captured layer; `None` where nothing of it could be captured.

    Args:
        captured: The layer.
        text_ids: The id of each text that was given to `capture`.
        shifts: How many tokens of padding stand before each text of the batch; places count from behind them.
        token_text: Gives the words to a text (its place among those given to `capture`) and the place of a token.
        tolerance: Of intervals and certainty: outputs that move by this share of their length count as equal.
        intervals_of: `(text_id, layer, head)` of which the exact intervals are computed, for the first row.
    """
    heads = captured.heads
    if heads is None:
        return None
    certificate = certify(heads)
    certain = tops_certain(heads, certificate, tolerance)
    texts, count, rows = heads.batch_shape
    shape = (texts, count, rows)
    shift = np.array(shifts)[:, None, None]
    ids = np.array([text_ids[text] for text in captured.texts])
    columns: dict[str, Any] = {
        "text_id": np.broadcast_to(ids[:, None, None], shape),
        "layer": np.full(shape, captured.layer),
        "head": np.broadcast_to(np.array(captured.head_numbers)[None, :, None], shape),
        "row": np.broadcast_to(captured.rows.cpu().numpy()[:, None, :] - shift, shape),
        "tokens": certificate.tokens.cpu().numpy(),
        "tied_tokens": certificate.tied_tokens.cpu().numpy(),
        "top_token": heads.weights.argmax(dim=-1).cpu().numpy() - shift,
        "top_weight": heads.weights.amax(dim=-1).cpu().numpy(),
        "top_certain": certain.cpu().numpy(),
    }
    for level in Level:
        held = level in captured.levels
        result = certificate[level]
        columns[f"{level.value}_nullity"] = _or_none(result.nullity.cpu().numpy(), held)
        columns[f"{level.value}_margin"] = _or_none(result.margin.cpu().numpy(), held)
        columns[f"{level.value}_verdict"] = _or_none(_VERDICTS[result.verdict.cpu().numpy()], held)
    # Texts with fewer rows than others of the batch have none there.
    there = np.broadcast_to(captured.rows.cpu().numpy()[:, None, :] >= 0, shape)
    sink = heads.weights.shape[-1] - 1 if captured.sink else -1
    columns["top_text"] = _top_texts(captured, columns["top_token"], sink - shift, token_text)
    columns["widest_interval"] = _widest(captured, columns, tolerance, intervals_of)
    return pa.table(
        {name: pa.array(columns[name][there], type=SCHEMA.field(name).type) for name in SCHEMA.names}
    )


def _or_none(values: NDArray[Any], held: bool) -> NDArray[Any]:
    return values if held else np.full(values.shape, None, dtype=object)


def _top_texts(
    captured: CapturedLayer,
    top: NDArray[np.int64],
    sink: NDArray[np.int64],
    token_text: Callable[[int, int], str],
) -> NDArray[Any]:
    result = np.empty(top.shape, dtype=object)
    for place, text in enumerate(captured.texts):
        for index, token in np.ndenumerate(top[place]):
            # The decoder's own tokens are not at the places of the text's.
            attended = captured.kind != "decoder" and (token != sink[place] or not captured.sink)
            result[(place, *index)] = token_text(text, int(token)) if attended else ""
    return result


def _widest(
    captured: CapturedLayer,
    columns: dict[str, Any],
    tolerance: float,
    intervals_of: Collection[tuple[int, int, int]],
) -> NDArray[Any]:
    """The width of the widest interval: 0 where the simplex is identifiable, computed where asked for, else `None`."""
    heads = captured.heads
    assert heads is not None
    widest = np.full(columns["row"].shape, None, dtype=object)
    known = np.zeros(widest.shape, dtype=np.bool_)
    if tolerance == 0:
        known = columns["simplex_nullity"] == 0
        widest[known] = 0.0
    for text, head, row in np.argwhere(~known).tolist():
        key = (int(columns["text_id"][text, head, row]), captured.layer, captured.head_numbers[head])
        if row == 0 and key in intervals_of:
            bounds = weight_intervals(heads, (text, head, row), tolerance)
            widest[text, head, row] = float((bounds.upper - bounds.lower).max())
    return widest
