"""What `audit` says of its proof."""

from __future__ import annotations

from typing import Any

import pytest

from identiformer.cli.audit_view import audit_view
from identiformer.cli.results import show

LEVEL = {"identifiable": 1.0, "global": 1.0, "margin": {"0.5": 0.1}}
ALL = {
    "rows": 3,
    "levels": dict.fromkeys(("free", "simplex", "generatable"), LEVEL),
    "top_certain": 1.0,
    "tied": 0.0,
}


@pytest.mark.parametrize(
    ("proof", "said"),
    [
        (
            {"asked": 0, "found": 0},
            "proof: every row is unique on the simplex, so that there are no other weights",
        ),
        ({"asked": 2, "found": 0}, "proof: no alternative was found for 2 rows"),
    ],
)
def test_nothing_found_and_nothing_to_find(
    proof: dict[str, Any], said: str, capsys: pytest.CaptureFixture[str]
):
    summary = {
        "texts": {"number": 3, "truncated": 0.0}, "all": ALL, "heads": [ALL], "layers": [], "by_length": [],
        "refused": [], "notes": [], "proof": proof,
    }  # fmt: skip
    show(audit_view(summary))
    assert capsys.readouterr().out.splitlines()[-1].startswith(said)
