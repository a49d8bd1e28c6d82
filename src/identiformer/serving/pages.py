"""The pages of the server: the one that explains what is typed, and the one that describes the endpoints."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from identiformer.report.document import content_policy, document, fragment, script_of, stylesheet

if TYPE_CHECKING:
    from identiformer.serving.served_model import ServedModel

_SCRIPTS = ("view", "serve")


@dataclass(frozen=True)
class Page:
    """A page and its Content-Security-Policy, which holds even where the page's own is not read.

    Args:
        html: The document.
        policy: As it stands in the header; that the page is in no frame, only a header can say.
    """

    html: str
    policy: str


def live_page(served: ServedModel) -> Page:
    """Where a text is typed and explained."""
    main = fragment(
        "serve.html.j2",
        name=served.name,
        labels=served.labels,
        takes_pair=served.takes_pair,
        pooled=served.pooled,
        layers=served.layers,
        heads=sorted({head for heads in served.layers.values() for head in heads}),
        limits=served.limits,
        most_tokens=served.most_tokens,
    )
    html = document(
        "Attention behind a prediction",
        main,
        None,
        scripts=_SCRIPTS,
        head_note=f"Model: {served.name}",
        live=True,
    )
    return Page(html, _policy(content_policy(stylesheet(), script_of(_SCRIPTS), live=True)))


def api_page(name: str) -> Page:
    """What the endpoints take and give."""
    from identiformer.serving.openapi import OPERATIONS, openapi

    described: dict[str, Any] = openapi()
    refusals = {status: when for operation in OPERATIONS for status, when in operation.refusals.items()}
    main = fragment(
        "api.html.j2",
        operations=OPERATIONS,
        schemas=described["components"]["schemas"],
        refusals={404: "There is nothing at this address.", 405: "It does not take that method.", **refusals},
    )
    html = document("Endpoints for programs", main, None, head_note=f"Model: {name}")
    return Page(html, _policy(content_policy(stylesheet(), "")))


def _policy(of_page: str) -> str:
    return f"{of_page}; frame-ancestors 'none'"
