"""Rows written as JSON objects: a line each (.jsonl, .ndjson), or a list of them (.json)."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from itertools import islice
from pathlib import Path

from identiformer.data.files import open_text, reading, refuse_binary
from identiformer.data.types import Row
from identiformer.data.wording import listed
from identiformer.errors import InputError

NOT_JSON = "a line that is not JSON"
NOT_AN_OBJECT = "a row that is not a JSON object"
# How many rows are looked at to learn the columns: objects need not all have the same keys.
LOOKED_AT = 1000


class RepeatedKeyError(ValueError):
    """An object names a key twice; JSON readers would keep only the last."""


class JsonLines:
    """The rows of a file with a JSON object on every line. Blank lines are no rows.

    Args:
        path: the file.

    Raises:
        InputError: if the file is empty or not UTF-8 text.
    """

    has_header = False

    def __init__(self, path: Path):
        self.path = path
        self.where = str(path)
        self.notes: list[str] = []
        refuse_binary(path)
        self.names = _keys(islice(self.rows(), LOOKED_AT))

    def rows(self, columns: Collection[str] | None = None) -> Iterator[Row]:
        """Yield every row; a line that is not a JSON object as a fault."""
        number = 0
        # Only "\n" ends a line: a text may hold any other character that Python takes for a line end.
        with reading(self.path), open_text(self.path, newline="\n") as text:
            for line, content in enumerate(text, 1):
                if content.isspace():
                    continue
                number += 1
                try:
                    value = _parse(content)
                except (ValueError, RecursionError):
                    yield Row(number, line, {}, NOT_JSON)
                else:
                    yield _row(number, line, value)


class JsonList:
    """The rows of a file that holds a list of objects, or `{"data": [...]}`. It is read into memory whole.

    Args:
        path: the file.

    Raises:
        InputError: if the file is not JSON, or holds something else.
    """

    has_header = False

    def __init__(self, path: Path):
        self.path = path
        self.where = str(path)
        self.notes: list[str] = []
        refuse_binary(path)
        self._items = self._load()
        self.names = _keys(islice(self.rows(), LOOKED_AT))

    def rows(self, columns: Collection[str] | None = None) -> Iterator[Row]:
        """Yield every row; an item that is not an object as a fault."""
        for number, value in enumerate(self._items, 1):
            yield _row(number, None, value)

    def _load(self) -> list[object]:
        with reading(self.path), open_text(self.path, newline="\n") as text:
            content = text.read()
        try:
            value = _parse(content)
        except json.JSONDecodeError as error:
            # The first line is whole, and a second one follows it: lines of JSON under the wrong name.
            lines = error.msg == "Extra data" and content[: error.pos].lstrip().startswith("{")
            mend = "it holds an object a line, so end its name in .jsonl" if lines else "mend it there"
            raise InputError(
                f"{self.path} is not valid JSON: line {error.lineno:,}, column {error.colno:,}: {error.msg}; {mend}"
            ) from error
        except (ValueError, RecursionError) as error:
            raise InputError(f"{self.path} is not usable JSON: {error}; mend it there") from error
        if isinstance(value, dict) and isinstance(value.get("data"), list):
            value = value["data"]
        if not isinstance(value, list):
            held = f"an object with the keys {listed(value)}" if isinstance(value, dict) else "a single value"
            raise InputError(
                f'{self.path} holds {held}: it must be a list of objects, [{{"text": ..., "label": ...}}, ...], or '
                '{"data": [...]}'
            )
        return value


def _parse(content: str) -> object:
    return json.loads(content, object_pairs_hook=_object)


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    made = dict(pairs)
    if len(made) < len(pairs):
        names = [name for name, _ in pairs]
        twice = sorted({name for name in names if names.count(name) > 1})
        raise RepeatedKeyError(f"an object has more than one {listed(twice)}")
    return made


def _row(number: int, line: int | None, value: object) -> Row:
    if isinstance(value, dict):
        return Row(number, line, value)
    return Row(number, line, {}, NOT_AN_OBJECT)


def _keys(rows: Iterator[Row]) -> list[str]:
    """The keys of the rows, in the order in which they first appear."""
    return list({name: None for row in rows for name in row.cells})
