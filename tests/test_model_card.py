"""The model card: its numbers, odd names, and that its way of loading the model works."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from datasets import Dataset

from identiformer import train
from identiformer.data import Columns, TextData
from identiformer.model import IdentiformerConfig
from identiformer.model_card import model_card
from runs import SETTINGS, rows_of_texts, settings_with, write_csv

ODD = ["a|b", "`tick`", "``", "two\nlines", "# heading", "\x1b[31mred", "| --- |"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    base = tmp_path_factory.mktemp("card")
    target = base / "my model's"
    train(write_csv(base / "texts.csv", rows_of_texts(40)), target, settings_with(epochs=2))
    return target


def table(card: str, header: str) -> list[list[str]]:
    """The rows of the table whose header begins so; bars that are escaped end no cell."""
    lines = card.splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith(f"| {header}"))
    rows: list[list[str]] = []
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            break
        rows.append([cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]])
    return rows


def test_the_front_matter_is_what_hubs_read(folder: Path):
    _, front, body = (folder / "README.md").read_text(encoding="utf-8").split("---\n", 2)
    assert yaml.safe_load(front) == {
        "library_name": "transformers",
        "pipeline_tag": "text-classification",
        "tags": ["identiformer"],
    }
    assert body.lstrip().startswith("# my model's\n")


def test_every_number_stands_in_it(folder: Path):
    card = (folder / "README.md").read_text(encoding="utf-8")
    metrics = json.loads((folder / "metrics.json").read_text(encoding="utf-8"))
    assert table(card, "split | texts") == [[name, str(count)] for name, count in metrics["examples"].items()]
    names = ("accuracy", "macro_f1", "log_loss", "calibration_error")
    assert table(card, "split | accuracy") == [
        [split, *(f"{metrics[split][name]:.4f}" for name in names)] for split in ("valid", "test")
    ]
    assert [row[0] for row in table(card, "label |")] == ["`bad`", "`good`", "`so so`"]
    assert sum(int(row[1]) for row in table(card, "label |")) == metrics["examples"]["test"]
    outright, nearby = (metrics["identifiable"][name] for name in ("global", "share"))
    assert [[level, *shares] for level, _, *shares in table(card, "level")] == [
        [level, f"{outright[level]:.1%}", f"{nearby[level]:.1%}"]
        for level in ("free", "simplex", "generatable")
    ]
    settings = dict(table(card, "setting"))
    assert settings["learning_rate"] == "0.01"
    assert settings["value_size"] == "8"
    assert f"Epoch {metrics['best_epoch']} of {metrics['epochs']} was best" in card


def test_precision_and_recall_of_a_label():
    scores = {
        "accuracy": 0.5, "macro_f1": 0.5, "log_loss": 0.5, "calibration_error": 0.5, "labels": ["a", "b"],
        "confusion_matrix": [[3, 1], [2, 0]],
    }  # fmt: skip
    card = card_of(["a", "b"], scores)
    # a: 3 of 5 predicted, 3 of 4 true; b: never right
    assert table(card, "label |") == [
        ["`a`", "4", "0.6000", "0.7500", "0.6667"],
        ["`b`", "2", "0.0000", "0.0000", "0.0000"],
    ]
    assert [shares for _, _, *shares in table(card, "level")] == [
        ["25.0%", "25.0%"], ["50.0%", "50.0%"], ["75.0%", "100.0%"],
    ]  # fmt: skip


def card_of(labels: list[str], scores: dict, note: str = "", column: str = "text") -> str:
    empty = Dataset.from_dict({"text": []})
    data = TextData(
        dict.fromkeys(("train", "valid", "test"), empty), Columns(column, "label", None), [note], {}, "s"
    )
    metrics = {
        "examples": {"train": 8, "valid": 1, "test": 1}, "best_epoch": 1, "epochs": 2, "train_seconds": 3.0,
        "valid": scores, "test": scores,
        "identifiable": {
            "share": {"free": 0.25, "simplex": 0.5, "generatable": 1.0},
            "global": {"free": 0.25, "simplex": 0.5, "generatable": 0.75}, "tied": 0.0, "longest": 9,
        },
    }  # fmt: skip
    return model_card(
        "m", "s`s", SETTINGS, data, IdentiformerConfig(id2label=dict(enumerate(labels))), metrics
    )


def test_odd_names_break_nothing():
    scores = dict.fromkeys(("accuracy", "macro_f1", "log_loss", "calibration_error"), 0.5)
    scores |= {"labels": ODD, "confusion_matrix": [[1] * len(ODD)] * len(ODD)}  # type: ignore[assignment]
    card = card_of(ODD, scores, note="a note\n# with a heading and <b>tags</b>", column="te|xt\n`")
    assert [row[0] for row in table(card, "label |")] == [
        r"`a\|b`", "`` `tick` ``", "``` `` ```", "`two lines`", "`# heading`", "`\ufffd[31mred`", r"`\| --- \|`"
    ]  # fmt: skip
    assert all(len(row) == 5 for row in table(card, "label |"))
    headings = [line for line in card.splitlines() if line.startswith("#")]
    assert headings == [
        "# m", "## Intended use", "## Data", "## Metrics", "## Identifiability", "## Settings", "## How to load it"
    ]  # fmt: skip
    assert "\x1b" not in card
    assert "- a note \\# with a heading and \\<b\\>tags\\</b\\>" in card
    assert "with 7 labels (`a|b`, " in card  # outside of tables, a bar is a bar


def test_many_labels_are_not_all_shown():
    labels = [f"label{n}" for n in range(130)]
    scores = dict.fromkeys(("accuracy", "macro_f1", "log_loss", "calibration_error"), 0.5)
    scores |= {"labels": labels, "confusion_matrix": [[0] * 130] * 130}  # type: ignore[assignment]
    card = card_of(labels, scores)
    assert len(table(card, "label |")) == 100
    assert "30 more labels are in metrics.json" in card


@pytest.mark.slow
def test_its_way_of_loading_the_model_works(folder: Path):
    card = (folder / "README.md").read_text(encoding="utf-8")
    (snippet,) = re.findall(r"```python\n(.*?)```", card, flags=re.DOTALL)
    (place,) = re.findall(r'pipeline\("text-classification", (.*)\)', snippet)
    assert ast.literal_eval(place) == "path/to/my model's"
    program = snippet.replace(place, repr(str(folder)))
    result = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )
    (prediction,) = ast.literal_eval(result.stdout)
    assert prediction["label"] in ("good", "bad", "so so")
    assert 1 / 3 <= prediction["score"] <= 1
    assert "identiformer predict 'my model'\"'\"'s' --text" in card  # as a shell reads it
