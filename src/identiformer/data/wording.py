"""How messages name values, lists and rows: always on one line, never thousands of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

LISTED = 5
LONGEST = 40


def words(text: str) -> tuple[str, ...]:
    """The words of a text: a list of many short strings, easier to read."""
    return tuple(text.split())


def shown(value: object) -> str:
    """A value in quotes, on one line, cut where it is long."""
    text = str(value)
    if len(text) > LONGEST:
        text = text[: LONGEST - 3] + "..."
    # repr writes line ends and control characters as escapes; a message must stay one line.
    return repr(text)


def listed(values: Iterable[object], most: int = 12) -> str:
    """Values in quotes with commas between; after `most` of them only how many more there are."""
    names = [shown(value) for value in values]
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "") if names else "none"


def counted(count: int, noun: str) -> str:
    """A count and its noun: "1 row", "3,000 rows"."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def rows_named(count: int, first: Sequence[tuple[int, int | None]]) -> str:
    """Say which rows: "row 3 (line 4)", "rows 3, 5 and 8", "rows 3, 5, 8, 9, 12 and 40 more".

    Args:
        count: how many rows there are in all.
        first: row number and line of the first few; the line is said only for the first row of them, which is
            enough to find the place in an editor.
    """
    shown_rows = list(first)[:LISTED]
    names = [f"{number:,}" for number, _ in shown_rows]
    if shown_rows and shown_rows[0][1] is not None:
        names[0] += f" (line {shown_rows[0][1]:,})"
    more = count - len(names)
    if more > 0:
        names.append(f"{more:,} more")
    joined = names[0] if len(names) == 1 else ", ".join(names[:-1]) + " and " + names[-1]
    return f"row{'' if count == 1 else 's'} {joined}"
