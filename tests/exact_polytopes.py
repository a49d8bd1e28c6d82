"""Rows of weights with the same output, in exact arithmetic: what programs in floating point are measured by."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import combinations

Vector = list[Fraction]


def vertices(weights: Sequence[float], transformed: Sequence[Sequence[int]]) -> list[Vector]:
    """All vertices of {b >= 0, sum b = sum a, b T = a T}, for integer T: every solution with independent columns.

    The numbers given are taken as they are in floating point.
    """
    a = [Fraction(weight) for weight in weights]
    columns = [[Fraction(1), *map(Fraction, row)] for row in transformed]
    right = [
        sum((w * column[i] for w, column in zip(a, columns, strict=True)), Fraction(0))
        for i in range(len(columns[0]))
    ]
    found: list[Vector] = []
    for size in range(1, len(a) + 1):
        for support in combinations(range(len(a)), size):
            solution = _solve([columns[j] for j in support], right)
            if solution is not None and min(solution) >= 0:
                vertex = [Fraction(0)] * len(a)
                for j, value in zip(support, solution, strict=True):
                    vertex[j] = value
                if vertex not in found:
                    found.append(vertex)
    return found


def bounds(found: list[Vector], totals: Sequence[Sequence[int]]) -> Iterator[tuple[Fraction, Fraction]]:
    """The least and the greatest of each total (the tokens that count) over the vertices."""
    for members in totals:
        values = [sum((vertex[j] for j in members), Fraction(0)) for vertex in found]
        yield min(values), max(values)


def _solve(columns: list[Vector], right: Vector) -> Vector | None:
    """The one combination of columns that gives the right side; None if there is none, or more than one."""
    rows = [[column[i] for column in columns] + [right[i]] for i in range(len(right))]
    done = 0
    for unknown in range(len(columns)):
        pivot = next((i for i in range(done, len(rows)) if rows[i][unknown] != 0), None)
        if pivot is None:
            return None
        rows[done], rows[pivot] = rows[pivot], rows[done]
        rows[done] = [value / rows[done][unknown] for value in rows[done]]
        for i, row in enumerate(rows):
            if i != done and row[unknown] != 0:
                rows[i] = [x - row[unknown] * y for x, y in zip(row, rows[done], strict=True)]
        done += 1
    if any(row[-1] != 0 for row in rows[done:]):
        return None
    return [rows[i][-1] for i in range(done)]
