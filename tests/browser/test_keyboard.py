"""Everything is reached and worked by the keyboard alone."""

from __future__ import annotations

import pytest

from explained_pages import TEXTS, explanations, page_of_many, page_of_one

pytest.importorskip("playwright.sync_api", reason="needs playwright, of the extra dev")

from playwright.sync_api import Page, expect


def _focused(page: Page) -> str:
    return page.evaluate(
        """() => {
            const at = document.activeElement;
            return at.id || at.dataset.column || at.getAttribute("aria-label") || at.className || at.tagName;
        }"""
    )


def test_tab_reaches_every_control(viewer):
    page = viewer(page_of_many())
    reached: list[str] = []
    for _ in range(60):
        page.keyboard.press("Tab")
        where = _focused(page)
        if where == "BODY":
            break
        reached.append(where)
    for wanted in (
        "skip-link", "search-texts", "only-wrong", "only-free", "Texts", "previous text", "next text", "choose-layer",
        "choose-head", "view-attention", "weight", "Numbers", "SUMMARY",
    ):  # fmt: skip
        assert wanted in reached, wanted
    assert any(name.startswith("layer 0, head 0:") for name in reached)
    assert any(name.startswith("<cls>, a token of the model's") for name in reached)
    assert len(reached) < 30  # words and heads are one stop each, not one for each of them


def test_arrows_go_through_texts(viewer):
    page = viewer(page_of_many())
    page.get_by_label("Search in texts").focus()
    page.keyboard.press("ArrowDown")
    for key, number in (
        ("ArrowDown", 12),
        ("ArrowDown", 13),
        ("ArrowUp", 12),
        ("End", 10 + len(TEXTS)),
        ("Home", 11),
    ):
        page.keyboard.press(key)
        expect(page.locator("#text-title")).to_have_text(f"Text {number}")
    active = page.locator(".texts").get_attribute("aria-activedescendant")
    expect(page.locator(f"#{active}")).to_have_attribute("aria-selected", "true")


def test_arrows_keep_to_what_was_found(viewer):
    page = viewer(page_of_many())
    page.get_by_label("Search in texts").fill("fine")
    page.keyboard.press("Enter")
    expect(page.locator("#text-title")).to_have_text("Text 13")


def test_arrows_and_enter_work_on_words(viewer):
    page = viewer(page_of_one())
    words = explanations()[0].words
    page.locator(".stage .word").first.focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowLeft")
    assert _focused(page).startswith(words[1].text)
    expect(page.locator(".tip")).to_be_visible()
    expect(page.locator(".tip")).to_contain_text(words[1].text)
    page.keyboard.press("Enter")
    expect(page.get_by_label("An alternative", exact=True)).to_be_checked()
    assert _focused(page).startswith(words[1].text)  # the focus stays where it was
    page.keyboard.press("End")
    assert _focused(page).startswith(words[-1].text)
    page.keyboard.press("Escape")
    expect(page.get_by_label("Attention", exact=True)).to_be_checked()
    page.keyboard.press("Home")
    page.keyboard.press(" ")
    expect(page.get_by_label("An alternative", exact=True)).to_be_checked()


def test_arrows_lead_to_the_next_line_and_back(viewer):
    page = viewer(page_of_one(), width=360)
    page.locator(".stage .word").nth(1).focus()
    top = page.evaluate("document.activeElement.getClientRects()[0].top")
    page.keyboard.press("ArrowDown")
    assert page.evaluate("document.activeElement.getClientRects()[0].top") > top + 20
    page.keyboard.press("ArrowUp")
    assert page.evaluate("document.activeElement.getClientRects()[0].top") == top


def test_arrows_and_enter_work_on_heads(viewer):
    page = viewer(page_of_one())
    page.get_by_role("button", name="layer 0, head 0:").focus()
    for key in ("ArrowDown", "ArrowRight", "ArrowRight", "ArrowLeft", "Enter"):
        page.keyboard.press(key)
    expect(page.locator(".caption")).to_contain_text("layer 1, head 1")
    assert _focused(page).startswith("layer 1, head 1:")


def test_shortcuts(viewer):
    page = viewer(page_of_many())
    caption = page.locator(".caption")
    for key, said in (
        ("e", "Effective attention — layer 0, head 0"),
        ("h", "Effective attention — layer 0, head 1"),
        ("H", "layer 0, head 0"),
        ("H", "layer 0, head 2"),
        ("l", "layer 1, head 2"),
        ("a", "Attention — layer 1, head 2"),
        ("s", "Other weights with the same output"),
    ):
        page.keyboard.press(key)
        expect(caption).to_contain_text(said)
    page.keyboard.press("n")
    expect(page.locator("#text-title")).to_have_text("Text 12")
    page.keyboard.press("p")
    expect(page.locator("#text-title")).to_have_text("Text 11")
    page.keyboard.press("?")
    expect(page.locator(".shortcuts dl")).to_be_visible()
    page.keyboard.press("/")
    assert _focused(page) == "search-texts"
    page.keyboard.type("hen")  # letters that are typed are no shortcuts
    expect(page.get_by_label("Search in texts")).to_have_value("hen")
    expect(page.locator("#text-title")).to_have_text("Text 11")


def test_shortcuts_can_be_switched_off(viewer):
    page = viewer(page_of_many())
    page.keyboard.press("?")
    page.get_by_label("single keys are shortcuts").uncheck()
    page.keyboard.press("e")
    page.keyboard.press("n")
    expect(page.get_by_label("Attention", exact=True)).to_be_checked()
    expect(page.locator("#text-title")).to_have_text("Text 11")
