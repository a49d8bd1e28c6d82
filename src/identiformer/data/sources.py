"""Loading a source by its name: a file, a folder of splits, a hub data set or a demo."""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Callable, Mapping
from itertools import islice
from pathlib import Path

from identiformer.data.columns import choose_columns
from identiformer.data.delimited import Delimited
from identiformer.data.demos import load_demo
from identiformer.data.faults import Faults, add_counts
from identiformer.data.files import ENDINGS, format_of, stem_of
from identiformer.data.hub import SPLIT_NAMES, HubTable, hub_tables
from identiformer.data.intake import take_in
from identiformer.data.json_files import JsonLines, JsonList
from identiformer.data.parquet import Parquet
from identiformer.data.types import SPLITS, Columns, Labels, OnBadRow, Table, TextData
from identiformer.data.wording import listed, shown
from identiformer.errors import InputError

READERS: Mapping[str, Callable[[Path], Table]] = {
    "csv": lambda path: Delimited(path, ","),
    "tsv": lambda path: Delimited(path, "\t"),
    "jsonl": JsonLines,
    "json": JsonList,
    "parquet": Parquet,
}
# Rows looked at to tell the column of texts from the others.
_SAMPLED = 200


def load_source(
    source: str | os.PathLike[str],
    *,
    text_column: str | None = None,
    label_column: str | None = None,
    text_pair_column: str | None = None,
    labels: Labels = "required",
    on_bad_row: OnBadRow = "error",
    need: tuple[str, ...] = (),
    only: tuple[str, ...] | None = None,
) -> TextData:
    """Load texts and their labels.

    Args:
        source: one of
            a file: .csv, .tsv, .jsonl, .ndjson, .json (a list of objects, or `{"data": [...]}`) or .parquet, each
            also with .gz;
            a folder that holds such files by the names train, valid (or validation, val, dev) and test;
            a hub name: `hf:owner/name`, `hf:owner/name/config` or `hf:name` (see `hub.hub_tables`);
            `demo:reviews` or `demo:docstrings`, also with parameters as in `demo:reviews?rows=500&seed=3`.
        text_column: the column of texts; if it is not given, one with a usual name or the only sensible one.
        label_column: the same for labels.
        text_pair_column: the same for the second text of a pair, used if it is given or has a usual name.
        labels: "required"; "optional": used if a column has a usual name; "ignore": never looked at.
        on_bad_row: whether rows that cannot be used are an "error" or "skip" leaves them out, counted.
        need: splits that must be there; a source of a single file has them all.
        only: splits to read where there are several; `None` reads all.

    Returns:
        The data set, with a single split "all" for a file or a demo.

    Raises:
        InputError: if the source is not there or cannot be read, its columns cannot be told apart, or it has rows
            that cannot be used.
    """
    name = os.fspath(source)
    if not name or any(unicodedata.category(character) in ("Cc", "Cs") for character in name):
        raise InputError(
            f"{shown(name)} is no name of a source: give a file, a folder, hf:NAME or demo:reviews"
        )
    if name.startswith("demo:"):
        return load_demo(name, on_bad_row)
    notes: list[str] = []
    if name.startswith("hf:"):
        tables, notes = hub_tables(name)
        found = listed(table.where for table in tables.values())
    else:
        files = _files(Path(os.path.expanduser(name)), name)
        found = listed(path.name for path in files.values())
        if "all" not in files:
            _check_need(name, need, files, found)
            files = {split: path for split, path in files.items() if only is None or split in only}
        tables = {split: READERS[_format(path)](path) for split, path in files.items()}
    if "all" not in tables:
        _check_need(name, need, tables, found)
        tables = {split: table for split, table in tables.items() if only is None or split in only}
        if not tables:
            raise InputError(f"{name} has no split {listed(only or ())}: found {found}")
    if labels != "ignore":
        tables = _without_hidden_labels(tables, label_column, notes)
    return _read(name, tables, (text_column, label_column, text_pair_column), labels, on_bad_row, notes)


def files_of(source: str) -> list[Path]:
    """The files that a source is read from, those that are there; none of a hub data set or a demo."""
    path = Path(os.path.expanduser(source))
    if os.path.isfile(path):
        return [path]
    if not source or not os.path.isdir(path) or not os.access(path, os.R_OK):
        return []
    return [item for item in path.iterdir() if item.is_file() and stem_of(item) in SPLIT_NAMES]


