"""Explanations: the contract of their JSON, tokens and words that point into the original text, any model."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from numpy.typing import NDArray
from scipy.optimize import linprog
from transformers import ByT5Tokenizer

from architectures import SIZE, build
from identiformer.capturing import CapturedLayer, capture_inputs, encode_texts
from identiformer.errors import InputError
from identiformer.explaining import explanation
from identiformer.explaining import heads as explained_heads
from identiformer.explaining.explanation import load_to_explain
from pieces import LONG, pieces_tokenizer
from small import TEXTS, small_classifier

t: Any = transformers
explain: Any = explanation.explain  # its bounds are None where they were not asked for
LEVELS = {"free", "simplex", "generatable"}


def t5(task: str) -> Any:
    torch.manual_seed(0)
    config = build("t5").config.to_dict() | {"architectures": None}
    return getattr(t, f"T5{task}")(t.T5Config(**config)).eval()


@pytest.mark.parametrize("text_pair", [None, "The MUSIC was  \x85 fine…"])
def test_the_json_fits_the_contract(text_pair: str | None):
    model, tokenizer = small_classifier()
    text = "The food — GOOD, good!\n\x00 ﬁne\U0001f642"
    value = json.loads(json.dumps(explain(model, tokenizer, text, text_pair).to_dict(), allow_nan=False))
    assert value["text"] == text
    assert value.get("text_pair") == text_pair
    assert set(value["probabilities"]) == {"bad", "good"}
    assert math.isclose(sum(value["probabilities"].values()), 1.0, abs_tol=1e-9)
    assert value["prediction"] == max(value["probabilities"], key=value["probabilities"].__getitem__)
    tokens, sources = value["tokens"], (text, text_pair)
    expected = {"text": "<cls>", "start": 0, "end": 0, "segment": 0, "special": True, "unknown": False}
    assert tokens[0] == expected
    for token in tokens:
        source = sources[token["segment"]]
        assert source is not None
        if not token["special"]:
            assert token["text"] == source[token["start"] : token["end"]] != ""
    assert [token["text"] for token in tokens if token["special"]] == ["<cls>"] + ["<sep>"] * (
        text_pair is not None
    )
    assert [token["text"] for token in tokens][:4] == ["<cls>", "The", "food", "—"]
    assert set(value["words"][0]) == {*expected, "tokens"}
    assert sorted(i for word in value["words"] for i in word["tokens"]) == list(range(len(tokens)))
    assert (value["refused"], value["notes"]) == ([], [])
    assert [(head["layer"], head["head"], head["row"]) for head in value["heads"]] == [
        (1, 0, 0),
        (1, 1, 0),
        (1, 2, 0),
    ]
    for head in value["heads"]:
        lower, upper = head["intervals"]["lower"], head["intervals"]["upper"]
        for row in (head["weights"], head["effective"], lower, upper):
            assert len(row) == len(tokens)
        assert math.isclose(sum(head["weights"]), 1.0, abs_tol=1e-6)
        assert all(a <= w <= b for a, w, b in zip(lower, head["weights"], upper, strict=True))
        assert int(np.argmax(head["weights"])) in head["possible_tops"]
        assert set(head["levels"]) == LEVELS
        words = head["words"]
        for row in (words["weights"], words["effective"], *words["intervals"].values()):
            assert len(row) == len(value["words"])
        assert words["weights"] == pytest.approx(
            [sum(head["weights"][i] for i in word["tokens"]) for word in value["words"]]
        )
        assert int(np.argmax(words["weights"])) in words["possible_tops"]
        assert (head["kind"], head["sink"]) == ("self", None)
        for level in head["levels"].values():
            assert level["verdict"] in {"none", "local", "global"}
            assert (level["nullity"] == 0) == (level["verdict"] != "none") == (level["margin"] > 0)


def test_the_prediction_is_the_models_own():
    model, tokenizer = small_classifier()
    explanation = explain(model, tokenizer, TEXTS[0])
    with torch.no_grad():
        logits = model(**tokenizer(TEXTS[0], return_tensors="pt")).logits[0]
    expected = torch.softmax(logits.double(), -1).tolist()
    np.testing.assert_allclose(list(explanation.probabilities.values()), expected, atol=1e-7)


def test_a_text_short_enough_is_unique_and_one_too_long_is_not():
    """d_v = 7: unique on the simplex for up to 8 tokens, n - 8 directions of freedom beyond."""
    model, tokenizer = small_classifier()
    short = explain(model, tokenizer, "good food but nobody came")  # 6 tokens with <cls>
    for head in short.heads:
        assert head.levels["simplex"].verdict == "global"
        np.testing.assert_allclose(head.lower, head.upper, atol=1e-9)
        assert head.possible_tops == [int(head.weights.argmax())]
    long = explain(model, tokenizer, "we waited and waited but nobody came with food or good music , not one")
    tokens = len(long.tokens)
    assert tokens > 8
    for head in long.heads:
        assert head.levels["simplex"].nullity == tokens - 8
        assert head.levels["simplex"].verdict == "none"
        assert head.levels["generatable"].verdict in {"local", "none"}
        assert float((head.upper - head.lower).max()) > 1e-3


def test_carried_keys_make_a_long_text_unique_among_what_the_head_can_generate():
    model, tokenizer = small_classifier(values_carry_keys=True)
    long = explain(model, tokenizer, "we waited and waited but nobody came with food or good music , not one")
    assert len(long.tokens) > 13
    for head in long.heads:
        assert head.levels["simplex"].verdict == "none"
        assert head.levels["generatable"].verdict == "global"


def test_repeated_words_tie_without_positions():
    model, tokenizer = small_classifier(position_embedding="none", num_hidden_layers=1)
    explanation = explain(model, tokenizer, "fine fine music")
    assert [head.tied_tokens for head in explanation.heads] == [2, 2, 2]
    assert all(head.levels["simplex"].nullity == 1 for head in explanation.heads)


def test_layers_and_rows_can_be_chosen():
    model, tokenizer = small_classifier()
    explanation = explain(model, tokenizer, "not good", rows="all", layers=[0, -1])
    found = [(head.layer, head.head, head.row) for head in explanation.heads]
    assert found == [(layer, head, row) for layer in (0, 1) for head in range(3) for row in range(3)]
    for layer in (2, -3):
        with pytest.raises(InputError, match=rf"no layer {layer}: the model has layers 0 to 1"):
            explain(model, tokenizer, "not good", layers=[layer])


def test_truncation_is_said():
    model, tokenizer = small_classifier()
    assert not explain(model, tokenizer, "good " * 23).truncated
    explanation = explain(model, tokenizer, "good " * 24)
    assert explanation.truncated
    assert len(explanation.tokens) == 24


@pytest.mark.parametrize("text", ["", "  \n", "\t"])
def test_a_blank_text_is_refused(text: str):
    model, tokenizer = small_classifier()
    with pytest.raises(InputError, match="the text is blank"):
        explain(model, tokenizer, text)
    with pytest.raises(InputError, match="the text pair is blank"):
        explain(model, tokenizer, "good", text)


def test_unknown_words_are_told():
    model, tokenizer = small_classifier()
    tokens = explain(model, tokenizer, "good Donaudampf <unk>").tokens
    assert [(token.text, token.unknown) for token in tokens[:3]] == [
        ("<cls>", False),
        ("good", False),
        ("Donaudampf", True),
    ]


# Words


def limits(head: Any, index: tuple[int, int, int], cost: NDArray[np.float64]) -> tuple[float, float]:
    """The least and the greatest `cost · b` over all distributions with the same output, by another solver."""
    one = head[index]
    seen = one.mask.numpy()
    added = (one.values @ one.output_projection).numpy()[seen]  # [n, d_e]
    weights = one.weights.numpy()[seen]
    equal = np.vstack([added.T, np.ones(len(added))])
    ends = [
        linprog(sign * cost[seen], A_eq=equal, b_eq=equal @ weights, bounds=(0, None)).fun for sign in (1, -1)
    ]
    return ends[0], -ends[1]


@pytest.mark.parametrize("name", ["bert", "gpt_oss"])
def test_intervals_of_words_are_those_of_their_own_programs(name: str):
    """10 words of 18 pieces, and in gpt_oss a sink, which has a part of the weight and is no token."""
    model, tokenizer = build(name), pieces_tokenizer()
    result = explain(model, tokenizer, LONG, layers=[1])
    assert [len(word.tokens) for word in result.words] == [1, 1, 1, 3, 1, 2, 3, 3, 2, 1, 1]
    (captured,) = capture_inputs(model, encode_texts(model, tokenizer, [LONG], None, None), layers=[1])
    sunk = int(captured.sink)
    assert sunk == (name == "gpt_oss")
    assert len(result.heads) == 4
    for head in result.heads:
        assert len(head.weights) == len(head.lower) == len(result.tokens) == 19
        assert (head.sink is not None) == bool(sunk)
        assert float(head.weights.sum()) + (head.sink or 0.0) == pytest.approx(1.0)
        for number, word in enumerate(result.words):
            cost = np.zeros(len(result.tokens) + sunk)
            cost[word.tokens] = 1.0
            low, high = limits(captured.heads, (0, head.head, 0), cost)
            assert head.word_lower[number] == pytest.approx(low, abs=1e-7)
            assert head.word_upper[number] == pytest.approx(high, abs=1e-7)
            for array, of_words in (
                (head.weights, head.word_weights),
                (head.effective, head.word_effective),
            ):
                assert of_words[number] == pytest.approx(float(array[word.tokens].sum()), abs=1e-12)
            assert head.word_upper[number] <= float(head.upper[word.tokens].sum()) + 1e-9
        # The pieces of a word cannot all have their greatest weight at once.
        unlikely = result.words[3].tokens
        assert head.word_upper[3] < float(head.upper[unlikely].sum()) - 0.01
        first = np.zeros(len(result.tokens) + sunk)
        first[0] = 1.0
        assert (head.lower[0], head.upper[0]) == pytest.approx(
            limits(captured.heads, (0, head.head, 0), first), abs=1e-7
        )


def test_the_top_word_need_not_hold_the_top_piece():
    """`unlikely` has three pieces, none of which is heavier than every other token."""
    (head, *_) = explain(build("bert"), pieces_tokenizer(), "the unlikely film").heads
    assert int(head.word_weights.argmax()) == 1
    assert len(head.word_weights) == 4
    assert head.word_possible_tops == [1]
    np.testing.assert_allclose(head.word_lower, head.word_upper, atol=1e-9)  # 6 tokens: unique


@pytest.mark.parametrize(("text", "asked"), [("the film was good", 1), ("the film was unlikely", 2)])
def test_words_are_asked_about_only_where_they_are_more_than_tokens(
    text: str, asked: int, monkeypatch: pytest.MonkeyPatch
):
    calls: list[Any] = []

    def counted(head: Any, **settings: Any) -> Any:
        calls.append(settings)
        return weight_intervals(head, **settings)

    weight_intervals = explained_heads.weight_intervals
    monkeypatch.setattr(explained_heads, "weight_intervals", counted)
    (head,) = explain(build("bert"), pieces_tokenizer(), text, heads=[2]).heads
    assert len(calls) == asked
    if asked == 1:
        assert np.array_equal(head.word_lower, head.lower)
        assert np.array_equal(head.word_upper, head.upper)
        assert head.word_possible_tops == head.possible_tops


# Any model


@pytest.mark.parametrize(
    "model",
    [
        lambda: t.BertModel(t.BertConfig(**SIZE)).eval(),
        lambda: t.BertForMaskedLM(t.BertConfig(**SIZE)).eval(),
        lambda: t.LlamaForCausalLM(t.LlamaConfig(**SIZE)).eval(),
        lambda: t5("Model"),
        lambda: t5("ForConditionalGeneration"),
        lambda: t5("EncoderModel"),
        lambda: t.BertForSequenceClassification(t.BertConfig(**SIZE, num_labels=1)).eval(),
        lambda: t.BertForSequenceClassification(
            t.BertConfig(**SIZE, problem_type="multi_label_classification")
        ).eval(),
    ],
    ids=["encoder", "masked", "causal", "t5", "t5 generates", "t5 encoder", "regression", "multi-label"],
)
def test_a_model_that_chooses_no_label_has_no_prediction(model: Callable[[], Any]):
    result = explain(model(), pieces_tokenizer(), LONG)
    assert result.prediction is None
    assert result.probabilities == {}
    assert result.to_dict()["prediction"] is None
    assert len(result.heads) == 4
    for head in result.heads:
        assert len(head.weights) == len(result.tokens)
        assert float(head.weights.sum()) == pytest.approx(1.0)


def test_the_last_token_of_a_causal_model_is_pooled():
    result = explain(build("gpt2"), pieces_tokenizer(), LONG)
    assert {(head.layer, head.row) for head in result.heads} == {(1, 18)}
    assert set(result.probabilities) == {"LABEL_0", "LABEL_1"}


def test_layers_and_heads_of_any_model():
    model, tokenizer = build("bert"), pieces_tokenizer()
    del model.config.num_hidden_layers  # nothing is read from what a configuration calls its layers
    result = explain(model, tokenizer, "the film", layers="all", heads=[3, 1])
    assert [(head.layer, head.head) for head in result.heads] == [(0, 1), (0, 3), (1, 1), (1, 3)]
    result = explain(model, tokenizer, "the film", layers=[-2], rows=2, heads=[0])
    assert [(head.layer, head.row) for head in result.heads] == [(0, 0), (0, 1)]
    with pytest.raises(InputError, match="no head 4 in layer 1: it has heads 0 to 3"):
        explain(model, tokenizer, "the film", heads=[4])
    with pytest.raises(InputError, match="no head can be explained: no layer or head was asked for"):
        explain(model, tokenizer, "the film", layers=[])


def test_an_encoder_decoder_attends_to_the_text_in_some_layers():
    """Two layers of the encoder; then of the decoder 2 and 4 to its own tokens, 3 and 5 to the text."""
    model, tokenizer = build("t5"), pieces_tokenizer()

    def layers(**settings: Any) -> list[int]:
        result = explain(model, tokenizer, "the unlikely film", heads=[0], **settings)
        return [head.layer for head in result.heads]

    (head,) = explain(model, tokenizer, "the unlikely film", heads=[0]).heads
    assert (head.layer, head.kind, head.row) == (5, "cross", 5)
    assert layers(layers="all") == [3, 5]
    assert layers(layers="all", rows=1) == [0, 1, 3, 5]
    assert layers(layers=[-3, 0], rows=1) == [0, 3]
    notes = explain(model, tokenizer, "the unlikely film", layers="all").notes
    assert {layer: note.split(":")[0] for layer, note in notes.items()} == dict.fromkeys(
        (0, 1, 2, 4), "left out"
    )
    for layer in (2, -2):
        with pytest.raises(
            InputError, match="decoder's own tokens, not to the text's: give layers out of 0, 1, 3, 5"
        ):
            layers(layers=[layer])
    with pytest.raises(InputError, match="no row stands for the text"):
        layers(layers=[0])
    for layer in (6, -7):
        with pytest.raises(InputError, match=f"no layer {layer}: the model has layers 0 to 5"):
            layers(layers=[layer])


def test_a_sink_is_no_top():
    """With nearly all of the weight at the sink, some token is still the most attended one."""
    model = build("gpt_oss")
    for layer in model.model.layers:
        torch.nn.init.constant_(layer.self_attn.sinks, 6.0)
    result = explain(model, pieces_tokenizer(), LONG)
    for head in result.heads:
        assert head.sink is not None
        assert head.sink > 0.9
        assert int(head.weights.argmax()) in head.possible_tops
        assert int(head.word_weights.argmax()) in head.word_possible_tops
        assert max(head.possible_tops) < len(result.tokens)
        assert json.loads(json.dumps(result.to_dict()))["heads"][head.head]["sink"] == head.sink


def test_levels_that_do_not_hold_are_left_out():
    result = explain(build("gemma2"), pieces_tokenizer(), "the film", layers="all")
    assert all(set(head.levels) == {"free", "simplex"} for head in result.heads)
    assert set(result.notes) == {0, 1}
    assert all("soft-capped" in note for note in result.notes.values())
    assert explain(build("gpt_oss"), pieces_tokenizer(), "the film").notes == {}


def changed(monkeypatch: pytest.MonkeyPatch, change: Callable[[CapturedLayer], CapturedLayer]) -> None:
    def capture(*args: Any, **settings: Any) -> Iterator[CapturedLayer]:
        return map(change, capture_inputs(*args, **settings))

    monkeypatch.setattr(explanation, "capture_inputs", capture)


def test_heads_that_are_refused_are_named(monkeypatch: pytest.MonkeyPatch):
    def refuse(captured: CapturedLayer) -> CapturedLayer:
        assert captured.heads is not None
        kept = captured.heads[:, torch.tensor([0, 3])]
        refused = {1: "of another form", 2: "of another form"}
        return dataclasses.replace(captured, heads=kept, head_numbers=(0, 3), refused=refused)

    changed(monkeypatch, refuse)
    result = explain(build("bert"), pieces_tokenizer(), "the film")
    assert [head.head for head in result.heads] == [0, 3]
    assert result.to_dict()["refused"] == [
        {"layer": 1, "head": 1, "reason": "of another form"},
        {"layer": 1, "head": 2, "reason": "of another form"},
    ]


def test_nothing_left_is_an_error(monkeypatch: pytest.MonkeyPatch):
    def refuse(captured: CapturedLayer) -> CapturedLayer:
        refused = dict.fromkeys(range(4), "of another form")
        return dataclasses.replace(captured, heads=None, head_numbers=(), refused=refused)

    changed(monkeypatch, refuse)
    with pytest.raises(InputError, match=r"^no head can be explained: layers 0, 1: of another form$"):
        explain(build("bert"), pieces_tokenizer(), "the film", layers="all")


def test_keys_that_are_not_the_texts_are_refused(monkeypatch: pytest.MonkeyPatch):
    """Four keys of which one is said to be a sink, for a text of four tokens."""
    changed(monkeypatch, lambda captured: dataclasses.replace(captured, sink=True))
    with pytest.raises(InputError, match="layer 1: its keys are not those of the text's 4 tokens"):
        explain(build("bert"), pieces_tokenizer(), "the film was")


def test_a_slow_tokenizer_is_refused():
    with pytest.raises(InputError, match="give a model with a fast tokenizer"):
        explain(build("bert"), ByT5Tokenizer(), "good")


def test_rows_done_are_told():
    done: list[tuple[int, int]] = []
    explain(
        build("bert"),
        pieces_tokenizer(),
        "the film",
        rows="all",
        heads=[0, 1],
        progress=lambda rows, total: done.append((rows, total)),
    )
    assert done == [(1, 6)] * 6


# Loading


def test_any_model_is_loaded_as_what_it_is(tmp_path: Path):
    for model in (build("bert"), t.BertModel(t.BertConfig(**SIZE)), t5("ForConditionalGeneration")):
        folder = tmp_path / type(model).__name__
        model.save_pretrained(folder)
        pieces_tokenizer().save_pretrained(folder)
        loaded, tokenizer = load_to_explain(str(folder))
        assert type(loaded) is type(model)
        assert not loaded.training
        assert tokenizer("the film")["input_ids"] == [4, 5, 1]


def test_a_classifier_that_is_none_is_refused_as_ever(tmp_path: Path):
    folder = tmp_path / "one-label"
    t.BertForSequenceClassification(t.BertConfig(**SIZE, num_labels=1)).save_pretrained(folder)
    pieces_tokenizer().save_pretrained(folder)
    with pytest.raises(InputError, match="does not choose one label of several"):
        load_to_explain(str(folder))
    with pytest.raises(InputError, match="does not exist: give a model folder"):
        load_to_explain(str(tmp_path / "nothing" / "here"))
    headless = tmp_path / "headless"
    t.BertModel(t.BertConfig(**SIZE)).save_pretrained(headless)
    pieces_tokenizer().save_pretrained(headless)
    config = json.loads((headless / "config.json").read_text())
    config["architectures"] = ["BertForSequenceClassification"]
    (headless / "config.json").write_text(json.dumps(config))
    with pytest.raises(InputError, match="is no trained text classifier"):
        load_to_explain(str(headless))
    (headless / "config.json").write_text("{")
    with pytest.raises(InputError, match="no text classifier could be loaded"):
        load_to_explain(str(headless))
