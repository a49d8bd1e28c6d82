"""The report of a training run: what it needs of the model, the data and the settings."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
from datasets import Dataset
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from identiformer.capturing import capture_inputs, encode_texts
from identiformer.data import TextData, encode_labels
from identiformer.errors import InputError
from identiformer.loading import label_list
from identiformer.preparation import columns_of
from identiformer.report.samples import SampledText, Samples, explained_samples, wrong_first
from identiformer.report.tables import command_line
from identiformer.report.training_overview import TestPredictions, TrainedOn, training_page
from identiformer.settings import TrainingSettings
from identiformer.tokenization import token_lengths

# Of a model's configuration, in its order here; models that are fine-tuned have some of them.
MODEL_SETTINGS = (
    "model_type", "hidden_size", "num_hidden_layers", "num_attention_heads", "key_size", "value_size", "head_merge",
    "values_carry_keys", "position_embedding", "intermediate_size", "embedding_dropout_prob", "token_dropout_prob",
    "hidden_dropout_prob", "attention_probs_dropout_prob", "max_position_embeddings", "vocab_size",
)  # fmt: skip


def training_report(
    name: str,
    source: str,
    settings: TrainingSettings,
    data: TextData,
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    metrics: dict[str, Any],
    log: list[dict[str, Any]],
    probabilities: np.ndarray,
    progress: Callable[[int, int], None],
) -> str:
    """The HTML document.

    Args:
        name: Of the model folder.
        source, settings, data: What the model was trained with.
        model, tokenizer: The model.
        metrics: The contents of metrics.json.
        log: Those of training_log.jsonl.
        probabilities: What the model says of the test texts, `[N, labels]`.
        progress: Called with the texts explained since the last call, and how many there are.
    """
    test = data.splits["test"]
    truth = np.asarray(encode_labels(test, label_list(model)))
    correct = probabilities.argmax(axis=1) == truth
    predictions = TestPredictions(
        confidences=probabilities.max(axis=1),
        correct=correct,
        lengths=Counter(token_lengths(tokenizer, *columns_of(test)).tolist()),
    )
    trained_on = TrainedOn(
        source=source,
        columns={"text": data.columns.text, "pair": data.columns.text_pair, "label": data.columns.label},
        notes=data.notes,
        command=training_command(source, name, settings),
        settings={
            key: value for key, value in settings.to_dict().items() if key != "model" and value is not None
        },
        model={
            key: value for key in MODEL_SETTINGS if (value := getattr(model.config, key, None)) is not None
        },
    )
    return training_page(
        name,
        metrics,
        log,
        predictions,
        _simplex_length(model, tokenizer, test),
        trained_on,
        _samples(settings, model, tokenizer, test, correct.tolist(), progress),
    )


def training_command(source: str, name: str, settings: TrainingSettings) -> str:
    """The command that trains with these settings."""
    options = settings.to_dict()
    defaults = TrainingSettings(from_model=settings.from_model).to_dict()
    # Dropouts are called --hidden-dropout and the like.
    of_model = {re.sub("_probs?(?=_|$)", "", key): value for key, value in options.pop("model").items()}
    return command_line(
        "train", [source], name, {"from": options.pop("from_model"), **options, **of_model}, defaults
    )


def _simplex_length(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, split: Dataset) -> int | None:
    """Of the last layer, which the prediction is read from."""
    texts, pairs = columns_of(split.select(range(1)))
    try:
        (captured,) = capture_inputs(model, encode_texts(model, tokenizer, texts, pairs, None), layers=[-1])
    except InputError:
        return None
    return captured.simplex_length


def _samples(
    settings: TrainingSettings,
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    test: Dataset,
    correct: list[bool],
    progress: Callable[[int, int], None],
) -> Samples:
    def text_at(place: int) -> SampledText:
        row = test[place]
        return SampledText(row["row"], row["text"], row.get("text_pair"), row["label"])

    wrong = correct.count(False)
    return explained_samples(
        model,
        tokenizer,
        wrong_first(correct, settings.report_texts),
        text_at,
        len(correct),
        label_list(model),
        lambda shown: _which_texts(sum(not correct[place] for place in shown), wrong),
        shown_first=lambda place: (correct[place], place),
        detailed_rows=settings.report_rows,
        progress=progress,
    )


def _which_texts(shown: int, wrong: int) -> str:
    """What texts of the test set a page shows, with so many of its wrong predictions."""
    if not wrong:
        return "Test texts; all predictions are right."
    if shown == wrong:
        return f"Test texts, first those with wrong predictions: all {wrong} of them."
    return f"Test texts, first those with wrong predictions: {shown} of {wrong} of them, evenly spread."
