"""Alternatives of an explanation: by word, within limits, put into the model, and one when it is asked for."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import numpy as np
import pytest

from architectures import build
from identiformer.errors import InputError
from identiformer.explaining import asked, explanation
from identiformer.explaining.alternatives import AlternativeLimits
from pieces import LONG, pieces_tokenizer
from small import small_classifier

explain: Any = explanation.explain
explain_alternative: Any = asked.explain_alternative
TEXT = "we waited and waited but nobody came with food or good music , not one"


def by_word(head: Any, words: list[Any], weights: np.ndarray) -> np.ndarray:
    return np.array([weights[word.tokens].sum() for word in words])


@pytest.mark.parametrize("name", ["bert", "gpt_oss"])
def test_a_words_alternative_is_where_its_interval_ends(name: str):
    """Words of up to three pieces; in gpt_oss a sink has a part of the weight."""
    result = explain(build(name), pieces_tokenizer(), LONG, layers=[1], heads=[1], alternatives=True)
    (head,) = result.heads
    farthest = [one for one in head.alternatives if one.goal == "farthest"]
    assert farthest[0].level == "simplex"
    assert farthest[0].word is None
    found = {(one.goal, one.word): one for one in head.alternatives if one.goal != "farthest"}
    assert set(found) == {(goal, word) for goal in ("favour", "avoid") for word in range(11)}
    ends = {"favour": head.word_upper, "avoid": head.word_lower}
    for (goal, word), one in found.items():
        assert one.level == "simplex"
        if one.weights is None:
            assert one.status == "unique"
            assert abs(ends[goal][word] - head.word_weights[word]) < 1e-8
            continue
        assert len(one.weights) == 19
        assert float(one.weights.sum()) + (one.sink or 0.0) == pytest.approx(1.0, abs=1e-6)
        assert by_word(head, result.words, one.weights)[word] == pytest.approx(ends[goal][word], abs=1e-6)
        assert one.distance <= farthest[0].distance + 1e-9
        assert one.residual < 1e-6
        assert one.reason.startswith("the word has weight")
        assert one.output_change is None
    assert sum(one.weights is not None for one in found.values()) > 11


def test_the_farthest_are_put_into_the_model():
    model, tokenizer = small_classifier()
    result = explain(model, tokenizer, TEXT, alternatives=True)
    assert result.left_out == ""
    for head in result.heads:
        first = head.alternatives[0]
        assert (first.goal, first.level, first.status) == ("farthest", "simplex", "found")
        assert first.distance > 0.3
        assert first.output_change < 1e-5
        for label, probability in first.probabilities.items():
            assert probability == pytest.approx(result.probabilities[label], abs=1e-5)
        # d_k = 5 and d_v = 7: nothing moves nearby at `generatable`, and it is not searched.
        assert [one.level for one in head.alternatives].count("generatable") == (
            head.levels["generatable"].nullity > 0
        )
    value = json.loads(json.dumps(result.to_dict(), allow_nan=False))
    one = value["heads"][0]["alternatives"][0]
    assert set(one) == {
        *("goal", "word", "level", "status", "reason", "weights", "distance", "residual"),
        *("output_change", "probabilities"),
    }
    assert one["weights"] == result.heads[0].alternatives[0].weights.tolist()


def test_a_query_can_generate_others_where_the_certificate_says_so():
    """d_k = 5 and d_v = 3: the output fixes three of the five directions of a query."""
    model, tokenizer = small_classifier(value_size=3)
    result = explain(model, tokenizer, TEXT, heads=[0], alternatives=True)
    (head,) = result.heads
    assert head.levels["generatable"].nullity == 2
    (other,) = [one for one in head.alternatives if one.level == "generatable"]
    assert (other.goal, other.status) == ("farthest", "found")
    assert other.output_change < 1e-5
    assert other.distance <= head.alternatives[0].distance + 1e-9


def test_a_unique_row_has_one_answer():
    model, tokenizer = small_classifier()
    for head in explain(model, tokenizer, "good food but nobody came", alternatives=True).heads:
        (none,) = head.alternatives
        assert (none.goal, none.status, none.weights) == ("farthest", "unique", None)
        assert none.output_change is None


def test_nothing_is_looked_for_unless_it_is_asked_for():
    model, tokenizer = small_classifier()
    result = explain(model, tokenizer, TEXT)
    assert all(head.alternatives is None for head in result.heads)
    assert result.to_dict()["heads"][0]["alternatives"] is None


def test_without_intervals_the_rest_is_the_same():
    model, tokenizer = small_classifier()
    full, quick = (
        explain(model, tokenizer, TEXT, intervals=intervals).to_dict() for intervals in (True, False)
    )
    for head, other in zip(full["heads"], quick["heads"], strict=True):
        assert other["intervals"] is other["possible_tops"] is None
        assert other["words"]["intervals"] is other["words"]["possible_tops"] is None
        for values in (head, other, head["words"], other["words"]):
            del values["intervals"], values["possible_tops"]
        assert head == other


def test_limits_leave_out_light_words_and_late_rows_and_say_so():
    model, tokenizer = small_classifier()
    limits = AlternativeLimits(rows=2, programs=12)
    result = explain(model, tokenizer, TEXT, alternatives=limits)
    assert result.left_out == (
        "alternatives were looked for only in the first 2 of 3 rows of heads, and for the 3 heaviest words of each row"
    )
    assert result.heads[2].alternatives is None
    for head in result.heads[:2]:
        words = {one.word for one in head.alternatives if one.goal == "favour"}
        assert words == set(np.argsort(-head.word_weights)[:3].tolist())
        assert {one.word for one in head.alternatives if one.goal == "avoid"} == words
    # 16 tokens: 200 values are 12 alternatives.
    few = explain(model, tokenizer, TEXT, heads=[0], alternatives=AlternativeLimits(values=200))
    assert few.left_out == "alternatives were looked for only for the 6 heaviest words of each row"


def ask(**question: Any) -> Any:
    model, tokenizer = small_classifier()
    return explain_alternative(model, tokenizer, TEXT, **{"layer": 1, "head": 0, "row": 0} | question)


def test_one_alternative_is_that_of_the_explanation():
    model, tokenizer = small_classifier()
    result = explain(model, tokenizer, TEXT, rows=2, layers=[0], heads=[2], alternatives=True)
    row = 1
    head = result.heads[row]
    expected = {(one.goal, one.word): one for one in head.alternatives if one.level == "simplex"}
    for goal, word in (("farthest", None), ("favour", 3), ("avoid", 12)):
        one = ask(layer=0, head=2, row=row, goal=goal, word=word)
        same = expected[goal, word]
        assert one.status == same.status == "found"
        if word is None:
            assert one.distance <= same.distance + 1e-9
        else:  # several rows may leave a word nothing: not each time the same one
            assert one.reason == same.reason
            own, other = (
                by_word(head, result.words, weights)[word] for weights in (one.weights, same.weights)
            )
            assert own == pytest.approx(other, abs=1e-8)
        # Put into the model in the first layer, and what it says stays.
        assert one.output_change < 1e-4
        assert one.probabilities["good"] == pytest.approx(result.probabilities["good"], abs=1e-4)
        still = ask(layer=0, head=2, row=row, goal=goal, word=word, run=False)
        assert still.output_change is None
        assert np.array_equal(still.weights, one.weights)


def test_weights_with_another_output_would_show():
    """The model is run with the weights that are said, in the row that is said."""
    from identiformer.capturing import encode_texts
    from identiformer.explaining.alternatives import run_alternatives

    model, tokenizer = small_classifier()
    (head,) = explain(model, tokenizer, TEXT, heads=[1]).heads
    wrong = ask(head=1)
    weights = np.zeros(16)
    weights[5] = 1.0
    (run,) = run_alternatives(
        model,
        encode_texts(model, tokenizer, [TEXT], None, None),
        [dataclasses.replace(wrong, weights=weights)],
        layer=1,
        head=1,
        row=0,
        weights=head.weights,
        sink=None,
    )
    assert run.output_change is not None
    assert run.output_change > 1e-2


def test_any_model_and_the_decoder():
    tokenizer = pieces_tokenizer()
    bert = explain_alternative(
        build("bert").bert, tokenizer, LONG, layer=1, head=2, row=4, goal="favour", word=3
    )
    assert bert.status == "found"
    assert bert.output_change < 1e-4
    assert bert.probabilities is None
    cross = explain_alternative(build("t5"), tokenizer, LONG, layer=5, head=0, row=2)
    assert cross.status in {"found", "unique"}
    with pytest.raises(InputError, match="layer 4 does not attend to the text's tokens"):
        explain_alternative(build("t5"), tokenizer, LONG, layer=4, head=0, row=2)
    with pytest.raises(InputError, match=r"layer 0 says nothing at the level generatable: .*soft-capped"):
        explain_alternative(build("gemma2"), tokenizer, LONG, layer=0, head=0, row=2, level="generatable")


@pytest.mark.parametrize(
    ("question", "message"),
    [
        ({"layer": 2}, "no layer 2: the model has layers 0 to 1"),
        ({"layer": -1}, "layer is -1 and row is 0: count both from 0"),
        ({"head": 3}, "no head 3 in layer 1"),
        ({"row": 16}, "no row 16 in layer 1: it has 16, counted from 0"),
        ({"goal": "nearest"}, "goal is nearest: give farthest, favour or avoid"),
        ({"goal": "favour"}, "no word to favour: give its number"),
        ({"goal": "avoid", "word": 16}, "no word 16: the text has 16, counted from 0"),
        ({"word": 3}, "the goal farthest is about no word"),
        ({"level": "free"}, "level is free: give simplex or generatable"),
    ],
)
def test_what_is_not_there_is_refused(question: dict[str, Any], message: str):
    with pytest.raises(InputError, match=message):
        ask(**question)


def test_a_word_that_the_row_does_not_see():
    model, tokenizer = build("gpt2"), pieces_tokenizer()
    with pytest.raises(InputError, match="the row sees none of its tokens"):
        explain_alternative(model, tokenizer, LONG, layer=1, head=0, row=2, goal="favour", word=9)
    (head,) = explain(model, tokenizer, LONG, rows=1, heads=[0], alternatives=True).heads
    assert [one.status for one in head.alternatives] == ["unique"]


def test_one_row_has_alternatives_of_every_word():
    """What the command on a page asks for: the limits leave no word of one row out."""
    model, tokenizer = small_classifier()
    every = explain(
        model, tokenizer, TEXT, heads=[1], rows="all", alternatives=AlternativeLimits(programs=64)
    )
    assert "heaviest words" in every.left_out
    result = explain(model, tokenizer, TEXT, heads=[1], row=9, alternatives=True)
    assert result.left_out == ""
    (head,) = result.heads
    assert head.row == 9
    assert head.weights == pytest.approx(every.heads[9].weights, abs=1e-9)
    seen = {(one.goal, one.word) for one in head.alternatives}
    assert seen == {("farthest", None), *((goal, i) for goal in ("favour", "avoid") for i in range(16))}


@pytest.mark.parametrize("row", [-1, 16])
def test_a_row_that_does_not_exist(row: int):
    model, tokenizer = small_classifier()
    with pytest.raises(InputError, match=f"row (is )?{row}"):
        explain(model, tokenizer, TEXT, row=row)
