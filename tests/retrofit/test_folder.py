"""The folder of a retrofitted model, and the command that writes it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModel, AutoModelForSequenceClassification, AutoTokenizer

from encoders import TEXTS, encoder, padded, words_tokenizer
from identiformer.cli import main
from identiformer.loading import load_classifier


@pytest.fixture
def original(tmp_path: Path) -> Path:
    folder = tmp_path / "original"
    encoder("bert").save_pretrained(folder)
    words_tokenizer().save_pretrained(folder)
    return folder


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    file = tmp_path / "texts.csv"
    file.write_text("text,label\n" + "".join(f"{text},x\n" for text in dict.fromkeys(TEXTS)))
    return file


def run(*arguments: object) -> int:
    with pytest.raises(SystemExit) as ended:
        main(["retrofit", *map(str, arguments)])
    assert isinstance(ended.value.code, int)
    return ended.value.code


def refusal(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    assert run(*arguments) == 2
    output = capsys.readouterr()
    assert output.out == ""
    last = output.err.splitlines()[-1]
    assert last.startswith("error: ")
    return last


def test_the_folder_loads_and_says_what_it_is(
    original: Path, texts: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    output = tmp_path / "made" / "retrofit"
    assert (
        run(
            original, output, "--texts", texts, "--strength", 0.05, "--seed", 3, "--json", tmp_path / "r.json"
        )
        == 0
    )
    printed = capsys.readouterr()
    assert "at generatable" in printed.out
    assert "mean-pooled embeddings have a cosine of 0.9" in printed.err
    assert {file.name for file in output.iterdir()} == {
        "README.md", "config.json", "model.safetensors", "retrofit.json", "tokenizer.json", "tokenizer_config.json",
    }  # fmt: skip
    model, tokenizer = AutoModel.from_pretrained(output), AutoTokenizer.from_pretrained(output)
    assert type(model).__name__ == "IdentiformerBertModel"
    assert tokenizer("w3 w1")["input_ids"] == words_tokenizer()("w3 w1")["input_ids"]
    before = AutoModel.from_pretrained(original)
    with torch.no_grad():
        hidden = [each.eval()(**padded(TEXTS[:3])).last_hidden_state for each in (before, model)]
    assert 1e-5 < float((hidden[0] - hidden[1]).abs().max()) < 0.5
    report = json.loads((output / "retrofit.json").read_text())
    assert report == {"model": str(original), "sources": [str(texts)]} | json.loads(
        (tmp_path / "r.json").read_text()
    )
    assert (report["strength"], report["seed"]) == (0.05, 3)
    assert report["texts"] == len(set(TEXTS))
    assert len(report["after"]) == 6
    card = (output / "README.md").read_text()
    assert "strength 0.05, seed 3" in card
    assert "identiformer_bert" in card
    assert not list(tmp_path.glob("made/*.unfinished"))


def test_a_classifier_stays_one(texts: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    folder = tmp_path / "classifier"
    encoder("distilbert", "ForSequenceClassification").save_pretrained(folder)
    words_tokenizer().save_pretrained(folder)
    assert run(folder, tmp_path / "out", "--texts", texts) == 0
    assert "logits moved by" in capsys.readouterr().err
    model, _ = load_classifier(str(tmp_path / "out"))
    assert type(model).__name__ == "IdentiformerDistilBertForSequenceClassification"
    assert "logits moved by" in (tmp_path / "out" / "README.md").read_text()
    assert AutoModelForSequenceClassification.from_pretrained(tmp_path / "out").config.num_labels == 2


def test_without_texts_random_tokens_stand_in(
    original: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    assert run(original, tmp_path / "out") == 0
    assert "on random tokens, " in capsys.readouterr().err
    assert json.loads((tmp_path / "out" / "retrofit.json").read_text())["texts"] is None


def test_texts_of_several_sources_are_spread_over_each(
    original: Path, texts: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    assert run(original, tmp_path / "out", "--texts", texts, "--texts", texts, "--limit", 5) == 0
    assert f"5 of {len(set(TEXTS))} texts of {texts} are used (--limit)" in capsys.readouterr().err
    assert json.loads((tmp_path / "out" / "retrofit.json").read_text())["texts"] == 10


def test_what_sentence_transformers_reads_is_copied_and_the_rest_named(
    original: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    modules = [{"idx": 0, "path": ""}, {"idx": 1, "path": "1_Pooling"}, {"idx": 2, "path": "../elsewhere"}]
    (original / "modules.json").write_text(json.dumps(modules))
    (original / "1_Pooling").mkdir()
    (original / "1_Pooling" / "config.json").write_text('{"pooling_mode_mean_tokens": true}')
    (tmp_path / "elsewhere").mkdir()
    for name in ("notes.txt", "pytorch_model.bin", "vocab.txt"):
        (original / name).write_text("")
    assert run(original, tmp_path / "out") == 0
    assert "what is of the original only stays behind: notes.txt\n" in capsys.readouterr().err
    there = {file.name for file in (tmp_path / "out").iterdir()}
    assert {"modules.json", "1_Pooling"} <= there
    assert not there & {"elsewhere", "notes.txt", "pytorch_model.bin", "vocab.txt"}
    assert (
        tmp_path / "out" / "1_Pooling" / "config.json"
    ).read_text() == '{"pooling_mode_mean_tokens": true}'


def test_of_a_head_that_no_task_needs_the_encoder_stays(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    encoder("bert", "ForPreTraining").save_pretrained(tmp_path / "pretraining")
    words_tokenizer().save_pretrained(tmp_path / "pretraining")
    assert run(tmp_path / "pretraining", tmp_path / "out") == 0
    assert "of the BertForPreTraining, the encoder alone is retrofitted" in capsys.readouterr().err
    assert type(AutoModel.from_pretrained(tmp_path / "out")).__name__ == "IdentiformerBertModel"


def test_a_model_in_half_precision_is_saved_in_single(
    original: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    encoder("bert").bfloat16().save_pretrained(original)
    assert run(original, tmp_path / "out") == 0
    assert "weights are bfloat16; the retrofit is saved in float32" in capsys.readouterr().err
    assert AutoModel.from_pretrained(tmp_path / "out").dtype == torch.float32


def test_nothing_is_replaced_that_should_stay(
    original: Path, texts: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    out = tmp_path / "out"
    assert run(original, out) == 0
    capsys.readouterr()
    assert f"{out} exists already: give another folder, or --overwrite" in refusal(capsys, original, out)
    assert run(original, out, "--overwrite") == 0
    capsys.readouterr()
    assert "is retrofitted already" in refusal(capsys, out, tmp_path / "again")
    assert "which would be replaced" in refusal(capsys, original, original, "--overwrite")
    assert f"{texts} is no folder" in refusal(capsys, original, texts, "--overwrite")
    home = tmp_path / "home"
    home.mkdir()
    (home / "letter.txt").write_text("dear")
    assert f"{home} is no model folder" in refusal(capsys, original, home, "--overwrite")
    assert (home / "letter.txt").read_text() == "dear"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--strength", "0"], "--strength is 0"),
        (["--strength", "-1"], "--strength is -1"),
        (["--limit", "0"], "--limit is 0"),
        (["--texts", "missing.csv"], "missing.csv does not exist"),
    ],
)
def test_options_out_of_range_are_refused_in_one_line(
    options: list[str], message: str, original: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    assert message in refusal(capsys, original, tmp_path / "out", *options)
    assert not (tmp_path / "out").exists()
    assert not list(tmp_path.glob("*.unfinished"))


def test_models_that_cannot_be_retrofitted_are_refused_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    from transformers import GPT2Config, GPT2LMHeadModel

    settings: dict[str, Any] = {"vocab_size": 31, "n_positions": 9, "n_embd": 8, "n_layer": 1, "n_head": 2}
    GPT2LMHeadModel(GPT2Config(**settings)).save_pretrained(tmp_path / "gpt2")
    words_tokenizer().save_pretrained(tmp_path / "gpt2")
    message = refusal(capsys, tmp_path / "gpt2", tmp_path / "out")
    assert "a model of type gpt2 cannot be retrofitted: the types that can are bert, roberta" in message
    assert "does not exist" in refusal(capsys, tmp_path / "nowhere", tmp_path / "out")


def test_a_retrofit_that_was_stopped_starts_again(
    original: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("identiformer.retrofitting.folder.retrofit_card", stop)
        assert run(original, tmp_path / "new") == 130
    assert (tmp_path / "new.unfinished").is_dir()
    assert run(original, tmp_path / "new") == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["new", "original"]
