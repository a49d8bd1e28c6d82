"""Tables of a page, and the words and numbers in them."""

from __future__ import annotations

import shlex
import statistics
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Table:
    """A table: its first column names the rows.

    Args:
        caption: What it is of.
        columns: Their headings.
        rows: Cells, which can hold anybody's text.
        texts: Which columns hold no numbers, beside the first.
        code: Whether the first column is something to type.
        note: A sentence below it.
    """

    caption: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str | int | float | None]]
    texts: Collection[int] = ()
    code: bool = False
    note: str = ""


def percent(share: float | None) -> str:
    """A share as a percentage that never says 100 % or 0 % of what is only nearly so."""
    if share is None:
        return "–"
    shown = f"{100 * share:.1f}"
    if shown == "100.0" and share < 1:
        return "over 99.9 %"
    if shown == "0.0" and share > 0:
        return "under 0.1 %"
    return f"{shown.removesuffix('.0')} %"


def small(value: float | None) -> str:
    """A number of any size in two digits."""
    if value is None:
        return "–"
    if value == 0:
        return "0"
    return f"{value:.2g}" if 1e-3 <= abs(value) < 1e4 else f"{value:.1e}".replace("e-0", "e-")


def numbers(values: Iterable[int]) -> str:
    """Whole numbers as a reader lists them: `0–3, 5`."""
    runs: list[list[int]] = []
    for value in sorted(set(values)):
        if runs and value == runs[-1][1] + 1:
            runs[-1][1] = value
        else:
            runs.append([value, value])
    return ", ".join(str(a) if a == b else f"{a}, {b}" if b == a + 1 else f"{a}–{b}" for a, b in runs)


def median(values: Iterable[int]) -> str:
    """The median of whole numbers, exactly: of an even number of them it can end in .5; of none it is 0."""
    known = list(values)
    return f"{statistics.median(known):.15g}" if known else "0"


def counted(number: int, one: str, several: str | None = None) -> str:
    """`1 text`, `2 texts`."""
    return f"{number:,} {one if number == 1 else several or one + 's'}"


def settings_table(settings: Mapping[str, Any], caption: str = "Settings") -> Table:
    """Settings as they are called in Python; those that are `None` were not given."""
    return Table(
        caption,
        ("setting", "value"),
        [(name, _value(value)) for name, value in settings.items()],
        texts=(1,),
        code=True,
    )


def _value(value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value))  # pyright: ignore[reportUnknownArgumentType]
    return str(value)


def command_line(
    command: str, given: Sequence[str], output: str, options: Mapping[str, Any], defaults: Mapping[str, Any]
) -> str:
    """The command that does the same again; options at their defaults are left out.

    Args:
        command: Of the program.
        given: Its arguments.
        output: The name of the folder that it makes.
        options: By name, as in `batch_size`; `True` is a switch.
        defaults: The same; what has none is always said.
    """
    parts = ["identiformer", command, *given, "--output", output]
    for name, value in options.items():
        if value is None or value is False or value == defaults.get(name):
            continue
        parts.append("--" + name.replace("_", "-"))
        if value is not True:
            parts.append(",".join(map(str, value)) if isinstance(value, list | tuple) else str(value))  # pyright: ignore[reportUnknownArgumentType]
    return shlex.join(parts)
