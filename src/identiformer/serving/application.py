"""The application: what is answered where."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection
from dataclasses import asdict
from typing import Any, TypeVar

from pydantic import BaseModel
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from identiformer.errors import InputError
from identiformer.serving import schemas
from identiformer.serving.answers import encoded, json_answer
from identiformer.serving.bodies import read
from identiformer.serving.guard import Guard, Hosts
from identiformer.serving.openapi import openapi
from identiformer.serving.pages import Page, api_page, live_page
from identiformer.serving.refusal import Refusal, fail, refuse, refuse_route
from identiformer.serving.served_model import Question, ServedModel
from identiformer.serving.working import Check, Worker, stopping

Asked = TypeVar("Asked", bound=BaseModel)
Work = Callable[[Check], dict[str, Any]]


def application(
    served: ServedModel, worker: Worker, host: str = "127.0.0.1", allowed_hosts: Collection[str] = ()
) -> ASGIApp:
    """The ASGI application that serves a model.

    Args:
        served: The model.
        worker: What does the work on it.
        host: What the server is bound to.
        allowed_hosts: Further names that it is known by.
    """
    reading = _Places(served.limits.reading)

    def asking(
        kind: type[Asked], work_of: Callable[[Asked], Work]
    ) -> Callable[[Request], Awaitable[Response]]:
        async def answered(request: Request) -> bytes:
            with reading:
                asked = await read(request, kind, served.limits)
            work = work_of(asked)
            gone = asyncio.ensure_future(_gone(request))
            try:
                # As bytes, so that writing them out does not hold up others.
                return await worker.do(lambda check: encoded(work(check)), gone)
            finally:
                gone.cancel()

        async def endpoint(request: Request) -> Response:
            try:
                return Response(await answered(request), media_type="application/json")
            except InputError as error:
                raise Refusal(422, " ".join(str(error).split())) from None
            except asyncio.CancelledError:  # only a server that has to end does that
                raise stopping() from None

        return endpoint

    def predict(asked: schemas.PredictRequest) -> Work:
        texts = [asked.text] if isinstance(asked.text, str) else asked.text
        pairs = [asked.text_pair] if isinstance(asked.text_pair, str) else asked.text_pair
        return lambda check: served.predict(texts, pairs, check)

    def explain(asked: schemas.ExplainRequest) -> Work:
        question = Question(
            asked.text, asked.text_pair, asked.rows, asked.layers, asked.heads, asked.intervals
        )
        return lambda check: served.explain(question, check)

    def alternative(asked: schemas.AlternativeRequest) -> Work:
        return lambda check: served.alternative(
            asked.text,
            asked.text_pair,
            layer=asked.layer,
            head=asked.head,
            row=asked.row,
            goal=asked.goal,
            word=asked.word,
            level=asked.level,
            check=check,
        )

    app = Starlette(
        routes=[
            Route("/", _page(live_page(served))),
            Route("/api", _page(api_page(served.name))),
            Route("/openapi.json", _constant(openapi())),
            Route("/healthz", _constant({"status": "ok"})),
            Route("/api/model", _constant(_facts(served))),
            Route("/api/predict", asking(schemas.PredictRequest, predict), methods=["POST"]),
            Route("/api/explain", asking(schemas.ExplainRequest, explain), methods=["POST"]),
            Route("/api/alternative", asking(schemas.AlternativeRequest, alternative), methods=["POST"]),
        ],
        exception_handlers={Refusal: refuse, HTTPException: refuse_route, Exception: fail},
    )
    app.router.redirect_slashes = False
    # Around all of it: its headers are on the answer to a fault, too.
    return Guard(app, Hosts(host, allowed_hosts))


class _Places:
    """So many at a time, and a refusal for whoever comes then."""

    def __init__(self, count: int):
        self._left = count

    def __enter__(self) -> None:
        if not self._left:
            raise Refusal(
                503,
                "the server is busy: too many requests come in; ask again in a while",
                {"Retry-After": "1"},
            )
        self._left -= 1

    def __exit__(self, *_: object) -> None:
        self._left += 1


async def _gone(request: Request) -> None:
    """Return when the client has gone; there is nothing else to come once its body is read."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _constant(value: dict[str, Any]) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(_request: Request) -> Response:
        return json_answer(value)

    return endpoint


def _page(page: Page) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(_request: Request) -> Response:
        return HTMLResponse(page.html, headers={"Content-Security-Policy": page.policy})

    return endpoint


def _facts(served: ServedModel) -> dict[str, Any]:
    limits = asdict(served.limits)
    return {
        "model": served.name,
        "labels": served.labels,
        "takes_pair": served.takes_pair,
        "pooled": served.pooled,
        "max_tokens": min(served.most_tokens, served.limits.tokens),
        "layers": [{"layer": layer, "heads": heads} for layer, heads in served.layers.items()],
        "limits": {name: limits[name] for name in schemas.LimitsAnswer.model_fields},
    }
