"""Numbers and commands as pages say them."""

from __future__ import annotations

import pytest

from identiformer.report.tables import command_line, counted, numbers, percent, small


@pytest.mark.parametrize(
    ("share", "said"),
    [
        (None, "–"),
        (0, "0 %"),
        (1, "100 %"),
        (0.275, "27.5 %"),
        (0.9, "90 %"),
        (0.99999, "over 99.9 %"),
        (0.00001, "under 0.1 %"),
    ],
)
def test_nearly_all_is_not_all(share: float | None, said: str) -> None:
    assert percent(share) == said


@pytest.mark.parametrize(
    ("value", "said"), [(None, "–"), (0, "0"), (0.0123, "0.012"), (3e-7, "3.0e-7"), (1.5e-12, "1.5e-12")]
)
def test_small_numbers(value: float | None, said: str) -> None:
    assert small(value) == said


def test_runs_of_numbers() -> None:
    assert numbers([5, 0, 1, 2, 3, 7, 8]) == "0–3, 5, 7, 8"
    assert numbers([3]) == "3"
    assert (counted(1, "text"), counted(1200, "text")) == ("1 text", "1,200 texts")


def test_a_command_says_what_is_not_usual() -> None:
    options = {
        "rows": "all",
        "layers": (0, 5),
        "limit": None,
        "prove": 3,
        "values_carry_keys": True,
        "seed": 0,
    }
    defaults = {"rows": "pooled", "layers": None, "seed": 0}
    assert command_line("audit", ["a model", "texts.csv"], "out", options, defaults) == (
        "identiformer audit 'a model' texts.csv --output out --rows all --layers 0,5 --prove 3 --values-carry-keys"
    )
