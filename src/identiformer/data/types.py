"""What a loaded data set is: its splits, the columns they came from, and what was said on the way."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator

    import datasets

OnBadRow = Literal["error", "skip"]
Labels = Literal["required", "optional", "ignore"]

#: The names of splits, nearest to training first.
SPLITS = ("train", "valid", "test")


@dataclass(frozen=True)
class Columns:
    """The names of the source's columns that are used; `None` for one that is not there."""

    text: str
    label: str | None
    text_pair: str | None


@dataclass
class TextData:
    """A data set of texts, usually with labels.

    Attributes:
        splits: by name; either only "all" (a single file, a demo), or any of "train", "valid" and "test". Each
            has the columns "text", "text_pair" (only if there is one), "label" (a string; only if there are
            labels), "row" (the row of the source, from 1, a header not counted) and whatever a demo adds.
        columns: where in the source these came from.
        notes: lines for the user to read: columns chosen, rows left out, and the like.
        skipped: how many rows were left out, by reason.
        source: what was loaded, as the user named it.
        on_bad_row: whether rows that cannot be used are an error or are left out.
    """

    splits: dict[str, datasets.Dataset]
    columns: Columns
    notes: list[str]
    skipped: dict[str, int]
    source: str
    on_bad_row: OnBadRow = "error"


class Row(NamedTuple):
    """One row of a source as read: its cells, or the fault that keeps it from having any."""

    number: int  # from 1, a header not counted
    line: int | None  # the line of the file it starts on, where that is known
    cells: Mapping[str, object]
    fault: str | None = None


class Table(Protocol):
    """A source of rows: a file of some format, a split of a hub data set, or a demo."""

    where: str  # the name for messages
    names: list[str]  # of its columns
    notes: list[str]  # what the reader has to say
    has_header: bool  # whether the names stood in a line of their own that could as well be data

    def rows(self, columns: Collection[str] | None = None) -> Iterator[Row]:
        """Yield every row, from the start at each call; of the cells at least those of `columns`."""
        ...
