"""Which tokens could have been the most attended one, for the same output."""

from __future__ import annotations

from collections.abc import Generator, Iterator

import numpy as np
from jaxtyping import Int
from numpy.typing import NDArray
from torch import Tensor

from identiformer.errors import InputError
from identiformer.identifiability.asked import Asked
from identiformer.identifiability.head import AttentionHead
from identiformer.identifiability.intervals import WeightIntervals
from identiformer.identifiability.minima import minima
from identiformer.identifiability.polytope import RowPolytope
from identiformer.identifiability.program import RowProgram
from identiformer.identifiability.rows import Row, one_row
from identiformer.identifiability.ties import tied_tokens

# So many bounds are computed at once before a look at what they show.
_AT_ONCE = 64


def possible_tops(
    head: AttentionHead,
    row: Row | None = None,
    tolerance: float = 0.0,
    intervals: WeightIntervals | None = None,
    groups: Int[Tensor, " n"] | None = None,
) -> list[int]:
    r"""The tokens that carry the greatest weight in some row of weights with the same output.

    Token $j$ is one if and only if $\max_b \min_k (b_j - b_k) \ge 0$ over the rows of [`weight_intervals`][]. A
    row in which it is at the top proves that it is one; bounds that stay below what some other token always has
    prove that it is not; a linear program decides about the rest.

    Weights that differ by less than the model's $\varepsilon$ count as equal, and tokens that share the
    greatest weight are all listed, tied ones included. [`top_is_certain`][] counts those as one.

    **Arguments:** those of [`weight_intervals`][]; with `groups`, a group's weight is its total. `intervals`, if
    they are there already (for the same tolerance and groups), save programs.

    **Returns:** the tokens, or groups, in ascending order.
    """
    head = one_row(head, row)
    polytope = RowPolytope(head, tolerance)
    asked = Asked(head, polytope, groups)
    *_, tops = _growing_tops(polytope, asked, intervals)
    return [int(number) for number in asked.numbers[tops]]


def top_is_certain(
    head: AttentionHead,
    row: Row | None = None,
    tolerance: float = 0.0,
    intervals: WeightIntervals | None = None,
    groups: Int[Tensor, " n"] | None = None,
) -> bool:
    """Whether every row of weights with the same output has the same token at the top; tied tokens count as one.

    **Arguments:** those of [`possible_tops`][]. With `groups`, ties do not matter: each group is one.
    """
    head = one_row(head, row)
    polytope = RowPolytope(head, tolerance)
    asked = Asked(head, polytope, groups)
    same = asked.gather(tied_tokens(head).group) if groups is None else asked.numbers
    # Two that differ are enough, however many more there are.
    return all(len(np.unique(same[tops])) == 1 for tops in _growing_tops(polytope, asked, intervals))


def _growing_tops(
    polytope: RowPolytope, asked: Asked, intervals: WeightIntervals | None
) -> Iterator[NDArray[np.bool_]]:
    """Those that are known to carry the greatest weight in some row, more and more, and in the end all of them."""
    if not asked.length:
        raise InputError("groups are all -1: there is no group that could be at the top")
    tops = asked.on_top(polytope.weights)
    yield tops
    if polytope.is_point:
        return
    if intervals is None:
        near = yield from _by_bounds(polytope, asked, tops)
    else:
        if intervals.upper.shape != (asked.length,):
            raise InputError(
                f"intervals have shape {tuple(intervals.upper.shape)} and the row has {asked.length} tokens or groups: "
                "give those of the same row and groups"
            )
        tops |= asked.gather(intervals.seen_on_top)
        near = asked.in_reach(asked.gather(intervals.upper), float(intervals.lower.max()))
    yield tops
    yield from _by_programs(polytope, asked, tops, near)


def _by_bounds(
    polytope: RowPolytope, asked: Asked, tops: NDArray[np.bool_]
) -> Generator[NDArray[np.bool_], None, NDArray[np.bool_]]:
    """Adds to `tops` those that are seen there when they have the most that they can have.

    **Returns:** which may weigh as much as what is heaviest now always does.
    """
    weights = asked.of(polytope.weights)
    heaviest = int(weights.argmax())
    floor = float(minima(polytope, asked.totals[[heaviest]]).bounds[0])
    # What one has, no other has: groups do not overlap.
    upper = np.where(tops, weights, polytope.weights.sum() - floor)
    left = np.flatnonzero(asked.in_reach(upper, floor) & ~tops)
    left = left[np.argsort(-weights[left], kind="stable")]
    for some in range(0, len(left), _AT_ONCE):
        places = left[some : some + _AT_ONCE]
        most = minima(polytope, -asked.totals[places])
        upper[places] = -most.bounds
        tops |= asked.on_top(most.rows)
        yield tops
    return asked.in_reach(upper, floor)


def _by_programs(
    polytope: RowPolytope, asked: Asked, tops: NDArray[np.bool_], near: NDArray[np.bool_]
) -> Iterator[NDArray[np.bool_]]:
    r"""Adds to `tops` those of `near` that can be there: a program for each that is not seen there in another's.

    With a variable $m \ge b_k$ for all $k$, the objective is $b_j - m$: no constraint depends on $j$.
    """
    if not (near & ~tops).any():
        return
    race = RowProgram(polytope.weights, polytope.basis, polytope.slack, polytope.null, asked.totals)
    for place in np.flatnonzero(near & ~tops):
        if not tops[place]:
            tops |= asked.on_top(race.minimise(-asked.totals[place], 1.0))
            yield tops
