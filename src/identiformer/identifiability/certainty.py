"""Whether the most attended token is certain, for whole batches: most rows need no linear program."""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from identiformer.identifiability.asked import equal_up_to
from identiformer.identifiability.certificate import Certificate, Verdict
from identiformer.identifiability.head import AttentionHead
from identiformer.identifiability.layout import Layout
from identiformer.identifiability.polytope import RowPolytope
from identiformer.identifiability.spectrum import centre, output_scale, spectrum
from identiformer.identifiability.ties import tied_tokens
from identiformer.identifiability.tops import top_is_certain
from identiformer.identifiability.tops_of_rows import Certainty, tops_of_rows

# How many of the heaviest tokens are tried as another top before a program decides.
_TRIED = 4
# Numbers that the projectors of one text may have.
_MOST_NUMBERS = 2**26
# What the arithmetic of the bounds may lose, generously.
_ROUNDING = 1e-9
_LEAST_ROOM = 1e-3


def tops_certain(
    head: AttentionHead, certificate: Certificate, tolerance: float = 0.0
) -> Bool[Tensor, "*batch"]:
    r"""[`top_is_certain`][] of every row of a batch.

    Three things settle most rows without a linear program:

    - a certificate: where the simplex is identifiable, the row's own top is certain unless it is shared;
    - a row with the same output that has another token at the top: from $a$ along $\Pi^\perp (e_j - e_t)$,
      $\Pi^\perp$ the projector onto $\{v : v T = 0, \sum v = 0\}$, as far as no weight falls below 0;
    - a bound by duality: with $\Pi$ the projector onto the column space of $[T\ 1]$ and
      $m = \max_{k \ne t} \Pi_{kt}$, the vector $u = (\Pi e_t - m 1) / (\Pi_{tt} - m)$ lies in that space and
      $u \le e_t$, so that every row $b$ with the same output has

      $$b_t \ge b u = a u = \frac{(a \Pi)_t - m}{\Pi_{tt} - m}.$$

      With the least $\Pi_{kj}$ for $m$ in place of the greatest, $u \ge e_j$, and the same quotient bounds $b_j$ from
      above. Where $b_t$ is always more than any other can be, no other token comes to the top.

    **Arguments:**

    - `head`: of any batch shape.
    - `certificate`: what [`certify`][] said of it.
    - `tolerance`: that of [`top_is_certain`][].

    **Returns:** `[*batch]`.
    """
    batch = head.batch_shape
    group = tied_tokens(head).group.expand(*batch, head.weights.shape[-1])
    order = head.weights.argsort(dim=-1, descending=True, stable=True)
    tied = group == group.gather(-1, order[..., :1])
    rivals = (~tied & head.mask).gather(-1, order)
    heaviest = head.weights.gather(-1, order[..., :1])[..., 0]
    heaviest_rival = head.weights.gather(-1, order).masked_fill(~rivals, -1.0).amax(dim=-1)
    uncertain = heaviest - heaviest_rival <= equal_up_to(heaviest, head.eps)
    settled = uncertain | ~rivals.any(dim=-1)
    if tolerance == 0:
        settled = settled | (certificate.simplex.verdict == Verdict.GLOBAL)
    if not bool(settled.all()):
        left = spectrum(centre(head.reduced, head.mask), output_scale(head).cutoff).left
        uncertain = uncertain | (~settled & _another_top_in_reach(head, left, order, rivals, tied))
        settled = settled | uncertain
        if tolerance == 0:
            always = _always(head, left, order[..., :1])
            # What one has, no other has.
            settled = settled | (always > 0.5 + _ROUNDING)
            if not bool(settled.all()):
                rest = _at_most(head, left).masked_fill(tied | ~head.mask, -torch.inf).amax(dim=-1)
                settled = settled | (always > rest + _ROUNDING)
    certain = ~uncertain
    if tolerance == 0 and not bool(settled.all()):
        certain, settled = _by_programs(head, group, certain, settled)
    # Few are left, or outputs that may move, each by a share of its own length.
    for place in (~settled).nonzero():
        index = tuple(int(i) for i in place)
        certain[index] = top_is_certain(head, index, tolerance)
    return certain


def _by_programs(
    head: AttentionHead,
    group: Int[Tensor, "*batch n"],
    certain: Bool[Tensor, "*batch"],
    settled: Bool[Tensor, "*batch"],
) -> Certainty:
    """What is certain and what is settled, after programs of all rows of a head that are not."""
    layout = Layout.of(head)
    certain, settled = layout.by_row(certain).clone(), layout.by_row(settled).clone()
    of_rows = [layout.by_row(tensor, 1) for tensor in (head.weights, group)]
    for number, rows in enumerate(~settled):
        row = rows.nonzero()[:, 0]
        if not len(row):
            continue
        any_row = np.unravel_index(number * len(rows) + int(row[0]), head.batch_shape)
        polytope = RowPolytope(head[tuple(int(place) for place in any_row)])
        visible = torch.as_tensor(polytope.visible, device=group.device)
        weights, tied = (tensor[number, row][:, visible].cpu() for tensor in of_rows)
        found = tops_of_rows(polytope, weights, tied, head.eps)
        certain[number, row], settled[number, row] = (answer.to(certain.device) for answer in found)
    return Certainty(layout.batch(certain), layout.batch(settled))


