"""Splitting a data set into training, validation and test sets that share no text."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING

import numpy as np

from identiformer.data.faults import Faults, add_counts
from identiformer.data.labels import check_labels, check_trainable, column_values, encode_labels, sort_labels
from identiformer.data.stratify import Groups, assign_groups, group_rows
from identiformer.data.types import SPLITS, TextData
from identiformer.data.wording import counted, listed
from identiformer.errors import InputError

if TYPE_CHECKING:
    import datasets
    from numpy.typing import NDArray


def split_data(
    data: TextData, *, seed: int, valid_fraction: float = 0.1, test_fraction: float = 0.1
) -> TextData:
    """Split a data set into training, validation and test sets.

    Splits that the data set has are used; those it lacks are taken from its training split, or from its only one:
    at random, with every label's share kept, and equal texts always together. Texts are equal if they are but for
    case and white space. Where given splits share a text, its copies in the split nearer to training are left out,
    so that what is tested was never trained on.

    Args:
        data: what `load_source` gave.
        seed: the same seed gives the same splits, in every process.
        valid_fraction: the share of rows for validation, of those that the splits are taken from.
        test_fraction: the same for the test set.

    Returns:
        The data set with the splits "train", "valid" and "test", and with new notes and counts of rows left out.

    Raises:
        InputError: if there is no training split, too few rows, only one label or one for each row, or a given split
            has labels that the training split lacks (unless `data.on_bad_row` is "skip").
    """
    if not (valid_fraction > 0 and test_fraction > 0 and valid_fraction + test_fraction < 1):
        raise InputError(
            f"the validation and test fractions must be above 0 and their sum below 1, not {valid_fraction} and "
            f"{test_fraction}"
        )
    given = {"train" if name == "all" else name: rows for name, rows in data.splits.items()}
    if "train" not in given:
        raise InputError(f"{data.source} has no train split, which training needs: found {listed(given)}")
    for name, rows in given.items():
        if "label" not in rows.column_names:
            raise InputError(
                f"{data.source}: the {name} split has no labels: name their column with --label-column"
            )
    notes, skipped = list(data.notes), dict(data.skipped)
    keys = {name: text_keys(rows) for name, rows in given.items()}
    _leave_out_copies(data.source, given, keys, notes, skipped)

    counts = Counter(column_values(given["train"], "label"))
    check_trainable(counts, counts, data)
    names = sort_labels(counts)
    groups = group_rows(encode_labels(given["train"], names), keys["train"])
    _note_labels(data.source, counts, groups, notes)
    for name in SPLITS[1:]:
        if name in given:
            where = f"{data.source} ({name})"
            given[name], unknown = check_labels(given[name], names, where, data.on_bad_row)
            add_counts(skipped, unknown.items())
            if unknown:
                notes.append(
                    f"{where}: {counted(sum(unknown.values()), 'row')} left out: labels that train lacks"
                )

    fractions = {"valid": valid_fraction, "test": test_fraction}
    wanted = {name: fraction for name, fraction in fractions.items() if name not in given}
    if wanted:
        places = _carve(data.source, names, groups, wanted, seed, notes)
        rows = given["train"]
        for place, name in enumerate(["train", *wanted]):
            given[name] = rows.select(np.flatnonzero(places == place).tolist(), keep_in_memory=True)
    splits = {name: given[name] for name in SPLITS}
    return TextData(splits, data.columns, notes, skipped, data.source, data.on_bad_row)


def text_keys(dataset: datasets.Dataset) -> NDArray[np.uint64]:
    """A number for each row's text, or pair of texts: equal for texts that are equal but for case and white space."""
    paired = "text_pair" in dataset.column_names
    texts = column_values(dataset, "text")
    if not paired:
        return np.fromiter((_key(text) for text in texts), np.uint64, len(dataset))
    pairs = zip(texts, column_values(dataset, "text_pair"), strict=True)
    # A normal text holds no line end, so that one keeps the two apart.
    return np.fromiter((_key(text, pair) for text, pair in pairs), np.uint64, len(dataset))


def _key(*texts: str) -> int:
    """64 bits: among ten million texts, two different ones share a key about once in 400,000 data sets."""
    normal = "\n".join(" ".join(text.casefold().split()) for text in texts)
    return int.from_bytes(blake2b(normal.encode(), digest_size=8).digest(), "little")


def _leave_out_copies(
    source: str,
    given: dict[str, datasets.Dataset],
    keys: dict[str, NDArray[np.uint64]],
    notes: list[str],
    skipped: dict[str, int],
) -> None:
    """Drop rows of a split whose text a later split has too, in place."""
    later = [name for name in reversed(SPLITS) if name in given]
    for nearer in SPLITS[:-1]:
        if nearer not in given:
            continue
        for farther in later[: later.index(nearer)]:
            copies = np.isin(keys[nearer], keys[farther])
            if not copies.any():
                continue
            reason = f"{nearer} text also in {farther}"
            faults = Faults(source)
            rows = column_values(
                given[nearer].select(np.flatnonzero(copies).tolist(), keep_in_memory=True), "row"
            )
            for row in rows:
                faults.add(reason, row)
            if copies.all():
                raise InputError(
                    f"{source}: every text of {nearer} is also in {farther}, so none is left: give different files"
                )
            given[nearer] = given[nearer].select(np.flatnonzero(~copies).tolist(), keep_in_memory=True)
            keys[nearer] = keys[nearer][~copies]
            notes.append(f"{source}: {counted(faults.total, 'row')} left out: {faults.described()}")
            add_counts(skipped, faults.counts.items())


def _note_labels(source: str, counts: Counter[str], groups: Groups, notes: list[str]) -> None:
    """Say what about the labels may be a mistake without being an error."""
    if len(counts) > max(20, counts.total() // 2):
        notes.append(
            f"{source}: {len(counts):,} labels in {counts.total():,} rows: is the label a measured number?"
        )
    alike = Counter(label.casefold() for label in counts)
    same = sort_labels(label for label in counts if alike[label.casefold()] > 1)
    if same:
        notes.append(f"{source}: labels that differ only in case are different labels: {listed(same)}")
    torn = groups.labels_of_group > 1
    if torn.any():
        texts, rows = int(torn.sum()), int(groups.size[torn].sum())
        notes.append(
            f"{source}: {counted(texts, 'text')} of the training rows ({counted(rows, 'row')}) "
            f"{'has' if texts == 1 else 'have'} more than one label"
        )


def _carve(
    source: str, names: Sequence[str], groups: Groups, wanted: dict[str, float], seed: int, notes: list[str]
) -> NDArray[np.int64]:
    """Place each row: 0 for training, then the wanted splits in their order."""
    places = assign_groups(groups, tuple(wanted.values()), random.Random(seed))
    missing = [name for place, name in enumerate(wanted, 1) if not (places == place).any()]
    if missing:
        raise InputError(
            f"{source} has too few different texts ({len(groups.size):,} with {counted(len(names), 'label')}) to take "
            f"a {' and a '.join(missing)} set from them and keep each label in training: add rows"
        )
    alone = [names[label] for label in np.flatnonzero(groups.groups_of_label == 1).tolist()]
    if alone:
        notes.append(
            f"{source}: {counted(len(alone), 'label')} with a single text, so only in training: {listed(alone)}"
        )
    return places
