"""Masks and biases taken apart, on numbers written out."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from identiformer.capturing.call import AttentionCall
from identiformer.capturing.rows import Queries, check_rows, filled
from identiformer.capturing.visibility import Visibility, rows_of, visibility
from identiformer.errors import InputError

LEAST = torch.finfo(torch.float32).min


def call(*added: Tensor, rows: int = 3, tokens: int = 3) -> AttentionCall:
    query, key = torch.zeros(1, 1, rows, 2), torch.zeros(1, 1, tokens, 2)
    return AttentionCall(None, query, key, key, added, 1.0, torch.zeros(1, rows, 1, 2))


def test_without_a_mask_all_is_visible():
    seen = visibility(call())
    assert seen.visible.tolist() == [[[[True, True, True]]]]
    assert seen.bias is None


@pytest.mark.parametrize("hidden", [LEAST, -torch.inf, -10_000.0])
def test_a_mask_that_is_added_hides(hidden: float):
    mask = torch.tensor([[0.0, hidden, hidden], [0.0, 0.0, hidden], [0.0, 0.0, 0.0]])
    seen = visibility(call(mask[None, None]))
    assert seen.visible[0, 0].tolist() == [[True, False, False], [True, True, False], [True, True, True]]
    assert seen.bias is None


def test_what_is_left_of_a_mask_is_bias():
    """ALiBi and a causal mask in one tensor."""
    mask = torch.tensor([[0.0, LEAST, LEAST], [-0.5, 0.0, LEAST], [-1.0, -0.5, 0.0]])
    seen = visibility(call(mask[None, None]))
    assert seen.visible[0, 0].tolist() == [[True, False, False], [True, True, False], [True, True, True]]
    assert seen.bias is not None
    assert seen.bias[0, 0].tolist() == [[0.0, 0.0, 0.0], [-0.5, 0.0, 0.0], [-1.0, -0.5, 0.0]]


def test_a_boolean_mask_and_a_bias_of_each_head_are_joined():
    mask = torch.tensor([True, True, False])[None, None, None]
    bias = torch.tensor([[[1.0, 2.0, 3.0]], [[4.0, 5.0, 6.0]]])[None]  # [1, 2 heads, 1, 3]
    seen = visibility(call(mask, bias))
    assert seen.visible.tolist() == [[[[True, True, False]]]]
    assert seen.bias is not None
    assert seen.bias.tolist() == [[[[1.0, 2.0, 0.0]], [[4.0, 5.0, 0.0]]]]


def test_two_biases_are_added_up():
    seen = visibility(call(torch.tensor([1.0, 0.0, 2.0]), torch.tensor([[[0.5, 0.5, 0.5]]])))
    assert seen.bias is not None
    assert seen.bias.tolist() == [[[[1.5, 0.5, 2.5]]]]


def test_what_is_the_same_for_all_rows_and_heads_is_kept_once():
    mask = torch.tensor([True, False, True]).expand(5, 4, 3, 3)
    seen = visibility(call(mask))
    assert seen.visible.shape == (5, 1, 1, 3)


def test_a_row_of_padding_that_sees_nothing_hides_everything():
    mask = torch.full((1, 1, 2, 3), LEAST)
    mask[0, 0, 1] = 0.0
    assert visibility(call(mask, rows=2)).visible[0, 0].tolist() == [[False] * 3, [True] * 3]


def test_rows_are_picked_for_each_text():
    tensor = torch.arange(2 * 1 * 3 * 2).reshape(2, 1, 3, 2)
    rows = torch.tensor([[2, 0], [1, 1]])
    assert rows_of(tensor, rows)[:, 0].tolist() == [[[4, 5], [0, 1]], [[8, 9], [8, 9]]]
    shared = torch.arange(2).reshape(1, 1, 1, 2)
    assert rows_of(shared, rows) is shared


def causal(length: int, start: int, stop: int) -> Tensor:
    """`[length, length]`: a text from `start` to `stop`."""
    tokens = torch.arange(length)
    real = (tokens >= start) & (tokens < stop)
    return real[None] & (tokens[None] <= tokens[:, None])


def test_rows_of_a_causal_batch():
    visible = torch.stack([causal(5, 0, 5), causal(5, 0, 3), causal(5, 3, 5)])[:, None]
    queries = Queries.of_self_attention(Visibility(visible, None), 3, 5)
    assert queries.causal
    assert queries.real.long().tolist() == [[1, 1, 1, 1, 1], [1, 1, 1, 0, 0], [0, 0, 0, 1, 1]]
    assert queries.positions("pooled").tolist() == [[4], [2], [4]]
    assert queries.positions("all").tolist() == [[0, 1, 2, 3, 4], [0, 1, 2, -1, -1], [3, 4, -1, -1, -1]]
    assert queries.positions(3).tolist() == [[0, 1, 2], [0, 1, 2], [3, 4, -1]]
    assert filled(queries.positions(3)).tolist() == [[0, 1, 2], [0, 1, 2], [3, 4, 3]]
    assert queries.positions(7).shape == (3, 5)


def test_rows_of_a_batch_in_which_all_see_all():
    visible = torch.tensor([[1, 1, 1], [0, 1, 1]], dtype=torch.bool)[:, None, None]
    queries = Queries.of_self_attention(Visibility(visible, None), 2, 3)
    assert not queries.causal
    assert queries.positions("pooled").tolist() == [[0], [1]]
    assert queries.positions("all").tolist() == [[0, 1, 2], [1, 2, -1]]


@pytest.mark.parametrize("rows", [0, -1, True, 1.5, "first", None])
def test_rows_that_cannot_be_asked_for(rows: object):
    with pytest.raises(InputError, match="give 'pooled', 'all', or how many rows"):
        check_rows(rows)  # pyright: ignore[reportArgumentType]
