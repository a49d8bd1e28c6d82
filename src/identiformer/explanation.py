"""One text explained: its prediction, the attention behind it, and whether that attention is the only one possible."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from identiformer.capturing import CapturedLayer, Rows, capture_inputs
from identiformer.errors import InputError
from identiformer.identifiability import (
    AttentionHead,
    Certificate,
    Level,
    Verdict,
    certify,
    effective_attention,
    possible_tops,
    weight_intervals,
)
from identiformer.loading import label_list
from identiformer.threads import threads_for
from identiformer.tokenization import token_lengths


@dataclass(frozen=True)
class Token:
    """A token and where it stands.

    Args:
        text: The piece of the original text that it covers; the token's own name where it covers none.
        start, end: Characters of the text (`segment` 0) or of its pair (1).
        segment: 0 for the text, 1 for its pair.
        special: Whether it is a token of the model's, such as `<cls>`, and not of the text.
        unknown: Whether the model does not know it and takes it for any other unknown one.
    """

    text: str
    start: int
    end: int
    segment: int
    special: bool
    unknown: bool


@dataclass(frozen=True)
class LevelResult:
    """What the certificate says at one level (IDENTIFIABILITY.md): see `identifiability.certify`."""

    nullity: int
    margin: float
    verdict: str


@dataclass(frozen=True)
class HeadExplanation:
    """One head and query row; lists line up with the tokens.

    Args:
        layer, head, row: Counted from 0; `row` is the token whose row this is.
        weights: Attention weights, `[n]`.
        effective: Effective attention (Brunner et al. 2020), `[n]`: no distribution, entries can be negative.
        lower, upper: Bounds of each token's weight over all rows that give the same output, `[n]`.
        possible_tops: The tokens that carry the greatest weight in some such row.
        tied_tokens: How many tokens have the same key and value as another one.
        levels: For each level its result.
    """

    layer: int
    head: int
    row: int
    weights: np.ndarray
    effective: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    possible_tops: list[int]
    tied_tokens: int
    levels: dict[str, LevelResult]


@dataclass(frozen=True)
class Explanation:
    """A text, its prediction, and the heads behind it; `to_dict` gives the JSON of DESIGN.md's contract."""

    text: str
    text_pair: str | None
    prediction: str
    probabilities: dict[str, float]
    tokens: list[Token]
    heads: list[HeadExplanation]
    truncated: bool

    def to_dict(self) -> dict[str, Any]:
        """As a dictionary of JSON's types."""
        result: dict[str, Any] = {"text": self.text}
        if self.text_pair is not None:
            result["text_pair"] = self.text_pair
        return result | {
            "prediction": self.prediction,
            "probabilities": self.probabilities,
            "truncated": self.truncated,
            "tokens": [asdict(token) for token in self.tokens],
            "heads": [
                {
                    "layer": head.layer,
                    "head": head.head,
                    "row": head.row,
                    "weights": head.weights.tolist(),
                    "effective": head.effective.tolist(),
                    "intervals": {"lower": head.lower.tolist(), "upper": head.upper.tolist()},
                    "possible_tops": head.possible_tops,
                    "tied_tokens": head.tied_tokens,
                    "levels": {name: asdict(level) for name, level in head.levels.items()},
                }
                for head in self.heads
            ],
        }


