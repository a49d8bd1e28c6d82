"""Training runs as a whole: what they write, that they repeat, and that they go on after a kill at any moment."""

from __future__ import annotations

import json
import os
import random
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from transformers import TrainerCallback

from identiformer import InputError, TrainingSettings, classification_metrics, load_classifier, train
from identiformer.cli import main
from identiformer.data import encode_labels, load_source, split_data
from identiformer.prediction import predict_probabilities
from runs import OPTIONS, SETTINGS, contents, killed, rows_of_texts, settings_with, write_csv
from runs import one_thread as one_thread  # a fixture

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write_csv(tmp_path_factory.mktemp("data") / "texts.csv", rows_of_texts())


@pytest.fixture(scope="module")
def unbroken(source: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model folder, trained without a stop."""
    folder = tmp_path_factory.mktemp("unbroken") / "model"
    train(source, folder, SETTINGS)
    return folder


def metrics_of(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "metrics.json").read_text(encoding="utf-8"))


def log_of(folder: Path) -> list[dict[str, Any]]:
    lines = (folder / "training_log.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def names_in(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


class At(TrainerCallback):
    """Raises at the end of a step."""

    def __init__(self, step: int, error: BaseException):
        self.step, self.error = step, error

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if state.global_step == self.step:
            raise self.error


# What a run writes


def test_the_folder_holds_what_the_contract_says_and_nothing_lies_beside_it(unbroken: Path):
    assert names_in(unbroken) == [
        "README.md", "config.json", "metrics.json", "model.safetensors", "report.html", "tokenizer.json",
        "tokenizer_config.json", "training_log.jsonl", "training_run.json",
    ]  # fmt: skip
    assert names_in(unbroken.parent) == ["model"]


def test_metrics_fit_the_contract(unbroken: Path):
    metrics = metrics_of(unbroken)
    contract = {"seed", "examples", "epochs", "best_epoch", "train_seconds", "valid", "test"}
    assert set(metrics) == contract | {"skipped", "max_length", "identifiable"}
    assert metrics["seed"] == 0
    assert set(metrics["examples"]) == {"train", "valid", "test"}
    assert sum(metrics["examples"].values()) == 72
    assert 1 <= metrics["best_epoch"] <= metrics["epochs"] == 4
    assert metrics["train_seconds"] > 0
    for split in ("valid", "test"):
        assert set(metrics[split]) == {
            "accuracy", "macro_f1", "log_loss", "calibration_error", "confusion_matrix", "labels"
        }  # fmt: skip
        assert metrics[split]["labels"] == ["bad", "good", "so so"]
        assert sum(map(sum, metrics[split]["confusion_matrix"])) == metrics["examples"][split]
    for name in ("share", "global"):
        assert set(metrics["identifiable"][name]) == {"free", "simplex", "generatable"}


def test_the_log_has_a_line_an_epoch(unbroken: Path):
    log = log_of(unbroken)
    assert [entry["epoch"] for entry in log] == [1, 2, 3, 4]
    for entry in log:
        assert list(entry) == [
            "epoch", "step", "learning_rate", "gradient_norm", "train_loss", "valid_accuracy", "valid_macro_f1",
            "valid_log_loss",
        ]  # fmt: skip


def test_the_best_epoch_is_the_one_saved(tmp_path: Path):
    # A learning rate so high that accuracy goes up and down, and more texts to tell epochs apart.
    source = write_csv(tmp_path / "texts.csv", rows_of_texts(120))
    settings = settings_with(epochs=5, patience=5, learning_rate=0.1, valid_fraction=0.3)
    metrics = train(source, tmp_path / "model", settings)
    log = log_of(tmp_path / "model")
    logged = [entry["valid_accuracy"] for entry in log]
    assert metrics["best_epoch"] == 1 + int(np.argmax(logged))
    assert metrics["best_epoch"] < 5, "the last epoch would be saved anyway: choose other settings"
    assert metrics["valid"]["accuracy"] == max(logged)

    model, tokenizer = load_classifier(str(tmp_path / "model"))
    valid = split_data(load_source(source), seed=0, valid_fraction=0.3).splits["valid"]
    labels = ["bad", "good", "so so"]
    probabilities = predict_probabilities(model, tokenizer, list(valid["text"]))
    assert classification_metrics(probabilities, encode_labels(valid, labels), labels) == metrics["valid"]


def test_training_stops_when_patience_ends(source: str, tmp_path: Path):
    metrics = train(source, tmp_path / "model", settings_with(epochs=30, patience=2, learning_rate=1e-7))
    assert metrics["epochs"] == metrics["best_epoch"] + 2 < 30


# Repeating


def test_a_seed_repeats_to_the_bit_and_another_differs(source: str, unbroken: Path, tmp_path: Path):
    train(source, tmp_path / "same" / "model", SETTINGS)
    assert contents(tmp_path / "same" / "model") == contents(unbroken)
    train(source, tmp_path / "other" / "model", settings_with(seed=1))
    other = contents(tmp_path / "other" / "model")
    assert other["model.safetensors"] != contents(unbroken)["model.safetensors"]
    assert other["metrics.json"] != contents(unbroken)["metrics.json"]


def test_the_process_is_left_as_it_was(source: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]):
    def state() -> list[Any]:
        return [
            random.getstate(),
            np.random.get_state()[1].tolist(),  # type: ignore[index]
            torch.get_rng_state().tolist(),
            torch.are_deterministic_algorithms_enabled(),
            torch.is_deterministic_algorithms_warn_only_enabled(),
            torch.backends.cudnn.deterministic,
            torch.backends.cudnn.benchmark,
            transformers.utils.logging.get_verbosity(),
            transformers.utils.logging.is_progress_bar_enabled(),
            dict(os.environ),
        ]

    before = state()
    train(source, tmp_path / "model", settings_with(epochs=1))
    assert state() == before
    with pytest.raises(RuntimeError, match="in between"):
        train(source, tmp_path / "b", settings_with(), callbacks=[At(1, RuntimeError("in between"))])
    assert state() == before
    assert capfd.readouterr() == ("", "")  # nothing is printed, by nobody


# Going on after a stop


@pytest.mark.slow
def test_a_run_killed_again_and_again_ends_as_an_unbroken_one(source: str, unbroken: Path, tmp_path: Path):
    """72 texts: 4 steps an epoch, 16 in all."""
    target = tmp_path / "model"
    killed("reading the data", source, target, SETTINGS)
    with pytest.raises(InputError, match="holds a run that was stopped"):
        train(source, target, SETTINGS)
    for moment in (
        "step 3", "half of the optimizer", "step 7", "removing an old checkpoint", "step 14", "before the seal",
        "after the last epoch", "scoring", "writing the card", "writing the report", "before the last rename",
    ):  # fmt: skip
        killed(moment, source, target, SETTINGS, resume=True)
        assert not target.exists()
    killed("removing the checkpoints", source, target, SETTINGS, resume=True)
    assert contents(target) == contents(unbroken)  # it was whole before the rest was removed
    said: list[str] = []
    train(source, target, SETTINGS, resume=True, say=said.append)
    assert said == [f"{target} was finished already"]
    assert contents(target) == contents(unbroken)
    assert names_in(tmp_path) == ["model"]


@pytest.mark.slow
def test_a_run_killed_after_an_early_stop_trains_no_further(source: str, tmp_path: Path):
    settings = settings_with(epochs=6, patience=1, learning_rate=1e-7)
    train(source, tmp_path / "unbroken" / "model", settings)
    assert metrics_of(tmp_path / "unbroken" / "model")["epochs"] == 2
    target = tmp_path / "model"
    for moment in ("after the last epoch", "scoring"):
        killed(moment, source, target, settings, resume=True)
    train(source, target, settings, resume=True)
    assert contents(target) == contents(tmp_path / "unbroken" / "model")


def test_checkpoints_that_are_not_whole_are_not_gone_on_from(source: str, unbroken: Path, tmp_path: Path):
    target, checkpoints = tmp_path / "model", tmp_path / "model.unfinished" / "checkpoints"
    damages = {
        15: lambda last: (last / "optimizer.pt").unlink(),
        14: lambda last: os.truncate(last / "model.safetensors", 100),
        13: lambda last: os.truncate(last / "trainer_state.json", 10),
        11: lambda last: os.truncate(last / "whole.json", 3),
    }
    for step, damage in damages.items():
        with pytest.raises(RuntimeError, match="stopped"):
            train(source, target, SETTINGS, resume=True, callbacks=[At(step, RuntimeError("stopped"))])
        damage(max(checkpoints.iterdir(), key=lambda path: int(path.name.rsplit("-", 1)[1])))
    train(source, target, SETTINGS, resume=True)
    assert contents(target) == contents(unbroken)


def test_seconds_of_training_add_up_over_stops(source: str, tmp_path: Path):
    with pytest.raises(RuntimeError, match="stopped"):
        train(source, tmp_path / "m", SETTINGS, callbacks=[At(9, RuntimeError("stopped"))])
    state = json.loads((tmp_path / "m.unfinished/checkpoints/checkpoint-8/trainer_state.json").read_text())
    before = state["stateful_callbacks"]["Clock"]["attributes"]["before"]
    assert train(source, tmp_path / "m", SETTINGS, resume=True)["train_seconds"] > before > 0


def test_another_run_is_not_gone_on_with(source: str, tmp_path: Path):
    target = tmp_path / "model"
    with pytest.raises(KeyboardInterrupt):
        train(source, target, SETTINGS, callbacks=[At(5, KeyboardInterrupt())])
    assert names_in(tmp_path) == ["model.unfinished"]
    with pytest.raises(InputError, match=r"other settings \(seed, epochs\): give the same ones"):
        train(source, target, settings_with(epochs=5, seed=3), resume=True)
    other = write_csv(tmp_path / "other.csv", rows_of_texts(seed=1))
    with pytest.raises(InputError, match="the data changed since the run was stopped"):
        train(other, target, SETTINGS, resume=True)
    # Checkpoints of which nobody knows where they are from are no better.
    (tmp_path / "model.unfinished" / "training_run.json").unlink()
    metrics = train(other, target, settings_with(epochs=1), resume=True)
    assert metrics["epochs"] == 1


def test_a_finished_folder_is_resumed_only_by_its_own_run(source: str, unbroken: Path):
    before = contents(unbroken)
    assert train(source, unbroken, SETTINGS, resume=True) == metrics_of(unbroken)
    with pytest.raises(InputError, match="exists already"):
        train(source, unbroken, settings_with(seed=1), resume=True)
    with pytest.raises(InputError, match="exists already"):
        train(source, unbroken, SETTINGS)
    assert contents(unbroken) == before
    assert names_in(unbroken.parent) == ["model"]


def test_overwrite_replaces_a_model_and_only_a_model(source: str, tmp_path: Path):
    target = tmp_path / "model"
    train(source, target, settings_with(epochs=1))
    first = contents(target)
    (target / "old").write_text("")
    train(source, target, settings_with(epochs=1, seed=1), overwrite=True)
    assert set(contents(target)) == set(first)
    assert contents(target) != first
    home = tmp_path / "home"
    home.mkdir()
    (home / "letter.txt").write_text("mine")
    with pytest.raises(InputError, match="home is no model folder, and is not replaced"):
        train(source, home, settings_with(epochs=1), overwrite=True)
    assert names_in(home) == ["letter.txt"]
    texts = tmp_path / "texts.csv"
    shutil.copy(source, texts)
    shutil.copy(source, target / "texts.csv")
    for overwrite in (False, True):
        with pytest.raises(InputError, match=r"texts\.csv is no folder, and is not replaced"):
            train(str(texts), texts, settings_with(epochs=1), overwrite=overwrite)
    with pytest.raises(InputError, match=r"texts\.csv lies in .*, which would be replaced"):
        train(str(target / "texts.csv"), target, settings_with(epochs=1), overwrite=True)
    assert texts.read_bytes() == (target / "texts.csv").read_bytes() == Path(source).read_bytes()


def test_two_runs_at_once_are_refused(source: str, tmp_path: Path):
    class Second(TrainerCallback):
        def on_train_begin(self, *_: Any, **__: Any) -> None:
            for overwrite, resume in ((False, False), (True, False), (False, True)):
                with pytest.raises(InputError, match="another run is writing"):
                    train(source, tmp_path / "model", SETTINGS, overwrite=overwrite, resume=resume)

    train(source, tmp_path / "model", settings_with(epochs=1), callbacks=[Second()])
    assert names_in(tmp_path) == ["model"]


def test_ctrl_c_keeps_what_there_is_and_says_how_to_go_on(
    source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    def interrupted(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    arguments = ["train", source, "--output", str(tmp_path / "model"), *OPTIONS]
    monkeypatch.setattr("identiformer.training.predict_probabilities", interrupted)
    with pytest.raises(SystemExit) as stop:
        main(arguments)
    assert stop.value.code == 130
    assert capsys.readouterr() == (
        "",
        "stopped: the same command with --resume goes on from the last whole epoch\n",
    )
    monkeypatch.undo()
    with pytest.raises(SystemExit) as stop:
        main([*arguments, "--resume"])
    assert stop.value.code == 0
    assert names_in(tmp_path) == ["model"]


# Kinds of data and settings


@pytest.mark.parametrize("tokenizer", ["word", "bpe"])
def test_pairs_of_texts(tokenizer: Any, tmp_path: Path):
    rows = [{**row, "text_pair": f"{row['label']} it was"} for row in rows_of_texts(40)]
    source = write_csv(tmp_path / "pairs.csv", rows)
    settings = settings_with(epochs=1, tokenizer=tokenizer, vocab_size=400)
    train(source, tmp_path / "model", settings)
    model, saved = load_classifier(str(tmp_path / "model"))
    assert model.config.takes_text_pair is True
    assert saved("a meal", "so so")["token_type_ids"][-1] == 1


def test_a_single_validation_text_and_a_batch_of_more_than_all(tmp_path: Path):
    source = write_csv(tmp_path / "texts.csv", rows_of_texts(20, ["good", "bad"]))
    settings = settings_with(epochs=2, batch_size=1000, valid_fraction=0.05, test_fraction=0.05)
    metrics = train(source, tmp_path / "model", settings)
    assert metrics["examples"]["valid"] == 1  # so that a label is absent from it
    assert metrics["valid"]["labels"] == ["bad", "good"]


def test_texts_of_unknown_words_only(tmp_path: Path):
    """Each text is a word of its own, so that at a minimum frequency of 2 only the labels' words are known."""
    rows = [{"text": "ab"[n % 2] if n < 8 else f"word{n}", "label": "ab"[n % 2]} for n in range(40)]
    source = write_csv(tmp_path / "texts.csv", rows)
    train(source, tmp_path / "model", settings_with(epochs=1, min_frequency=2))
    model, tokenizer = load_classifier(str(tmp_path / "model"))
    assert len(tokenizer) == 6
    assert tokenizer.model_max_length == 2
    # A zero-width space is no token at all.
    assert predict_probabilities(model, tokenizer, ["\u200b", "unknown", "word " * 50]).shape == (3, 2)


def test_truncation_and_sizes_are_said(source: str, tmp_path: Path):
    said: list[str] = []
    settings = TrainingSettings(
        epochs=1, batch_size=16, max_length=6, coverage=0.9, model={"key_size": 4, "num_attention_heads": 2}
    )
    metrics = train(source, tmp_path / "model", settings, say=said.append)
    assert metrics["max_length"] == 6
    assert sum("texts are longer than 6 tokens and are truncated" in line for line in said) == 3
    assert any("texts of up to 6 tokens are identifiable on the simplex" in line for line in said)
    assert load_classifier(str(tmp_path / "model"))[0].config.value_size == 5


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"max_length": 1}, "--max-length is 1: give at least 2"),
        (
            {"model": {"hiden_size": 3}},
            "no setting hiden_size to choose: there are attention_probs_dropout_prob",
        ),
        ({"model": {"vocab_size": 3}}, "no setting vocab_size to choose"),
        ({"model": {"hidden_size": 0}}, "hidden_size is 0; it must be at least 1"),
        ({"model": {"hidden_size": "wide"}}, "hidden_size"),
        ({"model": {"hidden_dropout_prob": 1.5}}, "hidden_dropout_prob is 1.5"),
        ({"coverage": 2.0, "model": {}}, "--coverage is 2.0"),
        ({"valid_fraction": 0.0}, "fractions must be above 0"),
        ({"learning_rate": 1e30}, "training diverged .* lower --learning-rate"),
    ],
)
def test_settings_that_cannot_be_used(changes: dict[str, Any], message: str, source: str, tmp_path: Path):
    with pytest.raises(InputError, match=message) as error:
        train(source, tmp_path / "model", settings_with(**changes))
    assert "\n" not in str(error.value)
    assert not (tmp_path / "model").exists()
