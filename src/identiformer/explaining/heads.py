"""What is said of the attention heads of one layer, for one text: by token and by word."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from identiformer.capturing import CapturedLayer
from identiformer.explaining.alternatives import AlternativeSearch, ExplainedAlternative, word_groups
from identiformer.explaining.levels import LevelResult, level_results
from identiformer.identifiability import (
    AttentionHead,
    certify,
    effective_attention,
    possible_tops,
    weight_intervals,
)
from identiformer.words import ReadText


@dataclass(frozen=True)
class HeadExplanation:
    """One head and query row; lists line up with the tokens, and those of words with the words.

    Args:
        layer, head, row: Counted from 0; `row` is the token whose row this is.
        kind: `self`; or `cross`, where a decoder attends to the text: then `row` counts the tokens of the decoder.
        weights: Attention weights, `[n]`; their sum is 1, or 1 less `sink`.
        effective: Effective attention (Brunner et al. 2020), `[n]`: no distribution, entries can be negative.
        lower, upper: Bounds of each token's weight over all rows that give the same output, `[n]`; these,
            `possible_tops` and those of words are `None` where they were not computed.
        possible_tops: The tokens that carry the greatest weight of all tokens in some such row.
        tied_tokens: How many tokens have the same key and value as another one.
        levels: For each level its result; without `generatable` where nothing can be said at it (`Explanation.notes`).
        word_weights, word_effective: Those of each word: the sums over its tokens, `[w]`.
        word_lower, word_upper: Bounds of each word's weight, `[w]`. Not the sums of its tokens' bounds, which are wider
            where weight moves from one piece of a word to another.
        word_possible_tops: The words that carry the greatest weight of all words in some such row.
        sink: The weight that goes to no token: the share of a logit beside those of the tokens (an attention sink),
            which some models have; `None` elsewhere. A sink is never one of the possible tops.
        alternatives: Other weights with the same output; `None` where they were not looked for.
    """

    layer: int
    head: int
    row: int
    kind: str
    weights: np.ndarray
    effective: np.ndarray
    lower: np.ndarray | None
    upper: np.ndarray | None
    possible_tops: list[int] | None
    tied_tokens: int
    levels: dict[str, LevelResult]
    word_weights: np.ndarray
    word_effective: np.ndarray
    word_lower: np.ndarray | None
    word_upper: np.ndarray | None
    word_possible_tops: list[int] | None
    sink: float | None = None
    alternatives: list[ExplainedAlternative] | None = None

    def to_dict(self) -> dict[str, Any]:
        """As a dictionary of JSON's types."""
        return {
            "layer": self.layer,
            "head": self.head,
            "row": self.row,
            "kind": self.kind,
            "weights": self.weights.tolist(),
            "effective": self.effective.tolist(),
            "intervals": _listed(self.lower, self.upper),
            "possible_tops": self.possible_tops,
            "sink": self.sink,
            "words": {
                "weights": self.word_weights.tolist(),
                "effective": self.word_effective.tolist(),
                "intervals": _listed(self.word_lower, self.word_upper),
                "possible_tops": self.word_possible_tops,
            },
            "tied_tokens": self.tied_tokens,
            "levels": {name: asdict(level) for name, level in self.levels.items()},
            "alternatives": None
            if self.alternatives is None
            else [one.to_dict() for one in self.alternatives],
        }


def _listed(lower: np.ndarray | None, upper: np.ndarray | None) -> dict[str, list[float]] | None:
    return None if lower is None or upper is None else {"lower": lower.tolist(), "upper": upper.tolist()}


def attends_elsewhere(captured: CapturedLayer, tokens: int) -> bool:
    """Whether the layer attends to something else than the text's tokens, such as a prefix or blocks of them."""
    return captured.heads is not None and captured.heads.weights.shape[-1] - captured.sink != tokens


def explain_heads(
    captured: CapturedLayer,
    read: ReadText,
    row_done: Callable[[], object] = lambda: None,
    *,
    intervals: bool = True,
    search: AlternativeSearch | None = None,
) -> list[HeadExplanation]:
    """The explanations of the heads of one layer, captured of one text; none where it attends to something else.

    Args:
        captured: The layer.
        read: The text's tokens and words.
        row_done: Called after each row of each head.
        intervals: Whether to compute bounds and possible tops: two linear programs a token, and more for words.
        search: Looks for alternatives, where they are wanted.
    """
    tokens = len(read.tokens)
    if captured.heads is None or attends_elsewhere(captured, tokens):
        return []
    heads: AttentionHead = captured.heads[0]  # [heads, rows]
    rows: list[int] = captured.rows[0].tolist()
    certificate = certify(heads)
    effective = effective_attention(heads)
    groups = word_groups(read, captured.sink)
    of_word = groups[:tokens].numpy()
    # None: the tokens as they are, where there is no sink to leave out; words only where they are more than that.
    by_token = torch.tensor([*range(tokens), -1]) if captured.sink else None
    by_word = None if all(len(word.tokens) == 1 for word in read.words) else groups
    results: list[HeadExplanation] = []
    for head, number in enumerate(captured.head_numbers):
        for position, row in enumerate(rows):
            own = heads.weights[head, position]
            # Once: what it computes, it keeps. Certificates alone do without: checking a head takes longer than they.
            one = heads[head, position] if intervals or search is not None else None
            weights, seen = (tensor[:tokens].cpu().numpy() for tensor in (own, effective[head, position]))
            word_weights, word_effective = (
                np.bincount(of_word, weights=part, minlength=len(read.words)) for part in (weights, seen)
            )
            bounds = word_bounds = None
            if one is not None and intervals:
                bounds = _bounds(one, by_token)
                word_bounds = bounds if by_word is None else _bounds(one, by_word)
            levels = level_results(certificate, captured.levels, head, position)
            results.append(
                HeadExplanation(
                    layer=captured.layer,
                    head=number,
                    row=row,
                    kind=captured.kind,
                    weights=weights,
                    effective=seen,
                    lower=None if bounds is None else bounds.lower,
                    upper=None if bounds is None else bounds.upper,
                    possible_tops=None if bounds is None else bounds.tops,
                    tied_tokens=int(certificate.tied_tokens[head, position]),
                    levels=levels,
                    word_weights=word_weights,
                    word_effective=word_effective,
                    # Sums in another order differ by rounding.
                    word_lower=None if word_bounds is None else np.minimum(word_bounds.lower, word_weights),
                    word_upper=None if word_bounds is None else np.maximum(word_bounds.upper, word_weights),
                    word_possible_tops=None if word_bounds is None else word_bounds.tops,
                    sink=float(own[-1]) if captured.sink else None,
                    alternatives=None
                    if search is None or one is None
                    else search.of(one, word_weights, levels, captured.sink),
                )
            )
            row_done()
    return results


@dataclass(frozen=True)
class _Bounds:
    lower: NDArray[np.float64]
    upper: NDArray[np.float64]
    tops: list[int]


def _bounds(head: AttentionHead, groups: Tensor | None) -> _Bounds:
    intervals = weight_intervals(head, groups=groups)
    return _Bounds(
        intervals.lower.cpu().numpy(),
        intervals.upper.cpu().numpy(),
        possible_tops(head, intervals=intervals, groups=groups),
    )
