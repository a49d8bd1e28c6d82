"""Training from a pretrained model: what is kept of it, what it refuses, and that the result is used as our own."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModel, GPT2Config, GPT2Model

import identiformer
from encoders import VOCABULARY, WORDS, encoder, words_tokenizer
from identiformer import InputError, TrainingSettings, load_classifier, train
from identiformer.cli import main
from identiformer.retrofitting import retrofit
from runs import contents, killed, write_csv
from runs import one_thread as one_thread  # a fixture
from small import small_classifier

pytestmark = pytest.mark.usefixtures("one_thread")

SETTINGS = TrainingSettings(epochs=3, patience=3, batch_size=8, learning_rate=0.005)


def saved(folder: Path, model: Any, tokenizer: Any = None) -> str:
    model.save_pretrained(folder)
    (tokenizer or words_tokenizer()).save_pretrained(folder)
    return str(folder)


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Texts of words; the first word says the label."""
    chance = random.Random(0)
    texts = {" ".join([WORDS[i % 2], *chance.choices(WORDS[2:], k=2 + i % 7)]) for i in range(240)}
    rows = [{"text": text, "label": "even" if text.split()[0] == "w0" else "odd"} for text in sorted(texts)]
    return write_csv(tmp_path_factory.mktemp("data") / "texts.csv", rows)


