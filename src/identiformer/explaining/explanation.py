"""One text explained: its prediction, the attention behind it, and whether that attention is the only one possible."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Any, Literal

import torch
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from identiformer.capturing import CapturedLayer, Rows, capture_inputs, encode_texts
from identiformer.errors import InputError
from identiformer.explaining.alternatives import (
    AlternativeLimits,
    AlternativeSearch,
    chooses_label,
    label_probabilities,
    run_alternatives,
)
from identiformer.explaining.heads import HeadExplanation, attends_elsewhere, explain_heads
from identiformer.identifiability import Level
from identiformer.loading import load_classifier, load_configuration, load_model
from identiformer.threads import threads_for
from identiformer.tokenization import token_lengths
from identiformer.words import Token, Word, read_words

Layers = Sequence[int] | Literal["all"] | None


@dataclass(frozen=True)
class RefusedHead:
    """A head that cannot be explained, and why in one line."""

    layer: int
    head: int
    reason: str


@dataclass(frozen=True)
class Explanation:
    """A text, its prediction, and the heads behind it.

    `to_dict` gives the JSON of DESIGN.md's contract, `to_html` a page; a notebook shows the token view.

    Args:
        text, text_pair: As they were given.
        prediction, probabilities: The label and the probability of each; `None` and empty where the model chooses
            no label of a text.
        tokens: What the model read.
        words: What a reader calls words, made of tokens.
        heads: The heads explained.
        truncated: Whether the model did not read the end of the text.
        refused: The heads that were asked for and cannot be explained.
        notes: By layer, what is unusual of its heads, or why it is left out.
        left_out: Which alternatives were not looked for, in a sentence; empty where all were, or none.
    """

    text: str
    text_pair: str | None
    prediction: str | None
    probabilities: dict[str, float]
    tokens: list[Token]
    words: list[Word]
    heads: list[HeadExplanation]
    truncated: bool
    refused: list[RefusedHead] = field(default_factory=list)
    notes: dict[int, str] = field(default_factory=dict)
    left_out: str = ""

    def to_dict(self) -> dict[str, Any]:
        """As a dictionary of JSON's types."""
        result: dict[str, Any] = {"text": self.text}
        if self.text_pair is not None:
            result["text_pair"] = self.text_pair
        return result | {
            "prediction": self.prediction,
            "probabilities": self.probabilities,
            "truncated": self.truncated,
            "tokens": [asdict(token) for token in self.tokens],
            "words": [asdict(word) for word in self.words],
            "heads": [head.to_dict() for head in self.heads],
            "refused": [asdict(refused) for refused in self.refused],
            "notes": [{"layer": layer, "note": note} for layer, note in self.notes.items()],
        }

    def to_html(self, model: str | None = None) -> str:
        """As a page: one HTML document that needs nothing but itself.

        Args:
            model: What the model is called.
        """
        from identiformer.report import explanation_page

        return explanation_page(self, model=model)

    def _repr_html_(self) -> str:
        from identiformer.report.notebook import notebook_html

        return notebook_html(self)


def load_to_explain(name: str) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """Load a text classifier, with the checks of `load_classifier`; or any other model as what it was saved.

    Args:
        name: A model folder, or the name of a model on a hub.

    Raises:
        InputError: As `load_classifier` where the model says that it classifies texts, or says nothing that can be
            read; as `load_model` elsewhere.
    """
    try:
        architectures = load_configuration(name).architectures or [""]
    except InputError:  # loading tells what is wrong
        return load_classifier(name)
    return load_classifier(name) if "ForSequenceClassification" in architectures[0] else load_model(name)


def explain(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    text: str,
    text_pair: str | None = None,
    *,
    rows: Rows = "pooled",
    row: int | None = None,
    layers: Layers = None,
    heads: Collection[int] | None = None,
    intervals: bool = True,
    alternatives: bool | AlternativeLimits = False,
    progress: Callable[[int, int], None] = lambda _done, _total: None,
) -> Explanation:
    """Explain what a model says of a text, or how it reads it.

    Args:
        model: A transformers model, in evaluation mode: a text classifier, or any other whose attention can be
            captured.
        tokenizer: Its tokenizer, a fast one.
        text: The text; truncated where it is longer than the model allows, and the result says so.
        text_pair: Its pair, where the model was trained on pairs.
        rows: `pooled`, the row that in the last layer alone reaches the prediction: the first token's, or the last
            one's where no token sees a later one; `all`; or a number, for as many, from the first token on.
        row: The number of one row, from 0, in place of `rows`.
        layers: Numbers of the layers to explain, from 0, negative ones from the end; `all` that attend to the text and
            have such rows; the last one of them where it is `None`.
        heads: Numbers of the heads to explain in each layer; all where it is `None`.
        intervals: Whether to compute bounds and possible tops: linear programs, which take most of the time. Without
            them the certificates are the same.
        alternatives: Whether to look for other weights with the same output, and run the model with the farthest of
            each row; with limits of their number, or the usual ones.
        progress: Called with the rows of heads done since the last call, and how many there are in the layers so far.

    Raises:
        InputError: If the text is blank, a layer or head does not exist or does not attend to the text's tokens, the
            tokenizer is a slow one, or no head can be captured.
    """
    if row is not None and row < 0:
        raise InputError(f"row is {row}: give the number of a row, from 0")
    for name, given in (("text", text), ("text pair", text_pair)):
        if given is not None and not given.strip():
            raise InputError(f"the {name} is blank: give at least one word")
    pairs = None if text_pair is None else [text_pair]
    (length,) = token_lengths(tokenizer, [text], pairs)
    read = read_words(tokenizer, text, text_pair)
    inputs = encode_texts(model, tokenizer, [text], pairs, None)
    results: list[HeadExplanation] = []
    refused: list[RefusedHead] = []
    total = 0
    with threads_for(model):
        probabilities = _probabilities(model, inputs)
        if row is not None:
            rows = row + 1
        wanted, notes = _attending(model, inputs, rows, layers)

        def capture() -> Iterator[CapturedLayer]:
            layers = capture_inputs(model, inputs, rows=rows, layers=wanted, heads=heads)
            return layers if row is None else (_only(layer, row) for layer in layers)

        search = None
        if alternatives:
            limits = alternatives if isinstance(alternatives, AlternativeLimits) else AlternativeLimits()
            search = AlternativeSearch(limits, read, sum(map(_rows_of, capture())))
        for captured in capture():
            refused += _refused(captured, len(read.tokens))
            total += _rows_of(captured)
            row_done = partial(progress, 1, total)
            explained = explain_heads(captured, read, row_done, intervals=intervals, search=search)
            if len({level for head in explained for level in head.levels}) < len(Level) and captured.note:
                notes[captured.layer] = captured.note
            results += explained
        # Only now: while a capture is under way the model cannot run.
        results = [_run_farthest(model, inputs, head) for head in results]
    if not results:
        raise InputError(f"no head can be explained: {_reasons(refused, notes)}")
    return Explanation(
        text=text,
        text_pair=text_pair,
        prediction=max(probabilities, key=probabilities.__getitem__, default=None),
        probabilities=probabilities,
        tokens=read.tokens,
        words=read.words,
        heads=results,
        truncated=bool(length > len(read.tokens)),
        refused=refused,
        notes=notes,
        left_out="" if search is None else search.left_out,
    )


