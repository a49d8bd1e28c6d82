"""What an alternative is to be."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from identiformer.errors import InputError
from identiformer.identifiability.far_rows import distance, far_row
from identiformer.identifiability.head import AttentionHead
from identiformer.identifiability.level_curve import Objective, of_distance, of_weight
from identiformer.identifiability.polytope import RowPolytope
from identiformer.identifiability.same_output import SAME_WEIGHT


class AlternativeGoal(StrEnum):
    """More weight for a token, less weight for it, or far away altogether."""

    FAVOUR = "favour"
    AVOID = "avoid"
    FARTHEST = "farthest"


class Aim(NamedTuple):
    """A goal for one row.

    - `goal`: the goal.
    - `token`: as the head counts it; `None` for `farthest`.
    - `place`: the token's place among the visible ones, which all rows here are over; -1 for `farthest`.
    - `seed`: of whatever is random.
    """

    goal: AlternativeGoal
    token: int | None
    place: int
    seed: int

    @property
    def sign(self) -> float:
        """Whether more or less weight is better."""
        return -1.0 if self.goal == AlternativeGoal.AVOID else 1.0

    def merit(self, row: NDArray[np.float64], weights: NDArray[np.float64]) -> float:
        """How far a row goes towards the goal, from the weights as they are."""
        if self.token is None:
            return distance(row, weights)
        return self.sign * float(row[self.place] - weights[self.place])

    def resolution(self, tokens: int) -> float:
        """The merit that the solver cannot tell from 0."""
        return SAME_WEIGHT * (tokens if self.token is None else 1)

    def furthest(self, polytope: RowPolytope) -> NDArray[np.float64]:
        """The row of a polytope that goes furthest; of those for `farthest`, the best that is found."""
        if polytope.is_point:
            return polytope.weights
        if self.token is None:
            return far_row(polytope, self.seed)
        return polytope.least(self.place) if self.sign < 0 else polytope.most(self.place)

    def objective(self, weights: NDArray[np.float64]) -> Objective:
        """What grows with the merit and can be climbed."""
        return of_distance(weights) if self.token is None else of_weight(self.place, self.sign)


def aim_at(head: AttentionHead, favour: int | None, avoid: int | None, farthest: bool, seed: int) -> Aim:
    """The one goal that is given, for a head of one row.

    **Raises:** `InputError` if it is none or more than one, or a token that the row does not see.
    """
    given = {"favour": favour, "avoid": avoid, "farthest": True if farthest else None}
    chosen = [name for name, value in given.items() if value is not None]
    if len(chosen) != 1:
        given_names = " and ".join(chosen) or "none"
        raise InputError(
            f"alternative takes one goal, favour=j, avoid=j or farthest=True, and was given {given_names}"
        )
    if seed < 0:
        raise InputError(f"seed is {seed}: give a whole number of 0 or more")
    goal = AlternativeGoal(chosen[0])
    token = favour if goal == AlternativeGoal.FAVOUR else avoid
    if token is None:
        return Aim(goal, None, -1, seed)
    if not isinstance(token, int) or isinstance(token, bool):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InputError(f"{goal} is {token!r}: give the number of a token, counted from 0")
    tokens = head.weights.shape[-1]
    if not 0 <= token < tokens:
        raise InputError(f"there is no token {token} to {goal}: the head has {tokens}, counted from 0")
    if not bool(head.mask[token]):
        raise InputError(
            f"there is no way to {goal} token {token}: the row does not see it, so its weight is 0"
        )
    return Aim(goal, token, int(head.mask[:token].sum()), seed)
