"""The least eigenvalue by inverse iteration is that of all eigenvalues, or says that it is not."""

import pytest
import torch

from identiformer.identifiability.least_eigenvalue import least_eigenvalue


def with_eigenvalues(values, seed=0):
    generator = torch.Generator().manual_seed(seed)
    size = len(values)
    turn = torch.linalg.qr(torch.randn(size, size, generator=generator, dtype=torch.float64)).Q
    return (turn * torch.as_tensor(values, dtype=torch.float64)) @ turn.mT


def test_by_hand():
    # [[2, 1], [1, 2]] has the eigenvalues 1 and 3.
    found = least_eigenvalue(
        torch.linalg.cholesky(torch.tensor([[2.0, 1.0], [1.0, 2.0]], dtype=torch.float64))
    )
    assert float(found.value) == pytest.approx(1, rel=1e-12)
    assert bool(found.converged)
    found = least_eigenvalue(torch.tensor([[3.0]], dtype=torch.float64))
    assert float(found.value) == pytest.approx(9, rel=1e-12)
    assert bool(found.converged)


@pytest.mark.parametrize(
    "least", [[1e-6, 1], [1e-3, 1.1e-3], [0.01, 0.01, 0.01], [0.05, 0.06], [1e-9], [1e-2, 2e-2, 3e-2]]
)
def test_where_it_converges(least):
    matrix = with_eigenvalues([*least, *torch.linspace(1, 23, 23 - len(least)).tolist()])
    found = least_eigenvalue(torch.linalg.cholesky(matrix))
    assert bool(found.converged)
    # Rounding in the factor is absolute.
    assert float(found.value) == pytest.approx(least[0], rel=1e-7, abs=23 * 1e-14)


@pytest.mark.parametrize("spread", [1e-3, 0.1, 0.3])
def test_what_lies_close_together_does_not_pass_for_converged(spread):
    """More close eigenvalues than the block has vectors: whatever is called converged is accurate all the same."""
    matrices = torch.stack([with_eigenvalues(torch.linspace(1, 1 + spread, 41), seed) for seed in range(20)])
    found = least_eigenvalue(torch.linalg.cholesky(matrices))
    assert not bool(found.converged.any())
    assert (found.value >= 1 - 1e-12).all()


def test_a_batch_is_what_its_entries_are():
    generator = torch.Generator().manual_seed(5)
    factors = torch.randn(11, 3, 7, 7, generator=generator, dtype=torch.float64)
    lower = torch.linalg.cholesky(factors @ factors.mT)
    found, expected = least_eigenvalue(lower), torch.linalg.eigvalsh(factors @ factors.mT)[..., 0]
    assert bool(found.converged.double().mean() > 0.5)
    torch.testing.assert_close(found.value[found.converged], expected[found.converged], rtol=1e-7, atol=0)
    alone = least_eigenvalue(lower[5, 2])
    torch.testing.assert_close(alone.value, found.value[5, 2], rtol=1e-10, atol=0)
