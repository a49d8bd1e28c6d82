"""Explanations in a notebook's page: plain where no script runs, else each a token view in a frame of its own."""

from __future__ import annotations

import pytest

from explained_pages import HOSTILE, explanations

pytest.importorskip("playwright.sync_api", reason="needs playwright, of the extra dev")

from playwright.sync_api import Page, expect

_AROUND = "<p id='other' class='word'>another cell</p>"


def notebook(*cells: str) -> str:
    """A page of some results, of a dark notebook."""
    style = "<style>body { background: #111; color: #eee; font-family: serif }</style>"
    return f"<!doctype html><html lang='en'><title>n</title>{style}{_AROUND}{''.join(cells)}</html>"


def test_several_explanations_and_one_twice(viewer):
    first, second = (one._repr_html_() for one in explanations()[:2])
    page: Page = viewer(notebook(first, second, first), allowed=("file://", "data:", "about:"))
    frames = page.locator("iframe")
    expect(frames).to_have_count(3)
    for i, text in enumerate(("waiter", "Not", "waiter")):
        frames.nth(i).scroll_into_view_if_needed()
        inside = page.frame_locator("iframe").nth(i)
        expect(inside.locator(".stage .word", has_text=text).first).to_be_visible()
        inside.get_by_label("Effective attention", exact=True).check()
        expect(frames.nth(i)).not_to_have_css("height", "672px")  # as high as what is in it
    # The rest of the notebook is as it was.
    other = page.locator("#other")
    expect(other).to_have_css("background-color", "rgba(0, 0, 0, 0)")
    expect(other).to_have_css("padding-top", "0px")
    assert page.evaluate("[typeof window.identiformer, document.querySelectorAll('link, style').length]") == [
        "undefined",
        1,
    ]


def test_without_scripts_the_words_and_the_certificate_are_there(viewer):
    cell = explanations()[0]._repr_html_()
    page: Page = viewer(notebook(cell), scripts=False)
    expect(page.locator("iframe")).to_have_count(0)
    expect(page.get_by_text("Prediction:")).to_be_visible()
    expect(page.get_by_text("layer 0, head 0, row of <cls>")).to_be_visible()
    word = page.locator("span[title]", has_text="waiter").first
    expect(word).to_be_visible()
    expect(word).to_have_css("color", "rgb(238, 238, 238)")
    expect(page.get_by_text("Out of any distribution").first).to_be_visible()


@pytest.mark.parametrize("i", range(len(HOSTILE)))
def test_hostile_texts_run_in_neither(viewer, i: int):
    page: Page = viewer(notebook(explanations()[3 + i]._repr_html_()), allowed=("file://", "data:", "about:"))
    inside = page.frame_locator("iframe")
    expect(inside.locator(".stage .passage", has_text="good")).to_be_visible()
    assert page.evaluate("window.ran === undefined")
    assert inside.locator("body").evaluate("window.ran === undefined")
    assert page.locator("img, b").count() == inside.locator("#token-view :is(script, img)").count() == 0
