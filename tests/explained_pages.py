"""Pages with the token view, for the browser: of a small model's explanations, and of data made by hand."""

from __future__ import annotations

from functools import cache
from typing import Any

from markupsafe import Markup

from identiformer.explaining.explanation import Explanation, explain
from identiformer.report.document import document
from identiformer.report.packing import packed_explanation, view_data
from small import small_classifier

HOSTILE = [
    "<script>window.ran = 1</script><img src=x onerror='window.ran = 1'> good",
    "</script><script>window.ran = 1</script> {{ 7 * 7 }} {% raw %} ${window.ran = 1} `good` -->",
    "nothing \x00 here \x1b[31m good \u202e\u2066 turned",
    "מסעדה good טובה מאוד 😀 👩\u200d👩\u200d👧 العربية",
    "good " + "x" * 10_000,
]
TEXTS = [
    "The food was good, but the waiter was rude.",
    "Not good.",
    "A fine, fine evening with fine music and a good meal",
    *HOSTILE,
]
LABELS = ["bad", "good"]


@cache
def explanations() -> list[Explanation]:
    """All texts explained by a model of two layers and three heads; the first one with alternatives of every word."""
    model, tokenizer = small_classifier()
    return [
        explain(model, tokenizer, text, layers="all", alternatives=i == 0) for i, text in enumerate(TEXTS)
    ]


def labels() -> list[str]:
    """A true label of each text: of the first three one is wrong, and of the hostile ones they all hold markup."""
    right = [str(one.prediction) for one in explanations()]
    wrong = "bad" if right[1] == "good" else "good"
    return [right[0], wrong, right[2], *(f"<b onclick='window.ran = 1'>{i}</b>" for i in range(len(HOSTILE)))]


@cache
def data_of_many() -> dict[str, Any]:
    """A page of many texts; their rows in the source are 11, 12, ..."""
    packed = [
        packed_explanation(one, 11 + i, label)
        for i, (one, label) in enumerate(zip(explanations(), labels(), strict=True))
    ]
    return view_data(
        "audit",
        "models/small",
        LABELS,
        packed,
        shown_of=(len(packed), 1234),
        detailed="All rows have bounds.",
    )


@cache
def page_of_many() -> str:
    """The page of `data_of_many`."""
    return document("An audit", Markup("<p>What stands before.</p>"), data_of_many())


@cache
def page_of_one() -> str:
    """A page of the first text alone; with something for readers without JavaScript."""
    data = view_data("explanation", "models/small", LABELS, [packed_explanation(explanations()[0])])
    return document("A text", Markup(""), data, static=Markup("<p class='still'>without JavaScript</p>"))


def head(weights: list[float], **others: Any) -> dict[str, Any]:
    """A head as the JSON of an explanation has it, of which nothing but weights and certificates was computed."""
    level = {"nullity": 2, "margin": 0.0, "verdict": "none"}
    return {
        "layer": 0,
        "head": 0,
        "row": 0,
        "kind": "self",
        "weights": weights,
        "effective": weights,
        "intervals": None,
        "possible_tops": None,
        "sink": None,
        "words": None,
        "tied_tokens": 0,
        "levels": {"free": level, "simplex": level, "generatable": level},
        "alternatives": None,
        **others,
    }


def text_of(words: list[str], heads: list[dict[str, Any]], /, **others: Any) -> dict[str, Any]:
    """An explanation of words that are a token each, with a space between them."""
    tokens: list[dict[str, Any]] = []
    position = 0
    for word in words:
        tokens.append({"text": word, "start": position, "end": position + len(word), "segment": 0})
        position += len(word) + 1
    result = {
        "text": " ".join(words),
        "prediction": None,
        "probabilities": {},
        "truncated": False,
        "tokens": tokens,
        "words": [{**token, "tokens": [i]} for i, token in enumerate(tokens)],
        "heads": heads,
        "refused": [],
        "notes": [],
        "id": None,
        "label": None,
    }
    return result | others


def page_of(*explanations: dict[str, Any], live: bool = False) -> str:
    """A page of explanations made by hand."""
    data = {"kind": "explanation", "model": "small", "labels": [], "sampled": None}
    return document("Made by hand", Markup(""), {**data, "explanations": list(explanations)}, live=live)
