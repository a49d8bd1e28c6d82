"""Data sets that need neither a file nor a network: `demo:reviews` and `demo:docstrings`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

from identiformer.data.arrow import TableWriter
from identiformer.data.docstrings import generate_docstrings
from identiformer.data.reviews import generate_reviews
from identiformer.data.types import Columns, OnBadRow, TextData
from identiformer.data.wording import listed, shown
from identiformer.errors import InputError

if TYPE_CHECKING:
    import datasets

# The parameters of each demo and their defaults.
PARAMETERS = {
    "reviews": {"rows": 3000, "seed": 0},
    "docstrings": {"rows": 3000, "seed": 0, "packages": 6},
}
LIMITS = {"rows": (20, 1_000_000), "packages": (2, 20)}


def load_demo(source: str, on_bad_row: OnBadRow = "error") -> TextData:
    """Make a demo's data set; "demo:reviews" has an extra column "evidence" (see `reviews.Review`).

    Args:
        source: "demo:reviews" or "demo:docstrings", perhaps with parameters: "demo:reviews?rows=500&seed=3".
        on_bad_row: passed on; a demo has no bad rows.

    Returns:
        The data set, with the single split "all".

    Raises:
        InputError: if there is no such demo or parameter, or too few packages are installed for docstrings.
    """
    name, _, query = source.removeprefix("demo:").partition("?")
    if name not in PARAMETERS:
        raise InputError(f"there is no demo {shown(name)}: write demo:reviews or demo:docstrings")
    given = _parameters(source, query, PARAMETERS[name])
    if name == "reviews":
        split = _reviews(given["rows"], given["seed"])
        notes: list[str] = []
    else:
        docstrings = generate_docstrings(given["rows"], given["seed"], given["packages"])
        split = _dataset([{"text": one.text, "label": one.package} for one in docstrings])
        notes = [f"{source}: docstrings of {listed(sorted({one.package for one in docstrings}))}"]
    return TextData({"all": split}, Columns("text", "label", None), notes, {}, source, on_bad_row)


def _parameters(source: str, query: str, defaults: dict[str, int]) -> dict[str, int]:
    values = dict(defaults)
    for name, value in parse_qsl(query, keep_blank_values=True):
        if name not in defaults:
            raise InputError(f"{source} has no parameter {shown(name)}: it has {listed(defaults)}")
        if not (value.isascii() and value.isdigit()) or len(value) > 9:
            raise InputError(f"{source}: {name} must be a whole number, not {shown(value)}")
        values[name] = int(value)
    for name, value in values.items():
        least, most = LIMITS.get(name, (0, value))
        if not least <= value <= most:
            raise InputError(f"{source}: {name} must be from {least} to {most:,}, not {value:,}")
    return values


def _reviews(rows: int, seed: int) -> datasets.Dataset:
    import pyarrow

    return _dataset(
        (
            {"text": one.text, "label": one.label, "evidence": [list(span) for span in one.evidence]}
            for one in generate_reviews(rows, seed)
        ),
        [("evidence", pyarrow.list_(pyarrow.list_(pyarrow.int64())))],
    )


def _dataset(rows: Iterable[dict[str, Any]], extra: Iterable[tuple[str, Any]] = ()) -> datasets.Dataset:
    import pyarrow

    columns = [("text", pyarrow.string()), ("label", pyarrow.string()), ("row", pyarrow.int64()), *extra]
    writer = TableWriter(pyarrow.schema(columns))
    for number, row in enumerate(rows, 1):
        writer.add({**row, "row": number}, len(row["text"]))
    return writer.finish()
