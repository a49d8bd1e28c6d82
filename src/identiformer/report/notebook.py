"""An explanation in a notebook: shaded words and certificates, and where scripts may run the token view in their place.

A notebook shows the HTML of each result inside its own page. So there is no stylesheet here, which would reach all of
it: the plain view has its styles on its elements, in colours that go with a light ground and a dark one. The token view
is a whole page in an `<iframe>` that may run scripts and do nothing else: neither reach the notebook nor load anything.
"""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING

from identiformer.errors import InputError
from identiformer.report.document import fragment, island
from identiformer.report.explanation_report import explanation_page
from identiformer.report.static_view import static_view

if TYPE_CHECKING:
    from identiformer.explaining.explanation import Explanation


def notebook_html(explanation: Explanation) -> str:
    """What a notebook shows of an explanation; several may stand on one page, the same one twice among them."""
    static = static_view(explanation, inline=True)
    try:
        page = explanation_page(explanation, scripts=("view", "notebook"))
    except InputError:  # too large for a page
        return str(static)
    return str(fragment("notebook_frame.html.j2", static=static, mark=_mark(page), page=island(page)))


def _mark(page: str) -> str:
    """What tells the places of this page from those of others."""
    return sha256(page.encode()).hexdigest()[:16]
