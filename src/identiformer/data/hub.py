"""Data sets by their hub name."""

from __future__ import annotations

import logging
import re
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from textwrap import shorten
from typing import TYPE_CHECKING, Any

from identiformer.data.types import SPLITS, Row
from identiformer.data.wording import listed, shown
from identiformer.errors import InputError
from identiformer.hub import hub_or_cache

if TYPE_CHECKING:
    import datasets

#: What others call the splits.
SPLIT_NAMES = {
    "train": "train",
    "valid": "valid",
    "validation": "valid",
    "val": "valid",
    "dev": "valid",
    "test": "test",
}
_NAME = re.compile(r"\w[\w.-]{0,95}(/\w[\w.-]{0,95}){0,2}", re.ASCII)
_BATCH = 1000


class HubTable:
    """The rows of one split of a hub data set; labels with names are read as their names.

    Args:
        where: the name for messages.
        split: the rows.
    """

    has_header = False

    def __init__(self, where: str, split: datasets.Dataset):
        import datasets

        self.where = where
        self.names = list(split.column_names)
        self.notes: list[str] = []
        self._split = split
        self._classes = {
            name: feature.names
            for name, feature in split.features.items()
            if isinstance(feature, datasets.ClassLabel) and feature.names
        }

    def rows(self, columns: Collection[str] | None = None) -> Iterator[Row]:
        """Yield every row, with only the cells of `columns` where they are given."""
        split = self._split if columns is None else self._split.select_columns(list(columns))
        number = 0
        for batch in split.iter(_BATCH):
            cells: dict[str, Any] = dict(batch)  # type: ignore[arg-type]
            for values in zip(*cells.values(), strict=True):
                number += 1
                yield Row(
                    number, None, {name: self._named(name, v) for name, v in zip(cells, values, strict=True)}
                )

    def hides_labels(self, column: str) -> bool:
        """Whether no row has a label, as in the test sets of competitions: there they are all -1 or missing."""
        rows = self.rows([column])
        return all(row.cells[column] in (None, -1) for row in rows)

    def _named(self, column: str, value: Any) -> Any:
        names = self._classes.get(column)
        if names is None or value is None:
            return value
        return names[value] if 0 <= value < len(names) else None


def hub_tables(source: str) -> tuple[dict[str, HubTable], list[str]]:
    """Fetch a data set, from the local cache where that has it.

    `hf:owner/name` and `hf:owner/name/config` name a data set as the hub spells it, `hf:name` one without an owner.
    A name of two parts is an owner and a name; only if the hub does not know that one, it is a name and a
    configuration, so that `hf:glue/sst2` works, too.

    Args:
        source: the name, with its "hf:".

    Returns:
        The tables by split ("train", "valid", "test"), and notes.

    Raises:
        InputError: if the name is malformed or unknown, the hub cannot be reached, or the data set has no split of a
            known name.
    """
    name = source.removeprefix("hf:")
    if not _NAME.fullmatch(name):
        raise InputError(f"{shown(source)} is not a hub name: write hf:owner/name or hf:owner/name/config")
    found = _load(source, name)
    if not hasattr(found, "items"):
        raise InputError(f"{source} is not a data set of splits")
    tables: dict[str, HubTable] = {}
    unused: list[str] = []
    for split, rows in found.items():
        known = SPLIT_NAMES.get(str(split).lower())
        if known is None or known in tables:
            unused.append(str(split))
        else:
            tables[known] = HubTable(f"{source} ({split})", rows)
    if not tables:
        raise InputError(
            f"{source} has no split named train, validation or test: its splits are {listed(unused)}"
        )
    notes = [f"{source}: the splits {listed(unused)} are not used"] if unused else []
    return {split: tables[split] for split in SPLITS if split in tables}, notes


def _load(source: str, name: str) -> Any:
    import datasets
    import huggingface_hub
    from datasets.exceptions import DatasetNotFoundError

    parts = name.split("/")
    tries = [("/".join(parts[:2]), parts[2] if len(parts) == 3 else None)]
    if len(parts) == 2:
        tries.append((parts[0], parts[1]))
    first: Exception | None = None
    for path, _ in tries:
        if Path(path).exists():
            # `load_dataset` would read the folder without a word.
            raise InputError(
                f"{source} is hidden by the local {shown(path)}: give its path as the source without hf:, or run from "
                "another folder"
            )
    with quiet(), hub_or_cache():
        for path, config in tries:
            try:
                return datasets.load_dataset(path, config)
            except Exception as error:
                first = first or error
                unknown = isinstance(error, DatasetNotFoundError)
                # Waiting for a hub that stops to answer takes half a minute; once is enough.
                if not unknown and not huggingface_hub.constants.HF_HUB_OFFLINE:
                    break
    assert first is not None
    raise InputError(_why(source, first)) from first


def _why(source: str, error: Exception) -> str:
    from datasets.exceptions import DatasetNotFoundError

    said = shorten(str(error) or type(error).__name__, 300, placeholder=" ...")
    if isinstance(error, DatasetNotFoundError):
        return f"{source} is not known to the hub, or not open to you: check its name, or log in ({said})"
    if isinstance(error, ConnectionError):
        return (
            f"{source} cannot be fetched: the hub cannot be reached and the data set is not in the local cache "
            f"({said}); connect, or use a file"
        )
    return f"{source} cannot be loaded: {said}"


@contextmanager
def quiet() -> Iterator[None]:
    """Keep `datasets` and the hub from writing progress and retries to the terminal, and undo that afterwards."""
    import datasets
    import huggingface_hub.utils as hub

    loggers = [logging.getLogger(name) for name in ("datasets", "huggingface_hub", "fsspec")]
    levels = [logger.level for logger in loggers]
    bars = not datasets.are_progress_bars_disabled(), not hub.are_progress_bars_disabled()
    for logger in loggers:
        logger.setLevel(logging.CRITICAL)
    datasets.disable_progress_bars()
    hub.disable_progress_bars()
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
        if bars[0]:
            datasets.enable_progress_bars()
        if bars[1]:
            hub.enable_progress_bars()
