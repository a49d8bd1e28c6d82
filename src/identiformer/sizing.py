"""Where texts are truncated, and the value size that makes a wanted share of them identifiable."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from identiformer.errors import InputError
from identiformer.tokenization import covering_length

AUTO_COVERAGE = 0.995  # the share of training texts that `max_length="auto"` leaves whole


@dataclass(frozen=True)
class Sizing:
    """Settings for `IdentiformerConfig` that make texts identifiable, and a sentence that says why."""

    settings: dict[str, Any]
    reason: str


def max_length_for(
    lengths: np.ndarray, max_length: int | Literal["auto"], paired: bool, special: int | None = None
) -> int:
    """The number of tokens at which training truncates texts.

    Args:
        lengths: Tokens of each training text, special ones included.
        max_length: What the user chose.
        paired: Whether the texts are pairs.
        special: How many special tokens the tokenizer adds; by default as many as one that is learned:
            `<cls> A <sep> B`, or `<cls> A`.

    Raises:
        InputError: If that leaves no room for any word.
    """
    shortest = (1 + paired if special is None else special) + 1 + paired  # a word of each text
    if max_length == "auto":
        return max(covering_length(lengths, AUTO_COVERAGE), shortest)
    if max_length < shortest:
        raise InputError(f"--max-length is {max_length}: give at least {shortest} (special tokens count)")
    return max_length


def check_coverage(coverage: float) -> None:
    """Raise an `InputError` if `coverage` is no share of texts to cover: above 0 and at most 1."""
    if not 0 < coverage <= 1:
        raise InputError(f"--coverage is {coverage}: give a share of the texts, above 0 and at most 1")


def identifiable_length_for(lengths: np.ndarray, max_length: int, coverage: float) -> int:
    """The number of tokens that covers a share of texts.

    Args:
        lengths: Tokens of each text, special ones included, before truncation.
        max_length: Where texts are truncated.
        coverage: The share of texts to cover, above 0 and at most 1.
    """
    check_coverage(coverage)
    return covering_length(np.minimum(lengths, max_length), coverage)


def size_for(identifiable_length: int, settings: dict[str, Any]) -> Sizing:
    """The smallest sizes with which texts of up to `identifiable_length` tokens are identifiable on the simplex.

    A head can be identifiable on the simplex up to `min(d_v, d_e) + 1` tokens (arXiv 2106.01269, section 4;
    IDENTIFIABILITY.md, "The encoder layer"), so that `value_size = identifiable_length - 1`, and `hidden_size` no
    smaller. In the last of several layers it is one larger: what comes out of a layer normalisation lies on a
    hyperplane of `d_e - 1` dimensions, and so do values made of it (see `advice.head_sizes.HeadSizes`). A hidden size
    that the user did not choose is raised where it must be.

    Args:
        identifiable_length: Tokens, special ones included.
        settings: What the user chose of `IdentiformerConfig`.

    Raises:
        InputError: If the length is not positive, or a chosen size contradicts it.
    """
    from identiformer.model import IdentiformerConfig

    if identifiable_length < 1:
        raise InputError(
            f"--identifiable-length is {identifiable_length}: give a number of tokens, at least 1"
        )
    if settings.get("value_size") is not None:
        raise InputError(
            "--value-size follows from --identifiable-length or --coverage: give only one of them"
        )
    value_size = max(identifiable_length - 1, 1)
    key_size = settings.get("key_size", IdentiformerConfig.key_size)
    normalised = settings.get("num_hidden_layers", IdentiformerConfig.num_hidden_layers) > 1
    needed = max(value_size, identifiable_length - 1 + normalised)
    if settings.get("values_carry_keys"):
        needed = max(needed, value_size + key_size)
    hidden_size = settings.get("hidden_size", IdentiformerConfig.hidden_size)
    reason = f"value_size {value_size}: texts of up to {identifiable_length} tokens are identifiable on the simplex"
    if hidden_size >= needed:
        return Sizing({"value_size": value_size}, reason)
    if "hidden_size" in settings:
        raise InputError(
            f"--hidden-size is {hidden_size}, but {identifiable_length} identifiable tokens need at least {needed}: "
            "raise it, leave it out, or ask for fewer tokens"
        )
    raised = -(-needed // 8) * 8
    return Sizing(
        {"value_size": value_size, "hidden_size": raised}, f"{reason} (hidden_size raised to {raised} for it)"
    )
