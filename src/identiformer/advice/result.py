"""What advice consists of."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from identiformer.advice.head_sizes import HeadSizes
from identiformer.advice.recommendation import Recommendation, levels
from identiformer.advice.shares import Share, Shares


@dataclass(frozen=True)
class AtSize:
    """How many texts are identifiable on the simplex with a value size.

    Args:
        value_size: `d_v`; the layer is taken to be at least as wide.
        identifiable_length: The most tokens that these texts have.
        positions: The texts, where the model knows positions: all of at most that length.
        no_positions: Where it does not: those of them in which no token occurs again.
    """

    value_size: int
    identifiable_length: int
    positions: Share
    no_positions: Share

    def to_dict(self) -> dict[str, Any]:
        """As a dictionary of JSON's types."""
        return {
            "value_size": self.value_size,
            "identifiable_length": self.identifiable_length,
            **self.positions.to_dict(),
            "without_positions": self.no_positions.to_dict(),
        }


@dataclass(frozen=True)
class Advice:
    """The lengths of texts, what they take to be identifiable, and what to run.

    Args:
        source: Of the texts.
        split: Of the source, where it has several.
        tokenizer: `word` or `bpe`; `None` for a model's own.
        model: The model whose tokenizer counted.
        coverage: The share of the texts that is to be identifiable.
        shortest, mean, longest: Tokens of the texts, special ones included and nothing cut off.
        quantiles: Share of the texts -> the least number of tokens that so many of them do not exceed.
        max_length: Tokens at which the model truncates. All that is said of shares takes a longer text for what
            is left of it.
        truncated: The texts longer than that.
        repeats: The texts in which a token occurs again.
        needed: The smallest value size that covers the share that was asked for.
        hidden_size: The width of the layers that it takes in a model trained anew.
        sizes: Other value sizes, in ascending order; `needed` and the model's own are among them.
        heads: The sizes of the model's heads, where they are known.
        recommended: What to run.
        alternative: Another possibility.
        shares: Answers for any other size.
    """

    source: str
    split: str | None
    tokenizer: Literal["word", "bpe"] | None
    model: str | None
    coverage: float
    shortest: int
    mean: float
    longest: int
    quantiles: dict[float, int]
    max_length: int
    truncated: Share
    repeats: Share
    needed: AtSize
    hidden_size: int
    sizes: tuple[AtSize, ...]
    heads: HeadSizes | None
    recommended: Recommendation
    alternative: Recommendation | None
    shares: Shares = field(repr=False, compare=False)

    def to_dict(self) -> dict[str, Any]:
        """As a dictionary of JSON's types: the contract of `identiformer advise --json`.

            {"source", "split": SPLIT | null, "tokenizer": "word" | "bpe" | null, "model": MODEL | null, "coverage",
             "texts": N, "lengths": {"shortest", "mean", "longest", "quantiles": {"0.5": tokens, ...}},
             "max_length", "truncated": S, "repeats": S,
             "needed": {"identifiable_length", "value_size", "hidden_size"},
             "sizes": [{"value_size", "identifiable_length", "texts", "share", "without_positions": S}, ...],
             "heads": {"key_size", "value_size", "hidden_size", "values_carry_keys", L} | null,
             "recommended": R, "alternative": R | null}

        where `S` is `{"texts", "share"}`, `R` is `{"command", "settings", L, "reasons": [sentence, ...]}`, and `L` is
        `"simplex": {"identifiable_length", "texts", "share"}, "generatable": {"verdict", "texts", "share"}`; the
        verdict is that of texts longer than the identifiable length, `global`, `local` or `none`. `heads` is null,
        and `L` not in `R`, where a model's configuration does not say how large its heads are.
        """
        heads = self.heads and {
            "key_size": self.heads.key_size,
            "value_size": self.heads.value_size,
            "hidden_size": self.heads.hidden_size,
            "values_carry_keys": self.heads.carries_keys,
            **levels(self.heads, self.shares),
        }
        return {
            "source": self.source,
            "split": self.split,
            "tokenizer": self.tokenizer,
            "model": self.model,
            "coverage": self.coverage,
            "texts": self.shares.total,
            "lengths": {
                "shortest": self.shortest,
                "mean": self.mean,
                "longest": self.longest,
                "quantiles": {str(share): tokens for share, tokens in self.quantiles.items()},
            },
            "max_length": self.max_length,
            "truncated": self.truncated.to_dict(),
            "repeats": self.repeats.to_dict(),
            "needed": {
                "identifiable_length": self.needed.identifiable_length,
                "value_size": self.needed.value_size,
                "hidden_size": self.hidden_size,
            },
            "sizes": [size.to_dict() for size in self.sizes],
            "heads": heads,
            "recommended": self.recommended.to_dict(self.shares),
            "alternative": self.alternative and self.alternative.to_dict(self.shares),
        }
