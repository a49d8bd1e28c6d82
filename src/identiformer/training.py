"""Training a classifier: from a source of labelled texts to a model folder."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from datasets import Dataset
from transformers import PreTrainedModel, PreTrainedTokenizerBase, TrainerCallback
from transformers.utils import logging

from identiformer.data import TextData, encode_labels, load_source, split_data
from identiformer.determinism import globals_restored
from identiformer.errors import InputError
from identiformer.evaluation import classification_metrics
from identiformer.fitting import Fit, fit
from identiformer.identifiable_share import identifiable_share
from identiformer.loading import label_list
from identiformer.model import IdentiformerForSequenceClassification
from identiformer.model_card import model_card
from identiformer.output import UnfinishedFolder, refuse_replacing, whole_file, write_json
from identiformer.prediction import predict_probabilities
from identiformer.preparation import columns_of, encode, prepare
from identiformer.same_run import digest_of, is_same_run, read_run
from identiformer.settings import TrainingSettings
from identiformer.training_report import training_report

METRICS = "metrics.json"
REPORT = "report.html"
RUN = "training_run.json"  # settings and a digest of the data: what a run must share to be the same one
CHECKPOINTS = "checkpoints"
Say = Callable[[str], None]
Progress = Callable[[int, int], None]


def train(
    source: str,
    output: str | Path,
    settings: TrainingSettings | None = None,
    *,
    overwrite: bool = False,
    resume: bool = False,
    say: Say = lambda _: None,
    callbacks: list[TrainerCallback] | None = None,
    progress: Progress = lambda _done, _total: None,
) -> dict[str, Any]:
    """Train a classifier and write it, with its metrics, its card and a report, to a folder.

    Args:
        source: Labelled texts, as `load_source` takes them; splits that are missing are split off.
        output: The model folder to make. A run that is stopped leaves `OUTPUT.unfinished` beside it.
        settings: See `TrainingSettings`.
        overwrite: Replace `output`.
        resume: Go on with a run that was stopped; the result is that of an unbroken run.
        say: Called with a sentence on every choice made and everything left out.
        callbacks: Further callbacks of the Trainer, to show progress.
        progress: Called after training, as texts are explained for the report, with their number since the last call
            and how many there are.

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
            if not is_same_run(folder.path / RUN, _run(settings, data)):
                shutil.rmtree(folder.path / CHECKPOINTS, ignore_errors=True)  # nobody knows whose they are
            metrics = _train(source, output, settings, data, folder, say, callbacks or [], progress)
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
    progress: Progress,
) -> dict[str, Any]:
    """Train, and write everything into the folder's `result`."""
    tokenizer, model = prepare(settings, data, say)
    encoded = {name: encode(data.splits[name], tokenizer, label_list(model)) for name in ("train", "valid")}
    result = fit(
        model, tokenizer, encoded["train"], encoded["valid"], settings, folder.path / CHECKPOINTS, callbacks
    )
    metrics, probabilities = _metrics(model, tokenizer, settings, data, result, say)
    folder.result.mkdir()
    model.save_pretrained(folder.result)
    tokenizer.save_pretrained(folder.result)
    write_json(folder.result / METRICS, metrics)
    with whole_file(folder.result / "training_log.jsonl") as log:
        log.writelines(json.dumps(entry) + "\n" for entry in result.log)
    with whole_file(folder.result / "README.md") as card:
        card.write(model_card(output.name, source, settings, data, model.config, metrics))
    with whole_file(folder.result / REPORT) as report:
        report.write(
            training_report(
                output.name,
                source,
                settings,
                data,
                model,
                tokenizer,
                metrics,
                result.log,
                probabilities["test"],
                progress,
            )
        )
    shutil.copyfile(folder.path / RUN, folder.result / RUN)
    return metrics


def _metrics(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    settings: TrainingSettings,
    data: TextData,
    result: Fit,
    say: Say,
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The contents of metrics.json (DESIGN.md, "Contracts") with the share of the test set that is identifiable.

    And the probabilities that it says of each split.
    """
    labels = label_list(model)
    scores: dict[str, Any] = {}
    probabilities: dict[str, np.ndarray] = {}
    for name in ("valid", "test"):
        split = data.splits[name]
        probabilities[name] = predict_probabilities(model, tokenizer, *columns_of(split))
        scores[name] = classification_metrics(probabilities[name], encode_labels(split, labels), labels)
    metrics = {
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
    return metrics, probabilities


def _identifiable(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, split: Dataset, say: Say
) -> dict[str, Any] | None:
    """See `identifiable_share`; `None` for other people's models of which it cannot be said."""
    try:
        return identifiable_share(model, tokenizer, *columns_of(split))
    except InputError as error:
        if isinstance(model, IdentiformerForSequenceClassification):
            raise
        say(f"whether its attention is identifiable is not known: {error}")
        return None


def _finished(source: str, output: Path, settings: TrainingSettings) -> dict[str, Any] | None:
    """The metrics of `output` if it came of this very run, stopped, if at all, after it was whole."""
    if not (output / RUN).is_file() or read_run(output / RUN) != _run(settings, _load(source, settings)):
        return None
    with UnfinishedFolder(output, overwrite=True, resume=True) as folder:
        folder.discard()
    return json.loads((output / METRICS).read_text(encoding="utf-8"))


def _run(settings: TrainingSettings, data: TextData) -> dict[str, Any]:
    """What a run must share to be the same one."""
    splits = [data.splits[name] for name in ("train", "valid", "test")]
    return {"settings": settings.to_dict(), "data": digest_of(splits, ("text", "text_pair", "label"))}
