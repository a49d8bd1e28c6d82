"""Many linear programs with the same constraints at once."""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from identiformer.identifiability.linalg import cholesky, solve_factored, triangle

# A program has ended when its duality gap is this small; usually after 8 to 20 steps.
_GAP = 1e-11
_MOST_STEPS = 40
# How much of the way to the boundary a step goes.
_SHARE = 0.9999
# No variable starts closer to its bound.
_LEAST_START = 1e-8
# Numbers that a batch of programs may take, so that they stay near; and the outer products of all of them.
_NUMBERS_AT_ONCE = 2**20
_MOST_OUTER_NUMBERS = 2**24


class Ends(NamedTuple):
    r"""Where programs ended: `primal`, `[b, n]`, $x$, and `reduced`, `[b, n]`, the dual variables of $x \ge 0$."""

    primal: Float[Tensor, "b n"]
    reduced: Float[Tensor, "b n"]


class Programs:
    r"""Linear programs over $x \ge 0$, $|t_i| \le \delta_i$ with $M (x, t) = M (p, 0)$.

    Mehrotra's predictor-corrector method, for many programs at once. With $g$ the distances to the bounds (that
    is $x$, $\delta + t$ and $\delta - t$) and $z \ge 0$ their dual variables, a step solves Newton's equations for

    $$M (x, t) = M (p, 0), \qquad (c, 0) - M^\top y = \sigma, \qquad g_i z_i = \mu,$$

    where $\sigma$ is $z$ for $x$, and for $t$ the first of its two $z$ minus the second. What has to be factorised
    for every program and step is $M \, \mathrm{diag}(d) M^\top$, and since $M$ is the same for all programs, all
    these matrices are one product of the $d$ with the outer products of the columns of $M$.

    As a program ends, $d$ spans many orders of magnitude, and where the feasible $x$ do (a peaked row of weights)
    it does so from the start. The constraints are therefore rotated first: with the columns of $M$ in descending
    order of `size`, $M = Q R$, and row $i$ of $R$ sees no column before the $i$-th. $R \, \mathrm{diag}(d) R^\top$
    is then graded along its diagonal, and its Cholesky factor exact relative to the scale of each row.

    Nothing is promised of what comes back: whoever calls this proves how good it is, by duality.

    **Arguments:**

    - `matrix`: `[m, n + k]`, $M$, with orthonormal rows as far as $x$ is concerned.
    - `size`: `[n + k]`, about how great each variable gets. Only the order matters, and only for accuracy.
    - `ranges`: `[k]`, $\delta > 0$, of the variables $t$; `None` where there are none.

    **Source:** Mehrotra, On the implementation of a primal-dual interior point method, 1992. Graded matrices:
    Higham, Accuracy and Stability of Numerical Algorithms, 2nd edition, section 10.1.
    """

    def __init__(
        self,
        matrix: Float[Tensor, "m c"],
        size: Float[Tensor, " c"],
        ranges: Float[Tensor, " k"] | None = None,
    ) -> None:
        order = size.argsort(descending=True, stable=True)
        self.matrix = torch.empty_like(matrix)
        self.matrix[:, order] = triangle(matrix[:, order])
        self.transposed = self.matrix.mT.contiguous()
        self.ranges = size.new_zeros(0) if ranges is None else ranges
        rows, columns = matrix.shape
        self.unranged = columns - len(self.ranges)
        # How many programs to solve at once.
        self.at_once = max(16, _NUMBERS_AT_ONCE // (columns + rows**2))
        first, second = torch.tril_indices(rows, rows, device=matrix.device)
        self.outer: Tensor | None = None
        if len(first) * columns <= _MOST_OUTER_NUMBERS:
            self.outer = (self.matrix[first] * self.matrix[second]).mT.contiguous()
            # Where the entry at (i, j) of a symmetric matrix lies in its lower triangle.
            place = torch.arange(rows, device=matrix.device)
            low, high = torch.minimum(place[:, None], place), torch.maximum(place[:, None], place)
            self.place = (high * (high + 1) // 2 + low).flatten()

    def minimise(self, point: Float[Tensor, "b n"], cost: Float[Tensor, "b n"]) -> Ends:
        r"""For each program, the least $c^\top x$.

        **Arguments:**

        - `point`: `[b, n]`, $p$. It need not be feasible itself.
        - `cost`: `[b, n]`, $c$.

        **Returns:** [`Ends`][].
        """
        ends = Ends(torch.zeros_like(cost), torch.zeros_like(cost))
        nothing = cost.new_zeros(len(cost), len(self.ranges))
        cost, point = torch.cat([cost, nothing], dim=-1), torch.cat([point, nothing], dim=-1)
        gaps, duals, y = self._start(point, cost)
        live = torch.arange(len(cost), device=cost.device)
        for step in range(_MOST_STEPS + 1):
            products = gaps * duals
            going = products.sum(dim=-1) > _GAP if step < _MOST_STEPS else torch.zeros_like(live) > 0
            if not bool(going.all()):
                ended = ~going
                ends.primal[live[ended]] = gaps[ended, : self.unranged]
                ends.reduced[live[ended]] = duals[ended, : self.unranged]
                live, gaps, duals, y, point, cost, products = (
                    tensor[going] for tensor in (live, gaps, duals, y, point, cost, products)
                )
            if not len(live):
                break
            newton = _Newton(self, gaps, duals, y, point, cost)
            # Predict: how far does the straight way to a gap of 0 go?
            moves, change, _ = newton.direction(-duals, refine=False)
            primal_step, dual_step = _reach(gaps, moves), _reach(duals, change)
            mean = products.mean(dim=-1, keepdim=True)
            reached = ((gaps + primal_step * moves) * (duals + dual_step * change)).mean(dim=-1, keepdim=True)
            target = (reached / mean) ** 3 * mean
            # Correct: keep to the centre by as much as that fell short, and mind the second order.
            moves, change, dy = newton.direction((target - moves * change) / gaps - duals, refine=True)
            primal_step, dual_step = _SHARE * _reach(gaps, moves), _SHARE * _reach(duals, change)
            gaps = gaps + primal_step * moves
            duals, y = duals + dual_step * change, y + dual_step * dy
        return ends

    def _start(
        self, point: Float[Tensor, "b c"], cost: Float[Tensor, "b c"]
    ) -> tuple[Float[Tensor, "b g"], Float[Tensor, "b g"], Float[Tensor, "b m"]]:
        """$g$, $z$ and $y$ to start from: the shortest solutions, moved away from the bounds."""
        x = self.back(self.times(point))[:, : self.unranged]
        y = self.times(cost)
        reduced = cost - self.back(y)
        s, of_range = reduced[:, : self.unranged], reduced[:, self.unranged :]
        x = x + (-1.5 * x.amin(dim=-1, keepdim=True)).clamp(min=0)
        s = s + (-1.5 * s.amin(dim=-1, keepdim=True)).clamp(min=0)
        product = (x * s).sum(dim=-1, keepdim=True)
        more_x, more_s = (
            (0.5 * product / other.sum(dim=-1, keepdim=True)).nan_to_num(0.0).clamp(min=_LEAST_START)
            for other in (s, x)
        )
        x, s = x + more_x, s + more_s
        # In the middle of the ranges, with products as they are elsewhere.
        widths = self.ranges.expand(len(x), -1)
        inside = (x * s).mean(dim=-1, keepdim=True) / widths
        gaps = torch.cat([x, widths, widths], dim=-1)
        duals = torch.cat([s, inside + of_range.clamp(min=0), inside + (-of_range).clamp(min=0)], dim=-1)
        return gaps, duals, y

    def times(self, vectors: Float[Tensor, "b c"]) -> Float[Tensor, "b m"]:
        """$M v$."""
        return vectors @ self.transposed

    def back(self, vectors: Float[Tensor, "b m"]) -> Float[Tensor, "b c"]:
        r"""$M^\top y$."""
        return vectors @ self.matrix

    def factor(self, scale: Float[Tensor, "b c"]) -> Float[Tensor, "b m m"]:
        r"""The Cholesky factor of $M \, \mathrm{diag}(d) M^\top$."""
        rows = len(self.matrix)
        if self.outer is None:
            normal = (self.matrix * scale[:, None, :]) @ self.transposed
        else:
            normal = (scale @ self.outer).index_select(1, self.place).view(-1, rows, rows)
        # Room for the rounding of its diagonal.
        normal.diagonal(dim1=-2, dim2=-1).mul_(1 + 1e-14)
        return cholesky(normal)[0]

    def join(self, of_bounds: Float[Tensor, "b g"], sign: int) -> Float[Tensor, "b c"]:
        r"""What belongs to $x$ as it is; of what belongs to $-\delta \le t$ and $t \le \delta$, sum or difference."""
        count = len(self.ranges)
        if not count:
            return of_bounds
        lower, upper = of_bounds[:, self.unranged : -count], of_bounds[:, -count:]
        return torch.cat([of_bounds[:, : self.unranged], lower + sign * upper], dim=-1)


class _Newton:
    """Newton's equations at one place, factorised once and solved for two right sides."""

    def __init__(
        self,
        programs: Programs,
        gaps: Float[Tensor, "b g"],
        duals: Float[Tensor, "b g"],
        y: Float[Tensor, "b m"],
        point: Float[Tensor, "b c"],
        cost: Float[Tensor, "b c"],
    ) -> None:
        self.programs = programs
        variables = programs.join(gaps, -1)
        variables[:, programs.unranged :] /= 2
        self.left = programs.times(point - variables)
        self.dual_left = cost - programs.back(y) - programs.join(duals, -1)
        self.stiffness = duals / gaps
        self.scale = 1 / programs.join(self.stiffness, 1)
        self.factor = programs.factor(self.scale)

    def direction(
        self, aim: Float[Tensor, "b g"], refine: bool
    ) -> tuple[Float[Tensor, "b g"], Float[Tensor, "b g"], Float[Tensor, "b m"]]:
        r"""The changes of $g$, $z$ and $y$ with $\Delta z + (z / g) \Delta g = \text{aim}$."""
        programs = self.programs
        start = self.scale * (programs.join(aim, -1) - self.dual_left)
        dy = self._solve(self.left - programs.times(start))
        moved = programs.back(dy)
        moves = start + self.scale * moved
        if refine:
            more = self._solve(self.left - programs.times(moves))
            dy, back = dy + more, programs.back(more)
            moved, moves = moved + back, moves + self.scale * back
        change = self.dual_left - moved
        if len(programs.ranges):
            unranged = programs.unranged
            moves = torch.cat([moves, -moves[:, unranged:]], dim=-1)
            of_ranges = (aim - self.stiffness * moves)[:, unranged:]
            change = torch.cat([change[:, :unranged], of_ranges], dim=-1)
        return moves, change, dy

    def _solve(self, right: Float[Tensor, "b m"]) -> Float[Tensor, "b m"]:
        return solve_factored(self.factor, right[..., None])[..., 0]


def _reach(values: Float[Tensor, "b g"], moves: Float[Tensor, "b g"]) -> Float[Tensor, "b 1"]:
    """The longest step, up to 1, after which no value is negative."""
    return torch.where(moves < 0, -values / moves, 1.0).amin(dim=-1, keepdim=True).clamp(max=1.0)
