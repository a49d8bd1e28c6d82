"""What a training starts from: the tokenizer and the model that follow from settings and texts, and its rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from datasets import Dataset
from huggingface_hub.errors import StrictDataclassError
from transformers import PreTrainedModel, PreTrainedTokenizerBase, set_seed

from identiformer.data import TextData, encode_labels, label_names
from identiformer.errors import InputError
from identiformer.loading import load_to_fine_tune
from identiformer.model import IdentiformerConfig, IdentiformerForSequenceClassification
from identiformer.settings import TrainingSettings
from identiformer.sizing import identifiable_length_for, max_length_for, size_for
from identiformer.tokenization import build_tokenizer, token_lengths

# What follows from the data and is not chosen.
NOT_CHOSEN = (
    "vocab_size", "max_position_embeddings", "takes_text_pair", "type_vocab_size",
    "pad_token_id", "unk_token_id", "cls_token_id", "sep_token_id",
)  # fmt: skip

Say = Callable[[str], None]


def prepare(
    settings: TrainingSettings, data: TextData, say: Say
) -> tuple[PreTrainedTokenizerBase, PreTrainedModel]:
    """The tokenizer and the model to train.

    Args:
        settings: Of the training.
        data: Its splits.
        say: Called with a sentence on every choice made.

    Raises:
        InputError: For settings of which no model can be made, or a model that cannot be fine-tuned.
    """
    return (_from_scratch if settings.from_model is None else _from_pretrained)(settings, data, say)


def _from_scratch(
    settings: TrainingSettings, data: TextData, say: Say
) -> tuple[PreTrainedTokenizerBase, PreTrainedModel]:
    """The tokenizer and the untrained model that follow from the settings and the training texts."""
    texts, pairs = columns_of(data.splits["train"])
    tokenizer = build_tokenizer(
        (text for column in (texts, pairs or []) for text in column),
        kind=settings.tokenizer,
        vocab_size=settings.vocab_size,
        min_frequency=settings.min_frequency,
    )
    lengths, max_length = _set_max_length(tokenizer, settings, data, say)

    model_settings = _model_settings(settings)
    identifiable_length = settings.identifiable_length
    if settings.coverage is not None:
        identifiable_length = identifiable_length_for(lengths, max_length, settings.coverage)
    if identifiable_length is not None:
        sizing = size_for(identifiable_length, model_settings)
        say(sizing.reason)
        model_settings |= sizing.settings
    labels = label_names(data)
    try:
        config = IdentiformerConfig(
            **model_settings,
            vocab_size=len(tokenizer),
            max_position_embeddings=max_length,
            takes_text_pair=pairs is not None,
            id2label=dict(enumerate(labels)),
            label2id={label: i for i, label in enumerate(labels)},
            problem_type="single_label_classification",
        )
    except StrictDataclassError as error:  # it puts the reason on its last line
        raise InputError(str(error).strip().splitlines()[-1].strip()) from error
    set_seed(settings.seed)  # for the initial weights
    return tokenizer, IdentiformerForSequenceClassification(config)


def _from_pretrained(
    settings: TrainingSettings, data: TextData, say: Say
) -> tuple[PreTrainedTokenizerBase, PreTrainedModel]:
    """The tokenizer and the model to fine-tune."""
    assert settings.from_model is not None
    set_seed(settings.seed)  # for the initial weights of the classifier
    model, tokenizer = load_to_fine_tune(settings.from_model, label_names(data))
    model.config.takes_text_pair = "text_pair" in data.splits["train"].column_names
    _set_max_length(tokenizer, settings, data, say)
    return tokenizer, model


def _set_max_length(
    tokenizer: PreTrainedTokenizerBase, settings: TrainingSettings, data: TextData, say: Say
) -> tuple[np.ndarray, int]:
    """Set where texts are truncated; the tokens of each training text, and the most that are kept of one."""
    texts, pairs = columns_of(data.splits["train"])
    lengths, paired = token_lengths(tokenizer, texts, pairs), pairs is not None
    special = tokenizer.num_special_tokens_to_add(paired)
    most = tokenizer.model_max_length
    max_length = max_length_for(lengths, settings.max_length, paired, special)
    if settings.max_length == "auto":
        max_length = min(max_length, most)
    elif max_length > most:
        raise InputError(
            f"--max-length is {max_length}, but {settings.from_model} takes {most} tokens at most"
        )
    tokenizer.model_max_length = max_length
    for name, split in data.splits.items():
        split_lengths = lengths if name == "train" else token_lengths(tokenizer, *columns_of(split))
        truncated = int((split_lengths > max_length).sum())
        if truncated:
            say(
                f"{truncated} of {len(split)} {name} texts are longer than {max_length} tokens and are truncated"
            )
    return lengths, max_length


def _model_settings(settings: TrainingSettings) -> dict[str, Any]:
    """The chosen settings of the model; an unknown name would pass in silence through its configuration."""
    known = set(IdentiformerConfig.__annotations__) - set(NOT_CHOSEN)
    unknown = [name for name in settings.model if name not in known]
    if unknown:
        raise InputError(
            f"the model has no setting {', '.join(unknown)} to choose: there are {', '.join(sorted(known))}"
        )
    return dict(settings.model)


def columns_of(split: Dataset) -> tuple[list[str], list[str] | None]:
    """Its texts, and their pairs where there are such."""
    pairs = list(split["text_pair"]) if "text_pair" in split.column_names else None
    return list(split["text"]), pairs


def encode(split: Dataset, tokenizer: PreTrainedTokenizerBase, labels: list[str]) -> Dataset:
    """Token numbers, label numbers and lengths, as the Trainer takes them."""
    texts, pairs = columns_of(split)
    encoded = tokenizer(texts, pairs, truncation=True)
    # The mask is made where batches are padded; some models have no segments.
    taken = [name for name in ("input_ids", "token_type_ids") if name in encoded]
    return Dataset.from_dict(
        {
            **{name: encoded[name] for name in taken},
            "labels": encode_labels(split, labels),
            "length": [len(ids) for ids in encoded["input_ids"]],
        }
    )