def _only(captured: CapturedLayer, row: int) -> CapturedLayer:
    """The same layer with one of its rows, captured from the first one up to it."""
    if captured.rows.shape[1] <= row:
        raise InputError(f"row {row} does not exist: there are rows 0 to {captured.rows.shape[1] - 1}")
    heads = None if captured.heads is None else captured.heads[:, :, row : row + 1]
    return replace(captured, heads=heads, rows=captured.rows[:, row : row + 1])


def _rows_of(captured: CapturedLayer) -> int:
    return len(captured.head_numbers) * captured.rows.shape[1]


def _run_farthest(
    model: PreTrainedModel, inputs: Mapping[str, Tensor], head: HeadExplanation
) -> HeadExplanation:
    """The same, with what the model gives when it runs with the farthest alternatives."""
    if head.alternatives is None:
        return head
    farthest = [one for one in head.alternatives if one.goal == "farthest"]
    rest = [one for one in head.alternatives if one.goal != "farthest"]
    run = run_alternatives(
        model,
        inputs,
        farthest,
        layer=head.layer,
        head=head.head,
        row=head.row,
        weights=head.weights,
        sink=head.sink,
    )
    return replace(head, alternatives=[*run, *rest])


def _probabilities(model: PreTrainedModel, inputs: Mapping[str, Tensor]) -> dict[str, float]:
    """Of each label; empty where the model does not choose one of several for a text."""
    if not chooses_label(model):
        return {}
    with torch.inference_mode():
        return label_probabilities(model, model(**inputs).logits)


def _attending(
    model: PreTrainedModel, inputs: Mapping[str, Tensor], rows: Rows, layers: Layers
) -> tuple[Sequence[int] | None, dict[int, str]]:
    """The layers to capture, and why others are left out that `all` would name.

    In an encoder-decoder the decoder's attention to its own tokens is not to the text's; and no row of the encoder
    stands for the text. Which layers those are, a first run tells.
    """
    if not model.config.is_encoder_decoder:
        return (None if layers == "all" else [-1] if layers is None else layers), {}
    kinds = {captured.layer: captured.kind for captured in capture_inputs(model, inputs, rows=1, heads=())}
    left_out = {
        layer: "left out: it attends to the decoder's own tokens, not to the text's"
        if kind == "decoder"
        else "left out: no row of an encoder stands for the text; rows 'all' or a number are there"
        for layer, kind in kinds.items()
        if kind == "decoder" or (kind == "self" and rows == "pooled")
    }
    attending = [layer for layer in kinds if layer not in left_out]
    if layers == "all":
        return attending, left_out
    if layers is None:
        return attending[-1:], {}
    # Numbers that do not exist are left as they are: capture says so.
    layers = [layer % len(kinds) if layer in range(-len(kinds), 0) else layer for layer in layers]
    for layer in layers:
        if kinds.get(layer) == "decoder":
            others = [number for number, kind in kinds.items() if kind != "decoder"]
            raise InputError(
                f"layer {layer} attends to the decoder's own tokens, not to the text's: give layers out of "
                f"{', '.join(map(str, others))}"
            )
    return layers, {}


def _refused(captured: CapturedLayer, tokens: int) -> list[RefusedHead]:
    reasons = dict(captured.refused)
    if attends_elsewhere(captured, tokens):
        reasons |= dict.fromkeys(
            captured.head_numbers, f"its keys are not those of the text's {tokens} tokens: there are others"
        )
    return [RefusedHead(captured.layer, head, reason) for head, reason in sorted(reasons.items())]


def _reasons(refused: Sequence[RefusedHead], notes: Mapping[int, str]) -> str:
    layers: dict[str, set[int]] = {}
    for head in refused:
        layers.setdefault(head.reason, set()).add(head.layer)
    for layer, note in notes.items():
        layers.setdefault(note, set()).add(layer)
    if not layers:
        return "no layer or head was asked for"
    return "; ".join(
        f"layer{'s' if len(numbers) > 1 else ''} {', '.join(map(str, sorted(numbers)))}: {reason}"
        for reason, numbers in layers.items()
    )
