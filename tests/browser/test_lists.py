"""Pages of many texts: what is searched, filtered, chosen and linked to."""

from __future__ import annotations

import pytest

from explained_pages import TEXTS, explanations, head, labels, page_of, page_of_many, text_of

pytest.importorskip("playwright.sync_api", reason="needs playwright, of the extra dev")

from playwright.sync_api import Page, expect


def _listed(page: Page) -> list[int]:
    """Which texts the list has."""
    return [int(i) for i in page.locator(".texts li").evaluate_all("all => all.map((li) => li.dataset.text)")]


def test_all_texts_are_listed_and_the_sample_is_told(viewer):
    page = viewer(page_of_many())
    assert _listed(page) == list(range(len(TEXTS)))
    expect(page.locator(".sampled")).to_have_text(
        f"This page shows {len(TEXTS)} of 1,234 texts. All rows have bounds."
    )
    expect(page.locator(".list [role=status]")).to_have_text(f"{len(TEXTS)} texts")


def test_texts_are_searched(viewer):
    page = viewer(page_of_many())
    search = page.get_by_label("Search in texts")
    search.fill("WAITER")
    assert _listed(page) == [0]
    expect(page.locator(".list [role=status]")).to_have_text(f"1 of {len(TEXTS)} texts")
    expect(page.locator(".excerpt mark")).to_have_text("waiter")
    search.fill("<script>")  # what a text holds is searched as it stands, and runs nowhere
    assert _listed(page) == [3, 4]
    search.fill("no such words")
    assert _listed(page) == []
    search.fill("")
    assert len(_listed(page)) == len(TEXTS)


def test_wrong_predictions_are_filtered(viewer):
    page = viewer(page_of_many())
    page.get_by_label("only wrong predictions").check()
    wrong = [
        i
        for i, (one, label) in enumerate(zip(explanations(), labels(), strict=True))
        if one.prediction != label
    ]
    assert 1 in wrong
    assert 0 not in wrong
    assert _listed(page) == wrong
    page.locator('.texts li[data-text="1"]').click()
    expect(page.locator(".prediction .wrong")).to_contain_text(f"wrong: it is labelled {labels()[1]}")


@pytest.mark.parametrize("level", ["simplex", "generatable"])
def test_texts_that_are_not_unique_are_filtered(viewer, level: str):
    page = viewer(page_of_many())
    page.get_by_label("Certificates").select_option(level)
    free = [
        i
        for i, one in enumerate(explanations())
        if any(head.levels[level].verdict == "none" for head in one.heads)
    ]
    assert len(free) < len(TEXTS)
    assert _listed(page) == free


def test_filters_work_together(viewer):
    page = viewer(page_of_many())
    page.get_by_label("only wrong predictions").check()
    page.get_by_label("Search in texts").fill("not good")
    assert _listed(page) == [1]


def test_a_chosen_text_is_shown_and_keeps_the_head(viewer):
    page = viewer(page_of_many(), fragment="text=11&layer=1&head=2")
    page.locator('.texts li[data-text="2"]').click()
    expect(page.locator("#text-title")).to_have_text("Text 13")
    expect(page.locator(".caption")).to_contain_text("layer 1, head 2")
    assert page.locator(".stage .passage").text_content() == f"<cls>{TEXTS[2]}"
    expect(page.locator('.texts [aria-selected="true"]')).to_have_attribute("data-text", "2")


def test_long_lists_are_shown_in_parts(viewer):
    many = [text_of([f"word{i}"], [head([1.0])]) for i in range(450)]
    page = viewer(page_of(*many))
    assert len(_listed(page)) == 300
    page.get_by_role("button", name="Show more").click()
    assert len(_listed(page)) == 450
    page.get_by_label("Search in texts").fill("word44")
    assert _listed(page) == [44, *range(440, 450)]
    expect(page.get_by_role("button", name="Show more")).to_be_hidden()


def test_links_show_what_they_name(viewer):
    page = viewer(page_of_many(), fragment="text=13&layer=1&head=1&view=effective")
    expect(page.locator("#text-title")).to_have_text("Text 13")
    expect(page.locator(".caption")).to_contain_text("Effective attention — layer 1, head 1")
    page.evaluate("location.hash = '#text=12&layer=0&head=2'")  # a link within the page
    expect(page.locator("#text-title")).to_have_text("Text 12")
    expect(page.locator(".caption")).to_contain_text("Attention — layer 0, head 2")


def test_links_may_name_a_part(viewer):
    page = viewer(page_of_many(), fragment="text=12&head=2")
    expect(page.locator(".caption")).to_contain_text("layer 0, head 2")


