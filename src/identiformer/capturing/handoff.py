"""Results of work that cannot be suspended, one at a time: a generator over what a function hands out."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable, Generator
from typing import Generic, TypeVar

Item = TypeVar("Item")


class _Stopped(BaseException):
    """Nobody wants the rest. No `Exception`, so that nothing on the way takes it for a fault and goes on."""


class _Handoff(Generic[Item]):
    """Two threads, of which one runs while the other waits."""

    def __init__(self) -> None:
        self._given = threading.Semaphore(0)
        self._wanted = threading.Semaphore(0)
        self._stopped = False
        self._items: list[Item] = []
        self._fault: BaseException | None = None

    def give(self, item: Item) -> None:
        """Called by the work: hand out an item, and wait until the next one is wanted."""
        self._items.append(item)
        del item
        self._given.release()
        self._await()

    def run(self, work: Callable[[Callable[[Item], None]], None]) -> None:
        try:
            self._await()
            work(self.give)
        except _Stopped:
            pass
        except BaseException as fault:
            self._fault = fault
        finally:
            self._given.release()

    def take(self) -> list[Item]:
        """Called by whoever wants items: the next one, or none where the work has ended."""
        self._wanted.release()
        self._given.acquire()
        if self._fault is not None:
            raise self._fault
        taken, self._items = self._items, []
        return taken

    def stop(self) -> None:
        self._stopped = True
        self._wanted.release()

    def _await(self) -> None:
        self._wanted.acquire()
        if self._stopped:
            raise _Stopped


def one_at_a_time(work: Callable[[Callable[[Item], None]], None]) -> Generator[Item, None, None]:
    """What `work` hands out, as a generator.

    A forward pass hands out its layers from deep inside, where no generator can yield. So `work` has a thread of its
    own, which stands still while an item is used: there is never more than one, and never two threads at work.

    Args:
        work: A function that is given another one, and calls it with each item. It runs in a copy of the caller's
            context from the first item that is asked for. When the generator is closed or no longer referenced, the
            call that hands out does not return but raises, so that what `work` holds is released on the way out.

    Raises:
        Whatever `work` raises.
    """
    handoff: _Handoff[Item] = _Handoff()
    context = contextvars.copy_context()
    thread = threading.Thread(target=context.run, args=(handoff.run, work), name="capture", daemon=True)
    thread.start()
    try:
        while taken := handoff.take():
            yield taken.pop()
    finally:
        handoff.stop()
        thread.join()
