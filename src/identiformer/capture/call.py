"""One call of attention, as a model made it."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor, nn


@dataclass(frozen=True, eq=False)
class AttentionCall:
    """The numbers with which a module computed attention.

    Row `i` of a head has the weights `softmax(cap(scaling * q_i Kᵀ) + mask_i)`, where `cap(z)` is `z`, or
    `softcap * tanh(z / softcap)`.

    Args:
        module: The module that called; `None` where it is not known.
        query: `[texts, heads, rows, d_k]`.
        key: `[texts, groups, n, d_k]`; `groups` divides `heads`, and neighbouring heads share one.
        value: `[texts, groups, n, d_v]`.
        mask: What is added to the logits, `[texts or 1, heads or 1, rows or 1, n]`, of a floating-point type; or
            boolean, and true where a token is visible. `None`: nothing.
        bias: Added to the logits besides, of the same shape; `None`: nothing.
        scaling: By what dot products are multiplied.
        softcap: The bound of the logits; `None`: none.
        sinks: A logit for each head beside those of the tokens, `[heads]`; its share of the weight is lost.
        mixed: What came out, `[texts, rows, heads, d_v]`.
    """

    module: nn.Module | None
    query: Tensor
    key: Tensor
    value: Tensor
    mask: Tensor | None
    bias: Tensor | None
    scaling: float
    softcap: float | None
    sinks: Tensor | None
    mixed: Tensor
