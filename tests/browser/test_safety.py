"""Nothing in a text or a label runs or breaks the page, which asks nothing of anybody."""

from __future__ import annotations

import re

import pytest
from markupsafe import Markup

from explained_pages import HOSTILE, LABELS, TEXTS, head, labels, page_of, page_of_many, text_of
from identiformer.report.document import document

pytest.importorskip("playwright.sync_api", reason="needs playwright, of the extra dev")

from playwright.sync_api import Page, expect


def _nothing_ran(page: Page) -> bool:
    """No code of a text set anything, nor made an element that only HTML makes."""
    made = page.locator("#token-view :is(script, img, b[onclick], iframe, i)").count()
    return page.evaluate("window.ran === undefined") and made == 0


@pytest.mark.parametrize("i", range(len(HOSTILE)))
def test_hostile_texts_are_but_shown(viewer, i: int):
    """In every view, in the list, in the search box and in words that are clicked."""
    place = len(TEXTS) - len(HOSTILE) + i
    page = viewer(page_of_many(), fragment=f"text={11 + place}")
    expect(page.locator(".prediction .wrong")).to_contain_text(labels()[place])
    for view in ("Effective attention", "An alternative", "Attention"):
        page.get_by_label(view, exact=True).check()
        assert _nothing_ran(page)
    page.get_by_label("Search in texts").fill(HOSTILE[i][:60])
    words = page.locator(".stage .word")
    words.nth(1).click()
    words.last.hover()
    assert _nothing_ran(page)
    shown = page.locator(".stage .passage").evaluate("passage => passage.textContent")
    assert re.search("[\x00-\x08\x0b-\x1f\x7f\u202a-\u202e\u2066-\u2069]", shown) is None
    assert "good" in shown
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")  # nothing sticks out


def test_characters_that_nobody_sees_are_written_out(viewer):
    page = viewer(page_of(text_of(["a\x00b", "c\u202ed", "e\u200df"], [head([0.5, 0.3, 0.2])])))
    assert page.locator(".stage .word").all_text_contents() == ["a\\x00b", "c\\u202ed", "e\u200df"]


def test_hostile_names_of_everything_else(viewer):
    """Labels, the model, reasons, notes, levels."""
    name = "</script><img src=x onerror='ran=1'>"
    alternative = {"goal": "farthest", "word": None, "level": name, "status": "found", "reason": name}
    alternative |= {"weights": [0.2, 0.8], "distance": 0.3, "residual": 0.0, "output_change": 0.0}
    alternative |= {"probabilities": {name: 0.6, "__proto__": 0.4}}
    given = text_of(
        ["one", name],
        [head([0.6, 0.4], alternatives=[alternative])],
        prediction=name,
        label="__proto__",
        probabilities={name: 0.6, "__proto__": 0.4},
        refused=[{"layer": 0, "head": 1, "reason": name}],
        notes=[{"layer": 0, "note": name}],
    )
    data = {"kind": "explanation", "model": name, "labels": [name], "explanations": [given, given]}
    data["sampled"] = {"shown": 2, "of": 3, "detailed": name}
    page = viewer(document(name, Markup(""), data), fragment="view=alternative")
    expect(page.locator("h1")).to_have_text(name)
    for part in (".sampled", ".prediction", ".alternative", ".others", ".numbers", ".texts"):
        expect(page.locator(part)).to_contain_text(name)
    assert page.locator(".probabilities .name").all_text_contents() == [name, "__proto__"]
    assert page.locator(".compared tbody th").all_text_contents() == [name, "__proto__"]
    assert _nothing_ran(page)


def test_the_policy_is_there_and_stops_what_is_not_the_pages_own(viewer):
    page = viewer(page_of_many())
    policy = page.locator("meta[http-equiv='Content-Security-Policy']").get_attribute("content")
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    page.evaluate(
        """() => {
            const script = document.createElement("script");
            script.textContent = "window.ran = 1";
            document.body.append(script);
            const button = document.createElement("button");
            button.setAttribute("onclick", "window.ran = 2");
            document.body.append(button);
            button.click();
            const styled = document.createElement("p");
            styled.id = "styled";
            styled.setAttribute("style", "color: rgb(1, 2, 3)");
            document.body.append(styled);
        }"""
    )
    assert page.evaluate("window.ran") is None
    assert page.evaluate("getComputedStyle(document.getElementById('styled')).color") != "rgb(1, 2, 3)"
    assert page.evaluate("fetch('https://example.org/').then(() => 'sent', () => 'refused')") == "refused"
    viewer.expect("Content Security Policy")


def test_labels_with_markup_in_filters_and_lists(viewer):
    page = viewer(page_of_many())
    page.get_by_label("only wrong predictions").check()
    assert page.locator(".texts li").count() > len(HOSTILE)
    assert _nothing_ran(page)
    assert set(page.locator(".texts .facts bdi").all_text_contents()) <= set(LABELS)


def test_a_word_of_many_characters_is_cut_and_wraps(viewer):
    page = viewer(page_of_many(), fragment=f"text={10 + len(TEXTS)}", width=360)
    long = page.locator(".stage .word").last
    assert long.text_content() == "x" * 300 + "… (9,700 more characters)"
    assert long.get_attribute("title") == "x" * 10_000
    box = page.locator(".stage .passage").bounding_box()
    assert box["width"] <= 360
    assert box["height"] < 1500
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
