"""Bodies of requests: read up to a limit, and understood as what an endpoint takes."""

from __future__ import annotations

import asyncio
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from starlette.requests import Request

from identiformer.printable import printable
from identiformer.serving.limits import Limits
from identiformer.serving.refusal import Refusal

Model = TypeVar("Model", bound=BaseModel)

_CLOSE = {"Connection": "close"}  # what is left of the body is not wanted
# A client that sends too much hears of it only when it has sent most: so much more is taken and thrown away, times
# the limit, and for so many seconds.
_BEYOND, _BEYOND_SECONDS = 4, 2.0


async def read(request: Request, kind: type[Model], limits: Limits) -> Model:
    """The body of a request.

    Args:
        request: The request.
        kind: What its JSON has to be.
        limits: How large it may be, and how long it may take to come.

    Raises:
        Refusal: With 400, 408, 413, 415 or 422.
    """
    _check_type(request)
    body = await _body(request, limits)
    try:
        # It looks at the JSON itself: halves of characters, NaN and nesting without end are none to it.
        return kind.model_validate_json(body)
    except ValidationError as error:
        faults = error.errors(include_url=False, include_input=False)
        if faults[0]["type"] == "json_invalid":
            why = faults[0]["msg"].removeprefix("Invalid JSON: ")
            raise Refusal(400, f"the body is no JSON: {_line(why)}") from None
        raise Refusal(422, _fault(faults)) from None


def _check_type(request: Request) -> None:
    given = request.headers.get("content-type", "")
    kind, _, parameters = given.partition(";")
    charset = parameters.replace(" ", "").replace('"', "").lower()
    if kind.strip().lower() != "application/json" or charset not in ("", "charset=utf-8"):
        raise Refusal(
            415, "the body is of another type: send JSON in UTF-8, with Content-Type: application/json"
        )
    if request.headers.get("content-encoding", "identity").lower() != "identity":
        raise Refusal(415, "the body is compressed: send it as it is")


async def _body(request: Request, limits: Limits) -> bytes:
    large = Refusal(413, f"the body is larger than {limits.body} bytes: send less", _CLOSE)
    said = request.headers.get("content-length", "0")
    if not said.isdecimal() or len(said) > 18 or int(said) > limits.body:
        raise large
    try:
        async with asyncio.timeout(limits.body_seconds):
            body = await _up_to(request, limits.body)
    except TimeoutError:
        raise Refusal(408, f"the body did not come within {limits.body_seconds:g} seconds", _CLOSE) from None
    if body is None:
        raise large
    return body


async def _up_to(request: Request, most: int) -> bytes | None:
    """The body of a request; `None` where it is larger.

    Raises:
        Refusal: If the client goes before its end.
    """
    body = bytearray()
    more = True
    while more:
        message = await request.receive()
        if message["type"] == "http.disconnect":
            raise Refusal(400, "the client has gone")  # nobody reads it
        body += message.get("body", b"")
        more = message.get("more_body", False)
        if len(body) > most:
            if more:
                await _throw_away(request, _BEYOND * most)
            return None
    return bytes(body)


async def _throw_away(request: Request, most: int) -> None:
    """Take some more of a body: a connection closed upon bytes that nobody read may lose the answer, too."""
    try:
        async with asyncio.timeout(_BEYOND_SECONDS):
            more = True
            while more and most > 0:
                message = await request.receive()
                most -= len(message.get("body", b""))
                more = message.get("more_body", False)
    except TimeoutError:
        return


def _fault(faults: list[Any]) -> str:
    """The first of the faults that were found, in a sentence."""
    place = ".".join(str(part) for part in faults[0]["loc"])
    what = faults[0]["msg"]
    if faults[0]["type"] == "extra_forbidden":
        what = "there is no such field"
    elif faults[0]["type"] == "missing":
        what = "this field is missing"
    # Where one of several forms would do, each says what it would have.
    field = faults[0]["loc"][0] if faults[0]["loc"] else None
    others = [fault["msg"] for fault in faults[1:] if fault["loc"] and fault["loc"][0] == field]
    if others and field is not None:
        place, what = str(field), ", or ".join(dict.fromkeys([what, *others]))
    return _line(f"{place}: {what}" if place else what)


def _line(text: str) -> str:
    """One line of some length: names of fields are the client's."""
    line = printable(" ".join(text.split()))
    return line if len(line) <= 300 else f"{line[:300]}…"
