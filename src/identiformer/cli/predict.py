"""`identiformer predict`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from identiformer.cli.options import (
    BadRow,
    BatchSize,
    Model,
    OnBadRow,
    Overwrite,
    Split,
    TextColumn,
    TextPairColumn,
    quiet_libraries,
    say,
)
from identiformer.errors import InputError


def predict(
    model: Model,
    source: Annotated[
        str | None,
        typer.Argument(metavar="SOURCE", help="Texts: a file, a folder or a name, as train takes them."),
    ] = None,
    text: Annotated[
        list[str] | None, typer.Option(help="A text, in place of SOURCE; may be given again.")
    ] = None,
    text_pair: Annotated[
        list[str] | None, typer.Option(help="The pair of each --text, in their order.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write to this .csv, .jsonl or .parquet file.")
    ] = None,
    split: Split = None,
    text_column: TextColumn = None,
    text_pair_column: TextPairColumn = None,
    on_bad_row: BadRow = OnBadRow.ERROR,
    batch_size: BatchSize = 64,
    overwrite: Overwrite = False,
) -> None:
    """Label the texts of SOURCE, or each --text, in their order; JSON lines unless --output says otherwise."""
    if (source is None) == (not text):
        raise InputError("give either a SOURCE of texts or --text (see identiformer predict --help)")
    if source is not None and text_pair:
        raise InputError("--text-pair goes with --text: for SOURCE give --text-pair-column")
    from identiformer.cli.progress import progress_bar
    from identiformer.data import files_of
    from identiformer.output import refuse_file
    from identiformer.prediction_files import check_ending, write_json_lines, write_predictions
    from identiformer.reading import ChosenColumns
    from identiformer.scoring import predict as run
    from identiformer.scoring import predict_given

    if output is not None:
        check_ending(output)
        refuse_file(output, [model, *files_of(source or "")], overwrite, "--output")
    quiet_libraries()
    with progress_bar("predicting") as progress:
        if source is not None:
            predictions = run(
                model,
                source,
                split=split,
                columns=ChosenColumns(text_column, None, text_pair_column),
                on_bad_row=on_bad_row.value,
                batch_size=batch_size,
                say=say,
                progress=progress,
            )
        else:
            predictions = predict_given(model, text or [], text_pair, batch_size=batch_size, say=say)
        if output is not None:
            count = write_predictions(predictions, output)
            say(f"{count} predictions: {output}")
        else:
            write_json_lines(predictions, sys.stdout)
