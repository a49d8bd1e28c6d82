"""A table in parts."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from identiformer.auditing.table import SCHEMA, Parts


def some(text: int) -> pa.Table:
    return pa.Table.from_pylist([{"text_id": text, "layer": 0, "simplex_verdict": "none"}], schema=SCHEMA)


def test_parts_are_joined_in_their_order(tmp_path: Path) -> None:
    parts = Parts(tmp_path / "parts")
    for text in (5, 3, 7):
        parts.add(some(text))
    Parts(tmp_path / "parts").join(tmp_path / "heads.parquet")
    table = pq.read_table(tmp_path / "heads.parquet")
    assert table.column("text_id").to_pylist() == [5, 3, 7]
    assert table.schema.equals(SCHEMA)


def test_a_run_goes_on_after_the_last_whole_part(tmp_path: Path) -> None:
    parts = Parts(tmp_path)
    parts.add(some(1))
    parts.add(some(2))
    # What a killed run leaves: a part under its partial name.
    (tmp_path / ".00000002.parquet.abc.partial").write_bytes(b"PAR1")
    again = Parts(tmp_path)
    assert len(again) == 2
    again.add(some(3))
    assert [part.column("text_id")[0].as_py() for part in again] == [1, 2, 3]
