"""Which attention weights a head could have had for the same output."""

from identiformer.identifiability.alternatives import (
    Alternative,
    AlternativeStatus,
    alternative,
)
from identiformer.identifiability.certificate import Certificate, LevelCertificate, Verdict, certify
from identiformer.identifiability.directions import Level
from identiformer.identifiability.effective import effective_attention
from identiformer.identifiability.goals import AlternativeGoal
from identiformer.identifiability.head import AttentionHead
from identiformer.identifiability.intervals import WeightIntervals, weight_intervals
from identiformer.identifiability.layer import LayerCertificate, LayerLevel, certify_layer
from identiformer.identifiability.recovery import recover
from identiformer.identifiability.ties import TiedTokens, tied_tokens
from identiformer.identifiability.tops import possible_tops, top_is_certain

__all__ = [
    "Alternative",
    "AlternativeGoal",
    "AlternativeStatus",
    "AttentionHead",
    "Certificate",
    "LayerCertificate",
    "LayerLevel",
    "Level",
    "LevelCertificate",
    "TiedTokens",
    "Verdict",
    "WeightIntervals",
    "alternative",
    "certify",
    "certify_layer",
    "effective_attention",
    "possible_tops",
    "recover",
    "tied_tokens",
    "top_is_certain",
    "weight_intervals",
]