def test_the_address_follows_what_is_shown(viewer):
    page = viewer(page_of_many())
    assert page.evaluate("location.hash") == ""
    page.locator('.texts li[data-text="1"]').click()
    page.get_by_label("Layer", exact=True).select_option("1")
    page.get_by_label("Effective attention").check()
    assert page.evaluate("location.hash") == "#text=12&layer=1&head=0&row=0&view=effective"
    first = page.locator("#token-view").inner_text()
    page.reload()
    assert page.locator("#token-view").inner_text() == first


@pytest.mark.parametrize(
    "fragment",
    [
        "text=999",
        "text=-1&layer=x",
        "layer=77&head=99&row=5",
        "view=__proto__",
        "favour=99999",
        "%zz&&=",
        "main",
    ],
)
def test_links_to_nothing_show_the_first_text(viewer, fragment: str):
    page = viewer(page_of_many(), fragment=fragment)
    expect(page.locator("#text-title")).to_have_text("Text 11")
    expect(page.locator(".caption")).to_contain_text("layer")


def test_a_link_to_a_word_shows_its_alternative(viewer):
    page = viewer(page_of_many(), fragment="text=11&layer=0&head=0&favour=3")
    expect(page.get_by_label("An alternative", exact=True)).to_be_checked()
    word = explanations()[0].words[3].text
    expect(page.get_by_role("button", name=f"More weight on “{word}”")).to_have_attribute(
        "aria-pressed", "true"
    )


def test_the_search_is_trimmed_and_finds_numbers_and_labels(viewer):
    given = [
        text_of(["one"], [head([1.0])], id=114, label="Fine", prediction="poor"),
        text_of(["two"], [head([1.0])], id=11, label="poor", prediction="poor"),
        text_of(["fine", "day"], [head([0.5, 0.5])], id=1140, label="poor", prediction="poor"),
    ]
    page = viewer(page_of(*given))
    search = page.get_by_label("Search in texts")
    for query, listed in {
        "  two ": [1],
        "#114": [0],
        "fine": [0, 2],
        "POOR": [0, 1, 2],
        "   ": [0, 1, 2],
    }.items():
        search.fill(query)
        assert _listed(page) == listed, query


def test_what_is_shown_is_one_of_the_listed_or_it_is_said(viewer):
    page = viewer(page_of_many(), fragment="text=13")
    search = page.get_by_label("Search in texts")
    search.fill("waiter")
    expect(page.locator("#text-title")).to_have_text("Text 11")
    expect(page.locator(".unlisted")).to_have_text("")
    expect(search).to_be_focused()
    search.fill("no such words")
    expect(page.locator(".unlisted")).to_contain_text("No text fits the search")
    expect(page.locator("#text-title")).to_have_text("Text 11")
    search.fill("waiter")
    page.evaluate("location.hash = '#text=13'")
    expect(page.locator(".unlisted")).to_have_text("This text is not one of those listed.")


def test_a_filtered_text_opens_at_a_head_that_is_not_unique(viewer):
    def level(verdict: str) -> dict[str, object]:
        return {"nullity": int(verdict == "none"), "margin": 0.5, "verdict": verdict}

    def one(number: int, simplex: str, generatable: str) -> dict[str, object]:
        levels = {"simplex": level(simplex), "generatable": level(generatable)}
        return head([0.5, 0.5], head=number, levels=levels)

    some = text_of(
        ["one", "two"], [one(0, "none", "local"), one(1, "none", "none"), one(2, "global", "global")]
    )
    other = text_of(["three", "four"], [one(0, "none", "local")])
    page = viewer(page_of(some, other))
    marks = page.locator(".texts li .state").evaluate_all(
        "all => all.map((s) => [...s.querySelectorAll('.mark')].map((m) => m.classList[1]))"
    )
    assert marks == [["none", "none"], ["none", "local"]]  # as in the map of heads
    assert page.locator(".texts .state .unseen").all_text_contents() == [
        "among distributions: not unique; among what queries generate: not unique",
        "among distributions: not unique; among what queries generate: unique nearby",
    ]
    page.locator('.texts li[data-text="1"]').click()
    page.get_by_label("Certificates").select_option("generatable")
    expect(page.locator(".caption")).to_contain_text("layer 0, head 1")
    expect(page.locator("[data-level=generatable]")).to_contain_text("not unique: 1 direction")
    page.get_by_label("Head", exact=True).select_option("2")  # whoever looks elsewhere may
    expect(page.locator(".caption")).to_contain_text("layer 0, head 2")
    page.locator('.texts li[data-text="0"]').click()
    expect(page.locator(".caption")).to_contain_text("layer 0, head 1")
