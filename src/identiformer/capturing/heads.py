"""From a call of attention, and the linear layer that received its output, to heads that are verified."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from identiformer.capturing.call import AttentionCall, RelativeKeys
from identiformer.capturing.projection import Projection
from identiformer.capturing.rounding import epsilon
from identiformer.capturing.visibility import Visibility, rows_of
from identiformer.identifiability import AttentionHead, Level

_CAPPED = (
    "logits are soft-capped, and no linear function of the query: nothing is said at the level generatable"
)
_SUNK = "the last token is an attention sink: a logit beside those of the tokens, with key and value 0"


@dataclass(frozen=True, eq=False)
class Verified:
    """The heads of a call that are what the model computed, and why the others are not given.

    Args:
        heads: Batch dimensions `[texts, heads, rows]`; `None` where there is none.
        numbers: The number of each of them.
        refused: Of each other one that was wanted, its number and why.
        levels: The levels at which certificates hold.
        note: What is unusual, in one line.
    """

    heads: AttentionHead | None
    numbers: tuple[int, ...]
    refused: dict[int, str]
    levels: tuple[Level, ...]
    note: str


def verified_heads(
    call: AttentionCall, seen: Visibility, rows: Tensor, projection: Projection, wanted: Sequence[int]
) -> Verified:
    r"""The heads of some rows of a call.

    Weights are computed from queries and keys in float64, and not taken from the model: fast implementations never
    form them, and low precision loses small ones. So they are checked: with them, a head's values must mix to
    what the model's attention gave.

    *Soft-capped logits.* With $z = c \tanh(s K q / c)$ a row is still a softmax, its weights sum to 1, and what `free`
    and `simplex` ask is the same as ever. But the rows of other queries are no $\mathrm{softmax}(b + K \theta)$: the
    set of `generatable` is another one, and certificates, alternatives and recovery at that level would be wrong.
    Levels leave it out.

    *Relative keys.* In DeBERTa a row adds to its keys vectors chosen by the distance to the token, so that its logits
    are $s q^\top (k_j + r_{\delta(i, j)})$ and a bias. They are linear in the query as ever: each row has keys of its
    own.

    *Sinks.* A head with a sink $s_h$ has the weights $\exp(z_j) / (\sum_i \exp(z_i) + \exp(s_h))$, whose sum is
    below 1. Those are the weights of the tokens out of $\mathrm{softmax}(b + K q)$ with one token more, whose key
    is 0, whose bias is $s_h$ and whose value is 0. So it is given as a token, and every level is what it says: at
    `generatable` the query moves all logits but the sink's; at `simplex` the tokens' weights have any sum up to 1.

    Args:
        call: Tensors `[texts, heads, ...]`, as the model had them.
        seen: What its rows see.
        rows: Positions of the rows, `[texts, R]`, each of them that of a row.
        projection: What the linear layer showed; with a reason in place of it where there is none.
        wanted: Numbers of heads.
    """
    levels, notes = tuple(Level), []
    if call.softcap is not None:
        levels, notes = tuple(level for level in Level if level != Level.GENERATABLE), [_CAPPED]
    if call.sinks is not None:
        notes.append(_SUNK)
    note = "; ".join(notes)
    if projection.matrix is None:
        return Verified(None, (), dict.fromkeys(wanted, projection.reason), levels, note)

    parts = _Parts.of(call, seen.at(rows), rows)
    wrong = _differing(parts, rows_of(call.mixed.transpose(1, 2), rows))
    refused = {
        number: "the model's attention gave another output than softmax(scaling · q Kᵀ + bias) V: its weights are of "
        "another form"
        for number in wanted
        if wrong[number]
    }
    kept = [number for number in wanted if not wrong[number]]
    if not kept:
        return Verified(None, (), refused, levels, note)
    return Verified(parts.heads(kept, projection.matrix), tuple(kept), refused, levels, note)


@dataclass(frozen=True, eq=False)
class _Parts:
    """What heads are made of; each tensor begins with `[texts, heads, ...]`, either of them 1 where it is shared."""

    weights: Tensor  # [texts, heads, R, n]
    keys: Tensor  # [texts, heads, 1, n, d_k], or [texts, heads, R, n, d_k] where each row has its own
    values: Tensor  # [texts, heads, n, d_v]
    visible: Tensor  # [texts, 1 or heads, 1 or R, n]
    bias: Tensor | None
    scaling: float
    dtype: torch.dtype
    logits: Tensor  # the greatest absolute logit of each row, [texts, heads, R]

    @classmethod
    def of(cls, call: AttentionCall, seen: Visibility, rows: Tensor) -> _Parts:
        count = call.query.shape[1]
        query = rows_of(call.query, rows).double()
        # Heads that share keys and values have a copy each: no tensor can repeat one in the middle of a dimension.
        keys, values = (_by_head(tensor, count).double() for tensor in (call.key, call.value))
        visible, bias = seen.visible, seen.bias
        logits = call.scaling * (query @ keys.mT)
        keys = keys[:, :, None]
        for relative in call.relative:
            moved = _relative_keys(relative, rows) * (relative.factor / call.scaling)
            logits = logits + call.scaling * (moved @ query[..., None])[..., 0]
            keys = keys + moved
        if call.softcap is not None:
            logits = call.softcap * torch.tanh(logits / call.softcap)
        if call.sinks is not None:
            # The sink as one token more, [..., n] -> [..., n + 1].
            keys, values = (torch.nn.functional.pad(tensor, (0, 0, 0, 1)) for tensor in (keys, values))
            logits = torch.nn.functional.pad(logits, (0, 1))
            visible = torch.nn.functional.pad(visible, (0, 1), value=True)
            sink = torch.nn.functional.pad(call.sinks.double()[:, None], (call.key.shape[2], 0))
            sink = sink[None, :, None]  # [1, heads, 1, n + 1]
            bias = sink if bias is None else torch.nn.functional.pad(bias, (0, 1)) + sink
        if bias is not None:
            logits = logits + bias
        logits = logits.masked_fill(~visible, -torch.inf)
        return cls(
            weights=logits.softmax(dim=-1),
            keys=keys,
            values=values,
            visible=visible,
            bias=bias,
            scaling=call.scaling,
            dtype=call.query.dtype,
            logits=logits.masked_fill(~visible, 0.0).abs().amax(dim=-1),
        )

    def heads(self, numbers: Sequence[int], projection: Tensor) -> AttentionHead:
        """Some of the heads; `projection` `[heads or 1, d_v, d_e]`."""

        def pick(tensor: Tensor) -> Tensor:
            return tensor if tensor.shape[1] in (1, len(numbers)) else tensor[:, list(numbers)]

        return AttentionHead(
            weights=pick(self.weights),
            keys=pick(self.keys),
            values=pick(self.values)[:, :, None],
            output_projection=pick(projection[None])[:, :, None],
            visible=pick(self.visible),
            bias=None if self.bias is None else pick(self.bias),
            scaling=self.scaling,
            dtype=self.dtype,
        )


def _differing(parts: _Parts, mixed: Tensor) -> list[bool]:
    """For each head, whether its weights mix its values to something else than `mixed` `[texts, heads, R, d_v]`.

    Rounding moves a logit by about its own size times the machine's epsilon, and a weight by twice that share.
    """
    visible = parts.visible.any(dim=2)[..., None]  # what is hidden from all rows may hold anything
    values = parts.values.masked_fill(~visible, 0.0)
    allowed = epsilon(parts.dtype) * (16 + 8 * parts.logits) * values.abs().amax(dim=(-1, -2))[..., None]
    off = (parts.weights @ values - mixed.double()).abs().amax(dim=-1)  # [texts, heads, R]
    # Not `off > allowed`: it would let NaN pass.
    return (~(off <= allowed)).any(dim=-1).any(dim=0).tolist()


def _relative_keys(relative: RelativeKeys, rows: Tensor) -> Tensor:
    """The vectors added to the keys of some rows, `[texts, heads, R, n, d_k]`."""
    index = rows_of(relative.index, rows)  # [texts, heads, R, n]
    index = index.expand(rows.shape[0], relative.vectors.shape[1], *index.shape[2:])
    flat = index.flatten(2)[..., None].expand(-1, -1, -1, relative.vectors.shape[-1])
    vectors = relative.vectors.double().expand(rows.shape[0], -1, -1, -1)
    return vectors.gather(2, flat).unflatten(2, index.shape[2:])


def _by_head(tensor: Tensor, heads: int) -> Tensor:
    groups = tensor.shape[1]
    return tensor if groups in (1, heads) else tensor.repeat_interleave(heads // groups, dim=1)
