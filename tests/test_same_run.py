"""Runs that go on: the same ones, and others."""

from __future__ import annotations

from pathlib import Path

import pytest
from datasets import Dataset

from identiformer.errors import InputError
from identiformer.same_run import digest_of, is_same_run, read_run


def test_a_run_is_kept_and_known_again(tmp_path: Path) -> None:
    run = {"settings": {"layers": (0, 5), "seed": 3}, "data": "7"}
    assert not is_same_run(tmp_path / "run.json", run)
    assert is_same_run(tmp_path / "run.json", run)  # a tuple comes back as a list
    assert read_run(tmp_path / "run.json") == {"settings": {"layers": [0, 5], "seed": 3}, "data": "7"}


def test_what_differs_is_named(tmp_path: Path) -> None:
    file = tmp_path / "run.json"
    is_same_run(file, {"settings": {"seed": 3, "epochs": 5}, "data": "7", "model": "11"})
    with pytest.raises(InputError, match=r"other settings \(seed, epochs\): give the same ones"):
        is_same_run(file, {"settings": {"seed": 4, "epochs": 6}, "data": "0", "model": "0"})
    with pytest.raises(InputError, match="the model changed since the run was stopped"):
        is_same_run(file, {"settings": {"seed": 3, "epochs": 5}, "data": "7", "model": "0"})


def test_a_setting_that_is_newer_than_the_run_is_no_other(tmp_path: Path) -> None:
    is_same_run(tmp_path / "run.json", {"settings": {"seed": 3}})
    assert is_same_run(tmp_path / "run.json", {"settings": {"seed": 3, "report_rows": 48}})


def test_other_texts_have_another_digest() -> None:
    def digest(*rows: dict[str, str], columns: tuple[str, ...] = ("text", "label")) -> str:
        return digest_of([Dataset.from_list(list(rows))], columns)

    one = {"text": "a", "label": "b"}
    assert digest(one) == digest({**one, "note": "not read"})
    digests = {
        digest(one),
        digest({"text": "ab", "label": ""}),
        digest(one, one),
        digest({"text": "b", "label": "a"}),
        digest(one, columns=("text",)),
    }
    assert len(digests) == 5


def test_many_texts_count_to_the_last() -> None:
    rows = [{"text": str(i)} for i in range(2001)]
    other = [*rows[:-1], {"text": "another"}]
    assert digest_of([Dataset.from_list(rows)], ("text",)) != digest_of([Dataset.from_list(other)], ("text",))
