"""The value size that makes texts identifiable."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from identiformer.advice.head_sizes import head_sizes
from identiformer.capturing import capture_inputs
from identiformer.errors import InputError
from identiformer.identifiability import Verdict, certify
from identiformer.sizing import identifiable_length_for, size_for
from small import small_classifier


def test_the_value_size_is_one_below_the_length():
    sizing = size_for(30, {})
    assert sizing.settings == {"value_size": 29}
    assert sizing.reason == "value_size 29: texts of up to 30 tokens are identifiable on the simplex"


@pytest.mark.parametrize(
    ("length", "settings", "expected"),
    [
        (200, {}, {"value_size": 199, "hidden_size": 200}),
        (202, {}, {"value_size": 201, "hidden_size": 208}),
        (120, {"values_carry_keys": True, "key_size": 16}, {"value_size": 119, "hidden_size": 136}),
        (200, {"hidden_size": 256}, {"value_size": 199}),
        (201, {}, {"value_size": 200, "hidden_size": 200}),
        (201, {"num_hidden_layers": 2}, {"value_size": 200, "hidden_size": 208}),
        (9, {"num_hidden_layers": 2, "hidden_size": 9}, {"value_size": 8}),
        (1, {"num_hidden_layers": 2, "hidden_size": 1}, {"value_size": 1}),
        (1, {}, {"value_size": 1}),
    ],
)
def test_the_hidden_size_follows_where_it_must(
    length: int, settings: dict[str, Any], expected: dict[str, Any]
):
    assert size_for(length, settings).settings == expected


@pytest.mark.parametrize(
    ("length", "settings", "words"),
    [
        (0, {}, "--identifiable-length is 0"),
        (200, {"hidden_size": 64}, "--hidden-size is 64, but 200 identifiable tokens need at least 199"),
        (9, {"hidden_size": 8, "num_hidden_layers": 2}, "but 9 identifiable tokens need at least 9"),
        (20, {"value_size": 64}, "--value-size follows"),
    ],
)
def test_contradictions_are_refused(length: int, settings: dict[str, Any], words: str):
    with pytest.raises(InputError, match=words):
        size_for(length, settings)


def test_coverage_counts_tokens_as_they_are_after_truncation():
    lengths = np.array([3, 5, 7, 11, 400])
    assert identifiable_length_for(lengths, 512, 0.8) == 11
    assert identifiable_length_for(lengths, 512, 1.0) == 400
    assert identifiable_length_for(lengths, 9, 1.0) == 9
    for share in (0.0, -0.1, 1.1, float("nan")):
        with pytest.raises(InputError, match="--coverage is"):
            identifiable_length_for(lengths, 512, share)


@pytest.mark.parametrize("head_merge", ["add", "concat"])
def test_a_model_of_that_size_is_identifiable_up_to_that_length_and_no_further(head_merge: str):
    model, tokenizer = small_classifier(head_merge=head_merge, **size_for(9, {"hidden_size": 24}).settings)
    words = ["the", "food", "was", "good", "but", "waiter", "rude", "not", "a", "fine", "evening"]
    for tokens in (8, 9, 10, 11):
        inputs = dict(tokenizer(" ".join(words[: tokens - 1]), return_tensors="pt"))
        assert inputs["input_ids"].shape == (1, tokens)
        *_, last = capture_inputs(model, inputs)
        assert last.heads is not None
        verdict = certify(last.heads).simplex.verdict
        assert bool((verdict == Verdict.GLOBAL).all()) is (tokens <= 9)
        assert bool((verdict == Verdict.NONE).all()) is (tokens > 9)


@pytest.mark.parametrize(("layers", "hidden_size"), [(1, 8), (2, 9), (3, 9)])
def test_a_layer_no_wider_than_its_values_is_as_wide_as_it_must_be(layers: int, hidden_size: int):
    """What comes out of a layer normalisation spans one dimension less; advice counts as training does."""
    settings = {"num_hidden_layers": layers, "hidden_size": hidden_size}
    sized = settings | size_for(9, settings).settings
    model, tokenizer = small_classifier(**sized)
    sizes = head_sizes(model.config)
    assert sizes is not None
    assert sizes.identifiable_length == 9
    with pytest.raises(InputError, match=f"need at least {hidden_size}"):
        size_for(9, settings | {"hidden_size": hidden_size - 1})
    words = ["the", "food", "was", "good", "but", "waiter", "rude", "not", "a"]
    for tokens, verdict in ((9, Verdict.GLOBAL), (10, Verdict.NONE)):
        inputs = dict(tokenizer(" ".join(words[: tokens - 1]), return_tensors="pt"))
        assert inputs["input_ids"].shape == (1, tokens)
        *_, last = capture_inputs(model, inputs)
        assert last.heads is not None
        assert bool((certify(last.heads).simplex.verdict == verdict).all())
