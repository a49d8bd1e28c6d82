"""Rows that cannot be used: collected while a source is read, then an error or a count."""

from __future__ import annotations

from collections.abc import Iterable

from identiformer.data.types import OnBadRow
from identiformer.data.wording import LISTED, counted, rows_named
from identiformer.errors import InputError


class Faults:
    """The rows of one source that cannot be used, by reason; only the first few are remembered.

    Args:
        where: the source, for messages.
    """

    def __init__(self, where: str):
        self.where = where
        self.counts: dict[str, int] = {}
        self._first: dict[str, list[tuple[int, int | None]]] = {}

    def add(self, reason: str, row: int, line: int | None = None) -> None:
        """Note that a row cannot be used."""
        self.counts[reason] = self.counts.get(reason, 0) + 1
        first = self._first.setdefault(reason, [])
        if len(first) < LISTED:
            first.append((row, line))

    @property
    def total(self) -> int:
        """How many rows cannot be used."""
        return sum(self.counts.values())

    def described(self) -> str:
        """Every reason with its rows: "missing text in row 3 (line 4); blank text in rows 5 and 8"."""
        return "; ".join(
            f"{reason} in {rows_named(count, self._first[reason])}" for reason, count in self.counts.items()
        )

    def nothing_usable(self) -> InputError:
        """The error for a source without a single good row."""
        if not self.counts:
            return InputError(f"{self.where} has no rows: it needs at least one")
        return InputError(
            f"{self.where}: none of its {counted(self.total, 'row')} can be used: {self.described()}"
        )

    def settle(self, on_bad_row: OnBadRow, good: int) -> list[str]:
        """Raise, or say what was left out.

        Args:
            on_bad_row: which of the two.
            good: how many rows can be used.

        Returns:
            Notes: one line, or none where every row is good.

        Raises:
            InputError: if there are bad rows and they are an error, or if no row is good.
        """
        if good == 0:
            raise self.nothing_usable()
        if not self.counts:
            return []
        if on_bad_row == "error":
            raise InputError(
                f"{self.where}: {counted(self.total, 'row')} cannot be used: {self.described()}; mend them, or leave "
                "them out with --on-bad-row skip"
            )
        return [f"{self.where}: {counted(self.total, 'row')} left out: {self.described()}"]


def add_counts(total: dict[str, int], more: Iterable[tuple[str, int]]) -> None:
    """Add counts by reason to a running total."""
    for reason, count in more:
        total[reason] = total.get(reason, 0) + count
