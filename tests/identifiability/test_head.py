from typing import Any

import pytest
import torch

from identiformer.errors import InputError
from identiformer.identifiability import AttentionHead

N, D_K, D_V, D_E = 5, 3, 7, 11


def parts(*batch, seed=0):
    generator = torch.Generator().manual_seed(seed)

    def draw(*shape):
        return torch.randn(*batch, *shape, generator=generator, dtype=torch.float64)

    return draw(D_K), draw(N, D_K), draw(N, D_V), draw(D_V, D_E)


def test_weights_of_a_query_by_hand():
    keys = torch.tensor([[0.0, 5.0], [1.0, 5.0], [2.0, 5.0]])
    query = torch.tensor([1.0, 0.0])
    log2 = torch.log(torch.tensor(2.0, dtype=torch.float64))
    head = AttentionHead.from_query(query, keys, torch.eye(3), scaling=float(log2))
    torch.testing.assert_close(head.weights, torch.tensor([1.0, 2.0, 4.0], dtype=torch.float64) / 7)
    # The values are the identity: the output is the weights.
    torch.testing.assert_close(head.output, head.weights)
    bias = torch.tensor([2.0, 1.0, 0.0]) * log2
    level = AttentionHead.from_query(query, keys, torch.eye(3), scaling=float(log2), bias=bias)
    torch.testing.assert_close(level.weights, torch.full((3,), 1 / 3, dtype=torch.float64))
    visible = torch.tensor([True, False, True])
    masked = AttentionHead.from_query(query, keys, torch.eye(3), visible=visible, scaling=float(log2))
    torch.testing.assert_close(masked.weights, torch.tensor([0.2, 0.0, 0.8], dtype=torch.float64))


def test_transformed_output_and_reduced():
    query, keys, values, projection = parts(2)
    head = AttentionHead.from_query(query, keys, values, projection)
    transformed = values @ projection
    torch.testing.assert_close(head.transformed, transformed)
    torch.testing.assert_close(head.output, torch.einsum("bn,bne->be", head.weights, transformed))
    assert head.reduced.shape == (2, N, D_V)
    torch.testing.assert_close(head.reduced @ head.reduced.mT, transformed @ transformed.mT)


