"""Numbers in two bytes each, and explanations as pages take them."""

from __future__ import annotations

import base64
import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from architectures import build
from identiformer.explaining.explanation import Explanation, explain
from identiformer.report.document import LARGEST_PAGE
from identiformer.report.packing import bytes_of, pack, packed_explanation, unpack, view_data
from pieces import LONG, pieces_tokenizer
from small import small_classifier

TEXT = "we waited and waited but nobody came with food or good music , not one"


@pytest.fixture(scope="module")
def explained() -> Explanation:
    model, tokenizer = small_classifier()
    return explain(model, tokenizer, TEXT, alternatives=True)


def test_packing_by_hand():
    packed = pack([0.25, 0.75, 0.5])
    assert (packed["low"], packed["high"]) == (0.25, 0.75)
    # 0, 65535, and 32767.5 to the even one: little-endian.
    assert base64.b64decode(packed["u16"]) == bytes([0, 0, 255, 255, 0, 128])
    assert unpack(packed) == pytest.approx([0.25, 0.75, 0.5], abs=0.5 / 65535)
    assert unpack(pack([0.3])).tolist() == [0.3]
    assert unpack(pack([0.3, 0.3, 0.3])).tolist() == [0.3] * 3
    assert pack([]) == {"u16": "", "low": 0.0, "high": 0.0}
    assert unpack([0.1, 0.2]).tolist() == [0.1, 0.2]


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=50))
@settings(max_examples=200, deadline=None)
def test_what_is_unpacked_is_within_a_step(values: list[float]):
    packed = json.loads(json.dumps(pack(values), allow_nan=False))
    found = unpack(packed)
    step = (max(values) - min(values)) / 65535
    np.testing.assert_allclose(found, values, atol=1.01 * step + 1e-9, rtol=1e-12)


@given(st.lists(st.floats(-1.5, 1.5), min_size=1, max_size=50), st.sampled_from([16, 32]))
@settings(max_examples=200, deadline=None)
def test_what_is_unpacked_reads_the_same(values: list[float], bits: Any):
    values.append(0.378499)  # 16 bits of the range from 0 to 1 give 0.378500
    found = unpack(json.loads(json.dumps(pack(values, -2.0, 2.0, bits))))
    # Numbers half way between two thousandths can be told either way.
    sure = [i for i, value in enumerate(values) if abs((1000 * abs(value)) % 1 - 0.5) > 1e-9]
    assert [round(found[i], 3) for i in sure] == [round(values[i], 3) for i in sure]
    order = np.argsort(values)
    assert (np.diff(found[order]) >= 0).all()


@pytest.mark.parametrize("values", [[0.1, np.nan], [np.inf, 0.0], [[0.1], [0.2]]])
def test_only_lists_of_finite_numbers_are_packed(values: Any):
    with pytest.raises(ValueError, match="only lists of finite numbers"):
        pack(values)


def test_an_explanation_is_what_its_json_is(explained: Explanation):
    packed = json.loads(json.dumps(packed_explanation(explained, number=7, label="bad"), allow_nan=False))
    full = explained.to_dict()
    assert (packed["id"], packed["label"]) == (7, "bad")
    for name in ("text", "prediction", "probabilities", "truncated", "refused", "notes"):
        assert packed[name] == full[name]
    for name in ("tokens", "words"):
        # What is left out is false.
        assert [{"special": False, "unknown": False} | item for item in packed[name]] == full[name]
    assert len(packed["heads"]) == 3
    for head, whole in zip(packed["heads"], full["heads"], strict=True):
        assert head["words"] is None  # each word is a token
        for name in ("layer", "head", "row", "kind", "possible_tops", "sink", "levels", "tied_tokens"):
            assert head[name] == whole[name]
        span = max(whole["intervals"]["upper"]) - min(whole["intervals"]["lower"])
        lower, weights, upper = (
            unpack(values)
            for values in (head["intervals"]["lower"], head["weights"], head["intervals"]["upper"])
        )
        np.testing.assert_allclose(weights, whole["weights"], atol=1.01 * span / 65535)
        np.testing.assert_allclose(upper, whole["intervals"]["upper"], atol=1.01 * span / 65535)
        assert (lower <= weights).all()
        assert (weights <= upper).all()
        np.testing.assert_allclose(unpack(head["effective"]), whole["effective"], atol=2e-5)
        assert len(head["alternatives"]) == len(whole["alternatives"]) > 10
        for one, other in zip(head["alternatives"], whole["alternatives"], strict=True):
            assert {**one, "weights": None} == {**other, "weights": None}
            np.testing.assert_allclose(unpack(one["weights"]), other["weights"], atol=2e-5)


