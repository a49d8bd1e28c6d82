import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from identiformer.errors import InputError
from identiformer.identifiability import (
    AttentionHead,
    Certificate,
    LayerCertificate,
    Level,
    Verdict,
    certify,
    certify_layer,
)
from identiformer.identifiability.directions import directions

FIELDS = ("nullity", "margin", "verdict", "directions")


def draw(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def tensor(numbers):
    return torch.tensor(numbers, dtype=torch.float64)


def summary(certificate, level, at=()):
    one = certificate[level]
    nullity, margin, verdict, count = (getattr(one, name)[at] for name in FIELDS)
    return int(nullity), pytest.approx(float(margin), abs=1e-9), Verdict(int(verdict)), int(count)


def two_heads(first, second):
    """Two heads of two tokens each with equal weights, keys 0 and 1, and the given T."""
    return AttentionHead(torch.full((2, 2), 0.5), tensor([[0.0], [1.0]]), tensor([first, second]))


def test_two_heads_by_hand():
    # The heads move the output by (1, 0) / sqrt 2 and (0, 2) / sqrt 2. sigma_max of [0 0; 1 0; 0 0; 0 2] is 2.
    layer = certify_layer(two_heads([[0.0, 0.0], [1.0, 0.0]], [[0.0, 0.0], [0.0, 2.0]]))
    assert layer.heads == 2
    assert summary(layer, Level.FREE) == (2, 0.0, Verdict.NONE, 4)
    assert summary(layer, Level.SIMPLEX) == (0, 1 / math.sqrt(8), Verdict.GLOBAL, 2)
    assert summary(layer, Level.GENERATABLE) == (0, 1 / math.sqrt(8), Verdict.GLOBAL, 2)


def test_heads_that_make_up_for_each_other():
    # Both move the output along (1, 0): what one takes away the other can add. One by one they are identifiable.
    heads = two_heads([[0.0, 0.0], [1.0, 0.0]], [[0.0, 0.0], [3.0, 0.0]])
    alone, layer = certify(heads), certify_layer(heads)
    for level in (Level.SIMPLEX, Level.GENERATABLE):
        assert alone[level].verdict.tolist() == [Verdict.GLOBAL, Verdict.GLOBAL]
        assert summary(layer, level) == (1, 0.0, Verdict.NONE, 2)


def test_one_certificate_does_not_pass_for_the_other():
    layer = certify_layer(two_heads([[0.0], [1.0]], [[2.0], [3.0]]))
    assert isinstance(layer, LayerCertificate)
    assert not isinstance(layer, Certificate)
    assert not isinstance(layer.simplex, type(certify(two_heads([[0.0], [1.0]], [[2.0], [3.0]])).simplex))
    assert layer["simplex"] is layer.simplex


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize(
    ("n", "d_k", "d_v", "d_e"), [(3, 5, 7, 11), (11, 3, 5, 7), (11, 5, 3, 7), (7, 3, 11, 5)]
)
def test_a_layer_of_one_head(n, d_k, d_v, d_e, dtype):
    heads = AttentionHead.from_query(draw(1, d_k), draw(1, n, d_k), draw(n, d_v), draw(d_v, d_e), dtype=dtype)
    for level in Level:
        assert summary(certify_layer(heads), level) == summary(certify(heads), level, 0)


@pytest.mark.parametrize("shared", [False, True])
def test_the_definition_with_the_whole_basis(shared):
    values, keys = draw(3, 7, 5), draw(3, 7, 2, seed=1)
    projection = draw(5, 11) if shared else draw(3, 5, 11)
    visible = torch.ones(3, 7, dtype=torch.bool)
    visible[1, 4:] = visible[2, 0] = False
    heads = AttentionHead.from_query(draw(3, 2, seed=2), keys, values, projection, visible)
    layer = certify_layer(heads)
    below = heads.transformed.flatten(0, 1)
    greatest = torch.linalg.matrix_norm(below, 2)
    for level in Level:
        basis, dimension = directions(heads, level)
        singular = torch.linalg.svdvals(below.mT @ torch.block_diag(*basis))
        rank = int((singular > 1e-12 * greatest).sum())
        count = int(dimension.sum())
        assert int(layer[level].nullity) == count - rank
        assert int(layer[level].directions) == count
        margin = float(singular[count - 1] / greatest) if rank == count else 0.0
        assert float(layer[level].margin) == pytest.approx(margin, abs=1e-12)


def test_a_layer_is_one_head_with_block_diagonal_values():
    heads = AttentionHead.from_query(draw(3, 5), draw(3, 7, 5), draw(3, 7, 2), draw(3, 2, 11))
    assert heads.output_projection is not None
    whole = AttentionHead(
        heads.weights.flatten() / 3,
        torch.block_diag(*heads.keys),
        torch.block_diag(*heads.values),
        heads.output_projection.flatten(0, 1),
    )
    assert summary(certify_layer(heads), Level.FREE) == summary(certify(whole), Level.FREE)


@pytest.mark.parametrize("heads", [1, 3, 5])
@pytest.mark.parametrize("d_k", [1, 2, 3])
@pytest.mark.parametrize("d_v", [3, 7])
@pytest.mark.parametrize("merge", ["concat", "add"])
def test_how_many_keys_a_layer_can_tell_apart(heads, d_k, d_v, merge):
    # For almost every input: the directions of all heads, as far as there is room for them in the output.
    d_e = 11
    projection = draw(heads, d_v, d_e) if merge == "concat" else draw(d_v, d_e)
    query, keys, values = draw(heads, d_k, seed=1), draw(heads, 23, d_k, seed=2), draw(heads, 23, d_v, seed=3)
    rows = AttentionHead.from_query(query, keys, values, projection)
    room = min(heads * min(d_k, d_v), d_e if merge == "concat" else min(d_v, d_e))
    layer = certify_layer(rows).generatable
    assert int(layer.nullity) == heads * d_k - room
    # Neither is the row of one head known for all inputs, nor is this more than local.
    assert int(layer.verdict) == (Verdict.LOCAL if room == heads * d_k else Verdict.NONE)


def carrying(heads, n, d_k, d_v, d_e, *, merge="concat", dtype=torch.float64):
    keys = draw(heads, n, d_k)
    values = torch.cat([draw(heads, n, d_v, seed=1), keys], dim=-1)
    projection = draw(heads, d_v + d_k, d_e, seed=2) if merge == "concat" else draw(d_v + d_k, d_e, seed=2)
    return AttentionHead.from_query(draw(heads, d_k, seed=3), keys, values, projection, dtype=dtype)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_values_that_carry_the_keys_of_all_heads(dtype):
    # 3 heads of 2 + 3 channels have room in 15.
    for d_e, verdict in ((15, Verdict.GLOBAL), (23, Verdict.GLOBAL), (14, Verdict.LOCAL), (8, Verdict.NONE)):
        heads = carrying(3, 101, 3, 2, d_e, dtype=dtype)
        if d_e >= 5:
            assert certify(heads).generatable.verdict.tolist() == [Verdict.GLOBAL] * 3
        assert int(certify_layer(heads).generatable.verdict) == verdict
    # Heads that share a projection add their mean keys up, in a layer that has room for them all.
    shared = carrying(3, 101, 1, 7, 23, merge="add", dtype=dtype)
    assert certify(shared).generatable.verdict.tolist() == [Verdict.GLOBAL] * 3
    assert int(certify_layer(shared).generatable.verdict) == Verdict.LOCAL


def test_shared_projections_with_channels_of_their_own():
    # Each head carries its keys in other channels and leaves those of the others alone.
    keys = draw(3, 41, 2)
    values = torch.zeros(3, 41, 6, dtype=torch.float64)
    for h in range(3):
        values[h, :, 2 * h : 2 * h + 2] = keys[h] @ draw(2, 2, seed=h) + 5
    heads = AttentionHead.from_query(draw(3, 2, seed=1), keys, values, draw(6, 11))
    assert int(certify_layer(heads).generatable.verdict) == Verdict.GLOBAL
    values[1, :, 0] += draw(41, seed=9)
    other = AttentionHead(heads.weights, heads.keys, values, heads.output_projection)
    assert int(certify_layer(other).generatable.verdict) == Verdict.LOCAL


def test_no_directions():
    one_token = AttentionHead(torch.ones(3, 1), draw(3, 1, 5), draw(3, 1, 7))
    equal_keys = AttentionHead(torch.full((3, 7), 1 / 7), torch.ones(3, 7, 5), draw(3, 7, 2))
    saturated = AttentionHead(torch.eye(7)[:3], draw(3, 7, 5), draw(3, 7, 2))
    for heads, verdict in ((one_token, 2), (equal_keys, 2), (saturated, 1)):
        assert summary(certify_layer(heads), Level.GENERATABLE) == (0, 1.0, Verdict(verdict), 0)


def test_zero_values_and_tiny_heads():
    zero = AttentionHead.from_query(draw(3, 5), draw(3, 7, 5), torch.zeros(3, 7, 2), draw(2, 11))
    assert summary(certify_layer(zero), Level.FREE) == (21, 0.0, Verdict.NONE, 21)
    assert summary(certify_layer(zero), Level.GENERATABLE) == (15, 0.0, Verdict.NONE, 15)
    # Next to a head of size 1, a head of 1e-20 has no say: the others hide what it does in their rounding.
    sizes = tensor([1.0, 1e-20])[:, None, None]
    heads = AttentionHead.from_query(draw(2, 3), draw(2, 7, 3), sizes * draw(2, 7, 5), draw(2, 5, 11))
    assert certify(heads).generatable.nullity.tolist() == [0, 0]
    assert int(certify_layer(heads).generatable.nullity) == 3


@pytest.mark.parametrize("scale", [1e-30, 1e-6, 1e6, 1e30])
def test_scale_changes_nothing(scale):
    heads = AttentionHead.from_query(draw(3, 2), draw(3, 7, 2), draw(3, 7, 5), draw(3, 5, 11))
    assert heads.output_projection is not None
    scaled = AttentionHead(heads.weights, heads.keys / scale, heads.values * scale, heads.output_projection)
    for level in Level:
        assert summary(certify_layer(scaled), level) == summary(certify_layer(heads), level)


def test_layouts(monkeypatch):
    # Texts, heads, rows: keys and values serve all rows, the projection all texts.
    keys, values = draw(2, 3, 1, 7, 2), draw(2, 3, 1, 7, 5, seed=1)
    visible = torch.ones(2, 1, 1, 7, dtype=torch.bool)
    visible[1, ..., 5:] = False
    arguments = keys, values, draw(1, 3, 1, 5, 11, seed=2), visible
    heads = AttentionHead.from_query(draw(2, 3, 5, 2, seed=3), *arguments)
    layer = certify_layer(heads)
    assert layer.heads == 3
    for level in Level:
        for name in FIELDS:
            assert getattr(layer[level], name).shape == (2, 5)
        for text in range(2):
            rows = certify_layer(heads[text])
            for row in range(5):
                alone = certify_layer(heads[text, :, row])
                assert summary(layer, level, (text, row)) == summary(alone, level)
                assert summary(rows, level, row) == summary(alone, level)
    # Heads elsewhere than before the rows are to be named.
    last = certify_layer(heads[..., 0], head_dimension=-1)
    for level in Level:
        assert summary(last, level, 1) == summary(layer, level, (1, 0))
    monkeypatch.setattr("identiformer.identifiability.pieces._NUMBERS_AT_ONCE", 500)
    pieces = certify_layer(heads)
    for level in Level:
        for name in FIELDS:
            torch.testing.assert_close(getattr(pieces[level], name), getattr(layer[level], name))


def test_there_must_be_heads():
    heads = AttentionHead.from_query(draw(3, 2), draw(3, 7, 2), draw(3, 7, 5))
    with pytest.raises(
        InputError, match=r"batch shape \(\): put the heads together with AttentionHead\.stack"
    ):
        certify_layer(heads[0])
    for dimension in (1, -2):
        with pytest.raises(InputError, match=rf"head_dimension is {dimension}, .* batch shape \(3,\)"):
            certify_layer(heads, dimension)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(
    st.integers(0, 2**32),
    st.sampled_from([1, 2, 3, 5]),
    *(st.sampled_from([1, 2, 3, 5, 7]) for _ in range(4)),
    st.booleans(),
)
def test_a_layer_fixes_no_more_than_its_heads(seed, heads, n, d_k, d_v, d_e, shared):
    generator = torch.Generator().manual_seed(seed)

    def integers(*shape):
        return torch.randint(-2, 3, shape, generator=generator).to(torch.float64)

    projection = integers(d_v, d_e) if shared else integers(heads, d_v, d_e)
    rows = AttentionHead.from_query(
        integers(heads, d_k), integers(heads, n, d_k), integers(heads, n, d_v), projection
    )
    alone, layer = certify(rows), certify_layer(rows)
    assert int(layer.free.nullity) >= int(layer.simplex.nullity) >= int(layer.generatable.nullity) >= 0
    for level in Level:
        assert int(layer[level].nullity) >= int(alone[level].nullity.sum())
        assert int(layer[level].directions) == int(alone[level].directions.sum())
        assert int(layer[level].verdict) <= int(alone[level].verdict.min())
        # sigma_max of the stack is at most that of the heads together, sigma_min at most that of each.
        assert 0 <= float(layer[level].margin) <= 1
        assert (float(layer[level].margin) == 0) == (int(layer[level].nullity) > 0)
    order = torch.randperm(heads, generator=generator)
    permuted = certify_layer(rows[order])
    for level in Level:
        assert summary(permuted, level) == summary(layer, level)
