"""A small model behind the application, and clients to ask it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

from starlette.testclient import TestClient

from identiformer.serving.application import application
from identiformer.serving.limits import Limits
from identiformer.serving.served_model import ServedModel
from identiformer.serving.working import Check, Worker
from small import small_classifier

LIMITS = Limits(
    body=4000, characters=300, texts=3, tokens=20, weights=300, waiting=2, reading=4, seconds=20.0
)
ORIGIN = "http://127.0.0.1:8000"


def small_served(limits: Limits = LIMITS, **settings: Any) -> ServedModel:
    """`small_classifier` under limits that are easily met."""
    return ServedModel("small", *small_classifier(**settings), limits)


class Doing(ServedModel):
    """A model that does something of its own in place of explaining."""

    def __init__(self, work: Callable[[Check], dict[str, Any]], **limits: Any):
        self.name, self.labels, self.layers = "doing", ["no", "yes"], {0: [0]}
        self.takes_pair, self.pooled = False, True
        self.limits = replace(LIMITS, **limits)
        self._work = work

    @property
    def most_tokens(self) -> int:
        return 24

    def explain(self, question: Any, check: Check) -> dict[str, Any]:
        return self._work(check)


def app_of(served: ServedModel, **settings: Any) -> Any:
    """The application with a worker of its own."""
    return application(served, Worker(served.limits.waiting, served.limits.seconds), **settings)


def client_of(served: ServedModel, **settings: Any) -> TestClient:
    """A client that asks as a browser's address line does: by the server's address, from no page."""
    return TestClient(app_of(served, **settings), base_url=ORIGIN, raise_server_exceptions=False)


def awaited(main: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
    """What a coroutine gives. In a thread of its own: the browser's tests leave a loop running in this one."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(lambda: asyncio.run(asyncio.wait_for(main(), 30))).result()
