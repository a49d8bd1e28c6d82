"""Parquet files."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

from identiformer.data.files import open_bytes, reading
from identiformer.data.types import Row
from identiformer.data.wording import listed
from identiformer.errors import InputError

BATCH = 1000


class Parquet:
    """The rows of a .parquet file, read a batch at a time.

    Args:
        path: the file; one that ends in .gz is decompressed into a temporary file, since Parquet is read from its end.

    Raises:
        InputError: if the file is empty or broken, or two columns have one name.
    """

    has_header = False

    def __init__(self, path: Path):
        import pyarrow.parquet

        self.path = path
        self.where = str(path)
        self.notes: list[str] = []
        plain = path
        if path.name.lower().endswith(".gz"):
            folder = tempfile.mkdtemp(prefix="identiformer-")
            weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
            plain = Path(folder) / "plain.parquet"
            with reading(path), open_bytes(path) as source, plain.open("wb") as target:
                shutil.copyfileobj(source, target, 1 << 20)
        with reading(path):
            empty = plain.stat().st_size == 0
        if empty:
            raise InputError(f"{path} is empty: it needs rows of texts")
        with self._parsing():
            self._file = pyarrow.parquet.ParquetFile(plain, memory_map=True)
            self.names = list(self._file.schema_arrow.names)
        twice = sorted({name for name in self.names if self.names.count(name) > 1})
        if twice:
            raise InputError(
                f"{path} has more than one column named {listed(twice)}: give every column its own name"
            )

    def rows(self, columns: Collection[str] | None = None) -> Iterator[Row]:
        """Yield every row, with only the cells of `columns` where they are given."""
        number = 0
        with self._parsing():
            for batch in self._file.iter_batches(BATCH, columns=None if columns is None else list(columns)):
                for cells in batch.to_pylist():
                    number += 1
                    yield Row(number, None, cells)

    @contextmanager
    def _parsing(self) -> Iterator[None]:
        """Name the file in what Arrow says of it; Arrow raises `OSError` for contents that it cannot parse, too."""
        import pyarrow

        try:
            yield
        except (pyarrow.ArrowException, UnicodeDecodeError, OSError) as error:
            reason = " ".join(str(error).split()).rstrip(".")
            raise InputError(f"{self.path} is not a whole Parquet file ({reason}): write it again") from error
