# pyright: basic
# torch.linalg carries no type information: this file is where it gets one.
"""The matrix factorisations that the package uses, batched."""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor


def svd(
    matrix: Float[Tensor, "*batch n d"],
) -> tuple[Float[Tensor, "*batch n m"], Float[Tensor, "*batch m"], Float[Tensor, "*batch m d"]]:
    r"""The thin $M = L \, \mathrm{diag}(\sigma) \, R^\top$: $L$, $\sigma$ in descending order, $R^\top$."""
    left, singular, right = torch.linalg.svd(matrix, full_matrices=False)
    return left, singular, right


def singular_values(matrix: Float[Tensor, "*batch n d"]) -> Float[Tensor, "*batch m"]:
    """The singular values in descending order."""
    return torch.linalg.svdvals(matrix)


def triangle(matrix: Float[Tensor, "*batch n d"]) -> Float[Tensor, "*batch m d"]:
    r"""$R$ of the thin $M = Q R$."""
    return torch.linalg.qr(matrix, mode="r").R


def qr(
    matrix: Float[Tensor, "*batch n d"],
) -> tuple[Float[Tensor, "*batch n m"], Float[Tensor, "*batch m d"]]:
    r"""The thin $M = Q R$."""
    orthonormal, upper = torch.linalg.qr(matrix)
    return orthonormal, upper


def condition(upper: Float[Tensor, "*batch d d"]) -> Float[Tensor, "*batch"]:
    """An upper bound of the condition number of an upper triangular matrix; NaN or infinity if it is singular."""
    identity = torch.eye(upper.shape[-1], dtype=upper.dtype, device=upper.device)
    inverse = torch.linalg.solve_triangular(upper, identity, upper=True)
    return torch.linalg.matrix_norm(upper) * torch.linalg.matrix_norm(inverse)


def lengths(vectors: Float[Tensor, "*batch d"], dim: int = -1) -> Float[Tensor, "*lengths"]:
    """The Euclidean length of the vectors along a dimension."""
    return torch.linalg.vector_norm(vectors, dim=dim)


def broadcast(*shapes: torch.Size) -> torch.Size:
    """The shape to which tensors of these shapes broadcast."""
    try:
        # As torch does, but without the time that it takes over it.
        return torch.Size(np.broadcast_shapes(*shapes))
    except ValueError as error:
        raise RuntimeError(str(error)) from None


def complement(basis: Float[Tensor, "n c"]) -> Float[Tensor, "n m"]:
    """An orthonormal basis of what is orthogonal to the orthonormal columns of `basis`."""
    return torch.linalg.qr(basis, mode="complete").Q[:, basis.shape[-1] :]


def solve_gram(
    upper: Float[Tensor, "*batch d d"], right: Float[Tensor, "*batch d k"]
) -> Float[Tensor, "*batch d k"]:
    r"""$X$ with $R^\top R X = B$, for an upper triangular $R$."""
    half = torch.linalg.solve_triangular(upper.mT, right, upper=False)
    return torch.linalg.solve_triangular(upper, half, upper=True)


def eigenvalues(matrix: Float[Tensor, "*batch d d"]) -> Float[Tensor, "*batch d"]:
    """The eigenvalues of a symmetric matrix in ascending order."""
    return torch.linalg.eigvalsh(matrix)


def eigenpairs(
    matrix: Float[Tensor, "*batch d d"],
) -> tuple[Float[Tensor, "*batch d"], Float[Tensor, "*batch d d"]]:
    """The eigenvalues of a symmetric matrix in ascending order, and their vectors as columns."""
    values, vectors = torch.linalg.eigh(matrix)
    return values, vectors


def orthonormal(matrix: Float[Tensor, "*batch n d"]) -> Float[Tensor, "*batch n m"]:
    """An orthonormal basis of the columns, no more than there are rows."""
    return torch.linalg.qr(matrix).Q


def cholesky(
    matrix: Float[Tensor, "*batch d d"],
) -> tuple[Float[Tensor, "*batch d d"], Bool[Tensor, "*batch"]]:
    r"""The lower $L$ of $M = L L^\top$, and whether the factorisation went through; $L$ is of no use if not."""
    lower, failed = torch.linalg.cholesky_ex(matrix)
    return lower, failed == 0


def solve_lower(
    lower: Float[Tensor, "*#batch d d"], right: Float[Tensor, "*#batch d k"]
) -> Float[Tensor, "*batch d k"]:
    r"""$X$ with $L X = B$."""
    return torch.linalg.solve_triangular(lower, right, upper=False)


def solve_upper(
    upper: Float[Tensor, "*#batch d d"], right: Float[Tensor, "*#batch d k"]
) -> Float[Tensor, "*batch d k"]:
    r"""$X$ with $R X = B$."""
    return torch.linalg.solve_triangular(upper, right, upper=True)


def solve_factored(
    lower: Float[Tensor, "*#batch d d"], right: Float[Tensor, "*#batch d k"]
) -> Float[Tensor, "*batch d k"]:
    r"""$X$ with $L L^\top X = B$."""
    return torch.cholesky_solve(right, lower)


def square_norm(matrix: Float[Tensor, "*batch n d"]) -> Float[Tensor, "*batch"]:
    r"""$\|M\|_F^2$."""
    return torch.linalg.vector_norm(matrix, dim=(-2, -1)).square()


def split(numbers: Int[Tensor, " k"], size: int) -> tuple[Int[Tensor, " _"], ...]:
    """A list of numbers in pieces of at most `size`."""
    return torch.split(numbers, size)


def runs(numbers: Int[Tensor, " k"]) -> tuple[Int[Tensor, " m"], Int[Tensor, " k"]]:
    """The numbers of a sorted list, each once, and for each entry of the list which of them it is."""
    return torch.unique_consecutive(numbers, return_inverse=True)
