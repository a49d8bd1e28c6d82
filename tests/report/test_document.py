"""Pages of one file: nothing of a text can run in them, and they load nothing."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from importlib.resources import files

import pytest
from markupsafe import Markup

from hostile import HOSTILE, Read
from identiformer.report.document import (
    content_policy,
    document,
    fragment,
    island,
    readable,
    script_of,
    stylesheet,
)


def sources(page: str) -> dict[str, str]:
    (policy,) = [
        meta["content"]
        for meta in Read(page).all("meta")
        if meta.get("http-equiv") == "Content-Security-Policy"
    ]
    assert policy is not None
    return dict(part.split(" ", 1) for part in policy.split("; "))


def digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def test_a_page_has_its_landmarks_and_its_places():
    page = document("A title", Markup("<p>the main part</p>"), {"explanations": []}, head_note="A note")
    read = Read(page)
    assert page.startswith("<!doctype html>\n<html lang=")
    assert [tag for tag, _ in read.elements if tag in ("header", "main", "footer")] == [
        "header",
        "main",
        "footer",
    ]
    assert read.contents["title"] == read.contents["h1"] == ["A title"]
    assert {"class": "head-note"} in read.all("p")
    assert {"id": "token-view"} in read.all("div")
    assert {"name": "viewport", "content": "width=device-width, initial-scale=1"} in read.all("meta")
    assert {"name": "color-scheme", "content": "light dark"} in read.all("meta")
    assert {"class": "skip-link", "href": "#main"} in read.all("a")
    assert {"id": "main", "tabindex": "-1"} in read.all("main")
    assert "<p>the main part</p>" in page
    # Before whatever it is to hold back.
    assert page.index("Content-Security-Policy") < page.index("<style") < page.index("<script")


def test_the_policy_names_what_is_in_the_page_and_nothing_else():
    page = document("A title", Markup(""), {"explanations": []})
    read = Read(page)
    found = sources(page)
    assert (
        found["default-src"] == found["base-uri"] == found["form-action"] == found["connect-src"] == "'none'"
    )
    assert found["img-src"] == "data:"
    (style,) = read.contents["style"]
    data, script = read.contents["script"]
    assert found["style-src"] == digest(style)
    assert found["script-src"] == digest(script)
    assert len(style) > 1000
    assert len(script) > 1000
    assert json.loads(data) == {"explanations": []}
    assert read.all("script") == [{"type": "application/json", "id": "data"}, {}]
    assert found == dict(part.split(" ", 1) for part in content_policy(style, script).split("; "))


def test_nothing_is_loaded_and_nothing_is_styled_or_run_by_attributes():
    page = document("A title", Markup(""), {"explanations": []}, static=Markup("<p>so</p>"))
    for tag, attributes in Read(page).elements:
        for name, value in attributes.items():
            assert not name.startswith("on"), tag
            assert name not in ("style", "src", "srcset", "action"), tag
            if name == "href":
                assert value in ("data:,", "#main")
    assert not re.search(r"""url\(|@import|https?://""", stylesheet())
    script = script_of(("view",))
    for forbidden in (
        "innerHTML",
        "outerHTML",
        "insertAdjacentHTML",
        "document.write",
        "eval(",
        "new Function",
    ):
        assert forbidden not in script


def test_a_page_without_data_runs_nothing():
    page = document("A title", Markup(""), None)
    assert "<script" not in page
    assert {"id": "token-view"} not in Read(page).all("div")
    assert sources(page)["script-src"] == "'none'"
    live = document("A title", Markup(""), None, live=True)
    assert sources(live)["connect-src"] == "'self'"
    assert {"id": "token-view"} in Read(live).all("div")
    assert len(Read(live).all("script")) == 1


@pytest.mark.parametrize("text", HOSTILE)
def test_no_text_gets_out_of_its_place(text: str):
    plain = Read(document("t", Markup(""), {"of": "a text"}, head_note="n"))
    page = document(text, Markup(""), {"of": text, text: [text]}, head_note=text)
    read = Read(page)
    page.encode()  # a file of UTF-8 can hold it
    assert "\x00" not in page
    assert [tag for tag, _ in read.elements] == [tag for tag, _ in plain.elements]
    assert [attributes for _, attributes in read.elements] == [
        attributes | ({"content": read.elements[i][1]["content"]} if "content" in attributes else {})
        for i, (_, attributes) in enumerate(plain.elements)
    ]
    assert json.loads(read.contents["script"][0]) == {"of": text, text: [text]}
    assert read.contents["title"] == read.contents["h1"] == [readable(text)]
    assert "<" not in page[page.index('id="data">') + 10 : page.index("</script>")]


def test_what_nobody_sees_is_written_out():
    assert readable("a\nb\tc") == "a\nb\tc"
    assert readable("\x00 \u202e \ud83d") == "\\x00 \\u202e \\ud83d"
    # What is not made readable is replaced where no file could hold it.
    page = document("t", Markup("<p>\ud83d \x00</p>"), None)
    assert "<p>\ufffd \ufffd</p>" in page


def test_numbers_that_json_cannot_say_are_refused():
    for value in (float("nan"), float("inf")):
        with pytest.raises(ValueError, match="not JSON compliant"):
            island({"value": value})


def test_values_of_a_fragment_are_escaped():
    part = fragment(
        "explanation.html.j2",
        prediction="<b>",
        label=None,
        probabilities=[("{{ 7 * 7 }}", "0.500")],
        heads=[],
        more=0,
        truncated=False,
        tokens=3,
    )
    assert "<bdi>&lt;b&gt;</bdi>" in part
    assert "{{ 7 * 7 }}" in part


def test_on_paper_nothing_is_dark() -> None:
    parts = [*files("identiformer.report").joinpath("assets").iterdir()]
    parts += files("identiformer.report").joinpath("templates").iterdir()
    asked = [
        line
        for part in parts
        for line in part.read_text().splitlines()
        if "prefers-color-scheme: dark" in line and ("@media" in line or "<source" in line)
    ]
    assert len(asked) >= 2
    assert all("screen and (prefers-color-scheme: dark)" in line for line in asked)
