"""Connections without a whole request, more of them than are taken, and what is no HTTP."""

from __future__ import annotations

import json
import logging
import socket
import threading
import time
from collections.abc import Iterator

import pytest
import uvicorn

from identiformer.serving.connections import Connection, only_faults
from identiformer.serving.server import Address, bound
from served import app_of, small_served

GET = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n"


class Hasty(Connection):
    """With limits that are soon met."""

    head_seconds = 0.3
    most = 3


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    listening = bound(Address(port=0))
    config = uvicorn.Config(
        app_of(small_served()), http=Hasty, ws="none", lifespan="off", log_config=None, access_log=False
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, args=([listening],), daemon=True)
    number = listening.getsockname()[1]
    thread.start()
    while not server.started:
        time.sleep(0.01)
    yield number
    server.should_exit = True
    thread.join(10)


def connected(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=10)


def answer(connection: socket.socket) -> tuple[int, str]:
    """The status and the sentence of an answer after which the connection is closed."""
    received = b""
    while part := connection.recv(65536):
        received += part
    head, _, body = received.partition(b"\r\n\r\n")
    assert b"application/json" in head
    return int(head.split()[1]), json.loads(body)["error"]


def fine(connection: socket.socket) -> None:
    """Read an answer of /healthz to its end."""
    received = b""
    while not received.endswith(b'{"status":"ok"}'):
        part = connection.recv(65536)
        assert part, received
        received += part


def test_a_head_that_never_ends_is_not_waited_for(port: int):
    with connected(port) as half:
        half.sendall(GET)
        assert answer(half) == (408, "the head of a request did not come within 0.3 seconds")
    with connected(port) as silent:
        assert silent.recv(10) == b""


def test_bytes_that_trickle_in_win_no_time(port: int):
    begun = time.monotonic()
    with connected(port) as slow:
        for byte in GET + b"A: " + b"b" * 100:
            try:
                slow.sendall(bytes([byte]))
            except OSError:  # closed
                break
            time.sleep(0.05)
        else:
            pytest.fail("all was taken")
        assert time.monotonic() - begun < 3


def test_a_connection_is_kept_for_the_next_request_as_long_as_for_the_first(port: int):
    with connected(port) as again:
        for _ in range(2):
            again.sendall(GET + b"\r\n")
            fine(again)
            time.sleep(0.15)
        again.sendall(GET)
        assert answer(again)[0] == 408


def test_no_more_connections_than_are_taken(port: int):
    many = [connected(port) for _ in range(3)]
    with connected(port) as other:
        code, said = answer(other)
        assert (code, "too many connections" in said) == (503, True)
    for connection in many:
        connection.close()


def test_what_is_no_http_is_refused_in_json(port: int):
    for sent in (b"NONSENSE\r\n\r\n", b"\x16\x03\x01\x02\x00\r\n\r\n", b"GET / HTTP/1.1\r\n\r\n"):
        with connected(port) as broken:
            broken.sendall(sent)
            assert answer(broken) == (400, "what was sent is no HTTP request")


def test_a_websocket_is_answered_as_any_request(port: int, caplog: pytest.LogCaptureFixture):
    with connected(port) as upgrading, caplog.at_level(logging.WARNING):
        upgrading.sendall(GET + b"Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
        fine(upgrading)
    assert caplog.records == []


def test_only_faults_are_logged():
    def record(fault: object) -> logging.LogRecord:
        return logging.LogRecord("uvicorn.error", logging.ERROR, "", 1, "said", None, fault)  # type: ignore[arg-type]

    assert not only_faults(record(None))
    assert only_faults(record((ValueError, ValueError("wrong"), None)))
