"""The share of texts for which a model's attention is identifiable."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from identiformer.capturing import capture_inputs
from identiformer.errors import InputError
from identiformer.identifiability import Level, Verdict, certify
from identiformer.threads import threads_for
from identiformer.tokenization import length_batches


def identifiable_share(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    texts: Sequence[str],
    text_pairs: Sequence[str] | None = None,
    *,
    batch_size: int = 64,
) -> dict[str, Any]:
    """For which share of texts the weights behind the prediction are the only ones that give the heads' outputs.

    A text counts at a level if the row that reaches the prediction is identifiable there in every head of the last
    layer (IDENTIFIABILITY.md): outright, verdict `global`; or at least nearby, `global` or `local`, which differs
    at `generatable` alone. Each head is certified from its own output; the layer, which adds the heads, fixes less.

    Args:
        model: A classifier that reads its prediction from the first token.
        tokenizer: Its tokenizer.
        texts: `N` texts.
        text_pairs: The second text of each, where the model was trained on pairs.
        batch_size: Texts at once.

    Returns:
        `share`: for each level the share of texts identifiable at least nearby; `global`: those that are so outright,
        which is as many at `free` and `simplex`; `tied`: the share of texts in which tokens have equal keys and
        values (repeated words, in a model without positions); `longest`: the most tokens of a text that is
        identifiable on the simplex, 0 where there is none.

    Raises:
        InputError: If the attention of a model cannot be captured.
    """
    nearby: dict[Level, list[np.ndarray]] = {level: [] for level in Level}
    outright: dict[Level, list[np.ndarray]] = {level: [] for level in Level}
    tied: list[np.ndarray] = []
    tokens: list[np.ndarray] = []
    # Of an encoder-decoder, which counts layers otherwise: where its decoder attends to the text.
    last = -1 if model.config.is_encoder_decoder else model.config.num_hidden_layers - 1
    for chosen in length_batches([len(text) for text in texts], batch_size):
        inputs = tokenizer(
            [texts[i] for i in chosen],
            None if text_pairs is None else [text_pairs[i] for i in chosen],
            truncation=True,
            padding=True,
            return_tensors="pt",
        ).to(model.device)
        with threads_for(model):
            (captured,) = capture_inputs(model, dict(inputs), layers=[last])
            if captured.heads is None or captured.refused:  # of our own model every head has the form
                raise InputError("; ".join(sorted(set(captured.refused.values()))))
            certificate = certify(captured.heads)
        for level in Level:
            verdict = certificate[level].verdict.flatten(1)  # [texts, heads]
            nearby[level].append((verdict != Verdict.NONE).all(dim=1).cpu().numpy())
            outright[level].append((verdict == Verdict.GLOBAL).all(dim=1).cpu().numpy())
        tied.append((certificate.tied_tokens > 0).flatten(1).any(dim=1).cpu().numpy())
        tokens.append(inputs["attention_mask"].sum(dim=1).cpu().numpy())
    on_simplex = np.concatenate(nearby[Level.SIMPLEX])
    return {
        "share": _shares(nearby),
        "global": _shares(outright),
        "tied": float(np.concatenate(tied).mean()),
        "longest": int(np.concatenate(tokens)[on_simplex].max(initial=0)),
    }


def _shares(counted: dict[Level, list[np.ndarray]]) -> dict[str, float]:
    return {level.value: float(np.concatenate(parts).mean()) for level, parts in counted.items()}
