"""What weights are at least, over all rows of weights with the same output, with a proof by duality."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from identiformer.identifiability.interior import Programs
from identiformer.identifiability.linalg import lengths
from identiformer.identifiability.polytope import RowPolytope
from identiformer.identifiability.tolerance import ROUNDING

# How far a bound may lie from what some row attains.
EXACT = 1e-10
# How far below 0 a weight of such a row may be, to be set to 0.
_FEASIBLE = 1e-11
# Ranges that are as good as none.
_LEAST_RANGE = 1e-12


class Minima(NamedTuple):
    """The least values of some objectives.

    - `bounds`: `[g]`. No row has less.
    - `rows`: `[g, n]`, rows that have no more than [`EXACT`][] above it, and satisfy all constraints to 1e-10.
    """

    bounds: NDArray[np.float64]
    rows: NDArray[np.float64]


def minima(polytope: RowPolytope, costs: NDArray[np.float64]) -> Minima:
    r"""For each objective $c$, the least $c \cdot b$ over the rows $b$ of a polytope.

    Many programs are solved at once ([`Programs`][]), in whichever form of the polytope is smaller, and the
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
    found = Minima(costs @ weights, np.tile(weights, (len(costs), 1)))
    if polytope.is_point or not len(costs):
        return found
    a, basis, slack, objectives = (
        torch.as_tensor(array, device="cpu") for array in (weights, polytope.basis, polytope.slack, costs)
    )
    programs = _programs(polytope, a, basis, slack)
    for first in range(0, len(costs), programs.at_once):
        some = slice(first, first + programs.at_once)
        cost = objectives[some]
        own = a.expand_as(cost)
        if polytope.null is None:
            rows, reduced = programs.minimise(own, cost)
        else:
            reduced, rows = programs.minimise(cost, own)
        bounds = _bounds(a, basis, slack, cost, reduced)
        # Put back to where all equalities hold.
        off = (rows - a) @ basis.mT
        rows = rows - (off - off.clamp(-slack, slack)) @ basis
        found.bounds[some], found.rows[some] = bounds.numpy(), rows.clamp(min=0).numpy()
        settled = ((cost * rows).sum(dim=-1) - bounds <= EXACT) & (rows.amin(dim=-1) >= -_FEASIBLE)
        for place in first + np.flatnonzero(~settled.numpy()):
            found.rows[place] = polytope.maximise(-costs[place])
            found.bounds[place] = costs[place] @ found.rows[place]
    return found


def _programs(
    polytope: RowPolytope, a: Float[Tensor, " n"], basis: Float[Tensor, "m n"], slack: Float[Tensor, " m"]
) -> Programs:
    r"""The programs over the rows, or where that is smaller the dual ones: least $a \cdot s$ over $s \ge 0$ with
    $N^\top s = N^\top c$."""
    if polytope.null is not None:
        return Programs(torch.as_tensor(polytope.null, device="cpu").mT, -a)
    ranged = slack > _LEAST_RANGE
    if not bool(ranged.any()):
        return Programs(basis, a)
    own = torch.diag(torch.ones_like(slack))[:, ranged]
    return Programs(torch.cat([basis, own], dim=-1), torch.cat([a, slack[ranged]]), slack[ranged])


def _bounds(
    a: Float[Tensor, " n"],
    basis: Float[Tensor, "m n"],
    slack: Float[Tensor, " m"],
    cost: Float[Tensor, "g n"],
    reduced: Float[Tensor, "g n"],
) -> Float[Tensor, " g"]:
    """What the reduced costs prove, less what rounding may have added to it."""
    shares = (cost - reduced) @ basis.mT
    rest = cost - shares @ basis
    proved = (cost - rest) @ a - shares.abs() @ slack + rest.amin(dim=-1) * a.sum()
    return proved - ROUNDING * (1 + lengths(shares))
