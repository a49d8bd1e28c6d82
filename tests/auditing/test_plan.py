"""Rows chosen evenly."""

from __future__ import annotations

from collections import Counter

import pytest

from identiformer.auditing.plan import spread_rows

TEXTS = list(range(1, 101))
HEADS = [(layer, head) for layer in range(3) for head in range(5)]


@pytest.mark.parametrize("count", [0, 1, 7, 100, 150, 1500])
def test_as_many_different_rows_as_asked_for(count: int) -> None:
    chosen = spread_rows(count, TEXTS, HEADS)
    assert len(chosen) == count
    assert all(text in TEXTS and (layer, head) in HEADS for text, layer, head in chosen)


def test_no_more_than_there_are() -> None:
    assert len(spread_rows(99, [4, 9], [(0, 0), (0, 1), (1, 0)])) == 6


def test_texts_and_heads_are_met_evenly() -> None:
    chosen = spread_rows(75, TEXTS, HEADS)
    assert max(Counter(text for text, _, _ in chosen).values()) == 1
    met = Counter((layer, head) for _, layer, head in chosen)
    assert set(met.values()) <= {4, 5, 6}
    # And not the first heads with the first texts only.
    assert {text > 50 for text, layer, _ in chosen if layer == 0} == {True, False}
