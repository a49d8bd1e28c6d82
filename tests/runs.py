"""Tiny training runs, and runs that are killed at a chosen moment."""

from __future__ import annotations

import csv
import json
import multiprocessing
import os
import random
import re
import shutil
import signal
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from identiformer.settings import TrainingSettings

# Every setting that matters is given: the defaults are tuned for real data.
SETTINGS = TrainingSettings(
    epochs=4,
    patience=4,
    batch_size=16,
    learning_rate=0.01,
    weight_decay=0.01,
    model={
        "hidden_size": 16,
        "num_attention_heads": 2,
        "num_hidden_layers": 1,
        "key_size": 4,
        "value_size": 8,
        "intermediate_size": 8,
        "embedding_dropout_prob": 0.2,
        "token_dropout_prob": 0.1,
        "hidden_dropout_prob": 0.1,
        "attention_probs_dropout_prob": 0.1,
    },
)
OPTIONS = [
    *("--epochs", "2", "--batch-size", "16", "--learning-rate", "0.01", "--hidden-size", "16"),
    *("--num-attention-heads", "2", "--key-size", "4", "--value-size", "8", "--intermediate-size", "8"),
]  # the like for the command line
CUES = {"good": "fine", "bad": "awful", "so so": "okay"}


@pytest.fixture(scope="module")
def one_thread() -> Iterator[None]:
    """One thread for torch: tiny models are several times slower on more, and killed runs have one, too."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def settings_with(**changes: Any) -> TrainingSettings:
    """`SETTINGS` with some of them changed."""
    return replace(SETTINGS, **changes)


def rows_of_texts(
    count: int = 72, labels: Iterable[str] = tuple(CUES), seed: int = 0
) -> list[dict[str, str]]:
    """Different short texts, most of which hold the word of their label; each label equally often."""
    chance = random.Random(seed)
    labels = list(labels)
    rows: list[dict[str, str]] = []
    for number in range(count):
        label = labels[number % len(labels)]
        words = chance.choices(
            ["the", "a", "of", "and", "food", "waiter", "meal", "evening"], k=chance.randint(1, 12)
        )
        if chance.random() < 0.8:
            words.insert(chance.randint(0, len(words)), CUES.get(label, label))
        rows.append({"text": " ".join([*words, str(number)]), "label": label})
    return rows


def write_csv(path: Path, rows: list[dict[str, str]]) -> str:
    """Write rows to a CSV file; gives its name as a source."""
    with path.open("w", newline="", encoding="utf-8") as handle:
        writer = csv.DictWriter(handle, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return str(path)


def contents(folder: Path) -> dict[str, bytes]:
    """The files of a model folder, but for the seconds that its training took."""
    files = {file.name: file.read_bytes() for file in folder.iterdir()}
    metrics = json.loads(files["metrics.json"])
    del metrics["train_seconds"]
    files["metrics.json"] = json.dumps(metrics).encode()
    files["README.md"] = re.sub(rb"took \d+ seconds", b"", files["README.md"])
    return files


def _die(*_: Any, **__: Any) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _die_at_step(step: int) -> dict[str, Any]:
    from transformers import TrainerCallback

    class Die(TrainerCallback):
        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            if state.global_step == step:
                _die()

    return {"callbacks": [Die()]}


def _die_in_half_a_file(name: str) -> None:
    """While torch writes `name` for the second time in this process, half of it is on the disk."""
    save = torch.save
    seen: list[str] = []

    def save_half(value: Any, file: str, *rest: Any, **more: Any) -> None:
        save(value, file, *rest, **more)
        seen.append(Path(file).name)
        if seen.count(name) == 2:
            os.truncate(file, os.path.getsize(file) // 2)
            _die()

    torch.save = save_half


def _die_after_part_of_a_removal(module: Any, name: str) -> None:
    """When `module` removes a folder with `name` in its own, one file is gone and the others are not."""

    class Removing:
        def __getattr__(self, attribute: str) -> Any:
            return getattr(shutil, attribute)

        def rmtree(self, path: Any, *rest: Any, **more: Any) -> None:
            files = [file for file in sorted(Path(path).rglob("*")) if file.is_file()]
            if name in Path(path).name and files:
                files[0].unlink()
                _die()
            shutil.rmtree(path, *rest, **more)

    module.shutil = Removing()


def _arm(moment: str) -> dict[str, Any]:
    """Let this process die at a moment of its run; gives further arguments of `train`."""
    import transformers.trainer_utils

    from identiformer import fitting, output, training

    if moment == "reading the data":
        training.split_data = _die
    elif moment.startswith("step "):
        return _die_at_step(int(moment.removeprefix("step ")))
    elif moment == "half of the optimizer":
        _die_in_half_a_file("optimizer.pt")
    elif moment == "before the seal":
        fitting.Seal.on_save = _die
    elif moment == "removing an old checkpoint":
        _die_after_part_of_a_removal(transformers.trainer_utils, "checkpoint-")
    elif moment == "after the last epoch":
        fitting.load_model = _die
    elif moment == "scoring":
        training.predict_probabilities = _die
    elif moment == "writing the card":
        training.model_card = _die
    elif moment == "writing the report":
        training.training_report = _die
    elif moment == "before the last rename":
        output.os.rename = _die
    elif moment == "removing the checkpoints":
        _die_after_part_of_a_removal(output, ".removed")
    else:
        raise ValueError(moment)
    return {}


def _run(source: str, output: str, settings: TrainingSettings, moment: str, options: dict[str, bool]) -> None:
    from identiformer.training import train

    torch.set_num_threads(1)
    train(source, output, settings, **options, **_arm(moment))


def killed(moment: str, source: str, output: Path, settings: TrainingSettings, **options: bool) -> None:
    """Train in a process of its own that is killed at a moment; fails if it comes to its end."""
    # A server that has imported everything once forks the processes: each import would take seconds.
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["identiformer.training", "runs"])
    process = context.Process(target=_run, args=(source, str(output), settings, moment, options))
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL, f"{moment}: the run ended with {process.exitcode}"
