"""Tokens that no attention can tell apart."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from identiformer.identifiability.head import AttentionHead
from identiformer.identifiability.linalg import broadcast, lengths
from identiformer.identifiability.tolerance import ROUNDING

# After sorting, each token is compared with this many successors.
_WINDOW = 4


class TiedTokens(NamedTuple):
    """Which tokens are tied.

    - `number`: `[*batch]`, how many visible tokens share key and value with another.
    - `group`: `[*batch, n]`, for each visible token the first token that it is tied to (itself, if that is
      the first or if there is none); -1 for tokens that are not visible.
    """

    number: Int[Tensor, "*#batch"]
    group: Int[Tensor, "*#batch n"]


def tied_tokens(head: AttentionHead) -> TiedTokens:
    r"""The visible tokens that share key and value with another, as a repeated word does without positions.

    A softmax gives them the same weight (up to the bias), but on the simplex only the total of a group is
    fixed: $v = e_i - e_j$ sums to 0 and $v T = 0$.

    Two vectors are the same if they differ by no more than $4 \varepsilon$ of their length, $\varepsilon$
    being that of the model's dtype: the room that the same arithmetic needs in another place of a batch.

    **Returns:** [`TiedTokens`][]; its batch is that of keys, values and visibility, without broadcasting to
    rows.
    """
    by_key = equal_tokens((head.keys,), head.mask, head.eps)
    if not bool((by_key.number > 0).any()):
        # Nothing ties by key and value that does not by key; only the batch may be larger.
        shape = broadcast(by_key.number.shape, head.values.shape[:-2])
        return TiedTokens(by_key.number.expand(shape), by_key.group.expand(*shape, -1))
    return equal_tokens((head.keys, head.values), head.mask, head.eps)


def equal_tokens(
    features: tuple[Float[Tensor, "*#batch n _"], ...], mask: Bool[Tensor, "*#batch n"], eps: float
) -> TiedTokens:
    """[`tied_tokens`][] for tokens described by any features, all of which must be the same.

    Tokens are sorted along one generic direction, in which equal tokens become neighbours. Of neighbours that
    are close in that direction, whole vectors are compared: about n log n work rather than n².
    """
    shape = broadcast(mask.shape, *(feature.shape[:-1] for feature in features))
    tokens = shape[-1]
    mask = mask.expand(shape)
    position = torch.zeros(shape, dtype=torch.float64, device=mask.device)
    reach = 0.0
    for feature in features:
        size = feature.shape[-1]
        longest = lengths(feature).amax(dim=-1, keepdim=True)
        # Any direction will do that no difference between tokens is orthogonal to; this one is irrational.
        steps = torch.arange(1, size + 1, dtype=torch.float64, device=feature.device)
        direction = torch.cos(math.sqrt(2) * steps * steps + math.sqrt(3))
        position = position + feature @ direction / longest.where(longest > 0, 1.0)
        # Relative to the longest, the same vectors are this close; and rounding adds what it adds.
        reach += (4 * eps + ROUNDING + size * torch.finfo(torch.float64).eps) * math.sqrt(size)
    # Invisible tokens go to the end, where the mask keeps them from tying.
    position, order = position.masked_fill(~mask, torch.inf).sort(dim=-1, stable=True)
    seen = mask.gather(-1, order)
    near = (position.diff(dim=-1) <= reach) & seen[..., 1:]
    if not bool(near.any()):
        alone = torch.arange(tokens, device=mask.device).expand(shape).masked_fill(~mask, -1)
        return TiedTokens(torch.zeros(shape[:-1], dtype=torch.int64, device=mask.device), alone)
    parent = torch.arange(tokens, device=mask.device).repeat(*shape[:-1], 1)
    for offset in range(min(_WINDOW, tokens - 1), 0, -1):
        close = position[..., offset:] - position[..., :-offset] <= reach
        pairs = (close & seen[..., offset:]).nonzero(as_tuple=True)
        batch = pairs[:-1]
        left, right = order[..., :-offset][pairs], order[..., offset:][pairs]
        same = torch.ones_like(left, dtype=torch.bool)
        for feature in features:
            whole = feature.expand(*shape, feature.shape[-1])
            one, other = whole[(*batch, left)], whole[(*batch, right)]
            same &= lengths(one - other) <= 4 * eps * torch.maximum(lengths(one), lengths(other))
        later = parent[..., offset:]
        later[pairs] = torch.where(same, pairs[-1], later[pairs])
    # Follow the links to the head of each chain; every step doubles the distance covered.
    for _ in range(max(tokens - 1, 1).bit_length()):
        parent = parent.gather(-1, parent)
    first = torch.full(shape, tokens, device=mask.device).scatter_reduce(-1, parent, order, reduce="amin")
    group = torch.empty_like(order).scatter(-1, order, first.gather(-1, parent)).masked_fill(~mask, -1)
    members = torch.zeros_like(group).scatter_add(-1, group.clamp(min=0), mask.to(group.dtype))
    shared = mask & (members.gather(-1, group.clamp(min=0)) > 1)
    return TiedTokens(shared.sum(dim=-1), group)
