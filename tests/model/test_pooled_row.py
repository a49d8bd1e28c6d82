"""The pooled row without keys and values equals the explicit computation: outputs, gradients and dropout."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
import torch
from torch import Tensor

from identiformer.model import IdentiformerConfig
from identiformer.model.attention import IdentiformerAttention, eager_attention

SETTINGS = list(product(("add", "concat"), (False, True), (0.0, 0.5)))


def attention(head_merge: Any, values_carry_keys: bool, dropout: float) -> IdentiformerAttention:
    torch.manual_seed(3)
    config = IdentiformerConfig(
        hidden_size=24,
        num_attention_heads=3,
        key_size=5,
        value_size=7,
        head_merge=head_merge,
        values_carry_keys=values_carry_keys,
        attention_probs_dropout_prob=dropout,
    )
    module = IdentiformerAttention(config, layer_idx=0)
    for linear in (module.query, module.key, module.value, module.output):
        torch.nn.init.normal_(linear.bias)  # zero biases would hide a missing term
    return module.train()


def explicit_row(module: IdentiformerAttention, x: Tensor, row: Tensor, visible: Tensor) -> Tensor:
    """The same row from keys and values written out: the reference."""
    query = module._by_head(module.query(x), module.key_size)
    key = module._by_head(module.key(x), module.key_size)
    value = module._by_head(module.value(x), module.value_size)
    if module.config.values_carry_keys:
        value = torch.cat([value, key], dim=-1)
    chosen = query[torch.arange(len(x)), :, row][:, :, None]
    mask = torch.zeros(visible.shape).masked_fill(~visible, torch.finfo(torch.float32).min)[:, None, None]
    mixed, _ = eager_attention(
        module, chosen, key, value, mask, scaling=module.scaling, dropout=module.attention_dropout
    )
    return module.output(module._merge(mixed))[:, 0]


@pytest.mark.parametrize(("head_merge", "values_carry_keys", "dropout"), SETTINGS)
def test_outputs_and_gradients_are_equal(head_merge: str, values_carry_keys: bool, dropout: float):
    row = torch.tensor([0, 4, 2, 0, 1])
    visible = torch.arange(11) < torch.tensor([[11], [7], [3], [1], [5]])
    upstream = torch.randn(5, 24, generator=torch.Generator().manual_seed(5))
    results = []
    for compute in (
        lambda module, x: module.pooled_row(x, row, visible),
        lambda module, x: explicit_row(module, x, row, visible),
    ):
        module = attention(head_merge, values_carry_keys, dropout)
        x = torch.randn(5, 11, 24, generator=torch.Generator().manual_seed(4)).requires_grad_()
        torch.manual_seed(6)  # the same dropout mask on the same number of weights
        output = compute(module, x)
        (output * upstream).sum().backward()
        gradients = {name: parameter.grad for name, parameter in module.named_parameters()}
        results.append((output, x.grad, gradients))
    (pooled, pooled_x, pooled_gradients), (explicit, explicit_x, explicit_gradients) = results
    torch.testing.assert_close(pooled, explicit, atol=1e-5, rtol=0)
    torch.testing.assert_close(pooled_x, explicit_x, atol=1e-5, rtol=1e-5)
    for name, gradient in explicit_gradients.items():
        # The key's bias shifts all logits alike unless it is carried: its gradient there is rounding noise, and
        # the pooled row, which leaves it out, gives none.
        if pooled_gradients[name] is None:
            assert name == "key.bias"
            assert not values_carry_keys
            assert gradient.abs().max() < 1e-5
        else:
            torch.testing.assert_close(pooled_gradients[name], gradient, atol=1e-5, rtol=1e-5)


def test_dropout_moves_the_sum_of_the_weights_and_the_bias_with_it():
    """Without `Σa` in the pooled row the values' bias would be added whole: this would differ."""
    module = attention("add", False, 0.5)
    with torch.no_grad():
        module.value.weight.zero_()
        module.output.weight.zero_()
        module.output.weight[0, 0] = 1.0
        module.output.bias.zero_()
        x = torch.randn(1, 11, 24)
        seen = {round(float(module.pooled_row(x, torch.tensor([0]))[0, 0]), 4) for _ in range(20)}
    assert len(seen) > 5


def test_keys_values_and_other_rows_are_not_formed(monkeypatch: pytest.MonkeyPatch):
    module = attention("add", True, 0.0)

    def refuse(*_: object, **__: object):
        raise AssertionError("formed")

    monkeypatch.setattr(module.key, "forward", refuse)
    monkeypatch.setattr(module.value, "forward", refuse)
    assert module.pooled_row(torch.randn(2, 11, 24), torch.tensor([0, 3])).shape == (2, 24)
