import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from identiformer.identifiability import AttentionHead
from identiformer.identifiability.generating_query import generating_query
from identiformer.identifiability.query_space import QuerySpace

# Keys of three tokens with which every positive row is a softmax.
ANY_ROW = [[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]]


def tensor(numbers):
    return torch.tensor(numbers, dtype=torch.float64)


def draw(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def head(weights, keys=ANY_ROW, **more):
    return AttentionHead(weights, tensor(keys), torch.ones(len(keys), 3), **more)


def generate(row):
    space = QuerySpace(row)
    weights = row.weights[row.mask].numpy()
    found = generating_query(space, weights, row.dtype)
    return space, found, np.exp(space.log_weights(found.point))


def test_by_hand():
    # Logits 0, q0, q1 up to a constant: logarithms of ratios.
    space, found, row = generate(head(tensor([0.2, 0.7, 0.1])))
    assert found.exact
    np.testing.assert_allclose(space.query(found.point), [math.log(3.5), -math.log(2)], rtol=1e-12)
    np.testing.assert_allclose(row, [0.2, 0.7, 0.1], rtol=1e-12)
    # Bias and scaling: (log r - bias) / scaling.
    row = head(tensor([0.2, 0.7, 0.1]), bias=tensor([1.0, 2.0, 0.0]), scaling=tensor(0.5))
    space, found, _ = generate(row)
    assert found.exact
    np.testing.assert_allclose(
        space.query(found.point), [2 * (math.log(3.5) - 1), 2 * (1 - math.log(2))], rtol=1e-12
    )


def test_the_shortest_of_many_queries():
    # The second channel is the same for all tokens and the third one zero.
    keys = [[0.0, 5.0, 0.0], [1.0, 5.0, 0.0]]
    space, found, _ = generate(head(tensor([0.25, 0.75]), keys))
    assert found.exact
    assert space.coordinates.shape == (2, 1)
    np.testing.assert_allclose(space.query(found.point), [math.log(3), 0.0, 0.0], atol=1e-12)


@pytest.mark.parametrize("size", [1e-30, 1e-200])
def test_peaked_rows(size):
    _, found, row = generate(head(tensor([1.0, size, 3 * size])))
    assert found.exact
    np.testing.assert_allclose(row, [1.0, size, 3 * size], rtol=1e-12)


def test_zeros_come_out_below_what_the_type_can_hold():
    # In float32, exp(-120) is zero. Tokens 0 and 1 fix the first channel of the query; the others, only that the
    # rest of it is negative enough.
    keys = [[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [1.0, 1.0, 1.0]]
    exact = AttentionHead.from_query(tensor([math.log(3), -120.0, -150.0]), tensor(keys), torch.ones(5, 3))
    rounded = head(exact.weights.float(), keys)
    assert rounded.weights.count_nonzero() == 2
    _, found, row = generate(rounded)
    assert found.exact
    np.testing.assert_allclose(row[:2], [0.25, 0.75], rtol=1e-6)
    assert row[2:].max() < torch.finfo(torch.float32).tiny


def test_weights_near_the_smallest_number_say_little():
    # Weights of 1.4e-45, the smallest of float32, stand for anything from half of that to twice.
    rounded = head(torch.tensor([0.25, 0.75, 2e-45]), [[0.0], [1.0], [-93.3]])
    assert float(rounded.weights[2]) == pytest.approx(1.4e-45, rel=0.01)
    assert generate(rounded)[1].exact
    # What is known to be larger is not so.
    assert not generate(head(torch.tensor([0.25, 0.75, 2e-35]), [[0.0], [1.0], [-93.3]]))[1].exact


def test_what_no_query_generates():
    # log a is not linear in the key, by more than the type can hide.
    line = [[0.0], [1.0], [2.0]]
    for weights in (torch.tensor([0.25, 0.5, 0.25]), torch.tensor([0.24, 0.26, 0.5])):
        _, found, row = generate(head(weights, line))
        assert not found.exact
        assert found.worst == int(np.abs(row - weights.numpy()).argmax())
    # In bfloat16 it can hide a thousandth.
    assert generate(head(torch.tensor([0.166, 0.333, 0.501]), [[0.0], [1.0], [1.58]], dtype=torch.bfloat16))[
        1
    ].exact
    assert not generate(head(torch.tensor([0.166, 0.333, 0.501]), [[0.0], [1.0], [1.58]]))[1].exact
    # A token between two others cannot be zero beside them.
    _, found, row = generate(head(tensor([0.5, 0.0, 0.5]), line))
    assert not found.exact
    assert found.worst == 1
    np.testing.assert_allclose(row, [1 / 3] * 3)
    # Equal keys, different weights.
    assert not generate(head(tensor([0.5, 0.3, 0.2]), [[1.0], [1.0], [1.0]]))[1].exact


many = settings(max_examples=60, deadline=None, derandomize=True)


@many
@given(
    st.sampled_from([1, 3, 5, 7, 11]),
    st.sampled_from([1, 3, 5, 7, 11]),
    st.sampled_from([0.0, 1.0, 10.0, 300.0]),
    st.sampled_from([0.0, 1e3]),
    st.sampled_from([torch.float64, torch.float32, torch.bfloat16]),
    st.integers(0, 2**31),
)
def test_every_softmax_is_recognised(n, d_k, sharpness, common, dtype, seed):
    keys = (draw(n, d_k, seed=seed) + common).to(dtype)
    query = (sharpness * draw(d_k, seed=seed + 1)).to(dtype)
    row = AttentionHead.from_query(
        query, keys, keys, bias=draw(n, seed=seed + 2).to(dtype), scaling=d_k**-0.5
    )
    space, found, weights = generate(row)
    if dtype == torch.bfloat16 and common:
        # Differences between keys are lost in their rounding.
        return
    assert found.exact
    again = AttentionHead.from_query(
        torch.from_numpy(space.query(found.point)), row.keys, keys, bias=row.bias, scaling=row.scaling
    )
    # As exact as logits can be whose terms are so much larger.
    size = d_k**-0.5 * float((row.keys.abs() @ query.double().abs()).max())
    np.testing.assert_allclose(weights, row.weights.numpy(), atol=1e-14 * (1 + size) + 1e-12)
    np.testing.assert_allclose(again.weights.numpy(), row.weights.numpy(), atol=1e-13 * (1 + size) + 1e-12)
