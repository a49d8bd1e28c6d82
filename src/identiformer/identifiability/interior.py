"""Many linear programs over one polytope at once."""

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
# Numbers of a batch of programs that stay in a core's cache; numbers that the outer products may take.
_NUMBERS_AT_ONCE = 2**18
_MOST_OUTER_NUMBERS = 2**24


class Ends(NamedTuple):
    r"""Where programs ended: `primal`, `[programs, n]`, and `reduced`, the dual variables of $x \ge 0$."""

    primal: Float[Tensor, "b n"]
    reduced: Float[Tensor, "b n"]


def minimise(
    matrix: Float[Tensor, "m c"],
    point: Float[Tensor, "#b n"],
    cost: Float[Tensor, "#b n"],
    size: Float[Tensor, " c"],
    ranges: Float[Tensor, " k"],
) -> Ends:
    r"""For each program: minimise $c^\top x$ over $x \ge 0$, $|t_i| \le \delta_i$ with $M (x, t) = M (p, 0)$.

    Mehrotra's predictor-corrector method, for all programs at once. With $g$ the distances to the bounds (that is
    $x$, $t + \delta$ and $\delta - t$) and $z \ge 0$ their dual variables, a step solves Newton's equations for

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

    - `matrix`: `[m, n + k]`, $M$.
    - `point`: `[programs, n]`, or `[1, n]` for all, $p$. It need not be feasible.
    - `cost`: `[programs, n]`, or `[1, n]` for all, $c$.
    - `size`: `[n + k]`, about how great each variable gets. Only the order matters, and only for accuracy.
    - `ranges`: `[k]`, $\delta > 0$.

    **Returns:** [`Ends`][].

    **Source:** Mehrotra, On the implementation of a primal-dual interior point method, 1992. Graded matrices:
    Higham, Accuracy and Stability of Numerical Algorithms, 2nd edition, section 10.1.
    """
    programs = max(len(point), len(cost))
    point, cost = point.expand(programs, -1), cost.expand(programs, -1)
    order = size.argsort(descending=True, stable=True)
    rotated = torch.empty_like(matrix)
    rotated[:, order] = triangle(matrix[:, order])
    system = _System(rotated, ranges)
    at_once = max(16, _NUMBERS_AT_ONCE // (matrix.shape[1] + matrix.shape[0] ** 2))
    ends = [
        _minimise(system, point[some : some + at_once], cost[some : some + at_once])
        for some in range(0, programs, at_once)
    ]
    return Ends(torch.cat([end.primal for end in ends]), torch.cat([end.reduced for end in ends]))


class _System:
    """The constraints of all programs."""

    def __init__(self, matrix: Float[Tensor, "m c"], ranges: Float[Tensor, " k"]) -> None:
        self.matrix = matrix
        self.transposed = matrix.mT.contiguous()
        self.ranges = ranges
        rows = len(matrix)
        self.free = matrix.shape[1] - len(ranges)  # how many variables have no upper bound
        first, second = torch.tril_indices(rows, rows)
        self.outer: Tensor | None = None
        if len(first) * matrix.shape[1] <= _MOST_OUTER_NUMBERS:
            self.outer = (matrix[first] * matrix[second]).mT.contiguous()
            # Where the entry at (i, j) of a symmetric matrix lies in its lower triangle.
            i, j = torch.arange(rows)[:, None], torch.arange(rows)
            low, high = torch.minimum(i, j), torch.maximum(i, j)
            self.place = (high * (high + 1) // 2 + low).flatten()

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

    def spread(self, moves: Float[Tensor, "b c"]) -> Float[Tensor, "b g"]:
        """How the distances to the bounds change with the variables."""
        if not len(self.ranges):
            return moves
        return torch.cat([moves, -moves[:, self.free :]], dim=-1)

    def fold(self, duals: Float[Tensor, "b g"]) -> Float[Tensor, "b c"]:
        """Of two dual variables of one variable, the difference."""
        count = len(self.ranges)
        if not count:
            return duals
        lower, upper = duals[:, :-count], duals[:, -count:]
        return torch.cat([lower[:, : self.free], lower[:, self.free :] - upper], dim=-1)

    def join(self, ratios: Float[Tensor, "b g"]) -> Float[Tensor, "b c"]:
        """$d$ from the quotients $g / z$: of two, the harmonic sum."""
        count = len(self.ranges)
        if not count:
            return ratios
        lower, upper = ratios[:, :-count], ratios[:, -count:]
        both = 1 / (1 / lower[:, self.free :] + 1 / upper)
        return torch.cat([lower[:, : self.free], both], dim=-1)


def _minimise(system: _System, point: Float[Tensor, "b n"], cost: Float[Tensor, "b n"]) -> Ends:
    free, count = system.free, len(system.ranges)
    nothing = cost.new_zeros(len(cost), count)
    cost, point = torch.cat([cost, nothing], dim=-1), torch.cat([point, nothing], dim=-1)
    gaps, duals, y = _start(system, point, cost)
    ends = Ends(torch.zeros_like(cost[:, :free]), torch.zeros_like(cost[:, :free]))
    live = torch.arange(len(cost))
    for step in range(_MOST_STEPS + 1):
        products = gaps * duals
        gap = products.sum(dim=-1)
        ended = ~(gap > _GAP) if step < _MOST_STEPS else torch.ones_like(live, dtype=torch.bool)
        if bool(ended.any()):
            ends.primal[live[ended]] = gaps[ended, :free]
            ends.reduced[live[ended]] = duals[ended, :free]
            going = ~ended
            live = live[going]
            if not len(live):
                break
            gaps, duals, y, point, cost, products = (
                t[going] for t in (gaps, duals, y, point, cost, products)
            )
        left = system.times(point - _variables(system, gaps))
        dual_left = cost - system.back(y) - system.fold(duals)
        ratios = gaps / duals
        newton = _Newton(system, system.join(ratios), left, dual_left)

        # Predict: how far does the straight way to a gap of 0 go?
        moves, change, _ = newton.direction(gaps, duals, -duals, refine=False)
        primal_step, dual_step = _reach(gaps, moves), _reach(duals, change)
        mean = products.mean(dim=-1, keepdim=True)
        reached = ((gaps + primal_step * moves) * (duals + dual_step * change)).mean(dim=-1, keepdim=True)
        target = (reached / mean) ** 3 * mean
        # Correct: keep to the centre as far as that was too far, and mind the second order.
        aim = (target - moves * change) / gaps - duals
        moves, change, dy = newton.direction(gaps, duals, aim, refine=True)
        primal_step, dual_step = _SHARE * _reach(gaps, moves), _SHARE * _reach(duals, change)
        gaps = gaps + primal_step * moves
        duals, y = duals + dual_step * change, y + dual_step * dy
    return ends


class _Newton:
    """Newton's equations of one step, factorised once and solved for two right sides."""

    def __init__(
        self,
        system: _System,
        scale: Float[Tensor, "b c"],
        left: Float[Tensor, "b m"],
        dual_left: Float[Tensor, "b c"],
    ) -> None:
        self.system, self.scale, self.left, self.dual_left = system, scale, left, dual_left
        self.factor = system.factor(scale)

    def direction(
        self, gaps: Float[Tensor, "b g"], duals: Float[Tensor, "b g"], aim: Float[Tensor, "b g"], refine: bool
    ) -> tuple[Float[Tensor, "b g"], Float[Tensor, "b g"], Float[Tensor, "b m"]]:
        r"""The changes of $g$, $z$ and $y$, for $z \Delta g + g \Delta z = g \cdot \text{aim}$."""
        system, scale = self.system, self.scale
        start = scale * (system.fold(aim) - self.dual_left)
        dy = self._solve(self.left - system.times(start))
        moved = system.back(dy)
        moves = start + scale * moved
        if refine:
            more = self._solve(self.left - system.times(moves))
            dy, back = dy + more, system.back(more)
            moved, moves = moved + back, moves + scale * back
        free = system.free
        spread = system.spread(moves)
        change = self.dual_left - moved
        if len(system.ranges):
            change = torch.cat(
                [change[:, :free], (aim - duals / gaps * spread)[:, free:]],
                dim=-1,
            )
        return spread, change, dy

    def _solve(self, right: Float[Tensor, "b m"]) -> Float[Tensor, "b m"]:
        return solve_factored(self.factor, right[..., None])[..., 0]


def _start(
    system: _System, point: Float[Tensor, "b c"], cost: Float[Tensor, "b c"]
) -> tuple[Float[Tensor, "b g"], Float[Tensor, "b g"], Float[Tensor, "b m"]]:
    """Distances, duals and $y$ to start from: of least length, and far enough inside of their bounds."""
    free, ranges = system.free, system.ranges
    # Orthonormal rows, as far as x is concerned.
    x = system.back(system.times(point))[:, :free]
    y = system.times(cost)
    reduced = cost - system.back(y)
    s = reduced[:, :free]
    x = x + (-1.5 * x.amin(dim=-1, keepdim=True)).clamp(min=0)
    s = s + (-1.5 * s.amin(dim=-1, keepdim=True)).clamp(min=0)
    product = (x * s).sum(dim=-1, keepdim=True)
    more_x = (0.5 * product / s.sum(dim=-1, keepdim=True)).nan_to_num(0.0).clamp(min=1e-8)
    more_s = (0.5 * product / x.sum(dim=-1, keepdim=True)).nan_to_num(0.0).clamp(min=1e-8)
    x, s = x + more_x, s + more_s
    if not len(ranges):
        return x, s, y
    # In the middle of the ranges, with products as they are elsewhere.
    widths = ranges.expand(len(x), -1)
    inside = (x * s).mean(dim=-1, keepdim=True) / widths
    t = reduced[:, free:]
    return (
        torch.cat([x, widths, widths], dim=-1),
        torch.cat([s, inside + t.clamp(min=0), inside + (-t).clamp(min=0)], dim=-1),
        y,
    )


def _variables(system: _System, gaps: Float[Tensor, "b g"]) -> Float[Tensor, "b c"]:
    count = len(system.ranges)
    if not count:
        return gaps
    lower, upper = gaps[:, :-count], gaps[:, -count:]
    return torch.cat([lower[:, : system.free], (lower[:, system.free :] - upper) / 2], dim=-1)


def _reach(values: Float[Tensor, "b g"], moves: Float[Tensor, "b g"]) -> Float[Tensor, "b 1"]:
    """The longest step, up to 1, after which no value is negative."""
    return torch.where(moves < 0, -values / moves, 1.0).amin(dim=-1, keepdim=True).clamp(max=1.0)
