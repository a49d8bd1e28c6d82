"""heads.parquet: one row for each text, layer, head and query row, and how it becomes one file out of parts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from identiformer.identifiability import Level
from identiformer.output import whole_file

SCHEMA = pa.schema(
    [
        ("text_id", pa.int64()),
        ("layer", pa.int16()),
        ("head", pa.int16()),
        ("row", pa.int32()),
        ("tokens", pa.int32()),
        ("tied_tokens", pa.int32()),
        *(
            field
            for level in Level
            for field in (
                (f"{level.value}_nullity", pa.int32()),
                (f"{level.value}_margin", pa.float64()),
                (f"{level.value}_verdict", pa.string()),
            )
        ),
        ("top_token", pa.int32()),
        ("top_text", pa.string()),
        ("top_weight", pa.float64()),
        ("top_certain", pa.bool_()),
        ("widest_interval", pa.float64()),
    ],
    metadata={
        "text_id": "the text's row in the source, from 1, as predict numbers them",
        "layer": "attention layers in the order in which the model runs them, from 0",
        "row": "the query token, from 0, special tokens included",
        "tokens": "how many tokens the row sees",
        "tied_tokens": "how many of them share key and value with another one",
        "generatable_verdict": "empty where the head's logits are no linear function of its query",
        "top_token": "the token with the greatest weight, counted as row",
        "top_certain": "whether no other weights with the same output have another token at the top",
        "widest_interval": "of the row's weight intervals; empty where it was not computed (--intervals)",
    },
)


class Parts:
    """The parts of a table, each written whole, so that a run that is killed can go on after the last one.

    Args:
        folder: Where they lie; made where it is missing.
    """

    def __init__(self, folder: Path):
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._count = 0
        while self._path(self._count).is_file():
            self._count += 1

    def __len__(self) -> int:
        """How many there are, from the first one on without a gap."""
        return self._count

    def add(self, table: pa.Table) -> None:
        """Write the next part."""
        with whole_file(self._path(self._count), "wb") as handle:
            pq.write_table(table, handle)
        self._count += 1

    def __iter__(self) -> Iterator[pa.Table]:
        """The parts, one after another."""
        for number in range(len(self)):
            yield pq.read_table(self._path(number))

    def join(self, path: Path) -> None:
        """Write all of them to one file, in memory that holds one of them."""
        with whole_file(path, "wb") as handle, pq.ParquetWriter(handle, SCHEMA) as writer:
            for part in self:
                writer.write_table(part.cast(SCHEMA))

    def _path(self, number: int) -> Path:
        return self._folder / f"{number:08d}.parquet"
