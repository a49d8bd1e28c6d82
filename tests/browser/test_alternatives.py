"""Same answer, different explanation: by word, from the page, from a server, or why there is none."""

from __future__ import annotations

import shlex
from typing import Any

import pytest

from explained_pages import explanations, head, page_of, page_of_one, text_of

pytest.importorskip("playwright.sync_api", reason="needs playwright, of the extra dev")

from playwright.sync_api import Page, expect

UNIQUE = {
    name: {"nullity": 0, "margin": 0.5, "verdict": "global"} for name in ("free", "simplex", "generatable")
}
FOUND = {
    "goal": "favour",
    "word": 1,
    "level": "simplex",
    "status": "found",
    "reason": "the word has more",
    "weights": [0.1, 0.8, 0.1],
    "distance": 0.5,
    "residual": 2.5e-9,
    "output_change": 3.5e-8,
    "probabilities": {"good": 0.9, "bad": 0.1},
}


def _click(page: Page, word: str) -> None:
    page.locator(".stage .word", has_text=word).first.click()


def test_words_are_favoured_and_avoided(viewer):
    """The numbers are those of the explanation's alternatives, for a word that another one is heavier than."""
    one: Any = explanations()[0].heads[0]
    chosen = next(
        other
        for other in one.alternatives
        if other.goal == "favour"
        and other.status == "found"
        and one.word_weights[other.word] < one.word_weights.max()
        and explanations()[0].words[other.word].text not in ("the", "was")
    )
    word = explanations()[0].words[chosen.word]
    page = viewer(page_of_one(), fragment="text=1&layer=0&head=0")
    page.locator(f'.stage .word[data-item="{chosen.word}"]').click()
    panel = page.locator(".alternative")
    expect(panel.get_by_role("button", name=f"More weight on “{word.text}”")).to_have_attribute(
        "aria-pressed", "true"
    )
    favoured = chosen.weights[word.tokens].sum()
    expect(panel).to_contain_text(f"{one.word_weights[chosen.word]:.3f} → {favoured:.3f}")
    panel.get_by_role("button", name=f"Less weight on “{word.text}”").click()
    avoided = next(other for other in one.alternatives if other.goal == "avoid" and other.word == chosen.word)
    if avoided.status == "found":
        less = avoided.weights[word.tokens].sum()
        assert less < one.word_weights[chosen.word] < favoured
        expect(panel).to_contain_text(f"{one.word_weights[chosen.word]:.3f} → {less:.3f}")
    page.locator(f'.stage .word[data-item="{chosen.word}"]').click()  # once more: back
    expect(panel).to_be_hidden()
    expect(page.get_by_label("Attention", exact=True)).to_be_checked()


def test_the_heaviest_word_is_avoided(viewer):
    page = viewer(page_of(text_of(["one", "two", "three"], [head([0.2, 0.3, 0.5])])))
    _click(page, "three")
    expect(page.get_by_role("button", name="Less weight on “three”")).to_have_attribute(
        "aria-pressed", "true"
    )
    _click(page, "one")
    expect(page.get_by_role("button", name="More weight on “one”")).to_have_attribute("aria-pressed", "true")


def test_the_same_answer_is_shown(viewer):
    given = text_of(
        ["one", "two", "three"],
        [head([0.6, 0.3, 0.1], alternatives=[FOUND])],
        prediction="good",
        probabilities={"good": 0.9, "bad": 0.1},
    )
    page = viewer(page_of(given))
    page.get_by_role("button", name="Show one").click()
    expect(page.get_by_label("An alternative", exact=True)).to_be_checked()
    panel = page.locator(".alternative")
    expect(panel).to_contain_text("The model, run with them, still says good.")
    expect(panel).to_contain_text("50%")
    expect(panel).to_contain_text("one → two")
    expect(panel).to_contain_text("2.5e−9 of its length")
    expect(panel).to_contain_text("3.5e−8 of its largest number")
    assert panel.locator(".compared tbody tr").all_inner_texts() == [
        "good\t0.9000\t0.9000",
        "bad\t0.1000\t0.1000",
    ]
    expect(page.locator(".comparison .word")).to_have_count(3)
    assert page.locator(".stage .ring").count() == 3


def test_of_pieces_an_alternative_is_summed_for_words(viewer):
    tokens = [
        {"text": "a", "start": 0, "end": 1, "segment": 0},
        {"text": "b", "start": 1, "end": 2, "segment": 0},
    ]
    tokens.append({"text": "c", "start": 3, "end": 4, "segment": 0})
    words = [
        {"text": "ab", "start": 0, "end": 2, "segment": 0, "tokens": [0, 1]},
        {"text": "c", "start": 3, "end": 4, "segment": 0, "tokens": [2]},
    ]
    summed = {"weights": [0.9, 0.1], "effective": [0.9, 0.1], "intervals": None, "possible_tops": None}
    one = head([0.6, 0.3, 0.1], words=summed, alternatives=[{**FOUND, "weights": [0.25, 0.125, 0.625]}])
    page = viewer(
        page_of(text_of([], [one], text="ab c", tokens=tokens, words=words)), fragment="view=alternative"
    )
    column = page.locator(".numbers tbody td:last-child")
    assert column.all_inner_texts() == ["0.375", "0.625"]
    page.get_by_label("Pieces").check()
    assert column.all_inner_texts() == ["0.250", "0.125", "0.625"]


