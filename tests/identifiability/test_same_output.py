import numpy as np
import pytest
import torch

from identiformer.identifiability import AttentionHead
from identiformer.identifiability.same_output import SameOutput

LINE = [[0.0], [1.0], [2.0]]


def same(weights, values, projection=None, **more):
    values = torch.tensor(values, dtype=torch.float64)
    if projection is not None:
        projection = torch.tensor(projection, dtype=torch.float64)
    return SameOutput(
        AttentionHead(torch.tensor(weights, dtype=torch.float64), values, values, projection, **more)
    )


def test_residuals_by_hand():
    # aT = 1, and (0.6, 0, 0.4) T = 0.8.
    row = np.array([0.6, 0.0, 0.4])
    assert same([0.1, 0.8, 0.1], LINE).residual(row) == pytest.approx(0.2)
    # aT = 0: relative to sigma_max(T), here the square root of 2. The row has -0.2.
    centred = [[-1.0], [0.0], [1.0]]
    assert same([0.1, 0.8, 0.1], centred).residual(row) == pytest.approx(0.2 / 2**0.5)
    # To rounding, it is zero as well.
    assert same([0.1, 0.8, 0.1 + 1e-16], centred).residual(row) == pytest.approx(0.2 / 2**0.5)
    # V D = 1e-9 by cancellation of two products of length 3 each, which float32 could not tell from 0.
    cancelling = same([0.5, 0.5], [[3.0, 0.0], [0.0, 3e-9]], [[0.0], [1.0]])
    assert cancelling.residual(np.array([1.0, 0.0])) == pytest.approx(1.0)
    noise = same([0.5, 0.5], [[1.0, 1.0], [1.0, 1.0 - 1e-8]], [[1.0], [-1.0]], dtype=torch.float32)
    assert noise.residual(np.array([0.0, 1.0])) == pytest.approx(0.5e-8 / (2 * 2**0.5), rel=1e-6)
    assert same([0.1, 0.8, 0.1], [[0.0], [0.0], [0.0]]).residual(row) == 0


def test_the_unit_is_that_of_the_output_whatever_its_scale():
    row = np.array([0.6, 0.0, 0.4])
    for scale in (1e-30, 1e-6, 1e6, 1e30):
        assert same([0.1, 0.8, 0.1], [[scale * x for x in r] for r in LINE]).residual(row) == pytest.approx(
            0.2
        )


def test_responses_are_equations_for_rows_of_sum_one():
    generator = torch.Generator().manual_seed(0)
    values = 1e5 + torch.randn(7, 3, generator=generator, dtype=torch.float64)
    weights = torch.softmax(torch.randn(7, generator=generator), dim=-1)
    assert float(weights.double().sum()) != 1
    equations = SameOutput(AttentionHead(weights, values, values)).responses()
    assert equations.matrix.shape == (7, 3)
    # A row of sum 1 with the output of the weights, by least squares.
    system = torch.cat([values, torch.ones(7, 1, dtype=torch.float64)], dim=-1).T
    right = torch.cat([weights.double() @ values, torch.ones(1, dtype=torch.float64)])
    row = torch.linalg.lstsq(system, right[:, None], driver="gelsd").solution[:, 0].numpy()
    np.testing.assert_allclose(row @ equations.matrix, equations.output, atol=1e-9)
    # Another row misses by what its output is off.
    other = row + np.array([0.1, -0.1, 0, 0, 0, 0, 0])
    off = np.linalg.norm(other @ equations.matrix - equations.output)
    change = 0.1 * float((values[0] - values[1]).norm())
    spread = float(torch.linalg.matrix_norm(values - values.mean(dim=0), ord=2))
    assert off == pytest.approx(change / spread, rel=1e-6)


def test_polish_removes_what_a_solver_left():
    # Off in the output and in the sum. Weights of zero stay, and none becomes negative.
    task = same([0.1, 0.5, 0.1, 0.3], [*LINE, [5.0]])
    row = np.array([0.0, 0.7, 1e-9, 0.3]) + np.array([0.0, 1e-7, -0.5e-9, 3e-7])
    polished = task.polish(row)
    assert polished.sum() == pytest.approx(1, abs=1e-15)
    assert polished @ [0.0, 1.0, 2.0, 5.0] == pytest.approx(2.2, abs=1e-14)
    assert polished[0] == 0
    assert polished.min() >= 0
    assert np.abs(polished - row).max() < 1e-6
    # Nothing is done to what is exact.
    exact = np.array([0.1, 0.5, 0.1, 0.3])
    np.testing.assert_array_equal(task.polish(exact), exact)
