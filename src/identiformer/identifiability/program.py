"""Linear programs over all rows of weights with the same output, one after the other."""

from __future__ import annotations

import highspy
import numpy as np
from numpy.typing import NDArray

from identiformer.identifiability.solver import SilentHighs

# The least that HiGHS accepts. Weights are exact up to about ten times this.
_FEASIBILITY = 1e-10


class RowProgram:
    r"""A simplex solver that holds the constraints of a [`RowPolytope`][].

    Only the objective changes from program to program, so that each starts from the vertex at which the last one
    ended: another objective leaves it feasible.

    **Arguments:**

    - `weights`, `basis`, `slack`, `null`: those of the polytope. With `null`, the free variables are the solver's
      own.
    - `totals`: `[g, n]`: also carry a variable that is at least each of the products with these.
    """

    def __init__(
        self,
        weights: NDArray[np.float64],
        basis: NDArray[np.float64],
        slack: NDArray[np.float64],
        null: NDArray[np.float64] | None,
        totals: NDArray[np.float64] | None = None,
    ) -> None:
        self.weights, self.null = weights, null
        self.with_greatest = totals is not None
        tokens = len(weights)
        if null is None:
            centre = basis @ weights
            rows, low, high = basis, centre - slack, centre + slack
            free, lowest = tokens, 0.0
        else:
            rows, low, high = null, -weights, np.full(tokens, highspy.kHighsInf)
            free, lowest = null.shape[1], -highspy.kHighsInf
        if totals is not None:
            # greatest - g b >= 0, with b a variable or a + N z.
            own = totals if null is None else totals @ null
            offset = np.zeros(len(totals)) if null is None else totals @ weights
            below = np.hstack([-own, np.ones((len(totals), 1))])
            rows = np.vstack([np.hstack([rows, np.zeros((len(rows), 1))]), below])
            low = np.concatenate([low, offset])
            high = np.concatenate([high, np.full(len(totals), highspy.kHighsInf)])
        columns = rows.shape[1]
        lower = np.full(columns, -highspy.kHighsInf)
        lower[:free] = lowest
        self.solver = _solver(rows, low, high, lower)

    def minimise(self, cost: NDArray[np.float64], of_greatest: float = 0.0) -> NDArray[np.float64]:
        """A row in which the sum of the weights times `cost`, `[n]`, is the least possible.

        With `totals`, `of_greatest` times the greatest of the products counts as well.
        """
        solver = self.solver
        costs = cost if self.null is None else cost @ self.null
        if self.with_greatest:
            costs = np.append(costs, of_greatest)
        solver.changeColsCost(len(costs), np.arange(len(costs), dtype=np.int32), costs)
        solver.run()
        if solver.getModelStatus() != highspy.HighsModelStatus.kOptimal:
            # A warm start can go astray numerically; the same program from scratch does not.
            solver.clearSolver()
            solver.run()
        if solver.getModelStatus() != highspy.HighsModelStatus.kOptimal:
            status = solver.modelStatusToString(solver.getModelStatus())
            raise RuntimeError(f"the linear program over {len(self.weights)} tokens ended as {status!r}")
        values = np.asarray(solver.getSolution().col_value, dtype=np.float64)
        if self.null is None:
            return np.maximum(values[: len(self.weights)], 0.0)
        return np.maximum(self.weights + self.null @ values[: self.null.shape[1]], 0.0)


def _solver(
    rows: NDArray[np.float64],
    low: NDArray[np.float64],
    high: NDArray[np.float64],
    lower: NDArray[np.float64],
) -> highspy.Highs:
    """The solver with the constraints `low <= rows x <= high` and `lower <= x`, and no objective yet."""
    columns = rows.shape[1]
    model = highspy.HighsLp()
    model.num_col_ = columns
    model.num_row_ = len(rows)
    model.col_cost_ = np.zeros(columns)
    model.col_lower_ = lower
    model.col_upper_ = np.full(columns, highspy.kHighsInf)
    model.row_lower_ = low
    model.row_upper_ = high
    filled = rows != 0
    model.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    model.a_matrix_.start_ = np.concatenate([[0], filled.sum(axis=1).cumsum()]).astype(np.int32)
    model.a_matrix_.index_ = filled.nonzero()[1].astype(np.int32)
    model.a_matrix_.value_ = rows[filled]
    solver = SilentHighs()
    solver.setOptionValue("presolve", "off")
    solver.setOptionValue("primal_feasibility_tolerance", _FEASIBILITY)
    solver.setOptionValue("dual_feasibility_tolerance", _FEASIBILITY)
    # The rows are orthonormal: there is nothing to scale.
    solver.setOptionValue("simplex_scale_strategy", 0)
    # Another objective leaves the last vertex primal feasible.
    solver.setOptionValue("simplex_strategy", 4)
    solver.passModel(model)
    return solver
