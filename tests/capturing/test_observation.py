"""Attention written out in torch is recognised by what is done to tensors, and refused where that is not known."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from identiformer.capturing.call import AttentionCall
from identiformer.capturing.observation import Observation
from identiformer.capturing.visibility import visibility

TEXTS, HEADS, TOKENS, KEY, VALUE = 2, 3, 5, 7, 11
LEAST = torch.finfo(torch.float32).min
MASK = torch.ones(TEXTS, 1, 1, TOKENS, dtype=torch.bool)
MASK[1, ..., 3:] = False
BIAS = torch.randn(HEADS, TOKENS, TOKENS, generator=torch.Generator().manual_seed(0))


class Watcher:
    """Keeps the calls it is shown."""

    def __init__(self) -> None:
        self.calls: list[AttentionCall] = []

    def attention(self, call: AttentionCall) -> None:
        self.calls.append(call)


class Parts:
    """Queries, keys and values, each from a linear layer of its own."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        self.hidden = torch.randn(TEXTS, TOKENS, 13)
        self.layers = [nn.Linear(13, HEADS * size) for size in (KEY, KEY, VALUE)]

    def __call__(self) -> tuple[Tensor, Tensor, Tensor]:
        q, k, v = (layer(self.hidden).unflatten(-1, (HEADS, -1)).transpose(1, 2) for layer in self.layers)
        return q, k, v


