"""The server itself: its address, its start, and an end that loses no answer."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from importlib import util
from pathlib import Path
from typing import Any

import pytest

from identiformer.cli import main
from identiformer.errors import InputError
from identiformer.serving import server
from identiformer.serving.limits import Limits
from identiformer.serving.refusal import Refusal
from identiformer.serving.served_model import ServedModel
from identiformer.serving.server import Address, bound, url
from identiformer.serving.working import Worker
from served import Doing, awaited
from small import small_classifier

BODY = b'{"text": "not good"}'


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("served") / "model"
    for part in small_classifier():
        part.save_pretrained(folder)
    return folder


def refused(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    with pytest.raises(SystemExit) as end:
        main(["serve", *map(str, arguments)])
    printed = capsys.readouterr()
    assert (end.value.code, printed.out) == (2, "")
    assert printed.err.count("\n") == 1
    return printed.err


# Its address


def test_a_free_port_is_found_and_one_in_use_is_named(capsys: pytest.CaptureFixture[str], model: Path):
    with contextlib.closing(bound(Address(port=0))) as first:
        port = first.getsockname()[1]
        assert url(first) == f"http://127.0.0.1:{port}/"
        with pytest.raises(
            InputError, match=rf"port {port} of 127.0.0.1 cannot be had .*: give another --port"
        ):
            bound(Address(port=port))
        assert f"port {port} of" in refused(capsys, model, "--port", port)
    with contextlib.closing(bound(Address("localhost", port))) as again:
        assert again.family == socket.AF_INET


def test_addresses_that_are_none(capsys: pytest.CaptureFixture[str], tmp_path: Path):
    for host in ("no such host", "256.0.0.1", "a" * 70, "\udcff"):
        with pytest.raises(InputError, match="is no address of this machine"):
            bound(Address(host, 0))
    with pytest.raises(InputError, match="cannot be had"):
        bound(Address("192.0.2.1", 0))  # somebody else's
    assert "does not exist" in refused(capsys, tmp_path / "none", "--port", 0)
    assert "65535" in refused(capsys, tmp_path, "--port", 65536)


def test_what_is_not_installed_is_named(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, model: Path
):
    find = util.find_spec
    monkeypatch.setattr(util, "find_spec", lambda name: None if name == "uvicorn" else find(name))
    assert "uvicorn, which is not installed: pip install 'identiformer[serve]'" in refused(capsys, model)


@pytest.mark.parametrize(("host", "warned"), [("127.0.0.1", False), ("localhost", False), ("0.0.0.0", True)])
def test_whoever_opens_it_to_others_is_warned(monkeypatch: pytest.MonkeyPatch, host: str, warned: bool):
    said: list[str] = []
    sockets: list[socket.socket] = []
    monkeypatch.setattr(ServedModel, "load", lambda name, limits: Doing(lambda check: {}))
    monkeypatch.setattr(server.uvicorn.Server, "run", lambda self, given: sockets.extend(given))
    assert server.serve("any", Address(host, 0), Limits(), 1.0, said.append) == 0
    assert [
        sentence.startswith("warning: 0.0.0.0 can be reached from other machines") for sentence in said
    ] == ([True] * warned)
    assert [listening.fileno() for listening in sockets] == [-1]  # closed


# The worker at its end


def test_a_worker_that_stops_tells_all_who_wait():
    worker = Worker(waiting=5, seconds=20.0)
    begun, go = threading.Event(), threading.Event()

    def deaf(check: Any) -> str:
        begun.set()
        assert go.wait(10)
        return "done"

    async def ask() -> list[Any]:
        gone = asyncio.get_running_loop().create_future()
        asked = [asyncio.ensure_future(worker.do(deaf, gone)) for _ in range(3)]
        while not begun.is_set():
            await asyncio.sleep(0.01)
        worker.stop()
        asked.append(asyncio.ensure_future(worker.do(deaf, gone)))
        return await asyncio.gather(*asked, return_exceptions=True)

    refusals = awaited(ask)
    assert len(refusals) == 4
    for refusal in refusals:
        assert isinstance(refusal, Refusal)
        assert (refusal.status, refusal.sentence) == (503, "the server stops")
    assert not worker.ended(0.01)
    go.set()
    assert worker.ended(5)


# As a process


@contextlib.contextmanager
def serving(model: Path, *arguments: str) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """A server of its own process, once it is ready, and its port."""
    program = "import sys; from identiformer.cli import main; sys.argv[0] = 'identiformer'; main()"
    process = subprocess.Popen(
        [sys.executable, "-W", "error", "-c", program, "serve", str(model), "--port", "0", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )
    try:
        assert process.stderr is not None
        ready, _, _ = select.select([process.stderr], [], [], 60)
        assert ready
        line = process.stderr.readline().decode()
        assert line.startswith("serving model at http://127.0.0.1:"), line
        yield process, int(line.rstrip("/\n").rsplit(":", 1)[1])
    finally:
        process.kill()
        process.communicate()


def connected(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=30)


def answer(connection: socket.socket) -> tuple[int, dict[str, str], bytes]:
    """The whole answer on a connection that ends with it."""
    received = b""
    while part := connection.recv(65536):
        received += part
    head, _, body = received.partition(b"\r\n\r\n")
    status, *lines = head.decode().split("\r\n")
    return int(status.split()[1]), dict(line.lower().split(": ", 1) for line in lines), body


def head_of(length: int) -> bytes:
    return (
        "POST /api/explain HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        f"Content-Length: {length}\r\n\r\n"
    ).encode()


def refuses(port: int) -> bool:
    try:
        connected(port).close()
    except OSError:
        return True
    return False


@pytest.mark.slow
def test_ctrl_c_loses_no_answer_under_way(model: Path):
    """A request whose body is half there when the signal comes is answered; new ones are not taken."""
    with serving(model) as (process, port):
        with connected(port) as under_way, connected(port) as idle:
            under_way.sendall(head_of(len(BODY)) + BODY[:8])
            idle.sendall(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            received = b""
            while b'{"status":"ok"}' not in received:  # so the one before has been read, too
                received += idle.recv(65536)
            process.send_signal(signal.SIGINT)
            assert idle.recv(65536) == b""
            assert refuses(port)
            under_way.sendall(BODY[8:])
            code, _, body = answer(under_way)
        assert code == 200
        assert json.loads(body)["text"] == "not good"
        assert process.wait(timeout=30) == 130
        out, err = process.communicate()
        assert (out, err) == (b"", b"stopped\n")


@pytest.mark.slow
def test_the_grace_ends(model: Path):
    """A body that never comes holds nobody up for longer, and hears of it; and a broken request is no fault."""
    with serving(model, "--grace", "0.5") as (process, port):
        with connected(port) as broken:
            broken.sendall(b"NONSENSE\r\n\r\n")
            assert answer(broken)[0] == 400
        with connected(port) as never:
            never.sendall(head_of(100) + b"{")
            with connected(port) as after:
                after.sendall(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
                assert answer(after)[0] == 200
            process.send_signal(signal.SIGTERM)
            code, _, body = answer(never)
            assert (code, json.loads(body)) == (503, {"error": "the server stops"})
            assert process.wait(timeout=30) == 0
        assert process.stderr is not None
        said = process.stderr.read().decode()
        assert said == "stopped\n"  # and nothing of uvicorn's
