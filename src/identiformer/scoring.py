"""Evaluating a model on labelled texts, and predicting the labels of others."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from identiformer.data import check_labels, encode_labels
from identiformer.data.cells import Bad, read_text
from identiformer.errors import InputError
from identiformer.evaluation import classification_metrics
from identiformer.loading import label_list, load_classifier
from identiformer.prediction import predict_probabilities
from identiformer.reading import AS_FOUND, ChosenColumns, Say, check_pair, load_split, takes_pairs
from identiformer.tokenization import token_lengths

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

CHUNK = 4096  # texts read, predicted and passed on at once: what bounds the memory

Progress = Callable[[int, int], None]  # texts done since the last call, texts in all


@dataclass(frozen=True)
class Prediction:
    """The label of one row and the probabilities of all, with the row's number (from 1) and its texts."""

    row: int
    text: str
    text_pair: str | None
    label: str
    probabilities: dict[str, float]

    def to_dict(self) -> dict[str, Any]:
        """As a dictionary of JSON's types."""
        pair = {} if self.text_pair is None else {"text_pair": self.text_pair}
        return {
            "row": self.row,
            "text": self.text,
            **pair,
            "label": self.label,
            "probabilities": self.probabilities,
        }


def evaluate(
    model: str,
    source: str,
    *,
    split: str | None = None,
    columns: ChosenColumns = AS_FOUND,
    on_bad_row: Literal["error", "skip"] = "error",
    batch_size: int = 64,
    say: Say = lambda _: None,
    progress: Progress = lambda _done, _total: None,
) -> dict[str, Any]:
    """Score a model on labelled texts.

    Args:
        model: A model folder or a hub name.
        source: Labelled texts, as `load_source` takes them.
        split: Which split of a folder or a hub data set; `test` where it is `None`.
        columns: Of the source.
        on_bad_row: `error`, or `skip` to leave out rows that cannot be used and count them.
        batch_size: Texts at once.
        say: Called with a sentence on every choice made and everything left out.
        progress: Called as texts are done.

    Returns:
        The metrics of `classification_metrics`.

    Raises:
        InputError: For a model or texts that cannot be used, labels that the model does not know among them.
    """
    classifier, tokenizer = load_classifier(model)
    data, chosen = load_split(source, columns, "required", on_bad_row, split, say)
    names = label_list(classifier)
    pair_column = takes_pairs(data, chosen, classifier, columns)
    rows, skipped = check_labels(chosen, names, source, on_bad_row)
    for note in data.notes:
        say(note)
    for reason, count in skipped.items():
        say(f"{source}: {count} rows left out ({reason})")
    texts, pairs = list(rows["text"]), list(rows["text_pair"]) if pair_column else None
    _say_truncated(_count_truncated(tokenizer, texts, pairs), len(texts), tokenizer, say)
    probabilities = predict_probabilities(
        classifier,
        tokenizer,
        texts,
        pairs,
        batch_size=batch_size,
        progress=lambda done: progress(done, len(rows)),
    )
    return classification_metrics(probabilities, encode_labels(rows, names), names)


def predict(
    model: str,
    source: str,
    *,
    split: str | None = None,
    columns: ChosenColumns = AS_FOUND,
    on_bad_row: Literal["error", "skip"] = "error",
    batch_size: int = 64,
    say: Say = lambda _: None,
    progress: Progress = lambda _done, _total: None,
) -> Iterator[Prediction]:
    """Predict labels, row by row in the order of the source, in memory that does not grow with it.

    Takes the arguments of `evaluate`; labels of the source, where there are any, are not looked at.
    """
    classifier, tokenizer = load_classifier(model)
    data, rows = load_split(source, columns, "ignore", on_bad_row, split, say)
    pair_column = takes_pairs(data, rows, classifier, columns)
    for note in data.notes:
        say(note)
    truncated = 0
    for start in range(0, len(rows), CHUNK):
        chunk = rows.select(range(start, min(start + CHUNK, len(rows))))
        texts, pairs = list(chunk["text"]), list(chunk["text_pair"]) if pair_column else None
        truncated += _count_truncated(tokenizer, texts, pairs)
        yield from predict_texts(
            classifier,
            tokenizer,
            texts,
            pairs,
            rows=list(chunk["row"]),
            batch_size=batch_size,
            progress=lambda done: progress(done, len(rows)),
        )
    _say_truncated(truncated, len(rows), tokenizer, say)


def predict_given(
    model: str,
    texts: Sequence[str],
    text_pairs: Sequence[str] | None = None,
    *,
    batch_size: int = 64,
    say: Say = lambda _: None,
) -> list[Prediction]:
    """Predict the labels of a few texts that are given as they are, as `predict` does those of a source."""
    if text_pairs and len(text_pairs) != len(texts):
        raise InputError(
            f"{len(texts)} --text and {len(text_pairs)} --text-pair: give one pair for each text"
        )
    check_given(texts)
    check_given(text_pairs or (), pair=True)
    classifier, tokenizer = load_classifier(model)
    check_pair(classifier, bool(text_pairs), of_source=False)
    truncated = _count_truncated(tokenizer, texts, text_pairs or None)
    _say_truncated(truncated, len(texts), tokenizer, say)
    return predict_texts(classifier, tokenizer, texts, text_pairs or None, batch_size=batch_size)


def predict_texts(
    classifier: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    texts: Sequence[str],
    text_pairs: Sequence[str] | None = None,
    *,
    rows: Sequence[int] | None = None,
    batch_size: int = 64,
    progress: Callable[[int], None] | None = None,
) -> list[Prediction]:
    """Predict the labels of given texts.

    Args:
        classifier: A text classifier.
        tokenizer: Its tokenizer.
        texts: `N` texts.
        text_pairs: The second text of each.
        rows: Numbers for them; from 1 where it is `None`.
        batch_size: Texts at once.
        progress: Called with the number of texts done, batch by batch.
    """
    names = label_list(classifier)
    probabilities = predict_probabilities(
        classifier, tokenizer, texts, text_pairs, batch_size=batch_size, progress=progress
    )
    best = probabilities.argmax(axis=1)
    return [
        Prediction(
            row=rows[i] if rows else i + 1,
            text=text,
            text_pair=text_pairs[i] if text_pairs is not None else None,
            label=names[best[i]],
            probabilities=dict(zip(names, probabilities[i].tolist(), strict=True)),
        )
        for i, text in enumerate(texts)
    ]


def check_given(texts: Sequence[str], *, pair: bool = False) -> None:
    """Raise an `InputError` where a text that somebody typed could not stand in a source either."""
    for number, text in enumerate(texts, start=1):
        read = read_text(text, pair)
        if isinstance(read, Bad):
            which = f"number {number} of the texts" if len(texts) > 1 else "what was given"
            remedy = (
                "write it in UTF-8" if read.reason.endswith("valid Unicode") else "give at least one word"
            )
            raise InputError(f"{which} is a {read.reason}: {remedy}")


def _count_truncated(
    tokenizer: PreTrainedTokenizerBase, texts: Sequence[str], pairs: Sequence[str] | None
) -> int:
    return int((token_lengths(tokenizer, texts, pairs) > tokenizer.model_max_length).sum())


def _say_truncated(truncated: int, total: int, tokenizer: PreTrainedTokenizerBase, say: Say) -> None:
    if truncated:
        limit = tokenizer.model_max_length
        say(f"{truncated} of {total} texts are longer than {limit} tokens and were truncated")
