"""The transformers Trainer, wired: fits a model, keeps its best epoch, goes on after a stop."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from datasets import Dataset
from safetensors.torch import load_model
from torch import Tensor
from transformers import (
    EarlyStoppingCallback,
    EvalPrediction,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    PrinterCallback,
    ProgressCallback,
    Trainer,
    TrainerCallback,
    TrainerState,
    TrainingArguments,
)
from transformers.trainer_callback import ExportableState

from identiformer.batches import ShufflingTrainer, padded_batches
from identiformer.errors import InputError
from identiformer.evaluation import classification_metrics
from identiformer.loading import label_list
from identiformer.output import write_json
from identiformer.settings import TrainingSettings
from identiformer.threads import threads_for

STATE = "trainer_state.json"  # the Trainer's own file in a checkpoint
SEAL = "whole.json"  # ours, written when all the others are there: the size of each

# The names of the training log, and those that the Trainer gives to the same.
LOG_NAMES = {
    "epoch": "epoch",
    "step": "step",
    "learning_rate": "learning_rate",
    "gradient_norm": "grad_norm",
    "train_loss": "loss",
    "valid_accuracy": "eval_accuracy",
    "valid_macro_f1": "eval_macro_f1",
    "valid_log_loss": "eval_log_loss",
}


@dataclass(frozen=True)
class Fit:
    """What fitting gave: the epochs run, the best of them (counted from 1), seconds, and a log entry an epoch."""

    epochs: int
    best_epoch: int
    seconds: float
    log: list[dict[str, Any]]


def fit(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    train_set: Dataset,
    valid_set: Dataset,
    settings: TrainingSettings,
    folder: Path,
    callbacks: list[TrainerCallback],
) -> Fit:
    """Fit `model` in place; it ends with the weights of the epoch that is best on `valid_set`.

    Args:
        model: A classifier; its configuration names the labels.
        tokenizer: Pads the batches.
        train_set, valid_set: `input_ids`, `token_type_ids`, `labels` and `length` of each text.
        settings: See `TrainingSettings`.
        folder: Where checkpoints lie. Where an earlier run left some, fitting goes on from the last whole one, and
            ends as it would have without the stop.
        callbacks: Further callbacks, to show progress.
    """
    checkpoint = last_whole_checkpoint(folder)
    state = TrainerState.load_from_json(str(checkpoint / STATE)) if checkpoint else None
    if state is None or not _has_ended(state, settings):
        trainer = build_trainer(model, tokenizer, train_set, valid_set, settings, folder, callbacks)
        with threads_for(model):
            trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
        state = trainer.state
        vars(model.config).pop("use_cache", None)  # of text generators; the Trainer leaves it behind
    best = folder / f"checkpoint-{state.best_global_step}"
    load_model(model, best / "model.safetensors", device=str(model.device))
    model.eval()
    steps_an_epoch = state.max_steps // state.num_train_epochs
    assert state.best_global_step is not None
    return Fit(
        epochs=round(state.global_step / steps_an_epoch),
        best_epoch=round(state.best_global_step / steps_an_epoch),
        seconds=_seconds(state),
        log=_log(state),
    )


def build_trainer(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    train_set: Dataset,
    valid_set: Dataset,
    settings: TrainingSettings,
    folder: Path,
    callbacks: list[TrainerCallback],
) -> Trainer:
    """A Trainer that evaluates and saves each epoch, and prints nothing; takes the arguments of `fit`."""
    arguments = TrainingArguments(
        output_dir=str(folder),
        seed=settings.seed,
        full_determinism=True,
        num_train_epochs=settings.epochs,
        per_device_train_batch_size=settings.batch_size,
        per_device_eval_batch_size=4 * settings.batch_size,
        learning_rate=settings.learning_rate,
        lr_scheduler_type="linear",
        warmup_steps=0.1,  # below 1: a share of all steps
        weight_decay=settings.weight_decay,
        # The usual 0.999 lets a word that occurs once move thirty times as far as its gradient asks for.
        adam_beta2=0.98,
        train_sampling_strategy="group_by_length",
        length_column_name="length",
        remove_unused_columns=False,  # it would remove the lengths before it groups by them; the collator does it
        eval_strategy="epoch",
        save_strategy="epoch",
        logging_strategy="epoch",
        save_total_limit=2,
        load_best_model_at_end=True,
        metric_for_best_model="accuracy",
        greater_is_better=True,
        restore_callback_states_from_checkpoint=True,
        report_to="none",
        disable_tqdm=True,
        dataloader_pin_memory=torch.cuda.is_available(),
        log_level="error",
    )
    trainer = ShufflingTrainer(
        model=model,
        args=arguments,
        train_dataset=train_set,
        eval_dataset=valid_set,
        processing_class=tokenizer,
        data_collator=padded_batches(tokenizer),
        compute_loss_func=loss_function(settings, train_set, len(label_list(model))),
        compute_metrics=_metrics(label_list(model)),
        callbacks=[Clock(), Seal(), EarlyStoppingCallback(settings.patience), *callbacks],
    )
    for printing in (PrinterCallback, ProgressCallback):  # standard output carries results only
        trainer.remove_callback(printing)
    return trainer


class Clock(TrainerCallback, ExportableState):
    """Counts the seconds of training, those before a stop included."""

    def __init__(self) -> None:
        self.before = 0.0
        self._started = time.monotonic()

    def on_train_begin(self, *_: Any, **__: Any) -> None:
        """Start counting."""
        self._started = time.monotonic()

    def state(self) -> dict[str, Any]:
        """What a checkpoint keeps."""
        return {"args": {}, "attributes": {"before": self.before + time.monotonic() - self._started}}


class Seal(TrainerCallback):
    """Seals each checkpoint when it is whole."""

    def on_save(self, args: TrainingArguments, state: TrainerState, *_: Any, **__: Any) -> None:
        """Write down which files there are, and their sizes."""
        checkpoint = Path(str(args.output_dir)) / f"checkpoint-{state.global_step}"
        write_json(checkpoint / SEAL, {file.name: file.stat().st_size for file in checkpoint.iterdir()})


def loss_function(settings: TrainingSettings, train_set: Dataset, num_labels: int) -> Callable[..., Tensor]:
    """Cross entropy with the label weights and the smoothing of the settings."""
    weight: Tensor | None = None
    if settings.class_weights == "balanced":
        # As scikit-learn's class_weight="balanced": rows / (labels * rows of the label).
        counts = np.bincount(np.asarray(train_set["labels"]), minlength=num_labels)
        weight = torch.tensor(len(train_set) / (num_labels * np.maximum(counts, 1)), dtype=torch.float32)

    def loss(outputs: Any, labels: Tensor, num_items_in_batch: Any = None) -> Tensor:
        return torch.nn.functional.cross_entropy(
            outputs["logits"],
            labels,
            weight=None if weight is None else weight.to(labels.device),
            label_smoothing=settings.label_smoothing,
        )

    return loss


def _metrics(label_names: list[str]) -> Callable[[EvalPrediction], dict[str, float]]:
    def metrics(prediction: EvalPrediction) -> dict[str, float]:
        logits = torch.as_tensor(prediction.predictions).double()
        if not bool(logits.isfinite().all()):
            raise InputError("training diverged (its outputs are no numbers any more): lower --learning-rate")
        labels = np.asarray(prediction.label_ids)
        scores = classification_metrics(logits.softmax(dim=-1).numpy(), labels, label_names)
        return {name: scores[name] for name in ("accuracy", "macro_f1", "log_loss")}

    return metrics


def last_whole_checkpoint(folder: Path) -> Path | None:
    """The last checkpoint to go on from: it and the best one up to it are whole. Later ones are removed."""
    whole: dict[int, Path] = {}
    for checkpoint in folder.glob("checkpoint-*"):
        if _is_whole(checkpoint):
            whole[int(checkpoint.name.rsplit("-", 1)[1])] = checkpoint
        else:
            shutil.rmtree(checkpoint)
    for step in sorted(whole, reverse=True):
        if TrainerState.load_from_json(str(whole[step] / STATE)).best_global_step in whole:
            return whole[step]
        # Gone before the Trainer writes into it anew: half of either, it would still be sealed.
        shutil.rmtree(whole[step])
    return None


def _is_whole(checkpoint: Path) -> bool:
    try:
        sizes: dict[str, int] = json.loads((checkpoint / SEAL).read_text(encoding="utf-8"))
        return all((checkpoint / name).stat().st_size == size for name, size in sizes.items())
    except (OSError, json.JSONDecodeError):
        return False


def _has_ended(state: TrainerState, settings: TrainingSettings) -> bool:
    """Whether the run of this checkpoint had come to its end, by its epochs or its patience.

    The Trainer itself would train on past an early stop.
    """
    counter = _kept(state, "EarlyStoppingCallback").get("early_stopping_patience_counter", 0)
    return state.global_step >= state.max_steps or counter >= settings.patience


def _log(state: TrainerState) -> list[dict[str, Any]]:
    """One entry an epoch; the Trainer has two, and one more at its end."""
    epochs: dict[int, dict[str, Any]] = {}
    for entry in state.log_history:
        if "train_runtime" not in entry:
            epochs.setdefault(int(entry["step"]), {}).update(entry)
    return [
        {ours: entry[theirs] for ours, theirs in LOG_NAMES.items() if theirs in entry}
        for entry in epochs.values()
    ]


def _seconds(state: TrainerState) -> float:
    return float(_kept(state, "Clock").get("before", 0.0))


def _kept(state: TrainerState, callback: str) -> dict[str, Any]:
    """What a checkpoint keeps of a callback: one dictionary, or a list of them where there were several."""
    callbacks: Any = state.stateful_callbacks or {}
    kept: Any = callbacks.get(callback) or {}
    last: dict[str, Any] = kept[-1] if isinstance(kept, list) else kept
    return last.get("attributes", {})
