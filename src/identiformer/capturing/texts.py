"""Attention captured from texts."""

from __future__ import annotations

from collections.abc import Collection, Generator, Sequence
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from identiformer.capturing.handoff import one_at_a_time
from identiformer.capturing.inputs import Give, Wanted
from identiformer.capturing.layer import CapturedLayer
from identiformer.capturing.rows import Rows, check_rows
from identiformer.errors import InputError


def capture(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    texts: Sequence[str],
    text_pairs: Sequence[str] | None = None,
    *,
    rows: Rows = "pooled",
    layers: Collection[int] | None = None,
    heads: Collection[int] | None = None,
    batch_size: int = 16,
    max_length: int | None = None,
) -> Generator[CapturedLayer, None, None]:
    r"""The attention heads with which a model encodes texts.

    Heads are read where the model computes attention: keys and values are those that enter the products (after rotary
    embedding and normalisation, bias included), and each head stands for a query head, also where several
    share keys and values. The output projection is the linear layer that received what attention gave. Every head is
    checked before it is given: its weights must mix its values to what the model's attention gave, and all heads
    together, through the projection and with its bias, to what the layer gave. The bias of the
    projection belongs to no head.

    The model runs as it is, on its own device and in its own precision, in evaluation mode. Nothing of it is changed
    beyond the capture, which ends when the generator is exhausted, closed, or no longer referenced. There is
    one layer of one batch at a time in memory.

    Args:
        model: A transformers model.
        tokenizer: Its tokenizer.
        texts: `N` texts; truncated where they are longer than the tokenizer allows.
        text_pairs: The second text of each.
        rows: Which query rows of each text. `all`; a number, for as many, from the first token on; or `pooled`: the one
            that reaches the prediction in the last layer. That is the last token where no token sees a later one,
            which classifies (and predicts the next token) in causal models; and the first token elsewhere, which
            classifies in models after BERT. A model that classifies the mean of all rows has none, nor
            has the encoder of an encoder-decoder: its heads are refused, and its layers, where `layers` names them.
            Padding is no row, on whichever side it stands.
        layers: Numbers of layers (see [`CapturedLayer`][identiformer.capturing.CapturedLayer]), negative ones from the
            end; all where it is `None`.
        heads: Numbers of heads in each layer, from 0; all where it is `None`.
        batch_size: Texts at once, in the order given. The less their lengths differ, the less padding is computed.
        max_length: The tokens to which texts are truncated; the tokenizer's maximum where it is `None`.

    Returns:
        A generator: for each batch its layers, in the order in which the model runs them.

    Raises:
        InputError: If `rows`, a layer or a head does not exist, a text has no token, the tokenizer cannot pad, or the
            model's attention cannot be captured. Of a head that cannot be given, `CapturedLayer.refused` says why.
    """
    check_rows(rows)
    if batch_size < 1:
        raise InputError(f"batch_size is {batch_size}: give 1 or more")
    if text_pairs is not None and len(text_pairs) != len(texts):
        raise InputError(f"there are {len(texts)} texts and {len(text_pairs)} text pairs: give one for each")
    wanted = Wanted(model, rows, layers, heads)

    def work(give: Give) -> None:
        for start in range(0, len(texts), batch_size):
            numbers = range(start, min(start + batch_size, len(texts)))
            chosen = [texts[i] for i in numbers]
            pairs = None if text_pairs is None else [text_pairs[i] for i in numbers]
            inputs = encode_texts(model, tokenizer, chosen, pairs, max_length)
            for number, tokens in zip(numbers, inputs["attention_mask"].sum(dim=1).tolist(), strict=True):
                if not tokens:
                    raise InputError(f"text {number} (counted from 0) has not a single token: leave it out")
            wanted.capture(inputs, numbers, give)

    return one_at_a_time(work)


def encode_texts(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    texts: list[str],
    pairs: list[str] | None,
    max_length: int | None,
) -> dict[str, Tensor]:
    """What the model is called with for some texts."""
    if tokenizer.pad_token is None and len(texts) > 1:
        raise InputError(
            "the tokenizer has no token to pad with: set tokenizer.pad_token (tokenizer.eos_token does), or capture "
            "with a batch_size of 1"
        )
    encoded = tokenizer(
        texts, pairs, truncation=True, max_length=max_length, padding=len(texts) > 1, return_tensors="pt"
    )
    inputs: dict[str, Any] = {
        name: encoded[name].to(model.device) for name in tokenizer.model_input_names if name in encoded
    }
    if getattr(model.config, "is_encoder_decoder", False) and not _makes_decoder_inputs(model):
        # The step in which the first token is generated.
        names = ("decoder_start_token_id", "bos_token_id", "pad_token_id")
        start = next((it for name in names if (it := getattr(model.config, name, None)) is not None), 0)
        inputs["decoder_input_ids"] = torch.full((len(texts), 1), start, device=model.device)
    return inputs


def _makes_decoder_inputs(model: PreTrainedModel) -> bool:
    """Whether the model is one that classifies, and gives the text to its decoder by itself."""
    return "ForSequenceClassification" in type(model).__name__
