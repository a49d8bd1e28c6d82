"""The quick path must say what the exact path says, of every head."""

import gc
import weakref

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from identiformer.identifiability import AttentionHead, Level, effective_attention, quick_rows
from identiformer.identifiability.certificate import certify_levels
from identiformer.identifiability.directions import directions
from identiformer.identifiability.effective import project_weights
from identiformer.identifiability.quick import head_grams, space_grams
from identiformer.identifiability.quick_keys import quick_keys
from identiformer.identifiability.tolerance import output_cutoff
from spectra import draw, with_singular_value

LEVELS = tuple(Level)
DTYPES = [torch.float64, torch.float32, torch.float16, torch.bfloat16]
many = settings(max_examples=150, deadline=None, derandomize=True)


def same(head):
    """Both paths, at all levels and for effective attention."""
    quick, exact = certify_levels(head), certify_levels(head, quick=False)
    for level in LEVELS:
        for field in ("nullity", "verdict", "directions"):
            found, expected = getattr(quick[level], field), getattr(exact[level], field)
            assert (found == expected).all(), (level, field, found, expected)
        torch.testing.assert_close(quick[level].margin, exact[level].margin, rtol=1e-6, atol=1e-8)
    for keep_sum in (False, True):
        expected = project_weights(head, keep_sum, quick=False)
        torch.testing.assert_close(effective_attention(head, keep_sum), expected, rtol=0, atol=1e-8)


def rounded(tensor, dtype):
    # float16 has no room for the scales that are tried.
    return tensor.to(torch.float32 if dtype == torch.float16 else dtype).to(torch.float64)


def ordinary(texts, rows, n, d_k=5, d_v=7, d_e=23, dtype=torch.float32, seed=0):
    """Heads as they come out of a model, rows of one head sharing keys, values and projection."""
    keys, values = draw(texts, 3, 1, n, d_k, seed=seed), draw(texts, 3, 1, n, d_v, seed=seed + 1)
    projection = draw(3, 1, d_v, d_e, seed=seed + 2)
    query = draw(texts, 3, rows, d_k, seed=seed + 3)
    return AttentionHead.from_query(query, keys, values, projection, scaling=0.5, dtype=dtype)


