"""Whether the most attended token is certain, by linear programs of many rows of a head at once.

Rows of a head that see the same tokens have the same constraints but for the right side, so that the steps of their
programs are taken together; and what proves a bound for one row proves one for all others. Of the pairs of a row and
a token that could be at its top, all but one or two in a hundred are settled by proofs that other rows needed anyway.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from identiformer.identifiability.asked import equal_up_to
from identiformer.identifiability.minima import MinimaOfRows, minima_of_rows
from identiformer.identifiability.pieces import at_once, in_parts
from identiformer.identifiability.polytope import RowPolytope

# How many tokens of a row are tried at once, at first; then twice as many, and so on.
_FIRST = 1
# A program's row, its proof, what they start from.
_NUMBERS_A_TOKEN = 4


class Certainty(NamedTuple):
    """`certain`: `[*rows]`, whether a row's top is, and `settled`, `[*rows]`: where that is beyond doubt."""

    certain: Bool[Tensor, "*rows"]
    settled: Bool[Tensor, "*rows"]


def tops_of_rows(
    polytope: RowPolytope, weights: Float[Tensor, "r n"], group: Int[Tensor, "r n"], eps: float
) -> Certainty:
    """[`top_is_certain`][] of rows of one head, for outputs that do not move.

    A row stays open where that takes a program which pits a token against all others.

    **Arguments:**

    - `polytope`: of one of the rows.
    - `weights`: `[r, n]`, those of the visible tokens, in memory of the CPU.
    - `group`: `[r, n]`, which tokens are tied: those with the same number.
    - `eps`: of the model's dtype.
    """
    room = equal_up_to(weights.amax(dim=-1), eps)
    top = weights.argmax(dim=-1)
    rivals = group != group.gather(-1, top[:, None])
    uncertain = _seen_on_top(weights, rivals, room)
    if polytope.is_point:
        return Certainty(~uncertain, torch.ones_like(uncertain))
    unit = torch.eye(weights.shape[-1], dtype=weights.dtype)
    least = minima_of_rows(polytope, weights, unit[top])
    uncertain |= least.settled & _seen_on_top(least.rows, rivals, room)
    # What one has, no other has: nobody but who can have this much comes to the top.
    wanted = least.bounds - room
    reachable = weights.sum(dim=-1) - least.bounds >= wanted
    open_pairs = rivals & (least.settled & reachable & ~uncertain)[:, None]
    doubtful = torch.zeros_like(rivals)
    at_most, more = _bounds_from_the_mean(polytope, weights, open_pairs), _FIRST
    while True:
        open_pairs &= (at_most >= wanted[:, None]) & ~uncertain[:, None]
        if not bool(open_pairs.any()):
            break
        row, token = _heaviest(weights, open_pairs, more)
        most = minima_of_rows(polytope, weights[row], -unit[token])
        uncertain[row[most.settled & _seen_on_top(most.rows, rivals[row], room[row])]] = True
        doubtful[row, token] = ~most.settled | (-most.bounds >= wanted[row])
        open_pairs[row, token] = False
        _lower(at_most, token, most, weights)
        more *= 2
    # Those who can have that much, but perhaps only when the top has more: it alone against each of them.
    doubted = ~least.settled
    pairs = (doubtful & ~uncertain[:, None]).nonzero(as_tuple=True)
    for row, token in in_parts(pairs, _NUMBERS_A_TOKEN * weights.shape[-1]):
        ahead = minima_of_rows(polytope, weights[row], unit[top[row]] - unit[token])
        uncertain[row[ahead.settled & _seen_on_top(ahead.rows, rivals[row], room[row])]] = True
        doubted[row[~ahead.settled | (ahead.bounds <= room[row])]] = True
    return Certainty(~uncertain, uncertain | ~doubted)


def _bounds_from_the_mean(
    polytope: RowPolytope, weights: Float[Tensor, "r n"], pairs: Bool[Tensor, "r n"]
) -> Float[Tensor, "r n"]:
    """What each token has at most in any row with the output of each, from programs about one row, the mean."""
    at_most = torch.full_like(weights, torch.inf)
    token = pairs.any(dim=0).nonzero()[:, 0]
    if len(token):
        mean = weights[pairs.any(dim=-1)].mean(dim=0)
        unit = torch.eye(weights.shape[-1], dtype=weights.dtype)
        most = minima_of_rows(polytope, mean.expand(len(token), -1), -unit[token])
        _lower(at_most, token, most, weights)
    return at_most


def _lower(
    at_most: Float[Tensor, "r n"],
    token: Int[Tensor, " g"],
    most: MinimaOfRows,
    weights: Float[Tensor, "r n"],
) -> None:
    """Make use of what has been proved of some tokens, for every row."""
    proved = most.rounding - weights @ most.proofs.mT  # [r, g]
    at_most.scatter_reduce_(1, token.expand(len(weights), -1), proved.nan_to_num(torch.inf), reduce="amin")


def _heaviest(
    weights: Float[Tensor, "r n"], pairs: Bool[Tensor, "r n"], number: int
) -> tuple[Int[Tensor, " g"], Int[Tensor, " g"]]:
    """Pairs of a row and a token, up to `number` of a row, its heaviest ones."""
    number = min(number, weights.shape[-1], at_once(_NUMBERS_A_TOKEN * weights.numel()))
    heaviest = weights.masked_fill(~pairs, -1.0).topk(number, dim=-1)
    row, place = (heaviest.values >= 0).nonzero(as_tuple=True)
    return row, heaviest.indices[row, place]


def _seen_on_top(
    rows: Float[Tensor, "g n"], rivals: Bool[Tensor, "g n"], room: Float[Tensor, " g"]
) -> Bool[Tensor, " g"]:
    """Whether one of `rivals` has the greatest weight of a row, or as good as that."""
    greatest = rows.masked_fill(~rivals, -torch.inf).amax(dim=-1)
    return greatest >= rows.amax(dim=-1) - room