def _read(
    source: str,
    tables: Mapping[str, Table],
    given: tuple[str | None, str | None, str | None],
    labels: Labels,
    on_bad_row: OnBadRow,
    notes: list[str],
) -> TextData:
    """Choose the columns in the first split, and read the same ones from all."""
    columns: Columns | None = None
    data = TextData({}, Columns("", None, None), notes, {}, source, on_bad_row)
    for split, table in tables.items():
        notes += table.notes
        if columns is None:
            sample = list(islice(table.rows(), _SAMPLED))
            if not table.names:
                raise _nothing_usable(table)
            columns, said = choose_columns(
                table.names,
                sample,
                text=given[0],
                label=given[1],
                pair=given[2],
                labels=labels,
                where=table.where,
                has_header=table.has_header,
            )
            notes += said
            data.columns = columns
        used = _columns_of(table, columns, labels, notes)
        data.splits[split], faults, said = take_in(table, used, on_bad_row)
        notes += said
        add_counts(data.skipped, faults.counts.items())
    return data


def _nothing_usable(table: Table) -> InputError:
    """Why a source has no columns, as only JSON can: it has no rows, none of them are objects, or all are empty."""
    faults = Faults(table.where)
    for row in table.rows():
        faults.add(row.fault or "an object without keys", row.number, row.line)
    return faults.nothing_usable()


def _columns_of(table: Table, columns: Columns, labels: Labels, notes: list[str]) -> Columns:
    """Check that a split has the columns that the first one has."""
    label = columns.label
    if label is not None and label not in table.names and labels == "optional":
        notes.append(f"{table.where} has no labels: it has no column {shown(label)}")
        label = None
    for name in (columns.text, columns.text_pair, label):
        if name is not None and name not in table.names:
            raise InputError(
                f"{table.where} has no column {shown(name)}, as the other splits have: its columns are "
                f"{listed(table.names)}"
            )
    return Columns(columns.text, label, columns.text_pair)


def _files(path: Path, name: str) -> dict[str, Path]:
    """The file, or those of a folder by their split, training first."""
    try:
        path.exists()
    except OSError as error:  # a name that is too long, or a folder that may not be entered
        raise InputError(f"{shown(name)} cannot be read: {error.strerror or error}") from error
    if path.is_file():
        if format_of(path) is None:
            raise InputError(f"{name} has an ending that is not understood: it must be {ENDINGS}")
        return {"all": path}
    if not path.is_dir():
        if path.exists():
            raise InputError(f"{name} is neither a file nor a folder: save its rows to a file")
        hint = f"; for a data set on the hub write hf:{name}" if re.fullmatch(r"[\w-]+/[\w-]+", name) else ""
        raise InputError(f"{name} does not exist: give a file, a folder, hf:NAME or demo:reviews{hint}")
    try:
        usable = sorted(item for item in path.iterdir() if item.is_file() and format_of(item) is not None)
    except OSError as error:
        raise InputError(f"{name} cannot be read: {error.strerror or error}") from error
    splits: dict[str, Path] = {}
    for item in usable:
        split = SPLIT_NAMES.get(stem_of(item))
        if split is None:
            continue
        if split in splits:
            raise InputError(
                f"{name} has more than one file of the {split} split: {listed((splits[split].name, item.name))}; keep "
                "one of them there"
            )
        splits[split] = item
    if not splits:
        there = listed(sorted(item.name for item in path.iterdir() if not item.name.startswith(".")))
        raise InputError(
            f"{name} is a folder without a file named train, valid or test ({ENDINGS}): it holds {there}; give one "
            "of the files, or rename it"
        )
    return {split: splits[split] for split in SPLITS if split in splits}


def _format(path: Path) -> str:
    known = format_of(path)
    assert known is not None
    return known[0]


def _check_need(name: str, need: tuple[str, ...], there: Mapping[str, object], found: str) -> None:
    missing = [split for split in need if split not in there]
    if missing:
        raise InputError(
            f"{name} has no {' and no '.join(missing)} split, which is needed here: found {found}"
        )


def _without_hidden_labels(
    tables: Mapping[str, Table], label: str | None, notes: list[str]
) -> dict[str, Table]:
    """Leave out splits of hub data sets whose labels are kept secret, unless nothing else is left."""
    kept: dict[str, Table] = {}
    for split, table in tables.items():
        column = label or "label"
        hidden = isinstance(table, HubTable) and column in table.names and table.hides_labels(column)
        if hidden:
            notes.append(f"{table.where} is not used: none of its rows has a label")
        else:
            kept[split] = table
    return kept or dict(tables)
