"""The encoder and the text classifier on it, as transformers models."""

# transformers is typed in part only; what it gives is annotated where it matters.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false, reportPrivateUsage=false

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers import initialization as init
from transformers.masking_utils import create_bidirectional_mask
from transformers.modeling_outputs import BaseModelOutput, SequenceClassifierOutput
from transformers.models.auto.modeling_auto import AutoModel, AutoModelForSequenceClassification
from transformers.utils.generic import can_return_tuple, merge_with_config_defaults
from transformers.utils.output_capturing import capture_outputs

from identiformer.model.attention import IdentiformerAttention
from identiformer.model.configuration import IdentiformerConfig
from identiformer.model.encoder import IdentiformerEmbeddings, IdentiformerLayer

# Implementations that compute softmax attention and nothing else, so that the pooled row may stand in for
# them. Any other one (to capture attention, say) is asked for because of what it sees, and gets every row.
PLAIN_ATTENTION = ("eager", "sdpa")


class IdentiformerPreTrainedModel(PreTrainedModel):
    """What the encoder and the classifier share: configuration, initial weights, what can be recorded."""

    config: IdentiformerConfig
    config_class = IdentiformerConfig
    base_model_prefix = "encoder"
    supports_gradient_checkpointing = True
    _no_split_modules = ["IdentiformerEmbeddings", "IdentiformerLayer"]
    _supports_sdpa = True
    _supports_attention_backend = True
    _can_record_outputs = {"hidden_states": IdentiformerLayer, "attentions": IdentiformerAttention}

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        """Linear layers as in Glorot & Bengio (2010), head by head: no setting changes their scale."""
        if isinstance(module, nn.Linear):
            init.xavier_uniform_(module.weight)
            init.zeros_(module.bias)
        elif isinstance(module, IdentiformerAttention):
            # The projections of all heads are stored as one; its shape must not make each of them smaller.
            for linear, size in (
                (module.query, module.key_size),
                (module.key, module.key_size),
                (module.value, module.value_size),
            ):
                bound = (6 / (linear.in_features + size)) ** 0.5
                init.uniform_(linear.weight, -bound, bound)
        else:
            super()._init_weights(module)


class IdentiformerModel(IdentiformerPreTrainedModel):
    """The encoder: token numbers in, a vector a token out."""

    def __init__(self, config: IdentiformerConfig):
        super().__init__(config)
        self.embeddings = IdentiformerEmbeddings(config)
        self.layers = nn.ModuleList(IdentiformerLayer(config, i) for i in range(config.num_hidden_layers))
        self.gradient_checkpointing = False
        self.post_init()

    def get_input_embeddings(self) -> nn.Module:
        """The word embeddings."""
        return self.embeddings.word_embeddings

    def set_input_embeddings(self, value: nn.Module) -> None:
        """Replace the word embeddings."""
        assert isinstance(value, nn.Embedding)
        self.embeddings.word_embeddings = value

    @merge_with_config_defaults
    @capture_outputs
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        position_ids: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        pooled_row_only: bool = False,
        **kwargs: Any,
    ) -> BaseModelOutput:
        """Encode texts.

        Args:
            input_ids: Token numbers, `[batch, n]`; or `inputs_embeds`.
            attention_mask: 1 for tokens and 0 for padding, `[batch, n]`; padding may stand on either side.
                Where it is `None`, tokens with the number `config.pad_token_id` are taken for padding. A
                prepared mask `[batch, 1, n, n]` is used as it is.
            token_type_ids: Segment of each token, `[batch, n]`.
            position_ids: Position of each token, `[batch, n]`; counted from the first token that is not
                padding where it is `None`.
            inputs_embeds: Word embeddings in place of `input_ids`, `[batch, n, d_e]`.
            pooled_row_only: Compute only the first token's row of the last layer, which alone reaches a
                prediction; the output is then `[batch, 1, d_e]`.
            **kwargs: Passed on to the attention implementation.

        Returns:
            `last_hidden_state`, `[batch, n, d_e]`.

        Raises:
            ValueError: If not exactly one of `input_ids` and `inputs_embeds` is given, or a text is too long.
        """
        if (input_ids is None) == (inputs_embeds is None):
            raise ValueError("give exactly one of input_ids and inputs_embeds")
        attention_mask = self._with_padding(input_ids, attention_mask)
        shape = self._shape(input_ids, inputs_embeds)
        if position_ids is None:
            position_ids = self._positions(shape, attention_mask)
        hidden_states = self.embeddings(input_ids, token_type_ids, position_ids, inputs_embeds)

        mask = create_bidirectional_mask(
            config=self.config, inputs_embeds=hidden_states, attention_mask=attention_mask
        )
        before_last = self.layers[:-1] if pooled_row_only else self.layers
        for layer in before_last:
            hidden_states = layer(hidden_states, mask, **kwargs)
        if pooled_row_only:
            last = self.layers[-1]
            assert isinstance(last, IdentiformerLayer)
            visible = attention_mask.bool() if attention_mask is not None else None
            row = pooled_index(shape, attention_mask, hidden_states.device)
            hidden_states = last.pooled_row(hidden_states, row, visible)[:, None]
        return BaseModelOutput(last_hidden_state=hidden_states)  # pyright: ignore[reportArgumentType]

    def _with_padding(self, input_ids: Tensor | None, attention_mask: Tensor | None) -> Tensor | None:
        """The mask, made from the padding tokens where none is given and there are any."""
        pad = self.config.pad_token_id
        if attention_mask is not None or input_ids is None or pad is None:
            return attention_mask
        visible = input_ids != pad
        return None if bool(visible.all()) else visible.long()

    def _shape(self, input_ids: Tensor | None, inputs_embeds: Tensor | None) -> tuple[int, int]:
        given = input_ids if input_ids is not None else inputs_embeds
        assert given is not None
        batch, length = given.shape[:2]
        limit = self.config.max_position_embeddings
        if length > limit and self.config.position_embedding == "learned":
            raise ValueError(
                f"the text has {length} tokens, but the model has positions for {limit} "
                f"(max_position_embeddings); truncate it (the tokenizer does, with truncation=True)"
            )
        return batch, length

    def _positions(self, shape: tuple[int, int], attention_mask: Tensor | None) -> Int[Tensor, "batch n"]:
        """Positions that do not count padding, so that it changes nothing wherever it stands."""
        if attention_mask is None or attention_mask.dim() != 2:
            return torch.arange(shape[1], device=self.device).expand(shape)
        return (attention_mask.long().cumsum(dim=-1) - 1).clamp(min=0)


