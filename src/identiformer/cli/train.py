"""`identiformer train`."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Literal

import typer

from identiformer.cli.options import (
    BadRow,
    LabelColumn,
    OnBadRow,
    Overwrite,
    Resume,
    Source,
    TextColumn,
    TextPairColumn,
    existing_model,
    quiet_libraries,
    say,
)
from identiformer.errors import InputError
from identiformer.settings import DEFAULTS as BY_ORIGIN
from identiformer.settings import TrainingSettings

# Defaults stand in TrainingSettings and IdentiformerConfig alone: an option that is not given is not passed on.
DEFAULTS = TrainingSettings()


def _default(name: str) -> str:
    scratch, pretrained = BY_ORIGIN[name]
    return f"[default: {scratch}; with --from: {pretrained}]"


class Tokenizer(StrEnum):
    """How texts become tokens."""

    WORD = "word"
    BPE = "bpe"


class HeadMerge(StrEnum):
    """How the heads of a layer are put together."""

    ADD = "add"
    CONCAT = "concat"


class PositionEmbedding(StrEnum):
    """Whether the model knows positions."""

    LEARNED = "learned"
    NONE = "none"


class ClassWeights(StrEnum):
    """Whether labels count by their frequency."""

    NONE = "none"
    BALANCED = "balanced"


def train(
    source: Source,
    output: Annotated[Path, typer.Option("--output", "-o", help="The model folder to make.")],
    from_model: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="MODEL",
            help="Fine-tune this pretrained model, a folder or a hub name, retrofitted or not.",
            callback=existing_model,
        ),
    ] = None,
    text_column: TextColumn = None,
    label_column: LabelColumn = None,
    text_pair_column: TextPairColumn = None,
    on_bad_row: BadRow = OnBadRow.ERROR,
    overwrite: Overwrite = False,
    resume: Resume = False,
    seed: Annotated[int, typer.Option(help="Of splits, initial weights, order and dropout.")] = DEFAULTS.seed,
    valid_fraction: Annotated[
        float, typer.Option(help="Share split off for validation, where the source has no such split.")
    ] = DEFAULTS.valid_fraction,
    test_fraction: Annotated[
        float, typer.Option(help="Share split off for testing, where the source has no such split.")
    ] = DEFAULTS.test_fraction,
    tokenizer: Annotated[Tokenizer, typer.Option(help="Words, or byte pairs.")] = Tokenizer.WORD,
    vocab_size: Annotated[int, typer.Option(help="The most tokens to know.")] = DEFAULTS.vocab_size,
    min_frequency: Annotated[
        int, typer.Option(help="How often a token must occur to be known.")
    ] = DEFAULTS.min_frequency,
    max_length: Annotated[
        str, typer.Option(help="Tokens at which texts are truncated; auto: 99.5 % of the training texts fit.")
    ] = str(DEFAULTS.max_length),
    identifiable_length: Annotated[
        int | None, typer.Option(help="Choose the value size: texts up to so many tokens are identifiable.")
    ] = None,
    coverage: Annotated[
        float | None,
        typer.Option(
            help="Choose the value size: this share of the training texts is identifiable (0.99, say)."
        ),
    ] = None,
    epochs: Annotated[
        int | None, typer.Option(help=f"The most passes over the training texts. {_default('epochs')}")
    ] = None,
    patience: Annotated[
        int | None,
        typer.Option(
            help=f"Stop after so many epochs without a better validation accuracy. {_default('patience')}"
        ),
    ] = None,
    batch_size: Annotated[int, typer.Option(help="Texts a step.")] = DEFAULTS.batch_size,
    learning_rate: Annotated[
        float | None, typer.Option(help=f"The highest learning rate. {_default('learning_rate')}")
    ] = None,
    weight_decay: Annotated[float, typer.Option(help="Weight decay of AdamW.")] = DEFAULTS.weight_decay,
    label_smoothing: Annotated[
        float, typer.Option(help="Share of the target spread over all labels.")
    ] = DEFAULTS.label_smoothing,
    class_weights: Annotated[
        ClassWeights, typer.Option(help="balanced: rare labels count more.")
    ] = ClassWeights.NONE,
    report_texts: Annotated[
        int, typer.Option(help="How many test texts report.html shows word by word.")
    ] = DEFAULTS.report_texts,
    report_rows: Annotated[
        int,
        typer.Option(help="For how many rows of heads that are not unique it has bounds and alternatives."),
    ] = DEFAULTS.report_rows,
    hidden_size: Annotated[int | None, typer.Option(help="Width of a token between layers.")] = None,
    num_hidden_layers: Annotated[int | None, typer.Option(help="Encoder layers.")] = None,
    num_attention_heads: Annotated[int | None, typer.Option(help="Attention heads a layer.")] = None,
    key_size: Annotated[int | None, typer.Option(help="Columns of a head's keys.")] = None,
    value_size: Annotated[int | None, typer.Option(help="Columns of a head's values.")] = None,
    head_merge: Annotated[HeadMerge | None, typer.Option(help="Add the heads, or concatenate them.")] = None,
    values_carry_keys: Annotated[
        bool, typer.Option("--values-carry-keys", help="Append keys to values: identifiable at any length.")
    ] = False,
    position_embedding: Annotated[
        PositionEmbedding | None, typer.Option(help="Learned positions, or none (repeated words then tie).")
    ] = None,
    intermediate_size: Annotated[int | None, typer.Option(help="Width of the feed-forward part.")] = None,
    embedding_dropout: Annotated[float | None, typer.Option(help="Dropout on the embeddings.")] = None,
    token_dropout: Annotated[float | None, typer.Option(help="Share of words that training hides.")] = None,
    hidden_dropout: Annotated[float | None, typer.Option(help="Dropout after each part of a layer.")] = None,
    attention_dropout: Annotated[float | None, typer.Option(help="Dropout on the attention weights.")] = None,
) -> None:
    """Train a classifier on SOURCE, from scratch or from a pretrained model, and write it to a model folder."""
    chosen = {
        "hidden_size": hidden_size,
        "num_hidden_layers": num_hidden_layers,
        "num_attention_heads": num_attention_heads,
        "key_size": key_size,
        "value_size": value_size,
        "head_merge": head_merge.value if head_merge else None,
        "values_carry_keys": values_carry_keys or None,
        "position_embedding": position_embedding.value if position_embedding else None,
        "intermediate_size": intermediate_size,
        "embedding_dropout_prob": embedding_dropout,
        "token_dropout_prob": token_dropout,
        "hidden_dropout_prob": hidden_dropout,
        "attention_probs_dropout_prob": attention_dropout,
    }
    by_origin = {"epochs": epochs, "patience": patience, "learning_rate": learning_rate}
    settings = TrainingSettings(
        **{name: value for name, value in by_origin.items() if value is not None},
        from_model=from_model,
        seed=seed,
        valid_fraction=valid_fraction,
        test_fraction=test_fraction,
        text_column=text_column,
        label_column=label_column,
        text_pair_column=text_pair_column,
        on_bad_row=on_bad_row.value,
        tokenizer=tokenizer.value,
        vocab_size=vocab_size,
        min_frequency=min_frequency,
        max_length=max_length_option(max_length),
        identifiable_length=identifiable_length,
        coverage=coverage,
        batch_size=batch_size,
        weight_decay=weight_decay,
        label_smoothing=label_smoothing,
        class_weights=class_weights.value,
        report_texts=report_texts,
        report_rows=report_rows,
        model={name: value for name, value in chosen.items() if value is not None},
    )
    from identiformer.cli.progress import training_progress
    from identiformer.cli.results import show
    from identiformer.evaluation import metrics_table
    from identiformer.training import train as run

    quiet_libraries()
    try:
        with training_progress() as (callbacks, progress):
            metrics = run(
                source,
                output,
                settings,
                overwrite=overwrite,
                resume=resume,
                say=say,
                callbacks=callbacks,
                progress=progress,
            )
    except KeyboardInterrupt:
        say("stopped: the same command with --resume goes on from the last whole epoch")
        raise typer.Exit(130) from None
    if metrics["identifiable"] is not None:
        share, outright = (metrics["identifiable"][name] for name in ("share", "global"))
        say(
            f"attention is unique for {outright['simplex']:.1%} of the test texts on the simplex, and among the rows "
            f"that the heads can generate for {outright['generatable']:.1%} (nearby: {share['generatable']:.1%})"
        )
    say(f"model, card and metrics: {output}")
    say(f"to look at: {output / 'report.html'}")
    show(metrics_table(metrics["test"]))


def max_length_option(value: str) -> int | Literal["auto"]:
    """Read --max-length."""
    if value == "auto":
        return "auto"
    try:
        return int(value)
    except ValueError:
        raise InputError(f"--max-length is {value}: give a number of tokens, or auto") from None
