"""JSON as it is sent."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from starlette.responses import Response


def encoded(value: Mapping[str, Any]) -> bytes:
    """A value as JSON.

    Raises:
        ValueError: If there is a NaN or an infinity, which JSON has no word for.
    """
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    # Halves of characters, which a label may have, become escapes: JSON has them, UTF-8 does not.
    return text.encode("utf-8", "backslashreplace")


def json_answer(
    value: Mapping[str, Any], status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    """An answer in JSON."""
    return Response(encoded(value), status, headers, "application/json")
