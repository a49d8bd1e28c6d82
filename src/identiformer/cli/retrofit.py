"""`identiformer retrofit`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from identiformer.cli.options import (
    BadRow,
    JsonFile,
    Model,
    OnBadRow,
    Overwrite,
    TextColumn,
    quiet_libraries,
    say,
)
from identiformer.errors import InputError

if TYPE_CHECKING:
    from rich.table import Table

    from identiformer.retrofitting import RetrofitReport


def retrofit(
    model: Model,
    output: Annotated[Path, typer.Argument(metavar="DIR", help="The model folder to make.")],
    strength: Annotated[
        float,
        typer.Option(
            help="What is added to a head's output varies by this share of what the output varies by."
        ),
    ] = 0.01,
    texts: Annotated[
        list[str] | None,
        typer.Option(
            metavar="SOURCE",
            help="Texts like those that the model is for, to fit what is added and to measure it; may be given more "
            "than once. Random tokens otherwise.",
        ),
    ] = None,
    text_column: TextColumn = None,
    on_bad_row: BadRow = OnBadRow.ERROR,
    limit: Annotated[int, typer.Option(help="Use at most so many texts of each source.")] = 512,
    seed: Annotated[int, typer.Option(help="Of the directions of what is added.")] = 0,
    json_file: JsonFile = None,
    overwrite: Overwrite = False,
) -> None:
    """Let the values of MODEL carry its keys, which makes its attention identifiable, and write it to DIR."""
    from identiformer.cli.progress import progress_bar
    from identiformer.cli.results import show
    from identiformer.data import files_of
    from identiformer.output import refuse_file, write_json
    from identiformer.retrofitting import retrofit_folder

    if json_file is not None and json_file.resolve().is_relative_to(output.resolve()):
        raise InputError(f"{json_file} lies in {output}, the model folder to make: give another --json file")
    refuse_file(json_file, [model, *(file for source in texts or () for file in files_of(source))], overwrite)
    quiet_libraries()
    with progress_bar("retrofitting") as progress:
        report = retrofit_folder(
            model,
            output,
            strength=strength,
            sources=texts or (),
            text_column=text_column,
            on_bad_row=on_bad_row.value,
            limit=limit,
            seed=seed,
            overwrite=overwrite,
            say=say,
            progress=progress,
        )
    if json_file is not None:
        write_json(json_file, report.to_dict())
        say(f"report: {json_file}")
    say(drift_sentence(report))
    say(f"model, card and report: {output}")
    show(margins_table(report))


def drift_sentence(report: RetrofitReport) -> str:
    """How far the outputs moved."""
    drift = report.drift
    on = "random tokens" if report.texts is None else f"{drift.texts} texts"
    sentence = (
        f"on {on}, mean-pooled embeddings have a cosine of {drift.mean_cosine:.6f} with the original's "
        f"(at least {drift.min_cosine:.6f})"
    )
    if drift.max_logit_change is not None:
        sentence += (
            f"; logits moved by {drift.max_logit_change:.2g} at most, {drift.labels_changed} labels changed"
        )
    return sentence


def margins_table(report: RetrofitReport) -> Table:
    """Margins at `generatable` and verdicts, before and after, layer by layer."""
    from rich.table import Table

    table = Table(
        "layer", "heads", "", "least margin", "median", "none", "local", "global", title="at generatable"
    )
    for layer in sorted({head.layer for head in report.after}):
        for when, all_heads in (("before", report.before), ("after", report.after)):
            heads = [head for head in all_heads if head.layer == layer]
            medians = sorted(head.median for head in heads)
            counts = (
                [head.none for head in heads],
                [head.local for head in heads],
                [head.everywhere for head in heads],
            )
            first = (str(layer), str(len(heads))) if when == "before" else ("", "")
            table.add_row(
                *first,
                when,
                f"{min(head.least for head in heads):.1e}",
                f"{medians[len(medians) // 2]:.1e}",
                *(f"{sum(count) / sum(head.rows for head in heads):.1%}" for count in counts),
            )
    return table
