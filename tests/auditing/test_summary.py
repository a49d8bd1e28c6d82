"""Parts added up."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa

from identiformer.auditing.summary import PartNotes, Summary, length_class
from identiformer.auditing.table import SCHEMA


def row(text: int, layer: int, head: int, tokens: int, verdict: str) -> dict[str, object]:
    nullity = 0 if verdict != "none" else 2
    levels = {
        f"{level}_{name}": value
        for level in ("free", "simplex", "generatable")
        for name, value in (
            ("nullity", nullity),
            ("margin", 0.5 if nullity == 0 else 0.0),
            ("verdict", verdict),
        )
    }
    return {
        "text_id": text, "layer": layer, "head": head, "row": 0, "tokens": tokens, "tied_tokens": 0, **levels,
        "top_token": 1, "top_text": "x", "top_weight": 0.5, "top_certain": verdict == "global",
        "widest_interval": None,
    }  # fmt: skip


def part(rows: list[dict[str, object]], notes: PartNotes) -> pa.Table:
    return notes.attach(pa.Table.from_pylist(rows, schema=SCHEMA))


PARTS = [
    part(
        [
            row(1, 0, 0, 5, "global"),
            row(1, 0, 1, 5, "none"),
            row(2, 0, 0, 20, "none"),
            row(2, 0, 1, 20, "none"),
        ],
        PartNotes(lengths={5: 1, 20: 1}, simplex_lengths={0: 6}),
    ),
    part(
        [row(3, 0, 0, 8, "global"), row(3, 0, 1, 8, "global")],
        PartNotes(lengths={8: 1, 30: 1}, truncated=1, refused=[(1, 0, "gated")], notes=[(0, "odd")]),
    ),
]


def test_shares_by_head_layer_and_length() -> None:
    summary = Summary()
    for one in PARTS:
        summary.add(one)
    result = summary.to_dict()
    assert result["texts"] == {"number": 4, "truncated": 0.25, "lengths": [(5, 1), (8, 1), (20, 1), (30, 1)]}
    assert result["all"]["levels"]["simplex"]["identifiable"] == 0.5
    assert [(c["from"], c["to"], c["rows"]) for c in result["by_length"]] == [(1, 8, 4), (17, 32, 2)]
    assert [h["levels"]["simplex"]["identifiable"] for h in result["heads"]] == [2 / 3, 1 / 3]
    assert [c["top_certain"] for c in result["heads"][0]["by_length"]] == [1.0, 0.0]
    assert result["layers"][0]["simplex_length"] == 6
    assert result["refused"] == [{"layer": 1, "head": 0, "reason": "gated"}]
    assert result["notes"] == [{"layer": 0, "note": "odd"}]
    assert summary.nullities == {(0, 5, 0): 1, (0, 5, 2): 1, (0, 20, 2): 2, (0, 8, 0): 2}
    json.dumps(result, allow_nan=False)


def test_length_classes_double() -> None:
    lengths = np.array([1, 8, 9, 16, 17, 128, 129])
    np.testing.assert_array_equal(length_class(lengths), [8, 8, 16, 16, 32, 128, 256])


def test_a_part_without_rows_counts_its_texts() -> None:
    summary = Summary()
    summary.add(PartNotes(lengths={3: 2}).attach(SCHEMA.empty_table()))
    result = summary.to_dict()
    assert (summary.rows, result["texts"]["number"]) == (0, 2)