def _another_top_in_reach(
    head: AttentionHead,
    left: Float[Tensor, "*#batch n m"],
    order: Int[Tensor, "*batch n"],
    rivals: Bool[Tensor, "*batch n"],
    tied: Bool[Tensor, "*batch n"],
) -> Bool[Tensor, "*batch"]:
    r"""Whether going straight towards one of the heaviest rivals puts it at the top.

    **Arguments:** `left`: an orthonormal basis of the column space of the centred $T$; `order`: tokens by falling
    weight; `rivals`: which of them, in that order, are not tied with the first; `tied`: which tokens are.
    """
    mask = head.mask.expand_as(head.weights)
    count = mask.sum(dim=-1, keepdim=True)
    top = order[..., :1]
    rank = rivals.long().cumsum(dim=-1)
    found = torch.zeros(head.batch_shape, dtype=torch.bool, device=top.device)
    for number in range(1, _TRIED + 1):
        rival = order.gather(-1, (rank >= number).long().argmax(dim=-1, keepdim=True))
        way = torch.zeros_like(head.weights).scatter(-1, rival, 1.0).scatter(-1, top, -1.0)
        way = way - (left @ (left.mT @ way[..., None]))[..., 0]
        way = (way - way.sum(dim=-1, keepdim=True) / count).masked_fill(~mask, 0.0)
        falling = way < 0
        steps = torch.where(falling, head.weights / -way.where(falling, -1.0), torch.inf)
        # Where nothing falls the way is 0, but for rounding that must not be made large.
        reached = head.weights + steps.amin(dim=-1, keepdim=True).clamp(max=1e6) * way
        best_tied = reached.masked_fill(~tied, -torch.inf).amax(dim=-1)
        found |= (reached.gather(-1, rival)[..., 0] > best_tied) & (rank[..., -1] >= number)
    return found


def _always(
    head: AttentionHead, left: Float[Tensor, "*#batch n m"], top: Int[Tensor, "*batch 1"]
) -> Float[Tensor, "*batch"]:
    """What the token `top` has at least in every row with the same output; minus infinity where nothing is known."""
    mask = head.mask.expand_as(head.weights)
    whole = left.expand(*head.batch_shape, *left.shape[-2:])
    own = whole.gather(-2, top[..., None].expand(*top.shape, left.shape[-1]))[..., 0, :]
    column = (left @ own[..., None])[..., 0] + 1 / mask.sum(dim=-1, keepdim=True)
    diagonal = column.gather(-1, top)[..., 0]
    others = column.scatter(-1, top, -torch.inf).masked_fill(~mask, -torch.inf).amax(dim=-1)
    room = diagonal - others
    # Against a small difference, rounding would count; tied tokens have none.
    known = room > _LEAST_ROOM
    bound = ((head.weights * column).sum(dim=-1) - others * head.weights.sum(dim=-1)) / room.where(known, 1.0)
    return torch.where(known, bound, -torch.inf)


def _at_most(head: AttentionHead, left: Float[Tensor, "*#batch n m"]) -> Float[Tensor, "*batch n"]:
    """What each token has at most in any row with the same output; infinity where nothing is known."""
    batch, tokens = head.batch_shape, head.weights.shape[-1]
    result = torch.full((*batch, tokens), torch.inf, dtype=torch.float64, device=left.device)
    if not batch or left[0].numel() // left.shape[-1] * tokens > _MOST_NUMBERS:
        return result
    left = left.expand(batch[0], *left.shape[1:])
    mask = head.mask.expand(*([1] * (len(batch) + 1 - head.mask.ndim)), *head.mask.shape)
    mask = mask.expand(batch[0], *mask.shape[1:])
    for number in range(batch[0]):
        seen = mask[number]
        projector = left[number] @ left[number].mT + 1 / seen.sum(dim=-1)[..., None, None]
        diagonal = projector.diagonal(dim1=-2, dim2=-1)
        others = projector.masked_fill(~seen[..., :, None], torch.inf)
        others = others.masked_fill(torch.eye(tokens, dtype=torch.bool, device=left.device), torch.inf)
        least = others.amin(dim=-2)
        room = diagonal - least
        weights = head.weights[number]
        inside = (weights[..., None, :] @ projector)[..., 0, :]
        known = (room > _LEAST_ROOM) & least.isfinite()
        bound = (inside - least.where(known, 0.0) * weights.sum(dim=-1, keepdim=True)) / room.where(
            known, 1.0
        )
        result[number] = torch.where(known, bound, torch.inf)
    return result
