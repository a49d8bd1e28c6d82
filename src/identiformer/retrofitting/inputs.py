"""Batches to run a model on: of texts, or of random tokens where there are none."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from identiformer.tokenization import length_batches

RANDOM_TEXTS = 256
RANDOM_LENGTHS = (4, 64)  # tokens of a random text, the special ones not counted
BATCH = 32

Batch = dict[str, Tensor]


def text_batches(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, texts: Sequence[str], size: int = BATCH
) -> list[Batch]:
    """The texts, encoded and truncated, those of similar length together."""
    encoded = tokenizer(list(texts), truncation=True)
    names = [name for name in tokenizer.model_input_names if name in encoded]
    batches: list[Batch] = []
    for rows in length_batches([len(ids) for ids in encoded["input_ids"]], size):
        padded = tokenizer.pad(
            {name: [encoded[name][i] for i in rows] for name in names}, return_tensors="pt"
        )
        batches.append({name: padded[name].to(model.device) for name in [*names, "attention_mask"]})
    return batches


def random_batches(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase | None, generator: torch.Generator
) -> list[Batch]:
    """Sequences of random tokens of the vocabulary, of random lengths, between the special tokens of a text."""
    config: Any = model.config
    special = set(tokenizer.all_special_ids if tokenizer is not None else ())
    special |= {config.pad_token_id, config.bos_token_id, config.eos_token_id}
    known = config.vocab_size if tokenizer is None else min(config.vocab_size, len(tokenizer))
    words = torch.tensor([token for token in range(known) if token not in special])
    first, last = ("cls_token_id", "sep_token_id")
    before = [getattr(tokenizer, first, None)] if getattr(tokenizer, first, None) is not None else []
    after = [getattr(tokenizer, last, None)] if getattr(tokenizer, last, None) is not None else []
    # A few positions are kept free: RoBERTa counts them from the number of its padding on.
    most = min(RANDOM_LENGTHS[1], config.max_position_embeddings - len(before) - len(after) - 4)
    least = max(1, min(RANDOM_LENGTHS[0], most))
    batches: list[Batch] = []
    for _ in range(0, RANDOM_TEXTS, BATCH):
        length = int(torch.randint(least, max(most, least) + 1, (), generator=generator))
        chosen = words[torch.randint(len(words), (BATCH, length), generator=generator)]
        ids = torch.cat([torch.tensor([before] * BATCH), chosen, torch.tensor([after] * BATCH)], dim=1).long()
        batches.append(
            {
                "input_ids": ids.to(model.device),
                "attention_mask": torch.ones_like(ids, device=model.device),
            }
        )
    return batches
