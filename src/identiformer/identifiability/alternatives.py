"""Another row of weights that would have given the same output."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor

from identiformer.errors import InputError
from identiformer.identifiability.certificate import Verdict, certify
from identiformer.identifiability.curve_search import search_curve
from identiformer.identifiability.directions import Level
from identiformer.identifiability.far_rows import distance
from identiformer.identifiability.generating_query import Generation, generating_query
from identiformer.identifiability.goals import Aim, AlternativeGoal, aim_at
from identiformer.identifiability.head import AttentionHead
from identiformer.identifiability.polytope import RowPolytope
from identiformer.identifiability.query_space import QuerySpace
from identiformer.identifiability.rows import Row, one_row
from identiformer.identifiability.same_output import SAME_OUTPUT, SameOutput

# A row that a query generates is another one if its merit is more than this.
_LEAST = 1e-6
# Where the output is at an extreme over all queries, its change is only quadratic in the step, and the rows nearby pass
# for others with the same output though there is none. An output that moved by more than this square of the distance
# is taken for such a one; less is rounding.
_STEEPEST = 0.1
_ROUNDING = 1e-14


class AlternativeStatus(StrEnum):
    """What came of asking for an alternative.

    - `FOUND`: there is one, and here it is.
    - `UNIQUE`: there is none, which is certain.
    - `NOT_FOUND`: none was found, which does not say that there is none.
    """

    FOUND = "found"
    UNIQUE = "unique"
    NOT_FOUND = "not_found"


@dataclass(frozen=True, eq=False)
class Alternative:
    r"""Another row of weights $b$ with the same output, or why there is none.

    - `level`, `goal`, `token`: what was asked for; `token` is `None` for the goal `farthest`, and a group's number
      where groups were given.
    - `status`: an [`AlternativeStatus`][].
    - `reason`: the status in a sentence.
    - `weights`: `[n]`, $b$; zero for tokens that are not visible.
    - `query`: `[d_k]`, at `generatable`: the shortest query whose softmax is `weights`.
    - `residual`: $\|(b - a) T\| / \|a T\|$, below 1e-6; relative to $\sigma_{\max}(T)$ where $a T = 0$
      ([`SameOutput`][] has the details).
    - `distance`: the total variation distance $\tfrac12 \|b - a\|_1$. For the goal `farthest`: the greatest that
      was found, which may not be the greatest there is.
    - `gain`: $b_j - a_j$ of the token, or the same of the group's total; negative where it is avoided; `None` for the
      goal `farthest`.
    - `extreme`: whether it is certain that no allowed row with the same output gives it more, or less. Only
      the linear programs of `simplex` can tell, where 1e-6 leaves out the same singular values as the certificate;
      never so for the goal `farthest`.

    All from `weights` to `gain` are `None` where the status is not `found`.
    """

    level: Level
    goal: AlternativeGoal
    token: int | None
    status: AlternativeStatus
    reason: str
    weights: Float[Tensor, " n"] | None = None
    query: Float[Tensor, " d_k"] | None = None
    residual: float | None = None
    distance: float | None = None
    gain: float | None = None
    extreme: bool = False


def alternative(
    head: AttentionHead,
    row: Row | None = None,
    level: Level | str = Level.SIMPLEX,
    *,
    favour: int | None = None,
    avoid: int | None = None,
    farthest: bool = False,
    groups: Int[Tensor, " n"] | None = None,
    seed: int = 0,
) -> Alternative:
    r"""Another row that is allowed at a level and gives the same output, made to serve one of three goals.

    - `simplex`: rows $b \ge 0$, $\sum b = \sum a$, $b T = a T$. The most and the least weight of a token, or of a group
      of them, are linear programs ([`RowPolytope`][]), and exact. For the farthest row, a search goes from vertex to
      vertex ([`far_row`][]).
    - `generatable`: rows $\mathrm{softmax}(\beta + s K q)$, $b T = a T$. A query that generates the row is recovered
      from its weights ([`generating_query`][]), and from there the curve or surface of queries with the same output
      is followed uphill ([`LevelCurve`][]). That leads to local extremes, of which the best is returned.

    Every alternative has been checked to reproduce $a T$, with $a$ as it is given, to a residual below 1e-6,
    whatever the precision of the model. One that does not is not returned.

    The status is `unique` where the verdict of the level is `global`, and where the interval of the token on the
    simplex ends at its weight, to 1e-9. At `generatable` it is `not_found` without a search where the verdict is
    `local`, which says nothing of rows that are not nearby, and where no query generates the row itself. An
    alternative there has to go towards its goal by more than 1e-6, and by more than four times as much as the row
    of the recovered query is away from $a$, so that rounding does not pass for an alternative; and the residual has to
    be small against the square of the distance, so that neither does a row at which the output is stationary.

    **Arguments:**

    - `head`: of any batch shape.
    - `row`: which row of the batch; `None` if there is no batch.
    - `level`: `simplex` or `generatable`.
    - `favour`, `avoid`, `farthest`: one of them: the token, counted as in `head.weights`, that is to get more or
      less weight; or `True`.
    - `groups`: `[n]`, the number of each token's group, counted from 0, such as the word that it is a piece of; -1 for
      tokens that are in none. `favour` and `avoid` then are about the total weight of a group.
    - `seed`: of the random starts of a search.

    **Returns:** an [`Alternative`][].

    **Raises:** `InputError` for anything but one row, one goal, a token (or group of tokens) that the row sees, and one
    of two levels; and for groups with `farthest`, which is measured by token.

    **Source:** the two sets of rows: arXiv 2106.01269, section 3.
    """
    level = _level(level)
    head = one_row(head, row)
    aim = aim_at(head, favour, avoid, farthest, groups, seed)
    return on_simplex(SimplexRows(head), aim) if level == Level.SIMPLEX else _generatable(head, aim)


def _level(level: Level | str) -> Level:
    allowed = [Level.SIMPLEX, Level.GENERATABLE]
    if level not in allowed:
        raise InputError(f"alternatives are of level {' or '.join(allowed)}, not {level}")
    return Level(level)


class SimplexRows:
    """The rows on the simplex with the same output as one row, prepared for any number of aims.

    **Attributes:**

    - `head`: the row.
    - `same`: what tells whether a row has its output.
    - `certified`: the rows that certificate and intervals speak of.
    - `reproducing`: those that reproduce the output; the same ones unless the precision of the model is too coarse.
    """

    def __init__(self, head: AttentionHead) -> None:
        self.head = head
        self.same = SameOutput(head)
        self.certified = RowPolytope(head)
        self.reproducing: RowPolytope = (
            self.certified if self.same.as_certified else RowPolytope(head, cutoff=self.same.cutoff)
        )


def on_simplex(rows: SimplexRows, aim: Aim) -> Alternative:
    """The alternative at `simplex`; see [`alternative`][]."""
    same, head = rows.same, rows.head
    row = aim.furthest(rows.certified)
    if (unique := _unique(Level.SIMPLEX, aim, rows.certified, row)) is not None:
        return unique
    if rows.reproducing is not rows.certified:
        row = aim.furthest(rows.reproducing)
    row = same.polish(row)
    if aim.merit(row, same.weights) <= aim.resolution(len(row)) or not same.residual(row) < SAME_OUTPUT:
        reason = (
            f"to the precision of {_name(head.dtype)} other weights give the same output, but none were found that "
            f"give it to {SAME_OUTPUT:g}"
        )
        return Alternative(Level.SIMPLEX, aim.goal, aim.token, AlternativeStatus.NOT_FOUND, reason)
    return _found(Level.SIMPLEX, aim, same, row, _spread(row, head), None)


def _generatable(head: AttentionHead, aim: Aim) -> Alternative:
    level = Level.GENERATABLE

    def none(status: AlternativeStatus, reason: str) -> Alternative:
        return Alternative(level, aim.goal, aim.token, status, reason)

    same = SameOutput(head)
    polytope = RowPolytope(head)
    # Without zeros among the weights, there are other rows unless there is only one point.
    asked = aim.token is not None or polytope.is_point or bool((same.weights == 0).any())
    # What the simplex does not allow, a query does not either.
    if asked and (unique := _unique(level, aim, polytope, aim.furthest(polytope))) is not None:
        return unique
    space = QuerySpace(head)
    generation = generating_query(space, same.weights, head.dtype or torch.float64)
    if not generation.exact:
        return none(AlternativeStatus.NOT_FOUND, _not_generated(head, space, generation))
    certificate = certify(head).generatable
    if int(certificate.verdict) == Verdict.GLOBAL or space.coordinates.shape[1] == 0:
        reason = "the output fixes the weights among all that a query generates"
        return none(AlternativeStatus.UNIQUE, reason)
    if int(certificate.nullity) == 0:
        reason = (
            "no query nearby gives the same output with other weights; whether one far away does, "
            "was not searched"
        )
        return none(AlternativeStatus.NOT_FOUND, reason)
    search = search_curve(aim, same, space, generation.point, aim.furthest(polytope))
    least = max(_LEAST, 4 * search.error)
    for point in search.points:
        query = torch.as_tensor(space.query(point), device=head.weights.device)
        # What the head itself would compute from the query, not what the search did.
        weights = AttentionHead.from_query(
            query,
            head.keys,
            head.values,
            head.output_projection,
            head.visible,
            head.scaling,
            head.bias,
            head.dtype,
        ).weights
        found: NDArray[np.float64] = weights[head.mask].cpu().numpy()
        residual = same.residual(found)
        if aim.merit(found, same.weights) > least and residual < SAME_OUTPUT:
            if residual > max(_ROUNDING, (_STEEPEST * distance(found, same.weights)) ** 2):
                continue
            return _found(level, aim, same, found, weights, query)
    wanted = "moves the weights" if aim.token is None else f"gives {aim.name} {_wanted(aim)} weight"
    reason = f"of the queries with the same output that were followed, none {wanted} by more than {least:.1g}"
    return none(AlternativeStatus.NOT_FOUND, reason)


def _unique(level: Level, aim: Aim, polytope: RowPolytope, row: NDArray[np.float64]) -> Alternative | None:
    """The answer where the row that goes furthest on the simplex goes nowhere."""
    weights = polytope.weights
    if aim.merit(row, weights) > aim.resolution(len(weights)):
        return None
    if polytope.is_point:
        reason = "the output fixes the weights on the simplex"
    elif aim.token is None:
        reason = "no token can have more weight with the same output, so there are no other weights"
    else:
        own = aim.total(weights)
        reason = f"no weights with the same output give {aim.name} {_wanted(aim)} than {own:.4g}"
    return Alternative(level, aim.goal, aim.token, AlternativeStatus.UNIQUE, reason)


def _found(
    level: Level,
    aim: Aim,
    same: SameOutput,
    row: NDArray[np.float64],
    weights: Tensor,
    query: Tensor | None,
) -> Alternative:
    moved = distance(row, same.weights)
    # Where less is left out than the certificate leaves out, intervals go further.
    extreme = level == Level.SIMPLEX and aim.token is not None and same.as_certified
    if aim.token is None:
        gain = None
        reason = f"{moved:.4g} of the weight has moved, the most that was found"
    else:
        before, after = aim.total(same.weights), aim.total(row)
        gain = after - before
        bound = "the most" if aim.sign > 0 else "the least"
        which = "that is possible" if extreme else "that was found"
        change = f"{abs(gain):.2g} {_wanted(aim)} than it had"
        reason = f"{aim.name} has weight {after:.4g}, {change}, {bound} {which}"
    return Alternative(
        level=level,
        goal=aim.goal,
        token=aim.token,
        status=AlternativeStatus.FOUND,
        reason=reason,
        weights=weights,
        query=query,
        residual=same.residual(row),
        distance=moved,
        gain=gain,
        extreme=extreme,
    )


def _not_generated(head: AttentionHead, space: QuerySpace, generation: Generation) -> str:
    """Why nothing can be said of the queries of a row."""
    token = int(head.mask.nonzero()[generation.worst, 0])
    given = float(head.weights[token])
    best = float(np.exp(space.log_weights(generation.point)[generation.worst]))
    advice = "; if it is masked, say so in visible" if given == 0 else ""
    if space.coordinates.shape[1] == 0:
        advice = "; all keys are the same to that precision"
    return (
        f"no query generates the weights from these keys, bias and scaling to the precision of {_name(head.dtype)}: "
        f"token {token} has weight {given:.4g}, and {best:.4g} with the query that comes closest{advice}"
    )


def _wanted(aim: Aim) -> str:
    return "more" if aim.sign > 0 else "less"


def _name(dtype: torch.dtype | None) -> str:
    return str(dtype).removeprefix("torch.")


def _spread(row: NDArray[np.float64], head: AttentionHead) -> Float[Tensor, " n"]:
    """Weights of visible tokens at their places among all tokens."""
    spread = torch.zeros_like(head.weights)
    spread[head.mask] = torch.as_tensor(row, device=spread.device)
    return spread
