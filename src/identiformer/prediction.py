"""Probabilities of labels for many texts, in the order in which the texts came."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from identiformer.errors import InputError
from identiformer.loading import label_list

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase


def predict_probabilities(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    texts: Sequence[str],
    text_pairs: Sequence[str] | None = None,
    *,
    batch_size: int = 64,
    progress: Callable[[int], None] | None = None,
) -> np.ndarray:
    """Probabilities of each label for each text.

    Args:
        model: A text classifier.
        tokenizer: Its tokenizer; texts longer than it allows are truncated.
        texts: `N` texts.
        text_pairs: The second text of each, where the model was trained on pairs.
        batch_size: Texts at once.
        progress: Called with the number of texts done, batch by batch.

    Returns:
        `[N, num_labels]`, float64, rows in the order of `texts`, each summing to 1.

    Raises:
        InputError: If the model gives no numbers.
    """
    import torch

    from identiformer.threads import threads_for
    from identiformer.tokenization import length_batches

    encoded = tokenizer(
        list(texts), list(text_pairs) if text_pairs is not None else None, truncation=True, padding=False
    )
    lengths = [len(ids) for ids in encoded["input_ids"]]
    probabilities = np.empty((len(texts), len(label_list(model))))
    for rows in length_batches(lengths, batch_size):
        batch = tokenizer.pad(
            {name: [values[i] for i in rows] for name, values in encoded.items()}, return_tensors="pt"
        ).to(model.device)
        with torch.inference_mode(), threads_for(model):
            logits = model(**batch).logits
        probabilities[rows] = logits.double().softmax(dim=-1).cpu().numpy()
        if progress is not None:
            progress(len(rows))
    if not np.isfinite(probabilities).all():
        raise InputError("the model gives no numbers (NaN) for some texts: its training must have diverged")
    return probabilities
