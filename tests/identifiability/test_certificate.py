import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from identiformer.identifiability import AttentionHead, Level, Verdict, certify
from identiformer.identifiability.certificate import certify_levels
from identiformer.identifiability.directions import directions
from identiformer.identifiability.effective import project_weights

LEVELS = list(Level)
SIZES = st.sampled_from([1, 3, 5, 7, 11])


def draw(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def head(weights, keys, values, projection=None, **more):
    def tensor(numbers):
        return torch.as_tensor(numbers, dtype=torch.float64)

    return AttentionHead(
        tensor(weights),
        tensor(keys),
        tensor(values),
        None if projection is None else tensor(projection),
        **more,
    )


def summary(certificate, level, at=()):
    one = certificate[level]
    verdict = Verdict(int(one.verdict[at]))
    return (
        int(one.nullity[at]),
        pytest.approx(float(one.margin[at]), abs=1e-9),
        verdict,
        int(one.directions[at]),
    )


def test_two_tokens_by_hand():
    # T = diag(3, 4). Free: singular values 3 and 4. Else the one direction (1, -1) / sqrt 2, which moves the output by
    # (3, -4) / sqrt 2, of length 5 / sqrt 2.
    certificate = certify(head([0.5, 0.5], [[0.0], [1.0]], [[3.0, 0.0], [0.0, 4.0]]))
    assert summary(certificate, Level.FREE) == (0, 0.75, Verdict.GLOBAL, 2)
    assert summary(certificate, Level.SIMPLEX) == (0, 5 / math.sqrt(32), Verdict.GLOBAL, 1)
    assert summary(certificate, Level.GENERATABLE) == (0, 5 / math.sqrt(32), Verdict.GLOBAL, 1)
    assert int(certificate.tokens) == 2


def test_three_tokens_by_hand():
    # T = (1, 2, 4), one column: free 3 - 1, simplex 2 - 1. Keys (0, 1, 5) at the uniform row: mean 2, direction
    # (-2, -1, 3), output change -2 - 2 + 12 = 8 over lengths sqrt 14 and sqrt 21. No line through T has them: local.
    uniform = [1 / 3] * 3
    values = [[1.0], [2.0], [4.0]]
    certificate = certify(head(uniform, [[0.0], [1.0], [5.0]], values))
    assert summary(certificate, Level.FREE) == (2, 0.0, Verdict.NONE, 3)
    assert summary(certificate, Level.SIMPLEX) == (1, 0.0, Verdict.NONE, 2)
    assert summary(certificate, Level.GENERATABLE) == (0, 8 / math.sqrt(14 * 21), Verdict.LOCAL, 1)
    # Keys 5 T - 7 lie in the span of T and ones: global.
    certificate = certify(head(uniform, [[-2.0], [3.0], [13.0]], values))
    assert summary(certificate, Level.GENERATABLE)[2] == Verdict.GLOBAL
    # The direction (2, -3, 1) moves the output by 2 - 6 + 4 = 0.
    certificate = certify(head(uniform, [[2.0], [-3.0], [1.0]], values))
    assert summary(certificate, Level.GENERATABLE) == (1, 0.0, Verdict.NONE, 1)


def test_layout_of_a_batch_of_rows():
    keys, values, projection = draw(3, 1, 7, 5), draw(3, 1, 7, 5, seed=1), draw(3, 1, 5, 11, seed=2)
    rows = AttentionHead.from_query(draw(3, 2, 5, seed=3), keys, values, projection)
    certificate = certify(rows)
    assert certificate.tokens.shape == certificate.tied_tokens.shape == (3, 2)
    for level in LEVELS:
        together = certificate[level]
        for field in ("nullity", "margin", "verdict", "directions"):
            assert getattr(together, field).shape == (3, 2)
        for i in range(3):
            for j in range(2):
                alone = certify(rows[i, j])
                assert summary(certificate, level, (i, j)) == summary(alone, level)
    assert certificate["free"] is certificate.free
    assert certificate.free.margin.dtype == torch.float64


def test_masks_that_differ_from_row_to_row():
    visible = torch.ones(7, 7, dtype=torch.bool).tril()
    causal = AttentionHead.from_query(draw(7, 3), draw(7, 3, seed=1), draw(7, 5, seed=2), visible=visible)
    certificate = certify(causal)
    assert certificate.tokens.tolist() == [1, 2, 3, 4, 5, 6, 7]
    assert certificate.free.nullity.tolist() == [0, 0, 0, 0, 0, 1, 2]
    assert certificate.simplex.nullity.tolist() == [0, 0, 0, 0, 0, 0, 1]
    assert certificate.generatable.directions.tolist() == [0, 1, 2, 3, 3, 3, 3]
    assert certificate.generatable.verdict.tolist() == [2] * 6 + [1]
    for i in range(7):
        cut = AttentionHead(causal.weights[i, : i + 1], causal.keys[: i + 1], causal.values[: i + 1])
        for level in LEVELS:
            assert summary(certificate, level, i) == summary(certify(cut), level)


def test_the_definition_with_the_whole_basis():
    rows = AttentionHead.from_query(
        draw(3, 5), draw(11, 5, seed=1), draw(11, 7, seed=2), draw(7, 3, seed=3), dtype=torch.float32
    )
    certificate = certify(rows)
    greatest = torch.linalg.matrix_norm(rows.transformed, 2)
    for level in LEVELS:
        basis, dimension = directions(rows, level)
        singular = torch.linalg.svdvals(rows.transformed.mT @ basis)
        rank = (singular > 11 * rows.eps * greatest).sum(dim=-1)
        assert (certificate[level].nullity == dimension - rank).all()
        assert (certificate[level].directions == dimension).all()


def test_one_token_and_no_direction():
    for values in ([[2.0, 3.0, 5.0]], [[0.0, 0.0, 0.0]]):
        certificate = certify(head([1.0], [[1.0, 2.0]], values))
        assert summary(certificate, Level.SIMPLEX) == (0, 1.0, Verdict.GLOBAL, 0)
        assert summary(certificate, Level.GENERATABLE) == (0, 1.0, Verdict.GLOBAL, 0)
    # What one token adds is nothing whatever its weight.
    assert summary(certificate, Level.FREE) == (1, 0.0, Verdict.NONE, 1)
    equal_keys = certify(head([0.2] * 5, [[1.0, 2.0, 3.0]] * 5, draw(5, 3)))
    assert summary(equal_keys, Level.GENERATABLE) == (0, 1.0, Verdict.GLOBAL, 0)


def test_a_saturated_row_is_not_certain_for_want_of_directions():
    # Output 1 of T = (1, 0, 2) is also that of (0, 1/2, 1/2), which other queries come close to.
    saturated = certify(head([1.0, 0.0, 0.0], [[1.0, 0.0], [0.0, 1.0], [-2.0, 3.0]], [[1.0], [0.0], [2.0]]))
    assert summary(saturated, Level.GENERATABLE) == (0, 1.0, Verdict.LOCAL, 0)


def test_equal_outputs_are_not_told_apart_by_rounding():
    # All tokens add the same, up to rounding in the sum.
    values = torch.full((7, 5), 0.1, dtype=torch.float64) * draw(5)
    for offset in (0.0, 1e-17):
        certificate = certify(head([1 / 7] * 7, draw(7, 3), values + offset, draw(5, 11, seed=1)))
        assert summary(certificate, Level.FREE)[0] == 6
        assert summary(certificate, Level.SIMPLEX)[0] == 6
        assert summary(certificate, Level.GENERATABLE) == (3, 0.0, Verdict.NONE, 3)


def test_values_that_the_projection_removes():
    # V spans what D maps to zero: T is rounding noise, not a matrix of rank 3.
    projection = draw(7, 3)
    values = draw(5, 4) @ torch.linalg.qr(projection, mode="complete").Q[:, 3:].mT
    certificate = certify(head([0.2] * 5, draw(5, 3), values, projection))
    assert summary(certificate, Level.FREE) == (5, 0.0, Verdict.NONE, 5)


def test_a_large_channel_that_the_projection_ignores():
    values = torch.cat([draw(5, 7), 1e9 * torch.ones(5, 1, dtype=torch.float64)], dim=-1)
    projection = torch.cat([draw(7, 11), torch.zeros(1, 11, dtype=torch.float64)])
    certificate = certify(head([0.2] * 5, draw(5, 3), values, projection, dtype=torch.float32))
    assert summary(certificate, Level.FREE)[0] == 0


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
def test_values_that_carry_the_keys_are_certain_at_any_length(dtype):
    keys = draw(301, 3).to(dtype)
    values = torch.cat([draw(301, 5, seed=1).to(dtype), keys], dim=-1)
    projection = draw(8, 11, seed=2).to(dtype)
    rows = AttentionHead.from_query(0.3 * draw(3, seed=3).to(dtype), keys, values, projection)
    assert summary(certify(rows), Level.GENERATABLE)[2] == Verdict.GLOBAL
    # Shifted keys are as good; keys that the projection drops, or that are a little off, are not.
    shifted = AttentionHead(rows.weights, rows.keys + 2, rows.values, rows.output_projection, dtype=dtype)
    assert summary(certify(shifted), Level.GENERATABLE)[2] == Verdict.GLOBAL
    assert rows.output_projection is not None
    dropped = rows.output_projection.clone()
    dropped[7] = 0
    without = AttentionHead(rows.weights, rows.keys, rows.values, dropped, dtype=dtype)
    assert summary(certify(without), Level.GENERATABLE)[2] == Verdict.LOCAL
    off = rows.keys + 0.2 * draw(301, 3, seed=4)
    other = AttentionHead(rows.weights, off, rows.values, rows.output_projection, dtype=dtype)
    assert summary(certify(other), Level.GENERATABLE)[2] == Verdict.LOCAL


def test_keys_carried_by_a_weak_direction_are_still_carried():
    keys = draw(11, 3)
    values = torch.cat([1e2 * draw(11, 3, seed=1), 1e-3 * keys], dim=-1)
    for dtype in (torch.float64, torch.float32):
        assert (
            summary(certify(head([1 / 11] * 11, keys, values, dtype=dtype)), Level.GENERATABLE)[2]
            == Verdict.GLOBAL
        )


def test_a_repeated_word():
    source = torch.tensor([0, 1, 2, 1, 3])
    certificate = certify(head([0.1, 0.2, 0.3, 0.2, 0.2], draw(4, 3)[source], draw(4, 7)[source]))
    assert int(certificate.tied_tokens) == 2
    assert summary(certificate, Level.SIMPLEX)[0] == 1
    assert summary(certificate, Level.GENERATABLE)[0] == 0


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_other_precisions(dtype):
    query, keys, values, projection = draw(3), draw(11, 3), draw(11, 5), draw(5, 7)
    expected = certify(AttentionHead.from_query(query, keys, values, projection))
    found = certify(
        AttentionHead.from_query(query.to(dtype), keys.to(dtype), values.to(dtype), projection.to(dtype))
    )
    for level in LEVELS:
        assert int(found[level].nullity) == int(expected[level].nullity)
        assert int(found[level].verdict) == int(expected[level].verdict)
    # Noise of the size of that precision is noise.
    eps = torch.finfo(dtype).eps
    low_rank = values[:, :2] @ draw(2, 5) + 0.1 * eps * draw(11, 5, seed=1)
    rank = 11 - int(certify(AttentionHead.from_query(query, keys, low_rank, dtype=dtype)).free.nullity)
    assert rank == 2


@pytest.mark.parametrize("quick", [True, False])
def test_a_large_batch_in_pieces(monkeypatch, quick):
    visible = torch.ones(5, 11, dtype=torch.bool)
    visible[2, 7:] = False
    rows = AttentionHead.from_query(
        draw(3, 5, 3), draw(3, 1, 11, 3), draw(11, 7), draw(7, 5), visible=visible, scaling=2.0
    )
    whole, effective = certify_levels(rows, quick=quick), project_weights(rows, quick=quick)
    monkeypatch.setattr("identiformer.identifiability.pieces._NUMBERS_AT_ONCE", 600)
    monkeypatch.setattr("identiformer.identifiability.quick_rows._NUMBERS_AT_ONCE", 60)
    pieces = certify_levels(rows, quick=quick)
    for level in LEVELS:
        for field in ("nullity", "margin", "verdict", "directions"):
            torch.testing.assert_close(getattr(pieces[level], field), getattr(whole[level], field))
    torch.testing.assert_close(project_weights(rows, quick=quick), effective)


def test_four_thousand_tokens():
    long = AttentionHead.from_query(draw(11).float(), draw(4096, 11).float(), draw(4096, 7).float())
    certificate = certify(long)
    assert int(certificate.free.nullity) == 4096 - 7
    assert int(certificate.simplex.nullity) == 4095 - 7
    assert int(certificate.generatable.nullity) == 4


# What must hold for every head.


@st.composite
def heads(draw_from):
    """Heads of small integers, in which ties, dependent columns and equal keys are common."""
    n, d_k, d_v, d_e = (draw_from(SIZES) for _ in range(4))
    generator = torch.Generator().manual_seed(draw_from(st.integers(0, 2**32)))

    def integers(*shape):
        return torch.randint(-2, 3, shape, generator=generator).to(torch.float64)

    visible = torch.rand(n, generator=generator) < 0.8
    visible[0] = True
    return AttentionHead.from_query(
        integers(d_k),
        integers(n, d_k),
        integers(n, d_v),
        integers(d_v, d_e) if draw_from(st.booleans()) else None,
        visible=visible,
        scaling=draw_from(st.sampled_from([0.1, 1.0, 5.0])),
        dtype=draw_from(st.sampled_from([torch.float32, torch.float64])),
    )


def same(left, right):
    for level in LEVELS:
        one, other = left[level], right[level]
        assert int(one.nullity) == int(other.nullity), level
        assert int(one.verdict) == int(other.verdict), level
        assert int(one.directions) == int(other.directions), level
        torch.testing.assert_close(one.margin, other.margin, atol=1e-8, rtol=1e-6)
    assert int(left.tied_tokens) == int(right.tied_tokens)


def rotation(size, seed=0):
    return torch.linalg.qr(draw(size, size, seed=seed)).Q


many = settings(max_examples=40, deadline=None, derandomize=True)


@many
@given(heads())
def test_levels_are_nested(row):
    certificate = certify(row)
    free, simplex, generatable = (certificate[level] for level in LEVELS)
    assert int(free.nullity) >= int(simplex.nullity) >= int(generatable.nullity) >= 0
    assert int(free.directions) > int(simplex.directions) >= int(generatable.directions)
    assert float(free.margin) <= float(simplex.margin) + 1e-9
    assert float(simplex.margin) <= float(generatable.margin) + 1e-9
    for one in (free, simplex, generatable):
        assert 0 <= float(one.margin) <= 1
        assert (float(one.margin) == 0) == (int(one.nullity) > 0)
        assert (int(one.verdict) == Verdict.NONE) == (int(one.nullity) > 0)


@many
@given(heads(), st.sampled_from([1e-6, 1e-3, 0.7, 1e6]))
def test_scale_of_values_and_projection_changes_nothing(row, scale):
    expected = certify(row)
    projection = row.output_projection
    same(
        certify(
            AttentionHead(row.weights, row.keys, row.values * scale, projection, row.visible, dtype=row.dtype)
        ),
        expected,
    )
    if projection is not None:
        changed = AttentionHead(
            row.weights, row.keys, row.values, projection * scale, row.visible, dtype=row.dtype
        )
        same(certify(changed), expected)


@many
@given(heads())
def test_a_rotation_between_values_and_projection_changes_nothing(row):
    size = row.values.shape[-1]
    turn = rotation(size)
    projection = (
        torch.eye(size, dtype=torch.float64) if row.output_projection is None else row.output_projection
    )
    turned = AttentionHead(
        row.weights, row.keys, row.values @ turn, turn.mT @ projection, row.visible, dtype=row.dtype
    )
    plain = AttentionHead(row.weights, row.keys, row.values, projection, row.visible, dtype=row.dtype)
    same(certify(turned), certify(plain))


@many
@given(heads())
def test_a_change_of_basis_of_the_keys_changes_nothing(row):
    size = row.keys.shape[-1]
    change = rotation(size) * torch.linspace(0.5, 2, size, dtype=torch.float64) @ rotation(size, seed=1)
    changed = AttentionHead(
        row.weights, row.keys @ change, row.values, row.output_projection, row.visible, dtype=row.dtype
    )
    same(certify(changed), certify(row))


@many
@given(heads(), st.randoms(use_true_random=False))
def test_the_order_of_tokens_changes_nothing(row, random):
    order = list(range(row.weights.shape[-1]))
    random.shuffle(order)
    shuffled = AttentionHead(
        row.weights[order],
        row.keys[order],
        row.values[order],
        row.output_projection,
        row.mask[order],
        dtype=row.dtype,
    )
    same(certify(shuffled), certify(row))


@many
@given(heads())
def test_padding_changes_nothing(row):
    wide = AttentionHead.from_query(draw(13), draw(13, 13), draw(13, 13), draw(13, 13), dtype=row.dtype)
    certificate = certify(AttentionHead.stack([wide, row]))
    expected = certify(row)
    for level in LEVELS:
        assert summary(certificate, level, 1) == summary(expected, level)
    assert int(certificate.tied_tokens[1]) == int(expected.tied_tokens)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_large_part_common_to_all_keys_does_not_make_them_equal(dtype):
    # Only then would the row be certain for want of directions.
    keys = (draw(11, 3) + 20).to(dtype)
    rows = AttentionHead(torch.full((11,), 1 / 11), keys, draw(11, 5, seed=1), dtype=dtype)
    assert summary(certify(rows), Level.GENERATABLE)[2:] == (Verdict.LOCAL, 3)


def test_numbers_of_any_size():
    query, keys, values, projection = draw(3), draw(11, 3), draw(11, 5), draw(5, 7)
    weights = AttentionHead.from_query(query, keys, values).weights
    expected = certify(AttentionHead(weights, keys, values, projection, dtype=torch.float32))
    for scale in (1e-38, 1e-30, 1e30, 1e38):
        scaled = AttentionHead(weights, keys * scale, values * scale, projection * scale, dtype=torch.float32)
        same(certify(scaled), expected)


@pytest.mark.parametrize("tiny", [1e-30, 1e-45, 1e-300, 1e-320])
def test_all_but_nothing_on_the_other_tokens(tiny):
    weights = torch.full((11,), tiny, dtype=torch.float64)
    weights[4] = 1
    row = AttentionHead(weights, draw(11, 3), draw(11, 5, seed=1))
    uniform = AttentionHead(
        torch.full_like(weights, tiny * 1e10).index_fill(0, torch.tensor(4), 1), row.keys, row.values
    )
    # The others move in proportion to their weights, which are equal: the directions are the same at any size.
    same(certify(row), certify(uniform))
    assert summary(certify(row), Level.GENERATABLE)[0] == 0


def test_some_levels_alone():
    rows = AttentionHead.from_query(
        draw(2, 3, 5), draw(2, 1, 11, 5, seed=1), draw(11, 7, seed=2), draw(7, 13)
    )
    whole = certify(rows)
    for levels in ([Level.FREE], [Level.SIMPLEX, Level.FREE], [Level.GENERATABLE]):
        fresh = AttentionHead(rows.weights, rows.keys, rows.values, rows.output_projection)
        found = certify_levels(fresh, levels)
        assert set(found) == set(levels)
        for level in levels:
            for field in ("nullity", "margin", "verdict", "directions"):
                torch.testing.assert_close(getattr(found[level], field), getattr(whole[level], field))
