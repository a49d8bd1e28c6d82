"""Explanations: the contract of their JSON, and that tokens point into the original text."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
import torch

from identiformer.errors import InputError
from identiformer.explanation import explain
from small import TEXTS, small_classifier

LEVELS = {"free", "simplex", "generatable"}


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
    assert [t["text"] for t in tokens][:4] == ["<cls>", "The", "food", "—"]
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
