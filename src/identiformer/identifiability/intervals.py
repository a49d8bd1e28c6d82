"""How far each weight could have been from what it is, for the same output."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from identiformer.identifiability.head import AttentionHead
from identiformer.identifiability.polytope import RowPolytope
from identiformer.identifiability.rows import Row, one_row

# Up to here two weights from the solver are the same.
_SAME = 1e-9


class WeightIntervals(NamedTuple):
    """The least and the greatest weight of each token: `lower` and `upper`, `[n]` each."""

    lower: Float[Tensor, " n"]
    upper: Float[Tensor, " n"]


def weight_intervals(head: AttentionHead, row: Row | None = None, tolerance: float = 0.0) -> WeightIntervals:
    r"""For each token $j$, the least and the greatest $b_j$ over all rows of weights with the same output,

    $$\{b \ge 0,\ \sum b = \sum a,\ b T = a T\}.$$

    All widths are 0 exactly where the weights are identifiable on the simplex; then no program is solved. A
    row with exact zeros can be unique without that, and its widths are 0 too, to the precision of the solver.

    **Arguments:**

    - `head`: of any batch shape.
    - `row`: which row of the batch, an index for each of its dimensions; `None` where the head is one row.
    - `tolerance`: $\varepsilon$: allow rows whose output moves by at most $\varepsilon \|h\|$. The bounds are
      then outer ones: no allowed row lies outside, but they may not be attained ([`RowPolytope`][] says why).

    **Returns:** [`WeightIntervals`][], exact to about 1e-9. They contain the row's own weights, to which they
    are widened where the solver falls short by less than that. (0, 0) for tokens that are not visible.

    **Raises:** `InputError` if that is not one row, or if the tolerance is negative or not finite.
    """
    head = one_row(head, row)
    polytope = RowPolytope(head, tolerance)
    tokens = len(polytope.weights)
    least = polytope.weights.copy()
    upper = polytope.weights.copy()
    if not polytope.is_point:
        for token in range(tokens):
            reached = polytope.most(token)
            upper[token] = max(upper[token], reached[token])
            least = np.minimum(least, reached)
        for token in range(tokens):
            # A row seen on the way that gives the token no weight settles its lower bound.
            if least[token] > 0:
                least = np.minimum(least, polytope.least(token))
    return WeightIntervals(_spread(least, polytope, head), _spread(upper, polytope, head))


def possible_tops(
    head: AttentionHead,
    row: Row | None = None,
    tolerance: float = 0.0,
    intervals: WeightIntervals | None = None,
) -> list[int]:
    r"""The tokens that carry the greatest weight in some row of weights with the same output.

    Token $j$ is one if and only if $\max_b \min_k (b_j - b_k) \ge 0$ over the rows of [`weight_intervals`][]:
    a linear program for each token that its bounds do not rule out. One token: the most attended word is
    certain.

    Weights that differ by less than the model's $\varepsilon$ count as equal, and tokens that share the
    greatest weight are all listed, tied ones included.

    **Arguments:** those of [`weight_intervals`][]; `intervals`, if they are there already, save programs.

    **Returns:** the indices in ascending order.
    """
    head = one_row(head, row)
    polytope = RowPolytope(head, tolerance)
    weights = polytope.weights
    room = max(_SAME, head.eps * float(weights.max()))

    def at_top(row: np.ndarray) -> np.ndarray:
        return row >= row.max() - room

    tops = at_top(weights)
    if not polytope.is_point:
        heaviest = int(weights.argmax())
        # No token comes to the top that never reaches what some other token always has.
        lower = polytope.least(heaviest)[heaviest] if intervals is None else intervals.lower.max()
        floor = float(lower) - room
        race = RowPolytope(head, tolerance, with_greatest=True)
        for token in np.flatnonzero(~tops).tolist():
            if tops[token]:
                continue
            if intervals is None:
                reached = polytope.most(token)
                tops |= at_top(reached)
                reach = float(reached[token])
            else:
                reach = float(intervals.upper[polytope.visible[token]])
            if not tops[token] and reach >= floor:
                tops |= at_top(race.lead(token))
    return [int(token) for token in polytope.visible[tops]]


def _spread(values: np.ndarray, polytope: RowPolytope, head: AttentionHead) -> Tensor:
    """Values of visible tokens at their places among all tokens."""
    spread = torch.zeros_like(head.weights)
    spread[torch.as_tensor(polytope.visible, device=spread.device)] = torch.as_tensor(
        values, device=spread.device
    )
    return spread
