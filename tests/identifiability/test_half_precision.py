"""Models that compute in half precision: rounding is not to be taken for what it is not."""

from __future__ import annotations

import pytest
import torch

from identiformer.identifiability import AttentionHead, certify, certify_layer, recover

HALVES = (torch.bfloat16, torch.float16)


def identity(tokens: int, projected: bool, dtype: torch.dtype) -> AttentionHead:
    """T = 1: the output is the weights."""
    weights = torch.full((tokens,), 1 / tokens, dtype=torch.float64)
    keys = torch.arange(tokens, dtype=torch.float64)[:, None] / tokens
    unit = torch.eye(tokens, dtype=torch.float64)
    return AttentionHead(weights, keys, unit, unit if projected else None, dtype=dtype)


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("projected", [False, True])
def test_a_projection_that_cancels_nothing_costs_no_rank(dtype: torch.dtype, projected: bool) -> None:
    head = identity(256, projected, dtype)
    certificate = certify(head)
    assert int(certificate.free.nullity) == 0
    assert float(certificate.free.margin) == pytest.approx(1.0)
    found = recover(head.keys, head.values, head.output_projection, head.output, "simplex", dtype=dtype)
    torch.testing.assert_close(found, head.weights)


@pytest.mark.parametrize("dtype", HALVES)
def test_a_layer_of_many_tokens_is_not_all_noise(dtype: torch.dtype) -> None:
    blocks = torch.eye(128, dtype=torch.float64).reshape(2, 64, 128)
    weights = torch.full((2, 64), 1 / 64, dtype=torch.float64)
    keys = torch.randn(2, 64, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    layer = certify_layer(AttentionHead(weights, keys, blocks, dtype=dtype))
    assert int(layer.free.nullity) == 0
    assert float(layer.free.margin) == pytest.approx(1.0)
    one = identity(128, True, dtype)
    assert int(certify_layer(AttentionHead.stack([one])).free.nullity) == int(certify(one).free.nullity) == 0


@pytest.mark.parametrize("dtype", HALVES)
def test_heads_of_a_usual_size_have_the_rank_that_their_columns_allow(dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(1)
    normal = lambda *shape: torch.randn(*shape, generator=generator, dtype=torch.float64)  # noqa: E731
    head = AttentionHead.from_query(
        normal(4, 64) / 8, normal(4, 128, 64), normal(4, 128, 64), normal(4, 64, 768), dtype=dtype
    )
    assert certify(head).free.nullity.tolist() == [64] * 4
    assert certify(head).simplex.nullity.tolist() == [63] * 4


@pytest.mark.parametrize("dtype", HALVES)
def test_what_cancels_is_still_noise(dtype: torch.dtype) -> None:
    """Values whose only large part is in the null space of D, which rounding of V does not leave there."""
    generator = torch.Generator().manual_seed(2)
    projection = torch.randn(4, 7, generator=generator, dtype=torch.float64)
    projection[1] = -projection[0]
    values = 1e-6 * torch.randn(11, 4, generator=generator, dtype=torch.float64)
    values[:, :2] += 1e3 * torch.randn(11, 1, generator=generator, dtype=torch.float64)
    weights = torch.full((11,), 1 / 11, dtype=torch.float64)
    head = AttentionHead(weights, torch.ones(11, 1, dtype=torch.float64), values, projection, dtype=dtype)
    assert int(certify(head).free.nullity) == 11
