import math

import torch

from identiformer.identifiability import AttentionHead, tied_tokens


def head(keys, values, visible=None, dtype=torch.float64):
    n = keys.shape[-2]
    mask = torch.ones(n, dtype=torch.bool) if visible is None else visible
    weights = mask.to(torch.float64) / mask.sum(dim=-1, keepdim=True)
    return AttentionHead(weights, keys, values, visible=visible, dtype=dtype)


def draw(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def test_repeated_tokens_form_groups():
    source = torch.tensor([0, 1, 2, 1, 3, 0, 1])
    ties = tied_tokens(head(draw(5, 3)[source], draw(5, 11)[source]))
    assert ties.group.tolist() == [0, 1, 2, 1, 4, 0, 1]
    assert int(ties.number) == 5


def test_both_key_and_value_must_agree():
    keys, values = draw(7, 3), draw(7, 5)
    keys[4] = keys[1]
    assert int(tied_tokens(head(keys, values)).number) == 0
    values[2] = values[1]
    assert int(tied_tokens(head(keys, values)).number) == 0
    values[4] = values[1]
    assert tied_tokens(head(keys, values)).group.tolist() == [0, 1, 2, 3, 1, 5, 6]


def test_only_visible_tokens_tie():
    source = torch.tensor([0, 1, 0, 1, 2])
    visible = torch.tensor([[True] * 5, [True, True, True, False, True], [True, False, False, True, True]])
    ties = tied_tokens(head(draw(3, 3)[source], draw(3, 7)[source], visible))
    assert ties.number.tolist() == [4, 2, 0]
    assert ties.group.tolist() == [[0, 1, 0, 1, 4], [0, 1, 0, -1, 4], [0, -1, -1, 3, 4]]


def test_equality_is_that_of_the_model():
    keys, values = draw(5, 3), draw(5, 7)
    keys[3], values[3] = keys[0] * (1 + 1e-7), values[0] * (1 - 1e-7)
    assert int(tied_tokens(head(keys, values)).number) == 0
    assert int(tied_tokens(head(keys, values, dtype=torch.float32)).number) == 2
    # Relative to the vectors, not to the others: small ones are not all the same.
    small = head(draw(5, 3) * 1e-9, draw(5, 7) * 1e-9, dtype=torch.float32)
    assert int(tied_tokens(small).number) == 0


def test_many_copies_and_zeros():
    ties = tied_tokens(head(torch.zeros(300, 3), torch.zeros(300, 5)))
    assert int(ties.number) == 300
    assert (ties.group == 0).all()
    source = torch.arange(300) % 7
    ties = tied_tokens(head(draw(7, 3)[source], draw(7, 5)[source]))
    assert ties.group.tolist() == source.tolist()
    assert int(tied_tokens(head(torch.ones(1, 3), torch.ones(1, 5))).number) == 0


def test_values_may_have_a_larger_batch_than_keys():
    keys, values = draw(5, 3), draw(7, 5, 11)
    for source, expected in (
        (torch.arange(5), [0] * 7),
        (torch.tensor([0, 1, 2, 3, 0]), [0, 0, 2, 0, 0, 0, 0]),
    ):
        tied = values.clone()
        tied[2, 4] = tied[2, 0]
        rows = AttentionHead(torch.full((7, 5), 0.2), keys[source], tied)
        ties = tied_tokens(rows)
        assert ties.number.tolist() == expected
        assert ties.group.shape == (7, 5)
        assert ties.group[2].tolist() == ([0, 1, 2, 3, 0] if expected[2] else [0, 1, 2, 3, 4])


def test_tokens_that_are_close_along_one_direction_only():
    """What is sorted is one number a token: neighbours in it are compared whole."""
    keys = draw(40, 3)
    direction = torch.cos(math.sqrt(2) * torch.arange(1, 4).double() ** 2 + math.sqrt(3))
    flat = keys - torch.outer(keys @ direction, direction) / direction.square().sum()
    assert int(tied_tokens(head(flat, draw(40, 5))).number) == 0
    flat[17] = flat[16]
    values = draw(40, 5)
    values[17] = values[16]
    assert int(tied_tokens(head(flat[14:19], values[14:19])).number) == 2
