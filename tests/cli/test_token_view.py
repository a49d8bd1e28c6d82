"""What `explain` prints: the text as it was, shaded by weight, and tables by word or by piece."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from identiformer.cli.token_view import SHOWN_AT_ALL, SHOWN_IN_FULL, token_view
from identiformer.explaining.explanation import Explanation, RefusedHead
from identiformer.explaining.heads import HeadExplanation, LevelResult
from identiformer.words import Token, Word

#       0123456789012345678901
TEXT = "So unlikely,  well \U0001f642!\nx"
# By piece: text, start, end, weight.
PIECES = [
    ("[CLS]", 0, 0, 0.1),
    ("So", 0, 2, 0.05),
    ("un", 3, 5, 0.1),
    ("like", 5, 9, 0.1),
    ("ly", 9, 11, 0.1),
    (",", 11, 12, 0.25),
    ("\u0120", 13, 13, 0.0),
    ("well", 14, 18, 0.15),
    ("\U0001f642", 19, 20, 0.04),  # two tokens of one character
    ("\U0001f642", 19, 20, 0.06),
    ("!", 20, 21, 0.05),
]
GROUPS = [[0], [1], [2, 3, 4], [5], [6], [7], [8, 9], [10]]
STRONGEST = "rgb(30,80,255)"
NONE = LevelResult(nullity=3, margin=0.0, verdict="none")
LOCAL = LevelResult(nullity=0, margin=2e-3, verdict="local")
GLOBAL = LevelResult(nullity=0, margin=5e-2, verdict="global")


def head(number: int = 0, **changed: Any) -> HeadExplanation:
    weights = np.array([weight for *_, weight in PIECES])
    of_words = np.array([weights[group].sum() for group in GROUPS])
    settings: dict[str, Any] = {
        "layer": 2,
        "head": number,
        "row": 0,
        "kind": "self",
        "weights": weights,
        "effective": weights - 0.0004,
        "lower": 0.5 * weights,
        "upper": 2 * weights,
        "possible_tops": [5, 7],
        "tied_tokens": 0,
        "levels": {"free": NONE, "simplex": LOCAL, "generatable": GLOBAL},
        "word_weights": of_words,
        "word_effective": of_words - 0.0004,
        "word_lower": 0.8 * of_words,
        "word_upper": 1.2 * of_words,
        "word_possible_tops": [2],
    }
    return HeadExplanation(**settings | changed)


def an_explanation(*heads: HeadExplanation, **changed: Any) -> Explanation:
    tokens = [
        Token(text, start, end, 0, special=not number, unknown=text == "well")
        for number, (text, start, end, _) in enumerate(PIECES)
    ]
    words = [
        Word(
            text=tokens[group[0]].text
            if len(group) == 1
            else TEXT[tokens[group[0]].start : tokens[group[-1]].end],
            start=tokens[group[0]].start,
            end=tokens[group[-1]].end,
            segment=0,
            special=not group[0],
            unknown=any(tokens[i].unknown for i in group),
            tokens=group,
        )
        for group in GROUPS
    ]
    settings: dict[str, Any] = {
        "text": TEXT,
        "text_pair": None,
        "prediction": "good",
        "probabilities": {"bad": 0.25, "good": 0.75},
        "tokens": tokens,
        "words": words,
        "heads": list(heads),
        "truncated": False,
    }
    return Explanation(**settings | changed)


def printed(explanation: Explanation, pieces: bool = False, width: int = 120) -> str:
    console = Console(width=width, color_system=None)
    with console.capture() as capture:
        console.print(token_view(explanation, pieces))
    return capture.get()


def table_of(out: str) -> dict[str, list[str]]:
    """The rows below the heading of the first table, by their first column."""
    lines = iter(out.splitlines())
    for line in lines:
        if line.split()[1:] == ["weight", "from", "to", "effective"]:
            break
    rows = [line.split() for line in lines]
    return {row[0]: row[1:] for row in rows[: rows.index([])]}


def shades(explanation: Explanation, pieces: bool) -> list[tuple[str, str]]:
    """Which characters of the text lie on a ground of which colour."""
    return [
        (part.text, part.style.bgcolor.name)
        for part in Console(width=120).render(token_view(explanation, pieces))
        if part.style is not None and part.style.bgcolor is not None
    ]


def test_words_are_shown_as_they_stand_in_the_text():
    out = printed(an_explanation(head()))
    lines = [line.rstrip() for line in out.splitlines()]
    assert lines[0] == "prediction: good  (good 0.750, bad 0.250)"
    assert lines[1] == "1 of 7 words are unknown to the model"
    assert "layer 2, head 0, row of [CLS]" in lines
    at = lines.index("  So unlikely,  well \U0001f642!")
    assert lines[at + 1] == "  x"
    assert table_of(out) == {
        "unlikely": ["0.300", "0.240", "0.360", "0.300"],
        ",": ["0.250", "0.200", "0.300", "0.250"],
        "well": ["0.150", "0.120", "0.180", "0.150"],
        "[CLS]": ["0.100", "0.080", "0.120", "0.100"],
        "\U0001f642": ["0.100", "0.080", "0.120", "0.100"],
        "So": ["0.050", "0.040", "0.060", "0.050"],
        "2": ["more", "0.050"],
    }
    assert "  free: not unique, 3 directions of freedom" in lines
    assert "  simplex: unique nearby (margin 2.0e-03)" in lines
    assert "  generatable: unique (margin 5.0e-02)" in lines
    assert "  most attended, for certain: unlikely" in lines
    assert out.count("free: any weights; simplex: any distribution") == 1


def test_pieces_are_those_of_the_text():
    out = printed(an_explanation(head()), pieces=True)
    assert list(table_of(out)) == [",", "well", "[CLS]", "un", "##like", "##ly", "5"]
    assert "could be the most attended: ,, well" in out


def test_words_and_pieces_are_shaded_by_their_weight():
    """From white for no weight to the strongest blue for the greatest; special tokens do not stand in the text."""
    by_word = dict(shades(an_explanation(head()), pieces=False))
    assert list(by_word) == ["So", "unlikely", ",", "well", "\U0001f642", "!"]
    assert by_word["unlikely"] == STRONGEST
    assert by_word["So"] == by_word["!"] == "rgb(218,226,255)"  # a sixth of that
    by_piece = shades(an_explanation(head()), pieces=True)
    assert [text for text, _ in by_piece] == ["So", "un", "like", "ly", ",", "well", "\U0001f642", "!"]
    assert dict(by_piece)[","] == STRONGEST
    # The tokens of one character together: 0.1 of 0.25.
    assert dict(by_piece)["\U0001f642"] == dict(by_piece)["un"] == "rgb(165,185,255)"


def test_what_nobody_sees_has_a_name_in_the_table():
    weights = np.zeros(len(GROUPS))
    weights[4] = 1.0
    out = printed(an_explanation(head(word_weights=weights, word_possible_tops=[4])))
    assert "most attended, for certain: '\u0120'" in out


def test_tops_of_one_name_are_certain():
    same = an_explanation(head(word_possible_tops=[5, 1]))
    words = [
        dataclasses.replace(word, text="fine") if i in (1, 5) else word for i, word in enumerate(same.words)
    ]
    out = printed(dataclasses.replace(same, words=words))
    assert "most attended, for certain: fine (one of 2)" in out


def test_a_row_is_named_by_its_piece():
    assert "row of like in unlikely" in printed(an_explanation(head(row=3)))
    assert "row of ##like" in printed(an_explanation(head(row=3)), pieces=True)
    assert "row 3 of the decoder" in printed(an_explanation(head(row=3, kind="cross")))


def test_what_is_left_out_is_said():
    reason = "of another form"
    out = printed(
        an_explanation(
            head(levels={"free": NONE, "simplex": GLOBAL}, sink=0.125),
            prediction=None,
            probabilities={},
            refused=[RefusedHead(2, 1, reason), RefusedHead(2, 3, reason)],
            notes={1: "bent", 2: "bent"},
        )
    )
    assert out.startswith("no prediction (the model does not classify texts): only its attention is shown\n")
    assert "generatable: nothing is said (see below)" in out
    assert "layers 1, 2: bent\n" in out
    assert "left out, layer.head 2.1, 2.3: of another form\n" in out
    assert "nothing (sink)   0.125" in out
    assert "sink: the share of the weight" in out


@pytest.mark.parametrize("width", [80, 120])
def test_many_rows_are_one_table(width: int):
    few = printed(an_explanation(*(head(number) for number in range(SHOWN_IN_FULL))), width=width)
    assert few.count("unlikely,  well") == SHOWN_IN_FULL
    heads = [head(number, row=number % 3) for number in range(SHOWN_IN_FULL + 1)]
    out = printed(an_explanation(*heads), width=width)
    assert "unlikely,  well" not in out
    lines = [line for line in out.splitlines() if line.startswith("2.")]
    assert len(lines) == len(heads)
    expected = ["no", "(3)", "nearby", "2e-03", "unique", "5e-02", "unlikely", "0.300", "yes"]
    assert lines[1].split() == ["2.1", "So", *expected]
    assert [len(line) for line in out.splitlines() if len(line) > width] == []
    alone = printed(an_explanation(*(head(number) for number in range(20))), width=width)
    assert "row of [CLS]\n" in alone
    assert alone.splitlines()[5].split()[:3] == ["2.0", "no", "(3)"]


def test_more_rows_than_anybody_reads_are_counted():
    out = printed(an_explanation(*(head(number, possible_tops=[5]) for number in range(SHOWN_AT_ALL + 7))))
    assert sum(line.startswith("2.") for line in out.splitlines()) == SHOWN_AT_ALL
    assert "and 7 more rows: --json writes all" in out
