"""The command line: one module a command. Nothing heavy is imported before a command runs."""

from __future__ import annotations

import errno
import sys
from contextlib import redirect_stdout
from typing import NoReturn

import typer

from identiformer import __version__
from identiformer.cli.advise import advise
from identiformer.cli.audit import audit
from identiformer.cli.evaluate import evaluate
from identiformer.cli.explain import explain
from identiformer.cli.options import say
from identiformer.cli.predict import predict
from identiformer.cli.results import Output, OutputEnded
from identiformer.cli.retrofit import retrofit
from identiformer.cli.serve import serve
from identiformer.cli.train import train
from identiformer.errors import InputError

app = typer.Typer(
    help="Text classifiers whose attention is identifiable, and explanations with a certificate.",
    add_completion=False,
    pretty_exceptions_enable=False,  # a fault of ours shows a plain traceback
    rich_markup_mode=None,  # errors end in one plain line
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback(invoke_without_command=True)
def _root(
    context: typer.Context,
    version: bool = typer.Option(False, "--version", help="Show the version and exit.", is_eager=True),
) -> None:
    if version:
        print(f"identiformer {__version__}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        print(context.get_help())


app.command(short_help="Train a classifier on labelled texts.")(train)
app.command(short_help="Score a model on labelled texts.")(evaluate)
app.command(short_help="Label texts, in their order.")(predict)
app.command(short_help="Show a prediction, the attention behind it, and its certificate.")(explain)
app.command(short_help="Certify the heads of any model on a data set.")(audit)
app.command(short_help="Tell which sizes make texts identifiable.")(advise)
app.command(short_help="Make a pretrained encoder's attention identifiable.")(retrofit)
app.command(short_help="Explain typed texts on a local page, and through JSON.")(serve)


def main(arguments: list[str] | None = None) -> None:
    """Run the command line; a user's error ends in one line and exit status 2, as does a full disk.

    Args:
        arguments: Those after the program's name; of this process where it is `None`.
    """
    output = Output(sys.stdout)
    try:
        with redirect_stdout(output):
            status = app(arguments, prog_name="identiformer", standalone_mode=False)
            output.flush()
    except InputError as error:
        _refuse(str(error))
    except OutputEnded as ended:
        output.give_up()
        if ended.reason:
            _refuse(
                f"standard output cannot be written ({ended.reason}): give it a place, or write to a file instead"
            )
        sys.exit(0)
    except (KeyboardInterrupt, typer.Abort):
        say("stopped")
        sys.exit(130)  # what shells say of a program stopped by Ctrl-C
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        where = f"{error.filename} cannot be written" if error.filename else "the output cannot be written"
        _refuse(f"{where} ({error.strerror}): make room, or give another place")
    except Exception as error:
        # An unknown option and the like. Its class has another name in each version of typer.
        format_message = getattr(error, "format_message", None)
        if format_message is None:
            raise
        command = getattr(getattr(error, "ctx", None), "command_path", "identiformer")
        _refuse(f"{format_message().rstrip('.')} (see {command} --help)")
    else:
        sys.exit(status if isinstance(status, int) else 0)


def _refuse(message: str) -> NoReturn:
    say(f"error: {' '.join(message.split())}")
    sys.exit(2)
