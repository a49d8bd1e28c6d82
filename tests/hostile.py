"""Texts that try to get out of their place in a page, and a reader of pages."""

from __future__ import annotations

from html.parser import HTMLParser

HOSTILE = [
    "<script>alert(1)</script>",
    "</script><script>alert(1)</script>",
    "<!-- <script>",
    "]]><svg onload=alert(1)>",
    '" onmouseover="alert(1)',
    "{{ 7 * 7 }} {% raw %}",
    "null \x00 byte",
    "\u202eright to left\u202c שלום",
    "emoji \U0001f469\u200d\U0001f680",
    "lone \ud83d surrogate",
    "line \u2028 and \u2029 ends",
    "&lt;b&gt; &amp; &#0;",
    "\x1b[31m\x9b\ufeff",
]


class Read(HTMLParser):
    """A document as a browser reads it: its elements and what is written in them."""

    def __init__(self, page: str):
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.contents: dict[str, list[str]] = {}
        self._inside = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self._inside = tag
        self.contents.setdefault(tag, []).append("")

    def handle_endtag(self, tag: str) -> None:
        self._inside = ""

    def handle_data(self, data: str) -> None:
        if self._inside:
            self.contents[self._inside][-1] += data

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]
