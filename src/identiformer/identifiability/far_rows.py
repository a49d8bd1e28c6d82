"""Rows on the simplex with the same output, as far away as a search finds them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from identiformer.identifiability.polytope import RowPolytope
from identiformer.identifiability.same_output import SAME_WEIGHT

# Starts: so many tokens' extremes, so many random vertices; from so many of the best the search goes on.
_EXTREMES, _RANDOM, _BEST = 64, 8, 16
_MOST_STEPS = 50


def distance(row: NDArray[np.float64], weights: NDArray[np.float64]) -> float:
    r"""The total variation distance $\tfrac12 \|b - a\|_1$: how much weight has to be moved."""
    return 0.5 * float(np.abs(row - weights).sum())


def far_row(polytope: RowPolytope, seed: int) -> NDArray[np.float64]:
    r"""A row far from the weights in total variation: the best that is found, which may not be the farthest.

    The distance is convex, so that its greatest value is at a vertex, but a local one may be far from it (finding
    the greatest is NP-hard in general). At a row $b$, with $s_i = 1$ where $b_i > a_i$ or $a_i = 0$ and $-1$
    elsewhere,

    $$\|b' - a\|_1 \ge \textstyle\sum_i s_i (b'_i - a_i) \quad \text{for all } b' \ge 0, \text{ and equal at } b,$$

    so the vertex where the right side is greatest is at least as far. This is repeated until nothing is gained. It
    starts from the rows that give each of the heaviest tokens the most, from the row that takes most from tokens
    by their weight, and from random vertices.

    Where none of them differs from the weights, all other tokens are tried. A row in which no token can have more
    has no other.

    **Source:** Mangasarian, Machine learning via polyhedral concave minimization, 1996 (the successive
    linearisation).
    """
    weights = polytope.weights
    order = np.argsort(-weights, kind="stable")
    generator = np.random.default_rng(seed)
    starts = [polytope.maximise(-weights)]
    starts += [polytope.most(int(token)) for token in order[:_EXTREMES]]
    starts += [polytope.maximise(generator.normal(size=len(weights))) for _ in range(_RANDOM)]
    for token in order[_EXTREMES:]:
        if max(distance(row, weights) for row in starts) > len(weights) * SAME_WEIGHT:
            break
        starts.append(polytope.most(int(token)))
    starts.sort(key=lambda row: -distance(row, weights))
    return max((_climb(polytope, row) for row in starts[:_BEST]), key=lambda row: distance(row, weights))


def _climb(polytope: RowPolytope, row: NDArray[np.float64]) -> NDArray[np.float64]:
    weights = polytope.weights
    for _ in range(_MOST_STEPS):
        reached = polytope.maximise(np.where((row > weights) | (weights == 0), 1.0, -1.0))
        if distance(reached, weights) <= distance(row, weights) + SAME_WEIGHT:
            break
        row = reached
    return row
