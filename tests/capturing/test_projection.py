"""The output projection is the linear layer that received what attention gave; what is none is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from transformers.pytorch_utils import Conv1D

from architectures import batch, build
from identiformer.capturing import CapturedLayer, capture_inputs
from identiformer.capturing.projection import ProjectionSearch

ROWS = torch.tensor([[0, 2], [1, 0]])


def mixed() -> Tensor:
    """Of two texts, three rows, five heads, d_v = 7."""
    return torch.randn(2, 3, 5, 7, generator=torch.Generator().manual_seed(0))


def test_heads_side_by_side_have_a_slice_each():
    linear, given = nn.Linear(35, 11), mixed()
    search = ProjectionSearch(given, ROWS)
    assert not search.found
    assert search.offer(linear, given.flatten(2), linear(given.flatten(2)).detach())
    matrix = search.result().matrix
    assert matrix is not None
    assert matrix.shape == (5, 7, 11)
    assert torch.equal(matrix[3], linear.weight.detach().double()[:, 21:28].mT)


def test_a_convolution_of_width_1_keeps_its_matrix_the_other_way_round():
    linear, given = Conv1D(11, 35), mixed()
    search = ProjectionSearch(given, ROWS)
    flat = given.flatten(2).flatten(0, 1)  # texts and rows may be one dimension
    assert search.offer(linear, flat, linear(flat).detach())
    matrix = search.result().matrix
    assert matrix is not None
    assert torch.equal(matrix[3], linear.weight.detach().double()[21:28])


def test_heads_that_are_added_up_share_the_whole():
    linear, given = nn.Linear(7, 11), mixed()
    search = ProjectionSearch(given, ROWS)
    assert search.offer(linear, given.sum(dim=2), linear(given.sum(dim=2)).detach())
    matrix = search.result().matrix
    assert matrix is not None
    assert torch.equal(matrix, linear.weight.detach().double().mT[None])


def test_a_layer_that_receives_something_else_is_none():
    linear, given = nn.Linear(35, 11), mixed()
    search = ProjectionSearch(given, ROWS)
    for received in (given.flatten(2) * 1.001, given.transpose(2, 3).flatten(2), given[:1].flatten(2)):
        assert not search.offer(linear, received, linear(received).detach())
    assert not search.offer(nn.Linear(11, 35), torch.randn(2, 3, 11), torch.randn(2, 3, 35))
    assert not search.found
    assert search.result().matrix is None
    assert "no linear layer receives" in search.result().reason


def test_two_layers_that_receive_it_are_refused():
    given = mixed()
    search = ProjectionSearch(given, ROWS)
    for linear in (nn.Linear(35, 11), nn.Linear(35, 3)):
        assert search.offer(linear, given.flatten(2), linear(given.flatten(2)).detach())
    assert search.result().matrix is None
    assert "several linear layers" in search.result().reason


def test_a_layer_that_gives_something_else_is_refused():
    linear, given = nn.Linear(35, 11), mixed()
    output = linear(given.flatten(2)).detach()
    output[0, 2, 10] += 1e-4
    search = ProjectionSearch(given, ROWS)
    assert search.offer(linear, given.flatten(2), output)
    assert search.result().matrix is None
    assert "something else than x W + b" in search.result().reason
    search = ProjectionSearch(given, torch.tensor([[0], [0]]))  # the row that differs is none of ours
    assert search.offer(linear, given.flatten(2), output)
    assert search.result().matrix is not None


class Changed(nn.Module):
    """A projection whose input is changed on the way."""

    def __init__(self, linear: nn.Module, change: Callable[[Tensor], Tensor]):
        super().__init__()
        self.linear, self.change = linear, change

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(self.change(x))


class Adapted(nn.Module):
    """A projection with an adapter of low rank beside it."""

    def __init__(self, linear: nn.Linear):
        super().__init__()
        self.linear = linear
        self.down, self.up = nn.Linear(linear.in_features, 2), nn.Linear(2, linear.out_features)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(x) + self.up(self.down(x))


class Rounded(nn.Linear):
    """A linear layer that computes with another matrix than it shows."""

    def forward(self, input: Tensor) -> Tensor:
        return nn.functional.linear(input, self.weight.half().float(), self.bias)


def with_projection(replace: Callable[[nn.Linear], nn.Module]) -> list[CapturedLayer]:
    model: Any = build("llama")
    attention = model.model.layers[0].self_attn
    attention.o_proj = replace(attention.o_proj)
    return list(capture_inputs(model, batch("llama"), rows="all", heads=[1, 3]))


@pytest.mark.parametrize(
    ("replace", "reason"),
    [
        (lambda linear: Changed(linear, lambda x: x * torch.sigmoid(x)), "a gate or a norm"),
        (lambda linear: Changed(linear, nn.LayerNorm(32)), "a gate or a norm"),
        (lambda linear: Changed(linear, lambda x: x.flip(-1)), "a gate or a norm"),
        (Adapted, "several linear layers"),
        (lambda linear: Rounded(32, 32), "something else than x W"),
    ],
)
def test_heads_of_a_layer_whose_projection_is_not_known_are_refused(
    replace: Callable[[nn.Linear], nn.Module], reason: str
):
    changed, plain = with_projection(replace)
    assert changed.heads is None
    assert changed.head_numbers == ()
    assert list(changed.refused) == [1, 3]
    for number in (1, 3):
        assert reason in changed.refused[number]
    assert plain.heads is not None
    assert plain.head_numbers == (1, 3)
    assert not plain.refused


def test_a_head_whose_weights_are_of_another_form_is_refused_alone():
    """An eager function that mixes one head otherwise than its logits say."""
    model: Any = build("bert")
    model.set_attn_implementation("eager")
    from transformers.models.bert import modeling_bert

    eager = modeling_bert.eager_attention_forward

    def sharpened(module: Any, query: Tensor, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        query = query.clone()
        query[:, 2] *= 1.1
        return eager(module, query, *args, **kwargs)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(modeling_bert, "eager_attention_forward", sharpened)
        from identiformer.capturing.interface import _eager

        _eager.cache_clear()
        layers = list(capture_inputs(model, batch("bert")))
        _eager.cache_clear()
    for layer in layers:
        assert list(layer.refused) == [2]
        assert "of another form" in layer.refused[2]
        assert layer.head_numbers == (0, 1, 3)
        assert layer.heads is not None
        assert layer.heads.batch_shape == (3, 3, 1)


def test_numbers_that_are_none_are_not_blamed_on_the_model_s_form():
    model: Any = build("bert")
    with torch.no_grad():
        model.bert.encoder.layer[1].attention.self.value.weight[2, 3] = torch.nan
    first, second = capture_inputs(model, batch("bert"))
    assert not first.refused
    assert second.heads is None
    assert set(second.refused.values()) == {
        "attention gave NaN or infinity: the model's weights, or what it computes of these texts, are no numbers"
    }