@pytest.mark.parametrize("given", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
def test_any_precision_comes_in_and_float64_goes_on(given):
    query, keys, values, projection = (tensor.to(given) for tensor in parts())
    head = AttentionHead.from_query(query, keys, values, projection)
    assert head.dtype == given
    assert head.eps == torch.finfo(given).eps
    assert {head.weights.dtype, head.keys.dtype, head.transformed.dtype} == {torch.float64}
    weights = head.weights.to(given)
    assert AttentionHead(weights, keys, values, projection).dtype == given
    assert AttentionHead(weights, keys, values, projection, dtype=torch.float16).dtype == torch.float16


def test_gradients_are_left_behind():
    query, keys, values, projection = (tensor.requires_grad_() for tensor in parts())
    head = AttentionHead.from_query(query, keys, values, projection)
    assert not head.output.requires_grad


def test_what_is_not_visible_may_hold_anything():
    query, keys, values, projection = parts()
    visible = torch.tensor([True, True, False, True, False])
    clean = AttentionHead.from_query(query, keys, values, projection, visible)
    keys[2], keys[4] = torch.nan, torch.inf
    values[2], values[4] = -torch.inf, torch.nan
    weights = clean.weights.clone()
    weights[2] = torch.nan
    for head in (
        AttentionHead.from_query(query, keys, values, projection, visible),
        AttentionHead(weights, keys, values, projection, visible),
    ):
        torch.testing.assert_close(head.weights, clean.weights)
        torch.testing.assert_close(head.output, clean.output)
        assert (head.transformed[~visible] == 0).all()


def test_rows_with_their_own_masks_share_their_keys():
    _, keys, values, projection = parts()
    keys[N - 1] = torch.nan  # no row sees it
    visible = torch.ones(N, N, dtype=torch.bool).tril()[: N - 1]
    weights = visible / visible.sum(dim=-1, keepdim=True)
    head = AttentionHead(weights, keys.expand(N - 1, N, D_K), values, projection, visible)
    assert head.batch_shape == (N - 1,)
    assert head.keys.shape == (1, N, D_K)
    assert head.values.shape == (N, D_V)
    assert head.tokens.tolist() == [1, 2, 3, 4]
    assert head.transformed.shape == (N - 1, N, D_E)
    assert (head.transformed[~visible] == 0).all()
    row = head[2]
    torch.testing.assert_close(row.output, values[:3].mean(dim=0) @ projection)


def test_index():
    query, keys, values, projection = parts(3, 2)
    head = AttentionHead.from_query(
        query, keys, values, projection[0, 0], scaling=torch.tensor([[0.5], [1.0], [2.0]])
    )
    assert head[1].batch_shape == (2,)
    assert head[1, 0].batch_shape == ()
    assert head[..., 1].batch_shape == (3,)
    assert head[1:].batch_shape == (2, 2)
    assert head[torch.tensor([2, 0])].batch_shape == (2, 2)
    torch.testing.assert_close(head[2, 1].weights, head.weights[2, 1])
    torch.testing.assert_close(head[..., 1].keys, keys[:, 1])
    torch.testing.assert_close(head[2, 1].scaling, torch.tensor(2.0))
    with pytest.raises(IndexError, match=r"3 indices .* \(3, 2\)"):
        head[0, 0, 0]


def test_stack_pads_every_size():
    generator = torch.Generator().manual_seed(0)

    def draw(*shape):
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    first = AttentionHead.from_query(draw(3), draw(5, 3), draw(5, 7), draw(7, 11), scaling=0.5)
    second = AttentionHead.from_query(
        draw(7), draw(3, 7), draw(3, 5), visible=torch.tensor([True, False, True]), bias=draw(3)
    )
    both = AttentionHead.stack([first, second])
    assert both.batch_shape == (2,)
    assert both.keys.shape == (2, 5, 7)
    assert both.values.shape == (2, 5, 7)
    assert both.mask.tolist() == [[True] * 5, [True, False, True, False, False]]
    torch.testing.assert_close(both.output[0], first.output)
    torch.testing.assert_close(both.output[1, :5], second.output)
    assert (both.output[1, 5:] == 0).all()
    torch.testing.assert_close(both.scaling, torch.tensor([0.5, 1.0], dtype=torch.float64))


def test_stack_refuses_what_does_not_fit():
    one = AttentionHead.from_query(*parts())
    with pytest.raises(InputError, match="at least one"):
        AttentionHead.stack([])
    with pytest.raises(InputError, match=r"batch shapes \[\(\), \(2,\)\]"):
        AttentionHead.stack([one, AttentionHead.from_query(*parts(2))])
    with pytest.raises(InputError, match=r"torch\.float32.*torch\.float64"):
        AttentionHead.stack([one, AttentionHead.from_query(*parts(), dtype=torch.float32)])


def uniform(n=N):
    return torch.full((n,), 1 / n, dtype=torch.float64)


def wrong(**changed) -> dict[str, Any]:
    _, keys, values, projection = parts()
    return {"weights": uniform(), "keys": keys, "values": values, "output_projection": projection} | changed


@pytest.mark.usefixtures("unhooked")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (wrong(keys=torch.ones(7, 3)), r"keys has shape \(7, 3\) and weights have shape \(5,\).* 7 and 5"),
        (wrong(values=torch.ones(3, 7)), r"values has shape \(3, 7\) and weights have shape \(5,\)"),
        (wrong(visible=torch.ones(7, dtype=torch.bool)), r"visible has shape \(7,\)"),
        (wrong(bias=torch.ones(3)), r"bias has shape \(3,\)"),
        (
            wrong(output_projection=torch.ones(3, 11)),
            r"\(3, 11\) and values have shape \(5, 7\).* d_v, 3 and 7",
        ),
        (
            wrong(keys=torch.ones(2, 5, 3), values=torch.ones(3, 5, 7)),
            r"\(3,\) of values do not broadcast against \(2,\)",
        ),
        (wrong(scaling=torch.ones(2, 3), keys=torch.ones(2, 5, 3)), r"\(2, 3\) of scaling .* \(2,\)"),
        (wrong(keys=torch.ones(5)), r"keys has shape \(5,\): it needs 2 dimensions"),
        (
            wrong(keys=torch.ones(5, 3, dtype=torch.int64)),
            "keys must be of a floating-point dtype, not torch.int64",
        ),
        (wrong(visible=torch.ones(5)), "visible must be of dtype torch.bool"),
        (wrong(visible=torch.zeros(5, dtype=torch.bool)), "without a single token"),
        (wrong(keys=torch.ones(5, 0)), r"keys has shape \(5, 0\): it is empty"),
        (wrong(weights=torch.tensor([-0.5, 0.5, 0.5, 0.5, 0.0])), "negative"),
        (wrong(weights=uniform() * 1.1), "sums to 1.1 .* before dropout"),
        (
            wrong(weights=torch.tensor([torch.nan, 0.25, 0.25, 0.25, 0.25])),
            r"weights has shape \(5,\) and holds nan at \(0,\)",
        ),
        (
            wrong(output_projection=torch.full((7, 11), torch.inf)),
            r"output_projection .* holds inf at \(0, 0\)",
        ),
    ],
)
def test_bad_input_is_named(arguments, message):
    with pytest.raises(InputError, match=message):
        AttentionHead(**arguments)


@pytest.mark.parametrize("name", ["keys", "values"])
def test_nan_that_is_visible_is_an_error(name):
    arguments: dict[str, Any] = wrong()
    arguments[name][3, 1] = torch.nan
    with pytest.raises(InputError, match=rf"{name} has shape .* holds nan at \(3, 1\)"):
        AttentionHead(**arguments)
    visible = torch.tensor([True, True, True, False, True])
    arguments |= {"weights": visible / 4.0, "visible": visible}
    AttentionHead(**arguments)


@pytest.mark.usefixtures("unhooked")
def test_a_query_of_another_size_is_named():
    _, keys, values, _ = parts()
    with pytest.raises(InputError, match=r"query has shape \(7,\) and keys have shape \(5, 3\)"):
        AttentionHead.from_query(torch.ones(7), keys, values)


def test_rounded_weights_are_weights():
    weights = torch.softmax(torch.randn(512, generator=torch.Generator().manual_seed(0)), dim=-1)
    for dtype in (torch.float32, torch.float16, torch.bfloat16):
        rounded = weights.to(dtype)
        head = AttentionHead(rounded, torch.ones(512, 3), torch.ones(512, 7))
        torch.testing.assert_close(head.weights, rounded.to(torch.float64), atol=0, rtol=0)