@st.composite
def heads(draw_from):
    """Heads of several rows, of any shape, precision, scale and degeneracy."""
    n = draw_from(st.sampled_from([1, 2, 3, 5, 7, 11, 23, 40]))
    d_k, d_v, d_e = (draw_from(st.sampled_from([1, 3, 5, 7, 11])) for _ in range(3))
    generator = torch.Generator().manual_seed(draw_from(st.integers(0, 2**32)))
    dtype = draw_from(st.sampled_from(DTYPES))

    def normal(*shape):
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    def deficient(matrix):
        how = draw_from(st.sampled_from(["full", "full", "low rank", "nearly", "graded", "zero", "offset"]))
        columns = matrix.shape[-1]
        if how == "low rank":
            return matrix[..., :1] @ normal(1, columns)
        if how == "nearly":
            return matrix[..., :1] @ normal(1, columns) + 10.0 ** draw_from(st.integers(-14, -1)) * matrix
        if how == "graded":
            return matrix * torch.logspace(0, draw_from(st.integers(-9, 0)), columns, dtype=torch.float64)
        if how == "offset":
            return matrix + 10.0 ** draw_from(st.integers(0, 5))
        return torch.zeros_like(matrix) if how == "zero" else matrix

    texts, rows = draw_from(st.sampled_from([(1, 1), (2, 3)]))
    keys, values = deficient(normal(texts, 1, n, d_k)), deficient(normal(texts, 1, n, d_v))
    projection = deficient(normal(1, 1, d_v, d_e)) if draw_from(st.booleans()) else None
    if draw_from(st.booleans()):
        # Repeated tokens: by key and value, by key only.
        source = torch.randint(0, max(n // 2, 1), (n,), generator=generator)
        keys = keys[..., source, :]
        if draw_from(st.booleans()):
            values = values[..., source, :]
    if projection is None and draw_from(st.booleans()):
        values = torch.cat([values, keys], dim=-1)
    scale = draw_from(st.sampled_from([1e-6, 1.0, 1e6]))
    keys, values = rounded(keys, dtype), rounded(scale * values, dtype)
    projection = None if projection is None else rounded(projection / scale, dtype)
    temperature = draw_from(st.sampled_from([0.0, 0.3, 3.0, 30.0]))
    weights = torch.softmax(temperature * normal(texts, rows, n), dim=-1)
    visible = torch.rand(texts, 1, n, generator=generator) < draw_from(st.sampled_from([1.0, 0.8]))
    visible[..., 0] = True
    if draw_from(st.booleans()):
        weights = weights * (torch.rand(weights.shape, generator=generator) < 0.7)
    weights = weights * visible
    weights[..., 0] += 1e-3
    weights = weights / weights.sum(dim=-1, keepdim=True)
    return AttentionHead(weights, keys, values, projection, visible, dtype=dtype)


@many
@given(heads())
def test_any_head(head):
    same(head)


@many
@given(heads())
def test_any_head_by_tables(head):
    """What many rows of large heads go through."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("identiformer.identifiability.quick_rows._TABLED", 1)
        patch.setattr("identiformer.identifiability.quick_rows._LARGE", 1)
        patch.setattr("identiformer.identifiability.quick_rows._ROWS_AT_ONCE", 2)
        same(head)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_many_rows_of_large_heads(dtype, monkeypatch):
    head = ordinary(1, 37, 83, d_k=33, d_v=33, d_e=37, dtype=dtype)
    same(head)
    # Hardly any row needs all eigenvalues, or a Z of its own.
    spectra, alone = [], []
    every, single = quick_rows.eigenvalues, quick_rows.by_tangents
    monkeypatch.setattr(quick_rows, "eigenvalues", lambda some: spectra.append(len(some)) or every(some))
    monkeypatch.setattr(
        quick_rows, "by_tangents", lambda heads, share: alone.append(len(share)) or single(heads, share)
    )
    certify_levels(head, [Level.GENERATABLE])
    rows = head.weights.shape[:-1].numel()
    assert sum(spectra) < 0.3 * rows
    assert sum(alone) < 0.1 * rows


@pytest.fixture
def no_exact(monkeypatch):
    """Whatever reaches the exact path fails."""

    def refuse(*arguments):
        raise AssertionError("the quick path left something open")

    for name in ("settle.exact_heads", "settle.exact_rows", "effective._exact"):
        monkeypatch.setattr(f"identiformer.identifiability.{name}", refuse)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("n", [3, 5, 11, 41])
def test_ordinary_heads_need_no_exact_path(n, dtype, no_exact):
    head = ordinary(2, 11, n, dtype=dtype)
    certificate = certify_levels(head)
    assert (certificate[Level.FREE].nullity == max(0, n - 7)).all()
    assert (certificate[Level.SIMPLEX].nullity == max(0, n - 8)).all()
    assert (certificate[Level.GENERATABLE].nullity == 0).all()
    assert (certificate[Level.GENERATABLE].verdict == (2 if n <= 8 else 1)).all()
    for keep_sum in (False, True):
        effective_attention(ordinary(2, 11, n, dtype=dtype), keep_sum)


def test_values_that_carry_the_keys_need_no_exact_path(no_exact):
    keys = draw(41, 3)
    head = AttentionHead.from_query(
        draw(5, 3, seed=1),
        keys,
        torch.cat([draw(41, 5, seed=2), keys], dim=-1),
        draw(8, 23, seed=3),
        dtype=torch.float32,
    )
    assert (certify_levels(head)[Level.GENERATABLE].verdict == 2).all()


@pytest.mark.parametrize("n", [5, 8, 9, 11, 41])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "factor", [0, 1e-3, 0.5, 0.999, 1 - 1e-7, 1 - 1e-12, 1, 1 + 1e-12, 1 + 1e-7, 1.001, 2, 1e3]
)
def test_singular_values_at_the_cutoff(n, dtype, factor):
    values = with_singular_value(0.5, n, 7)
    weights = torch.softmax(draw(3, n, seed=2), dim=-1)
    head = AttentionHead(weights, draw(n, 5, seed=3), values, dtype=dtype)
    cutoff = float(output_cutoff(head, torch.ones((), dtype=torch.float64)))
    head = AttentionHead(weights, head.keys, with_singular_value(factor * cutoff, n, 7), dtype=dtype)
    same(head)
    if abs(factor - 1) > 0.1:
        rank = min(n - 1, 7) - (factor < 1)
        assert (certify_levels(head)[Level.SIMPLEX].nullity == n - 1 - rank).all()


def with_a_weak_response(size, dtype):
    """One direction of the keys of the first row moves the output by `size`, as seen from the greatest."""
    plain = ordinary(1, 3, 23, dtype=dtype)
    change = directions(plain, Level.GENERATABLE).basis[0, 0, 0][:, 0]
    values = plain.values[0, 0, 0]
    without = values - torch.outer(change, change @ values)
    # A column that is orthogonal to the others, and to all directions but one.
    more = size * torch.linalg.matrix_norm(without, 2) * change[:, None]
    return AttentionHead(
        plain.weights[0, 0, :1], plain.keys[0, 0, 0], torch.cat([without, more], dim=-1), dtype=dtype
    )


@pytest.mark.parametrize("factor", [0.0, 0.9, 1 - 1e-9, 1.0, 1 + 1e-9, 1.1, 30.0])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_responses_at_the_cutoff(dtype, factor):
    cutoff = output_cutoff(with_a_weak_response(1.0, dtype), torch.ones((), dtype=torch.float64))
    head = with_a_weak_response(factor * float(cutoff), dtype)
    same(head)
    if factor in (0.0, 0.9, 1.1, 30.0) and dtype == torch.float32:
        assert int(certify_levels(head)[Level.GENERATABLE].nullity[0]) == (factor < 1)


@pytest.mark.parametrize("size", [1e-3, 1e-6, 1e-8, 1e-10])
def test_small_margins_by_the_singular_values_themselves(size, monkeypatch):
    """Where squares drown, the quick path computes singular values before it leaves a row to the exact one."""
    head = with_a_weak_response(size, torch.float64)
    expected = certify_levels(head, quick=False)[Level.GENERATABLE]
    monkeypatch.delattr("identiformer.identifiability.settle.exact_rows")
    found = certify_levels(head)[Level.GENERATABLE]
    assert found.nullity.tolist() == [0]
    torch.testing.assert_close(found.margin, torch.full_like(found.margin, size), rtol=1e-4, atol=0)
    torch.testing.assert_close(found.margin, expected.margin, rtol=1e-5, atol=0)


def test_what_drowns_in_rounding_is_left_open():
    """In float64, 1e-9 of the greatest is far above the cutoff, and far below what a Gram matrix can tell."""
    weights = torch.full((11,), 1 / 11, dtype=torch.float64)
    head = AttentionHead(weights, draw(11, 3), with_singular_value(1e-9, 11, 5))
    assert not bool(head_grams(head).scaled.linear.any())
    assert int(certify_levels(head)[Level.SIMPLEX].nullity) == 5
    far = AttentionHead(weights, draw(11, 3), with_singular_value(1e-2, 11, 5))
    assert bool(head_grams(far).scaled.linear.all())


@pytest.mark.parametrize("scale", [1e-80, 1e-70, 1e70, 1e74])
def test_squares_beyond_the_numbers_there_are(scale):
    plain = ordinary(1, 2, 11)
    head = AttentionHead(plain.weights, plain.keys * scale, plain.values * scale, plain.output_projection)
    same(head)
    expected = certify_levels(plain)
    for level, found in certify_levels(head).items():
        assert (found.nullity == expected[level].nullity).all()


def test_peaked_rows_of_settled_heads():
    """Rows of one head, from uniform to all but nothing on the others, and exact zeros."""
    peak = torch.zeros(41, dtype=torch.float64)
    peak[7] = 1
    logits = torch.stack([scale * draw(41) for scale in (0, 1, 3, 10, 30, 100, 300)] + [700 * peak])
    weights = torch.softmax(logits, dim=-1)
    weights = torch.cat([weights, (weights[1] * (weights[1] > 0.01))[None]])
    weights = weights / weights.sum(dim=-1, keepdim=True)
    for dtype in (torch.float64, torch.float32):
        same(
            AttentionHead(weights, draw(41, 5, seed=1), draw(41, 7, seed=2), draw(7, 11, seed=3), dtype=dtype)
        )


@pytest.mark.parametrize("shape", [(41, 7, 11), (11, 7, 11), (5, 7, 11), (11, 41, 23)])
def test_every_shape_of_the_projection(shape):
    n, d_v, d_e = shape
    for offset in (0.0, 3.0, 1e4):
        values = draw(2, 1, n, d_v) + offset
        head = AttentionHead.from_query(
            draw(2, 3, 5), draw(2, 1, n, 5, seed=1), values, draw(d_v, d_e, seed=2)
        )
        same(head)
        low = draw(d_v, 2, seed=3) @ draw(2, d_e, seed=4)
        same(AttentionHead(head.weights, head.keys, values, low, dtype=torch.float32))


def test_heads_of_a_batch_do_not_wait_for_each_other():
    """One head in the batch is left open: the others are what they are alone."""
    head = ordinary(2, 3, 23, dtype=torch.float64)
    values = head.values.clone()
    values[1, 2] = with_singular_value(1e-9, 23, 7)
    mixed = AttentionHead(head.weights, head.keys, values, head.output_projection)
    assert head_grams(mixed).scaled.linear.sum() == 5
    same(mixed)


def test_certificates_and_effective_attention_share_their_work():
    head = ordinary(1, 1, 11)
    certify_levels(head)
    assert space_grams(head) is head_grams(head)
    # Where only ranks are asked for, the values do, which costs less.
    other = ordinary(1, 1, 11)
    effective_attention(other)
    assert space_grams(other).reduced is other.values
    # Nothing keeps a head alive.
    gone = weakref.ref(head)
    del head
    gc.collect()
    assert gone() is None


def test_what_keys_are_found_to_be():
    def found(keys, visible=None):
        n = keys.shape[-2]
        mask = torch.ones(n, dtype=torch.bool) if visible is None else visible
        one = quick_keys(AttentionHead(mask / mask.sum(), keys, draw(n, 3), visible=mask))
        return bool(one.spanning), bool(one.full), bool(one.tied)

    assert found(draw(11, 3)) == (False, True, False)
    assert found(draw(4, 3)) == (True, True, False)
    assert found(draw(3, 3)) == (True, False, False)
    assert found(draw(3, 7)) == (True, False, False)
    assert found(draw(1, 3)) == (True, False, False)
    assert found(draw(11, 1) @ draw(1, 3)) == (False, False, False)
    assert found(draw(2, 1) @ draw(1, 7)) == (True, False, False)
    assert found(draw(3, 1) @ draw(1, 7)) == (False, False, False)
    assert found(draw(7, 3)[[0, 1, 2, 3, 4, 5, 6, 0]])[1:] == (True, True)
    assert found(draw(11, 7), torch.arange(11) < 5) == (True, False, False)
    assert found(draw(11, 7), torch.arange(11) % 5 > 0) == (True, True, False)
    assert found(draw(5, 7), torch.arange(5) < 3) == (True, False, False)
