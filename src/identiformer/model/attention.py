"""Attention with free key and value sizes, heads concatenated or added, for all rows or for one."""

# transformers is typed in part only; what it gives is annotated where it matters.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false, reportPrivateUsage=false

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from identiformer.model.configuration import IdentiformerConfig


def eager_attention(
    module: nn.Module,
    query: Float[Tensor, "batch heads rows d_k"],
    key: Float[Tensor, "batch heads n d_k"],
    value: Float[Tensor, "batch heads n d_v"],
    attention_mask: Float[Tensor, "batch 1 rows n"] | None,
    scaling: float,
    dropout: float = 0.0,
    **kwargs: Any,
) -> tuple[Float[Tensor, "batch rows heads d_v"], Float[Tensor, "batch heads rows n"]]:
    """Softmax attention written out, with its weights: the `eager` implementation.

    The signature is that of the attention interface of transformers; `attention_mask` is added to the
    logits, and the output's heads come after its rows.
    """
    logits = torch.matmul(query, key.transpose(2, 3)) * scaling
    if attention_mask is not None:
        logits = logits + attention_mask
    weights = torch.softmax(logits, dim=-1)
    dropped = nn.functional.dropout(weights, p=dropout, training=module.training)
    return torch.matmul(dropped, value).transpose(1, 2).contiguous(), weights


class IdentiformerAttention(nn.Module):
    """Multi-head attention (arXiv 2106.01269, section 5; IDENTIFIABILITY.md, "The encoder layer").

    `forward` computes every row through the attention interface of transformers; `pooled_row` computes a
    single row without forming the keys and values.
    """

    def __init__(self, config: IdentiformerConfig, layer_idx: int):
        super().__init__()
        assert config.value_size is not None
        self.config = config
        self.layer_idx = layer_idx
        self.num_attention_heads = config.num_attention_heads
        self.key_size = config.key_size
        self.value_size = config.value_size
        self.scaling = config.key_size**-0.5
        self.attention_dropout = float(config.attention_probs_dropout_prob)
        self.is_causal = False  # read by the sdpa implementation, which is causal without it

        heads = config.num_attention_heads
        self.query = nn.Linear(config.hidden_size, heads * config.key_size)
        self.key = nn.Linear(config.hidden_size, heads * config.key_size)
        self.value = nn.Linear(config.hidden_size, heads * config.value_size)
        merged = config.carried_value_size * (heads if config.head_merge == "concat" else 1)
        self.output = nn.Linear(merged, config.hidden_size)

    def forward(
        self,
        hidden_states: Float[Tensor, "batch n d_e"],
        attention_mask: Tensor | None = None,
        **kwargs: Any,
    ) -> tuple[Float[Tensor, "batch n d_e"], Float[Tensor, "batch heads n n"] | None]:
        """All rows: the layer's output, and the weights where the implementation gives them (`eager`).

        Args:
            hidden_states: The layer's input, `[batch, n, d_e]`.
            attention_mask: What `transformers.masking_utils` made for the implementation in use.
            **kwargs: Passed on to the attention implementation.
        """
        query = self._by_head(self.query(hidden_states), self.key_size)
        key = self._by_head(self.key(hidden_states), self.key_size)
        value = self._by_head(self.value(hidden_states), self.value_size)
        if self.config.values_carry_keys:
            value = torch.cat([value, key], dim=-1)  # [batch, heads, n, d_v + d_k]

        interface: Callable[..., tuple[Tensor, Tensor | None]] = ALL_ATTENTION_FUNCTIONS.get_interface(
            self.config._attn_implementation or "eager",
            eager_attention,
        )
        mixed, weights = interface(
            self,
            query,
            key,
            value,
            attention_mask,
            dropout=self.attention_dropout if self.training else 0.0,
            scaling=self.scaling,
            **kwargs,
        )
        return self.output(self._merge(mixed)), weights

    def pooled_row(
        self,
        hidden_states: Float[Tensor, "batch n d_e"],
        row: Int[Tensor, "batch"],
        visible: Bool[Tensor, "batch n"] | None = None,
    ) -> Float[Tensor, "batch d_e"]:
        r"""The output of one row of each text, without forming keys, values or the other rows.

        With `x` the layer's input, a head's logits are `(q W_K) xᵀ`: the term `q · b_K` is the same for every
        token, and softmax does not see it. Its output is `(a x) W_V + Σa · b_V`, with `Σa` written out since
        dropout on `a` moves it from 1. A head costs `O(n d_e)` so, instead of `O(n d_e d_v)`.

        Args:
            hidden_states: The layer's input `x`, `[batch, n, d_e]`.
            row: The index of the row of each text, `[batch]`.
            visible: Which tokens may be attended, `[batch, n]`; all where it is `None`.

        Returns:
            What `forward` gives in those rows, `[batch, d_e]`.
        """
        batch, _, width = hidden_states.shape
        heads = self.num_attention_heads
        first = hidden_states[torch.arange(batch, device=row.device), row]  # [batch, d_e]
        query = self.query(first).view(batch, heads, self.key_size)
        key_weight = self.key.weight.view(heads, self.key_size, width)
        folded = torch.einsum("bhk,hke->bhe", query, key_weight) * self.scaling
        logits = torch.matmul(folded, hidden_states.transpose(1, 2))  # [batch, heads, n]
        if visible is not None:
            logits = logits.masked_fill(~visible[:, None, :], torch.finfo(logits.dtype).min)
        weights = torch.softmax(logits, dim=-1)
        weights = nn.functional.dropout(weights, p=self.attention_dropout, training=self.training)

        mean = torch.matmul(weights, hidden_states)  # a x: [batch, heads, d_e]
        total = weights.sum(dim=-1, keepdim=True)  # Σa: [batch, heads, 1]
        mixed = self._project(mean, total, self.value, self.value_size)
        if self.config.values_carry_keys:
            carried = self._project(mean, total, self.key, self.key_size)
            mixed = torch.cat([mixed, carried], dim=-1)
        return self.output(self._merge(mixed))

    def _by_head(self, projected: Tensor, size: int) -> Float[Tensor, "batch heads n size"]:
        """[batch, n, heads * size] -> [batch, heads, n, size]."""
        return projected.view(*projected.shape[:-1], self.num_attention_heads, size).transpose(1, 2)

    def _project(
        self,
        mean: Float[Tensor, "batch heads d_e"],
        total: Float[Tensor, "batch heads 1"],
        linear: nn.Linear,
        size: int,
    ) -> Float[Tensor, "batch heads size"]:
        """A head's part of `linear`, applied to a weighted sum of tokens whose weights sum to `total`."""
        weight = linear.weight.view(self.num_attention_heads, size, -1)
        projected = torch.einsum("bhe,hse->bhs", mean, weight)
        return projected + total * linear.bias.view(self.num_attention_heads, size)

    def _merge(self, mixed: Float[Tensor, "*rows heads d_v"]) -> Float[Tensor, "*rows merged"]:
        """The heads of each row put together: side by side, or added."""
        return mixed.flatten(-2) if self.config.head_merge == "concat" else mixed.sum(dim=-2)
