"""One call of attention, as a model made it."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor, nn


@dataclass(frozen=True, eq=False)
class RelativeKeys:
    """Vectors that are added to a row's keys, chosen by where a token stands as seen from the row.

    The logit of token `j` in row `i` has the further term `factor * q_i · vectors[index[i, j]]`.

    Args:
        vectors: `[texts, heads, m, d_k]`.
        index: `[texts, heads, rows, n]`, each of the first two 1 where it is shared.
        factor: A number.
    """

    vectors: Tensor
    index: Tensor
    factor: float


@dataclass(frozen=True, eq=False)
class AttentionCall:
    """The numbers with which a module computed attention.

    Row `i` of a head has the weights `softmax(cap(scaling * q_i Kᵀ) + added_i)`, where `cap(z)` is `z`, or
    `softcap * tanh(z / softcap)`.

    Args:
        module: The module that called; `None` where it is not known.
        query: `[texts, heads, rows, d_k]`.
        key: `[texts, groups, n, d_k]`; `groups` divides `heads`, and neighbouring heads share one.
        value: `[texts, groups, n, d_v]`.
        added: What is added to the logits, each `[texts or 1, heads or 1, rows or 1, n]` or the last dimensions of
            that: of a floating-point type, a mask or a bias or both; or boolean, and true where a token is visible.
        scaling: By what dot products are multiplied.
        mixed: What came out, `[texts, rows, heads, d_v]`.
        softcap: The bound of the logits; `None`: none.
        sinks: A logit for each head beside those of the tokens, `[heads]`; its share of the weight is lost.
        relative: Vectors added to the keys of each row.
        broken: Why the logits are none of the above, in one line; the numbers then mean nothing.
    """

    module: nn.Module | None
    query: Tensor
    key: Tensor
    value: Tensor
    added: tuple[Tensor, ...]
    scaling: float
    mixed: Tensor
    softcap: float | None = None
    sinks: Tensor | None = None
    relative: tuple[RelativeKeys, ...] = ()
    broken: str = ""
