"""What to run so that a wanted share of texts is identifiable."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from identiformer.advice.head_sizes import HeadSizes, head_sizes
from identiformer.advice.shares import Shares
from identiformer.errors import InputError
from identiformer.settings import TrainingSettings
from identiformer.sizing import size_for

if TYPE_CHECKING:
    from transformers import PreTrainedConfig

# Four times the width of the default model's layer: beyond it, the simplex is not worth its price.
LARGEST_SIZE = 512
# What `train` is told of the source, and how texts become tokens; the first three, `audit` as well.
SHARED_OPTIONS = ("text_column", "text_pair_column", "on_bad_row")
TRAIN_OPTIONS = (*SHARED_OPTIONS, "tokenizer", "vocab_size", "min_frequency", "max_length")
CARRIED = (
    "those of every text, of any length, are the only ones that a head can generate with any query and that give its "
    "output (level generatable)"
)


@dataclass(frozen=True)
class Recommendation:
    """A command, and what it brings.

    Args:
        command: To be given to a shell.
        settings: Those of `IdentiformerConfig` that differ from its defaults.
        sizes: Of the heads that come of it; `None` where they are not known.
        reasons: Sentences.
    """

    command: str
    settings: dict[str, Any]
    sizes: HeadSizes | None
    reasons: tuple[str, ...]

    def to_dict(self, shares: Shares) -> dict[str, Any]:
        """As a dictionary of JSON's types."""
        return {
            "command": self.command,
            "settings": self.settings,
            **({} if self.sizes is None else levels(self.sizes, shares)),
            "reasons": list(self.reasons),
        }


def levels(sizes: HeadSizes, shares: Shares) -> dict[str, Any]:
    """What is identifiable with such heads, as a dictionary of JSON's types."""
    return {
        "simplex": {"identifiable_length": sizes.identifiable_length, **shares.simplex(sizes).to_dict()},
        "generatable": {"verdict": sizes.generatable, **shares.generatable(sizes).to_dict()},
    }


def recommend_training(
    source: str, settings: TrainingSettings, needed: int, shares: Shares
) -> tuple[Recommendation, Recommendation | None]:
    """How to train a model on the source.

    Args:
        source: As the user named it.
        settings: What the user chose.
        needed: Tokens of the texts that are to be identifiable.
        shares: Of the texts.

    Returns:
        The recommendation, and another possibility.
    """
    default = sizes_with({})
    if needed <= default.identifiable_length:
        reason = (
            f"The default model (value_size {default.value_size}) is enough: on the simplex, texts of up to "
            f"{default.identifiable_length:,} tokens are identifiable, {shares.simplex(default)} of yours."
        )
        plain = Recommendation(_train(source, settings), {}, default, (reason,))
        return plain, _smallest(source, settings, needed, default)
    carried = _carrying(source, settings, default, shares)
    sizing = size_for(needed, {})
    sizes = sizes_with(sizing.settings)
    reason = (
        f"The default model (value_size {default.value_size}) is not enough: on the simplex, texts of up to "
        f"{default.identifiable_length:,} tokens are identifiable, {shares.simplex(default)} of yours."
    )
    if sizes.value_size > LARGEST_SIZE:
        too_large = (
            f"Enough would be value_size {sizes.value_size:,}, with hidden_size {sizes.hidden_size:,}: too large to be "
            "sensible."
        )
        return replace(carried, reasons=(reason, too_large, *carried.reasons)), None
    enough = (
        f"Enough is value_size {sizes.value_size}, with hidden_size {sizes.hidden_size}: texts of up to {needed:,} "
        f"tokens, {shares.simplex(sizes)} of yours."
    )
    command = _train(source, settings, "--identifiable-length", needed)
    return Recommendation(command, sizing.settings, sizes, (reason, enough)), carried


