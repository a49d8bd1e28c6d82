"""Writing predictions as they come: JSON lines, CSV or Parquet."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from pathlib import Path
from typing import IO

from identiformer.errors import InputError
from identiformer.output import whole_file
from identiformer.scoring import Prediction

ENDINGS = (".csv", ".jsonl", ".parquet")
PARQUET_ROWS = 4096  # rows of a row group


def check_ending(path: Path) -> None:
    """Raise an `InputError` if predictions cannot be written under that name."""
    if path.suffix.lower() not in ENDINGS:
        raise InputError(f"--output {path} ends in none of {', '.join(ENDINGS)}: choose one of them")


def write_predictions(predictions: Iterable[Prediction], path: Path) -> int:
    """Write predictions to a .csv, .jsonl or .parquet file, which appears when it is whole.

    JSON lines hold `Prediction.to_dict`; the other two hold the columns `row`, `text`, `text_pair` (of pairs),
    `label`, and `probability of LABEL` for each label.

    Returns:
        The number of rows written.
    """
    check_ending(path)
    ending = path.suffix.lower()
    with whole_file(path, "wb" if ending == ".parquet" else "w") as handle:
        if ending == ".jsonl":
            return write_json_lines(predictions, handle)
        return _write_csv(predictions, handle) if ending == ".csv" else _write_parquet(predictions, handle)


def write_json_lines(predictions: Iterable[Prediction], handle: IO[str]) -> int:
    """Write predictions as JSON lines; returns their number."""
    count = 0
    for prediction in predictions:
        handle.write(json.dumps(prediction.to_dict(), ensure_ascii=False) + "\n")
        count += 1
    return count


def _flat(prediction: Prediction) -> dict[str, object]:
    row = prediction.to_dict()
    probabilities = row.pop("probabilities")
    return row | {f"probability of {label}": value for label, value in probabilities.items()}


def _write_csv(predictions: Iterable[Prediction], handle: IO[str]) -> int:
    writer: csv.DictWriter[str] | None = None
    count = 0
    for prediction in predictions:
        row = _flat(prediction)
        if writer is None:
            # Every text in quotes: Python leaves them out around one with a lone \r, which ends a line to readers.
            writer = csv.DictWriter(handle, list(row), lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC)
            writer.writeheader()
        writer.writerow(row)
        count += 1
    return count


def _write_parquet(predictions: Iterable[Prediction], handle: IO[bytes]) -> int:
    import pyarrow as pa
    import pyarrow.parquet as pq

    writer: pq.ParquetWriter | None = None
    count = 0
    for group in _groups(predictions):
        table = pa.Table.from_pylist([_flat(prediction) for prediction in group])
        if writer is None:
            writer = pq.ParquetWriter(handle, table.schema)
        writer.write_table(table)
        count += len(group)
    if writer is not None:
        writer.close()
    return count


def _groups(predictions: Iterable[Prediction]) -> Iterator[list[Prediction]]:
    iterator = iter(predictions)
    for first in iterator:
        yield list(chain([first], islice(iterator, PARQUET_ROWS - 1)))
