"""From the rows of a source to a data set of clean texts and labels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from identiformer.data.arrow import TableWriter
from identiformer.data.cells import Bad, read_label, read_text
from identiformer.data.faults import Faults
from identiformer.data.types import Columns, OnBadRow, Row, Table

if TYPE_CHECKING:
    import datasets


def take_in(
    table: Table, columns: Columns, on_bad_row: OnBadRow
) -> tuple[datasets.Dataset, Faults, list[str]]:
    """Read every row of a table, and keep those that can be used.

    Args:
        table: the source.
        columns: which of its columns to read.
        on_bad_row: whether rows that cannot be used are an error or are left out.

    Returns:
        The data set with its columns "text", "text_pair", "label" and "row" (see `TextData`), the rows left out, and
        notes.

    Raises:
        InputError: if there are no rows, none that can be used, or bad rows that are not to be skipped.
    """
    import pyarrow

    fields = [("text", pyarrow.string())]
    if columns.text_pair is not None:
        fields.append(("text_pair", pyarrow.string()))
    if columns.label is not None:
        fields.append(("label", pyarrow.string()))
    writer = TableWriter(pyarrow.schema([*fields, ("row", pyarrow.int64())]))
    faults = Faults(table.where)
    good = 0
    wanted = [name for name in (columns.text, columns.text_pair, columns.label) if name is not None]
    try:
        for row in table.rows(wanted):
            made = _clean(row, columns)
            if isinstance(made, Bad):
                faults.add(made.reason, row.number, row.line)
                continue
            good += 1
            # After a fault that ends in an error, the rest is read only to count the faults.
            if on_bad_row == "skip" or not faults.counts:
                writer.add(made, len(made["text"]) + len(made.get("text_pair", "")))
        notes = faults.settle(on_bad_row, good)
    except BaseException:
        writer.drop()
        raise
    return writer.finish(), faults, notes


def _clean(row: Row, columns: Columns) -> dict[str, Any] | Bad:
    if row.fault is not None:
        return Bad(row.fault)
    made: dict[str, Any] = {"row": row.number}
    made["text"] = read_text(row.cells.get(columns.text))
    if columns.text_pair is not None:
        made["text_pair"] = read_text(row.cells.get(columns.text_pair), pair=True)
    if columns.label is not None:
        made["label"] = read_label(row.cells.get(columns.label))
    return next((value for value in made.values() if isinstance(value, Bad)), made)
