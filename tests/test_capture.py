"""Captured heads are those that computed the model's output."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
import torch
from transformers import BertConfig, BertForSequenceClassification

from identiformer.capture import capture
from identiformer.errors import InputError
from small import TEXTS, small_classifier

SETTINGS = [
    {"head_merge": merge, "values_carry_keys": carry}
    for merge, carry in product(("add", "concat"), (False, True))
]


def encoded(tokenizer: Any, side: str = "right") -> dict[str, torch.Tensor]:
    tokenizer.padding_side = side
    return dict(tokenizer(TEXTS, padding=True, return_tensors="pt"))


@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("side", ["left", "right"])
def test_the_heads_outputs_add_up_to_the_attention_layers_output(settings: dict[str, Any], side: str):
    model, tokenizer = small_classifier(**settings)
    inputs = encoded(tokenizer, side)
    layers: Any = model.encoder.layers
    outputs: dict[int, torch.Tensor] = {}
    hooks = [
        layer.attention.register_forward_hook(
            lambda module, _, output: outputs.__setitem__(module.layer_idx, output[0])
        )
        for layer in layers
    ]
    captured = capture(model, inputs, rows="all")
    for hook in hooks:
        hook.remove()
    assert [layer.layer for layer in captured] == [0, 1]
    for layer in captured:
        bias = layers[layer.layer].attention.output.bias.detach().double()
        total = layer.heads.output.sum(dim=1) + bias  # [texts, rows, d_e]
        visible = inputs["attention_mask"].bool()
        torch.testing.assert_close(
            total[visible], outputs[layer.layer].double()[visible], atol=1e-5, rtol=1e-5
        )


@pytest.mark.parametrize("side", ["left", "right"])
def test_the_pooled_row_is_that_of_the_first_token(side: str):
    model, tokenizer = small_classifier()
    inputs = encoded(tokenizer, side)
    pooled = capture(model, inputs)
    every = capture(model, inputs, rows="all")
    first = inputs["attention_mask"].argmax(dim=1)
    assert torch.equal(pooled[1].rows[:, 0], first)
    for text, row in enumerate(first.tolist()):
        torch.testing.assert_close(pooled[1].heads[text, :, 0].weights, every[1].heads[text, :, row].weights)


def test_the_weights_are_those_that_the_model_gives_and_padding_has_none():
    model, tokenizer = small_classifier()
    inputs = encoded(tokenizer)
    captured = capture(model, inputs, rows="all")
    model.set_attn_implementation("eager")
    with torch.no_grad():
        weights = model(**inputs, output_attentions=True).attentions
    for layer in captured:
        torch.testing.assert_close(layer.heads.weights, weights[layer.layer].double(), atol=1e-6, rtol=0)
        hidden = ~inputs["attention_mask"].bool()[:, None, None].expand(layer.heads.weights.shape)
        assert float(layer.heads.weights[hidden].max()) == 0.0


@pytest.mark.parametrize("implementation", ["eager", "sdpa"])
@pytest.mark.parametrize("side", ["left", "right"])
def test_capture_changes_nothing_of_the_model(implementation: str, side: str):
    model, tokenizer = small_classifier()
    model.set_attn_implementation(implementation)
    inputs = encoded(tokenizer, side)
    with torch.no_grad():
        before = model(**inputs).logits
        model.set_attn_implementation("identiformer_capture")
        captured = _logits_while_capturing(model, inputs)
        model.set_attn_implementation(implementation)
    capture(model, inputs)
    assert model.config._attn_implementation == implementation
    with torch.no_grad():
        after = model(**inputs).logits
    assert torch.equal(before, after)
    torch.testing.assert_close(captured, before, atol=1e-5, rtol=0)  # padding is hidden there too


def _logits_while_capturing(model: Any, inputs: dict[str, torch.Tensor]) -> torch.Tensor:
    from identiformer.capture import _recorder

    token = _recorder.set(lambda *_: None)
    try:
        return model(**inputs).logits
    finally:
        _recorder.reset(token)


def test_an_error_on_the_way_leaves_the_model_as_it_was():
    model, tokenizer = small_classifier()
    inputs = encoded(tokenizer)
    with pytest.raises(IndexError):
        capture(model, {**inputs, "input_ids": inputs["input_ids"] + 10_000})
    assert model.config._attn_implementation == "sdpa"


def test_another_model_is_refused():
    config = BertConfig(
        hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=8, vocab_size=9
    )
    with pytest.raises(InputError, match="not of BertForSequenceClassification"):
        capture(BertForSequenceClassification(config), {})


def test_only_the_layers_asked_for_are_captured():
    model, tokenizer = small_classifier()
    inputs = encoded(tokenizer)
    (chosen,) = capture(model, inputs, layers=[1])
    assert chosen.layer == 1
    assert torch.equal(chosen.heads.weights, capture(model, inputs)[1].heads.weights)