def pooled_index(
    shape: tuple[int, int], attention_mask: Tensor | None, device: torch.device
) -> Int[Tensor, "batch"]:
    """Where the token stands whose row is classified: the first one that is not padding, `[batch]`."""
    if attention_mask is None or attention_mask.dim() != 2:
        return torch.zeros(shape[0], dtype=torch.long, device=device)
    return attention_mask.long().argmax(dim=-1)


class IdentiformerForSequenceClassification(IdentiformerPreTrainedModel):
    """A text classifier: a linear layer on the first token's row of the last layer."""

    def __init__(self, config: IdentiformerConfig):
        super().__init__(config)
        self.num_labels = config.num_labels
        self.encoder = IdentiformerModel(config)
        dropout = config.classifier_dropout
        self.dropout = nn.Dropout(config.hidden_dropout_prob if dropout is None else dropout)
        self.classifier = nn.Linear(config.hidden_size, config.num_labels or 2)
        self.post_init()

    @can_return_tuple
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        position_ids: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        labels: Tensor | None = None,
        **kwargs: Any,
    ) -> SequenceClassifierOutput:
        """Classify texts.

        Takes the arguments of `IdentiformerModel.forward`, and `labels`, `[batch]`, for a loss. All rows are
        computed where hidden states or attentions are asked for or an attention implementation other than
        `eager` and `sdpa` is in use; the logits are the same.

        Returns:
            `logits`, `[batch, num_labels]`, and `loss` where `labels` are given.
        """
        pooled_row_only = not self._needs_all_rows(attention_mask, kwargs)
        outputs: BaseModelOutput = self.encoder(
            input_ids,
            attention_mask=attention_mask,
            token_type_ids=token_type_ids,
            position_ids=position_ids,
            inputs_embeds=inputs_embeds,
            pooled_row_only=pooled_row_only,
            **kwargs,
        )
        hidden_states = outputs.last_hidden_state
        assert hidden_states is not None
        pooled = (
            hidden_states[:, 0] if pooled_row_only else self._pool(hidden_states, input_ids, attention_mask)
        )
        logits: Float[Tensor, "batch labels"] = self.classifier(self.dropout(pooled))

        loss = None
        if labels is not None:
            loss = self.loss_function(labels=labels, pooled_logits=logits, config=self.config, **kwargs)
        return SequenceClassifierOutput(
            loss=loss,
            logits=logits,  # pyright: ignore[reportArgumentType]
            hidden_states=outputs.hidden_states,
            attentions=outputs.attentions,
        )

    def _needs_all_rows(self, attention_mask: Tensor | None, kwargs: dict[str, Any]) -> bool:
        recorded = any(
            kwargs.get(name) or getattr(self.config, name, False)
            for name in ("output_attentions", "output_hidden_states")
        )
        implementation = self.config._attn_implementation
        prepared_mask = attention_mask is not None and attention_mask.dim() != 2
        return recorded or prepared_mask or implementation not in PLAIN_ATTENTION

    def _pool(
        self,
        hidden_states: Float[Tensor, "batch n d_e"],
        input_ids: Int[Tensor, "batch n"] | None,
        attention_mask: Bool[Tensor, "batch n"] | Int[Tensor, "batch n"] | None,
    ) -> Float[Tensor, "batch d_e"]:
        attention_mask = self.encoder._with_padding(input_ids, attention_mask)
        batch, length = hidden_states.shape[:2]
        row = pooled_index((batch, length), attention_mask, hidden_states.device)
        return hidden_states[torch.arange(batch, device=row.device), row]


AutoModel.register(IdentiformerConfig, IdentiformerModel, exist_ok=True)
AutoModelForSequenceClassification.register(
    IdentiformerConfig, IdentiformerForSequenceClassification, exist_ok=True
)
