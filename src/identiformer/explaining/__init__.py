"""One text explained: its prediction, the attention behind it, and whether that attention is the only one possible."""

from identiformer.explaining.asked import explain_alternative
from identiformer.explaining.explanation import Explanation, Layers, RefusedHead, explain, load_to_explain
from identiformer.explaining.heads import HeadExplanation
from identiformer.explaining.levels import LevelResult

__all__ = [
    "Explanation",
    "HeadExplanation",
    "Layers",
    "LevelResult",
    "RefusedHead",
    "explain",
    "explain_alternative",
    "load_to_explain",
]