def explain(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    text: str,
    text_pair: str | None = None,
    *,
    rows: Rows = "pooled",
    layers: Sequence[int] | None = None,
) -> Explanation:
    """Explain what a model says of a text.

    Args:
        model: A text classifier, in evaluation mode.
        tokenizer: Its tokenizer.
        text: The text; truncated where it is longer than the model allows, and the result says so.
        text_pair: Its pair, where the model was trained on pairs.
        rows: `pooled`, the first token's row, which in the last layer alone reaches the prediction; or `all`.
        layers: Numbers of the layers to explain, from 0, negative ones from the end; the last one where it is
            `None`.

    Raises:
        InputError: If the text is blank, a layer does not exist, or attention cannot be captured of the model.
    """
    for name, given in (("text", text), ("text pair", text_pair)):
        if given is not None and not given.strip():
            raise InputError(f"the {name} is blank: give at least one word")
    encoded = tokenizer(
        text,
        text_pair,
        truncation=True,
        return_tensors="pt",
        return_offsets_mapping=True,
    )
    tokens = _tokens(encoded, tokenizer, text, text_pair)
    inputs = {name: encoded[name].to(model.device) for name in tokenizer.model_input_names if name in encoded}
    with torch.inference_mode():
        probabilities = model(**inputs).logits[0].double().softmax(dim=-1).tolist()
    names = label_list(model)
    heads: list[HeadExplanation] = []
    with threads_for(model):
        wanted = layers if layers is not None else [-1]
        for captured in capture_inputs(model, inputs, rows=rows, layers=wanted):
            heads += _explain_heads(captured)
    (length,) = token_lengths(tokenizer, [text], None if text_pair is None else [text_pair])
    return Explanation(
        text=text,
        text_pair=text_pair,
        prediction=names[int(np.argmax(probabilities))],
        probabilities=dict(zip(names, probabilities, strict=True)),
        tokens=tokens,
        heads=heads,
        truncated=bool(length > len(tokens)),
    )


def _tokens(
    encoded: Any, tokenizer: PreTrainedTokenizerBase, text: str, text_pair: str | None
) -> list[Token]:
    tokens: list[Token] = []
    names = tokenizer.convert_ids_to_tokens(encoded["input_ids"][0].tolist())
    segment = 0
    for name, (start, end), segment_of_text in zip(
        names, encoded["offset_mapping"][0].tolist(), encoded.sequence_ids(0), strict=True
    ):
        special = segment_of_text is None
        if not special:
            segment = segment_of_text  # a special token belongs to the text before it
        source = text_pair if segment == 1 else text
        piece = name if special or source is None else source[start:end]
        unknown = not special and name == tokenizer.unk_token
        tokens.append(Token(piece, start, end, segment, special, unknown))
    return tokens


def _explain_heads(captured: CapturedLayer) -> list[HeadExplanation]:
    """The explanations of the heads of one layer, captured of one text."""
    for number, reason in captured.refused.items():
        raise InputError(f"head {number} of layer {captured.layer} cannot be explained: {reason}")
    if captured.sink or captured.heads is None:
        raise InputError(f"layer {captured.layer} cannot be explained: {captured.note}")
    heads: AttentionHead = captured.heads[0]  # [heads, rows]
    rows: list[int] = captured.rows[0].tolist()
    certificate = certify(heads)
    effective = effective_attention(heads)
    results: list[HeadExplanation] = []
    for head, number in enumerate(captured.head_numbers):
        for position, row in enumerate(rows):
            index = (head, position)
            intervals = weight_intervals(heads, index)
            results.append(
                HeadExplanation(
                    layer=captured.layer,
                    head=number,
                    row=row,
                    weights=heads.weights[index].cpu().numpy(),
                    effective=effective[index].cpu().numpy(),
                    lower=intervals.lower.cpu().numpy(),
                    upper=intervals.upper.cpu().numpy(),
                    possible_tops=possible_tops(heads, index, intervals=intervals),
                    tied_tokens=int(certificate.tied_tokens[head, position]),
                    levels=_levels(certificate, captured.levels, head, position),
                )
            )
    return results


def _levels(
    certificate: Certificate, levels: Sequence[Level], head: int, position: int
) -> dict[str, LevelResult]:
    return {
        level.value: LevelResult(
            nullity=int(certificate[level].nullity[head, position]),
            margin=float(certificate[level].margin[head, position]),
            verdict=Verdict(int(certificate[level].verdict[head, position])).label,
        )
        for level in levels
    }
