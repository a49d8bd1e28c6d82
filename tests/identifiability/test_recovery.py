import math
from typing import Any

import pytest
import torch

from identiformer.errors import InputError
from identiformer.identifiability import AttentionHead, Level, Verdict, certify, recover


def draw(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def tensor(numbers):
    return torch.tensor(numbers, dtype=torch.float64)


def recovered(head, level=Level.GENERATABLE, dtype=None):
    return recover(
        head.keys,
        head.values,
        head.output_projection,
        head.output,
        level,
        visible=head.visible,
        bias=head.bias,
        dtype=dtype or head.dtype,
    )


def carrying(n, d_k, d_v, d_e, *, seed=0, weak=1.0, **more):
    """A head whose values carry its keys."""
    keys = draw(n, d_k, seed=seed)
    values = torch.cat([draw(n, d_v, seed=seed + 1), weak * keys], dim=-1)
    projection = draw(d_v + d_k, d_e, seed=seed + 2)
    return AttentionHead.from_query(draw(d_k, seed=seed + 3), keys, values, projection, **more)


def close(found, expected, error=1e-13):
    torch.testing.assert_close(found, expected, atol=error, rtol=0)


@pytest.mark.parametrize("level", Level)
def test_two_tokens_by_hand(level):
    # T = diag(3, 4): h = (3/4, 3) is of the weights 1/4 and 3/4.
    keys, values = tensor([[0.0], [1.0]]), tensor([[3.0, 0.0], [0.0, 4.0]])
    close(recover(keys, values, None, tensor([0.75, 3.0]), level), tensor([0.25, 0.75]))
    # D = 2: the same from twice the output.
    close(recover(keys, values, 2 * torch.eye(2), tensor([1.5, 6.0]), level), tensor([0.25, 0.75]))


def test_free_weights_need_not_be_a_distribution():
    keys, values = tensor([[0.0], [1.0]]), tensor([[3.0, 0.0], [0.0, 4.0]])
    close(recover(keys, values, None, tensor([6.0, -4.0]), "free"), tensor([2.0, -1.0]))
    for level in ("simplex", "generatable"):
        with pytest.raises(InputError, match=f"no weights at level '{level}' have this output"):
            recover(keys, values, None, tensor([6.0, -4.0]), level)


def test_thirds_are_exact_to_float64():
    values = tensor([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    close(recover(draw(3, 5), values, None, tensor([1 / 3, 1 / 3]), "simplex"), tensor([1 / 3] * 3), 1e-15)


def test_the_mean_key_by_hand():
    # Keys 0, 1, 2 at theta = log 2: weights 1, 2, 4 over 7, mean key (2 + 8) / 7. The values are the keys, so T has one
    # column for three tokens: the output fixes the row among softmaxes only.
    keys = tensor([[0.0], [1.0], [2.0]])
    close(recover(keys, keys, None, tensor([10 / 7]), "generatable"), tensor([1.0, 2.0, 4.0]) / 7)
    # A bias of log 3 on token 1 and theta = 0: weights 1, 3, 1 over 5, mean key 1.
    bias = tensor([0.0, math.log(3), 0.0])
    close(recover(keys, keys, None, tensor([1.0]), "generatable", bias=bias), tensor([1.0, 3.0, 1.0]) / 5)
    # The values carry 5 - 2 k: h = 5 - 20 / 7.
    found = recover(keys, 5 - 2 * keys, None, tensor([15 / 7]), "generatable")
    close(found, tensor([1.0, 2.0, 4.0]) / 7)


def test_equal_keys_leave_the_bias():
    keys = torch.ones(3, 5, dtype=torch.float64)
    values = draw(3, 1)
    bias = tensor([0.0, math.log(2), math.log(5)])
    weights = tensor([1.0, 2.0, 5.0]) / 8
    close(recover(keys, values, None, weights @ values, "generatable", bias=bias), weights)


def test_one_token():
    values = draw(1, 3)
    for level in Level:
        close(recover(draw(1, 5), values, None, values[0], level), tensor([1.0]))


@pytest.mark.parametrize("scaling", [0.3, 1.0, 5.0, 30.0])
@pytest.mark.parametrize(("n", "d_k", "d_v", "d_e"), [(5, 3, 1, 7), (11, 7, 3, 11), (301, 5, 7, 23)])
def test_carried_keys_at_any_length(n, d_k, d_v, d_e, scaling):
    head = carrying(n, d_k, d_v, d_e, scaling=scaling)
    assert int(certify(head).generatable.verdict) == Verdict.GLOBAL
    close(recovered(head), head.weights, 1e-11)


@pytest.mark.parametrize("scaling", [0.1, 1.0, 10.0])
def test_four_thousand_tokens(scaling):
    head = carrying(4096, 16, 7, 23, scaling=scaling)
    close(recovered(head), head.weights, 1e-12)


@pytest.mark.parametrize("tiny", [1e-10, 1e-30, 1e-300])
def test_peaked_rows(tiny):
    keys = tensor([[0.0], [1.0], [2.0]])
    row = AttentionHead.from_query(tensor([math.log(tiny)]), keys, keys)
    close(recovered(row), row.weights, 1e-15)
    # At the edge of a square: tokens 0 and 1 share the row, the others hardly have any.
    keys = tensor([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [3.0, 2.0]])
    row = AttentionHead.from_query(tensor([math.log(3), math.log(tiny)]), keys, keys)
    close(row.weights[:2], tensor([0.25, 0.75]), 1e-9)
    close(recovered(row), row.weights, 1e-15)


def test_a_bias_that_points_elsewhere():
    # Without a query, all weight but 1e-300 is on token 3; the row has it on the others.
    keys = draw(7, 3)
    bias = tensor([0.0, 1.0, 0.0, 690.0, 0.0, 2.0, 0.0])
    query = torch.linalg.lstsq(torch.cat([keys, torch.ones(7, 1)], dim=-1)[:4], -bias[:4]).solution[:3]
    row = AttentionHead.from_query(query, keys, keys, bias=bias)
    close(recovered(row), row.weights, 1e-12)


def test_keys_on_a_weak_direction_of_the_values():
    # The mean key is known to 1e-7 only, but the whole output fixes the row far better.
    for seed in range(5):
        head = carrying(11, 3, 5, 11, seed=10 * seed, weak=1e-9)
        certificate = certify(head).generatable
        assert int(certificate.verdict) == Verdict.GLOBAL
        assert float(certificate.margin) > 1e-3
        close(recovered(head), head.weights, 1e-11)


def test_a_mean_that_rounding_moves_out_of_the_hull():
    # Most weights are smaller than what is known of the mean key.
    generator = torch.Generator().manual_seed(0)
    for _ in range(5):
        keys = torch.randint(-2, 3, (41, 7), generator=generator).to(torch.float64)
        strong = torch.randn(41, 11, generator=generator, dtype=torch.float64)
        query = torch.randn(7, generator=generator, dtype=torch.float64)
        head = AttentionHead.from_query(query, keys, torch.cat([strong, 1e-9 * keys], dim=-1), scaling=1.2)
        assert int(certify(head).generatable.verdict) == Verdict.GLOBAL
        close(recovered(head), head.weights, 1e-10)


@pytest.mark.parametrize("level", [Level.SIMPLEX, Level.GENERATABLE])
@pytest.mark.parametrize("scale", [1e-30, 1e-6, 1e6, 1e30])
def test_scale_changes_nothing(level, scale):
    head = AttentionHead.from_query(draw(3), draw(7, 3), scale * draw(7, 11), draw(11, 5) / scale**2)
    if level == Level.SIMPLEX:
        head = AttentionHead.from_query(draw(3), draw(5, 3), scale * draw(5, 7), draw(7, 11) / scale**2)
    else:
        head = carrying(23, 3, 2, 7)
        assert head.output_projection is not None
        head = AttentionHead(
            head.weights, head.keys / scale, head.values * scale, head.output_projection / scale**2
        )
    close(recovered(head, level), head.weights)


def test_common_parts_of_keys_and_values():
    keys = draw(23, 3) + 1e4
    values = torch.cat([keys - 1e4, draw(23, 2) + 1e4], dim=-1)
    head = AttentionHead.from_query(draw(3, seed=1), keys, values)
    assert float(certify(head).generatable.margin) > 1e-6
    close(recovered(head), head.weights, 1e-8)


def test_rows_with_exact_zeros():
    head = carrying(7, 3, 2, 5, scaling=1e6)
    assert int((head.weights == 0).sum()) == 6
    close(recovered(head), head.weights)
    keys, values = draw(5, 3), draw(5, 7)
    weights = tensor([0.5, 0.0, 0.25, 0.0, 0.25])
    close(recover(keys, values, None, weights @ values, "simplex"), weights)


def test_repeated_tokens_share_a_weight():
    source = torch.tensor([0, 1, 2, 1, 3, 1, 0])
    keys, values = draw(4, 3)[source], draw(4, 7, seed=1)[source]
    values = torch.cat([values, keys], dim=-1)
    head = AttentionHead.from_query(draw(3, seed=2), keys, values)
    found = recovered(head)
    close(found, head.weights)
    assert float(found[1]) == float(found[3]) == float(found[5])
    with pytest.raises(InputError, match=r"'simplex' \(nullity 3\); recover them at level 'generatable'"):
        recovered(head, Level.SIMPLEX)


def test_what_is_not_visible():
    visible = torch.tensor([True, False, True, True, False, True, True])
    keys, values = draw(7, 3), draw(7, 5)
    keys[1], values[4] = torch.nan, torch.inf
    head = AttentionHead.from_query(draw(3), keys, values, visible=visible)
    for level in Level:
        found = recover(keys, values, None, head.output, level, visible=visible)
        close(found, head.weights)
        assert (found[~visible] == 0).all()


def test_batches_of_rows(monkeypatch):
    keys = draw(3, 1, 11, 3)
    values = torch.cat([keys, draw(3, 1, 11, 2)], dim=-1)
    visible = torch.rand(3, 5, 11, generator=torch.Generator().manual_seed(0)) < 0.8
    visible[..., 0] = True
    rows = AttentionHead.from_query(draw(3, 5, 3), keys, values, draw(5, 7), visible=visible)
    for level in (Level.SIMPLEX, Level.GENERATABLE):
        head = rows
        if level == Level.SIMPLEX:
            keys = draw(3, 1, 5, 3)
            head = AttentionHead.from_query(draw(3, 5, 3), keys, draw(3, 1, 5, 7), draw(7, 11))
        found = recovered(head, level)
        assert found.shape == head.weights.shape
        close(found, head.weights)
        close(recovered(head[1, 2], level), head.weights[1, 2])
        with monkeypatch.context() as patch:
            patch.setattr("identiformer.identifiability.pieces._NUMBERS_AT_ONCE", 600)
            close(recovered(head, level), found)
    # The outputs alone may have the batch.
    one = carrying(7, 3, 5, 11)
    outputs = torch.stack([one.output, one.transformed[4]])
    found = recover(one.keys, one.values, one.output_projection, outputs, "simplex", visible=one.mask[None])
    close(found, torch.stack([one.weights, torch.eye(7, dtype=torch.float64)[4]]))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_other_precisions(dtype):
    # The output as a model of that precision gives it.
    eps = torch.finfo(dtype).eps
    for seed in range(5):
        keys = draw(23, 3, seed=seed).to(dtype)
        values = torch.cat([keys, draw(23, 2, seed=seed + 9).to(dtype)], dim=-1)
        head = AttentionHead.from_query(draw(3, seed=seed + 20).to(dtype), keys, values)
        margin = float(certify(head).generatable.margin)
        found = recover(keys, values, None, head.output.to(dtype), "generatable")
        assert found.dtype == torch.float64
        close(found, head.weights, 4 * eps / margin)


def test_what_cannot_be_recovered():
    keys, values = draw(7, 3), draw(7, 5)
    head = AttentionHead.from_query(draw(3), keys, values)
    with pytest.raises(InputError, match=r"'simplex' \(nullity 1\); nor does it at any other level: certify"):
        recovered(head, Level.SIMPLEX)
    with pytest.raises(
        InputError, match=r"'generatable' \(no other row nearby, but perhaps others far away\)"
    ):
        recovered(head, Level.GENERATABLE)
    with pytest.raises(InputError, match=r"'free' \(nullity 1\); recover them at level 'simplex'"):
        recover(keys[:6], values[:6], None, values[0], "free")
    # One row of a batch is enough.
    both = torch.ones(2, 3, 7, dtype=torch.bool)
    both[0, :, 6] = both[1, 1, 6] = both[1, 2, 0] = False
    with pytest.raises(InputError, match=r"'simplex' \(nullity 1 in row \(1, 0\)\)"):
        recover(keys, values, None, values[0], "simplex", visible=both)


def test_an_output_that_no_weights_have():
    head = carrying(11, 3, 2, 7)
    for level in (Level.SIMPLEX, Level.GENERATABLE):
        short = (
            head
            if level == Level.GENERATABLE
            else AttentionHead(tensor([1.0]), head.keys[:1], head.values[:1])
        )
        output = short.output + 0.01
        with pytest.raises(
            InputError, match=f"no weights at level '{level}' have this output: the nearest miss"
        ):
            recover(short.keys, short.values, short.output_projection, output, level)
    outputs = torch.stack([head.output, 9 * head.output])
    with pytest.raises(InputError, match=r"have this output in row \(1,\)"):
        recover(head.keys, head.values, head.output_projection, outputs, "generatable")


def given(**changed) -> dict[str, Any]:
    arguments: dict[str, Any] = {"keys": draw(5, 3), "values": draw(5, 7), "output_projection": draw(7, 11)}
    return {**arguments, "output": draw(11), "level": "simplex", **changed}


@pytest.mark.usefixtures("unhooked")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (given(level="softmax"), "level must be one of free, simplex, generatable, not 'softmax'"),
        (
            given(values=draw(3, 7)),
            r"values has shape \(3, 7\) and keys have shape \(5, 3\).*tokens, 3 and 5",
        ),
        (
            given(visible=torch.ones(7, dtype=torch.bool)),
            r"visible has shape \(7,\) and keys have shape \(5, 3\)",
        ),
        (given(visible=torch.zeros(5, dtype=torch.bool)), "without a single token"),
        (given(bias=draw(3)), r"bias has shape \(3,\) and keys have shape \(5, 3\)"),
        (given(keys=draw(5)), r"keys has shape \(5,\): it needs 2 dimensions or more"),
        (given(output=draw(7)), r"output has shape \(7,\) and output_projection has shape \(7, 11\).*d_e"),
        (
            given(output=draw(11), output_projection=None),
            r"output has shape \(11,\) and values has shape \(5, 7\)",
        ),
        (given(output=torch.ones(11, dtype=torch.int64)), "output must be of a floating-point dtype"),
        (given(output=draw(2, 11), keys=draw(3, 5, 3)), r"\(2,\) of output do not broadcast against \(3,\)"),
    ],
)
def test_bad_input_is_named(arguments, message):
    with pytest.raises(InputError, match=message):
        recover(**arguments)
