"""Files of predictions, read back as anybody would read them."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet
import pytest

from identiformer import InputError
from identiformer.data import load_source
from identiformer.prediction_files import PARQUET_ROWS, check_ending, write_predictions
from identiformer.scoring import Prediction

LABELS = ["so, so", 'a "quoted" one', "two\nlines", "label", "😀 | `x`", "text"]
TEXTS = [
    "plain", "commas, and more", 'quotes " and ""', "line\nends\r\nof all\rkinds", "only\rthis", "\x00 in it \x00",
    "é 漢字 😀", "\x85 \u2028 \u2029 are line ends to some", "  spaces around  ", "=1+1", "'", "\ttab", "NaN", "null",
    "1.0",
]  # fmt: skip


def predictions(pairs: bool, count: int | None = None) -> list[Prediction]:
    third = 1 / 3  # has no short decimal
    return [
        Prediction(
            row=number,
            text=TEXTS[number % len(TEXTS)],
            text_pair=TEXTS[-1 - number % len(TEXTS)] if pairs else None,
            label=LABELS[number % len(LABELS)],
            probabilities={label: third / (i + number) for i, label in enumerate(LABELS, start=1)},
        )
        for number in range(count or len(TEXTS))
    ]


def flat(prediction: Prediction) -> dict[str, object]:
    pair = {} if prediction.text_pair is None else {"text_pair": prediction.text_pair}
    probabilities = {f"probability of {label}": value for label, value in prediction.probabilities.items()}
    return {
        "row": prediction.row,
        "text": prediction.text,
        **pair,
        "label": prediction.label,
        **probabilities,
    }


@pytest.mark.parametrize("pairs", [False, True])
def test_csv_reads_back_equal(pairs: bool, tmp_path: Path):
    given = predictions(pairs)
    assert write_predictions(iter(given), tmp_path / "out.csv") == len(given)
    with (tmp_path / "out.csv").open(newline="", encoding="utf-8") as handle:
        read = list(csv.DictReader(handle))
    assert read == [{name: str(value) for name, value in flat(one).items()} for one in given]
    for row, one in zip(read, given, strict=True):
        for label, value in one.probabilities.items():
            assert float(row[f"probability of {label}"]) == value


@pytest.mark.parametrize("pairs", [False, True])
def test_json_lines_read_back_equal(pairs: bool, tmp_path: Path):
    given = predictions(pairs)
    assert write_predictions(iter(given), tmp_path / "out.jsonl") == len(given)
    with (tmp_path / "out.jsonl").open(encoding="utf-8") as handle:
        assert [json.loads(line) for line in handle] == [one.to_dict() for one in given]


@pytest.mark.parametrize("pairs", [False, True])
def test_parquet_reads_back_equal(pairs: bool, tmp_path: Path):
    given = predictions(pairs, PARQUET_ROWS + 10)
    assert write_predictions(iter(given), tmp_path / "out.parquet") == len(given)
    assert pyarrow.parquet.read_table(tmp_path / "out.parquet").to_pylist() == [flat(one) for one in given]


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
def test_a_file_of_predictions_is_a_source_again(ending: str, tmp_path: Path):
    path = tmp_path / f"out.{ending}"
    write_predictions(predictions(False), path)
    data = load_source(str(path))
    assert list(data.splits["all"]["text"]) == TEXTS
    assert list(data.splits["all"]["label"]) == [one.label for one in predictions(False)]


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
def test_a_file_that_breaks_off_does_not_appear(ending: str, tmp_path: Path):
    def broken() -> Iterator[Prediction]:
        yield from predictions(False)[:2]
        raise InputError("the model is gone")

    with pytest.raises(InputError, match="the model is gone"):
        write_predictions(broken(), tmp_path / f"out.{ending}")
    assert list(tmp_path.iterdir()) == []


def test_other_endings_are_refused(tmp_path: Path):
    check_ending(Path("OUT.CSV"))
    for name in ("out", "out.txt", "out.csv.gz"):
        with pytest.raises(InputError, match=r"ends in none of \.csv, \.jsonl, \.parquet: choose one"):
            check_ending(tmp_path / name)
