"""The encoder families whose values can be made to carry their keys, and where their attention lies."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

from identiformer.errors import InputError

if TYPE_CHECKING:
    from torch import nn
    from transformers import PreTrainedConfig


@dataclass(frozen=True)
class Family:
    """Where the parts of self-attention lie in a family of models.

    Args:
        model_type: The family's name in `config.json`.
        config: The class of its configuration.
        block: The class of the module that holds both the attention and the projection of its output.
        attention_class: The class of the module that computes queries, keys and values.
        attention: The name of that module in the block.
        output: The path of the output projection from the block.
        query, key, value: The names of the three projections in the attention module.
    """

    model_type: str
    config: str
    block: str
    attention_class: str
    attention: str
    output: str
    query: str = "query"
    key: str = "key"
    value: str = "value"

    @property
    def carrying_type(self) -> str:
        """The model type of the family's models whose values carry keys."""
        return f"identiformer_{self._module}"

    @property
    def config_class(self) -> type[PreTrainedConfig]:
        """The class of the family's configuration."""
        return getattr(self._import("configuration"), self.config)

    def class_of(self, name: str) -> type[nn.Module]:
        """A class of the family's modelling code."""
        return getattr(self._import("modeling"), name)

    @property
    def _module(self) -> str:
        return self.model_type.replace("-", "_")

    def _import(self, kind: str) -> Any:
        return import_module(f"transformers.models.{self._module}.{kind}_{self._module}")


@dataclass(frozen=True)
class Site:
    """The attention of one layer in a model; layers that share their weights are one site.

    Args:
        name: The path of the block in the model.
        family: Says what its parts are called.
        block: Holds the attention and the projection of its output.
    """

    name: str
    family: Family
    block: nn.Module

    @property
    def attention(self) -> nn.Module:
        """The module that computes queries, keys and values."""
        return self.block.get_submodule(self.family.attention)

    @property
    def key(self) -> nn.Linear:
        """The projection to keys, `[d_e, heads * d_k]`."""
        return self.attention.get_submodule(self.family.key)  # pyright: ignore[reportReturnType]

    @property
    def output(self) -> nn.Linear:
        """The projection of what attention gives."""
        return self.block.get_submodule(self.family.output)  # pyright: ignore[reportReturnType]

    def replace_output(self, projection: nn.Linear) -> None:
        """Put another output projection in the place of the one that is there."""
        self.block.set_submodule(self.family.output, projection)


def _bert_like(model_type: str, prefix: str) -> Family:
    return Family(
        model_type,
        config=f"{prefix}Config",
        block=f"{prefix}Attention",
        attention_class=f"{prefix}SelfAttention",
        attention="self",
        output="output.dense",
    )


FAMILIES = {
    family.model_type: family
    for family in (
        _bert_like("bert", "Bert"),
        _bert_like("roberta", "Roberta"),
        _bert_like("xlm-roberta", "XLMRoberta"),
        _bert_like("camembert", "Camembert"),
        _bert_like("electra", "Electra"),
        Family(
            "distilbert",
            config="DistilBertConfig",
            block="TransformerBlock",
            attention_class="DistilBertSelfAttention",
            attention="attention",
            output="attention.out_lin",
            query="q_lin",
            key="k_lin",
            value="v_lin",
        ),
        Family(
            "albert",
            config="AlbertConfig",
            block="AlbertLayer",
            attention_class="AlbertAttention",
            attention="attention",
            output="attention.dense",
        ),
        Family(
            "mpnet",
            config="MPNetConfig",
            block="MPNetAttention",
            attention_class="MPNetSelfAttention",
            attention="attn",
            output="attn.o",
            query="q",
            key="k",
            value="v",
        ),
    )
}

CARRYING = {family.carrying_type: family for family in FAMILIES.values()}


def sites(model: nn.Module, family: Family) -> list[Site]:
    """The sites of a model, in the order of its layers."""
    block_class, attention_class = family.class_of(family.block), family.class_of(family.attention_class)
    return [
        Site(name, family, block)
        for name, block in model.named_modules()
        if isinstance(block, block_class) and isinstance(getattr(block, family.attention), attention_class)
    ]


def family_of(config: PreTrainedConfig) -> Family:
    """The family of a model that can be retrofitted.

    Raises:
        InputError: If the model is of no such family, is retrofitted already, or leaves no room for keys.
    """
    kind = config.model_type
    if kind in CARRYING:
        raise InputError("the model is retrofitted already: its values carry its keys")
    if kind not in FAMILIES:
        more = "; train an identiformer with --values-carry-keys instead" if kind == "identiformer" else ""
        raise InputError(
            f"a model of type {kind} cannot be retrofitted: the types that can are {', '.join(FAMILIES)}{more}"
        )
    if getattr(config, "is_decoder", False) or getattr(config, "add_cross_attention", False):
        raise InputError(f"the {kind} model is a decoder: only encoders can be retrofitted")
    heads, width = config.num_attention_heads, config.hidden_size
    if 2 * (width // heads) > width:
        raise InputError(
            f"the model cannot be retrofitted: values and keys of a head have {width // heads} columns each, more "
            f"together than the hidden size, {width}"
        )
    return FAMILIES[kind]
