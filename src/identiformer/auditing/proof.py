"""Proof by running: alternatives put into the model in place of the weights, and what the model then says."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from identiformer.capturing import Rows, capture_inputs, encode_texts, run_with_weights
from identiformer.identifiability import AttentionHead, Level, alternative


@dataclass(frozen=True)
class Candidate:
    """A row whose weights are not unique: `layer`, `head` and `row` as in heads.parquet, and at which levels."""

    text_id: int
    layer: int
    head: int
    row: int
    levels: tuple[Level, ...]


def candidates(parts: Iterable[pa.Table], count: int, seed: int) -> list[Candidate]:
    """Up to `count` rows whose weights are not unique on the simplex, drawn from the whole table.

    Args:
        parts: The parts of heads.parquet; gone through twice.
        count: How many.
        seed: Of the draw.
    """
    total = sum(int(np.count_nonzero(_open(part))) for part in parts)
    places = set(random.Random(seed).sample(range(total), min(count, total)))
    chosen: list[Candidate] = []
    before = 0
    for part in parts:
        open_rows = np.flatnonzero(_open(part))
        for number, place in enumerate(open_rows.tolist(), start=before):
            if number in places:
                row = part.slice(place, 1).to_pylist()[0]
                generatable = (Level.GENERATABLE,) if row["generatable_nullity"] else ()
                chosen.append(
                    Candidate(
                        row["text_id"], row["layer"], row["head"], row["row"], (Level.SIMPLEX, *generatable)
                    )
                )
        before += len(open_rows)
    return chosen


def prove(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    chosen: list[Candidate],
    text_of: Callable[[int], tuple[str, str | None]],
    rows: Rows,
    seed: int,
    done: Callable[[int], None],
) -> dict[str, Any]:
    """Put the farthest alternative that is found for each row into the model, and compare what it gives.

    Args:
        model, tokenizer: The model.
        chosen: The rows.
        text_of: Gives the text with an id, and its pair.
        rows: As the audit captured them.
        seed: Of the search for alternatives.
        done: Called with 1 for each row.

    Returns:
        `asked`, `found`; `largest_change`, the largest change of any output, relative to the largest one of its text;
        `median_control_change`, the same for other weights that are as far away but give another output, the median;
        `predictions_changed`, how often the largest logit became another one (`None` for a model without logits);
        `largest_distance` and `median_distance`, the total variation distance between weights and alternative;
        `tops_changed`; and `rows`, the same for each.
    """
    results: list[dict[str, Any]] = []
    for candidate in chosen:
        text, pair = text_of(candidate.text_id)
        inputs = encode_texts(model, tokenizer, [text], None if pair is None else [pair], None)
        captured = next(
            layer
            for layer in capture_inputs(
                model, inputs, rows=rows, layers=[candidate.layer], heads=[candidate.head]
            )
        )
        assert captured.heads is not None
        place = captured.rows[0].tolist().index(candidate.row)
        head = captured.heads[0, 0, place]
        results += [_try(model, inputs, candidate, head, level, seed) for level in candidate.levels]
        done(1)
    found = [result for result in results if result["status"] == "found"]
    distances = [result["distance"] for result in found]
    changes = [result["prediction_changed"] for result in found]
    return {
        "asked": len(results),
        "found": len(found),
        "largest_change": max((result["change"] for result in found), default=None),
        "median_control_change": float(np.median([result["control_change"] for result in found]))
        if found
        else None,
        "predictions_changed": sum(changes) if None not in changes else None,
        "largest_distance": max(distances, default=None),
        "median_distance": float(np.median(distances)) if distances else None,
        "tops_changed": sum(result["top_changed"] for result in found),
        "rows": results,
    }


def _try(
    model: PreTrainedModel,
    inputs: dict[str, Tensor],
    candidate: Candidate,
    head: AttentionHead,
    level: Level,
    seed: int,
) -> dict[str, Any]:
    result: dict[str, Any] = {
        "text_id": candidate.text_id,
        "layer": candidate.layer,
        "head": candidate.head,
        "row": candidate.row,
        "level": level.value,
    }
    other = alternative(head, level=level, farthest=True, seed=seed)
    result["status"] = other.status.value
    if other.weights is None:
        return result | {"reason": other.reason}
    # The model's own weights go the same way, so that nothing else differs.
    own, changed, control = (
        run_with_weights(
            model, inputs, layer=candidate.layer, head=candidate.head, row=candidate.row, weights=weights
        )
        for weights in (head.weights, other.weights, _control(head, other.distance or 0.0))
    )
    before, after, moved = (
        output.get("logits", output.get("last_hidden_state")).double() for output in (own, changed, control)
    )
    largest = float(before.abs().max()) or 1.0
    return result | {
        "distance": other.distance,
        "residual": other.residual,
        "top_changed": bool(head.weights.argmax() != other.weights.argmax()),
        "change": float((after - before).abs().max()) / largest,
        "control_change": float((moved - before).abs().max()) / largest,
        "prediction_changed": bool((after.argmax(-1) != before.argmax(-1)).any())
        if "logits" in own
        else None,
    }


def _control(head: AttentionHead, distance: float) -> Tensor:
    """Weights as far from the row's own as an alternative, towards its least attended token: another output."""
    token = head.weights.masked_fill(~head.mask, torch.inf).argmin()
    step = min(distance / (1 - float(head.weights[token])), 1.0)
    towards = torch.zeros_like(head.weights)
    towards[token] = 1.0
    return (1 - step) * head.weights + step * towards


def _open(part: pa.Table) -> np.ndarray[Any, np.dtype[np.bool_]]:
    if not part.num_rows:
        return np.zeros(0, dtype=np.bool_)
    return part.column("simplex_nullity").to_numpy() > 0
