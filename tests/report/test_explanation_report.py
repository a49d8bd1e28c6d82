"""The page of an explanation, and what is seen of it where no script runs: in a browser, and in a notebook."""

from __future__ import annotations

import dataclasses
import json
import re
from functools import cache
from typing import Any

import numpy as np
import pytest

from architectures import build
from hostile import HOSTILE, Read
from identiformer.errors import InputError
from identiformer.explaining.alternatives import AlternativeLimits
from identiformer.explaining.explanation import Explanation, RefusedHead, explain
from identiformer.report import explanation_page, explanation_report
from identiformer.report.document import LARGEST_PAGE, readable
from identiformer.report.notebook import notebook_html
from identiformer.report.packing import bytes_of, unpack
from identiformer.report.static_view import static_head, static_view
from pieces import LONG, pieces_tokenizer
from small import small_classifier

TEXT = "We waited; and waited but nobody came with food or good music, not one"


@cache
def explained() -> Explanation:
    model, tokenizer = small_classifier()
    return explain(model, tokenizer, TEXT, alternatives=AlternativeLimits(programs=60))


def data_of(page: str) -> dict[str, Any]:
    return json.loads(Read(page).contents["script"][0])


def ranked(result: Explanation) -> list[str]:
    """The labels, the most probable first."""
    return sorted(result.probabilities, key=lambda label: -result.probabilities[label])


def test_a_page_holds_the_explanation():
    page = explained().to_html("models/mine")
    data = data_of(page)
    assert (data["kind"], data["model"], data["labels"]) == ("explanation", "models/mine", ["bad", "good"])
    (one,) = data["explanations"]
    assert (one["id"], one["label"], one["text"]) == (None, None, TEXT)
    assert len(one["heads"]) == 3
    assert unpack(one["heads"][1]["weights"]) == pytest.approx(explained().heads[1].weights, abs=1e-5)
    assert data["sampled"] == {
        "shown": 1,
        "of": 1,
        "detailed": "Alternatives were looked for only for the 10 heaviest words of each row.",
    }
    read = Read(page)
    assert read.contents["title"] == ["Attention behind a prediction"]
    assert "Model: models/mine" in read.contents["p"]
    assert page == explanation_page(explained(), model="models/mine")
    assert not any("Model" in text for text in Read(explained().to_html()).contents["p"])


def test_without_scripts_a_wrong_prediction_is_said_and_no_word_twice():
    one = explained()
    wrong = "bad" if one.prediction == "good" else "good"
    said = static_view(one, label=wrong)
    assert f"wrong: it is labelled <strong><bdi>{wrong}</bdi></strong>" in said
    assert "needs JavaScript" in said
    assert "wrong" not in static_view(one, label=one.prediction)
    for item in Read(str(said)).contents["dd"]:
        assert item.count("<cls>") <= 1
    heaviest = static_head(one, one.heads[0]).heaviest
    assert "<cls>" not in heaviest
    assert "<cls>" in static_head(one, one.heads[0]).others


def test_without_scripts_there_are_prediction_words_and_certificates():
    page = explained().to_html()
    static = page[page.index('<div id="token-view">') : page.index("</main>")]
    assert str(static_view(explained())) in static
    said = Read(static)
    assert said.contents["bdi"] == [explained().prediction, *ranked(explained())]
    assert said.contents["h3"] == [f"layer 1, head {head}, row of <cls>" for head in range(3)]
    for head, heading in zip(explained().heads, re.split("<h3>", static)[1:], strict=True):
        # The text as it was, each word with a shade by its share of the greatest weight.
        passage = Read(heading[heading.index('<p class="passage') : heading.index("</p>")] + "</p>")
        shown = heading[heading.index('dir="auto">') + 11 : heading.index("</p>")]
        assert re.sub("<.*?>", "", shown) == TEXT
        levels = [int(str(span["class"]).split("-")[1]) for span in passage.all("span")]
        weights = head.word_weights[1:]  # <cls> is not in the text
        assert levels == [round(10 * weight / head.word_weights.max()) for weight in weights]
        assert passage.contents["span"] == [word.text for word in explained().words[1:]]
        rest = Read(heading).contents["dd"]
        assert rest[1] == f"not unique: {head.levels['simplex'].nullity} directions of freedom"
        assert re.fullmatch(r"unique( nearby)? \(margin \d\.\de[-+]\d\d\)", rest[2])
        assert "Could be the most attended: " in heading


@pytest.mark.parametrize("text", HOSTILE)
def test_nothing_of_a_text_or_a_label_gets_out(text: str):
    model, tokenizer = small_classifier(id2label={0: text, 1: "good"}, label2id={text: 0, "good": 1})
    result = explain(model, tokenizer, "good good food", intervals=False)
    swapped = "good " + text
    changed = dataclasses.replace(
        result,
        text=swapped,
        text_pair=text,
        tokens=[dataclasses.replace(token, text=text) for token in result.tokens],
        words=[dataclasses.replace(word, text=text) for word in result.words],
        refused=[RefusedHead(0, 0, text)],
        notes={0: text},
    )
    for page in (explanation_page(changed, model=text, label=text), notebook_html(changed)):
        page.encode()
        assert "\x00" not in page
        assert "\u202e" not in re.sub(r"(?s)<script.*?</script>", "", page)
    read = Read(explanation_page(changed, model=text, label=text))
    assert [tag for tag, _ in read.elements if tag in ("script", "svg", "style", "b")] == [
        "style",
        "script",
        "script",
    ]
    data = json.loads(read.contents["script"][0])
    (one,) = data["explanations"]
    assert (data["model"], one["label"], one["text"], one["text_pair"]) == (text, text, swapped, text)
    assert list(one["probabilities"]) == [text, "good"]
    assert one["words"][1]["text"] == text
    assert f"Model: {readable(text)}" in read.contents["p"]
    plain = Read(str(static_view(changed, inline=True)))
    assert {tag for tag, _ in plain.elements} <= {"div", "p", "strong", "bdi", "span", "br"}
    assert not any(name.startswith("on") for _, attributes in plain.elements for name in attributes)


