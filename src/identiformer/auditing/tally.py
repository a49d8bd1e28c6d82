"""Counts over the rows of an audit that take the same memory however many rows there are."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from identiformer.identifiability import Level, Verdict

# Margins lie between 0 and 1; below the least, doubles say nothing.
_LEAST = 1e-20
_BINS_A_DECADE = 128
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)


class LogHistogram:
    """Positive numbers up to 1 in logarithmic bins: quantiles to within 2 % of their value, in fixed memory."""

    def __init__(self) -> None:
        decades = round(-np.log10(_LEAST))
        self._counts: NDArray[np.int64] = np.zeros(decades * _BINS_A_DECADE, dtype=np.int64)

    def add(self, values: NDArray[np.float64]) -> None:
        """Count values; those below 1e-20 count as that."""
        places = np.floor(np.log10(np.clip(values, _LEAST, 1.0) / _LEAST) * _BINS_A_DECADE).astype(np.int64)
        self._counts += np.bincount(np.minimum(places, len(self._counts) - 1), minlength=len(self._counts))

    def quantile(self, share: float) -> float | None:
        """The value below which this share lies, to within 2 %; `None` if there is none.

        It is the geometric middle of its bin, to the three digits that this is good for.
        """
        total = int(self._counts.sum())
        if not total:
            return None
        rank = min(int(share * total), total - 1)
        place = int(np.searchsorted(self._counts.cumsum(), rank, side="right"))
        return float(f"{_LEAST * 10 ** ((place + 0.5) / _BINS_A_DECADE):.3g}")


@dataclass
class _LevelTally:
    certified: int = 0
    unique: int = 0
    all_unique: int = 0
    margins: LogHistogram = field(default_factory=LogHistogram)


class Tally:
    """What a summary says of a group of rows."""

    def __init__(self) -> None:
        self.rows = 0
        self.tied = 0
        self.certain = 0
        self._levels = {level: _LevelTally() for level in Level}

    def add(self, columns: dict[str, NDArray[Any]]) -> None:
        """Count rows, given as columns of heads.parquet."""
        self.rows += len(columns["tokens"])
        self.tied += int((columns["tied_tokens"] > 0).sum())
        self.certain += int(columns["top_certain"].sum())
        for level, tally in self._levels.items():
            verdict = columns[f"{level.value}_verdict"]
            margin = columns[f"{level.value}_margin"]
            unique = (verdict == Verdict.GLOBAL.label) | (verdict == Verdict.LOCAL.label)
            tally.certified += int((unique | (verdict == Verdict.NONE.label)).sum())
            tally.unique += int(unique.sum())
            tally.all_unique += int((verdict == Verdict.GLOBAL.label).sum())
            tally.margins.add(margin[unique])

    def to_dict(self) -> dict[str, Any]:
        """Shares and quantiles, as JSON's types.

        `identifiable`: the share of rows with no other row nearby (verdict `global` or `local`); `global`: with no
        other at all; both of the rows that could be certified at the level, `None` if there were none. `margin`:
        quantiles over the identifiable rows, each to within 2 %.
        """
        return {
            "rows": self.rows,
            "tied": _share(self.tied, self.rows),
            "top_certain": _share(self.certain, self.rows),
            "levels": {
                level.value: {
                    "rows": tally.certified,
                    "identifiable": _share(tally.unique, tally.certified),
                    "global": _share(tally.all_unique, tally.certified),
                    "margin": {f"{share:g}": tally.margins.quantile(share) for share in QUANTILES},
                }
                for level, tally in self._levels.items()
            },
        }


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None
