"""What can be set of an audit."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from identiformer.capturing import Rows
from identiformer.errors import InputError


@dataclass(frozen=True)
class AuditSettings:
    """Settings of an audit.

    Args:
        rows: The query rows of each text: `pooled`, `all`, or a number of them from the first (see `capture`).
        layers: Numbers of layers, from 0, negative ones from the end; all where it is `None`.
        heads: Numbers of heads in each layer; all where it is `None`.
        limit: At most so many texts, the first ones.
        tolerance: Outputs that move by at most this share of their length count as the same, for `top_certain` and
            `widest_interval`. Nullities and verdicts are exact whatever it is.
        batch_size: Texts at once.
        intervals: Of how many rows that are not identifiable the exact intervals are computed; spread evenly over
            texts and heads. (Of identifiable ones they are known: their width is 0.)
        prove: Of how many rows an alternative is put into the model in place of the weights.
        seed: Of the search for alternatives.
        report_texts: How many texts the report shows word by word, as far as they fit in it.
        report_rows: For how many rows that are not identifiable the report has bounds and alternatives.
    """

    rows: Rows = "pooled"
    layers: tuple[int, ...] | None = None
    heads: tuple[int, ...] | None = None
    limit: int | None = None
    tolerance: float = 0.0
    batch_size: int = 16
    intervals: int = 100
    prove: int = 0
    seed: int = 0
    report_texts: int = 200
    report_rows: int = 48

    def __post_init__(self) -> None:
        if self.rows not in ("pooled", "all") and not (isinstance(self.rows, int) and self.rows > 0):
            raise InputError(
                f"--rows is {self.rows}: give pooled, all, or how many rows of each text, from the first"
            )
        if self.limit is not None and self.limit < 1:
            raise InputError(f"--limit is {self.limit}: give at least 1")
        if self.batch_size < 1:
            raise InputError(f"--batch-size is {self.batch_size}: give at least 1")
        if not 0 <= self.tolerance < 1:
            raise InputError(f"--tolerance is {self.tolerance}: give at least 0 and below 1")
        for name in ("intervals", "prove", "report_texts", "report_rows"):
            if getattr(self, name) < 0:
                raise InputError(f"--{name.replace('_', '-')} is {getattr(self, name)}: give 0 or more")

    def to_dict(self) -> dict[str, Any]:
        """As a dictionary of JSON's types."""
        return asdict(self)
