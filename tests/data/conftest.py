"""Files of every format, written as other programs write them."""

import csv
import gzip
import io
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest

Write = Callable[..., Path]


def as_bytes(ending: str, rows: Sequence[dict[str, Any]]) -> bytes:
    names = list({name: None for row in rows for name in row})
    if ending in ("csv", "tsv"):
        text = io.StringIO(newline="")
        writer = csv.writer(text, delimiter="," if ending == "csv" else "\t")
        writer.writerow(names)
        writer.writerows([[row.get(name) for name in names] for row in rows])
        return text.getvalue().encode()
    if ending in ("jsonl", "ndjson"):
        return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode()
    if ending == "json":
        return json.dumps(list(rows)).encode()
    out = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(list(rows)), out)
    return out.getvalue()


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write a file: from rows in the format of its name, or from text or bytes as they are."""

    def write(name: str, content: str | bytes | Sequence[dict[str, Any]]) -> Path:
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True, parents=True)
        if isinstance(content, str):
            raw = content.encode()
        elif isinstance(content, bytes):
            raw = content
        else:
            raw = as_bytes(name.removesuffix(".gz").rsplit(".", 1)[1], content)
        path.write_bytes(gzip.compress(raw) if name.endswith(".gz") else raw)
        return path

    return write
