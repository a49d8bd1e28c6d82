"""`identiformer explain`."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated

import typer

from identiformer.cli.options import (
    HtmlFile,
    JsonFile,
    Model,
    Overwrite,
    layers_option,
    numbers_option,
    quiet_libraries,
    rows_option,
    say,
)
from identiformer.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path

    from identiformer.capturing import Rows


def explain(
    model: Model,
    text: Annotated[str, typer.Option(help="The text to explain.")],
    text_pair: Annotated[str | None, typer.Option(help="Its pair, for a model trained on pairs.")] = None,
    layers: Annotated[
        str | None,
        typer.Option(help="Layers to explain: numbers from 0, as 0,1, or all; the last one otherwise."),
    ] = None,
    heads: Annotated[
        str | None, typer.Option(help="Heads to explain in each: numbers from 0; all otherwise.")
    ] = None,
    rows: Annotated[
        str | None,
        typer.Option(
            help="Query rows: pooled (the one that is classified, the default), all, or how many from the first on."
        ),
    ] = None,
    row: Annotated[
        int | None, typer.Option(help="One query row by its number, from 0, in place of --rows.")
    ] = None,
    all_rows: Annotated[bool, typer.Option("--all-rows", help="The same as --rows all.")] = False,
    pieces: Annotated[
        bool, typer.Option("--pieces", help="Show the pieces of words that the model reads, and not words.")
    ] = False,
    alternatives: Annotated[
        bool,
        typer.Option(
            "--alternatives",
            help="Look for other weights with the same output, for --json; --html always does.",
        ),
    ] = False,
    json_file: JsonFile = None,
    html_file: HtmlFile = None,
    overwrite: Overwrite = False,
) -> None:
    """Show a prediction of MODEL, the attention behind it, and whether that attention is the only one possible.

    Of a model that does not classify texts, the attention alone is shown.
    """
    from identiformer.cli.progress import progress_bar
    from identiformer.cli.results import show
    from identiformer.cli.token_view import token_view
    from identiformer.explaining.explanation import explain as run
    from identiformer.explaining.explanation import load_to_explain
    from identiformer.output import refuse_file, whole_file, write_json
    from identiformer.reading import check_pair
    from identiformer.report import explanation_page
    from identiformer.scoring import check_given

    chosen_rows, chosen_layers, chosen_heads = (
        _rows(rows, all_rows),
        layers_option(layers),
        numbers_option(heads, "--heads"),
    )
    _check_row(row, rows, all_rows)
    refuse_file(json_file, [model], overwrite)
    refuse_file(html_file, [model], overwrite, "--html file")
    _check_files(alternatives, json_file, html_file)
    check_given([text])
    check_given([] if text_pair is None else [text_pair], pair=True)
    quiet_libraries()
    loaded, tokenizer = load_to_explain(model)
    check_pair(loaded, text_pair is not None, of_source=False)
    with progress_bar("explaining") as progress:
        explanation = run(
            loaded,
            tokenizer,
            text,
            text_pair,
            rows=chosen_rows,
            row=row,
            layers=chosen_layers,
            heads=chosen_heads,
            alternatives=alternatives or html_file is not None,
            progress=progress,
        )
    if explanation.truncated:
        say(f"the text is longer than {len(explanation.tokens)} tokens and was truncated")
    if explanation.left_out:
        say(explanation.left_out)
    if html_file is not None:
        page = explanation_page(explanation, model=model)
        with whole_file(html_file) as handle:
            handle.write(page)
        say(f"page: {html_file}")
    if json_file is not None:
        write_json(json_file, explanation.to_dict())
        say(f"explanation: {json_file}")
    show(token_view(explanation, pieces))


def _check_files(alternatives: bool, json_file: Path | None, html_file: Path | None) -> None:
    if (
        json_file is not None
        and html_file is not None
        and os.path.realpath(json_file) == os.path.realpath(html_file)
    ):
        raise InputError(f"--json and --html are both {html_file}: give two files")
    if alternatives and json_file is None and html_file is None:
        raise InputError("--alternatives are written to files: give --json FILE or --html FILE")


def _check_row(row: int | None, rows: str | None, every: bool) -> None:
    if row is None:
        return
    if rows is not None or every:
        raise InputError(
            f"--row {row} and {'--all-rows' if every else '--rows'} are both given: give one of them"
        )
    if row < 0:
        raise InputError(f"--row is {row}: give the number of a row, from 0")


def _rows(given: str | None, every: bool) -> Rows:
    if given is not None and every and given != "all":
        raise InputError(f"--rows {given} and --all-rows are both given: give one of them")
    if every:
        return "all"
    return "pooled" if given is None else rows_option(given)
