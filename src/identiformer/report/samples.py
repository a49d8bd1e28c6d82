"""The texts that a report shows word by word: which, and what is computed of them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from typing import Any, Protocol

import numpy as np
import torch
from markupsafe import Markup
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from identiformer.errors import InputError
from identiformer.explaining.alternatives import AlternativeLimits
from identiformer.explaining.explanation import Explanation, Layers, explain
from identiformer.explaining.heads import HeadExplanation
from identiformer.identifiability import Level, Verdict
from identiformer.identifiability.asked import equal_up_to
from identiformer.report.packing import Kind, bytes_of, packed_explanation, view_data
from identiformer.report.static_view import static_view
from identiformer.report.tables import counted

# Of a page that stays below `document.LARGEST_PAGE`; the rest is for its figures, tables and scripts.
LARGEST_SAMPLE = 8_000_000
_TOO_LARGE = 10  # texts in a row that do not fit, after which no more are tried
# Of each row the alternative that is the farthest, and no more.
_FARTHEST = AlternativeLimits(programs=0)

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class SampledText:
    """A text to show.

    Args:
        number: Its row in the source, from 1.
        text, text_pair: The text.
        label: Its true label, where there is one.
    """

    number: int
    text: str
    text_pair: str | None = None
    label: str | None = None


@dataclass(frozen=True)
class Samples:
    """What a report shows of single texts.

    Args:
        explanations: From `packed_explanation`.
        labels: Of the model.
        shown_of: How many texts are shown, and of how many.
        intro: What is shown, in a sentence.
        detailed: For which rows there are bounds and alternatives, in a sentence.
        notes: What else is to be said: texts that cannot be explained, and why.
        static: The first of them, for readers without JavaScript.
    """

    explanations: list[dict[str, Any]]
    labels: list[str]
    shown_of: tuple[int, int]
    intro: str
    detailed: str
    notes: list[str] = field(default_factory=list)
    static: Markup | None = None

    def view_data(self, kind: Kind, model: str) -> dict[str, Any] | None:
        """What the token view of a page of this kind reads; `None` where there are no texts."""
        if not self.explanations:
            return None
        return view_data(
            kind, model, self.labels, self.explanations, shown_of=self.shown_of, detailed=self.detailed
        )


class TextAt(Protocol):
    """Gives the text at a place of a data set."""

    def __call__(self, place: int) -> SampledText: ...  # noqa: D102


def spread(count: int, most: int) -> list[int]:
    """Up to `most` of the places from 0 to `count`, in an order of which every beginning is spread evenly.

    They are evenly spaced ones, ordered by their numbers in base 2 read backwards (van der Corput's sequence).
    """
    kept = min(count, most)
    bits = max(kept - 1, 1).bit_length()
    order = sorted(range(kept), key=lambda i: f"{i:0{bits}b}"[::-1])
    return [i * count // kept for i in order]


def wrong_first(right: Sequence[bool], most: int) -> list[int]:
    """Up to `most` places, wrong and right predictions in turns, each spread evenly; half are wrong if so many are."""
    groups = [[place for place, it in enumerate(right) if it == kind] for kind in (False, True)]
    wrong, others = ([group[i] for i in spread(len(group), most)] for group in groups)
    turns = zip_longest(wrong[: max(most // 2, most - len(others))], others)
    order = [place for turn in turns for place in turn if place is not None]
    return order[:most]


def explained_samples(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    order: Sequence[int],
    text_at: TextAt,
    texts: int,
    labels: Sequence[str],
    intro: Callable[[Sequence[int]], str],
    *,
    shown_first: Callable[[int], Any] = lambda place: place,
    layers: Layers = "all",
    heads: Collection[int] | None = None,
    detailed_rows: int = 48,
    largest: int = LARGEST_SAMPLE,
    progress: Progress = lambda _done, _total: None,
) -> Samples:
    """Explain texts of a data set for a page, as many as fit.

    Every head's weights, effective attention and certificates are there for all texts. Bounds and alternatives take
    much longer: they are computed for whole layers, the last layer of the texts shown first, of so many rows in all.
    Where weights are unique their bounds are known.

    Args:
        model, tokenizer: The model.
        order: Places of texts in the data set, in the order in which they are taken.
        text_at: Gives the text at a place.
        texts: How many the data set has.
        labels: Of the model.
        intro: Says in a sentence what texts these are, given the places of those that are shown.
        shown_first: Gives the key by which places are sorted on the page.
        layers, heads: As of `explain`.
        detailed_rows: The most rows of heads that are not unique, with bounds and alternatives.
        largest: The most bytes of the page.
        progress: Called with the texts done since the last call, and how many there are.
    """
    maker = _Maker(model, tokenizer, layers, heads)
    packed: dict[int, dict[str, Any]] = {}
    failed: dict[str, int] = {}
    size = large = 0
    progress(0, len(order))
    for place in order:
        it = text_at(place)
        try:
            one = packed_explanation(maker.quick(it), it.number, it.label)
        except InputError as error:
            failed[str(error)] = failed.get(str(error), 0) + 1
        else:
            extent = bytes_of(one)
            if size + extent <= largest:
                packed[place] = one
                size += extent
            else:
                large += 1
        progress(1, len(order))
        if large >= _TOO_LARGE:
            break
    left = detailed_rows
    shown = sorted(packed, key=shown_first)
    first: Explanation | None = None
    detailed_texts = 0
    for place in shown if detailed_rows else ():
        before = packed[place]
        last = max(head["layer"] for head in before["heads"])
        wanted = [
            head["head"]
            for head in before["heads"]
            if head["layer"] == last and head["levels"]["simplex"]["nullity"]
        ]
        if len(wanted) > left:
            break
        if not wanted:
            continue
        it = text_at(place)
        explanation = maker.detailed(it, last)
        after = _with_heads(before, packed_explanation(explanation)["heads"])
        size += bytes_of(after) - bytes_of(before)
        if size > largest:
            break
        packed[place] = after
        first = explanation if place == shown[0] else first
        left -= len(wanted)
        detailed_texts += 1
    if shown and first is None:
        first = maker.quick(text_at(shown[0]))
    return Samples(
        explanations=[packed[place] for place in shown],
        labels=list(labels),
        shown_of=(len(shown), texts),
        intro=intro(shown),
        detailed=_detailed(detailed_rows - left, detailed_texts),
        notes=[f"{counted(count, 'text')} left out: {reason}" for reason, count in failed.items()]
        + ([f"{counted(large, 'text')} left out: they would make this page too large"] if large else []),
        static=None if first is None else _static(first),
    )


def _with_heads(packed: dict[str, Any], heads: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """A packed explanation with some of its heads in place of those that it had."""
    others = {_place(head): head for head in heads}
    return packed | {"heads": [others.get(_place(head), head) for head in packed["heads"]]}


def _place(head: Mapping[str, Any]) -> tuple[int, int, int]:
    return head["layer"], head["head"], head["row"]


class _Maker:
    """Explains the texts of one report."""

    def __init__(
        self,
        model: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        layers: Layers,
        heads: Collection[int] | None,
    ):
        self._model, self._tokenizer = model, tokenizer
        self._layers: Layers = layers
        self._heads = heads
        self._eps = torch.finfo(model.dtype).eps
        self._rows: Any = "pooled"

    def quick(self, it: SampledText) -> Explanation:
        """Weights and certificates of all heads; the bounds of those that are unique."""
        try:
            found = self._explain(it, self._layers, intervals=False)
        except InputError:
            if self._rows != "pooled":
                raise
            self._rows = 1  # a model without such a row: the first one
            found = self._explain(it, self._layers, intervals=False)
        # The view opens with the first: of the last layer, the one nearest to what the model says.
        last = max(head.layer for head in found.heads)
        heads = sorted(found.heads, key=lambda head: head.layer != last)
        return replace(found, heads=[_with_known_bounds(head, self._eps) for head in heads])

    def detailed(self, it: SampledText, layer: int) -> Explanation:
        """The heads of one layer, with bounds and alternatives."""
        return self._explain(it, [layer], alternatives=_FARTHEST)

    def _explain(self, it: SampledText, layers: Layers, **options: Any) -> Explanation:
        return explain(
            self._model,
            self._tokenizer,
            it.text,
            it.text_pair,
            rows=self._rows,
            layers=layers,
            heads=self._heads,
            **options,
        )


def _with_known_bounds(head: HeadExplanation, eps: float) -> HeadExplanation:
    """Where no other weights have the same output, bounds are the weights. `eps`: of the model's dtype."""
    if head.levels[Level.SIMPLEX.value].verdict != Verdict.GLOBAL.label or head.lower is not None:
        return head
    return replace(
        head,
        lower=head.weights,
        upper=head.weights,
        possible_tops=_tops(head.weights, eps),
        word_lower=head.word_weights,
        word_upper=head.word_weights,
        word_possible_tops=_tops(head.word_weights, eps),
    )


def _tops(weights: np.ndarray, eps: float) -> list[int]:
    greatest = float(weights.max())
    return np.flatnonzero(weights >= greatest - equal_up_to(greatest, eps)).tolist()


def _static(explanation: Explanation) -> Markup:
    """Its last layer, as plain HTML."""
    last = max(head.layer for head in explanation.heads)
    return static_view(replace(explanation, heads=[head for head in explanation.heads if head.layer == last]))


def _detailed(rows: int, texts: int) -> str:
    if not rows:
        return ""
    where = "text that is" if texts == 1 else f"{texts} texts that are"
    return (
        f"Bounds and alternatives were computed for {counted(rows, 'row')}: the last layer’s in the first {where} not "
        "unique."
    )
