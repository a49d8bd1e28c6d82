"""The rows of a source that a model is to read."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from identiformer.data import TextData, load_source
from identiformer.errors import InputError

if TYPE_CHECKING:
    from datasets import Dataset
    from transformers import PreTrainedModel

Say = Callable[[str], None]


@dataclass(frozen=True)
class ChosenColumns:
    """Which columns of a source to read; what is `None` is found as `load_source` finds it."""

    text: str | None = None
    label: str | None = None
    text_pair: str | None = None


AS_FOUND = ChosenColumns()


def load_split(
    source: str,
    columns: ChosenColumns,
    labels: Literal["required", "ignore"],
    on_bad_row: Literal["error", "skip"],
    split: str | None,
    say: Say,
) -> tuple[TextData, Dataset]:
    """The source and its split to use, the only one that is read.

    Args:
        source: As `load_source` takes it.
        columns: Which of its columns.
        labels: Whether rows need a label.
        on_bad_row: `error`, or `skip` to leave out rows that cannot be used and count them.
        split: Of a folder or a hub data set; `test` where it is `None`.
        say: Called with a sentence on the choice.

    Raises:
        InputError: For a source that cannot be used, or a split that it does not have.
    """
    path = os.path.expanduser(source)
    if split is not None and (source.startswith("demo:") or os.path.isfile(path)):
        raise InputError(f"{source} has no splits to choose from: leave out --split, and all of it is used")
    if split is None and (source.startswith("hf:") or os.path.isdir(path)):
        say(f"of {source}, the test split is used (--split chooses another)")
    data = load_source(
        source,
        text_column=columns.text,
        label_column=columns.label,
        text_pair_column=columns.text_pair,
        labels=labels,
        on_bad_row=on_bad_row,
        only=(split or "test",),
    )
    (rows,) = data.splits.values()
    return data, rows


def takes_pairs(data: TextData, rows: Dataset, classifier: PreTrainedModel, columns: ChosenColumns) -> bool:
    """Whether the rows' second texts are used; a pair that nobody asked for is none to a model of single texts."""
    found = "text_pair" in rows.column_names
    takes = getattr(classifier.config, "takes_text_pair", None)
    if found and takes is False and columns.text is not None and columns.text_pair is None:
        data.notes.append(f"the model takes single texts: the column {data.columns.text_pair} is not used")
        return False
    check_pair(classifier, found)
    return found


def check_pair(classifier: PreTrainedModel, given: bool, *, of_source: bool = True) -> None:
    """Raise an `InputError` where a model made for pairs of texts gets single ones, or the other way round.

    Args:
        classifier: The model.
        given: Whether there are second texts.
        of_source: Whether texts are read from a source with columns, and not given one by one.
    """
    takes = getattr(classifier.config, "takes_text_pair", None)
    if takes and not given:
        option = "--text-pair-column" if of_source else "--text-pair"
        raise InputError(f"the model was trained on pairs of texts: give {option}")
    if takes is False and given:
        raise InputError(
            "the model was trained on single texts: leave out --text-pair-column, and where the source has columns "
            "of pairs, name that of the texts with --text-column"
            if of_source
            else "the model was trained on single texts: leave out --text-pair"
        )
