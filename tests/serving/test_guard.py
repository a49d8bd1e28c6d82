"""Who is answered, and the headers that keep a browser from running what it should not."""

from __future__ import annotations

import re
from base64 import b64encode
from hashlib import sha256
from html.parser import HTMLParser

import pytest
from starlette.testclient import TestClient

from identiformer.serving.guard import Hosts, is_loopback
from served import ORIGIN, Doing, client_of

HOSTILE = "</script><script>alert(1)</script>\"'><img src=x onerror=alert(1)>{{ 7*7 }}{% if %}\u202e\x00"


class Tags(HTMLParser):
    """The elements of a page and their attributes, as a browser reads them."""

    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()
        self.attributes: set[str] = set()
        self.links: list[tuple[str, str]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.add(tag)
        self.attributes |= {name for name, _ in attrs}
        self.links += [(name, value or "") for name, value in attrs if name in ("src", "href", "action")]


@pytest.fixture(scope="module")
def client() -> TestClient:
    return client_of(Doing(lambda check: {}))


@pytest.mark.parametrize(
    ("bound", "host", "allowed"),
    [
        ("127.0.0.1", "127.0.0.1:8000", True),
        ("127.0.0.1", "localhost", True),
        ("127.0.0.1", "LOCALHOST:1", True),
        ("127.0.0.1", "[::1]:8000", True),
        ("127.0.0.1", "127.8.8.8", True),
        ("localhost", "127.0.0.1:8000", True),
        ("127.0.0.1", "evil.example:8000", False),
        ("127.0.0.1", "localhost.evil.example", False),
        ("127.0.0.1", "127.0.0.1.evil.example", False),
        ("127.0.0.1", "192.168.0.7:8000", False),
        ("127.0.0.1", "known.example", True),
        ("127.0.0.1", "", False),
        ("127.0.0.1", "localhost@evil.example", False),
        ("127.0.0.1", "evil.example/localhost", False),
        ("127.0.0.1", "[::1", False),
        ("0.0.0.0", "192.168.0.7:8000", True),
        ("0.0.0.0", "[2001:db8::1]:8000", True),
        ("0.0.0.0", "evil.example", False),
        ("0.0.0.0", "KNOWN.example:1", True),
        ("::", "localhost:8000", True),
    ],
)
def test_names_that_others_could_point_here_are_refused(bound: str, host: str, allowed: bool):
    assert Hosts(bound, ["known.example"]).allow(host) is allowed


def test_which_addresses_only_this_machine_reaches():
    assert [is_loopback(host) for host in ("127.0.0.1", "::1", "[::1]", "localhost", "127.9.9.9")] == [
        True
    ] * 5
    assert [is_loopback(host) for host in ("0.0.0.0", "::", "192.168.0.7", "example.org", "")] == [False] * 5


def test_other_names_get_nothing(client: TestClient):
    for path in ("/", "/api/model", "/healthz", "/openapi.json"):
        assert client.get(path).status_code == 200
        response = client.get(path, headers={"Host": "evil.example"})
        assert response.status_code == 421
        assert "Host" in response.json()["error"]
    assert (
        client.post("/api/explain", json={"text": "a"}, headers={"Host": "evil.example"}).status_code == 421
    )


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        ({}, 200),
        ({"Origin": ORIGIN}, 200),
        ({"Origin": ORIGIN, "Sec-Fetch-Site": "same-origin"}, 200),
        ({"Sec-Fetch-Site": "none"}, 200),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": ""}, 403),
        ({"Origin": "http://127.0.0.1:9000"}, 403),
        ({"Origin": "http://127.0.0.1:8000.evil.example"}, 403),
        ({"Origin": "http://[::1"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-site"}, 403),
    ],
)
def test_other_pages_may_not_ask(client: TestClient, sent: dict[str, str], status: int):
    response = client.post("/api/explain", json={"text": "a"}, headers=sent)
    assert response.status_code == status
    assert "access-control-allow-origin" not in response.headers


def test_every_answer_has_the_headers(client: TestClient):
    for response in (
        client.get("/"),
        client.get("/api"),
        client.get("/api/model"),
        client.get("/nothing"),
        client.get("/", headers={"Host": "evil.example"}),
        client.post("/api/explain", content=b"{", headers={"Content-Type": "application/json"}),
        client.request("PUT", "/"),
    ):
        headers = response.headers
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"
        policy = headers["content-security-policy"]
        assert policy.startswith("default-src 'none';")
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert "server" not in headers


@pytest.mark.parametrize("path", ["/", "/api"])
def test_pages_run_only_what_their_policy_names(path: str):
    served = Doing(lambda check: {})
    served.name, served.labels = HOSTILE, [HOSTILE, "\ud800"]
    response = client_of(served).get(path)
    assert response.status_code == 200
    page, policy = response.text, response.headers["content-security-policy"]
    scripts = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    styles = re.findall(r"<style>(.*?)</style>", page, re.DOTALL)
    assert len(scripts) == len(re.findall("<script", page)) == (path == "/")
    assert len(styles) == len(re.findall("<style", page)) == 1
    for kind, parts in (("script-src", scripts), ("style-src", styles)):
        hashes = [f"'sha256-{b64encode(sha256(part.encode()).digest()).decode()}'" for part in parts]
        (named,) = re.findall(rf"{kind} ([^;]*)", policy)
        assert named == (" ".join(hashes) or "'none'")
    assert ("connect-src 'self'" in policy) == (path == "/")
    tags = Tags()
    tags.feed(page)
    assert not {"img", "iframe", "object", "embed"} & tags.names
    assert not [name for name in tags.attributes if name.startswith("on") or name == "style"]
    assert not [value for name, value in tags.links if not value.startswith(("#", "/", "data:,"))]
    text = page
    for part in scripts + styles:
        text = text.replace(part, "")
    assert "{{ 7*7 }}" in text
    for character in ("\x00", "\u202e", "\ud800"):
        assert character not in text


def test_the_form_fits_the_model(client: TestClient):
    page = client.get("/").text
    assert "ask-layers" not in page.split("<script>")[0]  # it has one layer
    assert "ask-pair" not in page.split("<script>")[0]
    served = Doing(lambda check: {})
    served.takes_pair, served.layers, served.pooled = True, {0: [0], 2: [0, 5]}, False
    form = client_of(served).get("/").text.split("<script>")[0]
    assert 'for="ask-pair"' in form
    assert re.findall(r'<option value="(\w*)">', form) == ["", "all", "0", "2", "", "0", "5", "1", "8", "all"]


def test_the_page_of_the_endpoints_names_all_of_them(client: TestClient):
    page = client.get("/api").text
    document = client.get("/openapi.json").json()
    for path in document["paths"]:
        assert path in page
    for name in document["components"]["schemas"]:
        assert f'id="{name}"' in page
    for target in re.findall(r'href="#(\w+)"', page):
        assert f'id="{target}"' in page
