"""What stands between the network and the application: whose requests are answered, and the headers of all answers."""

from __future__ import annotations

import socket
from collections.abc import Collection
from ipaddress import ip_address
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from identiformer.serving.refusal import Refusal

_SAFE = ("GET", "HEAD")
# Of answers that are no page. Pages have a policy of their own.
_POLICY = "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class Hosts:
    """The names under which the server may be asked.

    A page elsewhere can have its own name point to this machine (DNS rebinding); its browser then takes our answers for
    that page's own. The name is still in the request's Host. An address cannot be made to point elsewhere.

    Args:
        host: What the server is bound to.
        others: Further names that it is known by.
    """

    def __init__(self, host: str, others: Collection[str] = ()):
        self._loopback = is_loopback(host)
        names = {"localhost", host, *others}
        if not self._loopback:
            names.add(socket.gethostname())
        self._names = {name.lower().strip("[]") for name in names}

    def allow(self, host: str) -> bool:
        """Whether a request with this Host is answered."""
        try:
            name = (urlsplit(f"//{host}").hostname or "").lower()
        except ValueError:
            return False
        if not name or "@" in host or "/" in host:
            return False
        if name in self._names:
            return True
        try:
            address = ip_address(name)
        except ValueError:
            return False
        return address.is_loopback or not self._loopback


def is_loopback(host: str) -> bool:
    """Whether nobody but this machine can reach what is bound to a host."""
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host.lower() == "localhost"


class Guard:
    """Refuses requests of other pages and under other names; gives all answers the headers that browsers heed.

    Args:
        app: The application.
        hosts: The names under which it may be asked.
    """

    def __init__(self, app: ASGIApp, hosts: Hosts):
        self._app, self._hosts = app, hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: D102
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
                headers.setdefault("Content-Security-Policy", _POLICY)
            await send(message)

        refusal = self._refusal(scope["method"], Headers(scope=scope))
        answer = self._app if refusal is None else refusal.response()
        await answer(scope, receive, send_with_headers)

    def _refusal(self, method: str, headers: Headers) -> Refusal | None:
        hosts = headers.getlist("host")
        if len(hosts) != 1 or not self._hosts.allow(hosts[0]):
            return Refusal(421, "the Host is none of this server's: ask it by its address (or --allow-host)")
        if method in _SAFE:
            return None
        # Browsers send it with every POST; programs need not.
        for origin in headers.getlist("origin"):
            if origin.lower() not in {f"{scheme}://{hosts[0].lower()}" for scheme in ("http", "https")}:
                return Refusal(403, "the request comes from a page of another origin: only its own may ask")
        if headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
            return Refusal(403, "the request comes from a page of another origin: only its own may ask")
        return None
