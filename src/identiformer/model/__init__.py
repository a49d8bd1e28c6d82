"""The classifier: a transformers model, known to its Auto classes once this package is imported."""

# transformers is typed in part only; what it gives is annotated where it matters.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false, reportPrivateUsage=false

from transformers import AutoConfig, AutoModel, AutoModelForSequenceClassification

from identiformer.model.classifier import IdentiformerForSequenceClassification, IdentiformerModel
from identiformer.model.configuration import IdentiformerConfig

AutoConfig.register("identiformer", IdentiformerConfig)
AutoModel.register(IdentiformerConfig, IdentiformerModel)
AutoModelForSequenceClassification.register(IdentiformerConfig, IdentiformerForSequenceClassification)

__all__ = ["IdentiformerConfig", "IdentiformerForSequenceClassification", "IdentiformerModel"]
