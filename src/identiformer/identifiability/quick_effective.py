"""The quick path: effective attention where the column space of T has a proven basis."""

from __future__ import annotations

from jaxtyping import Bool, Float
from torch import Tensor

from identiformer.identifiability.gram import UNIT
from identiformer.identifiability.head import AttentionHead
from identiformer.identifiability.layout import Layout
from identiformer.identifiability.linalg import cholesky, solve_factored
from identiformer.identifiability.quick import AMPLE, space_grams


def quick_effective(
    head: AttentionHead, layout: Layout, keep_sum: bool
) -> tuple[Float[Tensor, "H R n"], Bool[Tensor, " H"]]:
    r"""$a \Pi$ by $W (W^\top W)^{-1} W^\top a$, and for which heads that is beyond doubt.

    With $W^\top W$ off by $E$, the result is off by $\|a\| \|E\| / \lambda_{\min}$ at most: below 4e-9 where the least
    eigenvalue is `AMPLE`. Elsewhere the part of $a$ that is left, $a - a \Pi$, is projected again, which squares that
    share, to below 1e-10. A head with as many independent rows in $T$ as it has tokens keeps its weights as they are.
    """
    grams, spread = space_grams(head), layout.by_head
    weights = layout.by_row(head.weights, 1)
    found = grams.unscaled
    level = found.findings.simplex if keep_sum else found.findings.free
    linear = spread(found.linear)
    # Every direction has a singular value: the column space is that of all visible tokens.
    everything = linear & (spread(level.nullity) == 0)
    rank = level.dimension - level.nullity
    basis = linear & ~everything & spread(rank == grams.columns)
    if grams.columns > grams.length or not bool(basis.any()):
        return weights, everything
    of, floor = (grams.inside, grams.floor) if keep_sum else (grams.whole, grams.whole_floor)
    # The mean is off by as much as its rounding, and the centred columns are no more orthogonal to ones.
    ones = (1e8 * grams.length * UNIT) ** 2 * grams.mass if keep_sum else 0.0
    basis = basis & spread((floor > 0) & (floor > ones))
    index = basis.nonzero()[:, 0]
    if len(index) == 0:
        return weights, everything

    def pick(tensor: Tensor, own: int = 0) -> Tensor:
        flat = spread(tensor, own)
        return flat if len(index) == len(flat) else flat[index]

    matrix = pick(grams.centred if keep_sum else grams.reduced, 2)
    factor, _ = cholesky(pick(of.matrix, 2))
    part = weights if len(index) == len(weights) else weights[index]

    def project(rows: Float[Tensor, "k R n"]) -> Float[Tensor, "k R n"]:
        return solve_factored(factor, (rows @ matrix).mT).mT @ matrix.mT

    effective = project(part)
    if bool((pick(floor) < AMPLE * pick(of.room)).any()):
        effective = effective + project(part - effective)
    if keep_sum:
        # The ones vector is orthogonal to the centred columns: its share is the mean.
        effective = effective + part.sum(dim=-1, keepdim=True) / pick(grams.tokens)[:, None, None]
    if len(index) == len(weights):
        return effective, basis
    return weights.index_put((index,), effective), everything | basis
