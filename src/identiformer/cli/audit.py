"""`identiformer audit`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from identiformer.cli.options import (
    BadRow,
    BatchSize,
    Model,
    OnBadRow,
    Overwrite,
    Resume,
    Source,
    Split,
    TextColumn,
    TextPairColumn,
    layers_option,
    numbers_option,
    quiet_libraries,
    rows_option,
    say,
)


def audit(
    model: Model,
    source: Source,
    output: Annotated[Path, typer.Option("--output", "-o", help="The folder to make.")],
    rows: Annotated[
        str,
        typer.Option(
            help="Query rows of each text: pooled (the one that the prediction is read from), all, or how many."
        ),
    ] = "pooled",
    layers: Annotated[
        str, typer.Option(help="Numbers of layers, as in 0,5, or all that have such rows.")
    ] = "all",
    heads: Annotated[str | None, typer.Option(help="Numbers of heads, as in 0,5; all by default.")] = None,
    limit: Annotated[int | None, typer.Option(help="At most so many texts, the first ones.")] = None,
    tolerance: Annotated[
        float,
        typer.Option(
            help="Outputs that move by at most this share count as the same, for tops and intervals."
        ),
    ] = 0.0,
    batch_size: BatchSize = 16,
    intervals: Annotated[
        int, typer.Option(help="Of how many rows that are not identifiable to compute the widest interval.")
    ] = 100,
    prove: Annotated[
        int,
        typer.Option(help="Put alternatives in place of so many rows, and record what the model then says."),
    ] = 0,
    report_texts: Annotated[int, typer.Option(help="How many texts report.html shows word by word.")] = 200,
    report_rows: Annotated[
        int,
        typer.Option(help="For how many rows that are not identifiable it has bounds and alternatives."),
    ] = 48,
    split: Split = None,
    text_column: TextColumn = None,
    text_pair_column: TextPairColumn = None,
    on_bad_row: BadRow = OnBadRow.ERROR,
    overwrite: Overwrite = False,
    resume: Resume = False,
) -> None:
    """Certify the attention heads of MODEL on the texts of SOURCE."""
    from identiformer.auditing import AuditSettings
    from identiformer.auditing import audit as run
    from identiformer.cli.audit_view import audit_view
    from identiformer.cli.progress import progress_bar
    from identiformer.cli.results import show
    from identiformer.reading import ChosenColumns

    chosen_layers = layers_option(layers)
    settings = AuditSettings(
        rows=rows_option(rows),
        layers=None if chosen_layers == "all" else _tuple(chosen_layers),
        heads=_tuple(numbers_option(heads, "--heads")),
        limit=limit,
        tolerance=tolerance,
        batch_size=batch_size,
        intervals=intervals,
        prove=prove,
        report_texts=report_texts,
        report_rows=report_rows,
    )
    quiet_libraries()
    try:
        with progress_bar("auditing") as progress:
            summary = run(
                model,
                source,
                output,
                settings,
                split=split,
                columns=ChosenColumns(text_column, None, text_pair_column),
                on_bad_row=on_bad_row.value,
                overwrite=overwrite,
                resume=resume,
                say=say,
                progress=progress,
            )
    except KeyboardInterrupt:
        say("stopped: the same command with --resume goes on from the last whole part")
        raise typer.Exit(130) from None
    say(f"heads.parquet, summary.json and figures: {output}")
    say(f"to look at: {output / 'report.html'}")
    show(audit_view(summary))


def _tuple(numbers: list[int] | None) -> tuple[int, ...] | None:
    return None if numbers is None else tuple(numbers)
