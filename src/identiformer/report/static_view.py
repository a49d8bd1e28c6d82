"""An explanation as plain HTML: for readers without JavaScript, and notebooks that run none."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from markupsafe import Markup

from identiformer.explaining.saying import item_names, row_name, shaded_spans, tops_sentence, verdict_words
from identiformer.report.document import fragment
from identiformer.report.tables import counted

if TYPE_CHECKING:
    from identiformer.explaining.explanation import Explanation
    from identiformer.explaining.heads import HeadExplanation
    from identiformer.explaining.levels import LevelResult

SHOWN_HEADS = 12
_SHOWN_LABELS = 5
_SHOWN_OF_ONE = 300  # characters of one word
_SHOWN_UNREAD = 400  # characters beyond those that the model read
_HEAVIEST = 6
_LEVELS = {
    "free": "any weights",
    "simplex": "any distribution",
    "generatable": "what a query can generate",
}


@dataclass(frozen=True)
class Span:
    """A part of a text.

    Args:
        text: The part.
        level: How dark it is, from 0 to 10; `None` between words.
        weight: The weight that this is of, written out.
        unread: Whether the model did not read it.
    """

    text: str
    level: int | None = None
    weight: str = ""
    unread: bool = False


@dataclass(frozen=True)
class StaticHead:
    """A head in words.

    Args:
        title: Which head and row it is.
        passages: The text, and its pair where there is one.
        others: Tokens of the model's with their weights, in a sentence.
        verdicts: Of each level what it asks, and what the certificate says.
        tops: Which words could be the most attended.
        heaviest: The heaviest words and their weights, without tokens of the model's.

    Words that are named in a sentence are isolated (U+2068, U+2069), so that their direction stays theirs.
    """

    title: str
    passages: list[list[Span]]
    others: str
    verdicts: list[tuple[str, str]]
    tops: str
    heaviest: str


def static_view(explanation: Explanation, *, inline: bool = False, label: str | None = None) -> Markup:
    """The prediction, and of the first heads the shaded words and the certificate.

    Args:
        explanation: The explanation.
        inline: Whether to give each element its style, for pages that have no stylesheet of ours.
        label: The true label of the text.
    """
    heads = [static_head(explanation, head) for head in explanation.heads[:SHOWN_HEADS]]
    return fragment(
        "notebook.html.j2" if inline else "explanation.html.j2",
        prediction=explanation.prediction,
        label=label,
        probabilities=_probabilities(explanation),
        heads=heads,
        more=len(explanation.heads) - len(heads),
        truncated=explanation.truncated,
        tokens=len(explanation.tokens),
    )


def static_head(explanation: Explanation, head: HeadExplanation) -> StaticHead:
    """One head in words."""
    names = [f"\u2068{name}\u2069" for name in item_names(explanation, pieces=False)]
    weights = head.word_weights.tolist()
    order = [i for i in np.argsort(-head.word_weights, kind="stable") if not explanation.words[i].special]
    special = [f"{names[i]} {weights[i]:.3f}" for i, word in enumerate(explanation.words) if word.special]
    verdicts = [(title, _verdict(head.levels.get(name))) for name, title in _LEVELS.items()]
    tops = head.word_possible_tops
    said = "" if tops is None else tops_sentence(tops, weights, names)
    return StaticHead(
        title=f"layer {head.layer}, head {head.head}, row {row_name(explanation, head, pieces=False)}",
        passages=[
            list(_spans(explanation, weights, segment, source))
            for segment, source in enumerate((explanation.text, explanation.text_pair))
            if source is not None
        ],
        others=", ".join(special),
        verdicts=verdicts,
        tops=said[:1].upper() + said[1:],
        heaviest=", ".join(f"{names[i]} {weights[i]:.3f}" for i in order[:_HEAVIEST]),
    )


def _verdict(level: LevelResult | None) -> str:
    if level is None:
        return "nothing is said"
    margin = "" if level.verdict == "none" else f" (margin {level.margin:.1e})"
    return f"{verdict_words(level)}{margin}"


def _shortened(text: str) -> str:
    """A word that would fill the page, cut."""
    more = len(text) - _SHOWN_OF_ONE
    if more <= 0:
        return text
    return f"{text[:_SHOWN_OF_ONE]}… ({counted(more, 'more character')})"


def _probabilities(explanation: Explanation) -> list[tuple[str, str]]:
    ranked = sorted(explanation.probabilities.items(), key=lambda item: -item[1])
    return [(label, f"{probability:.3f}") for label, probability in ranked[:_SHOWN_LABELS]]


def _spans(explanation: Explanation, weights: list[float], segment: int, source: str) -> Iterator[Span]:
    """The text from its beginning to its end."""
    greatest = max(*weights, 1e-12)
    position = 0
    for start, end, weight in shaded_spans(explanation.words, weights, segment):
        if start > position:
            yield Span(source[position:start])
        yield Span(_shortened(source[start:end]), round(10 * weight / greatest), f"{weight:.3f}")
        position = end
    rest = source[position:]
    if explanation.truncated and len(rest) > _SHOWN_UNREAD:
        rest = rest[:_SHOWN_UNREAD] + "…"
    if rest:
        yield Span(rest, unread=explanation.truncated)
