"""On every architecture: captured heads are those that computed the output, and capture changes nothing."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from architectures import BUILDERS, LENGTHS, batch, build
from identiformer.capturing import CapturedLayer, capture_inputs
from identiformer.identifiability import Level, certify

SIDES = ["left", "right"]
CAUSAL = ("gpt2", "llama", "qwen3", "gemma2", "gpt_oss")
# The linear layer after the attention, by the end of its name: what capture has to find without it.
PROJECTIONS = ("o_proj", "c_proj", "out_lin", "attention.output.dense", "attention.dense", "Wo", "attn.o")
PROJECTIONS += ("SelfAttention.o", "EncDecAttention.o", "attention.output", "attention.o_proj")


def watch_projections(model: Any) -> list[tuple[Any, Tensor]]:
    """A list that each run of the model extends: its output projections with what they gave, in their order."""
    outputs: list[tuple[Any, Tensor]] = []
    for name, module in model.named_modules():
        if name.endswith(PROJECTIONS) and "mlp" not in name and hasattr(module, "weight"):
            module.register_forward_hook(lambda module, _, output: outputs.append((module, output)))
    return outputs


def real_rows(layer: CapturedLayer) -> list[tuple[int, int, int]]:
    """Text, place among the rows captured, and position of each row that is no padding."""
    return [
        (text, place, row)
        for text, rows in enumerate(layer.rows.tolist())
        for place, row in enumerate(rows)
        if row >= 0
    ]


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("name", BUILDERS)
def test_the_heads_add_up_to_what_the_projection_gave(name: str, side: str):
    model, inputs = build(name), batch(name, side)
    expected = watch_projections(model)
    captured = list(capture_inputs(model, inputs, rows="all"))
    assert len(captured) == len(expected) == (6 if name == "t5" else 2)
    for number, (layer, (projection, output)) in enumerate(zip(captured, expected, strict=True)):
        assert layer.layer == number
        assert not layer.refused
        assert layer.heads is not None
        total = layer.heads.output.sum(dim=1)  # [texts, rows, d_e]
        if projection.bias is not None:
            total = total + projection.bias.detach().double()
        for text, place, row in real_rows(layer):
            torch.testing.assert_close(total[text, place].float(), output[text, row], atol=2e-5, rtol=1e-4)


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("name", BUILDERS)
def test_the_weights_are_those_of_the_model(name: str, side: str):
    model, inputs = build(name), batch(name, side)
    captured = list(capture_inputs(model, inputs, rows="all"))
    model.set_attn_implementation("eager")
    with torch.no_grad():
        output = model(**inputs, output_attentions=True)
    if name == "t5":
        pairs = zip(output.decoder_attentions, output.cross_attentions, strict=True)
        expected = [*output.encoder_attentions, *(weights for pair in pairs for weights in pair)]
    else:
        expected = output.attentions
    assert len(captured) == len(expected)
    for layer, weights in zip(captured, expected, strict=True):
        assert layer.heads is not None
        given = layer.heads.weights
        if layer.sink:
            assert float(given[..., -1].min()) > 0
            given = given[..., :-1]
        for text, place, row in real_rows(layer):
            torch.testing.assert_close(
                given[text, :, place], weights[text, :, row].double(), atol=1e-5, rtol=1e-4
            )


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("name", BUILDERS)
def test_capture_does_not_change_the_logits(name: str, side: str):
    model, inputs = build(name), batch(name, side)
    logits: list[Tensor] = []
    model.register_forward_hook(lambda _, __, output: logits.append(output.logits))
    with torch.no_grad():
        model(**inputs)
    assert len(list(capture_inputs(model, inputs, rows=1))) > 0
    with torch.no_grad():
        model(**inputs)
    before, during, after = logits
    torch.testing.assert_close(during, before, atol=1e-5, rtol=1e-5)
    assert torch.equal(after, before)


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("name", BUILDERS)
def test_no_row_sees_padding(name: str, side: str):
    model, inputs = build(name), batch(name, side)
    for layer in capture_inputs(model, inputs, rows="all"):
        assert layer.heads is not None
        tokens = layer.heads.tokens.expand(layer.heads.batch_shape) - int(layer.sink)
        if name == "vit":
            assert bool((tokens == 5).all())  # four patches and the classifier's own
            continue
        if layer.kind == "decoder":
            continue  # the decoder is given no mask
        for text, place, row in real_rows(layer):
            length = LENGTHS[text]
            start = 0 if side == "right" else max(LENGTHS) - length
            expected = length
            if name in CAUSAL:
                expected = row - start + 1
                if name in ("gemma2", "gpt_oss") and layer.layer == 0:
                    expected = min(expected, 3)
            if name == "modernbert" and layer.layer == 1:  # two tokens on either side
                expected = min(row, start + 2) - start + min(start + length - 1 - row, 2) + 1
            assert tokens[text, :, place].tolist() == [expected] * tokens.shape[1]


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("name", BUILDERS)
def test_the_pooled_row_reaches_the_prediction(name: str, side: str):
    """The last token's row where no token sees a later one, and the first token's elsewhere."""
    model, inputs = build(name), batch(name, side)
    layers = [-2] if name == "t5" else [-1]
    (layer,) = capture_inputs(model, inputs, layers=layers)
    starts = [0 if side == "right" or name == "vit" else max(LENGTHS) - length for length in LENGTHS]
    ends = [start + length - 1 for start, length in zip(starts, LENGTHS, strict=True)]
    assert layer.rows[:, 0].tolist() == (ends if name in (*CAUSAL, "t5") else starts)
    every = next(iter(capture_inputs(model, inputs, rows="all", layers=layers)))
    assert layer.heads is not None
    assert every.heads is not None
    for text, row in enumerate(layer.rows[:, 0].tolist()):
        place = every.rows[text].tolist().index(row)
        torch.testing.assert_close(layer.heads.weights[text, :, 0], every.heads.weights[text, :, place])


@pytest.mark.parametrize("name", BUILDERS)
def test_certificates_can_be_computed(name: str):
    """With n tokens and d_v >= n - 1 almost every row is unique on the simplex."""
    model, inputs = build(name), batch(name)
    for layer in capture_inputs(model, inputs, rows=1):
        assert layer.heads is not None
        certificate = certify(layer.heads)
        expected = (layer.heads.tokens - 8 - 1).clamp(min=0).expand(certificate.simplex.nullity.shape)
        if not name.startswith("identiformer"):  # d_v = 8
            assert torch.equal(certificate.simplex.nullity, expected)
        assert (Level.GENERATABLE in layer.levels) == (name != "gemma2")
