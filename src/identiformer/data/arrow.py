"""Rows on their way into a `datasets.Dataset`: in memory while they are few, in a temporary Arrow file beyond that."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import datasets
    import pyarrow

#: Tables of more bytes than this go to a file, which is memory-mapped.
SPILL_BYTES = 64 << 20
# A batch is written when it has this many rows or, for long texts, about this many characters.
BATCH_ROWS = 1000
BATCH_CHARACTERS = 4 << 20


class TableWriter:
    """Collects rows and gives them back as a data set.

    A table that outgrows `SPILL_BYTES` is streamed to a file in a new temporary folder, so memory stays bounded, and
    nothing is ever read from a cache: a source that changed under the same name gives its new rows. The folder is
    removed when the process ends, and at once if the rows are dropped: data sets made from a data set share its
    file, so no earlier moment is safe.

    Args:
        schema: the columns.
    """

    def __init__(self, schema: pyarrow.Schema):
        self.schema = schema
        self._rows: list[dict[str, Any]] = []
        self._characters = 0
        self._batches: list[pyarrow.RecordBatch] = []
        self._bytes = 0
        self._file: Path | None = None
        self._stream: Any = None
        self._remove: Any = None

    def add(self, row: dict[str, Any], characters: int) -> None:
        """Add a row, whose texts have so many characters."""
        self._rows.append(row)
        self._characters += characters
        if len(self._rows) >= BATCH_ROWS or self._characters >= BATCH_CHARACTERS:
            self._flush()

    def finish(self) -> datasets.Dataset:
        """The data set of the rows added; the writer is used up."""
        import datasets
        import pyarrow
        from datasets.table import InMemoryTable

        self._flush()
        if self._stream is None:
            table = pyarrow.Table.from_batches(self._batches, self.schema)
            return datasets.Dataset(InMemoryTable(table))
        self._stream.close()
        return datasets.Dataset.from_file(str(self._file))

    def drop(self) -> None:
        """Forget the rows, and remove their file if there is one."""
        self._rows, self._batches = [], []
        if self._stream is not None:
            self._stream.close()
            self._remove()

    def _flush(self) -> None:
        import pyarrow

        if not self._rows:
            return
        batch = pyarrow.RecordBatch.from_pylist(self._rows, self.schema)
        self._rows, self._characters = [], 0
        self._bytes += batch.nbytes
        if self._stream is None and self._bytes > SPILL_BYTES:
            self._spill()
        if self._stream is None:
            self._batches.append(batch)
        else:
            self._stream.write_batch(batch)

    def _spill(self) -> None:
        import pyarrow

        folder = tempfile.mkdtemp(prefix="identiformer-")
        # Tied to a class that lives as long as the process: `finalize` runs at the latest when the process ends.
        self._remove = weakref.finalize(TableWriter, shutil.rmtree, folder, ignore_errors=True)
        self._file = Path(folder) / "rows.arrow"
        self._stream = pyarrow.ipc.new_stream(str(self._file), self.schema)
        for batch in self._batches:
            self._stream.write_batch(batch)
        self._batches = []
