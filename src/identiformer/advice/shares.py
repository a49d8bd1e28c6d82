"""How many of the texts are identifiable, as a count and as a share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from identiformer.advice.head_sizes import HeadSizes
from identiformer.advice.lengths import TextLengths


@dataclass(frozen=True)
class Share:
    """Some of a number of texts."""

    texts: int
    total: int

    @property
    def share(self) -> float:
        """From 0 to 1."""
        return self.texts / self.total

    def to_dict(self) -> dict[str, Any]:
        """As a dictionary of JSON's types."""
        return {"texts": self.texts, "share": self.share}

    def __str__(self) -> str:
        """In percent, rounded down: 100.0% means all."""
        thousandths = self.texts * 1000 // self.total
        return f"{thousandths // 10}.{thousandths % 10}%"


class Shares:
    """Answers how many texts are identifiable with given sizes.

    Args:
        lengths: Of the texts.
        max_length: Where the model truncates them: a longer text counts as what is left of it.
    """

    def __init__(self, lengths: TextLengths, max_length: int):
        read = np.minimum(lengths.tokens, max_length)
        self.total = len(lengths)
        self._all = np.sort(read)
        # A text counts as one with repeats also if they stand behind the place where it is truncated.
        self._untied = np.sort(read[~lengths.repeats])

    def within(self, length: int) -> Share:
        """The texts of at most so many tokens."""
        return Share(int(np.searchsorted(self._all, length, side="right")), self.total)

    def untied_within(self, length: int) -> Share:
        """Those of them in which no token occurs again."""
        return Share(int(np.searchsorted(self._untied, length, side="right")), self.total)

    def simplex(self, sizes: HeadSizes) -> Share:
        """The texts that are identifiable on the simplex."""
        count = self.within if sizes.knows_positions else self.untied_within
        return count(sizes.identifiable_length)

    def generatable(self, sizes: HeadSizes) -> Share:
        """The texts that are identifiable among the rows that a head can generate, nearby or outright.

        Tied tokens are no hindrance: a softmax gives them the same weight.
        """
        return Share(self.total, self.total) if sizes.generatable != "none" else self.simplex(sizes)
