"""Self-attention whose values carry the keys, for each way in which the families write theirs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from identiformer.model.attention import eager_attention
from identiformer.retrofitting.families import Family


class CarriedKeys(nn.Module):
    r"""What all families share: attention over $V' = [V\ K]$, through the attention interface of transformers.

    The output projection that follows is $D' = [D; E]$, so that a head gives $a V D + a K E$
    (IDENTIFIABILITY.md, "Values that carry keys").
    """

    family: Family
    config: Any
    attention_head_size: int

    def mix(
        self,
        hidden_states: Float[Tensor, "batch n d_e"],
        attention_mask: Tensor | None,
        dropout: float,
        **kwargs: Any,
    ) -> tuple[Float[Tensor, "batch n merged"], Tensor | None]:
        """The mixed values of all heads, `merged` = heads * (d_v + d_k), and the weights where there are any.

        Args:
            hidden_states: The layer's input.
            attention_mask: What `transformers.masking_utils` made for the implementation in use.
            dropout: Of the weights, in training.
            **kwargs: Passed on to the attention implementation; `implementation` chooses another than the one
                that is configured.
        """
        batch, tokens = hidden_states.shape[:2]
        query, key, value = (
            self.get_submodule(name)(hidden_states)
            .view(batch, tokens, -1, self.attention_head_size)
            .transpose(1, 2)  # [batch, heads, n, d]
            for name in (self.family.query, self.family.key, self.family.value)
        )
        implementation: str = kwargs.pop("implementation", None) or self.config._attn_implementation
        interface: Callable[..., tuple[Tensor, Tensor | None]] = ALL_ATTENTION_FUNCTIONS.get_interface(
            implementation, eager_attention
        )
        mixed, weights = interface(
            self,
            query,
            key,
            torch.cat([value, key], dim=-1),  # [batch, heads, n, d_v + d_k]
            attention_mask,
            dropout=dropout if self.training else 0.0,
            scaling=self.attention_head_size**-0.5,
            **kwargs,
        )
        return mixed.reshape(batch, tokens, -1).contiguous(), weights


class BertLike(CarriedKeys):
    """BERT and the families that copy its attention: the output projection is the next module's."""

    dropout: nn.Dropout

    def forward(
        self, hidden_states: Tensor, attention_mask: Tensor | None = None, cache: Any = None, **kwargs: Any
    ) -> tuple[Tensor, Tensor | None]:
        """The mixed values and the weights."""
        return self.mix(hidden_states, attention_mask, self.dropout.p, **kwargs)


class DistilBertLike(CarriedKeys):
    """DistilBERT: the output projection is applied here."""

    dropout: nn.Dropout

    def forward(
        self, hidden_states: Tensor, attention_mask: Tensor | None = None, **kwargs: Any
    ) -> tuple[Tensor, Tensor | None]:
        """The layer's attention output and the weights."""
        mixed, weights = self.mix(hidden_states, attention_mask, self.dropout.p, **kwargs)
        return self.get_submodule("out_lin")(mixed), weights


class AlbertLike(CarriedKeys):
    """ALBERT: projection, dropout, residual sum and normalisation are all applied here."""

    attention_dropout: nn.Dropout

    def forward(
        self, hidden_states: Tensor, attention_mask: Tensor | None = None, **kwargs: Any
    ) -> tuple[Tensor, Tensor | None]:
        """The layer's normalised sum of input and attention output, and the weights."""
        mixed, weights = self.mix(hidden_states, attention_mask, self.attention_dropout.p, **kwargs)
        added = self.get_submodule("output_dropout")(self.get_submodule("dense")(mixed))
        return self.get_submodule("LayerNorm")(hidden_states + added), weights


class MPNetLike(CarriedKeys):
    """MPNet: a bias by relative position, and no attention interface of its own."""

    dropout: nn.Dropout
    is_causal = False  # read by the sdpa implementation, which is causal without it

    def forward(
        self,
        hidden_states: Tensor,
        attention_mask: Tensor | None = None,
        position_bias: Tensor | None = None,
        output_attentions: bool = False,
        **kwargs: Any,
    ) -> tuple[Tensor, ...]:
        """The layer's attention output, and the weights where they are asked for."""
        if position_bias is not None:
            attention_mask = _with_bias(attention_mask, position_bias)
        chosen = "eager" if output_attentions else None  # the others give no weights
        mixed, weights = self.mix(
            hidden_states, attention_mask, self.dropout.p, implementation=chosen, **kwargs
        )
        attended = self.get_submodule("o")(mixed)
        return (attended, weights) if output_attentions and weights is not None else (attended,)


STYLES: dict[str, type[CarriedKeys]] = {
    "distilbert": DistilBertLike,
    "albert": AlbertLike,
    "mpnet": MPNetLike,
}  # all others are like BERT


def _with_bias(
    mask: Tensor | None, bias: Float[Tensor, "batch heads n n"]
) -> Float[Tensor, "batch heads n n"]:
    """The bias with what a mask hides left out: a boolean mask, or one that is added to the logits."""
    if mask is None:
        return bias
    if mask.dtype == torch.bool:
        return bias.masked_fill(~mask, torch.finfo(bias.dtype).min)
    return bias + mask
