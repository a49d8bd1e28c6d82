"""Embeddings and post-layer-norm encoder layers."""

# transformers is typed in part only; what it gives is annotated where it matters.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false, reportPrivateUsage=false

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from transformers.activations import ACT2FN
from transformers.modeling_layers import GradientCheckpointingLayer

from identiformer.model.attention import IdentiformerAttention
from identiformer.model.configuration import IdentiformerConfig


class IdentiformerEmbeddings(nn.Module):
    """The sum of word, segment and position embeddings.

    They are not normalised: a word that training hardly saw keeps the small embedding it began with and says
    little, while normalisation would make it as loud as any other.
    """

    def __init__(self, config: IdentiformerConfig):
        super().__init__()
        self.config = config
        self.word_embeddings = nn.Embedding(
            config.vocab_size, config.hidden_size, padding_idx=config.pad_token_id
        )
        self.token_type_embeddings = nn.Embedding(config.type_vocab_size, config.hidden_size)
        self.position_embeddings = (
            nn.Embedding(config.max_position_embeddings, config.hidden_size)
            if config.position_embedding == "learned"
            else None
        )
        self.dropout = nn.Dropout(config.embedding_dropout_prob)

    def forward(
        self,
        input_ids: Int[Tensor, "batch n"] | None,
        token_type_ids: Int[Tensor, "batch n"] | None,
        position_ids: Int[Tensor, "batch n"],
        inputs_embeds: Float[Tensor, "batch n d_e"] | None = None,
    ) -> Float[Tensor, "batch n d_e"]:
        """Embed tokens.

        Args:
            input_ids: Token numbers, `[batch, n]`; not needed where `inputs_embeds` is given.
            token_type_ids: Segment of each token, `[batch, n]`; the first segment where it is `None`.
            position_ids: Position of each token in its own text, padding not counted, `[batch, n]`.
            inputs_embeds: Word embeddings to use in place of the model's own, `[batch, n, d_e]`.

        Raises:
            ValueError: If the text has more tokens than the model has positions.
        """
        if inputs_embeds is None:
            assert input_ids is not None
            inputs_embeds = self.word_embeddings(self._drop_tokens(input_ids))
        embedded = cast(Tensor, inputs_embeds)
        if token_type_ids is None:
            token_type_ids = torch.zeros_like(position_ids)
        embedded = embedded + self.token_type_embeddings(token_type_ids)
        if self.position_embeddings is not None:
            embedded = embedded + self.position_embeddings(position_ids)
        return self.dropout(embedded)

    def _drop_tokens(self, input_ids: Int[Tensor, "batch n"]) -> Int[Tensor, "batch n"]:
        """In training, replace a share of the tokens by `<unk>`, so that no word alone carries a label."""
        share, unknown = self.config.token_dropout_prob, self.config.unk_token_id
        if not self.training or share == 0 or unknown is None:
            return input_ids
        dropped = torch.rand(input_ids.shape, device=input_ids.device) < share
        for special in (self.config.pad_token_id, self.config.cls_token_id, self.config.sep_token_id):
            dropped &= input_ids != special
        return input_ids.masked_fill(dropped, unknown)


class IdentiformerLayer(GradientCheckpointingLayer):
    """Attention and a feed-forward part, each followed by a residual sum and layer normalisation."""

    def __init__(self, config: IdentiformerConfig, layer_idx: int):
        super().__init__()
        self.attention = IdentiformerAttention(config, layer_idx)
        self.attention_norm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.intermediate = nn.Linear(config.hidden_size, config.intermediate_size)
        self.activation = cast(Callable[[Tensor], Tensor], ACT2FN[config.hidden_act])
        self.output = nn.Linear(config.intermediate_size, config.hidden_size)
        self.output_norm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)

    def forward(
        self, hidden_states: Float[Tensor, "batch n d_e"], attention_mask: Tensor | None = None, **kwargs: Any
    ) -> Float[Tensor, "batch n d_e"]:
        """All rows of the layer; see `IdentiformerAttention.forward`."""
        attended, _ = self.attention(hidden_states, attention_mask, **kwargs)
        return self._finish(hidden_states, attended)

    def pooled_row(
        self,
        hidden_states: Float[Tensor, "batch n d_e"],
        row: Int[Tensor, "batch"],
        visible: Bool[Tensor, "batch n"] | None,
    ) -> Float[Tensor, "batch d_e"]:
        """One row of each text; see `IdentiformerAttention.pooled_row`."""
        attended = self.attention.pooled_row(hidden_states, row, visible)
        return self._finish(hidden_states[torch.arange(row.shape[0], device=row.device), row], attended)

    def _finish(self, hidden_states: Tensor, attended: Tensor) -> Tensor:
        hidden_states = self.attention_norm(hidden_states + self.dropout(attended))
        transformed = self.output(self.activation(self.intermediate(hidden_states)))
        return self.output_norm(hidden_states + self.dropout(transformed))
