"""The texts that a report shows: which, and what is computed of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from identiformer.explaining.explanation import explain
from identiformer.report.packing import bytes_of, unpack
from identiformer.report.samples import SampledText, Samples, explained_samples, spread, wrong_first
from small import TEXTS, small_classifier

# The classifier's heads are unique on the simplex up to 8 tokens: the second text alone is.
LONG = [*TEXTS, "We waited and waited; nobody came.", "The music was rude but the meal was fine."]


def sampled(texts: list[str] = LONG, **options: Any) -> Samples:
    model, tokenizer = small_classifier()
    return explained_samples(
        model,
        tokenizer,
        spread(len(texts), 200),
        lambda place: SampledText(place + 1, texts[place], None, "good"),
        len(texts),
        ["bad", "good"],
        lambda _shown: "Texts.",
        **options,
    )


@pytest.fixture(scope="module")
def samples() -> Samples:
    """Six rows with bounds: the last layer, of three heads, of two texts."""
    return sampled(detailed_rows=8)


# Which


def test_every_beginning_is_spread_evenly() -> None:
    order = spread(1000, 64)
    assert len(set(order)) == 64
    for count in (2, 4, 8, 16, 32, 64):
        gaps = np.diff([*sorted(order[:count]), 1000])
        assert gaps.max() <= 2 * 1000 // count
    assert sorted(spread(7, 200)) == list(range(7))
    assert spread(1, 200) == [0]
    assert spread(0, 200) == spread(7, 0) == []


def test_up_to_half_are_wrong() -> None:
    right = [place % 10 != 0 for place in range(300)]
    order = wrong_first(right, 40)
    assert len(set(order)) == 40
    assert sum(not right[place] for place in order) == 20
    # In turns: whatever fits, half of it is wrong.
    assert [right[place] for place in order[:6]] == [False, True] * 3


def test_where_few_are_wrong_all_of_them_are_there() -> None:
    right = [place not in (3, 7) for place in range(100)]
    order = wrong_first(right, 50)
    assert {3, 7} < set(order)
    assert len(set(order)) == 50
    assert sorted(wrong_first([True] * 5, 50)) == [0, 1, 2, 3, 4]
    assert len(wrong_first([False] * 8, 3)) == 3
    assert wrong_first([True] * 8, 0) == []


# What


def test_all_heads_of_all_texts_are_there_the_last_layer_first(samples: Samples) -> None:
    assert samples.shown_of == (6, 6)
    assert [one["id"] for one in samples.explanations] == [1, 2, 3, 4, 5, 6]
    for one in samples.explanations:
        assert [(head["layer"], head["head"]) for head in one["heads"]] == [
            (1, 0), (1, 1), (1, 2), (0, 0), (0, 1), (0, 2),
        ]  # fmt: skip
        assert one["label"] == "good"
        assert one["prediction"] in ("bad", "good")


def detailed(one: dict[str, Any], of: Callable[[dict[str, Any]], object]) -> list[bool]:
    return [of(head) is not None for head in one["heads"]]


def test_bounds_and_alternatives_come_in_whole_layers(samples: Samples) -> None:
    with_alternatives = {
        one["id"]: detailed(one, lambda head: head["alternatives"]) for one in samples.explanations
    }
    last_layer, none = [True] * 3 + [False] * 3, [False] * 6
    # The second text is unique and needs none; after two others, the eight rows are spent but for two.
    assert with_alternatives == {1: last_layer, 2: none, 3: last_layer, 4: none, 5: none, 6: none}
    for one in samples.explanations:
        bounds = detailed(one, lambda head: head["intervals"])
        assert bounds == ([True] * 6 if one["id"] == 2 else with_alternatives[one["id"]])
    assert samples.detailed == (
        "Bounds and alternatives were computed for 6 rows: the last layer’s in the first 2 texts that are not unique."
    )


def test_alternatives_say_what_the_model_then_gives(samples: Samples) -> None:
    head = samples.explanations[0]["heads"][0]
    farthest = next(one for one in head["alternatives"] if one["goal"] == "farthest")
    assert farthest["status"] == "found"
    assert farthest["distance"] > 0.01
    assert farthest["output_change"] < 1e-5
    assert farthest["probabilities"] == pytest.approx(samples.explanations[0]["probabilities"], abs=1e-5)


def test_bounds_that_are_known_are_those_that_programs_find(samples: Samples) -> None:
    model, tokenizer = small_classifier()
    slow = explain(model, tokenizer, TEXTS[1], layers="all")
    for head in samples.explanations[1]["heads"]:
        (same,) = (h for h in slow.heads if (h.layer, h.head) == (head["layer"], head["head"]))
        assert head["possible_tops"] == same.possible_tops
        for name, bound in (("lower", same.lower), ("upper", same.upper)):
            assert bound is not None
            np.testing.assert_allclose(unpack(head["intervals"][name]), bound, atol=1e-4)


def test_the_same_texts_give_the_same_sample() -> None:
    assert sampled(detailed_rows=3).explanations == sampled(detailed_rows=3).explanations


def test_no_more_than_fits_is_shown() -> None:
    every = sampled(LONG, detailed_rows=0)
    sizes = [bytes_of(one) for one in every.explanations]
    some = sampled(LONG, detailed_rows=100, largest=sum(sizes) // 2)
    assert 0 < some.shown_of[0] < some.shown_of[1] == 6
    assert sum(map(bytes_of, some.explanations)) <= sum(sizes) // 2
    assert some.notes[-1].endswith("left out: they would make this page too large")
    # Even a page with room for nothing is one.
    nothing = sampled(LONG, largest=0)
    assert nothing.explanations == []
    assert nothing.static is None


def test_texts_that_cannot_be_explained_are_counted() -> None:
    texts = [*TEXTS, "   ", "Good."]
    some = sampled(texts, detailed_rows=0)
    assert [one["id"] for one in some.explanations] == [1, 2, 3, 4, 6]
    assert some.notes == ["1 text left out: the text is blank: give at least one word"]


def test_progress_counts_the_texts() -> None:
    said: list[tuple[int, int]] = []
    sampled(detailed_rows=0, progress=lambda done, total: said.append((done, total)))
    assert said == [(0, 6)] + [(1, 6)] * 6


def test_without_scripts_there_is_the_first_text(samples: Samples) -> None:
    assert samples.static is not None
    assert "waiter" in samples.static
    assert "layer 1, head 2" in samples.static
    assert "layer 0" not in samples.static
