"""Standard output, which carries results only."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import RenderableType

WIDEST = 1000  # columns of what is printed to a file or a pipe


@contextmanager
def results() -> Iterator[IO[str]]:
    """Standard output; that its reader leaves early, as `head` does, is no error, and ends the block."""
    try:
        yield sys.stdout
        sys.stdout.flush()
    except BrokenPipeError:
        # Python would complain once more when it flushes on exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def show(renderable: RenderableType) -> None:
    """Print tables and text: as wide as the terminal, or where it goes elsewhere, as wide as it needs to be."""
    from rich.console import Console

    console = Console()
    if not console.is_terminal and "COLUMNS" not in os.environ:
        needed = console.measure(renderable, options=console.options.update(width=WIDEST)).maximum
        console = Console(width=max(console.width, needed))
    with console.capture() as capture:
        console.print(renderable)
    with results() as output:
        output.write(capture.get())
