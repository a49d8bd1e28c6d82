"""The quick path must say what the exact path says, of every head."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from identiformer.identifiability import AttentionHead, Level, effective_attention
from identiformer.identifiability.certificate import certify_levels
from identiformer.identifiability.effective import project_weights

LEVELS = tuple(Level)
DTYPES = [torch.float64, torch.float32, torch.bfloat16]
many = settings(max_examples=150, deadline=None, derandomize=True)


def draw(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


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
    return tensor.to(dtype).to(torch.float64)


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
