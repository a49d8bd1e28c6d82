"""What a certificate says of one row, level by level."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from identiformer.identifiability import Certificate, Level, Verdict


@dataclass(frozen=True)
class LevelResult:
    """What the certificate says at one level (IDENTIFIABILITY.md): see `identifiability.certify`."""

    nullity: int
    margin: float
    verdict: str


def level_results(
    certificate: Certificate, levels: Sequence[Level], head: int, position: int
) -> dict[str, LevelResult]:
    """The results of one row, by the name of the level.

    Args:
        certificate: Of heads, `[heads, rows]`.
        levels: Those at which something can be said.
        head, position: Which row.
    """
    return {
        level.value: LevelResult(
            nullity=int(certificate[level].nullity[head, position]),
            margin=float(certificate[level].margin[head, position]),
            verdict=Verdict(int(certificate[level].verdict[head, position])).label,
        )
        for level in levels
    }
