"""Tables of delimited cells: .csv and .tsv."""

from __future__ import annotations

import csv
from collections.abc import Collection, Iterator
from pathlib import Path

from identiformer.data.files import open_text, reading, refuse_binary
from identiformer.data.types import Row
from identiformer.data.wording import listed
from identiformer.errors import InputError

TOO_FEW = "fewer cells than the header"
TOO_MANY = "more cells than the header"
NO_CELLS: dict[str, object] = {}


class Delimited:
    """The rows of a .csv or .tsv file whose first line names the columns.

    Cells may be quoted with `"`, and then hold line ends and delimiters. Lines without a single character are no rows.
    A .tsv that quotes cannot explain, but tabs can, is read with its quotes as ordinary characters, since many tools
    write such files.

    Args:
        path: the file.
        delimiter: what stands between cells.

    Raises:
        InputError: if the file is empty, is not text, or its header cannot be used.
    """

    has_header = True

    def __init__(self, path: Path, delimiter: str):
        self.path = path
        self.where = str(path)
        self.notes: list[str] = []
        self.delimiter = delimiter
        self.quoting: int = csv.QUOTE_MINIMAL
        # Cells longer than csv's default of 128 KB are texts like any other; a C long may have only 32 bits.
        csv.field_size_limit(2**31 - 1)
        refuse_binary(path)
        if delimiter == "\t" and self._has_plain_quotes():
            self.quoting = csv.QUOTE_NONE
            self.notes.append(
                f'{path}: quotes (") are read as ordinary characters: they do not pair up around cells'
            )
        self.names = self._header()

    def rows(self, columns: Collection[str] | None = None) -> Iterator[Row]:
        """Yield every row after the header; one with too few or too many cells as a fault."""
        records = self._records()
        next(records)
        width = len(self.names)
        for number, (line, cells) in enumerate(records, 1):
            if len(cells) == width:
                yield Row(number, line, dict(zip(self.names, cells, strict=True)))
            else:
                yield Row(number, line, NO_CELLS, TOO_FEW if len(cells) < width else TOO_MANY)

    def _records(self) -> Iterator[tuple[int, list[str]]]:
        """Yield the line that each record starts on, and its cells; the header first."""
        with reading(self.path), open_text(self.path, newline="") as text:
            # Strict: otherwise a quote that is never closed makes one text of the rest of the file.
            reader = csv.reader(text, delimiter=self.delimiter, quoting=self.quoting, strict=True)  # type: ignore[arg-type]
            line = 1
            try:
                for cells in reader:
                    if cells:
                        yield line, cells
                    line = reader.line_num + 1
            except csv.Error as error:
                end = reader.line_num
                span = f"line {line:,}" if end <= line else f"the row that starts on line {line:,}"
                raise InputError(
                    f'{self.path}: the quotes (") of {span} do not pair up ({error}): write a quote inside a quoted '
                    'cell twice (""), or save the rows as .jsonl'
                ) from error

    def _header(self) -> list[str]:
        names = [name.strip() for name in next(self._records())[1]]
        # Spreadsheets leave columns without a name; only those with one can be asked for.
        twice = sorted({name for name in names if name and names.count(name) > 1})
        if twice:
            raise InputError(
                f"{self.path} has more than one column named {listed(twice)}: give every column its own name"
            )
        if len(names) == 1:
            for other, meaning in ((";", "semicolons"), ("\t", "tabs"), (",", "commas"), ("|", "bars")):
                if other in names[0]:
                    raise InputError(
                        f"{self.path} has one column, named {listed(names)}: its cells seem to be separated "
                        f"by {meaning}; save it with commas as .csv or with tabs as .tsv"
                    )
        return names

    def _has_plain_quotes(self) -> bool:
        """Whether the file only makes sense with quotes as ordinary characters."""
        try:
            for _ in self._records():
                pass
        except InputError as error:
            if not isinstance(error.__cause__, csv.Error):
                raise
        else:
            return False
        with reading(self.path), open_text(self.path, newline="") as text:
            tabs = {line.count("\t") for line in text if line.strip("\r\n")}
        return len(tabs) == 1
