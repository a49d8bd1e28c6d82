"""Training a classifier: from a source of labelled texts to a model folder."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from datasets import Dataset
from huggingface_hub.errors import StrictDataclassError
from transformers import PreTrainedModel, PreTrainedTokenizerBase, TrainerCallback, set_seed
from transformers.utils import logging

from identiformer.data import TextData, encode_labels, label_names, load_source, split_data
from identiformer.determinism import globals_restored
from identiformer.errors import InputError
from identiformer.evaluation import classification_metrics
from identiformer.fitting import Fit, fit
from identiformer.identifiable_share import identifiable_share
from identiformer.loading import label_list, load_to_fine_tune
from identiformer.model import IdentiformerConfig, IdentiformerForSequenceClassification
from identiformer.model_card import model_card
from identiformer.output import UnfinishedFolder, refuse_replacing, whole_file, write_json
from identiformer.prediction import predict_probabilities
from identiformer.settings import TrainingSettings
from identiformer.sizing import identifiable_length_for, max_length_for, size_for
from identiformer.tokenization import build_tokenizer, token_lengths

METRICS = "metrics.json"
RUN = "training_run.json"  # settings and a digest of the data: what a run must share to be the same one
CHECKPOINTS = "checkpoints"
# What follows from the data and is not chosen.
NOT_CHOSEN = (
    "vocab_size", "max_position_embeddings", "takes_text_pair", "type_vocab_size",
    "pad_token_id", "unk_token_id", "cls_token_id", "sep_token_id",
)  # fmt: skip

Say = Callable[[str], None]


def train(
    source: str,
    output: str | Path,
    settings: TrainingSettings | None = None,
    *,
    overwrite: bool = False,
    resume: bool = False,
    say: Say = lambda _: None,
    callbacks: list[TrainerCallback] | None = None,
) -> dict[str, Any]:
    """Train a classifier and write it, with its metrics and its card, to a folder.

    Args:
        source: Labelled texts, as `load_source` takes them; splits that are missing are split off.
        output: The model folder to make. A run that is stopped leaves `OUTPUT.unfinished` beside it.
        settings: See `TrainingSettings`.
        overwrite: Replace `output`.
        resume: Go on with a run that was stopped; the result is that of an unbroken run.
        say: Called with a sentence on every choice made and everything left out.
        callbacks: Further callbacks of the Trainer, to show progress.

    Returns:
        The contents of `metrics.json`.

    Raises:
        InputError: For data, settings or folders that cannot be used.
    """
    settings = settings or TrainingSettings()
    output = Path(os.path.abspath(output))
    refuse_replacing(output, [source, *([settings.from_model] if settings.from_model else [])], overwrite)
    with globals_restored():
        logging.disable_progress_bar()  # one for each file of a few kilobytes
        if resume and not overwrite and (finished := _finished(source, output, settings)):
            say(f"{output} was finished already")
            return finished
        with UnfinishedFolder(output, overwrite=overwrite, resume=resume) as folder:
            data = _load(source, settings)
            for note in data.notes:
                say(note)
            _check_same_run(folder.path, settings, data)
            metrics = _train(source, output, settings, data, folder, say, callbacks or [])
            folder.finish()
    return metrics


def _load(source: str, settings: TrainingSettings) -> TextData:
    loaded = load_source(
        source,
        text_column=settings.text_column,
        label_column=settings.label_column,
        text_pair_column=settings.text_pair_column,
        on_bad_row=settings.on_bad_row,
        need=("train",),
    )
    return split_data(
        loaded,
        seed=settings.seed,
        valid_fraction=settings.valid_fraction,
        test_fraction=settings.test_fraction,
    )


def _train(
    source: str,
    output: Path,
    settings: TrainingSettings,
    data: TextData,
    folder: UnfinishedFolder,
    say: Say,
    callbacks: list[TrainerCallback],
) -> dict[str, Any]:
    """Train, and write everything into the folder's `result`."""
    prepare = _from_scratch if settings.from_model is None else _from_pretrained
    tokenizer, model = prepare(settings, data, say)
    encoded = {name: _encode(data.splits[name], tokenizer, label_list(model)) for name in ("train", "valid")}
    result = fit(
        model, tokenizer, encoded["train"], encoded["valid"], settings, folder.path / CHECKPOINTS, callbacks
    )
    metrics = _metrics(model, tokenizer, settings, data, result, say)
    folder.result.mkdir()
    model.save_pretrained(folder.result)
    tokenizer.save_pretrained(folder.result)
    write_json(folder.result / METRICS, metrics)
    with whole_file(folder.result / "training_log.jsonl") as log:
        log.writelines(json.dumps(entry) + "\n" for entry in result.log)
    with whole_file(folder.result / "README.md") as card:
        card.write(model_card(output.name, source, settings, data, model.config, metrics))
    shutil.copyfile(folder.path / RUN, folder.result / RUN)
    return metrics


