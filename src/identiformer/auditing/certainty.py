"""Whether the most attended token is certain, for whole batches: most rows need no linear program."""

from __future__ import annotations

import torch
from torch import Tensor

from identiformer.identifiability import (
    AttentionHead,
    Certificate,
    Verdict,
    tied_tokens,
    top_is_certain,
)
from identiformer.identifiability.spectrum import centre, output_scale, spectrum

_TRIED = 4  # how many of the heaviest tokens are tried as another top before a program decides


def tops_certain(heads: AttentionHead, certificate: Certificate, tolerance: float = 0.0) -> Tensor:
    """Whether all rows of weights with the same output have the same token at the top; tied tokens count as one.

    Args:
        heads: Batch dimensions `[texts, heads, rows]`.
        certificate: Theirs.
        tolerance: As `possible_tops` takes it.

    Returns:
        Boolean, `[texts, heads, rows]`.
    """
    group = tied_tokens(heads).group
    group = group.expand(*heads.batch_shape, group.shape[-1])
    weights = heads.weights
    order = weights.argsort(dim=-1, descending=True, stable=True)
    sorted_group = group.gather(-1, order)
    other = (sorted_group != sorted_group[..., :1]) & heads.mask.expand_as(weights).gather(-1, order)
    heaviest = weights.gather(-1, order[..., :1])[..., 0]
    # The heaviest token that is not tied with the top; where there is none, nothing can take its place.
    rival = order.gather(-1, other.long().argmax(dim=-1, keepdim=True))
    has_rival = other.any(dim=-1)
    rival_weight = weights.gather(-1, rival)[..., 0].masked_fill(~has_rival, -1.0)
    room = torch.clamp(heads.eps * heaviest, min=1e-9)
    uncertain = heaviest - rival_weight <= room
    if tolerance == 0:
        settled = uncertain | ~has_rival | (certificate.simplex.verdict == Verdict.GLOBAL)
    else:
        settled = uncertain | ~has_rival
    if not bool(settled.all()):
        uncertain = uncertain | (~settled & _another_top_in_reach(heads, order, other))
        settled = settled | uncertain
    certain = ~uncertain
    for index in (~settled).nonzero().tolist():
        certain[tuple(index)] = top_is_certain(heads, tuple(index), tolerance)
    return certain


def _another_top_in_reach(heads: AttentionHead, order: Tensor, other: Tensor) -> Tensor:
    r"""Whether a straight way that leaves the output as it is puts another token at the top: proof that one can.

    From $a$ along $P (e_j - e_{top})$, $P$ the projector onto $\{v : v T = 0, \sum v = 0\}$, as far as no weight
    falls below 0.

    Args:
        heads: Batch dimensions `[texts, heads, rows]`.
        order: Tokens by falling weight, `[texts, heads, rows, n]`.
        other: Which of them, in that order, are not tied with the first.

    Returns:
        Boolean, `[texts, heads, rows]`.
    """
    left = spectrum(centre(heads.reduced, heads.mask), output_scale(heads).cutoff).left
    mask = heads.mask.expand_as(heads.weights)
    count = mask.sum(dim=-1, keepdim=True)
    top = order[..., :1]
    found = torch.zeros(heads.batch_shape, dtype=torch.bool, device=top.device)
    rank = torch.cumsum(other.long(), dim=-1)
    for number in range(1, _TRIED + 1):
        exists = (rank == number).any(dim=-1)
        rival = order.gather(-1, (rank >= number).long().argmax(dim=-1, keepdim=True))
        way = torch.zeros_like(heads.weights).scatter(-1, rival, 1.0).scatter(-1, top, -1.0)
        way = way - (left @ (left.mT @ way[..., None]))[..., 0]
        way = (way - way.sum(dim=-1, keepdim=True) / count).masked_fill(~mask, 0.0)
        falling = way < 0
        steps = torch.where(falling, heads.weights / -way.where(falling, -1.0), torch.inf)
        reached = heads.weights + steps.amin(dim=-1, keepdim=True).clamp(max=1e6) * way
        found |= exists & (reached.gather(-1, rival) > reached.gather(-1, top))[..., 0]
    return found
