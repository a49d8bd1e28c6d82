"""The live page in a browser: a text is typed, its view shown, a word clicked."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

pytest.importorskip("playwright.sync_api", reason="needs playwright, of the extra dev")

import uvicorn
from playwright.sync_api import Page, expect

from explained_pages import HOSTILE
from identiformer.serving.server import Address, bound, url
from served import LIMITS, app_of, small_served

TEXT = "The food was good, but the waiter was rude."


def _serving(app: Any) -> Iterator[str]:
    listening = bound(Address(port=0))
    server = uvicorn.Server(uvicorn.Config(app, ws="none", lifespan="off", log_config=None, access_log=False))
    thread = threading.Thread(target=server.run, args=([listening],), daemon=True)
    address = url(listening)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    yield address
    server.should_exit = True
    thread.join(10)


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    yield from _serving(app_of(small_served(replace(LIMITS, characters=20_000, tokens=24, body=100_000))))


@pytest.fixture
def live(viewer, address: str) -> Callable[..., Page]:
    """Opens the live page; it may ask its own server."""

    def opened(**settings: Any) -> Page:
        return viewer(address, allowed=(address, "data:"), **settings)

    return opened


def test_a_typed_text_is_explained(live):
    page = live()
    text = page.get_by_label("Text to explain")
    expect(text).to_be_focused()
    text.fill(TEXT)
    page.keyboard.press("Control+Enter")
    expect(page.locator(".prediction")).to_be_visible()
    expect(page.locator(".stage .word")).to_have_count(12)
    expect(page.get_by_role("button", name="Explain", exact=True)).to_be_enabled()
    expect(page.locator("#token-view")).to_have_attribute("aria-busy", "false")
    expect(text).to_have_value(TEXT)
    text.fill("Not good.")
    page.get_by_label("Layers").select_option("all")
    page.get_by_role("button", name="Explain", exact=True).click()
    expect(page.locator(".stage .word")).to_have_count(4)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_a_clicked_word_gets_its_alternative_from_the_server(live):
    page = live()
    page.get_by_label("Text to explain").fill(TEXT)
    page.keyboard.press("Control+Enter")
    page.locator(".stage .word", has_text="waiter").click()
    panel = page.locator(".alternative")
    expect(panel).to_contain_text("The model, run with them, still says")
    expect(panel).to_contain_text("Weight that moved")
    assert "favour=" in page.url or "avoid=" in page.url
    # Another text begins without the word.
    page.get_by_label("Text to explain").fill("Not good.")
    page.keyboard.press("Control+Enter")
    expect(page.locator(".stage .word")).to_have_count(4)
    expect(panel).to_be_hidden()
    assert "favour=" not in page.url
    assert "avoid=" not in page.url


def test_what_was_typed_survives_a_reload(live):
    page = live()
    page.get_by_label("Text to explain").fill(TEXT)
    page.get_by_label("Layers").select_option("0")
    page.get_by_label("bounds of the weights").uncheck()
    page.keyboard.press("Control+Enter")
    page.get_by_role("button", name="Explain", exact=True).click()
    expect(page.locator(".stage .word")).to_have_count(12)
    page.reload()
    expect(page.locator(".stage .word")).to_have_count(12)
    expect(page.get_by_label("Text to explain")).to_have_value(TEXT)
    expect(page.get_by_label("Layers")).to_have_value("0")
    expect(page.get_by_label("bounds of the weights")).not_to_be_checked()


def test_what_is_refused_is_said_and_nothing_is_lost(viewer, live):
    page = live()
    page.get_by_label("Text to explain").fill(TEXT)
    page.keyboard.press("Control+Enter")
    expect(page.locator(".stage .word")).to_have_count(12)
    page.get_by_label("Rows").select_option("all")
    page.get_by_label("Layers").select_option("all")
    page.keyboard.press("Control+Enter")
    page.get_by_role("button", name="Explain", exact=True).click()
    alert = page.get_by_role("alert")
    expect(alert).to_contain_text("sk for fewer layers, heads or rows")
    viewer.expect(
        "status of 422"
    )  # the browser's console says so of any such answer; the page cannot know its tokens
    before = page.get_by_text("What stands below is of the text that was explained before")
    expect(before).to_be_visible()
    expect(page.get_by_label("Text to explain")).to_have_value(TEXT)
    expect(page.locator(".stage .word")).to_have_count(12)  # what was shown before
    page.get_by_label("Text to explain").fill("  ")
    page.get_by_role("button", name="Explain", exact=True).click()
    expect(alert).to_have_text("The text is blank: type at least one word")
    expect(before).to_be_visible()
    expect(page.get_by_label("Text to explain")).to_be_focused()
    page.get_by_label("Text to explain").fill("Not good.")
    page.get_by_label("Rows").select_option("pooled")
    page.get_by_role("button", name="Explain", exact=True).click()
    expect(page.locator(".stage .word")).to_have_count(4)
    expect(alert).to_be_hidden()
    expect(before).to_be_hidden()
    expect(page.locator("#ask-state")).to_contain_text("Explained in")
    page.get_by_label("Text to explain").fill("Not bad.")
    expect(before).to_be_visible()


def test_a_text_too_long_stands_and_is_refused_with_words(live):
    page = live()  # and nothing is asked, or the console would say so
    text = page.get_by_label("Text to explain")
    text.fill("x" * 17_999)
    expect(page.locator("#ask-text-count")).to_be_hidden()
    text.fill("\U0001f600" * 20_000)
    expect(page.locator("#ask-text-count")).to_have_text("20,000 of 20,000 characters")
    text.fill("x" * 20_345)
    expect(page.locator("#ask-text-count")).to_have_text("20,345 of 20,000 characters: 345 too many")
    page.keyboard.press("Control+Enter")
    expect(page.get_by_role("alert")).to_have_text(
        "The text has 20,345 characters: shorten it to 20,000 at most"
    )
    assert len(text.input_value()) == 20_345


def test_a_server_that_is_gone_is_said(viewer):
    serving = _serving(app_of(small_served()))
    address = next(serving)
    page = viewer(address, allowed=(address, "data:"))
    assert next(serving, None) is None
    page.get_by_label("Text to explain").fill(TEXT)
    page.get_by_role("button", name="Explain", exact=True).click()
    expect(page.get_by_role("alert")).to_contain_text("is it still running?")
    expect(page.get_by_role("button", name="Explain", exact=True)).to_be_enabled()
    viewer.expect("ERR_CONNECTION_REFUSED")


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_texts_are_but_shown(live, text: str):
    page = live()
    page.get_by_label("Text to explain").evaluate("(area, text) => (area.value = text)", text)
    page.get_by_role("button", name="Explain", exact=True).click()
    expect(page.locator(".prediction")).to_be_visible()
    page.locator(".stage .word").nth(1).click()
    expect(page.locator(".alternative")).not_to_contain_text("Searching")
    assert page.evaluate("window.ran === undefined")
    assert page.locator("#token-view :is(script, img, iframe)").count() == 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_is_accessible(live, serious_findings, scheme: str):
    page = live(scheme=scheme)
    assert serious_findings(page) == []
    page.get_by_label("Text to explain").fill(TEXT)
    page.keyboard.press("Control+Enter")
    expect(page.locator(".stage .word")).to_have_count(12)
    assert serious_findings(page) == []
    page.get_by_role("link", name="endpoints").first.click()
    expect(page.get_by_role("heading", name="POST /api/explain")).to_be_visible()
    assert serious_findings(page) == []


def test_a_narrow_screen(live):
    page = live(width=360, height=740)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.get_by_label("Text to explain").fill(TEXT)
    page.get_by_role("button", name="Explain", exact=True).click()
    expect(page.locator("#ask-state")).to_contain_text("Explained in")
    expect(page.locator("#token-view")).to_be_focused()
    expect(page.locator(".prediction")).to_be_in_viewport()
    expect(page.get_by_label("Layers")).to_be_hidden()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.goto(page.url.split("#")[0] + "api")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