def _from_scratch(
    settings: TrainingSettings, data: TextData, say: Say
) -> tuple[PreTrainedTokenizerBase, PreTrainedModel]:
    """The tokenizer and the untrained model that follow from the settings and the training texts."""
    texts, pairs = _columns(data.splits["train"])
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
    texts, pairs = _columns(data.splits["train"])
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
        split_lengths = lengths if name == "train" else token_lengths(tokenizer, *_columns(split))
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


def _columns(split: Dataset) -> tuple[list[str], list[str] | None]:
    pairs = list(split["text_pair"]) if "text_pair" in split.column_names else None
    return list(split["text"]), pairs


def _encode(split: Dataset, tokenizer: PreTrainedTokenizerBase, labels: list[str]) -> Dataset:
    """Token numbers, label numbers and lengths, as the Trainer takes them."""
    texts, pairs = _columns(split)
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


def _metrics(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    settings: TrainingSettings,
    data: TextData,
    result: Fit,
    say: Say,
) -> dict[str, Any]:
    """The contents of metrics.json (DESIGN.md, "Contracts"), and what share of the test set is identifiable."""
    labels = label_list(model)
    scores: dict[str, Any] = {}
    for name in ("valid", "test"):
        split = data.splits[name]
        probabilities = predict_probabilities(model, tokenizer, *_columns(split))
        scores[name] = classification_metrics(probabilities, encode_labels(split, labels), labels)
    return {
        "seed": settings.seed,
        "examples": {name: len(data.splits[name]) for name in ("train", "valid", "test")},
        "skipped": data.skipped,
        "max_length": tokenizer.model_max_length,
        "epochs": result.epochs,
        "best_epoch": result.best_epoch,
        "train_seconds": round(result.seconds, 3),
        **scores,
        "identifiable": _identifiable(model, tokenizer, data.splits["test"], say),
    }


def _identifiable(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, split: Dataset, say: Say
) -> dict[str, Any] | None:
    """See `identifiable_share`; `None` for other people's models of which it cannot be said."""
    try:
        return identifiable_share(model, tokenizer, *_columns(split))
    except InputError as error:
        if isinstance(model, IdentiformerForSequenceClassification):
            raise
        say(f"whether its attention is identifiable is not known: {error}")
        return None


def _check_same_run(folder: Path, settings: TrainingSettings, data: TextData) -> None:
    """Keep what the run was started with, and refuse to go on with another one's checkpoints."""
    run = _run(settings, data)
    if not (folder / RUN).exists():
        shutil.rmtree(folder / CHECKPOINTS, ignore_errors=True)  # nobody knows whose they are
        write_json(folder / RUN, run)
        return
    earlier = _read_json(folder / RUN)
    differing = [
        name for name, value in run["settings"].items() if earlier["settings"].get(name, value) != value
    ]
    if differing:
        raise InputError(
            f"the run to resume was started with other settings ({', '.join(differing)}): "
            "give the same ones, or start again with --overwrite"
        )
    if earlier["data"] != run["data"]:
        raise InputError("the data changed since the run was stopped: start again with --overwrite")


def _finished(source: str, output: Path, settings: TrainingSettings) -> dict[str, Any] | None:
    """The metrics of `output` if it came of this very run, stopped, if at all, after it was whole."""
    if not (output / RUN).is_file() or _read_json(output / RUN) != _run(settings, _load(source, settings)):
        return None
    with UnfinishedFolder(output, overwrite=True, resume=True) as folder:
        folder.discard()
    return _read_json(output / METRICS)


def _run(settings: TrainingSettings, data: TextData) -> dict[str, Any]:
    digest = hashlib.sha256()
    for name in ("train", "valid", "test"):
        for part in _cells(data.splits[name]):
            digest.update(part.encode("utf-8", "surrogatepass") + b"\0")
    return {"settings": settings.to_dict(), "data": digest.hexdigest()}


def _read_json(file: Path) -> dict[str, Any]:
    return json.loads(file.read_text(encoding="utf-8"))


def _cells(split: Dataset) -> Iterator[str]:
    for name in ("text", "text_pair", "label"):
        if name in split.column_names:
            yield from split[name]
