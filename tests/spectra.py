"""Matrices of a spectrum that is known."""

import torch


def draw(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def with_singular_value(least, n, d, seed=0):
    """A matrix [n, d] of greatest singular value 1, with one that is `least`, of columns that sum to zero."""
    tall, wide = max(n, d), min(n - 1, d)
    ones = torch.ones(tall, 1, dtype=torch.float64)[:n]
    left = torch.linalg.qr(torch.cat([ones, draw(n, wide, seed=seed)], dim=-1)).Q[:, 1:]
    right = torch.linalg.qr(draw(d, wide, seed=seed + 1)).Q
    singular = torch.linspace(1, 0.3, wide, dtype=torch.float64)
    singular[-1] = least
    return left * singular @ right.mT
