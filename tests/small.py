"""A small untrained classifier with its tokenizer, for tests of what stands on a model."""

from __future__ import annotations

from typing import Any

import torch
from transformers import PreTrainedTokenizerFast

from identiformer.model import IdentiformerConfig, IdentiformerForSequenceClassification
from identiformer.tokenization import build_tokenizer

TEXTS = [
    "The food was good, but the waiter was rude.",
    "Not good.",
    "A fine, fine evening with fine music and a good meal",
    "We waited and waited; nobody came.",
]
PAIRS = ["Was it?", "No music at all", "Good.", "The waiter waited."]


def small_classifier(
    **settings: Any,
) -> tuple[IdentiformerForSequenceClassification, PreTrainedTokenizerFast]:
    """A classifier of two labels that knows the words of `TEXTS` and `PAIRS`, in evaluation mode."""
    tokenizer = build_tokenizer(TEXTS + PAIRS, min_frequency=1, model_max_length=24)
    torch.manual_seed(0)
    config = IdentiformerConfig(
        **{
            "vocab_size": len(tokenizer),
            "hidden_size": 24,
            "num_attention_heads": 3,
            "num_hidden_layers": 2,
            "key_size": 5,
            "value_size": 7,
            "intermediate_size": 11,
            "max_position_embeddings": 24,
            "initializer_range": 1.0,  # far from uniform attention
            "id2label": {0: "bad", 1: "good"},
            "label2id": {"bad": 0, "good": 1},
            **settings,
        }
    )
    return IdentiformerForSequenceClassification(config).eval(), tokenizer
