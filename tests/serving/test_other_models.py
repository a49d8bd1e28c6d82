"""Models of other people's: encoders, decoders, both, with and without labels."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import transformers
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

from architectures import SIZE, VOCABULARY, build
from identiformer.serving.openapi import openapi
from identiformer.serving.served_model import ServedModel
from json_schema import faults
from pieces import wrapped
from served import LIMITS, client_of

t: Any = transformers


def letters() -> PreTrainedTokenizerFast:
    """A token for each letter, for the models of `architectures`."""
    names = ["[PAD]", "[EOS]", "[UNK]", *map(chr, range(ord("a"), ord("a") + VOCABULARY - 3))]
    model: Any = models.WordLevel
    tokenizer: Any = Tokenizer(model({name: i for i, name in enumerate(names)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.post_processor = processors.TemplateProcessing(single="$A [EOS]", special_tokens=[("[EOS]", 1)])
    return wrapped(tokenizer)


def served(model: Any) -> ServedModel:
    return ServedModel("other", model, letters(), replace(LIMITS, weights=3000))


def test_a_model_without_labels():
    model = served(t.BertModel(t.BertConfig(**SIZE)).eval())
    client = client_of(model)
    assert client.get("/api/model").json()["labels"] == []
    response = client.post("/api/predict", json={"text": "a b"})
    assert (response.status_code, "chooses no label" in response.json()["error"]) == (422, True)
    value = client.post("/api/explain", json={"text": "a b c"}).json()
    assert faults(value, {"$ref": "#/components/schemas/Explanation"}, openapi()) == []
    assert value["prediction"] is None
    assert "Labels:" not in client.get("/").text


@pytest.mark.parametrize(
    ("name", "layers", "last", "heads"),
    [("gpt2", [0, 1], (1, 4), 4), ("gpt_oss", [0, 1], (1, 4), 4), ("t5", [0, 1, 3, 5], (5, 4), 4)],
)
def test_layers_and_rows_of_many_kinds(name: str, layers: list[int], last: tuple[int, int], heads: int):
    """The pooled row of a decoder is the last token's; T5's own layers 2 and 4 do not attend to the text."""
    client = client_of(served(build(name)))
    facts = client.get("/api/model").json()
    assert facts["layers"] == [{"layer": layer, "heads": list(range(heads))} for layer in layers]
    value = client.post("/api/explain", json={"text": "a b c d"}).json()
    assert {(head["layer"], head["row"]) for head in value["heads"]} == {last}
    assert faults(value, {"$ref": "#/components/schemas/Explanation"}, openapi()) == []
    assert (value["heads"][0]["sink"] is not None) == (name == "gpt_oss")
    asked = {"text": "a b c d", "layer": last[0], "head": 1, "row": last[1], "goal": "farthest"}
    other = client.post("/api/alternative", json=asked).json()
    assert faults(other, {"$ref": "#/components/schemas/Alternative"}, openapi()) == []


def test_a_model_without_a_pooled_row():
    config = t.ModernBertConfig(**SIZE, classifier_pooling="mean", cls_token_id=2, sep_token_id=1)
    client = client_of(served(t.ModernBertForSequenceClassification(config).eval()))
    assert client.get("/api/model").json()["pooled"] is False
    response = client.post("/api/explain", json={"text": "a b c"})
    assert (response.status_code, "has no pooled row" in response.json()["error"]) == (422, True)
    value = client.post("/api/explain", json={"text": "a b c", "rows": 2, "heads": [0]}).json()
    assert [head["row"] for head in value["heads"]] == [0, 1]
    form = client.get("/").text.split("<script>")[0]
    assert 'value="pooled"' not in form
