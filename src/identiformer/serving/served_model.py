"""The model that is served: what it is, what may be asked of it, and its answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from transformers import PreTrainedModel, PreTrainedTokenizerBase

from identiformer.capturing import Rows, capture_inputs, encode_texts
from identiformer.data.cells import BLANK_TEXT, MISSING_TEXT, Bad, read_text
from identiformer.errors import InputError
from identiformer.explaining.alternatives import Goal
from identiformer.explaining.asked import explain_alternative
from identiformer.explaining.explanation import Layers, explain, load_to_explain
from identiformer.scoring import check_given, predict_texts
from identiformer.serving.limits import Limits
from identiformer.serving.refusal import Refusal
from identiformer.tokenization import token_lengths

Check = Callable[[], None]
# Texts at once: between batches a prediction can be stopped.
_BATCH = 8
_PROBE = "a"


@dataclass(frozen=True)
class Question:
    """What is asked of a text.

    Args:
        text, text_pair: The text and its pair.
        rows, layers, heads, intervals: As of `explain`.
    """

    text: str
    text_pair: str | None = None
    rows: Rows = "pooled"
    layers: Layers = None
    heads: Sequence[int] | None = None
    intervals: bool = True


class ServedModel:
    """A model and what is known of it before any question.

    Args:
        name: What pages call it.
        model, tokenizer: As `load_to_explain` gives them.
        limits: What may be asked.

    Attributes:
        labels: Those of a classifier; empty where it chooses none.
        takes_pair: Whether texts come with a pair; `None` where that is up to whoever asks.
        layers: Of each layer that can be explained, its number and its heads.
        pooled: Whether the model has a pooled row.

    Raises:
        InputError: If nothing of the model can be explained.
    """

    def __init__(self, name: str, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, limits: Limits):
        self.name, self.limits = name, limits
        self._model, self._tokenizer = model, tokenizer
        self.takes_pair: bool | None = getattr(model.config, "takes_text_pair", None)
        pair = _PROBE if self.takes_pair else None
        # The first explanation also loads what only the first one has to wait for.
        probe = explain(model, tokenizer, _PROBE, pair, layers="all", rows=1)
        try:
            explain(model, tokenizer, _PROBE, pair)
            self.pooled = True
        except InputError:
            self.pooled = False
        self.labels = list(probe.probabilities)
        self.layers: dict[int, list[int]] = {}
        for head in probe.heads:
            self.layers.setdefault(head.layer, []).append(head.head)
        inputs = encode_texts(model, tokenizer, [_PROBE], None if pair is None else [pair], None)
        self._count = sum(1 for _ in capture_inputs(model, inputs, rows=1, heads=()))

    @classmethod
    def load(cls, name: str, limits: Limits) -> ServedModel:
        """Load a model: a folder, which pages call by its last name, or the name of one on a hub."""
        model, tokenizer = load_to_explain(name)
        return cls(Path(name).resolve().name if Path(name).is_dir() else name, model, tokenizer, limits)

    @property
    def most_tokens(self) -> int:
        """The tokens to which texts are truncated."""
        return int(self._tokenizer.model_max_length)

    def predict(self, texts: Sequence[str], pairs: Sequence[str] | None, check: Check) -> dict[str, Any]:
        """The labels of some texts and their probabilities.

        Raises:
            Refusal, InputError: Where they cannot be had.
        """
        if not self.labels:
            raise Refusal(422, f"{self.name} chooses no label of a text: ask /api/explain for its attention")
        if len(texts) > self.limits.texts:
            raise Refusal(422, f"{len(texts)} texts were given: give {self.limits.texts} at most at once")
        if pairs is not None and len(pairs) != len(texts):
            raise Refusal(
                422, f"{len(texts)} texts and {len(pairs)} pairs were given: give one pair for each text"
            )
        _check_given(texts)
        _check_given(pairs or (), pair=True)
        self._check_texts(texts, pairs)
        lengths = token_lengths(self._tokenizer, texts, pairs)
        check()
        predictions = predict_texts(
            self._model, self._tokenizer, texts, pairs, batch_size=_BATCH, progress=lambda _done: check()
        )
        return {
            "predictions": [
                prediction.to_dict() | {"truncated": bool(length > self.most_tokens)}
                for prediction, length in zip(predictions, lengths, strict=True)
            ]
        }

    def explain(self, question: Question, check: Check) -> dict[str, Any]:
        """The explanation of a text, as the token view takes it: a text that is no row of a source.

        Raises:
            Refusal, InputError: Where it cannot be had; before it is begun where it would be too much.
        """
        self._check_question(question)
        check()
        explanation = explain(
            self._model,
            self._tokenizer,
            question.text,
            question.text_pair,
            rows=question.rows,
            layers=question.layers,
            heads=question.heads,
            intervals=question.intervals,
            progress=lambda _done, _total: check(),
        )
        return explanation.to_dict() | {"id": None, "label": None}

    def alternative(
        self,
        text: str,
        text_pair: str | None,
        *,
        layer: int,
        head: int,
        row: int,
        goal: Goal,
        word: int | None,
        level: str,
        check: Check,
    ) -> dict[str, Any]:
        """Other weights of one row with the same output; arguments as of `explain_alternative`.

        Raises:
            Refusal, InputError: Where they cannot be looked for.
        """
        if not 0 <= layer < self._count:
            raise self._no_layer(layer)
        # It captures all rows up to the one that is asked about.
        self._check_question(Question(text, text_pair, row + 1, [layer], [head]))
        check()
        found = explain_alternative(
            self._model,
            self._tokenizer,
            text,
            text_pair,
            layer=layer,
            head=head,
            row=row,
            goal=goal,
            word=word,
            level=level,
        )
        return found.to_dict()

    def _check_question(self, question: Question) -> None:
        pairs = None if question.text_pair is None else [question.text_pair]
        _check_given([question.text])
        _check_given(pairs or (), pair=True)
        self._check_texts([question.text], pairs)
        if not self.pooled and question.rows == "pooled":
            raise Refusal(
                422, f"rows: {self.name} has no pooled row: give all, or how many from the first token on"
            )
        layers = self._numbers(question.layers)
        (length,) = token_lengths(self._tokenizer, [question.text], pairs)
        tokens = min(int(length), self.most_tokens)
        if tokens > self.limits.tokens:
            raise Refusal(
                422, f"the text has {tokens} tokens: explanations are of {self.limits.tokens} at most"
            )
        rows = {"pooled": 1, "all": tokens}.get(str(question.rows)) or min(int(question.rows), tokens)
        heads = sum(len(self._heads(layer, question.heads)) for layer in layers)
        if heads * rows * tokens > self.limits.weights:
            raise Refusal(
                422,
                f"{heads} heads with {rows} rows of {tokens} tokens are {heads * rows * tokens} attention weights: "
                f"an explanation has {self.limits.weights} at most; ask for fewer layers, heads or rows",
            )

    def _numbers(self, layers: Layers) -> list[int]:
        if layers is None:
            return list(self.layers)[-1:]
        if layers == "all":
            return list(self.layers)
        for layer in layers:
            if not -self._count <= layer < self._count:
                raise self._no_layer(layer)
        return sorted({layer % self._count for layer in layers})

    def _no_layer(self, layer: int) -> Refusal:
        return Refusal(422, f"there is no layer {layer}: the model has layers 0 to {self._count - 1}")

    def _heads(self, layer: int, heads: Sequence[int] | None) -> list[int]:
        known = self.layers.get(layer, [])  # of one that cannot be explained, `explain` says why
        return known if heads is None else [head for head in known if head in heads]

    def _check_texts(self, texts: Sequence[str], pairs: Sequence[str] | None) -> None:
        """Refuse what is too long, and a pair too many or too few."""
        named: list[tuple[str, Sequence[str]]] = [("text", texts), ("text_pair", pairs or [])]
        for name, given in named:
            longest = max((len(text) for text in given), default=0)
            if longest > self.limits.characters:
                raise Refusal(
                    422, f"{name}: {longest} characters were given: give {self.limits.characters} at most"
                )
        if self.takes_pair and pairs is None:
            raise Refusal(422, "text_pair: the model was trained on pairs of texts: give one")
        if self.takes_pair is False and pairs is not None:
            raise Refusal(422, "text_pair: the model was trained on single texts: leave it out")


def _check_given(texts: Sequence[str], *, pair: bool = False) -> None:
    """As `check_given`, in the words of a form for the one text that is blank."""
    read = read_text(texts[0]) if len(texts) == 1 else None
    if isinstance(read, Bad) and read.reason in (MISSING_TEXT, BLANK_TEXT):
        raise Refusal(422, f"the {'second ' if pair else ''}text is blank: type at least one word")
    check_given(texts, pair=pair)
