"""A row that a query generates, that has the same output and serves a goal."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from identiformer.identifiability.goals import Aim
from identiformer.identifiability.level_curve import LevelCurve, Place, of_likelihood
from identiformer.identifiability.query_space import QuerySpace
from identiformer.identifiability.same_output import Responses, SameOutput

# In how many random directions, and their opposites, the curve is followed before it is climbed.
_PAIRS = 2
# The share of the furthest row on the simplex in what a query is to come close to, before it is led to the curve.
_SHARE = 0.9
# A search ends where this share of what the simplex allows is reached.
_NEARLY = 0.999


class CurveSearch(NamedTuple):
    """What came of following the curve.

    - `points`: the coordinates of queries, `[p]` each, of which the first serves the goal best.
    - `error`: how far the row of the recovered query is from the weights, in total variation.
    """

    points: list[NDArray[np.float64]]
    error: float


def search_curve(
    aim: Aim, same: SameOutput, space: QuerySpace, point: NDArray[np.float64], furthest: NDArray[np.float64]
) -> CurveSearch:
    r"""Goes uphill on the curve of equal output from several starts.

    - The query of the row itself. For the farthest row this is a place with no way up, and is left out.
    - The place where the curve comes closest to the row that goes furthest on the simplex.
    - The query that comes closest to a row near that one, led to the curve, which may reach a part of it that is
      apart from the rest.
    - Some way off in random directions and in their opposites: the two ends of a curve of one dimension.

    **Arguments:** `point`: `[p]`, a query that generates the weights; `furthest`: `[m]`, the row that goes furthest on
    the simplex. The search ends early where a query comes near to it.
    """
    weights = same.weights
    responses = same.responses()
    curve = LevelCurve(space, responses, point)
    # All queries, whatever their output.
    free = LevelCurve(space, Responses(responses.matrix[:, :0], responses.output[:0], 0.0), point)
    error = float(0.5 * np.abs(np.exp(curve.start.logs) - weights).sum())
    objective = aim.objective(weights)
    generator = np.random.default_rng(aim.seed)
    reached: list[Place] = []

    def merit(place: Place) -> float:
        return aim.merit(np.exp(place.logs), weights)

    def starts() -> Iterator[Place]:
        if aim.token is not None:
            yield curve.start
        yield curve.ascend(of_likelihood(furthest), curve.start)
        mixed = _SHARE * furthest + (1 - _SHARE) * weights
        landed = curve.land(free.ascend(of_likelihood(mixed), free.start).point)
        if landed is not None:
            yield landed
        for _ in range(1 if curve.freedom == 1 else _PAIRS):
            direction = generator.normal(size=len(point))
            yield curve.depart(direction)
            yield curve.depart(-direction)

    for start in starts() if curve.freedom else ():
        reached.append(curve.ascend(objective, start))
        if merit(reached[-1]) >= _NEARLY * aim.merit(furthest, weights):
            break
    reached.sort(key=merit, reverse=True)
    return CurveSearch([place.point for place in reached], error)
