"""Loading our own models, other people's, and folders that are none."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import threading
from functools import partial
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import datasets.config
import huggingface_hub
import pytest
import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import (
    AutoModel,
    BertConfig,
    BertForMaskedLM,
    BertForSequenceClassification,
    BertModel,
    GPT2Config,
    GPT2ForSequenceClassification,
    PreTrainedModel,
    PreTrainedTokenizerFast,
    RobertaConfig,
    RobertaForSequenceClassification,
    T5Config,
    T5EncoderModel,
    XLNetConfig,
    XLNetModel,
)

from architectures import build
from identiformer import InputError, load_classifier
from identiformer.data import load_source
from identiformer.explaining.explanation import load_to_explain
from identiformer.hub import hub_or_cache
from identiformer.loading import label_list, load_model, load_to_fine_tune, load_tokenizer
from identiformer.prediction import predict_probabilities
from small import TEXTS, small_classifier

WORDS = ["[PAD]", "[UNK]", "good", "bad", "food", "the", "was", "[EOS]"]
SIZES: dict[str, Any] = {
    "vocab_size": len(WORDS), "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2,
    "intermediate_size": 8, "max_position_embeddings": 11, "pad_token_id": 0,
}  # fmt: skip

LABELS: dict[str, Any] = {"num_labels": 3}


def words_tokenizer(**options: Any) -> PreTrainedTokenizerFast:
    tokenizer = Tokenizer(models.WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="[UNK]", **options)


def saved(folder: Path, model: Any, tokenizer: Any) -> str:
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)


@pytest.fixture
def ours(tmp_path: Path) -> Path:
    model, tokenizer = small_classifier()
    return Path(saved(tmp_path / "ours", model, tokenizer))


def test_our_own_model_comes_back_ready_for_use(ours: Path):
    model, tokenizer = load_classifier(str(ours))
    original, _ = small_classifier()
    assert not model.training
    assert label_list(model) == ["bad", "good"]
    assert tokenizer.model_max_length == 24
    for name, weights in original.state_dict().items():
        assert torch.equal(model.state_dict()[name], weights)


@pytest.mark.parametrize("options", [{}, {"model_max_length": 512}], ids=["no maximum", "too high a maximum"])
@pytest.mark.parametrize("kind", ["bert", "roberta"])
def test_other_peoples_texts_are_truncated_where_their_positions_end(
    kind: str, options: dict[str, Any], tmp_path: Path
):
    """RoBERTa counts positions from the number of its padding on: 11 of them are enough for 10 tokens."""
    torch.manual_seed(0)
    model = (
        BertForSequenceClassification(BertConfig(**SIZES, **LABELS))
        if kind == "bert"
        else RobertaForSequenceClassification(RobertaConfig(**SIZES, **LABELS))
    )
    name = saved(tmp_path / "model", model, words_tokenizer(pad_token="[PAD]", **options))
    loaded, tokenizer = load_classifier(name)
    assert tokenizer.model_max_length == (11 if kind == "bert" else 10)
    probabilities = predict_probabilities(loaded, tokenizer, ["good " * 100, "the food was bad", "x"])
    assert probabilities.shape == (3, 3)


def test_a_model_without_padding_gets_one(tmp_path: Path):
    torch.manual_seed(0)
    config = GPT2Config(vocab_size=len(WORDS), n_positions=9, n_embd=8, n_layer=1, n_head=2)
    name = saved(
        tmp_path / "model", GPT2ForSequenceClassification(config), words_tokenizer(eos_token="[EOS]")
    )
    model, tokenizer = load_classifier(name)
    texts = ["good", "the food was bad", "good " * 20]
    together = predict_probabilities(model, tokenizer, texts)
    for text, row in zip(texts, together, strict=True):
        assert predict_probabilities(model, tokenizer, [text])[0] == pytest.approx(row, abs=1e-5)


def test_probabilities_keep_the_order_of_the_texts():
    model, tokenizer = small_classifier()
    done: list[int] = []
    together = predict_probabilities(model, tokenizer, TEXTS, batch_size=3, progress=done.append)
    assert done == [3, 1]
    for text, row in zip(TEXTS, together, strict=True):
        assert predict_probabilities(model, tokenizer, [text])[0] == pytest.approx(row, abs=1e-6)


def test_a_model_that_diverged_is_said_to_have(ours: Path):
    model, tokenizer = load_classifier(str(ours))
    for weights in model.parameters():
        weights.data.fill_(float("nan"))
    with pytest.raises(InputError, match="gives no numbers"):
        predict_probabilities(model, tokenizer, TEXTS)


def refusal(name: str | Path) -> str:
    with pytest.raises(InputError) as error:
        load_classifier(str(name))
    assert "\n" not in str(error.value)
    return str(error.value)


def test_what_is_no_model_is_refused_in_one_line(tmp_path: Path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("")
    assert "is not a model folder: it has no config.json" in refusal(tmp_path / "empty")
    assert "is a file; a model is a folder" in refusal(tmp_path / "file")
    assert "could be loaded from nowhere/at-all" in refusal("nowhere/at-all")
    assert "missing does not exist: give a model folder" in refusal(tmp_path / "missing")
    assert "cannot be read (File name too long)" in refusal("m" * 5000)


@pytest.mark.parametrize(
    "name", ["./typo", "../typo", "~/typo", "a/b/c", "folder/", "typo\\model", "C:typo", "two words", "Größe"]
)
def test_what_can_only_be_a_path_is_not_looked_for_on_a_hub(name: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("identiformer.hub.hub_or_cache", None)  # would fail
    monkeypatch.setattr("identiformer.loading.hub_or_cache", None)
    for load in (load_classifier, load_model, load_tokenizer, load_to_explain):
        with pytest.raises(InputError, match=re.escape(f"{name} does not exist: give a model folder")):
            load(name)


def test_a_typing_error_beside_other_models_is_not_looked_for_on_a_hub(
    ours: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(ours.parent.parent)
    monkeypatch.setattr("identiformer.loading.hub_or_cache", None)
    name = f"{ours.parent.name}/our"
    assert refusal(name) == (
        f"{name} does not exist: the models in {ours.parent.name} are ours; give one of them"
    )


@pytest.fixture
def silent_hub(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hub at which nobody answers; who tries again waits, and fails the test."""

    def wait(_: float) -> None:
        raise AssertionError("tried again")

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(huggingface_hub.constants, "ENDPOINT", f"http://127.0.0.1:{port}")
    monkeypatch.setattr("huggingface_hub.utils._http.time.sleep", wait)


