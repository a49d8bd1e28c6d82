"""What to train, or what to do with a model, so that the attention over given texts is identifiable."""

from identiformer.advice.advising import Advice, advise

__all__ = ["Advice", "advise"]
