"""Standard output, which carries results only."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from rich.console import RenderableType

WIDEST = 1000  # columns of what is printed to a file or a pipe


class OutputEnded(Exception):
    """Standard output takes no more.

    Args:
        reason: Why; empty where its reader left early, as `head` does, which is no error.
    """

    def __init__(self, reason: str):
        super().__init__(reason)
        self.reason = reason


class Output:
    """Standard output with an error of its own: an `OSError` could be that of any file.

    Args:
        stream: What is written to; `None` where the process was started without one.
    """

    def __init__(self, stream: TextIO | None):
        self._stream = stream

    def write(self, text: str) -> int:
        """Write text."""
        if self._stream is None:
            raise OutputEnded("it is closed")
        with _ending():
            return self._stream.write(text)

    def flush(self) -> None:
        """Hand over what was written."""
        if self._stream is not None:
            with _ending():
                self._stream.flush()

    def give_up(self) -> None:
        """Lose what could not be written: Python would complain once more when it flushes on exit."""
        with suppress(AttributeError, OSError, ValueError):  # not every stream is that of a file
            os.dup2(os.open(os.devnull, os.O_WRONLY), self.fileno())

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextmanager
def _ending() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError as error:
        raise OutputEnded("") from error
    except OSError as error:
        raise OutputEnded(error.strerror or str(error)) from error


def show(renderable: RenderableType) -> None:
    """Print tables and text: as wide as the terminal, or where it goes elsewhere, as wide as it needs to be."""
    from rich.console import Console

    console = Console()
    if not console.is_terminal and "COLUMNS" not in os.environ:
        needed = console.measure(renderable, options=console.options.update(width=WIDEST)).maximum
        console = Console(width=max(console.width, needed))
    with console.capture() as capture:
        console.print(renderable)
    sys.stdout.write(capture.get())
