"""The server: its socket, its start and its end."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
import sys
from collections.abc import Callable, Collection, Generator
from dataclasses import dataclass
from types import FrameType

import uvicorn

from identiformer.errors import InputError
from identiformer.serving.application import application
from identiformer.serving.connections import Connection, only_faults
from identiformer.serving.guard import is_loopback
from identiformer.serving.limits import Limits
from identiformer.serving.served_model import ServedModel
from identiformer.serving.working import Worker

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
# Seconds that refusals have to be sent after the grace, and then work to end that cannot be stopped.
_LAST = 0.5


@dataclass(frozen=True)
class Address:
    """Where to serve.

    Args:
        host: A name or an address of this machine.
        port: A port; 0 for any that is free.
        allowed_hosts: Further names by which the server may be asked.
    """

    host: str = "127.0.0.1"
    port: int = 8000
    allowed_hosts: Collection[str] = ()


def serve(model: str, address: Address, limits: Limits, grace: float, say: Callable[[str], None]) -> int:
    """Serve a model until a signal comes; then finish what is under way.

    Args:
        model: A model folder or a hub name.
        address: Where.
        limits: What may be asked.
        grace: How many seconds answers under way have to be finished after a signal.
        say: Called with a sentence when the server is ready, and before that if others could reach it.

    Returns:
        The exit status: 130 where SIGINT (Ctrl-C) has ended it, else 0.

    Raises:
        InputError: If there is no such model, nothing of it can be explained, or the address cannot be had.
    """
    listening = bound(address)  # before the model is loaded: nobody should wait for that in vain
    with contextlib.closing(listening):
        served = ServedModel.load(model, limits)
        worker = Worker(limits.waiting, limits.seconds)
        app = application(served, worker, address.host, address.allowed_hosts)
        if not is_loopback(address.host):
            say(
                f"warning: {address.host} can be reached from other machines, and there is no password: "
                "whoever reaches it can use the model"
            )
        config = uvicorn.Config(
            app,
            http=Connection,
            ws="none",
            lifespan="off",
            log_config=None,  # faults go to standard error, nothing else is said
            access_log=False,
            proxy_headers=False,
            server_header=False,
            workers=1,
        )
        logging.getLogger("uvicorn.error").addFilter(only_faults)
        server = _Server(config, grace, worker, lambda: say(f"serving {served.name} at {url(listening)}"))
        server.run([listening])
    worker.stop()
    if not worker.ended(_LAST):
        # A step in C++ goes on. Were Python to end around it, it could crash instead.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(server.status)
    return server.status


def bound(address: Address) -> socket.socket:
    """A socket that is bound to an address and does not listen yet.

    Raises:
        InputError: If that cannot be.
    """
    host, port = address.host, address.port
    try:
        found = socket.getaddrinfo(host.strip("[]"), port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (socket.gaierror, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or "it is no name"
        raise InputError(
            f"--host {host} is no address of this machine ({reason}): give 127.0.0.1, or 0.0.0.0 for all"
        ) from None
    # IPv4 first: "localhost" is often both, and addresses are typed as IPv4.
    family, kind, protocol, _, place = sorted(found, key=lambda one: one[0] != socket.AF_INET)[0]
    listening = socket.socket(family, kind, protocol)
    if os.name == "posix":  # on Windows it would share a port that is in use
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind(place)
        listening.listen(1)  # two sockets may be bound to a port before one listens
    except OSError as error:
        listening.close()
        if error.errno is not None and error.strerror:
            reason = error.strerror[0].lower() + error.strerror[1:]
        else:
            reason = str(error)
        raise InputError(
            f"port {port} of {host} cannot be had ({reason}): give another --port, or 0 for one that is free"
        ) from None
    return listening


def url(listening: socket.socket) -> str:
    """The address of a bound socket, as a browser takes it."""
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"


class _Server(uvicorn.Server):
    """Uvicorn's server, which tells when it is ready and ends on signals without dying of them.

    Args:
        config: Uvicorn's.
        grace: Seconds for answers under way.
        worker: What does the work.
        ready: Called when requests are taken.
    """

    def __init__(self, config: uvicorn.Config, grace: float, worker: Worker, ready: Callable[[], None]):
        super().__init__(config)
        # Some more, for the refusals of what is left. Uvicorn says that it takes whole seconds, and takes any.
        config.timeout_graceful_shutdown = grace + _LAST  # pyright: ignore[reportAttributeAccessIssue]
        self._grace, self._worker, self._ready = grace, worker, ready
        self.status = 0  # 130 after Ctrl-C, as shells have it

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Take requests, and say so."""
        await super().startup(sockets)
        self._ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Take no more requests; end those under way in time, the last of them with a refusal."""

        late = asyncio.get_running_loop().call_later(self._grace, self._worker.stop)
        try:
            await super().shutdown(sockets)
        finally:
            late.cancel()

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """As uvicorn's, but signals that were heeded are not raised again at the end."""
        former = {number: signal.signal(number, self.handle_exit) for number in _SIGNALS}
        try:
            yield
        finally:
            for number, handler in former.items():
                signal.signal(number, handler)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """End; at once where a second Ctrl-C comes."""
        if sig == signal.SIGINT:
            self.status = 130
        super().handle_exit(sig, frame)
