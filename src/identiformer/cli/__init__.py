"""The command line: one module a command. Nothing heavy is imported before a command runs."""

from __future__ import annotations

import os
import sys

import typer

from identiformer import __version__
from identiformer.cli.evaluate import evaluate
from identiformer.cli.explain import explain
from identiformer.cli.predict import predict
from identiformer.cli.train import train
from identiformer.errors import InputError

app = typer.Typer(
    help="Text classifiers whose attention is identifiable, and explanations with a certificate.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,  # a fault of ours shows a plain traceback
    rich_markup_mode=None,  # errors end in one plain line
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback(invoke_without_command=True)
def _root(
    version: bool = typer.Option(False, "--version", help="Show the version and exit.", is_eager=True),
) -> None:
    if version:
        print(f"identiformer {__version__}")
        raise typer.Exit


for command in (train, evaluate, predict, explain):
    app.command()(command)


def main() -> None:
    """Run the command line; a user's error ends in one line and exit status 2."""
    try:
        app(prog_name="identiformer")
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        sys.exit(130)
    except BrokenPipeError:
        # The reader of standard output has gone (as `head` does): nothing is wrong. Python would complain once
        # more when it flushes on exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
