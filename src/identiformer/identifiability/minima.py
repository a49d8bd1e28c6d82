"""What weights are at least, over all rows of weights with the same output, with a proof by duality."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from identiformer.identifiability.interior import minimise
from identiformer.identifiability.linalg import lengths
from identiformer.identifiability.polytope import RowPolytope
from identiformer.identifiability.tolerance import ROUNDING

# How far a bound may lie from what some row attains.
EXACT = 1e-10
# Ranges that are as good as none.
_LEAST_RANGE = 1e-12


class Minima(NamedTuple):
    """The least values of some objectives.

    - `bounds`: `[g]`. No row has less.
    - `rows`: `[g, n]`, rows that have no more than [`EXACT`][] above it.
    """

    bounds: NDArray[np.float64]
    rows: NDArray[np.float64]


def minima(polytope: RowPolytope, costs: NDArray[np.float64]) -> Minima:
    r"""For each objective $c$, the least $c \cdot b$ over the rows $b$ of a polytope.

    All programs are solved at once by [`minimise`][], in whichever form of the polytope is smaller, and the
    result is not taken on trust. Whatever reduced costs $s$ it gives, let $q = P P^\top (c - s)$. For every row
    $b$ of the polytope, since it is not negative and sums to $\sum a$,

    $$c \cdot b = q \cdot b + (c - q) \cdot b
    \ge q \cdot a - \sum_i \delta_i |p_i^\top q| + \min_k (c - q)_k \sum a,$$

    and this is the bound. Where no row is at hand that comes within [`EXACT`][] of it, the simplex method
    decides.

    **Arguments:** `costs`: `[g, n]`, an objective a row.

    **Returns:** [`Minima`][].
    """
    weights = polytope.weights
    if polytope.is_point or not len(costs):
        return Minima(costs @ weights, np.tile(weights, (len(costs), 1)))
    a, basis, slack, cost = (
        torch.as_tensor(array) for array in (weights, polytope.basis, polytope.slack, costs)
    )
    rows, reduced = _solve(polytope, a, basis, slack, cost)
    shares = (cost - reduced) @ basis.mT
    rest = cost - shares @ basis
    bounds = (cost - rest) @ a - shares.abs() @ slack + rest.amin(dim=-1) * a.sum()
    bounds = bounds - ROUNDING * (1 + lengths(shares))
    # The row, put back to where all equalities hold.
    off = (rows - a) @ basis.mT
    rows = rows - (off - off.clamp(-slack, slack)) @ basis
    settled = ((cost * rows).sum(dim=-1) - bounds <= EXACT) & (rows.amin(dim=-1) >= -EXACT)
    found = Minima(bounds.numpy(), rows.clamp(min=0).numpy())
    for place in np.flatnonzero(~settled.numpy()):
        found.rows[place] = polytope.maximise(-costs[place])
        found.bounds[place] = costs[place] @ found.rows[place]
    return found


def _solve(
    polytope: RowPolytope,
    a: Float[Tensor, " n"],
    basis: Float[Tensor, "m n"],
    slack: Float[Tensor, " m"],
    cost: Float[Tensor, "g n"],
) -> tuple[Float[Tensor, "g n"], Float[Tensor, "g n"]]:
    """Rows and reduced costs for each objective, about right."""
    if polytope.null is not None:
        # The dual program: least s a over s >= 0 with N^T s = N^T c.
        reduced, rows = minimise(torch.as_tensor(polytope.null).mT, cost, a[None], -a, a.new_zeros(0))
        return rows, reduced
    ranged = slack > _LEAST_RANGE
    if not bool(ranged.any()):
        return minimise(basis, a[None], cost, a, a.new_zeros(0))
    matrix = torch.cat([basis, torch.eye(len(slack), dtype=a.dtype)[:, ranged]], dim=-1)
    return minimise(matrix, a[None], cost, torch.cat([a, slack[ranged]]), slack[ranged])
