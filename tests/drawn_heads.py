"""Heads drawn at random, for properties that must hold of every head."""

from __future__ import annotations

import torch
from hypothesis import settings
from hypothesis import strategies as st

SIZES = st.sampled_from([1, 3, 5, 7, 11])
# The same examples in every run, and no clock.
many = settings(max_examples=30, deadline=None, derandomize=True)
few = settings(max_examples=15, deadline=None, derandomize=True)


def draw(*shape: int, seed: int = 0) -> torch.Tensor:
    """Normal numbers, the same for the same seed."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def rotation(size: int, seed: int = 0) -> torch.Tensor:
    """An orthogonal matrix."""
    return torch.linalg.qr(draw(size, size, seed=seed)).Q


@st.composite
def heads(draw_from, *, batch: int | None = None, carry: bool | None = None, loose: bool = False):
    """Heads of small integers, in which repeated tokens, dependent columns, equal keys and equal outputs are common.

    Args:
        draw_from: What hypothesis draws with.
        batch: How many heads in a batch; `None` for one without batch dimensions.
        carry: Whether the values carry the keys; `None` for either.
        loose: Whether there are to be more tokens and key channels than the values can tell apart.
    """
    # Only modules imported after the hook of the tests are checked by it.
    from identiformer.identifiability import AttentionHead

    n, d_k, d_v, d_e = (draw_from(SIZES) for _ in range(4))
    if loose:
        n, d_k, d_v = max(n, 7), max(d_k, 3), 1
    generator = torch.Generator().manual_seed(draw_from(st.integers(0, 2**32)))
    leading = () if batch is None else (batch,)

    def integers(*shape: int) -> torch.Tensor:
        return torch.randint(-2, 3, (*leading, *shape), generator=generator).to(torch.float64)

    keys, values = integers(n, d_k), integers(n, d_v)
    if draw_from(st.booleans()) if carry is None else carry:
        values = torch.cat([values, keys], dim=-1)
        d_e = max(d_e, values.shape[-1])
    projected = draw_from(st.booleans())
    visible = torch.rand(*leading, n, generator=generator) < 0.8
    visible[..., 0] = True
    return AttentionHead.from_query(
        integers(d_k),
        keys,
        values,
        integers(values.shape[-1], d_e) if projected else None,
        visible,
        0.1 if loose else draw_from(st.sampled_from([0.1, 1.0, 5.0])),
        integers(n) if draw_from(st.booleans()) else None,
        draw_from(st.sampled_from([torch.float32, torch.float64])),
    )
