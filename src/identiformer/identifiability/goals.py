"""What an alternative is to be."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

import numpy as np
from jaxtyping import Int
from numpy.typing import NDArray
from torch import Tensor

from identiformer.errors import InputError
from identiformer.identifiability.asked import check_groups
from identiformer.identifiability.far_rows import distance, far_row
from identiformer.identifiability.head import AttentionHead
from identiformer.identifiability.level_curve import Objective, of_distance, of_weight
from identiformer.identifiability.polytope import RowPolytope
from identiformer.identifiability.same_output import SAME_WEIGHT


class AlternativeGoal(StrEnum):
    """More weight for a token or a group, less weight for it, or far away altogether."""

    FAVOUR = "favour"
    AVOID = "avoid"
    FARTHEST = "farthest"


class Aim(NamedTuple):
    """A goal for one row.

    - `goal`: the goal.
    - `token`: as the head counts it, or the group's number; `None` for `farthest`.
    - `members`: of the visible tokens, which all rows here are over, those whose weight is wanted; none for `farthest`.
    - `grouped`: whether groups are asked about, and not tokens.
    - `seed`: of whatever is random.
    """

    goal: AlternativeGoal
    token: int | None
    members: NDArray[np.bool_]
    grouped: bool
    seed: int

    @property
    def sign(self) -> float:
        """Whether more or less weight is better."""
        return -1.0 if self.goal == AlternativeGoal.AVOID else 1.0

    @property
    def name(self) -> str:
        """What is favoured or avoided, in words."""
        return f"{'group' if self.grouped else 'token'} {self.token}"

    def total(self, row: NDArray[np.float64]) -> float:
        """The weight that is wanted, or not."""
        return float(row[self.members].sum())

    def merit(self, row: NDArray[np.float64], weights: NDArray[np.float64]) -> float:
        """How far a row goes towards the goal, from the weights as they are."""
        if self.token is None:
            return distance(row, weights)
        return self.sign * float((row - weights)[self.members].sum())

    def resolution(self, tokens: int) -> float:
        """The merit that the solver cannot tell from 0."""
        return SAME_WEIGHT * (tokens if self.token is None else int(self.members.sum()))

    def furthest(self, polytope: RowPolytope) -> NDArray[np.float64]:
        """The row of a polytope that goes furthest; of those for `farthest`, the best that is found."""
        if polytope.is_point:
            return polytope.weights
        if self.token is None:
            return far_row(polytope, self.seed)
        return polytope.maximise(self.sign * self.members.astype(np.float64))

    def objective(self, weights: NDArray[np.float64]) -> Objective:
        """What grows with the merit and can be climbed."""
        return of_distance(weights) if self.token is None else of_weight(self.members, self.sign)


def aim_at(
    head: AttentionHead,
    favour: int | None,
    avoid: int | None,
    farthest: bool,
    groups: Int[Tensor, " n"] | None,
    seed: int,
) -> Aim:
    """The one goal that is given, for a head of one row.

    **Raises:** `InputError` if it is none or more than one, or a token or group of which the row sees nothing.
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
    tokens = head.weights.shape[-1]
    count = tokens if groups is None else check_groups(groups, tokens)
    goal = AlternativeGoal(chosen[0])
    target = favour if goal == AlternativeGoal.FAVOUR else avoid
    seen = head.mask.cpu().numpy()
    if target is None:
        if groups is not None:
            raise InputError(
                "groups are for favour and avoid: distance is measured by token, so leave them out"
            )
        return Aim(goal, None, np.zeros(int(seen.sum()), dtype=np.bool_), False, seed)
    kind = "token" if groups is None else "group"
    if not isinstance(target, int) or isinstance(target, bool):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InputError(f"{goal} is {target!r}: give the number of a {kind}, counted from 0")
    if not 0 <= target < count:
        holder = "the head has" if groups is None else "there are"
        raise InputError(f"there is no {kind} {target} to {goal}: {holder} {count}, counted from 0")
    numbers = np.arange(tokens) if groups is None else groups.cpu().numpy()
    members = numbers[seen] == target
    if not members.any():
        unseen = "the row does not see it" if groups is None else "the row sees none of its tokens"
        raise InputError(f"there is no way to {goal} {kind} {target}: {unseen}, so its weight is 0")
    return Aim(goal, target, members, groups is not None, seed)
