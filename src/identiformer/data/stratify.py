"""Placing groups of rows into splits: every label in its share, no group torn apart."""

from __future__ import annotations

import random
from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


def assign_groups(
    codes: NDArray[np.int64], groups: NDArray[np.int64], fractions: tuple[float, ...], chance: random.Random
) -> NDArray[np.int64]:
    """Place each row in training (0) or in one of the other splits (1, 2, ...), whole groups together.

    Groups go one after another to the split that lacks most rows: label by label, large groups first, so that single
    rows even out what large groups leave, and what a label leaves over is made up for in the next. The first group
    of each label goes to training, which so has every label, and in which large groups weigh least.

    Args:
        codes: the label of each row, from 0.
        groups: the group of each row, from 0.
        fractions: the share of rows for each split but training.
        chance: orders groups of the same size.

    Returns:
        The place of each row. Each label has a group in training. A split is left empty only if there are too few
        groups to fill it and keep that so.
    """
    members = _members(codes, groups)
    shares = (1.0 - sum(fractions), *fractions)
    order = list(range(len(members)))
    chance.shuffle(order)
    # A group counts for its most frequent label; the other labels in it are rare, being contradictions.
    main = [max(sorted(counts), key=counts.__getitem__) for counts in members]
    order.sort(key=lambda group: (main[group], -members[group].total()))

    place = [0] * len(members)
    lacking = [0.0] * len(shares)
    last = -1
    for group in order:
        first = main[group] != last
        last = main[group]
        if first:
            # What a large group left over must not push a whole other label to one side.
            lacking = [min(1.0, max(-1.0, rows)) for rows in lacking]
        size = members[group].total()
        lacking = [rows + size * share for rows, share in zip(lacking, shares, strict=True)]
        chosen = 0 if first else max(range(len(shares)), key=lacking.__getitem__)
        lacking[chosen] -= size
        place[group] = chosen
    _keep_labels_in_training(members, place)
    _fill_empty(members, place, len(shares))
    return np.asarray(place, np.int64)[groups]


def _members(codes: NDArray[np.int64], groups: NDArray[np.int64]) -> list[Counter[int]]:
    """How many rows of each label each group has."""
    members: list[Counter[int]] = [Counter() for _ in range(int(groups.max()) + 1)]
    for code, group in zip(codes.tolist(), groups.tolist(), strict=True):
        members[group][code] += 1
    return members


def _keep_labels_in_training(members: list[Counter[int]], place: list[int]) -> None:
    """Move a group to training for each label that has none there: one found only in contradictions of another."""
    there = {code for group, counts in enumerate(members) if place[group] == 0 for code in counts}
    for group, counts in enumerate(members):
        if place[group] and not there.issuperset(counts):
            place[group] = 0
            there.update(counts)


def _fill_empty(members: list[Counter[int]], place: list[int], splits: int) -> None:
    """Give each empty split the smallest group that can be spared, as happens with few rows."""
    for empty in range(1, splits):
        if empty in place:
            continue
        sizes = Counter(place)
        trained = Counter(
            code for group, counts in enumerate(members) if place[group] == 0 for code in counts
        )
        spare = [
            group
            for group, counts in enumerate(members)
            if (all(trained[code] > 1 for code in counts) if place[group] == 0 else sizes[place[group]] > 1)
        ]
        if spare:
            # From training first: the other splits have little as it is.
            place[min(spare, key=lambda group: (place[group] != 0, members[group].total(), group))] = empty
