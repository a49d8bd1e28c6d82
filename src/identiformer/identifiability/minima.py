"""What weights are at least, over all rows of weights with the same output, with a proof by duality."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float
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


class MinimaOfRows(NamedTuple):
    r"""The same of programs about different rows of weights, as tensors.

    - `settled`: `[g]`: whether `bounds` and `rows` are what [`Minima`][] says. Else `rows` are of no use.
    - `proofs`: `[g, n]`, $p$: $c \cdot b \ge p \cdot a$ for any row $a$ of the polytope's head and all $b$ with
      its output, but for $r$, `rounding`, `[g]`.
    """

    bounds: Float[Tensor, " g"]
    rows: Float[Tensor, "g n"]
    settled: Bool[Tensor, " g"]
    proofs: Float[Tensor, "g n"]
    rounding: Float[Tensor, " g"]


def minima(polytope: RowPolytope, costs: NDArray[np.float64]) -> Minima:
    r"""For each objective $c$, the least $c \cdot b$ over the rows $b$ of a polytope.

    Many programs are solved at once ([`minima_of_rows`][]); where that proves no bound that some row comes within
    [`EXACT`][] of, the simplex method decides.

    **Arguments:** `costs`: `[g, n]`, an objective a row.

    **Returns:** [`Minima`][].
    """
    weights = polytope.weights
    if polytope.is_point or not len(costs):
        return Minima(costs @ weights, np.tile(weights, (len(costs), 1)))
    a = torch.as_tensor(weights, device="cpu")
    objectives = torch.as_tensor(costs, device="cpu")
    least = minima_of_rows(polytope, a.expand_as(objectives), objectives)
    found = Minima(least.bounds.numpy(), least.rows.numpy())
    for place in np.flatnonzero(~least.settled.numpy()):
        found.rows[place] = polytope.maximise(-costs[place])
        found.bounds[place] = costs[place] @ found.rows[place]
    return found


def minima_of_rows(
    polytope: RowPolytope, weights: Float[Tensor, "g n"], costs: Float[Tensor, "g n"]
) -> MinimaOfRows:
    r"""For each row of weights $a$ and objective $c$, the least $c \cdot b$ over the rows $b$ with the output of $a$.

    All programs are solved at once ([`Programs`][]), in whichever form of the polytope is smaller, and the
    result is not taken on trust. Whatever reduced costs $s$ it gives, let $q = P P^\top (c - s)$. For every row
    $b$ with the output of $a$, since it is not negative and sums to $\sum a$,

    $$c \cdot b = q \cdot b + (c - q) \cdot b
    \ge q \cdot a - \sum_i \delta_i |p_i^\top q| + \min_k (c - q)_k \sum a,$$

    and this is the bound. It holds for the $q$ of any program: with $p = q + \min_k (c - q)_k 1$, and where no
    output moves, $c \cdot b \ge p \cdot a$ for whatever row $a$.

    **Arguments:**

    - `polytope`: of any row of the head that sees the same tokens; no point.
    - `weights`: `[g, n]`, $a$, of the visible tokens.
    - `costs`: `[g, n]`, $c$.

    **Returns:** [`MinimaOfRows`][].
    """
    basis, slack = (torch.as_tensor(array, device="cpu") for array in (polytope.basis, polytope.slack))
    programs = _programs(polytope, weights.mean(dim=0), basis, slack)
    parts: list[MinimaOfRows] = []
    for first in range(0, len(costs), programs.at_once):
        a, cost = (given[first : first + programs.at_once] for given in (weights, costs))
        if polytope.null is None:
            rows, reduced = programs.minimise(a, cost)
        else:
            reduced, rows = programs.minimise(cost, a)
        bounds, proofs, rounding = _bounds(a, basis, slack, cost, reduced)
        # Put back to where all equalities hold.
        off = (rows - a) @ basis.mT
        rows = rows - (off - off.clamp(-slack, slack)) @ basis
        settled = ((cost * rows).sum(dim=-1) - bounds <= EXACT) & (rows.amin(dim=-1) >= -_FEASIBLE)
        parts.append(MinimaOfRows(bounds, rows.clamp(min=0), settled, proofs, rounding))
    return MinimaOfRows(*(torch.cat(part) for part in zip(*parts, strict=True)))


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
    a: Float[Tensor, "g n"],
    basis: Float[Tensor, "m n"],
    slack: Float[Tensor, " m"],
    cost: Float[Tensor, "g n"],
    reduced: Float[Tensor, "g n"],
) -> tuple[Float[Tensor, " g"], Float[Tensor, "g n"], Float[Tensor, " g"]]:
    """What the reduced costs prove, less what rounding may have added to it; the proofs, and that rounding."""
    shares = (cost - reduced) @ basis.mT
    rest = cost - shares @ basis
    proofs = cost - rest + rest.amin(dim=-1, keepdim=True)
    rounding = ROUNDING * (1 + lengths(shares))
    return (proofs * a).sum(dim=-1) - shares.abs() @ slack - rounding, proofs, rounding
