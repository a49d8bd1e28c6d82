"""A row that a query generates, that has the same output and serves a goal."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from identiformer.identifiability.goals import Aim
from identiformer.identifiability.level_curve import LevelCurve, Place
from identiformer.identifiability.query_space import QuerySpace
from identiformer.identifiability.same_output import SameOutput

# From how many random directions the curve is followed: for a token, and for the farthest row.
_FOR_TOKEN, _FOR_FARTHEST = 4, 8
# A search ends where this share of what the simplex allows is reached.
_NEARLY = 0.999


class CurveSearch(NamedTuple):
    """What came of following the curve.

    - `points`: the coordinates of queries, `[p]` each, of which the first serves the goal best.
    - `error`: how far the row of the recovered query is from the weights, in total variation.
    - `freedom`: in how many directions the curve leaves the row.
    """

    points: list[NDArray[np.float64]]
    error: float
    freedom: int


def search_curve(
    aim: Aim, same: SameOutput, space: QuerySpace, point: NDArray[np.float64], most: float
) -> CurveSearch:
    r"""Follows the curve of equal output from several starts.

    For a token, first straight uphill; then, and for the farthest row at once, after having gone some way in a
    random direction and in its opposite. Where the curve has one dimension, those are its two ends.

    **Arguments:** `point`: `[p]`, a query that generates the weights; `most`: the merit that no row can exceed.
    """
    weights = same.weights
    curve = LevelCurve(space, same.responses(), point)
    error = float(0.5 * np.abs(np.exp(curve.start.logs) - weights).sum())
    objective = aim.objective(weights)
    generator = np.random.default_rng(aim.seed)
    reached: list[Place] = []

    def merit(place: Place) -> float:
        return aim.merit(np.exp(place.logs), weights)

    directions: list[NDArray[np.float64] | None] = []
    if curve.freedom:
        count = _FOR_FARTHEST if aim.token is None else _FOR_TOKEN
        for _ in range(1 if curve.freedom == 1 else count // 2):
            direction = generator.normal(size=len(point))
            directions += [direction, -direction]
        if aim.token is not None:
            directions.insert(0, None)
    for direction in directions:
        reached.append(curve.ascend(objective, direction))
        if merit(reached[-1]) >= _NEARLY * most:
            break
    reached.sort(key=merit, reverse=True)
    return CurveSearch([place.point for place in reached], error, curve.freedom)
