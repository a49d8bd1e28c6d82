"""The classifier: a transformers model. Names are imported when first used, since torch takes seconds to import."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from identiformer.model.classifier import IdentiformerForSequenceClassification, IdentiformerModel
    from identiformer.model.configuration import IdentiformerConfig

__all__ = ["IdentiformerConfig", "IdentiformerForSequenceClassification", "IdentiformerModel"]

_MODULES = {
    "IdentiformerConfig": "configuration",
    "IdentiformerForSequenceClassification": "classifier",
    "IdentiformerModel": "classifier",
}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