def test_a_unique_head_says_why_there_is_none(viewer):
    page = viewer(page_of(text_of(["one", "two"], [head([0.6, 0.4], levels=UNIQUE)])))
    _click(page, "two")
    expect(page.locator(".alternative")).to_contain_text(
        "There is none: this head’s output fixes its weights"
    )
    assert page.locator(".alternative code").count() == 0
    expect(page.locator(".caption")).to_contain_text("Attention")


@pytest.mark.parametrize(
    ("status", "said"), [("unique", "There is none, and that is certain"), ("not_found", "None was found")]
)
def test_why_there_is_none(viewer, status: str, said: str):
    none = {**FOUND, "status": status, "reason": "<i>so</i> it is", "weights": None, "probabilities": None}
    page = viewer(page_of(text_of(["one", "two"], [head([0.6, 0.4], alternatives=[none])])))
    _click(page, "two")
    expect(page.locator(".alternative")).to_contain_text(f"{said}")
    expect(page.locator(".alternative")).to_contain_text("<i>so</i> it is.")


def test_bounds_tell_that_there_is_none(viewer):
    bounds = {"lower": [0.4, 0.1], "upper": [0.8, 0.4]}
    page = viewer(page_of(text_of(["one", "two"], [head([0.6, 0.4], intervals=bounds, possible_tops=[0])])))
    _click(page, "two")
    expect(page.locator(".alternative")).to_contain_text(
        "no distribution with the same output gives this word more"
    )
    page.get_by_role("button", name="Less weight on “two”").click()
    expect(page.locator(".alternative code")).to_have_count(1)


def test_what_was_not_computed_names_the_command(viewer):
    given = text_of(["it's", "good"], [head([0.6, 0.4], layer=3, head=2)])
    page = viewer(page_of(given))
    _click(page, "good")
    expect(page.locator(".alternative code")).to_have_text(
        "identiformer explain small --text 'it'\\''s good' --layers 3 --heads 2 --row 0 --html explanation.html"
    )


def test_the_command_gives_a_long_text_whole(viewer):
    words = ["it's", "$HOME", "`x`", *["word"] * 300, "good"]
    page = viewer(page_of(text_of(words, [head([1.0] + [0.0] * 303, layer=3, head=2, row=44)])), width=360)
    _click(page, "good")
    code = page.locator(".alternative code")
    given = shlex.split(code.text_content())
    assert given == [
        *("identiformer", "explain", "small", "--text", " ".join(words), "--layers", "3", "--heads", "2"),
        *("--row", "44", "--html", "explanation.html"),
    ]
    assert page.locator(".alternative .command").bounding_box()["height"] < 300
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_the_command_leaves_out_what_cannot_be_pasted(viewer):
    page = viewer(page_of(text_of(["a\x1bb", "good"], [head([0.6, 0.4])])))
    _click(page, "good")
    expect(page.locator(".alternative code")).to_contain_text("--text '…' --layers 0")


def test_a_server_is_asked_for_what_is_not_there(viewer):
    page = viewer(page_of(text_of(["one", "two", "three"], [head([0.6, 0.3, 0.1])]), live=True))
    page.evaluate(
        """found => {
            window.asked = [];
            window.identiformer.askAlternative = (explanation, head, word, goal) => {
                window.asked.push([explanation.text, head.layer, head.head, word, goal]);
                return new Promise((resolve, reject) => {
                    window.answer = () => resolve(found);
                    window.refuse = reject;
                });
            };
        }""",
        FOUND,
    )
    _click(page, "two")
    panel = page.locator(".alternative")
    expect(panel).to_contain_text("Searching")
    page.evaluate("window.refuse(new Error('the <b>server</b> is busy'))")
    expect(panel).to_contain_text("the <b>server</b> is busy")
    panel.get_by_role("button", name="Try again").click()
    expect(panel).to_contain_text("Searching")
    page.evaluate("window.answer()")
    expect(panel).to_contain_text("0.300 → 0.800")
    assert page.evaluate("window.asked") == [["one two three", 0, 0, 1, "favour"]] * 2
    page.get_by_label("Attention", exact=True).check()
    _click(page, "two")  # it is known now
    expect(panel).to_contain_text("0.300 → 0.800")
    assert len(page.evaluate("window.asked")) == 2


def test_alternatives_are_chosen_from_a_list(viewer):
    farthest = {**FOUND, "goal": "farthest", "word": None, "weights": [0.0, 0.2, 0.8]}
    page = viewer(
        page_of(text_of(["one", "two", "three"], [head([0.6, 0.3, 0.1], alternatives=[farthest, FOUND])]))
    )
    page.get_by_label("An alternative", exact=True).check()
    choice = page.get_by_label("Alternatives of this head")
    expect(choice).to_have_value("farthest")
    expect(page.locator(".alternative")).to_contain_text("one → three")
    choice.focus()
    choice.select_option(label="More weight on “two”")
    expect(page.locator(".alternative")).to_contain_text("one → two")
    expect(choice).to_be_focused()


def test_equal_shades_are_equal_weights_in_both_texts(viewer):
    page = viewer(
        page_of(text_of(["one", "two", "three"], [head([0.4, 0.4, 0.2], alternatives=[FOUND])])),
        fragment="view=alternative",
    )

    def levels(part: str) -> list[float]:
        return page.locator(f"{part} .word").evaluate_all(
            "all => all.map((w) => Number(w.style.getPropertyValue('--level')))"
        )

    assert levels(".stage") == [0.125, 1.0, 0.125]
    assert levels(".comparison") == [0.5, 0.5, 0.25]
    expect(page.locator(".legend li").first).to_have_text("weight: 0 to 0.800, here and in the comparison")
