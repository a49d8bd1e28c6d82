"""What makes given texts identifiable, told from their lengths alone, before anything is trained.

A head with keys of `d_k` columns and values of `d_v`, in a layer of width `d_e`, sees a text of `n` tokens, special
ones included. For almost every input (IDENTIFIABILITY.md, "One head, one query row", "The encoder layer") its weights
are the only ones that give its output

    on the simplex:  if n <= min(d_v, d_e) + 1 and no two tokens are tied. Without position embedding, a token that
                     occurs again is tied: only the total weight of its copies is fixed, whatever d_v is;
    generatable:     nearby if d_k <= min(d_v, d_e), and outright if the values carry the keys, both at any n.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Literal, cast

from identiformer.advice.head_sizes import head_sizes
from identiformer.advice.lengths import TextLengths, measure, texts_of
from identiformer.advice.recommendation import recommend_for_model, recommend_training, sizes_with
from identiformer.advice.result import Advice, AtSize
from identiformer.advice.shares import Share, Shares
from identiformer.errors import InputError
from identiformer.loading import load_tokenizer
from identiformer.reading import AS_FOUND, ChosenColumns, Say, load_split, takes_pairs
from identiformer.settings import TrainingSettings
from identiformer.sizing import check_coverage, identifiable_length_for, max_length_for, size_for
from identiformer.tokenization import build_tokenizer, covering_length

if TYPE_CHECKING:
    from datasets import Dataset
    from transformers import PreTrainedConfig, PreTrainedTokenizerBase

SIZES = (16, 32, 64, 128, 256, 512, 1024)  # the larger ones only for texts that need them
QUANTILES = (0.5, 0.75, 0.9, 0.95, 0.99, 0.995)

Progress = Callable[[int, int], None]  # texts done since the last call, texts in all


def advise(
    source: str,
    *,
    coverage: float = 0.99,
    model: str | None = None,
    tokenizer: Literal["word", "bpe"] | None = None,
    vocab_size: int | None = None,
    min_frequency: int | None = None,
    max_length: int | Literal["auto"] = "auto",
    split: str | None = None,
    columns: ChosenColumns = AS_FOUND,
    on_bad_row: Literal["error", "skip"] = "error",
    say: Say = lambda _: None,
    progress: Progress = lambda _done, _total: None,
) -> Advice:
    """Tell what texts take to be identifiable, in memory for their lengths alone.

    The tokenizer is a model's, or learned as `train` learns one: from the training texts of the source, or from all
    where it has no splits (`train` would set some aside). Words that it does not know are tokens as well, so that
    lengths in words do not depend on what it learned.

    Args:
        source: Texts, as `load_source` takes them; labels are not looked at.
        coverage: The share of the texts that is to be identifiable.
        model: A model folder or a hub name, to count with its tokenizer and to advise on this model.
        tokenizer: `word` (also where neither this nor a model is given) or `bpe`, learned from the source.
        vocab_size, min_frequency: Of a tokenizer that is learned; those of `TrainingSettings` where they are `None`.
        max_length: Tokens at which texts are truncated; `auto` is what `train` would choose, or the model's limit.
        split: Which split of a folder or a hub data set to measure; `train` where it is `None`.
        columns: Of the source.
        on_bad_row: `error`, or `skip` to leave out rows that cannot be used and count them.
        say: Called with a sentence on every choice made and everything left out.
        progress: Called as texts are measured.

    Raises:
        InputError: For texts, a model or a number that cannot be used.
    """
    check_coverage(coverage)
    learned = {"tokenizer": tokenizer, "vocab_size": vocab_size, "min_frequency": min_frequency}
    given: dict[str, Any] = {name: value for name, value in learned.items() if value is not None}
    if model is not None and given:
        option = next(iter(given)).replace("_", "-")
        raise InputError(f"--model brings its own tokenizer: leave out --{option}, or --model")
    settings = TrainingSettings(
        text_column=columns.text,
        text_pair_column=columns.text_pair,
        on_bad_row=on_bad_row,
        max_length=max_length,
        **given,
    )
    if split is None and (source.startswith("hf:") or os.path.isdir(os.path.expanduser(source))):
        split = "train"
        say(f"of {source}, the train split is used (--split chooses another)")
    if model is None:
        counted = _count_as_trained(source, settings, split, say, progress)
    else:
        counted = _count_with_model(model, source, settings, split, say, progress)
    lengths, limit = counted.lengths, counted.max_length
    shares = Shares(lengths, limit)
    needed = identifiable_length_for(lengths.tokens, limit, coverage)
    heads = counted.config and head_sizes(counted.config)
    if model is None:
        recommended, alternative = recommend_training(source, settings, needed, shares)
    else:
        assert counted.config is not None
        recommended, alternative = recommend_for_model(
            model, counted.config, source, split, settings, needed, shares
        )
    sizing = size_for(needed, {})
    value_size = sizing.settings["value_size"]
    longest = int(lengths.tokens.max())
    enough = next((size for size in SIZES if size + 1 >= min(longest, limit)), SIZES[-1])
    sizes = {size for size in SIZES if size <= max(enough, sizes_with({}).value_size)} | {value_size}
    if heads is not None:
        sizes |= {heads.value_rank}
    return Advice(
        source=source,
        split=split,
        tokenizer=settings.tokenizer if model is None else None,
        model=model,
        coverage=coverage,
        shortest=int(lengths.tokens.min()),
        mean=float(lengths.tokens.mean()),
        longest=longest,
        quantiles={share: covering_length(lengths.tokens, share) for share in QUANTILES},
        max_length=limit,
        truncated=Share(int((lengths.tokens > limit).sum()), len(lengths)),
        repeats=Share(int(lengths.repeats.sum()), len(lengths)),
        needed=_at_size(value_size, shares),
        hidden_size=sizes_with(sizing.settings).hidden_size,
        sizes=tuple(_at_size(size, shares) for size in sorted(sizes)),
        heads=heads,
        recommended=recommended,
        alternative=alternative,
        shares=shares,
    )


@dataclass(frozen=True)
class _Counted:
    """The lengths of texts, where they are truncated, and the configuration of the model that is to read them."""

    lengths: TextLengths
    max_length: int
    config: PreTrainedConfig | None


def _count_as_trained(
    source: str, settings: TrainingSettings, split: str | None, say: Say, progress: Progress
) -> _Counted:
    """Count with a tokenizer that is learned from the texts to train on."""
    rows, paired = _load(source, settings, split, None, say)
    training = rows
    if split not in (None, "train"):
        say(f"the tokenizer is learned from the train split of {source}")
        training, _ = _load(source, settings, "train", None, lambda _: None)
    tokenizer = build_tokenizer(
        texts_of(training, paired),
        kind=settings.tokenizer,
        vocab_size=settings.vocab_size,
        min_frequency=settings.min_frequency,
    )
    total = len(rows) + (0 if training is rows else len(training))
    lengths = measure(tokenizer, rows, paired, lambda done: progress(done, total))
    in_training = (
        lengths
        if training is rows
        else measure(tokenizer, training, paired, lambda done: progress(done, total))
    )
    return _Counted(lengths, max_length_for(in_training.tokens, settings.max_length, paired), None)


def _count_with_model(
    model: str, source: str, settings: TrainingSettings, split: str | None, say: Say, progress: Progress
) -> _Counted:
    """Count with a model's tokenizer."""
    tokenizer, config = load_tokenizer(model)
    rows, paired = _load(source, settings, split, config, say)
    lengths = measure(tokenizer, rows, paired, lambda done: progress(done, len(rows)))
    limit = _limit(tokenizer, config) or int(lengths.tokens.max())
    if settings.max_length != "auto":
        limit = min(limit, max_length_for(lengths.tokens, settings.max_length, paired))
    return _Counted(lengths, limit, config)


def _limit(tokenizer: PreTrainedTokenizerBase, config: PreTrainedConfig) -> int | None:
    """The most tokens that a model takes; `None` where nothing says."""
    positions = getattr(config, "max_position_embeddings", None)
    limits = [tokenizer.model_max_length, positions if isinstance(positions, int) else 0]
    return min(
        (limit for limit in limits if 0 < limit < 10**9), default=None
    )  # transformers has 10**30 for none


def _load(
    source: str, settings: TrainingSettings, split: str | None, config: PreTrainedConfig | None, say: Say
) -> tuple[Dataset, bool]:
    """The texts, and whether they are pairs."""
    columns = ChosenColumns(settings.text_column, None, settings.text_pair_column)
    data, rows = load_split(source, columns, "ignore", settings.on_bad_row, split, say)
    # Of a model, its configuration is all that decides this.
    paired = takes_pairs(data, rows, cast(Any, SimpleNamespace(config=config)), columns)
    for note in data.notes:
        say(note)
    return rows, paired


def _at_size(value_size: int, shares: Shares) -> AtSize:
    length = value_size + 1
    return AtSize(value_size, length, shares.within(length), shares.untied_within(length))
