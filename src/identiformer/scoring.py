"""Evaluating a model on labelled texts, and predicting the labels of others."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from identiformer.data import TextData, check_labels, encode_labels, load_source
from identiformer.errors import InputError
from identiformer.evaluation import classification_metrics
from identiformer.loading import label_list, load_classifier
from identiformer.prediction import predict_probabilities
from identiformer.tokenization import token_lengths

if TYPE_CHECKING:
    from datasets import Dataset
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

CHUNK = 4096  # texts read, predicted and passed on at once: what bounds the memory

Say = Callable[[str], None]
Progress = Callable[[int, int], None]  # texts done since the last call, texts in all


@dataclass(frozen=True)
class ChosenColumns:
    """Which columns of a source to read; what is `None` is found as `load_source` finds it."""

    text: str | None = None
    label: str | None = None
    text_pair: str | None = None


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
        return {"row": self.row, "text": self.text, **pair, "label": self.label} | {
            "probabilities": self.probabilities
        }


def evaluate(
    model: str,
    source: str,
    *,
    split: str | None = None,
    columns: ChosenColumns = ChosenColumns(),
    on_bad_row: Literal["error", "skip"] = "error",
    batch_size: int = 64,
    say: Say = lambda _: None,
    progress: Progress = lambda _done, _total: None,
) -> dict[str, Any]:
    """Score a model on labelled texts.

    Args:
        model: A model folder or a hub name.
        source: Labelled texts, as `load_source` takes them.
        split: Which split of a source that has several; `test` where it is `None`.
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
    data = _load(source, columns, "required", on_bad_row, split)
    chosen = _choose(data, split)
    names = label_list(classifier)
    rows, skipped = check_labels(data.splits[chosen], names, source, on_bad_row)
    for note in data.notes:
        say(note)
    for reason, count in skipped.items():
        say(f"{source}: {count} rows left out ({reason})")
    pairs = _pairs(rows, classifier)
    _say_truncated(tokenizer, list(rows["text"]), pairs, say)
    probabilities = predict_probabilities(
        classifier,
        tokenizer,
        list(rows["text"]),
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
    columns: ChosenColumns = ChosenColumns(),
    on_bad_row: Literal["error", "skip"] = "error",
    batch_size: int = 64,
    say: Say = lambda _: None,
    progress: Progress = lambda _done, _total: None,
) -> Iterator[Prediction]:
    """Predict labels, row by row in the order of the source, in memory that does not grow with it.

    Takes the arguments of `evaluate`; labels of the source, where there are any, are not looked at.
    """
    classifier, tokenizer = load_classifier(model)
    data = _load(source, columns, "ignore", on_bad_row, split)
    rows = data.splits[_choose(data, split)]
    for note in data.notes:
        say(note)
    _pairs(rows.select([]), classifier)  # refuses a source that does not fit before any work
    truncated = 0
    for start in range(0, len(rows), CHUNK):
        chunk = rows.select(range(start, min(start + CHUNK, len(rows))))
        texts, pairs = list(chunk["text"]), _pairs(chunk, classifier)
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
    _say_count(truncated, len(rows), tokenizer, say)


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
    for row, text in enumerate(texts, start=1):
        if not text.strip():
            raise InputError(f"text {rows[row - 1] if rows else row} is blank: give at least one word")
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


def check_pair(classifier: PreTrainedModel, given: bool) -> None:
    """Raise an `InputError` where a model made for pairs of texts gets single ones, or the other way round."""
    takes = getattr(classifier.config, "takes_text_pair", None)
    if takes and not given:
        raise InputError("the model was trained on pairs of texts: give --text-pair-column (or --text-pair)")
    if takes is False and given:
        raise InputError(
            "the model was trained on single texts: leave out --text-pair-column (or --text-pair)"
        )


def _load(
    source: str,
    columns: ChosenColumns,
    labels: Literal["required", "ignore"],
    on_bad_row: Literal["error", "skip"],
    split: str | None,
) -> TextData:
    return load_source(
        source,
        text_column=columns.text,
        label_column=columns.label,
        text_pair_column=columns.text_pair,
        labels=labels,
        on_bad_row=on_bad_row,
        need=(split,) if split else (),
    )


def _choose(data: TextData, split: str | None) -> str:
    """The split to use: the one asked for, the only one, or `test`."""
    if split is not None:
        if split not in data.splits:
            raise InputError(f"{data.source} has no split {split}: it has {', '.join(data.splits)}")
        return split
    if len(data.splits) == 1:
        return next(iter(data.splits))
    if "test" in data.splits:
        data.notes.append(f"of {data.source}, the test split is used (--split chooses another)")
        return "test"
    raise InputError(f"{data.source} has the splits {', '.join(data.splits)}: choose one with --split")


def _pairs(rows: Dataset, classifier: PreTrainedModel) -> list[str] | None:
    given = "text_pair" in rows.column_names
    check_pair(classifier, given)
    return list(rows["text_pair"]) if given else None


def _count_truncated(tokenizer: PreTrainedTokenizerBase, texts: list[str], pairs: list[str] | None) -> int:
    return int((token_lengths(tokenizer, texts, pairs) > tokenizer.model_max_length).sum())


def _say_truncated(
    tokenizer: PreTrainedTokenizerBase, texts: list[str], pairs: list[str] | None, say: Say
) -> None:
    _say_count(_count_truncated(tokenizer, texts, pairs), len(texts), tokenizer, say)


def _say_count(truncated: int, total: int, tokenizer: PreTrainedTokenizerBase, say: Say) -> None:
    if truncated:
        limit = tokenizer.model_max_length
        say(f"{truncated} of {total} texts are longer than {limit} tokens and were truncated")
