"""`identiformer advise`."""

from __future__ import annotations

from typing import Annotated

import typer

from identiformer.cli.options import (
    BadRow,
    JsonFile,
    OnBadRow,
    Overwrite,
    Source,
    Split,
    TextColumn,
    TextPairColumn,
    existing_model,
    quiet_libraries,
    say,
)
from identiformer.cli.train import DEFAULTS, Tokenizer, max_length_option


def advise(
    source: Source,
    coverage: Annotated[
        float, typer.Option(help="The share of the texts that is to be identifiable.")
    ] = 0.99,
    model: Annotated[
        str | None,
        typer.Option(
            metavar="MODEL",
            help="Advise on this model: a folder or a hub name; only its tokenizer is used.",
            callback=existing_model,
        ),
    ] = None,
    tokenizer: Annotated[
        Tokenizer | None,
        typer.Option(help="Learned from the texts, as train does: words (the default), or byte pairs."),
    ] = None,
    vocab_size: Annotated[
        int | None, typer.Option(help=f"The most tokens to know, as in train: {DEFAULTS.vocab_size}.")
    ] = None,
    min_frequency: Annotated[
        int | None,
        typer.Option(
            help=f"How often a token must occur to be known, as in train: {DEFAULTS.min_frequency}."
        ),
    ] = None,
    max_length: Annotated[
        str,
        typer.Option(
            help="Tokens at which texts are truncated; auto: as train chooses, or the model's limit."
        ),
    ] = str(DEFAULTS.max_length),
    split: Split = None,
    text_column: TextColumn = None,
    text_pair_column: TextPairColumn = None,
    on_bad_row: BadRow = OnBadRow.ERROR,
    json_file: JsonFile = None,
    overwrite: Overwrite = False,
) -> None:
    """Tell from the texts of SOURCE alone what it takes to make attention over them identifiable."""
    from identiformer.advice import advise as run
    from identiformer.cli.advice_view import show_advice
    from identiformer.cli.progress import progress_bar
    from identiformer.data import files_of
    from identiformer.output import refuse_file, write_json
    from identiformer.reading import ChosenColumns

    refuse_file(json_file, [*files_of(source), *([] if model is None else [model])], overwrite)
    quiet_libraries()
    with progress_bar("measuring") as progress:
        advice = run(
            source,
            coverage=coverage,
            model=model,
            tokenizer=tokenizer.value if tokenizer else None,
            vocab_size=vocab_size,
            min_frequency=min_frequency,
            max_length=max_length_option(max_length),
            split=split,
            columns=ChosenColumns(text_column, None, text_pair_column),
            on_bad_row=on_bad_row.value,
            say=say,
            progress=progress,
        )
    if json_file is not None:
        write_json(json_file, advice.to_dict())
        say(f"advice: {json_file}")
    show_advice(advice)
