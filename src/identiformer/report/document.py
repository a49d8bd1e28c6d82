"""A whole page in one file: it loads nothing, and nothing in its texts can run.

Scripts and styles stand in the page itself. A Content-Security-Policy names them by their hashes and forbids all
else, so that whatever a text or a label might smuggle in would not run either. What the page shows comes as JSON in an
element that browsers do not run; Jinja escapes what is written as HTML.
"""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Mapping, Sequence
from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from identiformer.printable import printable

# Pages beyond this are slow to open and to send: whoever makes one shows less then, and says so.
LARGEST_PAGE = 10_000_000
# What would end the element or begin a comment; what JavaScript once took for line ends; halves of characters, which
# no file in UTF-8 can hold; and controls.
_TO_ESCAPE = re.compile("[<>&\u2028\u2029\ufeff\x7f-\x9f\ud800-\udfff]")


def document(
    title: str,
    main: Markup,
    data: Mapping[str, Any] | None,
    *,
    scripts: Sequence[str] = ("view",),
    head_note: str = "",
    static: Markup | None = None,
    live: bool = False,
) -> str:
    """A whole HTML document.

    Its landmarks are `header` (with the title as its heading of level 1), `main` and `footer`. Where it shows
    explanations, `main` ends with `<div id="token-view">`, which the script fills.

    Args:
        title: The title and heading of the page; any text.
        main: What stands in `main`, before the token view.
        data: What the token view shows (`packing.view_data`); `None` where the page has none.
        scripts: Which of the scripts in `assets` it has, as of `script_of`; none where it has no token view.
        head_note: A sentence below the heading; any text.
        static: What stands in the token view until the script fills it: for readers without JavaScript.
        live: Whether a server gives the page: it has a token view even without data, and may ask where it came from.

    Returns:
        The document, which can be written as UTF-8.
    """
    from identiformer import __version__

    has_view = data is not None or live
    style = Markup(stylesheet())
    script = Markup(script_of(tuple(scripts))) if has_view else Markup("")
    page = _ENVIRONMENT.get_template("page.html.j2").render(
        title=readable(title),
        version=__version__,
        policy=content_policy(style, script, live),
        style=style,
        script=script,
        main=main,
        has_view=has_view,
        static=static or Markup(""),
        live=live,
        head_note=readable(head_note),
        data="" if data is None else island(data),
    )
    return re.sub("[\x00\ud800-\udfff]", "\ufffd", page)  # of what was not made readable


def fragment(template: str, **values: Any) -> Markup:
    """A part of a page, from a file in `templates`; values are escaped unless they are `Markup`.

    In templates the filter `readable` makes a text of anybody's fit to be seen.
    """
    return Markup(_ENVIRONMENT.get_template(template).render(**values))


def readable(text: str) -> str:
    """A text with what nobody sees, or what turns its direction, written out as escapes; line ends and tabs stay."""
    return printable(text, keep="\n\t")


def island(data: Mapping[str, Any] | str) -> Markup:
    """Data as JSON that can stand in a `<script>`, as JavaScript too: there is no way out of it.

    Raises:
        ValueError: If there is a NaN or an infinity, which JSON has no word for.
    """
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return Markup(_TO_ESCAPE.sub(lambda match: f"\\u{ord(match[0]):04x}", text))


def content_policy(style: str, script: str, live: bool = False) -> str:
    """The Content-Security-Policy of a page: its own style and script, by their hashes, and pictures in the file.

    Args:
        style, script: Exactly what stands between the tags.
        live: Whether the page may ask the server that it came from.
    """
    sources = {
        "default-src": "'none'",
        "script-src": _hash(script) if script else "'none'",
        "style-src": _hash(style) if style else "'none'",
        "img-src": "data:",
        "connect-src": "'self'" if live else "'none'",
        "base-uri": "'none'",
        "form-action": "'none'",
    }
    return "; ".join(f"{name} {source}" for name, source in sources.items())


@cache
def stylesheet() -> str:
    """All of `assets/*.css`, in the order of their names."""
    return _inlined(sorted(name for name in _assets() if name.endswith(".css")))


@cache
def script_of(names: tuple[str, ...]) -> str:
    """Some of the scripts in `assets`, one after the other: `view` is all that begin with a number, else `NAME.js`."""
    view = sorted(name for name in _assets() if name.endswith(".js") and name[0].isdigit())
    return _inlined([file for name in names for file in (view if name == "view" else [f"{name}.js"])])


def _inlined(names: Sequence[str]) -> str:
    folder = files("identiformer.report") / "assets"
    # Line ends as browsers see them: hashes are of that.
    parts = [(folder / name).read_text("utf-8").replace("\r\n", "\n").strip() for name in names]
    joined = "\n".join(parts)
    if re.search(r"</(script|style)|<!--", joined, re.IGNORECASE):
        raise AssertionError(f"one of {', '.join(names)} holds what would end its element")
    return joined


def _assets() -> list[str]:
    return [file.name for file in (files("identiformer.report") / "assets").iterdir()]


def _hash(text: str) -> str:
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"


_ENVIRONMENT = Environment(
    loader=PackageLoader("identiformer.report"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_ENVIRONMENT.filters["readable"] = readable
