"""The configurations of models whose values carry keys: those of the families, under a model type of our own."""

# No `from __future__ import annotations` here: transformers makes dataclasses of the classes.

from typing import TYPE_CHECKING, Any

from identiformer.retrofitting.families import FAMILIES, Family

if TYPE_CHECKING:
    from transformers import PreTrainedConfig


def _carrying(family: Family) -> "type[PreTrainedConfig]":
    """A subclass of the family's configuration, `IdentiformerBertConfig` for `BertConfig`."""
    base = family.config_class
    name = f"Identiformer{base.__name__}"
    members: dict[str, Any] = {
        "__module__": __name__,
        "__qualname__": name,
        "__doc__": f"`{base.__name__}` of a model whose values carry its keys (see `retrofit`).",
        "model_type": family.carrying_type,
    }
    return type(name, (base,), members)


CONFIGURATIONS: "dict[str, type[PreTrainedConfig]]" = {
    model_type: _carrying(family) for model_type, family in FAMILIES.items()
}

for _configuration in CONFIGURATIONS.values():
    globals()[_configuration.__name__] = _configuration  # where pickle looks for it
