"""How an explanation is said in words: what its words, rows and verdicts are called, in a terminal and on a page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from identiformer.printable import printable

if TYPE_CHECKING:
    from identiformer.explaining.explanation import Explanation
    from identiformer.explaining.heads import HeadExplanation, LevelResult
    from identiformer.words import Token, Word

SHOWN_TOPS = 6


def item_names(explanation: Explanation, pieces: bool) -> list[str]:
    """How words, or pieces, are called where they do not stand in the text; `##` goes on with a word."""
    if not pieces:
        return [item_name(word) for word in explanation.words]
    inside = {i for word in explanation.words for i in word.tokens[1:]}
    return [
        ("##" if i in inside and not is_blank(token) else "") + item_name(token)
        for i, token in enumerate(explanation.tokens)
    ]


def item_name(item: Word | Token) -> str:
    """How one word or piece is called."""
    return repr(item.text) if is_blank(item) else printable(item.text)


def is_blank(item: Word | Token) -> bool:
    """Whether a reader sees nothing of it."""
    return not item.special and (item.start == item.end or not item.text.strip())


def row_name(explanation: Explanation, head: HeadExplanation, pieces: bool) -> str:
    """Which row this is: that of a word, or of a piece."""
    if head.kind == "cross":
        return f"{head.row} of the decoder"
    token = explanation.tokens[head.row]
    word = next(word for word in explanation.words if head.row in word.tokens)
    if pieces or len(word.tokens) == 1:
        return f"of {item_names(explanation, True)[head.row]}"
    return f"of {item_name(token)} in {item_name(word)}"


def verdict_words(level: LevelResult, joint: str = ": ") -> str:
    """`unique`, `unique nearby`, or `not unique` and, after the joint, in how many directions weights are free."""
    if level.verdict != "none":
        return "unique" if level.verdict == "global" else "unique nearby"
    return (
        f"not unique{joint}{level.nullity} {'direction' if level.nullity == 1 else 'directions'} of freedom"
    )


def tops_sentence(tops: Sequence[int], weights: Sequence[float], names: Sequence[str]) -> str:
    """Which words, or pieces, could be the most attended one."""
    counts: dict[str, int] = {}
    for i in sorted(tops, key=lambda i: -weights[i]):
        counts[names[i]] = counts.get(names[i], 0) + 1
    if len(counts) == 1:
        ((name, count),) = counts.items()
        return f"most attended, for certain: {name}{f' (one of {count})' if count > 1 else ''}"
    words = [f"{name} ({count} times)" if count > 1 else name for name, count in counts.items()]
    rest = f" and {len(words) - SHOWN_TOPS} more" if len(words) > SHOWN_TOPS else ""
    return f"could be the most attended: {', '.join(words[:SHOWN_TOPS])}{rest}"


def shaded_spans(
    items: Sequence[Word | Token], weights: Sequence[float], segment: int
) -> Iterator[tuple[int, int, float]]:
    """From where to where to shade a text, and by which weight: pieces of one character have a shade together."""
    last: tuple[int, int, float] | None = None
    for item, weight in zip(items, weights, strict=True):
        if item.segment != segment or item.special or is_blank(item):
            continue
        if last is not None and item.start < last[1]:
            last = (last[0], max(last[1], item.end), min(last[2] + weight, max(weights)))
            continue
        if last is not None:
            yield last
        last = (item.start, item.end, weight)
    if last is not None:
        yield last
