"""Labels of a data set: their list, their numbers, and those that a model does not know."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from identiformer.data.faults import Faults
from identiformer.data.types import OnBadRow, TextData
from identiformer.data.wording import counted, listed, shown
from identiformer.errors import InputError

if TYPE_CHECKING:
    import datasets
    from numpy.typing import NDArray

UNKNOWN_LABEL = "unknown label"
# Longer ones are no numbers that anybody counts with, and `int` refuses thousands of digits.
_WHOLE = re.compile(r"-?[0-9]{1,100}")
_BATCH = 10_000


def label_names(data: TextData) -> list[str]:
    """The labels to train on: those of the training split, or of the only one.

    Args:
        data: a data set with labels.

    Returns:
        The labels, in the order of numbers if all of them are whole numbers, else in that of strings.

    Raises:
        InputError: if there are no labels, only one, or as many as rows.
    """
    split = data.splits.get("train", data.splits.get("all"))
    if split is None:
        raise InputError(f"{data.source} has no train split: found {listed(data.splits)}")
    if "label" not in split.column_names:
        raise InputError(f"{data.source} has no labels: name their column with --label-column")
    counts = Counter(column_values(split, "label"))
    everywhere = Counter(counts)
    for other in data.splits.values():
        if other is not split and "label" in other.column_names:
            everywhere.update(column_values(other, "label"))
    check_trainable(counts, everywhere, data)
    return sort_labels(counts)


def check_trainable(training: Counter[str], everywhere: Counter[str], data: TextData) -> None:
    """Check that a classifier can be trained on labels with these numbers of rows.

    Args:
        training: the numbers of rows to train on.
        everywhere: the same for all splits: after a split of few rows, training may well have one row a label.
        data: where they are from, for messages.

    Raises:
        InputError: if there is only one label, or every row has its own.
    """
    if len(training) < 2:
        raise InputError(
            f"{data.source}: every row has the label {listed(training)}; training needs at least two different labels"
        )
    rows = everywhere.total()
    if len(everywhere) == rows:
        column = f"the column {shown(data.columns.label)}" if data.columns.label else "the label"
        raise InputError(
            f"{data.source}: each of the {counted(rows, 'row')} has a label of its own ({listed(everywhere, 3)}), so "
            f"{column} seems to be an id or a measured number: choose another with --label-column, or add rows"
        )


def sort_labels(labels: Iterable[str]) -> list[str]:
    """Sort labels: as numbers if all of them are whole numbers, else as strings."""
    names = sorted(set(labels))
    return sorted(names, key=int) if all(_WHOLE.fullmatch(name) for name in names) else names


def encode_labels(dataset: datasets.Dataset, names: Sequence[str]) -> NDArray[np.int64]:
    """The number of each row's label, counted from 0 in `names`.

    Raises:
        InputError: if a row has another label; `check_labels` says which.
    """
    numbers = {name: number for number, name in enumerate(names)}
    try:
        return np.fromiter(
            (numbers[label] for label in column_values(dataset, "label")), np.int64, len(dataset)
        )
    except KeyError as error:
        raise InputError(
            f"there is a row with the label {shown(error.args[0])}, which is none of {listed(names)}"
        ) from error


def check_labels(
    dataset: datasets.Dataset, known: Sequence[str], where: str, on_bad_row: OnBadRow = "error"
) -> tuple[datasets.Dataset, dict[str, int]]:
    """Find rows with labels that a model, or the training set, does not know.

    Args:
        dataset: rows with the columns "label" and "row".
        known: the labels that are known.
        where: the source, for messages.
        on_bad_row: whether such rows are an "error" or "skip" leaves them out.

    Returns:
        The rows whose labels are known, and the count of the others by reason (empty if there are none).

    Raises:
        InputError: if there are such rows and they are an error, or if no row is left; it names labels and rows.
    """
    allowed = set(known)
    faults, keep = Faults(where), []
    unknown: Counter[str] = Counter()
    rows = zip(column_values(dataset, "label"), column_values(dataset, "row"), strict=True)
    for index, (label, row) in enumerate(rows):
        if label in allowed:
            keep.append(index)
        else:
            unknown[label] += 1
            faults.add(UNKNOWN_LABEL, row)
    if not unknown:
        return dataset, {}
    if on_bad_row == "error" or not keep:
        mend = "or leave these rows out with --on-bad-row skip" if keep else "no row is left"
        raise InputError(
            f"{where}: unknown {'label' if len(unknown) == 1 else 'labels'} {listed(sort_labels(unknown), 5)} "
            f"({faults.described().removeprefix(f'{UNKNOWN_LABEL} in ')}); known are {listed(known)}: mend the labels, "
            f"{mend}"
        )
    return dataset.select(keep, keep_in_memory=True), faults.counts


def column_values(dataset: datasets.Dataset, column: str) -> Iterator:
    """Yield the values of a column, with only some of them in memory at a time."""
    for batch in dataset.select_columns([column]).iter(_BATCH):
        yield from batch[column]  # type: ignore[index]
