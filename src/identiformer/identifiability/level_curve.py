"""Along the rows that a query generates and that give the same output."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from identiformer.identifiability.query_space import QuerySpace
from identiformer.identifiability.same_output import Responses

# Outputs on the curve agree to this, in the unit of the responses.
_ON_CURVE = 1e-10
# A step that changes the output by less than this a unit of the logits leaves it as it is.
_NO_CHANGE = 1e-12
# Steps are measured by the greatest change of a logit: the first, the longest, the shortest worth taking.
_FIRST, _LONGEST, _SHORTEST = 0.5, 2.0, 1e-4
_MOST_STEPS = 300
# Some steps that together raise the score by less than this have arrived.
_SOME, _PROGRESS = 8, 1e-4
# How many Gauss-Newton steps may lead back to the curve after a step, and to it in the first place.
_CORRECTIONS, _LANDING = 8, 30
# How many steps lead away from the start, and how long they are.
_DEPARTURE, _STRIDE = 8, 2.0


class Score(NamedTuple):
    """What an ascent raises.

    - `value`: of a row.
    - `gradient`: `[m]`, with respect to the logits of the row.
    """

    value: float
    gradient: NDArray[np.float64]


class Objective(NamedTuple):
    """What an ascent is after.

    - `score`: from the logarithms of a row, `[m]`, to its [`Score`][].
    - `enough`: the value at which nothing is left to raise.
    """

    score: Callable[[NDArray[np.float64]], Score]
    enough: float


class Place(NamedTuple):
    """A point on the curve.

    - `point`: `[p]`, the coordinates of the query.
    - `logs`: `[m]`, the logarithms of its row.
    - `stiff`: `[p, r]`, an orthonormal basis of what changes the output; the curve is orthogonal to it.
    """

    point: NDArray[np.float64]
    logs: NDArray[np.float64]
    stiff: NDArray[np.float64]

    def along(self, step: NDArray[np.float64]) -> NDArray[np.float64]:
        """The part of a step, `[p]`, that leaves the output as it is."""
        # Twice, since little may be left of it.
        for _ in range(2):
            step = step - self.stiff @ (self.stiff.T @ step)
        return step


class LevelCurve:
    r"""The curve $\{c : \mathrm{softmax}(\beta + Y c)\, C = h\}$, or surface, followed from a point on it.

    Where the row is $b$, a unit of $c$ changes the output by $J = C^\top (\mathrm{diag}(b) - b b^\top) Y$. A step
    goes along the null space of $J$, in the direction that raises a score most; Gauss-Newton steps of least
    length, $-J^+ (b\, C - h)$, lead back to the curve. The length of a step doubles after a success, and shrinks
    where the way back is not found or the score has not risen.

    Peaked rows: the weight of a token at 1e-30 moves no output that could be measured, and may grow until it does.
    Singular values of $J$ are therefore compared with the output, not with the greatest of them.

    **Arguments:**

    - `space`: the queries.
    - `responses`: $C$ and $h$.
    - `point`: `[p]`, a query whose output is $h$ or close to it. The curve goes through the output nearest to $h$
      that is reached from there, since weights in low precision may have an output that no softmax has.

    **Attributes:** `start`: a [`Place`][]; `freedom`: in how many directions the curve goes on from there.

    **Source:** Allgower and Georg, Introduction to Numerical Continuation Methods, chapters 2, 3 and 6; Luenberger
    and Ye, Linear and Nonlinear Programming, section 12.4 (gradient projection).
    """

    def __init__(self, space: QuerySpace, responses: Responses, point: NDArray[np.float64]) -> None:
        self._space = space
        self._responses = responses.matrix
        self._on_curve = max(_ON_CURVE, responses.rounding)
        self._no_change = max(_NO_CHANGE, responses.rounding)
        self._output = responses.output
        nearest = self._nearest(point)
        logs = space.log_weights(nearest)
        self._output = np.exp(logs) @ self._responses
        self.start: Place = self._place(nearest, logs)
        self.freedom: int = len(point) - self.start.stiff.shape[1]

    def ascend(self, objective: Objective, place: Place) -> Place:
        """The place uphill from a place on the curve where a score is locally greatest, or enough."""
        score = objective.score(place.logs)
        before = deque([score.value], maxlen=_SOME)
        length = _FIRST
        for _ in range(_MOST_STEPS):
            if score.value >= objective.enough:
                break
            uphill = self._space.coordinates.T @ score.gradient
            along = place.along(uphill)
            if not np.linalg.norm(along) > 1e-9 * np.linalg.norm(uphill):
                break
            while length >= _SHORTEST:
                reached = self._move(place, along, length)
                if reached is not None and (higher := objective.score(reached.logs)).value > score.value:
                    place, score = reached, higher
                    break
                length /= 3
            else:
                break
            length = min(2 * length, _LONGEST)
            if len(before) == _SOME and score.value - before[0] < _PROGRESS:
                break
            before.append(score.value)
        return place

    def depart(self, direction: NDArray[np.float64]) -> Place:
        """Some steps from the start that keep a direction, `[p]`, as far as the curve does."""
        place = self.start
        for _ in range(_DEPARTURE):
            direction = place.along(direction)
            reached = self._move(place, direction, _STRIDE) or self._move(place, direction, 0.1 * _STRIDE)
            if reached is None:
                break
            place = reached
        return place

    def land(self, point: NDArray[np.float64]) -> Place | None:
        """The place on the curve near a point that need not be on it; `None` if none is found."""
        nearest = self._nearest(point)
        logs = self._space.log_weights(nearest)
        return self._place(nearest, logs) if self._off(logs) <= self._on_curve else None

    def _nearest(self, point: NDArray[np.float64]) -> NDArray[np.float64]:
        """Gauss-Newton steps towards the curve, none longer than a logit, as long as they lead closer."""
        off = self._off(self._space.log_weights(point))
        for _ in range(_LANDING):
            if off <= self._on_curve:
                break
            step = self._correction(self._space.log_weights(point))
            step = step / max(self._length(step), 1.0)
            closer = self._off(self._space.log_weights(point + step))
            if not closer < off:
                break
            point, off = point + step, closer
        return point

    def _move(self, place: Place, direction: NDArray[np.float64], length: float) -> Place | None:
        """A step of some length, and back to the curve; `None` if that is not found."""
        size = self._length(direction)
        if size == 0:
            return None
        point = place.point + direction * (length / size)
        for _ in range(_CORRECTIONS):
            logs = self._space.log_weights(point)
            if self._off(logs) <= self._on_curve:
                return self._place(point, logs)
            step = self._correction(logs)
            if self._length(step) > length:
                return None
            point = point + step
        return None

    def _place(self, point: NDArray[np.float64], logs: NDArray[np.float64]) -> Place:
        _, singular, right = np.linalg.svd(self._jacobian(logs), full_matrices=False)
        return Place(point, logs, right[singular > self._no_change].T)

    def _correction(self, logs: NDArray[np.float64]) -> NDArray[np.float64]:
        """The step, `[p]`, that leads back to the curve as far as the output is linear in it."""
        left, singular, right = np.linalg.svd(self._jacobian(logs), full_matrices=False)
        kept = singular > self._no_change
        miss = left.T @ (np.exp(logs) @ self._responses - self._output)
        return -right[kept].T @ (miss[kept] / singular[kept])

    def _jacobian(self, logs: NDArray[np.float64]) -> NDArray[np.float64]:
        weights = np.exp(logs)
        # The heaviest token's response less the mean one is small where the row is peaked, and so is its error.
        return ((self._responses - weights @ self._responses) * weights[:, None]).T @ self._space.coordinates

    def _off(self, logs: NDArray[np.float64]) -> float:
        return float(np.linalg.norm(np.exp(logs) @ self._responses - self._output))

    def _length(self, step: NDArray[np.float64]) -> float:
        """The greatest change of a logit, logits being centred."""
        return float(np.abs(self._space.coordinates @ step).max())


def of_weight(members: NDArray[np.bool_], sign: float) -> Objective:
    r"""$\pm \log (B / (1 - B))$, which grows with $\pm B$ and is flat nowhere, up to a distance of 1e-11.

    $B$ is the total weight of the members, which is that of a token where it is alone.
    """

    def score(logs: NDArray[np.float64]) -> Score:
        inside, outside = (float(np.logaddexp.reduce(logs[some])) for some in (members, ~members))
        # Of each token its share of the members' weight, or of that of the others.
        gradient = np.where(members, 1.0, -1.0) * np.exp(
            np.minimum(logs - np.where(members, inside, outside), 0.0)
        )
        return Score(sign * (inside - outside), sign * gradient)

    return Objective(score, 25.0)


def of_distance(weights: NDArray[np.float64]) -> Objective:
    r"""$\log \tfrac12 \|b - a\|_1$, whose gradient does not vanish with the distance, up to 1 - 1e-9."""

    def score(logs: NDArray[np.float64]) -> Score:
        row = np.exp(logs)
        moved = row - weights
        distance = max(0.5 * float(np.abs(moved).sum()), np.finfo(np.float64).tiny)
        slope = np.sign(moved) * row
        return Score(float(np.log(distance)), 0.5 * (slope - row * slope.sum()) / distance)

    return Objective(score, float(np.log1p(-1e-9)))


def of_likelihood(target: NDArray[np.float64]) -> Objective:
    r"""$\sum_i t_i \log b_i$, greatest where $b$ is closest to a row $t$ in relative entropy.

    It lifts tokens that have weight in $t$, however little they have in $b$.
    """

    def score(logs: NDArray[np.float64]) -> Score:
        return Score(float(target @ logs), target - np.exp(logs) * target.sum())

    return Objective(score, np.inf)
