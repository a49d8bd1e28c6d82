"""The endpoints: their answers, held against the OpenAPI document and the library, and their refusals."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from starlette.testclient import TestClient

import identiformer
from identiformer.explaining.explanation import explain
from identiformer.prediction import predict_probabilities
from identiformer.serving.openapi import OPERATIONS, openapi
from json_schema import faults
from served import LIMITS, Doing, client_of, small_served
from small import TEXTS, small_classifier

JSON = {"Content-Type": "application/json"}


@pytest.fixture(scope="module")
def client() -> TestClient:
    return client_of(small_served())


@pytest.fixture(scope="module")
def pairs() -> TestClient:
    return client_of(small_served(takes_text_pair=True))


def answered(client: TestClient, path: str, question: Any = None) -> Any:
    """The answer of an endpoint, which fits what the document says of it."""
    method = "get" if question is None else "post"
    response = client.get(path) if question is None else client.post(path, json=question)
    assert response.status_code == 200, response.text
    assert response.headers["content-type"] == "application/json"
    document = openapi()
    value = response.json()
    described = document["paths"][path][method]
    schema = described["responses"]["200"]["content"]["application/json"]["schema"]
    assert faults(value, schema, document) == []
    if question is not None:
        taken = described["requestBody"]["content"]["application/json"]["schema"]
        assert faults(question, taken, document) == []
    return value


def refused(client: TestClient, path: str, question: Any = None, status: int = 422, **sent: Any) -> str:
    """The sentence of a refusal."""
    response = client.post(path, **({"json": question} if question is not None else {}), **sent)
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/json"
    value = response.json()
    document = openapi()
    described = document["paths"][path]["post"]["responses"][str(status)]
    assert faults(value, described["content"]["application/json"]["schema"], document) == []
    assert "\n" not in value["error"]
    return value["error"]


# Answers


def test_predictions_are_those_of_the_library(client: TestClient):
    model, tokenizer = small_classifier()
    expected = predict_probabilities(model, tokenizer, TEXTS[:3])
    one = answered(client, "/api/predict", {"text": TEXTS[0]})
    many = answered(client, "/api/predict", {"text": TEXTS[:3]})
    assert [prediction["row"] for prediction in many["predictions"]] == [1, 2, 3]
    for prediction, text, row in zip(many["predictions"], TEXTS, expected, strict=False):
        assert prediction["text"] == text
        assert list(prediction["probabilities"]) == ["bad", "good"]
        np.testing.assert_allclose(list(prediction["probabilities"].values()), row, atol=1e-6)
        assert prediction["label"] == ["bad", "good"][int(row.argmax())]
        assert prediction["truncated"] is False
    assert one["predictions"][0]["probabilities"] == pytest.approx(many["predictions"][0]["probabilities"])
    assert answered(client, "/api/predict", {"text": "good " * 24})["predictions"][0]["truncated"] is True


def test_explanations_are_those_of_the_library(client: TestClient):
    model, tokenizer = small_classifier()
    for asked in (
        {"text": TEXTS[0]},
        {"text": TEXTS[1], "layers": "all", "rows": "all"},
        {"text": TEXTS[1], "layers": [-1, 0], "heads": [2], "rows": 2},
        {"text": TEXTS[0], "intervals": False},
    ):
        value = answered(client, "/api/explain", asked)
        rest: dict[str, Any] = {name: setting for name, setting in asked.items() if name != "text"}
        expected = json.loads(json.dumps(explain(model, tokenizer, asked["text"], **rest).to_dict()))
        assert value.keys() - expected.keys() == {"id", "label"}
        assert all(head["alternatives"] is None for head in value["heads"])
        assert value == expected | {"id": None, "label": None}


def test_alternatives_give_the_same_output(client: TestClient):
    text = TEXTS[0]
    shown = answered(client, "/api/explain", {"text": text})
    assert shown["heads"][0]["levels"]["simplex"]["verdict"] == "none"
    word = int(np.argmax(shown["heads"][0]["words"]["weights"]))
    asked = {"text": text, "layer": 1, "head": 0, "row": 0, "goal": "avoid", "word": word}
    other = answered(client, "/api/alternative", asked)
    assert (other["status"], other["goal"], other["word"], other["level"]) == (
        "found",
        "avoid",
        word,
        "simplex",
    )
    assert len(other["weights"]) == len(shown["tokens"])
    tokens = shown["words"][word]["tokens"]
    mine = sum(other["weights"][token] for token in tokens)
    assert mine == pytest.approx(shown["heads"][0]["words"]["intervals"]["lower"][word], abs=1e-6)
    assert mine < shown["heads"][0]["words"]["weights"][word] - 1e-3
    assert other["residual"] < 1e-6
    assert other["probabilities"] == pytest.approx(shown["probabilities"], abs=1e-5)
    short = {"text": "not good", "layer": 1, "head": 0, "row": 0, "goal": "farthest"}
    unique = answered(client, "/api/alternative", short)
    assert (unique["status"], unique["weights"]) == ("unique", None)
    generated = answered(client, "/api/alternative", asked | {"level": "generatable"})
    assert generated["level"] == "generatable"


def test_pairs(pairs: TestClient, client: TestClient):
    asked = {"text": "Good.", "text_pair": "Was it?"}
    value = answered(pairs, "/api/explain", asked)
    assert value["text_pair"] == "Was it?"
    assert {token["segment"] for token in value["tokens"]} == {0, 1}
    both = answered(pairs, "/api/predict", {"text": ["Good.", "Good."], "text_pair": ["Was it?", "Good."]})
    assert [prediction["text_pair"] for prediction in both["predictions"]] == ["Was it?", "Good."]
    assert answered(pairs, "/api/predict", asked)["predictions"][0]["label"] == value["prediction"]
    for path in ("/api/explain", "/api/predict"):
        assert "trained on pairs" in refused(pairs, path, {"text": "Good."})
        assert "trained on single texts" in refused(client, path, asked)
    assert "one pair for each" in refused(pairs, "/api/predict", asked | {"text": ["Good.", "Not good."]})
    for goal in ("farthest",):
        found = {"layer": 1, "head": 0, "row": 0, "goal": goal}
        assert answered(pairs, "/api/alternative", asked | found)["status"] in ("found", "unique")


def test_what_the_model_is(client: TestClient, pairs: TestClient):
    facts = answered(client, "/api/model")
    assert facts["model"] == "small"
    assert facts["labels"] == ["bad", "good"]
    assert facts["layers"] == [{"layer": 0, "heads": [0, 1, 2]}, {"layer": 1, "heads": [0, 1, 2]}]
    assert (facts["takes_pair"], facts["max_tokens"], facts["pooled"]) == (False, 20, True)
    assert facts["limits"]["characters"] == LIMITS.characters
    assert answered(pairs, "/api/model")["takes_pair"] is True
    assert answered(client, "/healthz") == {"status": "ok"}


# Refusals


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"\xff\xfe", b"text=good", b"[" * 3000, b'{"text": "\\ud800"}', b'{"text": "a\x00"}'],
)
def test_broken_json(client: TestClient, body: bytes):
    for path in ("/api/predict", "/api/explain", "/api/alternative"):
        assert refused(client, path, content=body, headers=JSON, status=400).startswith(
            "the body is no JSON: "
        )


@pytest.mark.parametrize(
    ("question", "said"),
    [
        ({}, "text: this field is missing"),
        ([], "object"),
        ({"text": 3}, "text: Input should be a valid string"),
        ({"text": None}, "text"),
        ({"text": ""}, "the text is blank: type at least one word"),
        ({"text": " \n\u200b"}, "the text is blank: type at least one word"),
        ({"text": "a", "layer": 1}, "layer: there is no such field"),
        ({"text": "a", "layers": [2]}, "no layer 2: the model has layers 0 to 1"),
        ({"text": "a", "layers": [-3]}, "no layer -3: the model has layers 0 to 1"),
        ({"text": "a", "layers": [10**30]}, "no layer 1000"),
        ({"text": "a", "layers": []}, "layers"),
        ({"text": "a", "layers": "first"}, "layers: Input should be 'all', or Input should be a valid array"),
        ({"text": "a", "heads": [3]}, "no head 3 in layer 1: it has heads 0 to 2"),
        ({"text": "a", "heads": [True]}, "heads"),
        ({"text": "a", "rows": 0}, "rows: "),
        ({"text": "a", "rows": "none"}, "rows: "),
        ({"text": "a", "rows": 1.5}, "rows: "),
        ({"text": "x" * 301}, "text: 301 characters were given: give 300 at most"),
        ({"text": "a", "x\n\u202e" + "y" * 900: 1}, "x \\u202eyyy"),
    ],
)
def test_fields_of_no_use(client: TestClient, question: Any, said: str):
    sentence = refused(client, "/api/explain", question)
    assert said in sentence
    assert len(sentence) < 350


def test_texts_and_alternatives_of_no_use(client: TestClient):
    assert "give 3 at most" in refused(client, "/api/predict", {"text": ["a"] * 4})
    assert "text: " in refused(client, "/api/predict", {"text": []})
    assert "number 2 of the texts is a blank text" in refused(client, "/api/predict", {"text": ["a", " "]})
    asked = {"text": "not good", "layer": 1, "head": 0, "row": 0, "goal": "favour", "word": 1}
    for change, said in (
        ({"layer": 2}, "no layer 2"),
        ({"layer": -1}, "no layer -1"),
        ({"head": 3}, "no head 3"),
        ({"head": -1}, "head: "),
        ({"row": 3}, "row"),
        ({"word": 3}, "word"),
        ({"word": None}, "word"),
        ({"goal": "farthest"}, "word"),
        ({"goal": "most"}, "goal: "),
        ({"level": "free"}, "level: "),
    ):
        assert said in refused(client, "/api/alternative", asked | change), change


def test_what_would_be_too_much_is_refused_before_it_begins(client: TestClient):
    asked = {"text": "good " * 15, "layers": "all", "rows": 3}
    answered(client, "/api/explain", asked)  # 288 weights
    sentence = refused(client, "/api/explain", asked | {"rows": "all"})
    assert "6 heads with 16 rows of 16 tokens are 1536 attention weights" in sentence
    assert "fewer layers, heads or rows" in sentence
    assert "24 tokens: explanations are of 20 at most" in refused(
        client, "/api/explain", {"text": "good " * 60}
    )


def test_other_types_of_bodies(client: TestClient):
    for kind in ("text/plain", "application/x-www-form-urlencoded", "application/json; charset=latin-1", ""):
        sentence = refused(client, "/api/explain", content=b"{}", headers={"Content-Type": kind}, status=415)
        assert "Content-Type: application/json" in sentence
    sentence = refused(
        client, "/api/explain", content=b"{}", headers=JSON | {"Content-Encoding": "gzip"}, status=415
    )
    assert "compressed" in sentence
    good = {"Content-Type": 'Application/JSON; charset="UTF-8"'}
    assert client.post("/api/predict", content=b'{"text": "good"}', headers=good).status_code == 200


def test_other_methods_and_addresses(client: TestClient):
    for method, path, allowed in (
        ("GET", "/api/explain", "POST"),
        ("PUT", "/api/predict", "POST"),
        ("OPTIONS", "/api/explain", "POST"),
        ("DELETE", "/", "GET"),
        ("POST", "/api/model", "GET"),
    ):
        response = client.request(method, path)
        assert response.status_code == 405
        assert allowed in response.headers["allow"]
        assert response.json()["error"].startswith("this address does not take that method")
        assert not [name for name in response.headers if name.startswith("access-control")]
    for path in ("/nothing", "/../etc/passwd", "/static/x", "/api/", "/%00", "/favicon.ico"):
        response = client.get(path, follow_redirects=False)
        assert response.status_code == 404, path
        assert list(response.json()) == ["error"]


def test_a_model_that_chooses_no_label():
    served = Doing(lambda check: {})
    served.labels = []
    assert "chooses no label" in refused(client_of(served), "/api/predict", {"text": "a"})


def test_a_fault_of_ours_says_nothing_of_itself():
    def fail(check: Any) -> Any:
        raise RuntimeError("secret /home/somebody")

    client = client_of(Doing(fail))
    sentence = refused(client, "/api/explain", {"text": "a"}, status=500)
    assert sentence == "a fault of the server's: its standard error says more"
    nan = client_of(Doing(lambda check: {"value": float("nan")}))
    assert "fault" in refused(nan, "/api/explain", {"text": "a"}, status=500)
    for name in ("content-security-policy", "x-content-type-options"):
        assert name in client.post("/api/explain", json={"text": "a"}).headers


def test_half_a_character_in_a_label_is_json():
    client = client_of(Doing(lambda check: {"label": "a\ud800<\u2028"}))
    response = client.post("/api/explain", json={"text": "a"})
    assert response.content == '{"label":"a\\ud800<\u2028"}'.encode()
    assert response.json() == {"label": "a\ud800<\u2028"}


# The document


def test_the_document_describes_every_endpoint(client: TestClient):
    document = client.get("/openapi.json").json()
    assert document == openapi()
    assert document["openapi"] == "3.1.0"
    assert document["info"]["version"] == identiformer.__version__
    assert set(document["paths"]) == {
        "/api/predict",
        "/api/explain",
        "/api/alternative",
        "/api/model",
        "/healthz",
    }
    text = json.dumps(document)
    for name in document["components"]["schemas"]:
        assert f'"#/components/schemas/{name}"' in text, f"{name} is used by nothing"
    for operation in OPERATIONS:
        assert (client.get if operation.method == "get" else client.post)(operation.path).status_code != 404


def test_the_validator_finds_faults(client: TestClient):
    document = openapi()
    value = answered(client, "/api/explain", {"text": "not good"})
    schema = {"$ref": "#/components/schemas/Explanation"}
    for change, count in (
        ({"text": 3}, 1),
        ({"tokens": [{}]}, 6),
        ({"more": 1}, 1),
        ({"probabilities": {"a": "b"}}, 1),
        ({"heads": None}, 1),
        ({"prediction": False}, 1),
        ({"truncated": 0}, 1),
    ):
        assert len(faults(value | change, schema, document)) == count, change
    value["heads"][0]["levels"]["other"] = value["heads"][0]["levels"]["free"]
    value["heads"][0]["levels"]["free"] = {"nullity": 0.5, "margin": 1, "verdict": "maybe"}
    assert len(faults(value, schema, document)) == 3
