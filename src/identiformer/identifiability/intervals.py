"""How far each weight could have been from what it is, for the same output."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy.typing import NDArray
from torch import Tensor

from identiformer.identifiability.asked import Asked
from identiformer.identifiability.head import AttentionHead
from identiformer.identifiability.minima import EXACT, minima
from identiformer.identifiability.polytope import RowPolytope
from identiformer.identifiability.rows import Row, one_row

# The row's own weights lie inside their bounds up to this; then the bounds are widened to them.
_SLACK = 1e-9
# So few programs are solved twice as many in hardly more time.
_AT_ONCE = 100


@dataclass(frozen=True, eq=False)
class WeightIntervals:
    """The least and the greatest weight of each token, or of each group: `lower, upper = intervals`.

    - `lower`, `upper`: `[n]`, or `[number of groups]`.
    - `seen_on_top`: of the same shape, which of them carry the greatest weight in some row that was met on the
      way. Others may do so too: [`possible_tops`][] starts from here.
    """

    lower: Float[Tensor, " n"]
    upper: Float[Tensor, " n"]
    seen_on_top: Bool[Tensor, " n"]

    def __iter__(self) -> Iterator[Tensor]:
        yield self.lower
        yield self.upper


def weight_intervals(
    head: AttentionHead,
    row: Row | None = None,
    tolerance: float = 0.0,
    groups: Int[Tensor, " n"] | None = None,
) -> WeightIntervals:
    r"""For each token $j$, the least and the greatest $b_j$ over all rows of weights with the same output,

    $$\{b \ge 0,\ \sum b = \sum a,\ b T = a T\}.$$

    All widths are 0 where the weights are identifiable on the simplex; then no program is solved. A row with
    exact zeros can be unique without that, and its widths are 0 too, to the precision below.

    With `groups`, the same for the total weight of each group of tokens, such as the pieces of a word. Bounds of
    a total are not the totals of the bounds: they have programs of their own.

    **Arguments:**

    - `head`: of any batch shape.
    - `row`: which row of the batch, an index for each of its dimensions; `None` where the head is one row.
    - `tolerance`: $\varepsilon$: allow rows whose output moves by at most $\varepsilon \|h\|$. The bounds are
      then outer ones: no allowed row lies outside, but they may not be attained ([`RowPolytope`][] says why).
    - `groups`: `[n]`, the number of each token's group, counted from 0; -1 for tokens that are in none.

    **Returns:** [`WeightIntervals`][], `[n]` each, or `[number of groups]`. (0, 0) for tokens that are not
    visible. No row has weights outside by more than rounding, and some row comes within 1e-10 of each bound
    ([`minima`][]). The row's own weights are inside: bounds that miss them by less than 1e-9 are widened to them,
    and more is an error of ours.

    **Raises:** `InputError` if that is not one row, or if the tolerance is negative or not finite.
    """
    head = one_row(head, row)
    polytope = RowPolytope(head, tolerance)
    asked = Asked(head, polytope, groups)
    own = asked.of(polytope.weights)
    lower, upper, on_top = own, own, asked.on_top(polytope.weights)
    if not polytope.is_point:
        lower, upper, rows = _bounds(polytope, asked.totals)
        on_top |= asked.on_top(rows)
    missed = float(np.maximum(lower - own, own - upper).max(initial=0.0))
    if missed > _SLACK:
        raise AssertionError(f"the bounds of the weights miss the weights by {missed:.3g}")
    return WeightIntervals(
        asked.spread(np.minimum(lower, own)), asked.spread(np.maximum(upper, own)), asked.spread(on_top)
    )


def _bounds(
    polytope: RowPolytope, totals: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """The least and the greatest of each total, and the rows that were met."""
    count = len(totals)
    if count <= _AT_ONCE:
        both = minima(polytope, np.concatenate([-totals, totals]))
        return both.bounds[count:].clip(min=0.0), -both.bounds[:count], both.rows
    most = minima(polytope, -totals)
    # A row that has the most of one often has nothing of others, and that settles their lower bounds.
    lower = (most.rows @ totals.T).min(axis=0)
    left = lower > EXACT
    lower = np.where(left, lower, 0.0)
    least = minima(polytope, totals[left])
    lower[left] = least.bounds.clip(min=0.0)
    return lower, -most.bounds, np.concatenate([most.rows, least.rows])
