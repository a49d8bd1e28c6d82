"""Work on the model: one piece at a time, in a thread of its own, and what waits for it."""

from __future__ import annotations

import asyncio
import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Generic, TypeVar

from identiformer.serving.refusal import Refusal

Result = TypeVar("Result")

# Work calls it wherever it can be stopped; it raises where it shall.
Check = Callable[[], None]
# Seconds over its time that work is left to notice by itself.
_STEP = 0.5


class Worker:
    """Does pieces of work one after the other.

    One thread and not several: `threads_for` sets torch's threads for the whole process and puts them back, and fast
    tokenizers keep how they truncate; both belong to who uses them. A capture sets the attention of its model for all
    who run it (`on_loan`), so that beside one a prediction would be computed in another way, to other roundings. One
    at a time, an answer depends on nothing but its request. Large models lose nothing: torch has threads of its own.

    The thread is a daemon: what cannot be stopped must not keep the process from its end.

    Args:
        waiting: How many pieces may wait while one is done.
        seconds: How long one may take, and how long it may wait.
    """

    def __init__(self, waiting: int, seconds: float):
        self._waiting, self._seconds = waiting, seconds
        self._jobs: queue.SimpleQueue[_Job[Any] | None] = queue.SimpleQueue()
        self._open: set[_Job[Any]] = set()
        self._closed = False
        self._thread = threading.Thread(target=self._work, name="serving", daemon=True)
        self._thread.start()

    async def do(self, work: Callable[[Check], Result], gone: asyncio.Future[Any]) -> Result:
        """Have a piece of work done.

        Args:
            work: It is given a `Check`.
            gone: Done when nobody wants the result any more: then the work is stopped.

        Raises:
            Refusal: If too many wait, if it takes or waits too long, or the server stops.
            Whatever `work` raises.
        """
        if self._closed:
            raise stopping()
        if len(self._open) > self._waiting:
            raise self._busy(f"{self._waiting} requests wait already")
        job = _Job(work, self._seconds)
        self._open.add(job)
        self._jobs.put(job)
        result = asyncio.wrap_future(job.result)

        async def first(seconds: float) -> bool:
            either = {result, gone}
            done, _ = await asyncio.wait(either, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            return bool(done)

        try:
            if not await first(self._seconds):
                if job.drop():
                    raise self._busy(f"the request has waited for {self._seconds:g} seconds")
                # It has begun, some time after it came. A step that is under way is not waited for.
                if not await first(job.left() + _STEP):
                    raise job.too_long()
            if result.done():
                return result.result()
            raise Refusal(503, "the client has gone")  # nobody reads it
        finally:
            job.stop(stopping())
            self._open.discard(job)
            result.add_done_callback(_seen)

    def stop(self) -> None:
        """Give up all that is under way or waits, which ends in a refusal, and take no more."""
        self._closed = True
        for job in list(self._open):
            job.give_up(stopping())
        self._jobs.put(None)

    def ended(self, seconds: float) -> bool:
        """Wait until the thread has ended after `stop`, for so many seconds at most; whether it has."""
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def _busy(self, how: str) -> Refusal:
        # By then something will have changed.
        later = max(1, round(self._seconds / 4))
        return Refusal(503, f"the server is busy: {how}; ask again in a while", {"Retry-After": str(later)})

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            job.run()
            del job  # its work, and what that holds, before the next one comes


class _Job(Generic[Result]):
    """A piece of work and what comes of it."""

    def __init__(self, work: Callable[[Check], Result], seconds: float):
        self.result: Future[Result] = Future()
        self._work: Callable[[Check], Result] | None = work
        self._seconds = seconds
        self._ends = float("inf")
        self._stopped: Refusal | None = None
        self._lock = threading.Lock()

    def run(self) -> None:
        """Do it; called by the thread."""
        with self._lock:
            work, self._work = self._work, None
            if work is None or not self.result.set_running_or_notify_cancel():
                return
            self._ends = time.monotonic() + self._seconds
        refused: tuple[Any, ...] | None = None
        try:
            value = work(self._check)
        except Refusal as refusal:
            # Not itself: its traceback would keep a capture, and with that the model, from being given back.
            refused = (refusal.status, refusal.sentence, refusal.headers)
        except BaseException as fault:
            self._end(fault=fault)
        else:
            self._end(value)
        if refused is not None:
            self._end(fault=Refusal(*refused))

    def drop(self) -> bool:
        """Not begin it, and whether that was so."""
        with self._lock:
            waited, self._work = self._work is not None, None
            return waited

    def left(self) -> float:
        """The seconds that it may go on for, once it has begun."""
        return max(0.0, self._ends - time.monotonic())

    def too_long(self) -> Refusal:
        """What is said of it when they are over."""
        return Refusal(
            504,
            f"the answer took longer than {self._seconds:g} seconds: give a shorter text, ask for fewer layers, heads "
            "or rows, or do without intervals",
        )

    def stop(self, why: Refusal) -> None:
        """Do no more of it than cannot be helped."""
        self._stopped = why
        self.drop()

    def give_up(self, why: Refusal) -> None:
        """Stop it, and let who waits for it know at once."""
        self.stop(why)
        self._end(fault=why)

    def _end(self, value: Any = None, fault: BaseException | None = None) -> None:
        with self._lock:
            if self.result.done():
                return
            if fault is None:
                self.result.set_result(value)
            else:
                self.result.set_exception(fault)

    def _check(self) -> None:
        if self._stopped is not None:
            raise self._stopped
        if time.monotonic() > self._ends:
            raise self.too_long()


def stopping() -> Refusal:
    """What is said to those who would be answered after the end."""
    return Refusal(503, "the server stops", {"Retry-After": "5", "Connection": "close"})


def _seen(result: asyncio.Future[Any]) -> None:
    """Nobody waits for a result any more; asyncio would complain of a fault that nobody has looked at."""
    if not result.cancelled():
        result.exception()
