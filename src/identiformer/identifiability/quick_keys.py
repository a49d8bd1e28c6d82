"""The quick path: what Gram matrices settle about the keys of a head."""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from identiformer.identifiability.gram import UNIT, Gram, exceeds, gram
from identiformer.identifiability.head import AttentionHead
from identiformer.identifiability.linalg import (
    cholesky,
    eigenvalues,
    lengths,
    solve_factored,
    solve_lower,
    square_norm,
)
from identiformer.identifiability.quick import ENOUGH, centred_at
from identiformer.identifiability.ties import equal_tokens
from identiformer.identifiability.tolerance import ROUNDING, resolution


class QuickKeys(NamedTuple):
    r"""The keys of a head.

    - `spanning`: `[*batch]`: their differences have the greatest rank that there can be, one less than there are
      tokens. A query can then move the weights in every direction of the simplex.
    - `full`: `[*batch]`: their differences have as many dimensions as they have columns.
    - `tied`: `[*batch]`: some visible tokens have equal keys.
    - `coordinates`: `[*batch, d_k, n]`, where `full`: $X^\top = L^{-1} (K - 1 \bar k)^\top$ with
      $L L^\top = (K - 1 \bar k)^\top (K - 1 \bar k)$: the keys in coordinates that are orthonormal over the
      tokens and sum to zero. Tokens whose keys are equal have the same ones. `None` where no head needs them.
    - `noise`: `[*batch]`: no token's coordinates are off by more, as vectors: $\gamma_p \|L^{-1}\|_F \max_j \|K_j\|$.
    """

    spanning: Bool[Tensor, "*batch"]
    full: Bool[Tensor, "*batch"]
    tied: Bool[Tensor, "*batch"]
    coordinates: Float[Tensor, "*batch d_k n"] | None
    noise: Float[Tensor, "*batch"]


def quick_keys(head: AttentionHead) -> QuickKeys:
    """What Gram matrices settle about the rank of the keys of a head; neither `spanning` nor `full` if nothing."""
    mask = head.mask
    padded = not bool(mask.all())
    keys = head.keys.masked_fill(~mask[..., None], 0.0) if padded else head.keys
    length, width = keys.shape[-2:]
    _, centred = centred_at(keys, head)
    of = gram(centred)
    mass = square_norm(keys)
    of = of._replace(room=of.room + (2 * length * UNIT) ** 2 * mass)
    # At least what `key_space` allows for: the Frobenius norm for the greatest singular value.
    relative = resolution(head.tokens, torch.full_like(head.tokens, width), head.eps).clamp(min=ROUNDING)
    cutoff = relative * mass.sqrt()
    needed = torch.maximum(cutoff.square(), ENOUGH * of.room)
    spare = head.tokens - 1 - width
    if bool((spare >= 0).all()):
        proven = exceeds(of, 1.01 * needed)
    elif length <= width:
        # What has to be singular is filled up: the ones vector, and tokens that are not visible.
        filled = of.matrix + (of.mass / head.tokens)[..., None, None]
        if padded:
            seen = mask[..., :, None] & mask[..., None, :]
            hidden = torch.diag_embed((~mask).to(keys.dtype)) * of.mass[..., None, None]
            filled = filled.where(seen, hidden)
        filled = of._replace(matrix=filled, mass=(length + 1) * of.mass)
        proven = exceeds(filled, 1.01 * needed + 2 * length * of.room)
    else:
        squares = eigenvalues(of.matrix)
        rank = (head.tokens - 1).clamp(max=width)
        first = (of.size - rank).clamp(max=of.size - 1).expand(needed.shape)
        proven = squares.gather(-1, first[..., None])[..., 0] > 1.01 * needed + of.room
    proven = proven | (head.tokens == 1)
    tied = equal_tokens((head.keys,), mask, head.eps)
    # Keys that count as equal may have a rank all the same; rows find out for themselves, with equal coordinates.
    spanning, full = proven & (spare <= 0) & (tied.number == 0), proven & (spare >= 0)
    if not bool((full & ~spanning).any()):
        return QuickKeys(spanning, full, tied.number > 0, None, torch.zeros_like(mass))
    factor = of.matrix
    if not bool(full.all()):
        factor = factor.where(full[..., None, None], torch.eye(width).to(factor))
    factor, _ = cholesky(factor)
    inverse = solve_lower(factor, torch.eye(width).to(factor).expand_as(factor))
    noise = 2 * (width + 4) * UNIT * square_norm(inverse).sqrt() * lengths(centred).amax(dim=-1)
    coordinates = inverse @ centred.mT
    if bool((tied.number > 0).any()):
        group = tied.group.clamp(min=0)[..., None, :].expand_as(coordinates)
        coordinates = coordinates.gather(-1, group) * mask[..., None, :]
        _, again = centred_at(coordinates.mT, head)
        coordinates = again.mT.contiguous()
    return QuickKeys(spanning, full, tied.number > 0, coordinates, noise)


def quick_carried(
    columns: Float[Tensor, "k p n"],
    centred: Float[Tensor, "k n r"],
    inside: Gram,
    floor: Float[Tensor, " k"],
    mask: Bool[Tensor, "k n"],
    eps: float,
) -> tuple[Bool[Tensor, " k"], Bool[Tensor, " k"]]:
    r"""Whether the columns of $K$ lie in the column space of $[T\ 1]$, and whether that is beyond doubt.

    The exact path compares, for each principal direction of the keys, the part outside of that space with a tolerance
    between $\max(n, d_k) \varepsilon$ and $\max(\sqrt\varepsilon, 10^{-8})$. The sum of squares of these parts is
    that of the columns of $E = (I - \Pi) X$ in any orthonormal basis. So the keys are carried if $\|E\|_F$ is below
    the least tolerance, and are not if it is above the root of the sum of squares of the greatest.

    $\|E\|_F^2 = \|X\|_F^2 - \|L^{-1} W^\top X\|_F^2$ tells most; where it nearly cancels, $E$ itself is formed.

    **Arguments:** those of [`QuickKeys`][] and [`HeadGrams`][].
    """
    width, length = columns.shape[-2:]
    tokens = mask.sum(dim=-1)
    usable = floor > 0
    factor, _ = cholesky(inside.matrix)
    if not bool(usable.all()):
        factor = factor.where(usable[:, None, None], torch.eye(inside.size).to(factor))
    seen = (columns @ centred).mT
    whole = square_norm(columns)
    outside = whole - square_norm(solve_lower(factor, seen))
    doubt = whole * (2 * inside.room / floor.where(usable, torch.inf) + 8 * length * UNIT)
    elsewhere = outside - doubt > 1.01 * width * max(eps, 1e-16)
    known, carried = usable & elsewhere, torch.zeros_like(usable)
    again = usable & ~elsewhere
    if bool(again.any()):
        solution = solve_factored(factor[again], seen[again])
        rest = square_norm(columns[again] - (centred[again] @ solution).mT).sqrt()
        terms = square_norm(solution).sqrt() * inside.mass[again].sqrt() + whole[again].sqrt()
        tolerance = resolution(tokens, torch.ones_like(tokens), eps).clamp(max=eps**0.5)[again]
        carried[again] = rest + (inside.size + 4) * UNIT * terms < 0.99 * tolerance
        known = known | carried
    return carried, known
