"""A page of a chosen size whose numbers are drawn: for what depends on nothing but how many there are."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
from markupsafe import Markup

from identiformer.report.document import document
from identiformer.report.packing import pack, view_data

_WORDS = ["the", "a", "of", "restaurant", "evening", "music", "friendly", "terrible", "and", "waiter"]


def page_of_size(texts: int, heads: int, tokens: int, seed: int = 0) -> str:
    """A page of so many texts, each with a layer of so many heads and so many words of one token each."""
    generator, chance = np.random.default_rng(seed), random.Random(seed)
    explanations = [_explanation(i, heads, tokens, generator, chance) for i in range(texts)]
    return document("A large page", Markup(""), view_data("audit", "drawn", ["bad", "good"], explanations))


def _explanation(
    number: int, heads: int, tokens: int, generator: np.random.Generator, chance: random.Random
) -> dict[str, Any]:
    words = chance.choices(_WORDS, k=tokens)
    read: list[dict[str, Any]] = []
    position = 0
    for word in words:
        read.append({"text": word, "start": position, "end": position + len(word), "segment": 0})
        position += len(word) + 1
    good = chance.random()
    return {
        "text": " ".join(words),
        "prediction": "good" if good > 0.5 else "bad",
        "probabilities": {"bad": 1 - good, "good": good},
        "truncated": False,
        "tokens": read,
        "words": [{**token, "tokens": [i]} for i, token in enumerate(read)],
        "heads": [_head(head, tokens, generator) for head in range(heads)],
        "refused": [],
        "notes": [],
        "id": number + 1,
        "label": chance.choice(["bad", "good"]),
    }


def _head(number: int, tokens: int, generator: np.random.Generator) -> dict[str, Any]:
    weights = generator.dirichlet(np.full(tokens, 0.3))
    width = weights * generator.random(tokens)
    high = float((weights + width).max())
    levels = {name: {"nullity": 95, "margin": 0.0, "verdict": "none"} for name in ("free", "simplex")}
    return {
        "layer": 0,
        "head": number,
        "row": 0,
        "kind": "self",
        "weights": pack(weights, 0.0, high),
        "effective": pack(weights + generator.normal(0, 0.01, tokens)),
        "intervals": {"lower": pack(weights - width, 0.0, high), "upper": pack(weights + width, 0.0, high)},
        "possible_tops": [int(weights.argmax())],
        "sink": None,
        "words": None,
        "tied_tokens": 0,
        "levels": levels | {"generatable": {"nullity": 0, "margin": 0.0123, "verdict": "local"}},
        "alternatives": None,
    }
