"""Evaluating and predicting: order and count, splits and pairs, and labels that a model does not know."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from identiformer import InputError, train
from identiformer.prediction import predict_probabilities
from identiformer.scoring import CHUNK, ChosenColumns, evaluate, predict, predict_given
from runs import one_thread as one_thread  # a fixture
from runs import rows_of_texts, settings_with, write_csv
from small import PAIRS, TEXTS, small_classifier

pytestmark = pytest.mark.usefixtures("one_thread")


def saved(folder: Path, **settings: Any) -> str:
    model, tokenizer = small_classifier(**settings)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A model of single texts with the labels `bad` and `good`."""
    return saved(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def pair_model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return saved(tmp_path_factory.mktemp("pairs"), takes_text_pair=True)


def test_thousands_of_rows_keep_their_order(model: str, tmp_path: Path):
    """More than a chunk of them, of mixed lengths, many twice."""
    chance = random.Random(0)
    words = [word for text in TEXTS for word in text.split()]
    texts = [" ".join(chance.choices(words, k=chance.choice([1, 2, 3, 30]))) for _ in range(CHUNK + 150)]
    source = write_csv(tmp_path / "texts.csv", [{"text": text} for text in texts])
    said: list[str] = []
    done: list[tuple[int, int]] = []
    predictions = list(predict(model, source, say=said.append, progress=lambda *move: done.append(move)))
    assert [prediction.text for prediction in predictions] == texts
    assert [prediction.row for prediction in predictions] == list(range(1, len(texts) + 1))
    assert sum(count for count, _ in done) == len(texts)
    assert {total for _, total in done} == {len(texts)}
    long = sum(len(text.split()) == 30 for text in texts)
    assert said[-1].startswith(f"{long} of {len(texts)} texts are longer than 24 tokens")
    first: dict[str, Any] = {}
    for prediction in predictions:
        probabilities = list(prediction.probabilities.values())
        assert sum(probabilities) == pytest.approx(1)
        assert prediction.label == max(
            prediction.probabilities, key=lambda name: prediction.probabilities[name]
        )
        assert probabilities == pytest.approx(first.setdefault(prediction.text, probabilities), abs=1e-5)
    assert len(first) < len(texts)


def test_rows_that_are_left_out_leave_the_numbers_of_the_others(model: str, tmp_path: Path):
    rows = [{"text": text, "n": "x"} for text in ("good", " ", "bad", "", "fine")]
    source = write_csv(tmp_path / "texts.csv", rows)
    with pytest.raises(
        InputError, match=r"2 rows cannot be used: blank text in row 2 .*; missing text in row 4"
    ):
        list(predict(model, source))
    said: list[str] = []
    predictions = predict(model, source, on_bad_row="skip", say=said.append)
    assert [(one.row, one.text) for one in predictions] == [(1, "good"), (3, "bad"), (5, "fine")]
    assert any("2 rows left out" in line for line in said)


def test_evaluation_repeats_what_training_said_of_its_test_set(tmp_path: Path):
    folder = tmp_path / "data"
    folder.mkdir()
    write_csv(folder / "train.csv", rows_of_texts(60))
    write_csv(folder / "test.csv", rows_of_texts(24, seed=1))
    metrics = train(str(folder), tmp_path / "model", settings_with(epochs=1))
    said: list[str] = []
    assert evaluate(str(tmp_path / "model"), str(folder), say=said.append) == metrics["test"]
    assert said[0] == f"of {folder}, the test split is used (--split chooses another)"
    other = evaluate(str(tmp_path / "model"), str(folder), split="train")
    assert sum(map(sum, other["confusion_matrix"])) > 24
    # What is wrong with another split is none of this one's business.
    (folder / "train.csv").write_text("text,label\n,\n")
    assert evaluate(str(tmp_path / "model"), str(folder)) == metrics["test"]
    with pytest.raises(InputError, match="has no split 'valid'"):
        evaluate(str(tmp_path / "model"), str(folder), split="valid")
    for whole in (str(folder / "test.csv"), "demo:reviews"):
        with pytest.raises(InputError, match="has no splits to choose from: leave out --split"):
            evaluate(str(tmp_path / "model"), whole, split="test")


def test_labels_that_the_model_does_not_know(model: str, tmp_path: Path):
    labels = ["good", "so so", "bad", "so so"]
    rows = [{"text": text, "label": label} for text, label in zip(TEXTS, labels, strict=True)]
    source = write_csv(tmp_path / "texts.csv", rows)
    with pytest.raises(InputError, match=r"(?s)'so so'.*rows? 2 and 4"):
        evaluate(model, source)
    said: list[str] = []
    metrics = evaluate(model, source, on_bad_row="skip", say=said.append)
    assert sum(map(sum, metrics["confusion_matrix"])) == 2
    assert any("2 rows left out (unknown label)" in line for line in said)


def test_one_label_alone_can_be_evaluated_and_predicting_looks_at_none(model: str, tmp_path: Path):
    source = write_csv(tmp_path / "texts.csv", [{"text": f"fine {n}", "label": "good"} for n in range(5)])
    assert evaluate(model, source)["confusion_matrix"][0] == [0, 0]
    source = write_csv(tmp_path / "odd.csv", [{"text": f"fine {n}", "label": "unheard of"} for n in range(5)])
    assert len(list(predict(model, source))) == 5


def test_pairs_go_to_models_of_pairs(model: str, pair_model: str, tmp_path: Path):
    rows = [{"text": text, "text_pair": pair} for text, pair in zip(TEXTS, PAIRS, strict=True)]
    pairs = write_csv(tmp_path / "pairs.csv", rows)
    singles = write_csv(tmp_path / "singles.csv", [{"text": text} for text in TEXTS])
    predictions = list(predict(pair_model, pairs))
    assert [one.text_pair for one in predictions] == PAIRS
    assert predictions == predict_given(pair_model, TEXTS, PAIRS)
    with pytest.raises(InputError, match="trained on pairs of texts: give --text-pair-column"):
        list(predict(pair_model, singles))
    with pytest.raises(InputError, match="trained on single texts: leave out --text-pair-column"):
        list(predict(model, pairs))
    # Texts that are given have no column.
    with pytest.raises(InputError, match=r"trained on pairs of texts: give --text-pair$"):
        predict_given(pair_model, TEXTS)
    with pytest.raises(InputError, match=r"trained on single texts: leave out --text-pair$"):
        predict_given(model, TEXTS, PAIRS)
    # A pair that was found, and not asked for, can be left alone.
    said: list[str] = []
    alone = list(predict(model, pairs, columns=ChosenColumns(text="text"), say=said.append))
    assert alone == predict_given(model, TEXTS)
    assert "the model takes single texts: the column text_pair is not used" in said
    with pytest.raises(InputError, match="trained on single texts"):
        list(predict(model, pairs, columns=ChosenColumns(text="text", text_pair="text_pair")))


def test_given_texts(model: str, pair_model: str):
    predictions = predict_given(model, TEXTS)
    assert [one.row for one in predictions] == [1, 2, 3, 4]
    said: list[str] = []
    predict_given(model, ["good " * 50], say=said.append)
    assert said == ["1 of 1 texts are longer than 24 tokens and were truncated"]
    for texts, message in (
        (["good", " "], "number 2 of the texts is a blank text: give at least one word"),
        (["\u200b"], "what was given is a blank text"),
        ([""], "what was given is a missing text"),
        (["\udc80 good"], "text that is not valid Unicode: write it in UTF-8"),
    ):
        with pytest.raises(InputError, match=message):
            predict_given(model, texts)
    with pytest.raises(InputError, match="2 --text and 1 --text-pair: give one pair for each text"):
        predict_given(pair_model, ["good", "bad"], ["so"])
    with pytest.raises(InputError, match="blank text pair"):
        predict_given(pair_model, ["good"], [" "])


def test_probabilities_fit_the_labels_in_the_order_of_the_model(model: str):
    (prediction,) = predict_given(model, ["good"])
    classifier, tokenizer = small_classifier()
    expected = predict_probabilities(classifier, tokenizer, ["good"])[0].tolist()
    assert list(prediction.probabilities) == ["bad", "good"]
    assert list(prediction.probabilities.values()) == pytest.approx(expected)
    assert json.loads(json.dumps(prediction.to_dict()))["probabilities"] == prediction.probabilities
