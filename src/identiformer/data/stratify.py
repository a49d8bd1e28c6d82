"""Placing groups of rows into splits: every label in its share, no group torn apart."""

from __future__ import annotations

import random
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Groups:
    """Rows that belong together, as arrays, since there can be millions of groups.

    Attributes:
        of_row: the group of each row, from 0.
        size: the number of rows of each group.
        main: the most frequent label of each group. Others are rare: they contradict it on the same text.
        pair_group: with `pair_label`, every group with every one of its labels.
        pair_label: see `pair_group`.
    """

    of_row: Ints
    size: Ints
    main: Ints
    pair_group: Ints
    pair_label: Ints

    @property
    def labels_of_group(self) -> Ints:
        """How many labels each group has."""
        return np.bincount(self.pair_group)

    @property
    def groups_of_label(self) -> Ints:
        """How many groups each label is in."""
        return np.bincount(self.pair_label)


def group_rows(labels: Ints, keys: NDArray[np.uint64]) -> Groups:
    """Group rows with equal keys.

    Args:
        labels: the label of each row, from 0.
        keys: the key of each row.
    """
    _, of_row = np.unique(keys, return_inverse=True)
    many = int(labels.max()) + 1
    pairs, counts = np.unique(of_row * many + labels, return_counts=True)
    pair_group, pair_label = np.divmod(pairs, many)
    # Most frequent label first in each group, the lower one of two that are as frequent.
    order = np.lexsort((pair_label, -counts, pair_group))
    _, first = np.unique(pair_group[order], return_index=True)
    return Groups(of_row, np.bincount(of_row), pair_label[order][first], pair_group, pair_label)


def assign_groups(groups: Groups, fractions: tuple[float, ...], chance: random.Random) -> Ints:
    """Place each row in training (0) or in one of the other splits (1, 2, ...), whole groups together.

    Groups go one after another to the split that lacks most rows: label by label, large groups first, so that single
    rows even out what large groups leave, and what a label leaves over is made up for in the next. The first group
    of each label goes to training, which so has every label, and in which large groups weigh least.

    Args:
        groups: the rows.
        fractions: the share of rows for each split but training.
        chance: orders groups of the same size.

    Returns:
        The place of each row. Each label has a group in training. A split is left empty only if there are too few
        groups to fill it and keep that so.
    """
    shares = (1.0 - sum(fractions), *fractions)
    shuffled = list(range(len(groups.size)))
    chance.shuffle(shuffled)
    order = np.asarray(shuffled)
    order = order[np.lexsort((-groups.size[order], groups.main[order]))]

    place = np.zeros(len(order), np.int64)
    lacking = [0.0] * len(shares)
    last = -1
    for group, label, size in zip(
        order.tolist(), groups.main[order].tolist(), groups.size[order].tolist(), strict=True
    ):
        first, last = label != last, label
        if first:
            # What a large group left over must not push a whole other label to one side.
            lacking = [min(1.0, max(-1.0, rows)) for rows in lacking]
        lacking = [rows + size * share for rows, share in zip(lacking, shares, strict=True)]
        chosen = 0 if first else lacking.index(max(lacking))
        lacking[chosen] -= size
        place[group] = chosen
    _keep_labels_in_training(groups, place)
    for empty in range(1, len(shares)):
        if not (place == empty).any():
            _fill(groups, place, empty)
    return place[groups.of_row]


def _keep_labels_in_training(groups: Groups, place: Ints) -> None:
    """Move a group to training for each label that has none there: one found only in contradictions of another."""
    trained = np.zeros(int(groups.pair_label.max()) + 1, bool)
    trained[groups.pair_label[place[groups.pair_group] == 0]] = True
    for label in np.flatnonzero(~trained):
        place[groups.pair_group[groups.pair_label == label][0]] = 0


def _fill(groups: Groups, place: Ints, empty: int) -> None:
    """Give an empty split the smallest group that can be spared, if there is one; with few rows it comes to that."""
    trained = np.bincount(
        groups.pair_label[place[groups.pair_group] == 0], minlength=len(groups.groups_of_label)
    )
    spare = np.bincount(place, minlength=empty + 1)[place] > 1
    # A group of training can be spared only if each of its labels is in another one there.
    needed = groups.pair_group[trained[groups.pair_label] <= 1]
    spare[needed] &= place[needed] != 0
    # From training first: the other splits have little as it is.
    order = np.lexsort((groups.size, place != 0))
    found = order[spare[order]]
    if len(found):
        place[found[0]] = empty
