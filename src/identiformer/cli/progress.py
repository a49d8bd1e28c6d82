"""Progress bars on standard error, where it is a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

if TYPE_CHECKING:
    from transformers import TrainerCallback


def _bar() -> Progress:
    console = Console(stderr=True)
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=console,
        disable=not console.is_terminal,
        transient=True,
        redirect_stdout=False,  # it would send results to standard error
    )


@contextmanager
def progress_bar(description: str) -> Iterator[Callable[[int, int], None]]:
    """A bar that is moved on by calling `(done since the last call, in all)`."""
    with _bar() as bar:
        task = bar.add_task(description, total=None, visible=False)

        def advance(done: int, total: int) -> None:
            bar.update(task, advance=done, total=total, visible=True)

        yield advance


@contextmanager
def training_progress() -> Iterator[tuple[list[TrainerCallback], Callable[[int, int], None]]]:
    """A bar over the steps of a training, with the last validation accuracy, and then over the texts of its report.

    Gives the Trainer's callbacks, and what is called with the texts `(done since the last call, in all)`.
    """
    from transformers import TrainerCallback

    with _bar() as bar:
        task = bar.add_task("training", total=None, visible=False)

        class ShowProgress(TrainerCallback):
            def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
                bar.update(task, total=state.max_steps, completed=state.global_step, visible=True)

            def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
                bar.update(task, completed=state.global_step)

            def on_evaluate(self, args: Any, state: Any, control: Any, metrics: Any = None, **_: Any) -> None:
                if metrics and state.epoch:
                    accuracy = metrics.get("eval_accuracy", float("nan"))
                    bar.update(
                        task, description=f"epoch {state.epoch:.0f}: validation accuracy {accuracy:.3f}"
                    )

        def advance(done: int, total: int) -> None:
            if not done:
                bar.reset(task, total=total, description="report")
            bar.update(task, advance=done, total=total, visible=True)

        yield [ShowProgress()], advance
