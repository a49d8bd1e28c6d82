"""Counts and quantiles in fixed memory."""

from __future__ import annotations

import numpy as np
import pytest

from identiformer.auditing.tally import LogHistogram, Tally


def test_quantiles_are_within_two_percent_of_the_sorted_values() -> None:
    values = 10 ** np.random.default_rng(0).uniform(-9, 0, size=1001)
    histogram = LogHistogram()
    for part in np.array_split(values, 7):
        histogram.add(part)
    for share in (0.05, 0.25, 0.5, 0.75, 0.95):
        exact = np.sort(values)[int(share * len(values))]
        assert histogram.quantile(share) == pytest.approx(exact, rel=0.02)


def test_the_ends_of_the_scale_are_counted() -> None:
    histogram = LogHistogram()
    histogram.add(np.array([0.0, 1e-30, 1.0]))
    assert histogram.quantile(0.0) == pytest.approx(1e-20, rel=0.02)
    assert histogram.quantile(0.99) == pytest.approx(1.0, rel=0.02)
    assert LogHistogram().quantile(0.5) is None


def test_shares_are_those_of_rows_counted_by_hand() -> None:
    tally = Tally()
    tally.add(
        {
            "tokens": np.array([3, 5, 7, 11]),
            "tied_tokens": np.array([0, 2, 0, 0]),
            "top_certain": np.array([True, False, True, True]),
            "free_verdict": np.array(["none"] * 4, dtype=object),
            "free_margin": np.array([0.0] * 4),
            "simplex_verdict": np.array(["global", "none", "none", "none"], dtype=object),
            "simplex_margin": np.array([0.25, 0.0, 0.0, 0.0]),
            # Of one row, nothing can be said at this level.
            "generatable_verdict": np.array(["global", "local", "none", None], dtype=object),
            "generatable_margin": np.array([0.5, 0.125, 0.0, np.nan]),
        }
    )
    result = tally.to_dict()
    assert result["rows"] == 4
    assert result["tied"] == 0.25
    assert result["top_certain"] == 0.75
    free, simplex, generatable = (result["levels"][name] for name in ("free", "simplex", "generatable"))
    assert (free["rows"], free["identifiable"], free["margin"]["0.5"]) == (4, 0.0, None)
    assert (simplex["identifiable"], simplex["global"]) == (0.25, 0.25)
    assert simplex["margin"]["0.5"] == pytest.approx(0.25, rel=0.02)
    assert generatable["rows"] == 3
    assert generatable["identifiable"] == pytest.approx(2 / 3)
    assert generatable["global"] == pytest.approx(1 / 3)
    assert generatable["margin"]["0.05"] == pytest.approx(0.125, rel=0.02)


def test_nothing_counted_gives_no_shares() -> None:
    result = Tally().to_dict()
    assert result["rows"] == 0
    assert result["top_certain"] is None
    assert result["levels"]["simplex"]["identifiable"] is None