def test_a_unique_weight_keeps_an_interval_without_width():
    model, tokenizer = small_classifier()
    short = explain(model, tokenizer, "good food but nobody came")
    for head in packed_explanation(short)["heads"]:
        lower, upper = (head["intervals"][name] for name in ("lower", "upper"))
        assert lower["u16"] == head["weights"]["u16"] == upper["u16"]


def test_words_of_several_pieces_have_numbers_of_their_own():
    result = explain(build("bert"), pieces_tokenizer(), LONG, layers=[1], heads=[2])
    (head,) = packed_explanation(result)["heads"]
    assert len(unpack(head["weights"])) == len(result.tokens) == 19
    for values in (
        head["words"]["weights"],
        head["words"]["effective"],
        *head["words"]["intervals"].values(),
    ):
        assert len(unpack(values)) == len(result.words) == 11
    np.testing.assert_allclose(unpack(head["words"]["weights"]), result.heads[0].word_weights, atol=2e-5)


def test_what_was_not_computed_is_null():
    model, tokenizer = small_classifier()
    for head in packed_explanation(explain(model, tokenizer, TEXT, intervals=False))["heads"]:
        assert head["intervals"] is head["possible_tops"] is head["alternatives"] is None
        assert len(unpack(head["weights"])) == 16


def test_what_is_not_read_is_cut():
    model, tokenizer = small_classifier()
    long = packed_explanation(explain(model, tokenizer, "good " * 1000, intervals=False))
    assert long["truncated"]
    assert len(long["text"]) == 23 * 5 - 1 + 500
    word = packed_explanation(explain(model, tokenizer, "x" * 10_000 + " good", intervals=False))
    assert len(word["text"]) == 10_005  # it was read
    assert max(len(item["text"]) for item in (*word["tokens"], *word["words"])) == 1001


def test_sizes(explained: Explanation):
    """200 texts, 12 heads, 128 tokens, certificates and weights: a third of a page is left."""
    one = packed_explanation(explained)
    assert bytes_of(one) == len(
        json.dumps(one, separators=(",", ":")).replace("<", "\\u003c").replace(">", "\\u003e")
    )
    tokens = [{"text": "evening", "start": 1000, "end": 1007, "segment": 0}] * 128
    words = [{**token, "tokens": [100]} for token in tokens]
    head = one["heads"][0] | {
        "weights": pack(np.linspace(0, 1, 128)),
        "effective": pack(np.linspace(0, 1, 128)),
        "intervals": None,
        "possible_tops": None,
        "alternatives": None,
    }
    text = one | {"text": "evening " * 128, "tokens": tokens, "words": words, "heads": [head] * 12}
    data = view_data("audit", "m", ["bad", "good"], [text] * 200, shown_of=(200, 2000), detailed="of none")
    assert data["sampled"] == {"shown": 200, "of": 2000, "detailed": "of none"}
    assert bytes_of(data) < 0.7 * LARGEST_PAGE


def test_lists_that_do_not_line_up_are_refused(explained: Explanation):
    from dataclasses import replace

    with pytest.raises(ValueError, match="16 numbers do not line up with 15 tokens"):
        packed_explanation(replace(explained, tokens=explained.tokens[:-1]))
