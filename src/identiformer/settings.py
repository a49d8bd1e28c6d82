"""What can be set of a training run."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from identiformer.errors import InputError

# What is not given becomes the first of these, or the second where a pretrained model is fine-tuned: its weights
# are nearly right, and steps as large as those from scratch would undo them.
DEFAULTS: dict[str, tuple[Any, Any]] = {
    "epochs": (15, 4),
    "patience": (4, 2),
    "learning_rate": (1e-3, 5e-5),
}
_NOT_GIVEN: Any = None
# Settings of the tokenizer that is learned, which a pretrained model has already.
OF_THE_TOKENIZER: dict[str, Any] = {"tokenizer": "word", "vocab_size": 30000, "min_frequency": 2}


@dataclass(frozen=True)
class TrainingSettings:
    """Settings of a training run; `model` holds those of `IdentiformerConfig` that differ from its defaults.

    Where defaults depend on `from_model` (see `DEFAULTS`), `None` stands for them.

    Args:
        from_model: A model folder or a hub name: a pretrained model to fine-tune, with its tokenizer. The model is
            trained from scratch where it is `None`.
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
        report_texts: How many test texts the report shows word by word, as far as they fit in it.
        report_rows: For how many rows of heads that are not unique the report has bounds and alternatives.
        model: Settings of `IdentiformerConfig`.
    """

    from_model: str | None = None
    seed: int = 0
    valid_fraction: float = 0.1
    test_fraction: float = 0.1
    text_column: str | None = None
    label_column: str | None = None
    text_pair_column: str | None = None
    on_bad_row: Literal["error", "skip"] = "error"
    tokenizer: Literal["word", "bpe"] = OF_THE_TOKENIZER["tokenizer"]
    vocab_size: int = OF_THE_TOKENIZER["vocab_size"]
    min_frequency: int = OF_THE_TOKENIZER["min_frequency"]
    max_length: int | Literal["auto"] = "auto"
    identifiable_length: int | None = None
    coverage: float | None = None
    epochs: int = _NOT_GIVEN
    patience: int = _NOT_GIVEN
    batch_size: int = 32
    learning_rate: float = _NOT_GIVEN
    weight_decay: float = 0.01
    label_smoothing: float = 0.0
    class_weights: Literal["none", "balanced"] = "none"
    report_texts: int = 200
    report_rows: int = 48
    model: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, values in DEFAULTS.items():
            if getattr(self, name) is _NOT_GIVEN:
                object.__setattr__(self, name, values[self.from_model is not None])
        for name in ("epochs", "patience", "batch_size", "vocab_size", "min_frequency"):
            if getattr(self, name) < 1:
                raise InputError(f"--{_option(name)} is {getattr(self, name)}: give at least 1")
        for name in ("learning_rate",):
            if not getattr(self, name) > 0:
                raise InputError(f"--{_option(name)} is {getattr(self, name)}: give a number above 0")
        for name in ("weight_decay", "report_texts", "report_rows"):
            if not getattr(self, name) >= 0:
                raise InputError(f"--{_option(name)} is {getattr(self, name)}: give 0 or more")
        if not 0 <= self.label_smoothing < 1:
            raise InputError(f"--label-smoothing is {self.label_smoothing}: give at least 0 and below 1")
        if self.identifiable_length is not None and self.coverage is not None:
            raise InputError("--identifiable-length and --coverage both choose the value size: give only one")
        if not 0 <= self.seed < 2**32:
            raise InputError(f"--seed is {self.seed}: give a whole number from 0 to 4294967295")
        if self.from_model is not None:
            self._check_fine_tuning()

    def _check_fine_tuning(self) -> None:
        """Refuse settings that a pretrained model leaves no choice in."""
        brought = [name for name in OF_THE_TOKENIZER if getattr(self, name) != OF_THE_TOKENIZER[name]]
        sized = [name for name in ("identifiable_length", "coverage") if getattr(self, name) is not None]
        for names, what in ((brought, "its tokenizer"), ([*sized, *self.model], "its own settings")):
            if names:
                # Dropouts are called --hidden-dropout and the like.
                options = ", ".join(f"--{_option(re.sub('_probs?(?=_|$)', '', name))}" for name in names)
                raise InputError(f"--from brings a model with {what}: leave out {options}")

    def to_dict(self) -> dict[str, Any]:
        """As a dictionary of JSON's types."""
        return asdict(self)


def _option(name: str) -> str:
    return name.replace("_", "-")
