"""How many processor threads a model is worth."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from transformers import PreTrainedModel

# Parameters beside the word embeddings from which threads begin to pay.
SMALL = 2_000_000


@contextmanager
def threads_for(model: PreTrainedModel) -> Iterator[None]:
    """One thread while a small model computes on the processor.

    Threads wait for each other at every operation. Where operations are small that costs as much as it brings on an
    idle machine, and many times more on a busy one, where some thread always waits for its turn. One thread also
    gives the same result whatever the number of cores.
    """
    embeddings = model.get_input_embeddings()
    words = sum(parameter.numel() for parameter in embeddings.parameters())
    before = torch.get_num_threads()
    if model.device.type == "cpu" and model.num_parameters() - words < SMALL:
        torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
