"""Bodies that are too large or too slow, and more requests than can be answered."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from identiformer.serving.working import Check
from served import Doing, app_of, awaited, small_served

GOOD = b'{"text": "a"}'


class Request:
    """A request as a server hands it to the application; `parts` come one by one, and then the client waits or goes.

    Args:
        parts: What the client sends of the body.
        last: Whether that is all of it.
        leave: Set when the client goes.
        headers: Those of the request beside its Host and type.

    Attributes:
        taken, waited: How many parts the application took, and whether it waited for more than all of them.
        status, headers, body: The answer.
    """

    def __init__(
        self,
        parts: Iterable[bytes] = (GOOD,),
        last: bool = True,
        leave: asyncio.Event | None = None,
        **headers: str,
    ):
        self.parts, self.last, self.leave = list(parts), last, leave
        self.taken, self.waited = 0, False
        self.status, self.headers, self.body = 0, {}, b""
        given = {"host": "127.0.0.1", "content-type": "application/json", **headers}
        self.scope: dict[str, Any] = {
            "type": "http",
            "http_version": "1.1",
            "method": "POST",
            "path": "/api/explain",
            "raw_path": b"/api/explain",
            "root_path": "",
            "scheme": "http",
            "query_string": b"",
            "headers": [(name.replace("_", "-").encode(), value.encode()) for name, value in given.items()],
        }

    async def receive(self) -> dict[str, Any]:
        if self.taken < len(self.parts):
            self.taken += 1
            more = not self.last or self.taken < len(self.parts)
            return {"type": "http.request", "body": self.parts[self.taken - 1], "more_body": more}
        self.waited = True
        await (self.leave or asyncio.Event()).wait()
        return {"type": "http.disconnect"}

    async def send(self, message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.headers = {name.decode(): value.decode() for name, value in message["headers"]}
        else:
            self.body += message["body"]

    async def to(self, app: Any) -> Request:
        await app(self.scope, self.receive, self.send)
        return self

    @property
    def error(self) -> str:
        return json.loads(self.body)["error"]


def run(*requests: Request, app: Any) -> list[Request]:
    async def all_of_them() -> list[Request]:
        return await asyncio.gather(*(request.to(app) for request in requests))

    return awaited(all_of_them)


@pytest.fixture
def app() -> Any:
    return app_of(Doing(lambda check: {"done": True}, body=1000, body_seconds=0.2))


# Bodies


def test_a_body_that_says_how_large_it_is_is_not_read(app: Any):
    for length in ("1001", "9" * 30, "-1", "x", ""):
        (request,) = run(Request([b"x" * 1001], content_length=length), app=app)
        assert (request.status, request.taken) == (413, 0), length
        assert request.headers["connection"] == "close"
        assert "larger than 1000 bytes" in request.error


def test_a_body_that_does_not_is_read_up_to_the_limit(app: Any):
    """In parts of 100 bytes; what a client goes on to send is taken for a while, and thrown away."""
    (request,) = run(Request([b" " * 100] * 9 + [b" " * 87 + GOOD]), app=app)
    assert (request.status, json.loads(request.body)) == (200, {"done": True})
    (request,) = run(Request([b" " * 100] * 10 + [GOOD]), app=app)
    assert (request.status, request.taken, request.waited) == (413, 11, False)
    (request,) = run(Request([b" " * 100] * 1000), app=app)
    assert (request.status, request.taken) == (413, 51)
    assert request.headers["connection"] == "close"


def test_a_body_that_does_not_come(app: Any):
    (request,) = run(Request([b'{"text":'], last=False), app=app)
    assert (request.status, request.headers["connection"]) == (408, "close")
    assert "0.2 seconds" in request.error


def test_a_client_that_leaves_within_its_body(app: Any):
    async def leaving() -> Request:
        leave = asyncio.Event()
        leave.set()
        return await Request([b'{"text":'], last=False, leave=leave).to(app)

    assert awaited(leaving).status == 400


def test_only_so_many_bodies_are_read_at_once():
    app = app_of(Doing(lambda check: {"done": True}, reading=2, waiting=9, body_seconds=0.2))
    slow = [Request([b"{"], last=False) for _ in range(2)]
    one_more = Request()
    run(*slow, one_more, app=app)
    assert [request.status for request in slow] == [408, 408]
    assert (one_more.status, one_more.headers["retry-after"]) == (503, "1")
    assert run(Request(), app=app)[0].status == 200  # their places are free again


# Work


class Held:
    """Work that goes on until it is let go, and looks whether it shall stop."""

    def __init__(self) -> None:
        self.go, self.begun, self.stopped = threading.Event(), threading.Event(), threading.Event()
        self.at_once, self.most = 0, 0

    def __call__(self, check: Check) -> dict[str, Any]:
        self.at_once += 1
        self.most = max(self.most, self.at_once)
        self.begun.set()
        try:
            while not self.go.wait(0.01):
                check()
        except BaseException:
            self.stopped.set()
            raise
        finally:
            self.at_once -= 1
        return {"done": True}


async def until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not true():
            await asyncio.sleep(0.01)


def test_one_is_answered_and_so_many_wait():
    held = Held()
    app = app_of(Doing(held, waiting=2))

    async def ask() -> list[Request]:
        waiting = [asyncio.ensure_future(Request().to(app)) for _ in range(3)]
        await until(held.begun.is_set)
        turned_away = await Request().to(app)
        held.go.set()
        return [*await asyncio.gather(*waiting), turned_away, await Request().to(app)]

    *answered, turned_away, later = awaited(ask)
    assert [request.status for request in (*answered, later)] == [200] * 4
    assert (turned_away.status, turned_away.headers["retry-after"]) == (503, "5")
    assert "2 requests wait already" in turned_away.error
    assert held.most == 1


def test_what_takes_too_long_is_stopped_and_what_waits_too_long_never_begins():
    held = Held()
    app = app_of(Doing(held, seconds=0.3))
    working, waiting = run(Request(), Request(), app=app)
    assert working.status == 504
    assert "longer than 0.3 seconds" in working.error
    assert held.stopped.wait(5)
    # The second one began when the first was stopped, or had waited for too long by then.
    assert waiting.status in (503, 504)
    held.go.set()
    assert run(Request(), app=app)[0].status == 200


def test_a_step_that_cannot_be_stopped_is_not_waited_for():
    go = threading.Event()

    def deaf(check: Check) -> dict[str, Any]:
        assert go.wait(10)
        return {"done": True}

    app = app_of(Doing(deaf, seconds=0.2))
    first, second = run(Request(), Request(), app=app)
    assert first.status == 504
    assert (second.status, "has waited for 0.2 seconds" in second.error) == (503, True)
    go.set()
    assert run(Request(), app=app)[0].status == 200


def test_nothing_is_done_for_clients_that_have_gone():
    held = Held()
    app = app_of(Doing(held))

    async def ask() -> None:
        leave = asyncio.Event()
        first = asyncio.ensure_future(Request(leave=leave).to(app))
        second = asyncio.ensure_future(Request(leave=leave).to(app))
        await until(held.begun.is_set)
        leave.set()
        await asyncio.gather(first, second)
        await until(held.stopped.is_set)
        held.begun.clear()
        await asyncio.sleep(0.1)
        assert not held.begun.is_set()  # the second one was never begun
        held.go.set()
        assert (await Request().to(app)).status == 200

    awaited(ask)


def test_what_is_stopped_gives_the_model_back():
    served = small_served()
    model = served._model
    before = model.config._attn_implementation
    checks: list[str | None] = []

    def stop() -> None:
        checks.append(model.config._attn_implementation)
        if len(checks) == 3:  # before the explanation, after its first row and its second
            raise KeyError("stop")

    app = app_of(served)
    plain = run(Request(), app=app)[0].body
    explain = served.explain
    served.explain = lambda question, check: explain(question, stop)  # pyright: ignore[reportAttributeAccessIssue]
    with pytest.raises(KeyError):
        run(Request(), app=app)
    assert checks[1] != before  # while it was under way
    del served.__dict__["explain"]
    assert run(Request(), app=app)[0].body == plain
    assert model.config._attn_implementation == before


def test_answers_under_load_are_those_of_one_at_a_time():
    served = small_served()
    app = app_of(served)
    questions = [
        json.dumps({"text": text, "layers": layers}).encode()
        for text in ("not good", "a fine meal", "nobody came")
        for layers in ("all", None)
    ]
    alone = [run(Request([question]), app=app)[0].body for question in questions]
    for start in (0, 3):
        some = run(*(Request([question]) for question in questions[start : start + 3]), app=app)
        assert [request.body for request in some] == alone[start : start + 3]
        assert {request.status for request in some} == {200}
