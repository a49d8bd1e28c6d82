"""Products from tables are those of each row's own Z, within the bounds that both give."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from identiformer.identifiability import row_products
from identiformer.identifiability.gram import UNIT
from identiformer.identifiability.row_products import HeadsOfRows, by_tables, by_tangents


def some_heads(generator, amount, n, p, r, hidden=0):
    """Heads with orthonormal coordinates that sum to zero, as the quick path makes them; the last tokens hidden."""
    keys = torch.randn(amount, n - hidden, p, generator=generator, dtype=torch.float64)
    keys = torch.linalg.qr(keys - keys.mean(dim=1, keepdim=True)).Q
    values = torch.randn(amount, n - hidden, r, generator=generator, dtype=torch.float64)
    pad = (0, 0, 0, hidden)
    keys, values = (torch.nn.functional.pad(tensor, pad) for tensor in (keys, values))
    greatest = torch.linalg.matrix_norm(values, 2)
    noise = torch.full((amount,), 64 * UNIT, dtype=torch.float64)
    mass = torch.linalg.matrix_norm(values).square()
    return HeadsOfRows(values, mass, keys.mT.contiguous(), noise, greatest, 1e-7 * greatest)


def rows_of(generator, amount, rows, n, temperature, hidden=0):
    logits = temperature * torch.randn(amount, rows, n, generator=generator, dtype=torch.float64)
    if hidden:
        logits[..., -hidden:] = -torch.inf
    return torch.softmax(logits, dim=-1)


@settings(max_examples=100, deadline=None, derandomize=True)
@given(
    seed=st.integers(0, 2**32),
    shape=st.sampled_from([(1, 3, 11, 3, 5), (2, 5, 23, 7, 5), (3, 2, 41, 1, 1), (2, 7, 41, 11, 23)]),
    temperature=st.sampled_from([0.0, 0.3, 1.0, 3.0, 10.0, 100.0]),
    hidden=st.sampled_from([0, 3]),
    parts=st.sampled_from([1, 7]),
)
def test_two_ways_agree_within_their_bounds(seed, shape, temperature, hidden, parts):
    amount, rows, n, p, r = shape
    generator = torch.Generator().manual_seed(seed)
    heads = some_heads(generator, amount, n, p, r, hidden)
    share = rows_of(generator, amount, rows, n, temperature, hidden)
    one = by_tangents(heads, share)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(row_products, "_TABLE", n * p * max(p, r) // parts)
        other = by_tables(heads, share)
    norm = torch.linalg.matrix_norm
    # Each is the product of a Z that `moved` bounds the distance to.
    apart = one.moved + other.moved
    length = one.mass.sqrt() + apart
    assert (norm(one.matrix - other.matrix) <= one.room + other.room + 2 * apart * length).all()
    product = one.lost + other.lost + apart * heads.mass.sqrt()[:, None]
    assert (norm(one.seen - other.seen) <= product).all()
    torch.testing.assert_close(other.matrix, other.matrix.mT, rtol=0, atol=1e-15)
    # What the least singular value of Z is said to exceed, it does exceed.
    weights = share[..., None]
    tangents = weights * (
        heads.coordinates.mT[:, None] - (weights * heads.coordinates.mT[:, None]).sum(-2, True)
    )
    least = torch.linalg.svdvals(tangents)[..., -1].square()
    assert (one.least == other.least).all()
    assert (least >= one.least - 1e-15 * one.mass).all()
    if temperature == 0:
        assert (one.least > 0.8 * least).all()


def test_peaked_rows_have_bounds_that_say_so():
    """Beyond what tables can tell apart, `room` exceeds the product itself; each row's own Z still knows it."""
    generator = torch.Generator().manual_seed(0)
    heads = some_heads(generator, 1, 23, 5, 7)
    share = torch.full((1, 1, 23), 1e-18, dtype=torch.float64)
    share[..., 0] = 1.0
    one, other = by_tangents(heads, share), by_tables(heads, share)
    assert float(other.room) > float(one.mass) > 1e3 * float(one.room)


def test_coordinates_that_are_not_orthonormal_bound_nothing():
    generator = torch.Generator().manual_seed(0)
    heads = some_heads(generator, 1, 23, 5, 7)._replace(noise=torch.tensor([0.1], dtype=torch.float64))
    share = torch.full((1, 1, 23), 1 / 23, dtype=torch.float64)
    assert float(by_tables(heads, share).least) == 0
