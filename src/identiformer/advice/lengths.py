"""The lengths of many texts in tokens, counted without keeping the texts."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from datasets import Dataset
    from transformers import PreTrainedTokenizerBase

# Texts are read and encoded a few at a time, by their number and their characters: a text may have megabytes.
READ_ROWS = 64
BATCH_ROWS = 1000
BATCH_CHARACTERS = 1 << 20


@dataclass(frozen=True)
class TextLengths:
    """Lengths of `N` texts.

    Args:
        tokens: `[N]`, tokens of each text, special ones included and nothing cut off.
        repeats: `[N]`, whether a token of the text occurs again in it, in the same text of a pair; special tokens
            aside, but for `<unk>`, which stands for any word that the tokenizer does not know.
    """

    tokens: np.ndarray
    repeats: np.ndarray

    def __len__(self) -> int:
        return len(self.tokens)


def measure(
    tokenizer: PreTrainedTokenizerBase,
    rows: Dataset,
    paired: bool,
    progress: Callable[[int], None] = lambda _: None,
) -> TextLengths:
    """Count the tokens of every row, in memory for the counts and a batch of texts.

    Args:
        tokenizer: Any tokenizer of transformers.
        rows: With the column "text", and "text_pair" where `paired`.
        paired: Whether to encode a row's two texts together.
        progress: Called with the number of texts done, batch by batch.
    """
    special = {number for number in tokenizer.all_special_ids if number != tokenizer.unk_token_id}
    tokens, repeats = array("q"), array("b")
    for texts, *pairs in _batches(rows, ["text", "text_pair"] if paired else ["text"]):
        # verbose=False: no warning about the model's maximum; finding out is why the caller asks.
        encoded = tokenizer(
            texts,
            pairs[0] if pairs else None,
            truncation=False,
            padding=False,
            return_attention_mask=False,
            verbose=False,
        )
        numbers: list[list[int]] = encoded["input_ids"]
        segments: list[list[int]] = encoded.get("token_type_ids") or [[0] * len(ids) for ids in numbers]
        for ids, parts in zip(numbers, segments, strict=True):
            words = [word for word in zip(ids, parts, strict=True) if word[0] not in special]
            tokens.append(len(ids))
            repeats.append(len(set(words)) < len(words))
        progress(len(numbers))
    return TextLengths(np.array(tokens, dtype=np.int64), np.array(repeats, dtype=np.bool_))


def texts_of(rows: Dataset, paired: bool) -> Iterator[str]:
    """Every text of the rows, and its pair where `paired`, a few of them in memory at a time."""
    for batch in _batches(rows, ["text", "text_pair"] if paired else ["text"]):
        for column in batch:
            yield from column


def _batches(rows: Dataset, columns: Sequence[str]) -> Iterator[list[list[str]]]:
    """The columns of some rows after the other, as many as make a batch."""
    pending: list[list[str]] = [[] for _ in columns]
    characters = 0
    few: Any
    for few in rows.select_columns(list(columns)).iter(READ_ROWS):
        for row in zip(*(few[column] for column in columns), strict=True):
            for column, text in zip(pending, row, strict=True):
                column.append(text)
                characters += len(text)
            if len(pending[0]) >= BATCH_ROWS or characters >= BATCH_CHARACTERS:
                yield pending
                pending, characters = [[] for _ in columns], 0
    if pending[0]:
        yield pending
