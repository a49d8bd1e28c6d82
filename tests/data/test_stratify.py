import random

import numpy as np

from identiformer.data.stratify import assign_groups, group_rows


def test_groups_worked_by_hand() -> None:
    #    rows:             0  1  2  3  4  5  6
    labels = np.asarray([0, 2, 1, 2, 0, 2, 1])
    keys = np.asarray([50, 70, 50, 70, 60, 70, 60], np.uint64)
    groups = group_rows(labels, keys)
    assert groups.of_row.tolist() == [0, 2, 0, 2, 1, 2, 1]
    assert groups.size.tolist() == [2, 2, 3]
    # Of two labels that are as frequent, the lower.
    assert groups.main.tolist() == [0, 0, 2]
    assert list(zip(groups.pair_group.tolist(), groups.pair_label.tolist(), strict=True)) == [
        (0, 0),
        (0, 1),
        (1, 0),
        (1, 1),
        (2, 2),
    ]
    assert groups.labels_of_group.tolist() == [2, 2, 1]
    assert groups.groups_of_label.tolist() == [2, 2, 1]


def test_a_label_that_is_only_in_contradictions_stays_in_training() -> None:
    # Label 1 is in one group only, of which label 0 is the most frequent.
    labels = np.asarray([0, 0, 1] + [0] * 40 + [2] * 40)
    keys = np.asarray([0, 0, 0, *range(1, 81)], np.uint64)
    for seed in range(20):
        places = assign_groups(group_rows(labels, keys), (0.3, 0.3), random.Random(seed))
        assert places[2] == 0
        assert places[0] == places[1] == places[2]


def test_an_empty_split_gets_the_smallest_group_that_can_be_spared() -> None:
    # A share of a thousandth of 9 rows is none: the one group of a single row is given up for it.
    labels = np.asarray([0] * 5 + [1] * 4)
    keys = np.asarray([1, 1, 2, 2, 3, 4, 4, 5, 5], np.uint64)
    places = assign_groups(group_rows(labels, keys), (0.001,), random.Random(0))
    assert places.tolist() == [0, 0, 0, 0, 1, 0, 0, 0, 0]
