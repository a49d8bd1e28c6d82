"""Text classifiers whose attention is identifiable, and audits that tell where attention is not."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from identiformer.registration import register

if TYPE_CHECKING:
    from identiformer.advice import Advice, advise
    from identiformer.auditing import AuditSettings, audit
    from identiformer.capturing import CapturedLayer, capture
    from identiformer.errors import InputError
    from identiformer.evaluation import classification_metrics
    from identiformer.explaining import Explanation, explain, explain_alternative
    from identiformer.loading import load_classifier
    from identiformer.model import (
        IdentiformerConfig,
        IdentiformerForSequenceClassification,
        IdentiformerModel,
    )
    from identiformer.prediction import predict_probabilities
    from identiformer.retrofitting import retrofit
    from identiformer.settings import TrainingSettings
    from identiformer.training import train

__version__ = "0.1.0"

# Imported when first used, so that the command line starts fast: name -> module.
_MODULES = {
    "Advice": "advice",
    "AuditSettings": "auditing",
    "CapturedLayer": "capturing",
    "Explanation": "explaining",
    "IdentiformerConfig": "model",
    "IdentiformerForSequenceClassification": "model",
    "IdentiformerModel": "model",
    "InputError": "errors",
    "TrainingSettings": "settings",
    "advise": "advice",
    "audit": "auditing",
    "capture": "capturing",
    "classification_metrics": "evaluation",
    "explain": "explaining",
    "explain_alternative": "explaining",
    "load_classifier": "loading",
    "predict_probabilities": "prediction",
    "retrofit": "retrofitting",
    "train": "training",
}

__all__ = [
    "Advice",
    "AuditSettings",
    "CapturedLayer",
    "Explanation",
    "IdentiformerConfig",
    "IdentiformerForSequenceClassification",
    "IdentiformerModel",
    "InputError",
    "TrainingSettings",
    "__version__",
    "advise",
    "audit",
    "capture",
    "classification_metrics",
    "explain",
    "explain_alternative",
    "load_classifier",
    "predict_probabilities",
    "retrofit",
    "train",
]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)


register()
