r"""The least eigenvalue of a matrix that has a Cholesky factor, without the others.

Inverse iteration with a block of vectors: $Q \leftarrow \mathrm{orth}(G^{-1} Q)$, and in the end the eigenvalues
of $Q^\top G^{-1} Q$, the greatest of which is $1 / \lambda_{\min}$ (Golub and Van Loan, Matrix Computations, 8.2).
With a block of $b$ the error shrinks like $(\lambda_{\min} / \lambda_{b + 1})^{2 k}$. The few steps that it mostly
takes cost two Cholesky factorisations, all eigenvalues five. Where the least ones lie close together it does not
converge soon, and says so.

Of a Ritz value $\theta$ with vector $x$ and residual $r = G^{-1} x - \theta x$, the error is at most $\|r\|^2$ over the
distance to the next eigenvalue (Parlett, The Symmetric Eigenvalue Problem, 11.7). The next Ritz value stands for that,
which is no proof: of ranks, a factorisation with a shift is one (`gram.py`).
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from identiformer.identifiability.linalg import (
    eigenpairs,
    lengths,
    orthonormal,
    solve_factored,
    solve_lower,
    solve_upper,
)

_BLOCK = 4
_STEPS = 3
_CONVERGED = 1e-7


class LeastEigenvalue(NamedTuple):
    """`value`: `[*batch]`; `converged`: `[*batch]`, whether it seems accurate to 1e-7 of itself."""

    value: Float[Tensor, "*batch"]
    converged: Bool[Tensor, "*batch"]


def least_eigenvalue(lower: Float[Tensor, "*batch s s"]) -> LeastEigenvalue:
    r"""The [`LeastEigenvalue`][] of $L L^\top$, for a lower triangular $L$ without zeros on its diagonal."""
    size = lower.shape[-1]
    # Any start will do that is not orthogonal to what is looked for; this one is irrational.
    count = torch.arange(1, size * min(_BLOCK, size) + 1, dtype=lower.dtype, device=lower.device)
    start = torch.cos(2**0.5 * count.square() + 3**0.5).view(size, -1)
    block = orthonormal(start.expand(*lower.shape[:-1], -1))
    for _ in range(_STEPS):
        block = orthonormal(solve_factored(lower, block))
    half = solve_lower(lower, block)
    values, vectors = eigenpairs(half.mT @ half)
    best = vectors[..., -1:]
    image = solve_upper(lower.mT, half @ best)
    theta = values[..., -1]
    residual = lengths((image - theta[..., None, None] * (block @ best))[..., 0])
    # A block of all vectors there are leaves nothing out.
    next_one = values[..., -2] if values.shape[-1] > 1 else torch.zeros_like(theta)
    error = torch.minimum(residual, residual.square() / (theta - next_one).clamp(min=1e-300))
    return LeastEigenvalue(1 / theta, error < _CONVERGED * theta)