def plain(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return torch.softmax(q @ k.transpose(-1, -2), dim=-1) @ v


def scaled_and_masked(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    scores = torch.matmul(q, k.transpose(-1, -2)) / math.sqrt(KEY)
    scores += BIAS
    scores = scores + (1.0 - MASK.float()) * LEAST
    return torch.matmul(functional.dropout(functional.softmax(scores, dim=-1), 0.1, training=False), v)


def in_three_dimensions(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    q, k, v = (tensor.reshape(TEXTS * HEADS, TOKENS, -1) for tensor in (q, k, v))
    scores = torch.bmm(q * KEY**-0.5, k.transpose(1, 2)).view(TEXTS, HEADS, TOKENS, TOKENS) + BIAS
    scores = scores.masked_fill(~MASK, -math.inf)
    weights = scores.softmax(-1, dtype=torch.float64).to(v.dtype).view(TEXTS * HEADS, TOKENS, TOKENS)
    return torch.bmm(weights, v).view(TEXTS, HEADS, TOKENS, -1)


def with_a_bias_first(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    q, k, v = (tensor.reshape(TEXTS * HEADS, TOKENS, -1) for tensor in (q, k, v))
    bias = BIAS.repeat(TEXTS, 1, 1)
    scores = bias.baddbmm(q, k.transpose(1, 2), beta=1.0, alpha=KEY**-0.5)
    scores = scores.view(TEXTS, HEADS, TOKENS, TOKENS)
    scores = torch.where(MASK, scores, torch.tensor(LEAST))
    scores = scores - scores.amax(dim=-1, keepdim=True)
    return torch.matmul(nn.Softmax(dim=-1)(scores), v.view(TEXTS, HEADS, TOKENS, -1))


def in_place(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    scores = (q @ k.mT).mul_(KEY**-0.5).add_(BIAS)
    scores.masked_fill_((~MASK).expand_as(scores), LEAST)
    return scores.softmax(dim=3) @ v


def fused(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    mask = torch.where(MASK, BIAS, LEAST)
    return functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)


def fused_and_causal(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return functional.scaled_dot_product_attention(q, k, v, is_causal=True, scale=0.5)


def with_relative_keys(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    vectors = torch.linspace(-1, 1, 4 * KEY).view(1, 1, 4, KEY)
    index = torch.arange(TOKENS * TOKENS).view(1, 1, TOKENS, TOKENS) % 4
    index = index.expand(TEXTS, HEADS, TOKENS, TOKENS)
    relative = torch.gather(q @ vectors.mT, dim=-1, index=index) / math.sqrt(KEY)
    moved = torch.gather(k @ vectors.mT, dim=-1, index=index).transpose(-1, -2)
    score = 0
    score += relative
    score += moved
    return (q @ k.mT / math.sqrt(KEY) + score).softmax(-1) @ v


FORMS = [plain, scaled_and_masked, in_three_dimensions, with_a_bias_first, in_place, fused, fused_and_causal]
FORMS += [with_relative_keys]


def watch(form: Callable[[Tensor, Tensor, Tensor], Tensor]) -> tuple[list[AttentionCall], Tensor]:
    parts, watcher = Parts(), Watcher()
    with torch.no_grad(), Observation(watcher, TEXTS):
        mixed = form(*parts())
    return watcher.calls, mixed


@pytest.mark.parametrize("form", FORMS)
def test_what_is_recognised_gives_what_was_computed(form: Callable[[Tensor, Tensor, Tensor], Tensor]):
    (call,), mixed = watch(form)
    assert call.broken == ""
    assert torch.equal(call.mixed, mixed.transpose(1, 2))
    logits = call.scaling * call.query.double() @ call.key.double().mT
    for relative in call.relative:
        chosen = (
            relative.vectors.double().expand(TEXTS, HEADS, -1, -1) @ call.query.double().mT
        )  # [.., m, rows]
        logits = logits + relative.factor * chosen.mT.gather(3, relative.index)
    seen = visibility(call)
    if seen.bias is not None:
        logits = logits + seen.bias
    weights = logits.masked_fill(~seen.visible, -torch.inf).softmax(dim=-1)
    torch.testing.assert_close((weights @ call.value.double()).float(), mixed, atol=1e-6, rtol=1e-5)
    biased = form not in (plain, fused_and_causal)
    assert (seen.bias is not None) == biased
    assert len(call.relative) == (form is with_relative_keys)


def capped(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return torch.tanh(q @ k.mT).softmax(-1) @ v


def moved_by_the_query(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return (q @ k.mT + q.sum(dim=-1, keepdim=True) * torch.arange(TOKENS)).softmax(-1) @ v


def renormalised(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    weights = (q @ k.mT).softmax(-1) * MASK
    return (weights / weights.sum(dim=-1, keepdim=True)) @ v


def over_rows(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return (q @ k.mT).softmax(dim=-2) @ v


def multiplied(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return ((q @ k.mT) * BIAS).softmax(-1) @ v


def rolled(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return torch.roll(q @ k.mT, 1, dims=-1).softmax(-1) @ v


def masked_by_a_small_number(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return (q @ k.mT).masked_fill(~MASK, -3.0).softmax(-1) @ v


def two_products(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return (q @ k.mT + q @ v[..., :KEY].mT).softmax(-1) @ v


@pytest.mark.parametrize(
    ("form", "reason"),
    [
        (capped, "tanh"),
        (moved_by_the_query, "computed from the query"),
        (renormalised, "of the weights"),
        (over_rows, "not one over tokens"),
        (multiplied, "mul"),
        (rolled, "roll"),
        (masked_by_a_small_number, "masked_fill"),
        (two_products, "several products"),
    ],
)
def test_what_is_not_recognised_is_said(form: Callable[[Tensor, Tensor, Tensor], Tensor], reason: str):
    (call,), _ = watch(form)
    assert reason in call.broken
    assert call.query.shape[:3] == (TEXTS, HEADS, TOKENS)


def test_what_is_no_attention_is_not_taken_for_it():
    watcher = Watcher()
    with torch.no_grad(), Observation(watcher, TEXTS):
        q, k, _ = Parts()()
        routed = torch.softmax(nn.Linear(KEY, 4)(q), dim=-1) @ torch.randn(TEXTS, HEADS, 4, 3)
        mixed = torch.tanh(q @ k.mT) @ k  # no softmax
        total = (q @ k.mT).softmax(dim=-1).sum()
    assert watcher.calls == []
    assert [tensor.numel() for tensor in (routed, mixed, total)] == [90, 210, 1]


def test_nothing_is_kept_of_tensors_that_are_gone():
    watcher = Watcher()
    observation = Observation(watcher, TEXTS)
    with torch.no_grad(), observation:
        plain(*Parts()())
    assert len(observation._roots._values) > 0
    watcher.calls.clear()
    assert observation._known._values == {}
    assert observation._roots._values == {}