def test_a_word_of_ten_thousand_characters():
    model, tokenizer = small_classifier()
    result = explain(model, tokenizer, "good " + "x" * 10_000, alternatives=True)
    page = result.to_html()
    assert len(page) < 400_000
    assert len(data_of(page)["explanations"][0]["text"]) == 10_005


def test_what_is_not_read_is_said_and_cut():
    model, tokenizer = small_classifier()
    page = explain(model, tokenizer, "good " * 5000, intervals=False).to_html()
    assert "it was cut after 24 tokens" in page
    assert len(page.encode()) < 400_000


def test_rows_that_do_not_fit_are_left_out_and_the_page_says_so(monkeypatch: pytest.MonkeyPatch):
    model, tokenizer = small_classifier()
    result = explain(model, tokenizer, TEXT, rows="all", layers="all", intervals=False)
    whole = explanation_page(result)
    assert data_of(whole)["sampled"] is None
    limit = len(whole.encode()) - 5000
    monkeypatch.setattr(explanation_report, "LARGEST_PAGE", limit)
    page = explanation_page(result)
    assert limit - 5000 < len(page.encode()) <= limit
    data = data_of(page)
    kept = data["explanations"][0]["heads"]
    assert 50 < len(kept) < len(result.heads)
    assert kept == data_of(whole)["explanations"][0]["heads"][: len(kept)]
    assert data["sampled"]["detailed"] == (
        f"The page shows the first {len(kept)} of {len(result.heads)} rows of heads, as more would be too large."
    )
    monkeypatch.setattr(explanation_report, "LARGEST_PAGE", 1000)
    with pytest.raises(InputError, match=r"the text has 70 characters, too many for a page"):
        explanation_page(result)
    assert "Prediction" in notebook_html(result)
    assert "<script" not in notebook_html(result)


def test_many_alternatives_stay_within_a_page():
    """As many as the limits allow, of 512 tokens: a fraction of it."""
    head = explained().heads[0]
    assert head.alternatives is not None
    weights = np.random.default_rng(0).random(512)
    limits = AlternativeLimits()
    one = dataclasses.replace(head.alternatives[1], weights=weights).to_dict() | {"weights": None}
    from identiformer.report.packing import pack

    size = bytes_of(one | {"weights": pack(weights)})
    assert min(limits.programs, limits.values // 512) * size < 0.6 * LARGEST_PAGE


def test_words_of_pieces_a_pair_and_no_prediction():
    model, tokenizer = build("bert").bert, pieces_tokenizer()
    result = explain(model, tokenizer, LONG, heads=[1], intervals=False)
    page = result.to_html()
    assert Read(page).contents["title"] == ["Attention of a model"]
    assert "No prediction: the model does not classify texts." in page
    static = str(static_view(result))
    assert "most attended" not in static
    assert '">unlikely</span>' in static
    pair = explain(*small_classifier(), "good food", "Was it?", intervals=False)
    passages = Read(str(static_view(pair)))
    assert [attributes["class"] for attributes in passages.all("p") if "class" in attributes] == [
        "passage static"
    ] * 6


def test_many_rows_are_counted_where_they_are_not_shown():
    model, tokenizer = small_classifier()
    result = explain(model, tokenizer, TEXT, rows="all", intervals=False)
    assert f"And {len(result.heads) - 12} more rows" in static_view(result)
    assert static_view(result).count("<h3>") == 12


# In a notebook


def test_a_notebook_gets_the_plain_view_and_a_script():
    shown = explained()._repr_html_()
    plain, script = shown.split("<script>")
    assert str(static_view(explained(), inline=True)) in plain
    assert "</script" not in script.removesuffix("</script>").removesuffix("</script>\n")
    assert not re.search(
        r"<style|<link|class=|\bid=", plain
    )  # nothing of ours reaches the rest of the notebook
    for head in range(3):
        assert f"layer 1, head {head}, row of &lt;cls&gt;" in plain
    assert plain.count("not unique: ") >= 3
    spans = Read(plain).all("span")
    assert len(spans) == 3 * (len(explained().words) - 1)
    shades = [float(str(re.search(r"255, ([\d.]+)\)", str(span["style"]))[1])) for span in spans]  # pyright: ignore
    assert max(shades) == 0.55
    assert min(shades) < 0.2
    # The page in the frame is the page of the explanation, and tells its height.
    page = json.loads(re.search("const page = (.*);\n", script)[1])  # pyright: ignore
    assert data_of(page) == data_of(explained().to_html())
    assert "identiformerHeight" in page


def test_each_page_has_places_of_its_own():
    model, tokenizer = small_classifier()
    other = explain(model, tokenizer, "Not good.", intervals=False)
    marks = [re.findall(r'data-identiformer="(\w+)"', one._repr_html_()) for one in (explained(), other)]
    assert [len(set(some)) for some in marks] == [1, 1]
    assert marks[0][0] != marks[1][0]