def recommend_for_model(
    model: str,
    config: PreTrainedConfig,
    source: str,
    split: str | None,
    settings: TrainingSettings,
    needed: int,
    shares: Shares,
) -> tuple[Recommendation, Recommendation | None]:
    """What to do with a trained model.

    Args:
        model: Its folder or name.
        config: Its configuration.
        source: As the user named it.
        split: Of the source, where it has several.
        settings: What the user chose.
        needed: Tokens of the texts that are to be identifiable.
        shares: Of the texts.

    Returns:
        The recommendation, and another possibility.
    """
    from identiformer.retrofitting.families import family_of

    sizes = head_sizes(config)
    chosen = _options(settings, SHARED_OPTIONS) + ([] if split is None else ["--split", split])
    audit = shlex.join(["identiformer", "audit", model, source, "--output", "audit", *chosen])
    if sizes is None:
        reason = "The configuration of the model does not say how large its heads are; an audit finds out."
        return Recommendation(audit, {}, None, (reason,)), None
    enough = shares.simplex(sizes).texts >= shares.within(needed).texts
    untied = "" if sizes.knows_positions else " that hold no token twice (the model does not know positions)"
    reason = (
        f"The model (value size {sizes.value_rank}) is {'' if enough else 'not '}enough: on the simplex, texts of up "
        f"to {sizes.identifiable_length:,} tokens{untied} are identifiable, {shares.simplex(sizes)} of yours."
    )
    if enough:
        return Recommendation(audit, {}, sizes, (reason, "An audit certifies each text.")), None
    if sizes.carries_keys:
        carried = f"But its values carry its keys: {CARRIED}. An audit certifies each text."
        return Recommendation(audit, {}, sizes, (reason, carried)), None
    if config.model_type == "identiformer":
        anew, other = recommend_training(source, settings, needed, shares)
        return replace(anew, reasons=(reason, "Train another one.", *anew.reasons)), other
    fixed = "The value size of a trained model is fixed"
    try:
        family_of(config)
    except InputError as error:
        reasons = (reason, f"{fixed}, and {error}.", "An audit finds the texts that are identifiable.")
        return Recommendation(audit, {}, sizes, reasons), None
    carried = (
        f"{fixed}. A retrofit lets its values carry its keys and hardly changes its outputs; then {CARRIED}."
    )
    texts = ["--texts", source, *_options(settings, ("text_column", "on_bad_row"))]
    retrofit = shlex.join(["identiformer", "retrofit", model, "retrofitted", *texts])
    return Recommendation(retrofit, {}, replace(sizes, carries_keys=True), (reason, carried)), None


def sizes_with(settings: dict[str, Any]) -> HeadSizes:
    """The sizes of the heads of our model with some settings."""
    from identiformer.model import IdentiformerConfig

    sizes = head_sizes(IdentiformerConfig(**settings))
    assert sizes is not None
    return sizes


def _carrying(source: str, settings: TrainingSettings, default: HeadSizes, shares: Shares) -> Recommendation:
    """The default model with values that carry the keys, which take the place of some values."""
    value_size = default.hidden_size - default.key_size
    chosen = {"values_carry_keys": True, "value_size": value_size}
    sizes = sizes_with(chosen)
    reason = (
        f"With --values-carry-keys a model as small as the default one (hidden_size {sizes.hidden_size}) makes the "
        f"weights unique in another sense: {CARRIED}. On the simplex it is as good as the default model."
    )
    command = _train(source, settings, "--values-carry-keys", "--value-size", value_size)
    return Recommendation(command, chosen, sizes, (reason,))


def _smallest(
    source: str, settings: TrainingSettings, needed: int, default: HeadSizes
) -> Recommendation | None:
    """The smallest values that do, where they are smaller than those of the default model."""
    chosen = dict(size_for(needed, {}).settings)
    if chosen["value_size"] >= default.value_size:
        return None
    options: list[str | int] = ["--identifiable-length", needed]
    if chosen["value_size"] < default.key_size:
        # No larger than the values, or longer texts are not identifiable at generatable either.
        chosen["key_size"] = chosen["value_size"]
        options += ["--key-size", chosen["key_size"]]
    reason = (
        f"The smallest value_size that is enough, {chosen['value_size']}: texts of up to {needed:,} tokens, the "
        "longest of them with small margins."
    )
    return Recommendation(_train(source, settings, *options), chosen, sizes_with(chosen), (reason,))


def _train(source: str, settings: TrainingSettings, *options: str | int) -> str:
    chosen = [*_options(settings, TRAIN_OPTIONS), *map(str, options)]
    return shlex.join(["identiformer", "train", source, "--output", "model", *chosen])


def _options(settings: TrainingSettings, names: tuple[str, ...]) -> list[str]:
    """On the command line, what of the settings is not the default."""
    default = TrainingSettings()
    chosen = {name: getattr(settings, name) for name in names}
    return [
        part
        for name, value in chosen.items()
        if value != getattr(default, name)
        for part in (f"--{name.replace('_', '-')}", str(value))
    ]
