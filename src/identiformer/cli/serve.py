"""`identiformer serve`."""

from __future__ import annotations

from importlib import util
from typing import Annotated

import typer

from identiformer.cli.options import Model, quiet_libraries, say
from identiformer.errors import InputError

_EXTRA = ("starlette", "uvicorn", "pydantic")


def serve(
    model: Model,
    host: Annotated[
        str, typer.Option(help="The address to serve at; any but 127.0.0.1 can be reached by others.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port; 0 for any that is free.")] = 8000,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(help="Another name that browsers know this machine by; may be given again."),
    ] = None,
    max_characters: Annotated[int, typer.Option(min=1, help="The longest text, in characters.")] = 20_000,
    max_tokens: Annotated[int, typer.Option(min=1, help="The longest text that is explained.")] = 1024,
    max_weights: Annotated[
        int, typer.Option(min=1, help="Attention weights of one explanation: heads times rows times tokens.")
    ] = 100_000,
    max_texts: Annotated[int, typer.Option(min=1, help="Texts of one prediction.")] = 64,
    max_waiting: Annotated[int, typer.Option(min=0, help="Requests that wait while one is answered.")] = 16,
    time_limit: Annotated[float, typer.Option(min=0.1, help="Seconds that one answer may take.")] = 20.0,
    grace: Annotated[
        float, typer.Option(min=0.0, help="Seconds to finish answers under way after Ctrl-C.")
    ] = 10.0,
) -> None:
    """Serve a page where typed texts are explained, and JSON endpoints (/api), until Ctrl-C."""
    missing = [name for name in _EXTRA if util.find_spec(name) is None]
    if missing:
        raise InputError(
            f"serve needs {' and '.join(missing)}, which is not installed: pip install 'identiformer[serve]'"
        )
    from identiformer.serving.limits import Limits
    from identiformer.serving.server import Address
    from identiformer.serving.server import serve as run

    quiet_libraries()
    limits = Limits(
        characters=max_characters,
        tokens=max_tokens,
        weights=max_weights,
        texts=max_texts,
        waiting=max_waiting,
        seconds=time_limit,
    )
    status = run(model, Address(host, port, tuple(allow_host or ())), limits, grace, say)
    say("stopped")
    raise typer.Exit(status)
