"""The description of the endpoints for programs, OpenAPI 3.1, made of the schemas."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from identiformer import __version__
from identiformer.serving import schemas


@dataclass(frozen=True)
class Operation:
    """One endpoint.

    Args:
        path, method: Where it is.
        summary: What it does, in a few words.
        answer: What it answers with 200.
        request: What it takes; `None` where it takes nothing.
        refusals: The other statuses and when they come.
    """

    path: str
    method: str
    summary: str
    answer: type[BaseModel]
    request: type[BaseModel] | None = None
    refusals: Mapping[int, str] = field(default_factory=dict)


_HOST = {421: "The Host is none of this server's."}
_ASKED = _HOST | {
    400: "The body is no JSON.",
    403: "The request comes from a page of another origin.",
    408: "The body does not come.",
    413: "The body is too large.",
    415: "The body is not of type application/json.",
    422: "A field is missing, unknown or of no use, or too much is asked for.",
    500: "A fault of the server's.",
    503: "Too many requests wait, or the server stops: Retry-After says when to ask again.",
    504: "The answer takes too long.",
}

OPERATIONS = (
    Operation(
        "/api/predict",
        "post",
        "Label texts",
        schemas.PredictAnswer,
        schemas.PredictRequest,
        _ASKED,
    ),
    Operation(
        "/api/explain",
        "post",
        "Explain what the model says of a text",
        schemas.Explanation,
        schemas.ExplainRequest,
        _ASKED,
    ),
    Operation(
        "/api/alternative",
        "post",
        "Find other attention weights with the same output",
        schemas.Alternative,
        schemas.AlternativeRequest,
        _ASKED,
    ),
    Operation(
        "/api/model", "get", "What the model is, and what may be asked", schemas.ModelAnswer, None, _HOST
    ),
    Operation("/healthz", "get", "Whether the server is there", schemas.HealthAnswer, None, _HOST),
)


@cache
def openapi() -> dict[str, Any]:
    """The document."""
    taken = [(operation.request, "validation") for operation in OPERATIONS if operation.request]
    given = [(operation.answer, "serialization") for operation in OPERATIONS]
    names, definitions = models_json_schema(
        [*taken, *given, (schemas.Fault, "serialization")],  # pyright: ignore[reportArgumentType]
        ref_template="#/components/schemas/{model}",
    )

    def content(model: type[BaseModel], mode: str) -> dict[str, Any]:
        return {"application/json": {"schema": names[model, mode]}}  # pyright: ignore[reportArgumentType]

    paths: dict[str, Any] = {}
    for operation in OPERATIONS:
        responses: dict[str, Any] = {
            "200": {"description": "The answer.", "content": content(operation.answer, "serialization")}
        }
        for status, when in sorted(operation.refusals.items()):
            responses[str(status)] = {"description": when, "content": content(schemas.Fault, "serialization")}
            if status == 503:
                responses["503"]["headers"] = {
                    "Retry-After": {"description": "Seconds.", "schema": {"type": "integer"}}
                }
        value: dict[str, Any] = {
            "operationId": operation.path.rsplit("/", 1)[-1],
            "summary": operation.summary,
            "responses": responses,
        }
        if operation.request is not None:
            value["requestBody"] = {"required": True, "content": content(operation.request, "validation")}
        paths[operation.path] = {operation.method: value}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "identiformer serve",
            "version": __version__,
            "description": "Predictions of a text classifier and the attention behind them, with certificates.",
        },
        "paths": paths,
        "components": {"schemas": definitions["$defs"]},
    }
