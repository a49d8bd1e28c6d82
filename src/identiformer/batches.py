"""Batches of texts: which texts are together, in which order, and how they are padded."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from transformers import DataCollatorWithPadding, PreTrainedTokenizerBase, Trainer
from transformers.trainer_pt_utils import LengthGroupedSampler


class ShuffledLengthGroupedSampler(LengthGroupedSampler):
    """Texts of similar length together, and these batches in random order.

    The sampler of transformers groups texts alike, but then goes from the longest to the shortest: where a label goes
    with a length, training would see one label after the other.
    """

    def __iter__(self) -> Iterator[int]:
        """Indices of the texts; each `batch_size` of them are a batch."""
        indices = list(super().__iter__())
        whole = len(indices) // self.batch_size  # the rest stays last: it would shift the batches after it
        order = torch.randperm(whole, generator=self.generator).tolist()
        for batch in [*order, whole]:
            yield from indices[batch * self.batch_size : (batch + 1) * self.batch_size]


class ShufflingTrainer(Trainer):
    """The Trainer, with `ShuffledLengthGroupedSampler` on the column `length`."""

    def _get_train_sampler(self, train_dataset: Any = None) -> ShuffledLengthGroupedSampler:
        texts: Any = train_dataset if train_dataset is not None else self.train_dataset
        batch_size = self.args.train_batch_size * self.args.gradient_accumulation_steps
        return ShuffledLengthGroupedSampler(batch_size, lengths=list(texts["length"]))


def padded_batches(tokenizer: PreTrainedTokenizerBase) -> Callable[[list[dict[str, Any]]], Any]:
    """A function that makes a batch of texts: padded, and without the lengths that only the sampler needs."""
    pad = DataCollatorWithPadding(tokenizer)

    def collate(texts: list[dict[str, Any]]) -> Any:
        return pad([{name: value for name, value in text.items() if name != "length"} for text in texts])

    return collate
