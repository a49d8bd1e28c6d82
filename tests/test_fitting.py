"""The Trainer's wiring: the loss, the batches, and which checkpoint a run goes on from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from datasets import Dataset
from sklearn.utils.class_weight import compute_class_weight

from identiformer.batches import padded_batches
from identiformer.fitting import Seal, build_trainer, last_whole_checkpoint, loss_function
from identiformer.settings import TrainingSettings
from runs import settings_with
from small import small_classifier

LABELS = [0] * 7 + [1] * 3 + [2] * 1


def train_set(lengths: list[int]) -> Dataset:
    return Dataset.from_dict(
        {
            "input_ids": [[2] + [4] * (length - 1) for length in lengths],
            "token_type_ids": [[0] * length for length in lengths],
            "labels": [number % 2 for number in range(len(lengths))],
            "length": lengths,
        }
    )


def loss_of(settings: TrainingSettings, logits: torch.Tensor, labels: torch.Tensor) -> float:
    loss = loss_function(settings, Dataset.from_dict({"labels": LABELS}), 3)
    return float(loss({"logits": logits}, labels, num_items_in_batch=5))


def test_without_weights_the_loss_is_the_mean_cross_entropy():
    logits, labels = torch.randn(5, 3, generator=torch.manual_seed(0)), torch.tensor([0, 0, 1, 2, 0])
    expected = -logits.log_softmax(-1)[torch.arange(5), labels].mean()
    assert loss_of(settings_with(), logits, labels) == pytest.approx(float(expected))


def test_balanced_weights_are_those_of_scikit_learn():
    logits, labels = torch.randn(5, 3, generator=torch.manual_seed(0)), torch.tensor([0, 0, 1, 2, 0])
    weights = torch.tensor(compute_class_weight("balanced", classes=np.arange(3), y=np.array(LABELS)))
    losses = -logits.double().log_softmax(-1)[torch.arange(5), labels]
    expected = (weights[labels] * losses).sum() / weights[labels].sum()
    assert loss_of(settings_with(class_weights="balanced"), logits, labels) == pytest.approx(float(expected))
    assert float(expected) != pytest.approx(float(losses.mean()))


def test_smoothing_spreads_a_share_of_the_target():
    logits, labels = torch.randn(4, 3, generator=torch.manual_seed(1)), torch.tensor([2, 1, 1, 0])
    target = 0.7 * torch.eye(3)[labels] + 0.3 / 3
    expected = -(target * logits.log_softmax(-1)).sum(-1).mean()
    assert loss_of(settings_with(label_smoothing=0.3), logits, labels) == pytest.approx(float(expected))


def test_batches_are_padded_and_know_nothing_of_lengths():
    _, tokenizer = small_classifier()
    batch = padded_batches(tokenizer)([train_set([3, 5])[0], train_set([3, 5])[1]])
    assert set(batch) == {"input_ids", "token_type_ids", "attention_mask", "labels"}
    assert batch["attention_mask"].tolist() == [[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]]


def test_texts_of_similar_length_go_together_in_another_order_each_epoch(tmp_path: Path):
    model, tokenizer = small_classifier()
    lengths = list(np.random.default_rng(0).integers(1, 24, size=100).tolist())
    data = train_set(lengths)
    trainer = build_trainer(model, tokenizer, data, data, settings_with(batch_size=5), tmp_path, [])
    batches = [batch["attention_mask"].sum(dim=1) for batch in trainer.get_train_dataloader()]
    assert sorted(torch.cat(batches).tolist()) == sorted(lengths)
    spread = np.mean([int(batch.max() - batch.min()) for batch in batches])
    shuffled = np.random.default_rng(1).permutation(lengths).reshape(20, 5)
    assert spread < np.mean(np.ptp(shuffled, axis=1)) / 2
    again = [batch["attention_mask"].sum(dim=1) for batch in trainer.get_train_dataloader()]
    assert [batch.tolist() for batch in again] != [batch.tolist() for batch in batches]


def checkpoint(folder: Path, step: int, best: int, sealed: bool = True) -> Path:
    path = folder / f"checkpoint-{step}"
    path.mkdir()
    (path / "model.safetensors").write_bytes(b"weights")
    state = {"global_step": step, "best_global_step": best, "max_steps": 12, "num_train_epochs": 3}
    (path / "trainer_state.json").write_text(json.dumps(state))
    if sealed:
        arguments: Any = type("Arguments", (), {"output_dir": str(folder)})()
        Seal().on_save(arguments, type("State", (), {"global_step": step})())  # type: ignore[arg-type]
    return path


def test_the_last_whole_checkpoint_is_the_one_to_go_on_from(tmp_path: Path):
    assert last_whole_checkpoint(tmp_path) is None
    nine = checkpoint(tmp_path, 9, best=9)
    checkpoint(tmp_path, 10, best=9)  # by number: as text, "9" comes after "10"
    checkpoint(tmp_path, 11, best=9, sealed=False)
    assert last_whole_checkpoint(tmp_path) == tmp_path / "checkpoint-10"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["checkpoint-10", "checkpoint-9"]
    (nine / "model.safetensors").write_bytes(b"")
    # Nothing to go on from: the weights that the tenth step calls the best are gone.
    assert last_whole_checkpoint(tmp_path) is None
    assert list(tmp_path.iterdir()) == []