@pytest.mark.usefixtures("silent_hub")
def test_a_hub_that_does_not_answer_is_asked_once(ours: Path):
    for load in (load_classifier, load_model, load_tokenizer, load_to_explain):
        with pytest.raises(
            InputError, match=r"could be loaded from nobody/nothing .*there is none of that name"
        ):
            load("nobody/nothing")
    with pytest.raises(InputError, match="hf:nobody/nothing cannot be fetched: the hub cannot be reached"):
        load_source("hf:nobody/nothing")
    assert not huggingface_hub.constants.HF_HUB_OFFLINE
    assert not datasets.config.HF_HUB_OFFLINE
    load_classifier(str(ours))  # a folder needs no hub


def test_a_hub_that_answers_is_not_switched_off(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", False)
    server = HTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler)  # says that it does not know the method
    server.RequestHandlerClass.log_message = lambda *_: None
    thread = threading.Thread(target=server.handle_request)
    thread.start()
    monkeypatch.setattr(huggingface_hub.constants, "ENDPOINT", f"http://127.0.0.1:{server.server_port}")
    with hub_or_cache():
        assert not huggingface_hub.constants.HF_HUB_OFFLINE
    thread.join()
    server.server_close()


@pytest.mark.parametrize("number", [float("nan"), float("inf"), -float("inf")])
def test_weights_that_are_no_numbers_are_named(number: float, ours: Path):
    model, tokenizer = load_classifier(str(ours))
    name = "encoder.layers.1.attention.key.weight"
    with torch.no_grad():
        model.get_parameter(name)[2, 3] = number
    size = model.get_parameter(name).numel()
    saved(ours, model, tokenizer)
    message = f"{ours} has weights that are no numbers: 1 of {size} in {name} are NaN or infinite; its training must"
    for load in (load_classifier, load_model, load_to_explain, partial(load_to_fine_tune, labels=["a", "b"])):
        with pytest.raises(InputError, match=re.escape(message)):
            load(str(ours))