@pytest.fixture(scope="module")
def pretrained(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """A plain encoder and its retrofit."""
    folder = tmp_path_factory.mktemp("pretrained")
    model = encoder("bert", scale=0.2)
    retrofitted, _ = retrofit(model, words_tokenizer(), 0.1)
    return {
        "plain": saved(folder / "plain", model),
        "retrofitted": saved(folder / "retrofitted", retrofitted),
    }


@pytest.fixture(scope="module")
def tuned(
    source: str, pretrained: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Path]:
    """Both of them, fine-tuned."""
    folders: dict[str, Path] = {}
    for kind, name in pretrained.items():
        folders[kind] = tmp_path_factory.mktemp("tuned") / kind
        train(source, folders[kind], replace(SETTINGS, from_model=name))
    return folders


def metrics_of(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "metrics.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("kind", ["plain", "retrofitted"])
def test_it_learns_and_comes_back_with_its_labels(kind: str, tuned: dict[str, Path]):
    metrics = metrics_of(tuned[kind])
    assert metrics["test"]["accuracy"] >= 0.9
    model, tokenizer = load_classifier(str(tuned[kind]))
    prefix = "Identiformer" if kind == "retrofitted" else ""
    assert type(model).__name__ == f"{prefix}BertForSequenceClassification"
    assert model.config.id2label == {0: "even", 1: "odd"}
    assert model.config.takes_text_pair is False
    assert tokenizer("w3 w1")["input_ids"] == words_tokenizer()("w3 w1")["input_ids"]
    # All but 0.5 % of the training texts fit: the longest have nine words and two special tokens.
    assert tokenizer.model_max_length == metrics["max_length"] == 11


def test_training_starts_from_the_weights_given(source: str, pretrained: dict[str, str], tmp_path: Path):
    """With steps of almost nothing, the encoder stays what it was."""
    train(
        source,
        tmp_path / "model",
        replace(SETTINGS, from_model=pretrained["retrofitted"], epochs=1, learning_rate=1e-9),
    )
    before, after = (
        AutoModel.from_pretrained(name).state_dict()
        for name in (pretrained["retrofitted"], tmp_path / "model")
    )
    for name, weights in before.items():
        torch.testing.assert_close(after[name], weights, atol=1e-6, rtol=0)


def test_a_retrofitted_model_is_identifiable_at_any_length(tuned: dict[str, Path]):
    plain, retrofitted = (metrics_of(tuned[kind])["identifiable"] for kind in ("plain", "retrofitted"))
    assert retrofitted["global"]["generatable"] == retrofitted["share"]["generatable"] == 1.0
    assert plain["global"]["generatable"] == plain["share"]["simplex"] < plain["share"]["generatable"]
    # Of texts of more than d_v + 1 = 6 tokens, the plain model's weights are not fixed on the simplex.
    assert plain["longest"] <= 6 < retrofitted["longest"]


@pytest.mark.parametrize("kind", ["plain", "retrofitted"])
def test_it_is_used_as_our_own(
    kind: str, tuned: dict[str, Path], source: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    def run(*arguments: object) -> str:
        with pytest.raises(SystemExit) as ended:
            main(list(map(str, arguments)))
        assert ended.value.code == 0
        return capsys.readouterr().out

    model = tuned[kind]
    assert "accuracy" in run("evaluate", model, source)
    label = json.loads(run("predict", model, "--text", "w1 w7 w9"))["label"]
    assert label == "odd"
    words = ["w1", "w7", "w9", "w7", "w8", "w2"]
    shown = run("explain", model, "--text", " ".join(words), "--json", tmp_path / f"{kind}.json")
    assert "prediction: odd" in shown
    explanation = json.loads((tmp_path / f"{kind}.json").read_text())
    assert [token["text"] for token in explanation["tokens"]] == [
        "[CLS]",
        *["w1", "w7", "w9", "w7", "w8", "w2"],
        "[SEP]",
    ]
    verdicts = {head["levels"]["generatable"]["verdict"] for head in explanation["heads"]}
    assert (verdicts == {"global"}) == (kind == "retrofitted")


@pytest.mark.parametrize("kind", ["plain", "retrofitted"])
def test_the_card_says_what_it_was_made_from(kind: str, tuned: dict[str, Path], pretrained: dict[str, str]):
    card = (tuned[kind] / "README.md").read_text(encoding="utf-8")
    assert f"fine-tuned from `{pretrained[kind]}`" in card
    assert "knows nothing beyond its training texts" not in card
    assert f"| model_type | {'identiformer_' if kind == 'retrofitted' else ''}bert |" in card
    assert "| learning_rate | 0.005 |" in card
    assert "| min_frequency |" not in card


@pytest.mark.parametrize("moment", ["step 9", "scoring"])
def test_a_run_that_was_killed_goes_on_to_the_same_result(
    moment: str, source: str, pretrained: dict[str, str], tuned: dict[str, Path], tmp_path: Path
):
    settings = replace(SETTINGS, from_model=pretrained["retrofitted"])
    folder = tmp_path / tuned["retrofitted"].name  # the card says the folder's name
    killed(moment, source, folder, settings)
    assert not folder.exists()
    train(source, folder, settings, resume=True)
    assert contents(folder) == contents(tuned["retrofitted"])


@pytest.mark.parametrize("family", ["distilbert", "roberta", "albert", "mpnet"])
def test_other_families_train_too(family: str, source: str, tmp_path: Path):
    """DistilBERT has no segments, RoBERTa counts positions from its padding on, ALBERT shares layers."""
    model, _ = retrofit(encoder(family), words_tokenizer(), 0.1)
    name = saved(tmp_path / "encoder", model)
    metrics = train(source, tmp_path / "model", replace(SETTINGS, from_model=name, epochs=1))
    assert metrics["identifiable"]["share"]["generatable"] == 1.0
    load_classifier(str(tmp_path / "model"))


def test_a_decoder_without_padding_trains_too(source: str, tmp_path: Path):
    torch.manual_seed(0)
    config = GPT2Config(vocab_size=len(VOCABULARY), n_positions=24, n_embd=12, n_layer=1, n_head=2)
    tokenizer = words_tokenizer()
    tokenizer.pad_token = None
    tokenizer.eos_token = "[SEP]"
    name = saved(tmp_path / "decoder", GPT2Model(config), tokenizer)
    train(source, tmp_path / "model", replace(SETTINGS, from_model=name, epochs=1))
    model, tokenizer = load_classifier(str(tmp_path / "model"))
    assert model.config.pad_token_id == tokenizer.pad_token_id == 2


def test_our_own_model_can_be_trained_further(source: str, tmp_path: Path):
    model, tokenizer = small_classifier()
    name = saved(tmp_path / "ours", model, tokenizer)
    train(source, tmp_path / "model", replace(SETTINGS, from_model=name, epochs=1))
    further, _ = load_classifier(str(tmp_path / "model"))
    assert further.config.id2label == {0: "even", 1: "odd"}
    assert further.config.hidden_size == model.config.hidden_size


def test_a_classifier_of_other_labels_gets_a_new_head(source: str, tmp_path: Path):
    name = saved(tmp_path / "classifier", encoder("bert", "ForSequenceClassification", num_labels=5))
    train(source, tmp_path / "model", replace(SETTINGS, from_model=name, epochs=1))
    assert load_classifier(str(tmp_path / "model"))[0].config.num_labels == 2


def test_pairs_are_taken_as_pairs(tmp_path: Path, pretrained: dict[str, str]):
    rows = [{"text": f"w{i % 26} w3", "text_pair": f"w{i // 26} w4", "label": "ab"[i % 2]} for i in range(60)]
    source = write_csv(tmp_path / "pairs.csv", rows)
    train(source, tmp_path / "model", replace(SETTINGS, from_model=pretrained["plain"], epochs=1))
    model, tokenizer = load_classifier(str(tmp_path / "model"))
    assert model.config.takes_text_pair is True
    assert tokenizer.model_max_length == 7  # [CLS] two words [SEP] two words [SEP]


def test_defaults_follow_from_where_training_starts():
    scratch, pretrained = TrainingSettings(), TrainingSettings(from_model="x")
    assert (scratch.epochs, scratch.patience, scratch.learning_rate) == (15, 4, 1e-3)
    assert pretrained.epochs < scratch.epochs
    assert pretrained.learning_rate <= scratch.learning_rate / 10
    assert TrainingSettings(from_model="x", epochs=7, learning_rate=3e-3).to_dict() == (
        pretrained.to_dict() | {"epochs": 7, "learning_rate": 3e-3}
    )
    assert replace(pretrained, seed=3).epochs == pretrained.epochs


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--vocab-size", "500"], "--from brings a model with its tokenizer: leave out --vocab-size"),
        (["--tokenizer", "bpe", "--min-frequency", "3"], "leave out --tokenizer, --min-frequency"),
        (["--hidden-size", "12"], "--from brings a model with its own settings: leave out --hidden-size"),
        (["--attention-dropout", "0.2"], "leave out --attention-dropout"),
        (["--values-carry-keys"], "leave out --values-carry-keys"),
        (["--coverage", "0.9"], "leave out --coverage"),
        (["--max-length", "500"], "--max-length is 500, but "),
        (["--max-length", "2"], "--max-length is 2: give at least 3"),
    ],
)
def test_what_the_model_brings_cannot_be_chosen(
    options: list[str],
    message: str,
    source: str,
    pretrained: dict[str, str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
):
    command = ["train", source, "--from", pretrained["plain"], "--output", str(tmp_path / "out"), *options]
    with pytest.raises(SystemExit) as ended:
        main(command)
    assert ended.value.code == 2
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.startswith("error: ")
    assert message in last
    assert not list(tmp_path.iterdir())


def refusal(source: str, output: Path, name: object, overwrite: bool = False) -> str:
    with pytest.raises(InputError) as error:
        train(source, output, replace(SETTINGS, from_model=str(name)), overwrite=overwrite)
    assert "\n" not in str(error.value)
    return str(error.value)


def test_models_that_cannot_be_fine_tuned_are_refused_in_one_line(
    source: str, pretrained: dict[str, str], tmp_path: Path
):
    out = tmp_path / "out"
    assert "does not exist" in refusal(source, out, tmp_path / "missing")
    plain = Path(pretrained["plain"])
    assert "which would be replaced" in refusal(source, plain, plain, overwrite=True)
    wider = encoder("bert")
    wider.config.intermediate_size = 9
    (tmp_path / "broken").mkdir()
    saved(tmp_path / "broken", wider)
    assert "no weights for bert.encoder.layer.0.intermediate" in refusal(source, out, tmp_path / "broken")
    assert not out.exists()


def test_identiformer_loads_no_model_before_it_is_asked_to():
    assert identiformer.TrainingSettings(from_model="nowhere/at-all").from_model == "nowhere/at-all"
