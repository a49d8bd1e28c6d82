"""Connections: how long one may be without a whole request, how many there may be, and what is said to no HTTP."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from identiformer.serving.answers import encoded

HEAD_SECONDS = 10.0
MOST = 256


class Connection(H11Protocol):
    """Uvicorn's, which waits without end for the head of a request and takes any number of connections.

    The head of a request has `head_seconds` from the opening of the connection or from the answer before; bytes that
    trickle in win no more. (Bodies have a limit of their own, work another.) A connection above `most` is told so and
    closed.
    """

    head_seconds = HEAD_SECONDS
    most = MOST

    def __init__(self, *arguments: Any, **settings: Any):
        super().__init__(*arguments, **settings)
        self._head: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for a request, or turn away."""
        super().connection_made(transport)
        if len(self.connections) > self.most:
            self._refuse(503, "the server is busy: too many connections are open; ask again in a while")
        else:
            self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no more."""
        self._no_wait()
        super().connection_lost(exc)

    def handle_events(self) -> None:
        """Take what has come; where that is the whole head of a request, its time does not run out any more."""
        if self.transport.is_closing():
            return
        super().handle_events()
        if self._answering():
            self._no_wait()

    def on_response_complete(self) -> None:
        """Begin to wait for the next request."""
        if not self.transport.is_closing():
            self._wait()
        super().on_response_complete()

    def shutdown(self) -> None:
        """End, where that has not begun."""
        if not self.transport.is_closing():
            super().shutdown()

    def send_400_response(self, msg: str) -> None:
        """Refuse what is no HTTP, as all else is refused: in JSON."""
        if (
            self._answering()
        ):  # bytes after a request, before its answer: there is no answer of their own to them
            self.transport.close()
        else:
            self._refuse(400, "what was sent is no HTTP request")

    def _unsupported_upgrade_warning(self) -> None:
        """Nothing: the request is answered as if it had asked for no WebSocket, which HTTP allows."""

    def _answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _wait(self) -> None:
        self._no_wait()
        self._head = self.loop.call_later(self.head_seconds, self._late)

    def _no_wait(self) -> None:
        if self._head is not None:
            self._head.cancel()
            self._head = None

    def _late(self) -> None:
        if self.transport.is_closing() or self._answering():
            return
        if self.conn.trailing_data[0]:
            self._refuse(408, f"the head of a request did not come within {self.head_seconds:g} seconds")
        else:  # nothing has come, and nobody waits for an answer
            self.transport.close()

    def _refuse(self, status: int, sentence: str) -> None:
        """Answer without the application, and close."""
        body = encoded({"error": sentence})
        headers = [
            ("Content-Type", "application/json"),
            ("Content-Length", str(len(body))),
            ("X-Content-Type-Options", "nosniff"),
            ("Cache-Control", "no-store"),
            ("Connection", "close"),
        ]
        try:
            for event in (
                h11.Response(status_code=status, headers=headers),
                h11.Data(data=body),
                h11.EndOfMessage(),
            ):
                self.transport.write(self.conn.send(event) or b"")
        except h11.LocalProtocolError:  # an answer is under way: it is cut
            pass
        self.transport.close()


def only_faults(record: logging.LogRecord) -> bool:
    """Whether uvicorn says of a fault of ours. What clients send, and that an end cancels what is late, is none."""
    return record.exc_info is not None
