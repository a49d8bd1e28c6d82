"""Options that several commands share, and what they print."""

from __future__ import annotations

import sys
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from identiformer.errors import InputError

if TYPE_CHECKING:
    from identiformer.capturing import Rows


class OnBadRow(StrEnum):
    """What becomes of rows that cannot be used."""

    ERROR = "error"
    SKIP = "skip"


Source = Annotated[
    str,
    typer.Argument(
        metavar="SOURCE",
        help="A .csv, .tsv, .jsonl, .json or .parquet file (each also .gz), a folder with train/valid/test files, "
        "hf:NAME[/CONFIG], demo:reviews or demo:docstrings.",
    ),
]


def existing_model(name: str | None) -> str | None:
    """Refuse what is no model before anything heavy is imported: half a minute is long for a typing error."""
    if name is not None:
        from identiformer.loading import check_name

        check_name(name)
    return name


Model = Annotated[
    str,
    typer.Argument(
        metavar="MODEL", help="A model folder, as train writes it, or a hub name.", callback=existing_model
    ),
]
TextColumn = Annotated[str | None, typer.Option(help="The column that holds the texts.")]
LabelColumn = Annotated[str | None, typer.Option(help="The column that holds the labels.")]
TextPairColumn = Annotated[
    str | None, typer.Option(help="The column that holds the second text of each row.")
]
BadRow = Annotated[
    OnBadRow,
    typer.Option("--on-bad-row", help="Stop at rows that cannot be used, or leave them out and count them."),
]
JsonFile = Annotated[Path | None, typer.Option("--json", help="Write the result to this file, as JSON.")]
HtmlFile = Annotated[
    Path | None,
    typer.Option("--html", help="Write a page to this file: one HTML file that needs nothing else."),
]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace what stands at the output.")]
Resume = Annotated[
    bool, typer.Option("--resume", help="Go on with a run that was stopped, to the same result.")
]
Split = Annotated[
    str | None, typer.Option(help="The split of a folder or a hub data set: train, valid or test.")
]
BatchSize = Annotated[int, typer.Option(min=1, help="Texts at once.")]


def rows_option(given: str) -> Rows:
    """The query rows that `--rows` asks for."""
    if given == "pooled" or given == "all":
        return given
    if not given.isdecimal() or int(given) < 1:
        raise InputError(f"--rows is {given}: give pooled, all, or how many rows from the first token on")
    return int(given)


def numbers_option(given: str | None, option: str, otherwise: str = "") -> list[int] | None:
    """The numbers that an option lists; `otherwise` ends its error, and says what else could be given."""
    if given is None:
        return None
    try:
        return [int(number) for number in given.split(",")]
    except ValueError:
        raise InputError(f"{option} is {given}: give numbers such as 0,1{otherwise}") from None


def layers_option(given: str | None) -> list[int] | Literal["all"] | None:
    """The layers that `--layers` asks for."""
    return "all" if given == "all" else numbers_option(given, "--layers", ", or all")


def say(sentence: str) -> None:
    """Say something to the user; standard output is for results."""
    if sys.stderr is not None:  # a process can be started without one, and `print` would take standard output
        with suppress(OSError):  # nobody listens
            print(sentence, file=sys.stderr, flush=True)


def quiet_libraries() -> None:
    """Keep the progress bars and the advice of the libraries off the terminal: they are not for our user."""
    import datasets
    import huggingface_hub.utils
    import transformers

    huggingface_hub.utils.logging.set_verbosity_error()  # of every attempt to reach a hub
    transformers.utils.logging.disable_progress_bar()
    transformers.utils.logging.set_verbosity_error()
    datasets.disable_progress_bars()
