"""Answers that refuse: a status and one sentence."""

from __future__ import annotations

from collections.abc import Mapping

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from identiformer.serving.answers import json_answer

_SENTENCES = {
    404: "there is nothing at this address: /api lists what there is",
    405: "this address does not take that method: /api says which it takes",
}


class Refusal(Exception):
    """A request that is not answered; raised anywhere on the way.

    Args:
        status: The status of the answer.
        sentence: What is wrong, where, and how to mend it.
        headers: Further headers.
    """

    def __init__(self, status: int, sentence: str, headers: Mapping[str, str] | None = None):
        super().__init__(sentence)
        self.status, self.sentence, self.headers = status, sentence, headers

    def response(self) -> Response:
        """As it is sent."""
        return json_answer({"error": self.sentence}, self.status, self.headers)


async def refuse(_request: Request, refusal: Exception) -> Response:
    """Send a refusal: what the application calls where one is raised."""
    assert isinstance(refusal, Refusal)
    return refusal.response()


async def refuse_route(_request: Request, error: Exception) -> Response:
    """Send what routing refuses, which is no address or another method, like all other refusals."""
    assert isinstance(error, HTTPException)
    return Refusal(
        error.status_code, _SENTENCES.get(error.status_code, error.detail), error.headers
    ).response()


async def fail(_request: Request, _error: Exception) -> Response:
    """Tell of a fault of ours without its particulars: the server's own output has those."""
    return Refusal(500, "a fault of the server's: its standard error says more").response()