def cut(file: Path) -> None:
    os.truncate(file, file.stat().st_size // 2)


def edit(file: Path, **changes: Any) -> None:
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda folder: cut(folder / "model.safetensors"), "could be loaded"),
        (lambda folder: (folder / "model.safetensors").write_bytes(b"no weights"), "could be loaded"),
        (lambda folder: (folder / "model.safetensors").unlink(), "could be loaded"),
        (lambda folder: cut(folder / "config.json"), "could be loaded"),
        (lambda folder: (folder / "config.json").write_text("[]"), "could be loaded"),
        (lambda folder: edit(folder / "config.json", model_type="unheard-of"), "could be loaded"),
        (lambda folder: edit(folder / "config.json", hidden_size=-3), "hidden_size is -3"),
        (lambda folder: edit(folder / "config.json", hidden_size=8), "could be loaded"),
        (lambda folder: cut(folder / "tokenizer.json"), "could be loaded"),
        (lambda folder: (folder / "tokenizer.json").unlink(), "could be loaded"),
    ],
)
def test_a_damaged_model_is_refused_in_one_line(damage: Any, message: str, ours: Path):
    damage(ours)
    assert message in refusal(ours)


def test_an_encoder_without_a_classifier_is_no_classifier(ours: Path, tmp_path: Path):
    """transformers would give it random weights, and every prediction would be one of chance."""
    AutoModel.from_pretrained(ours).save_pretrained(tmp_path / "encoder")
    shutil.copy(ours / "tokenizer.json", tmp_path / "encoder")
    shutil.copy(ours / "tokenizer_config.json", tmp_path / "encoder")
    assert "is no trained text classifier: it has no weights for classifier" in refusal(tmp_path / "encoder")


@pytest.mark.parametrize(
    "changes", [{"num_labels": 1}, {"num_labels": 3, "problem_type": "multi_label_classification"}]
)
def test_models_that_choose_no_label_are_refused(changes: dict[str, Any], tmp_path: Path):
    model = BertForSequenceClassification(BertConfig(**SIZES, **changes))
    name = saved(tmp_path / "model", model, words_tokenizer(pad_token="[PAD]"))
    assert "does not choose one label of several" in refusal(name)


def _saved(model: PreTrainedModel, folder: Path) -> str:
    _, tokenizer = small_classifier()
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)


def test_any_model_is_loaded_as_what_it_was_saved(tmp_path: Path):
    t5 = T5Config(vocab_size=99, d_model=8, d_kv=4, d_ff=8, num_layers=1, num_heads=2)
    bert = BertConfig(
        vocab_size=99, hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=8
    )
    classifier, _ = small_classifier()
    for model in (T5EncoderModel(t5), BertForMaskedLM(bert), BertModel(bert), classifier):
        loaded, _ = load_model(_saved(model, tmp_path / type(model).__name__))
        assert type(loaded) is type(model)
        assert not loaded.training


def test_a_model_without_a_last_position_leaves_the_limit_to_its_tokenizer(tmp_path: Path):
    """XLNet says -1."""
    config = XLNetConfig(vocab_size=99, d_model=8, n_layer=1, n_head=2, d_inner=8)
    _, tokenizer = load_model(_saved(XLNetModel(config), tmp_path / "xlnet"))
    assert tokenizer.model_max_length == small_classifier()[1].model_max_length == 24


def test_a_model_of_pictures_is_refused_though_a_tokenizer_lies_beside_it(tmp_path: Path):
    name = _saved(build("vit"), tmp_path / "vit")
    with pytest.raises(InputError, match="vit reads pixel_values and no tokens: give a model of texts"):
        load_model(name)


def test_a_model_without_a_vocabulary_or_without_weights_is_refused(tmp_path: Path):
    bert = BertConfig(
        vocab_size=99, hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=8
    )
    BertModel(bert).save_pretrained(tmp_path / "bare")
    with pytest.raises(InputError, match="tokenizer"):
        load_model(str(tmp_path / "bare"))
    folder = Path(_saved(BertModel(bert), tmp_path / "half"))
    weights = load_file(folder / "model.safetensors")
    save_file(
        {name: w for name, w in weights.items() if "attention" not in name}, folder / "model.safetensors"
    )
    with pytest.raises(InputError, match="no weights for"):
        load_model(str(folder))
