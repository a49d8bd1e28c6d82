"""What the token view shows: the numbers of the explanation, by word and by piece, in each of its views."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from explained_pages import explanations, head, page_of, page_of_one, text_of

pytest.importorskip("playwright.sync_api", reason="needs playwright, of the extra dev")

from playwright.sync_api import Page, expect


def _table(page: Page) -> dict[str, list[str]]:
    """The columns of the table of numbers, sorted by word."""
    page.locator("[data-column=word], [data-column=piece]").click()
    names = [name.strip(" ↑↓") for name in page.locator(".numbers thead th").all_inner_texts()]
    rows = [row.split("\t") for row in page.locator(".numbers tbody tr").all_inner_texts()]
    return dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))


def _shown(numbers: np.ndarray) -> list[str]:
    return [f"{round(float(number), 3) + 0.0:.3f}".replace("-", "−") for number in numbers]


def _close(shown: list[str], numbers: np.ndarray) -> bool:
    """What is shown is what the JSON rounds to, whatever packing does."""
    return shown == _shown(numbers)


@pytest.mark.parametrize(("layer", "number"), [(0, 0), (0, 2), (1, 1)])
def test_numbers_are_those_of_the_explanation(viewer, layer: int, number: int):
    one: Any = next(head for head in explanations()[0].heads if (head.layer, head.head) == (layer, number))
    page = viewer(page_of_one(), fragment=f"text=1&layer={layer}&head={number}&view=alternative")
    table = _table(page)
    assert table["word"] == [word.text for word in explanations()[0].words]
    alternative = one.alternatives[0]
    assert (alternative.goal, alternative.status) == ("farthest", "found")
    of_word = np.array([alternative.weights[word.tokens].sum() for word in explanations()[0].words])
    for column, numbers in {
        "weight": one.word_weights,
        "from": one.word_lower,
        "to": one.word_upper,
        "effective": one.word_effective,
        "alternative": of_word,
    }.items():
        assert _close(table[column], numbers), column
    assert not _close(table["alternative"], one.word_weights)


def test_shades_are_shares_of_the_greatest_weight(viewer):
    page = viewer(page_of(text_of(["one", "two", "three"], [head([0.25, 0.5, 0.125])])))
    levels = page.locator(".stage .word").evaluate_all(
        "all => all.map((w) => w.style.getPropertyValue('--level'))"
    )
    assert [float(level) for level in levels] == [0.5, 1, 0.25]
    grounds = page.locator(".stage .word").evaluate_all(
        "all => all.map((w) => getComputedStyle(w).backgroundColor)"
    )
    assert len(set(grounds)) == 3


def test_views_switch(viewer):
    one = head([0.5, 0.3, 0.2], effective=[0.4, -0.1, 0.05])
    page = viewer(page_of(text_of(["one", "two", "three"], [one])))
    expect(page.get_by_label("Attention", exact=True)).to_be_checked()
    assert page.locator(".stage .word.negative").count() == 0
    page.get_by_label("Effective attention").check()
    expect(page.locator(".caption")).to_contain_text("Effective attention")
    assert page.locator(".stage .word.negative").all_inner_texts() == ["two"]
    assert page.locator(".stage .bar.down").count() == 1
    assert "effective −0.100" in page.locator(".stage .word").nth(1).get_attribute("aria-label")
    levels = page.locator(".stage .word").evaluate_all(
        "all => all.map((w) => w.style.getPropertyValue('--level'))"
    )
    assert [float(level) for level in levels] == [1, 0.25, 0.125]
    page.get_by_label("Attention", exact=True).check()
    expect(page.locator(".caption")).to_have_text(re.compile("^Attention"))


def test_whiskers_go_from_bound_to_bound(viewer):
    bounds = {"lower": [0.1, 0.3], "upper": [0.8, 0.3]}
    one = head([0.4, 0.3], intervals=bounds, possible_tops=[0, 1])
    page = viewer(page_of(text_of(["free", "fixed"], [one])))
    whiskers = page.locator(".stage .whisker")
    assert whiskers.count() == 1  # the other one is certain
    plot, whisker = page.locator(".stage .plot").first.bounding_box(), whiskers.bounding_box()
    high = plot["y"] + plot["height"] - 1  # less the line at zero
    tall = plot["height"] - 1
    assert (high - whisker["y"] - whisker["height"]) / tall == pytest.approx(0.1 / 0.8, abs=0.04)
    assert (high - whisker["y"]) / tall == pytest.approx(1, abs=0.04)


def test_certificates_are_said_in_words(viewer):
    levels = {
        "free": {"nullity": 14, "margin": 0.0, "verdict": "none"},
        "simplex": {"nullity": 1, "margin": 0.0, "verdict": "none"},
        "generatable": {"nullity": 0, "margin": 0.0012, "verdict": "local"},
    }
    other = {name: {"nullity": 0, "margin": 0.25, "verdict": "global"} for name in ("free", "simplex")}
    heads = [head([0.5, 0.5], levels=levels), head([0.5, 0.5], head=1, levels=other)]
    page = viewer(page_of(text_of(["one", "two"], heads)))
    said = {name: page.locator(f"[data-level={name}]") for name in ("free", "simplex", "generatable")}
    expect(said["free"]).to_contain_text("not unique: 14 directions of freedom")
    expect(said["simplex"]).to_contain_text("not unique: 1 direction of freedom")
    expect(said["generatable"]).to_contain_text(re.compile("unique nearby.*margin 1.2e−3", re.S))
    expect(page.locator(".headline")).to_contain_text("Not by a small change of the query")
    page.get_by_label("Head", exact=True).select_option("1")
    expect(said["simplex"]).to_contain_text(re.compile(r"unique\s*margin 2.5e−1", re.S))
    expect(said["generatable"]).to_contain_text("nothing is said")
    expect(page.locator(".headline")).to_contain_text("No other distribution")


def test_tops_are_those_of_the_explanation(viewer):
    page = viewer(page_of_one())
    for one in explanations()[0].heads:
        page.get_by_label("Layer", exact=True).select_option(str(one.layer))
        page.get_by_label("Head", exact=True).select_option(str(one.head))
        words = [explanations()[0].words[i].text for i in one.word_possible_tops or ()]
        said = page.locator(".certificateBox > p").nth(1)
        if len(words) == 1:
            expect(said).to_have_text(f"Most attended, for certain: {words[0]}.")
        else:
            expect(said).to_contain_text("Could be the most attended")
            for name in said.locator("strong").all_inner_texts():
                assert name in words


def test_words_and_pieces(viewer):
    tokens = [
        {"text": "[CLS]", "start": 0, "end": 0, "segment": 0, "special": True},
        {"text": "play", "start": 0, "end": 4, "segment": 0},
        {"text": "ing", "start": 4, "end": 7, "segment": 0},
        {"text": "well", "start": 8, "end": 12, "segment": 0, "unknown": True},
    ]
    words = [
        {**tokens[0], "tokens": [0]},
        {"text": "playing", "start": 0, "end": 7, "segment": 0, "tokens": [1, 2]},
        {**tokens[3], "tokens": [3]},
    ]
    summed = {
        "weights": [0.1, 0.7, 0.2],
        "effective": [0.1, 0.7, 0.2],
        "intervals": None,
        "possible_tops": None,
    }
    one = head([0.1, 0.4, 0.3, 0.2], words=summed, row=2)
    page = viewer(page_of(text_of([], [one], text="playing well", tokens=tokens, words=words)))
    assert page.locator(".stage .word").all_inner_texts() == ["[CLS]", "playing", "well"]
    assert page.locator(".stage .chip").all_inner_texts() == ["[CLS]"]
    expect(page.locator(".remarks")).to_contain_text("1 of 2 words is unknown to the model")
    expect(page.locator(".caption")).to_contain_text("row of ing in playing")
    page.get_by_label("Pieces").check()
    assert page.locator(".stage .word").all_inner_texts() == ["[CLS]", "play", "ing", "well"]
    expect(page.locator(".caption")).to_contain_text("row of ##ing")
    table = _table(page)
    assert table["piece"] == ["[CLS]", "play", "##ing", "well"]
    assert table["weight"] == ["0.100", "0.400", "0.300", "0.200"]


def test_the_text_stands_as_it_was_given(viewer):
    words = ["one", "😀", "👩‍👩‍👧", "five"]  # characters that are two units or more in JavaScript
    page = viewer(page_of(text_of(words, [head([0.25] * 4)])))
    assert page.locator(".stage .word").all_inner_texts() == words
    assert page.locator(".stage .passage").text_content() == " ".join(words)


def test_what_was_not_read_is_told_apart(viewer):
    cut = text_of(["one", "two"], [head([0.5, 0.5])], truncated=True)
    cut["text"] += " three four"
    page = viewer(page_of(cut))
    assert page.locator(".unread").inner_text() == " three four"
    expect(page.locator(".remarks")).to_contain_text("cut after 2 tokens")


def test_pairs_sinks_ties_refusals_and_notes(viewer):
    pair = {"text": "four", "start": 0, "end": 4, "segment": 1}
    given = text_of(
        ["one", "two"],
        [head([0.3, 0.3, 0.1], sink=0.3, tied_tokens=2), head([0.3, 0.3, 0.1], layer=2, kind="cross", row=7)],
        text_pair="four five",
        refused=[{"layer": 0, "head": 1, "reason": "its <b>logits</b> are changed"}],
        notes=[{"layer": 2, "note": "relative keys"}],
    )
    given["tokens"].append(pair)
    given["words"].append({**pair, "tokens": [2]})
    page = viewer(page_of(given))
    assert page.locator(".stage .passage").all_text_contents() == ["one two", "four five"]
    expect(page.locator(".certificateBox")).to_contain_text("0.300 of the weight goes to no token at all")
    expect(page.locator(".certificateBox")).to_contain_text("2 tokens have the same key and value")
    expect(page.locator(".numbers")).to_contain_text("nothing (sink)")
    expect(page.locator(".others")).to_contain_text("layer.head 0.1: its <b>logits</b> are changed")
    expect(page.locator(".others")).to_contain_text("Layer 2: relative keys")
    page.get_by_label("Layer", exact=True).select_option("2")
    expect(page.locator(".caption")).to_contain_text("row 7 of the decoder")


def test_bounds_that_were_not_computed(viewer):
    page = viewer(page_of(text_of(["one", "two"], [head([0.5, 0.5])])))
    expect(page.locator(".certificateBox")).to_contain_text("were not computed for this row")
    assert "from" not in page.locator(".numbers thead").inner_text()
    assert page.locator(".stage .whisker").count() == 0


def test_the_map_shows_and_chooses_heads(viewer):
    page = viewer(page_of_one())
    assert page.locator(".head-map .cell").count() == 6
    page.get_by_role("button", name="layer 1, head 2:").click()
    expect(page.locator(".caption")).to_contain_text("layer 1, head 2")
    expect(page.get_by_role("button", name="layer 1, head 2:")).to_have_attribute("aria-pressed", "true")
    expect(page.get_by_label("Head", exact=True)).to_have_value("2")


def test_one_head_needs_no_map(viewer):
    page = viewer(page_of(text_of(["one", "two"], [head([0.5, 0.5])])))
    expect(page.locator(".caption")).to_contain_text("layer 0, head 0")
    assert page.locator(".map").inner_text() == ""


def test_numbers_sort(viewer):
    page = viewer(page_of(text_of(["b", "a", "c"], [head([0.2, 0.5, 0.3])])))
    words = page.locator(".numbers tbody th")
    assert words.all_inner_texts() == ["a", "c", "b"]  # by weight
    page.locator("[data-column=weight]").click()
    assert words.all_inner_texts() == ["b", "c", "a"]
    expect(page.locator("th", has=page.locator("[data-column=weight]"))).to_have_attribute(
        "aria-sort", "ascending"
    )
    page.locator("[data-column=word]").click()
    assert words.all_inner_texts() == ["b", "a", "c"]  # as in the text


def test_show_replaces_what_is_shown(viewer):
    page = viewer(page_of_one())
    data = {"kind": "live", "model": "m", "labels": [], "sampled": None}
    data["explanations"] = [text_of(["another", "text"], [head([0.5, 0.5])])]
    page.evaluate("data => window.identiformer.show(data)", data)
    assert page.locator(".stage .passage").text_content() == "another text"
    page.evaluate("data => window.identiformer.show(data)", {**data, "explanations": []})
    expect(page.locator("#token-view")).to_have_text("There is no explanation to show.")
