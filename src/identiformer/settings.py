"""What can be set of a training run."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from identiformer.errors import InputError


@dataclass(frozen=True)
class TrainingSettings:
    """Settings of a training run; `model` holds those of `IdentiformerConfig` that differ from its defaults.

    Args:
        seed: Of the splits, the initial weights, the order of the texts and dropout.
        valid_fraction: Share of the texts split off for validation where the source has no such split.
        test_fraction: The same for the test set.
        text_column, label_column, text_pair_column: Columns of the source.
        on_bad_row: `error`, or `skip` to leave out rows that cannot be used and count them.
        tokenizer: `word` or `bpe`.
        vocab_size: The most tokens that the tokenizer knows.
        min_frequency: How often a token must occur in the training texts to be known. With 1, training would see no
            unknown token, and the model would not know what to make of one.
        max_length: Tokens at which texts are truncated; `auto` covers 99.5 % of the training texts.
        identifiable_length: Texts of up to so many tokens are to be identifiable; sets the value size.
        coverage: This share of the training texts is to be identifiable; sets the value size.
        epochs: The most passes over the training texts.
        patience: Epochs without a better validation accuracy after which training stops.
        batch_size: Texts a step.
        learning_rate: The highest learning rate; it rises over the first tenth of the steps, then falls to 0.
        weight_decay: Of AdamW (arXiv 1711.05101), on matrices only.
        label_smoothing: Share of the target that is spread over all labels (arXiv 1512.00567, section 7).
        class_weights: `none`, or `balanced`: a label counts in inverse proportion to its frequency.
        model: Settings of `IdentiformerConfig`.
    """

    seed: int = 0
    valid_fraction: float = 0.1
    test_fraction: float = 0.1
    text_column: str | None = None
    label_column: str | None = None
    text_pair_column: str | None = None
    on_bad_row: Literal["error", "skip"] = "error"
    tokenizer: Literal["word", "bpe"] = "word"
    vocab_size: int = 30000
    min_frequency: int = 2
    max_length: int | Literal["auto"] = "auto"
    identifiable_length: int | None = None
    coverage: float | None = None
    epochs: int = 15
    patience: int = 4
    batch_size: int = 32
    learning_rate: float = 1e-3
    weight_decay: float = 0.01
    label_smoothing: float = 0.0
    class_weights: Literal["none", "balanced"] = "none"
    model: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("epochs", "patience", "batch_size", "vocab_size", "min_frequency"):
            if getattr(self, name) < 1:
                raise InputError(f"--{_option(name)} is {getattr(self, name)}: give at least 1")
        for name in ("learning_rate",):
            if not getattr(self, name) > 0:
                raise InputError(f"--{_option(name)} is {getattr(self, name)}: give a number above 0")
        for name in ("weight_decay",):
            if not getattr(self, name) >= 0:
                raise InputError(f"--{_option(name)} is {getattr(self, name)}: give 0 or more")
        if not 0 <= self.label_smoothing < 1:
            raise InputError(f"--label-smoothing is {self.label_smoothing}: give at least 0 and below 1")
        if self.identifiable_length is not None and self.coverage is not None:
            raise InputError("--identifiable-length and --coverage both choose the value size: give only one")
        if not 0 <= self.seed < 2**32:
            raise InputError(f"--seed is {self.seed}: give a whole number from 0 to 4294967295")

    def to_dict(self) -> dict[str, Any]:
        """As a dictionary of JSON's types."""
        return asdict(self)


def _option(name: str) -> str:
    return name.replace("_", "-")
