"""Pages for every reader: without JavaScript, on paper, in the dark, on a phone, with a screen reader."""

from __future__ import annotations

import re

import pytest

from explained_pages import HOSTILE, TEXTS, head, page_of, page_of_many, page_of_one, text_of
from identiformer.report.document import LARGEST_PAGE
from report_of_size import page_of_size

pytest.importorskip("playwright.sync_api", reason="needs playwright, of the extra dev")

from playwright.sync_api import Page, expect


def test_without_javascript_the_still_part_is_shown(viewer):
    page = viewer(page_of_one(), scripts=False)
    expect(page.locator(".still")).to_be_visible()
    shown = viewer(page_of_one())
    expect(shown.locator(".still")).to_have_count(0)
    expect(shown.locator(".stage")).to_be_visible()


def _luminance(colour: str) -> float:
    """Of `rgb(...)` or `color(srgb ...)`, as WCAG 2 defines it."""
    numbers = [float(number) for number in re.findall(r"[\d.]+", colour)][:3]
    parts = [number if colour.startswith("color") else number / 255 for number in numbers]
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _contrast(one: str, other: str) -> float:
    low, high = sorted((_luminance(one), _luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("view", ["attention", "effective"])
def test_words_can_be_read_on_their_shades(viewer, scheme: str, view: str):
    weights = [1.0, 0.5, 0.01]
    page = viewer(
        page_of(text_of(["most", "half", "least"], [head(weights, effective=[-1.0, 0.5, 0.01])])),
        scheme=scheme,
        fragment=f"view={view}",
    )
    look = "(word) => [getComputedStyle(word).color, getComputedStyle(word).backgroundColor]"
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (_luminance(ground) < 0.1) == (scheme == "dark")
    ink, shade = page.locator(".stage .word").first.evaluate(look)
    assert _contrast(ink, shade) >= 4.5
    assert _contrast(ink, ground) >= 7
    assert _contrast(shade, ground) >= 1.5  # the greatest is told from none


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("view", ["attention", "effective", "alternative"])
def test_no_serious_findings_of_accessibility(viewer, serious_findings, scheme: str, view: str):
    page = viewer(page_of_many(), scheme=scheme, fragment=f"text=11&view={view}")
    page.locator(".shortcuts summary").click()
    page.locator(".stage .word").nth(2).hover()
    assert serious_findings(page) == []


def test_no_serious_findings_of_accessibility_elsewhere(viewer, serious_findings):
    """Where nothing was computed, and of a text that turns directions, on a phone."""
    page = viewer(page_of(text_of(["one", "two"], [head([0.5, 0.5])])), fragment="favour=1", width=360)
    assert serious_findings(page) == []
    page = viewer(page_of_many(), fragment=f"text={11 + len(TEXTS) - len(HOSTILE) + 3}", width=360)
    assert serious_findings(page) == []


def test_paper_has_the_text_and_all_numbers_and_nothing_to_press(viewer):
    page = viewer(page_of_many(), scheme="dark", fragment="text=11&favour=3")
    page.emulate_media(media="print", color_scheme="dark")
    for part in (".list", ".controls", ".map", ".steps", ".shortcuts", ".goals", ".tip", ".skip-link"):
        assert not page.locator(part).first.is_visible(), part
    for part in (".stage .passage", ".certificate", ".numbers", ".prediction", ".alternative .facts"):
        expect(page.locator(part)).to_be_visible()
    box = page.locator(".numbers-box")
    assert box.evaluate("box => box.scrollHeight <= box.clientHeight")  # nothing is cut off
    ink, ground = page.evaluate(
        "[getComputedStyle(document.body).color, getComputedStyle(document.body).backgroundColor]"
    )
    assert (ink, ground) == ("rgb(0, 0, 0)", "rgb(255, 255, 255)")
    shades = page.locator(".stage .word").evaluate_all(
        "all => all.map((w) => getComputedStyle(w).printColorAdjust)"
    )
    assert set(shades) == {"exact"}


@pytest.mark.parametrize("width", [360, 768, 1440])
def test_pages_fit_their_windows(viewer, width: int):
    page = viewer(page_of_many(), width=width, fragment="text=11&view=alternative")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert page.evaluate(
        "document.documentElement.scrollHeight <= document.body.scrollHeight + 1"
    )  # ends with itself
    beside = page.locator(".list").bounding_box()["x"] + 200 < page.locator(".explained").bounding_box()["x"]
    assert beside == (width == 1440)


def test_words_keep_their_plots_where_directions_mix(viewer):
    page = viewer(page_of(text_of(["מסעדה", "good", "טובה", "end"], [head([0.25] * 4)])))
    assert page.locator(".stage .passage").evaluate("p => getComputedStyle(p).direction") == "rtl"
    for i in range(4):
        word = (
            page.locator(".stage .word")
            .nth(i)
            .evaluate("w => [...w.getClientRects()].map((r) => [r.left, r.right])")
        )
        plot = page.locator(".stage .plot").nth(i).bounding_box()
        assert word[0][0] <= plot["x"] + plot["width"] / 2 <= word[0][1]


def test_names_for_screen_readers(viewer):
    page = viewer(page_of_one())
    for role, name in (
        ("main", None), ("banner", None), ("contentinfo", None), ("article", "The text"), ("region", "Numbers"),
        ("combobox", "Layer"), ("combobox", "Head"), ("radiogroup", None),
    ):  # fmt: skip
        if role != "radiogroup":
            assert page.get_by_role(role, name=name).count() == 1, (role, name)
    assert page.get_by_role("group", name="What is shown").get_by_role("radio").count() == 3
    label = page.locator(".stage .word").nth(1).get_attribute("aria-label")
    assert re.fullmatch(r"The, weight 0\.\d{3}, from 0\.\d{3}, to 0\.\d{3}, effective −?0\.\d{3}", label)
    assert page.get_by_role("columnheader").all_inner_texts()[-5:] == [
        "word",
        "weight ↓",
        "from",
        "to",
        "effective",
    ]


@pytest.fixture(scope="module")
def large_page(tmp_path_factory: pytest.TempPathFactory):
    """200 texts, 12 heads, 128 tokens."""
    file = tmp_path_factory.mktemp("large") / "report.html"
    file.write_text(page_of_size(200, 12, 128), "utf-8")
    return file


def test_large_pages_stay_small_and_decode_only_what_they_show(viewer, large_page):
    assert large_page.stat().st_size < LARGEST_PAGE

    def count(page: Page) -> None:
        page.add_init_script(
            "window.decoded = 0; const own = atob; atob = (text) => (window.decoded++, own(text));"
        )

    page = viewer(large_page, prepare=count)
    expect(page.locator(".stage .word")).to_have_count(128)
    assert page.evaluate("window.decoded") == 4  # weights, their bounds and effective attention of one head
    assert page.evaluate("document.querySelectorAll('*').length") < 5000
    page.keyboard.press("n")
    assert page.evaluate("window.decoded") == 8
    page.keyboard.press("p")
    assert page.evaluate("window.decoded") == 8


_BROKEN = """() => {
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    const broken = [];
    while (walker.nextNode()) {
        const node = walker.currentNode;
        if (node.parentElement.closest(".command, .unseen, script, style")) continue;
        for (const match of node.textContent.matchAll(/(?<![A-Za-z])[A-Za-z]{2,16}(?![A-Za-z])/g)) {
            const range = document.createRange();
            range.setStart(node, match.index);
            range.setEnd(node, match.index + match[0].length);
            const lines = new Set([...range.getClientRects()].map((r) => Math.round(r.top)));
            if (lines.size > 1) broken.push(`${node.parentElement.outerHTML.slice(0, 80)}: ${match[0]}`);
        }
    }
    return broken;
}"""


@pytest.mark.parametrize("view", ["attention", "alternative"])
def test_no_word_of_a_narrow_page_is_broken_by_letters(viewer, view: str):
    page = viewer(page_of_many(), width=360, fragment=f"text=11&view={view}")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert page.evaluate(_BROKEN) == []


def test_the_tip_is_below_the_word_where_there_is_room(viewer):
    page = viewer(page_of(text_of(["one", "two"], [head([0.5, 0.5])])), height=1400)
    word = page.locator(".stage .word").first
    word.hover()
    tip, box = page.locator(".tip").bounding_box(), word.bounding_box()
    assert tip["y"] >= box["y"] + box["height"]
    # A window that ends a little below the word.
    low = viewer(
        page_of(text_of(["one", "two"], [head([0.5, 0.5])])), height=round(box["y"] + box["height"]) + 40
    )
    word = low.locator(".stage .word").first
    word.hover()
    tip, box = low.locator(".tip").bounding_box(), word.bounding_box()
    assert tip["y"] + tip["height"] <= box["y"]
