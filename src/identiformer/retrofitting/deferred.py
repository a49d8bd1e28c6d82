"""The model types of retrofitted models, known to `AutoConfig` before their configurations can be made.

The configurations are subclasses of those of transformers, whose modules import the modelling code, for their
docstrings. That must not happen while transformers is still being imported. What is registered here stands in for
them until the first one is asked for.
"""

# No `from __future__ import annotations` here: transformers makes dataclasses of the classes.

from importlib import import_module
from typing import Any

from transformers import PreTrainedConfig
from transformers.models.auto.configuration_auto import CONFIG_MAPPING, AutoConfig

from identiformer.retrofitting.families import CARRYING


class _Deferred(PreTrainedConfig):
    """Gives way to the configuration of the same model type wherever one is to be made."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        return cls._actual()(*args, **kwargs)

    @classmethod
    def from_dict(cls, config_dict: dict[str, Any], **kwargs: Any) -> Any:
        """The actual configuration, from a dictionary."""
        return cls._actual().from_dict(config_dict, **kwargs)

    @classmethod
    def _actual(cls) -> type[PreTrainedConfig]:
        # Registers the models and their configurations, these in the place of this class.
        import_module("identiformer.retrofitting.models")
        return CONFIG_MAPPING[cls.model_type]


for _family in CARRYING.values():
    if _family.carrying_type not in CONFIG_MAPPING:
        _members = {"__module__": __name__, "model_type": _family.carrying_type}
        AutoConfig.register(_family.carrying_type, type(f"Deferred{_family.config}", (_Deferred,), _members))
