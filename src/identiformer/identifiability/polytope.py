"""Linear programs over all rows of weights with the same output."""

from __future__ import annotations

import highspy
import numpy as np
import torch
from numpy.typing import NDArray

from identiformer.errors import InputError
from identiformer.identifiability.head import AttentionHead
from identiformer.identifiability.linalg import complement, lengths
from identiformer.identifiability.solver import SilentHighs
from identiformer.identifiability.spectrum import centre, output_scale, spectrum

# The least that HiGHS accepts. Weights are exact up to about ten times this.
_FEASIBILITY = 1e-10


class RowPolytope:
    r"""The rows $\{b \ge 0,\ \sum b = \sum a,\ b T = a T\}$, over the visible tokens of one row.

    The constraints are written in an orthonormal basis $P$ of the column space of $[T\ 1]$, as
    $P^\top (b - a) = 0$, so that their scale is that of the weights whatever that of $T$. Whichever needs
    fewer numbers is handed to the solver:

    - $n$ non-negative variables $b$ and the $\mathrm{rank}$ equalities, or
    - with a basis $N$ of the null space, $n - \mathrm{rank}$ free variables $z$ and the $n$ inequalities
      $a + N z \ge 0$.

    One solver holds the model. Only the objective changes from program to program, so that each starts from
    the vertex at which the last one ended.

    With `tolerance` $\varepsilon > 0$: rows whose output moves by at most $\varepsilon \|h\|$. With the thin
    $W = P \, \mathrm{diag}(\sigma) R^\top$ of the centred $T$, $\|(b - a) T\|$ is the length of
    $\mathrm{diag}(\sigma) P^\top (b - a)$; the ball is replaced by the box around it,
    $|p_i^\top (b - a)| \le \varepsilon \|h\| / \sigma_i$, which contains it.

    **Arguments:**

    - `head`: one row, without batch dimensions.
    - `tolerance`: $\varepsilon$.
    - `with_greatest`: also carry a variable for the greatest weight, for [`RowPolytope.lead`][].
    - `cutoff`: up to where singular values of the centred $T$ count as zero. `None`: [`output_cutoff`][].
    """

    def __init__(
        self,
        head: AttentionHead,
        tolerance: float = 0.0,
        with_greatest: bool = False,
        cutoff: float | None = None,
    ) -> None:
        _check_row(head, tolerance)
        seen = head.mask
        self.visible: NDArray[np.int64] = seen.nonzero()[:, 0].cpu().numpy()
        self.weights: NDArray[np.float64] = head.weights[seen].cpu().numpy()
        scale = output_scale(head)
        centred = spectrum(
            centre(head.reduced, seen),
            scale.cutoff if cutoff is None else torch.full_like(scale.cutoff, cutoff),
        )
        rank = int(centred.rank)
        tokens = len(self.weights)
        ones = torch.full((tokens, 1), tokens**-0.5, dtype=torch.float64, device=seen.device)
        basis = torch.cat([ones, centred.left[seen, :rank]], dim=-1)
        slack = torch.zeros(rank + 1, dtype=torch.float64)
        slack[1:] = tolerance * float(lengths(head.output)) / centred.singular[:rank].cpu()
        self.is_point: bool = tokens == rank + 1 and not bool(slack.any())
        self._solver: highspy.Highs | None = None
        self._null: NDArray[np.float64] | None = None
        self._with_greatest = with_greatest
        self._basis: NDArray[np.float64] = basis.T.cpu().numpy()
        self._slack: NDArray[np.float64] = slack.numpy()
        if tokens - rank - 1 < rank + 1 and not bool(slack.any()):
            self._null = complement(basis).cpu().numpy()

    def most(self, token: int) -> NDArray[np.float64]:
        """A row in which the weight of a token (counted among the visible ones) is the greatest possible."""
        return self._minimise({token: -1.0}, 0.0)

    def least(self, token: int) -> NDArray[np.float64]:
        """A row in which it is the least possible."""
        return self._minimise({token: 1.0}, 0.0)

    def maximise(self, objective: NDArray[np.float64]) -> NDArray[np.float64]:
        """A row in which the sum of the weights times `objective`, `[n]`, is the greatest possible."""
        return self._minimise({token: -float(value) for token, value in enumerate(objective)}, 0.0)

    def lead(self, token: int) -> NDArray[np.float64]:
        r"""A row in which $b_j - \max_k b_k$ is the greatest possible: 0 where token $j$ can be at the top.

        With a variable $m \ge b_k$ for all $k$, the objective is $b_j - m$: no constraint depends on $j$.
        """
        return self._minimise({token: -1.0}, 1.0)

    def _minimise(self, cost: dict[int, float], of_greatest: float) -> NDArray[np.float64]:
        if self.is_point:
            return self.weights
        if self._solver is None:
            self._solver = self._build()
        solver = self._solver
        tokens = len(self.weights)
        costs = np.zeros(tokens)
        for token, value in cost.items():
            costs[token] = value
        if self._null is not None:
            costs = costs @ self._null
        if self._with_greatest:
            costs = np.append(costs, of_greatest)
        solver.changeColsCost(len(costs), np.arange(len(costs), dtype=np.int32), costs)
        solver.run()
        if solver.getModelStatus() != highspy.HighsModelStatus.kOptimal:
            # A warm start can go astray numerically; the same program from scratch does not.
            solver.clearSolver()
            solver.run()
        if solver.getModelStatus() != highspy.HighsModelStatus.kOptimal:
            status = solver.modelStatusToString(solver.getModelStatus())
            raise RuntimeError(f"the linear program over {tokens} tokens ended as {status!r}")
        values = np.asarray(solver.getSolution().col_value, dtype=np.float64)
        if self._null is None:
            return np.maximum(values[:tokens], 0.0)
        return np.maximum(self.weights + self._null @ values[: self._null.shape[1]], 0.0)

    def _build(self) -> highspy.Highs:
        """The model without an objective."""
        tokens = len(self.weights)
        infinity = highspy.kHighsInf
        if self._null is None:
            centre_of = self._basis @ self.weights
            rows, low, high = self._basis, centre_of - self._slack, centre_of + self._slack
            free, lowest = tokens, 0.0
        else:
            rows, low, high = self._null, -self.weights, np.full(tokens, infinity)
            free, lowest = self._null.shape[1], -infinity
        if self._with_greatest:
            # m - b_k >= 0, b_k being a variable or a_k + (N z)_k.
            weights = np.eye(tokens) if self._null is None else self._null
            offset = np.zeros(tokens) if self._null is None else self.weights
            below = np.hstack([-weights, np.ones((tokens, 1))])
            rows = np.vstack([np.hstack([rows, np.zeros((len(rows), 1))]), below])
            low = np.concatenate([low, offset])
            high = np.concatenate([high, np.full(tokens, infinity)])
        columns = rows.shape[1]
        model = highspy.HighsLp()
        model.num_col_ = columns
        model.num_row_ = len(rows)
        model.col_cost_ = np.zeros(columns)
        model.col_lower_ = np.concatenate([np.full(free, lowest), np.full(columns - free, -infinity)])
        model.col_upper_ = np.full(columns, infinity)
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


def _check_row(head: AttentionHead, tolerance: float) -> None:
    if head.batch_shape:
        raise InputError(
            f"this takes one row, but the head has batch shape {tuple(head.batch_shape)}: "
            f"index it first, as in head[{', '.join('0' * len(head.batch_shape))}]"
        )
    if not 0.0 <= tolerance < float("inf"):
        raise InputError(f"tolerance must be a finite number of 0 or more, not {tolerance}")
