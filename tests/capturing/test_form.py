"""What bends the form: soft-capped logits, sinks, keys of relative positions."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from architectures import batch, build
from identiformer.capturing import capture_inputs
from identiformer.capturing.call import AttentionCall, RelativeKeys
from identiformer.capturing.heads import Verified, verified_heads
from identiformer.capturing.projection import Projection
from identiformer.capturing.visibility import visibility
from identiformer.identifiability import Level

ROW = torch.tensor([[0]])


def verify(weights: list[float], **settings: Any) -> Verified:
    """The head with the query 1 and the keys 0, 1, 2, whose attention gave these weights, seen through values 1."""
    key = torch.tensor([0.0, 1.0, 2.0])[None, None, :, None]
    value = torch.eye(3)[None, None]
    mixed = torch.tensor(weights)[None, None, None]
    call = AttentionCall(None, torch.ones(1, 1, 1, 1), key, value, (), 1.0, mixed, **settings)
    return verified_heads(call, visibility(call), ROW, Projection(torch.eye(3).double()[None]), [0])


def softmax(logits: list[float]) -> list[float]:
    total = sum(math.exp(z) for z in logits)
    return [math.exp(z) / total for z in logits]


def test_a_plain_softmax():
    result = verify(softmax([0, 1, 2]))
    assert result.heads is not None
    assert result.levels == tuple(Level)
    assert result.note == ""
    assert result.heads.weights.flatten().tolist() == pytest.approx(softmax([0, 1, 2]))


def test_soft_capped_logits_say_nothing_at_generatable():
    weights = softmax([2 * math.tanh(z / 2) for z in (0, 1, 2)])
    result = verify(weights, softcap=2.0)
    assert result.heads is not None
    assert result.levels == (Level.FREE, Level.SIMPLEX)
    assert "soft-capped" in result.note
    assert result.heads.weights.flatten().tolist() == pytest.approx(weights)
    assert verify(weights).refused  # without the cap they are of another form


def test_a_sink_is_a_token_without_key_and_value():
    weights = softmax([0, 1, 2, 1.5])
    result = verify(weights[:3], sinks=torch.tensor([1.5]))
    head = result.heads
    assert head is not None
    assert result.levels == tuple(Level)
    assert head.weights.flatten().tolist() == pytest.approx(weights)
    assert head.keys.flatten().tolist() == [0.0, 1.0, 2.0, 0.0]
    assert head.values[..., 3, :].flatten().tolist() == [0.0, 0.0, 0.0]
    assert head.bias is not None
    assert head.bias.flatten().tolist() == [0.0, 0.0, 0.0, 1.5]
    assert head.output.flatten().tolist() == pytest.approx(weights[:3])
    assert verify(weights[:3]).refused  # they do not sum to 1


def test_relative_keys_are_added_to_a_rows_own():
    """Vectors 0.5 and -1, of which the tokens take the second, the first and the first."""
    relative = RelativeKeys(
        torch.tensor([0.5, -1.0])[None, None, :, None], torch.tensor([[[[1, 0, 0]]]]), 2.0
    )
    weights = softmax([0 - 2.0, 1 + 1.0, 2 + 1.0])
    result = verify(weights, relative=(relative,))
    assert result.heads is not None
    assert result.heads.weights.flatten().tolist() == pytest.approx(weights)
    assert result.heads.keys.shape == (1, 1, 1, 3, 1)
    assert result.heads.keys.flatten().tolist() == [-2.0, 2.0, 3.0]


def test_nan_in_what_attention_gave_is_refused():
    assert verify([math.nan, 0.0, 1.0]).refused


@pytest.mark.parametrize("name", ["bert", "llama", "gemma2", "gpt_oss", "t5", "deberta_v2"])
def test_weights_are_those_of_the_heads_own_keys_and_bias(name: str):
    """For some query: the logarithm of the weights is the bias and a combination of the keys, up to a constant."""
    layers = capture_inputs(build(name), batch(name), rows=2)
    for layer in layers:
        if Level.GENERATABLE not in layer.levels:
            continue
        head = layer.heads
        assert head is not None
        bias = torch.zeros(()) if head.bias is None else head.bias
        logs = (head.weights.log() - bias).masked_fill(~head.mask, 0.0)
        keys = head.keys.masked_fill(~head.mask[..., None], 0.0)
        columns = torch.cat([keys, head.mask[..., None].double().expand(*keys.shape[:-1], 1)], dim=-1)
        columns = columns.expand(*head.batch_shape, *columns.shape[-2:])
        off = logs - (columns @ (torch.linalg.pinv(columns) @ logs[..., None]))[..., 0]
        assert float(off.abs().max()) < 1e-9


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", ["bert", "mpnet", "gpt2", "gemma2", "gpt_oss"])
def test_models_of_low_precision(name: str, dtype: torch.dtype):
    model: Any = build(name).to(dtype)
    outputs: list[Tensor] = []
    for layer in capture_inputs(model, batch(name), rows="all"):
        assert not layer.refused
        assert layer.heads is not None
        assert layer.heads.dtype == dtype
        outputs.append(layer.heads.output)
    assert len(outputs) == 2
