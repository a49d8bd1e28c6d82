"""The settings of an identiformer."""

# transformers is typed in part only; what it gives is annotated where it matters.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false, reportPrivateUsage=false

# No `from __future__ import annotations` here: @strict checks values against the types themselves.

from importlib import import_module
from typing import Any, Literal

from huggingface_hub.dataclasses import strict
from transformers import PreTrainedConfig
from transformers.models.auto.configuration_auto import AutoConfig


@strict
class IdentiformerConfig(PreTrainedConfig):
    r"""Settings of an encoder whose attention is identifiable by construction.

    Key and value sizes are free of each other and of the number of heads. With `d_e = hidden_size`,
    `d_k = key_size`, `d_v = value_size` and `H = num_attention_heads`, the output of an attention layer is

        concat:  [O_1 … O_H] D,     D: [H d_v, d_e]      (the usual transformer)
        add:     (O_1 + … + O_H) D, D: [d_v, d_e]        (arXiv 2106.01269, section 5)

    and the weights of a head are, for almost every input, identifiable on the simplex for texts of up to
    `min(value_size, hidden_size) + 1` tokens. With `values_carry_keys` the keys are appended to the values
    (`V' = [V K]`), which makes the weights identifiable among those that the head can generate at any length.

    Args:
        vocab_size: Number of tokens that the embedding knows.
        hidden_size: `d_e`, the width of a token between layers.
        num_hidden_layers: Number of encoder layers.
        num_attention_heads: `H`, attention heads a layer.
        key_size: `d_k`, columns of a head's queries and keys. Logits are scaled by `key_size ** -0.5`.
        value_size: `d_v`, columns of a head's values. `None` means `hidden_size` for `add` and
            `hidden_size // num_attention_heads` for `concat`.
        head_merge: How the heads of a layer are put together, `add` or `concat`.
        values_carry_keys: Whether values carry the keys; needs `value_size + key_size <= hidden_size`.
        position_embedding: `learned`, or `none`: then repeated words have equal keys and values, and only
            their total weight can be fixed.
        intermediate_size: Width of the feed-forward part of a layer.
        hidden_act: Activation of the feed-forward part.
        embedding_dropout_prob: Dropout on the embeddings.
        token_dropout_prob: Share of tokens (special ones excepted) that training replaces by `<unk>`.
        hidden_dropout_prob: Dropout after the attention and the feed-forward part.
        attention_probs_dropout_prob: Dropout on the attention weights.
        classifier_dropout: Dropout before the classifier; `None` means `hidden_dropout_prob`.
        max_position_embeddings: The most tokens that a text may have, special ones included.
        type_vocab_size: Number of segments: 2, a text and its pair.
        takes_text_pair: Whether it was trained on pairs of texts; the commands ask for them then.
        initializer_range: Standard deviation of the initial embeddings.
        layer_norm_eps: Added to the variance in layer normalisation.

    Raises:
        StrictDataclassError: (of huggingface_hub) For settings that cannot be; the message names them.
    """

    model_type = "identiformer"

    vocab_size: int = 30000
    hidden_size: int = 128
    num_hidden_layers: int = 1
    num_attention_heads: int = 4
    key_size: int = 32
    value_size: int | None = None
    head_merge: Literal["concat", "add"] = "add"
    values_carry_keys: bool = False
    position_embedding: Literal["learned", "none"] = "learned"
    intermediate_size: int = 256
    hidden_act: str = "gelu"
    embedding_dropout_prob: float | int = 0.4
    token_dropout_prob: float | int = 0.0
    hidden_dropout_prob: float | int = 0.3
    attention_probs_dropout_prob: float | int = 0.1
    classifier_dropout: float | int | None = None
    max_position_embeddings: int = 512
    type_vocab_size: int = 2
    takes_text_pair: bool = False
    initializer_range: float = 0.1
    layer_norm_eps: float = 1e-5
    pad_token_id: int | None = 0
    unk_token_id: int | None = 1
    cls_token_id: int | None = 2
    sep_token_id: int | None = 3

    def __post_init__(self, **kwargs: Any) -> None:
        """Fill in the value size that follows from the other settings."""
        if self.value_size is None:
            share = 1 if self.head_merge == "add" else max(self.num_attention_heads, 1)
            self.value_size = max(self.hidden_size // share, 1)
        super().__post_init__(**kwargs)
        # Registers the models with the Auto classes, which ask for them by the class of a configuration.
        import_module("identiformer.model.classifier")

    @property
    def carried_value_size(self) -> int:
        """Columns of a head's values as attention mixes them: `d_v`, with the keys where they are carried."""
        assert self.value_size is not None  # filled in by __post_init__
        return self.value_size + (self.key_size if self.values_carry_keys else 0)

    def validate_sizes(self) -> None:
        """Every size is at least 1; carried keys leave room for an output projection of full row rank."""
        for name in (
            "vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "key_size", "value_size",
            "intermediate_size", "max_position_embeddings", "type_vocab_size",
        ):  # fmt: skip
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be at least 1")
        if self.values_carry_keys and self.carried_value_size > self.hidden_size:
            raise ValueError(
                f"values_carry_keys needs value_size + key_size <= hidden_size, but {self.value_size} + "
                f"{self.key_size} > {self.hidden_size}; lower value_size or key_size, or raise hidden_size"
            )

    def validate_probabilities(self) -> None:
        """Every dropout is a probability below 1."""
        for name in (
            "embedding_dropout_prob", "token_dropout_prob", "hidden_dropout_prob",
            "attention_probs_dropout_prob", "classifier_dropout",
        ):  # fmt: skip
            probability = getattr(self, name)
            if probability is not None and not 0 <= probability < 1:
                raise ValueError(f"{name} is {probability}; it must be at least 0 and below 1")


AutoConfig.register(IdentiformerConfig.model_type, IdentiformerConfig, exist_ok=True)
