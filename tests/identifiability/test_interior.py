import numpy as np
import pytest
import torch
from scipy.optimize import linprog

import identiformer.identifiability.interior as interior
from identiformer.identifiability.interior import Programs


def orthonormal(rows, columns, seed):
    matrix = torch.randn(columns, rows, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    # A constant row keeps the polytope bounded.
    matrix[:, 0] = 1.0
    return torch.linalg.qr(matrix).Q.mT.contiguous()


def uniform(*shape, seed):
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_by_hand():
    # x0 + x1 + x2 = 1 and x0 = x2: x1 between 0 and 1, x0 between 0 and 1/2.
    matrix = torch.tensor([[3**-0.5] * 3, [2**-0.5, 0.0, -(2**-0.5)]], dtype=torch.float64)
    point = torch.tensor([[0.25, 0.5, 0.25]], dtype=torch.float64).expand(4, -1)
    cost = torch.tensor([[0, 1, 0], [0, -1, 0], [1, 0, 0], [-1, 0, 0]], dtype=torch.float64)
    primal, reduced = Programs(matrix, point[0]).minimise(point, cost)
    expected = torch.tensor([[0.5, 0, 0.5], [0, 1, 0], [0, 1, 0], [0.5, 0, 0.5]], dtype=torch.float64)
    torch.testing.assert_close(primal, expected, atol=1e-10, rtol=0)
    # What the reduced costs say is the same: c - s is a combination of the rows, and s x = 0.
    outside = (cost - reduced) - (cost - reduced) @ matrix.mT @ matrix
    torch.testing.assert_close(outside, torch.zeros_like(cost), atol=1e-10, rtol=0)
    assert (reduced > 0).all()
    assert float((primal * reduced).sum(dim=-1).max()) < 1e-10


def test_ranges_by_hand():
    # x0 + x1 = 1, and x0 - x1 = 0 up to a distance of 0.1 along the unit vector: x0 is 1/2 up to 0.1 / sqrt(2).
    half = 2**-0.5
    matrix = torch.tensor([[half, half, 0.0], [half, -half, 1.0]], dtype=torch.float64)
    point = torch.full((2, 2), 0.5, dtype=torch.float64)
    cost = torch.tensor([[1.0, 0.0], [-1.0, 0.0]], dtype=torch.float64)
    size = torch.tensor([0.5, 0.5, 0.1], dtype=torch.float64)
    primal, _ = Programs(matrix, size, size[2:]).minimise(point, cost)
    expected = [[0.5 - 0.1 * half, 0.5 + 0.1 * half], [0.5 + 0.1 * half, 0.5 - 0.1 * half]]
    torch.testing.assert_close(primal, torch.tensor(expected, dtype=torch.float64), atol=1e-10, rtol=0)


@pytest.mark.parametrize("outer", [True, False])
@pytest.mark.parametrize(("rows", "columns", "ranged"), [(3, 7, 0), (5, 11, 0), (3, 7, 2), (5, 11, 3)])
def test_against_another_solver(rows, columns, ranged, outer, monkeypatch):
    if not outer:
        monkeypatch.setattr(interior, "_MOST_OUTER_NUMBERS", 0)
    matrix = orthonormal(rows, columns, seed=rows)
    point = uniform(columns, seed=columns)
    ranges = uniform(ranged, seed=1) / 10
    # The first row, the sum, has no range.
    of_ranges = torch.eye(rows, dtype=torch.float64)[:, 1 : 1 + ranged]
    programs = Programs(torch.cat([matrix, of_ranges], dim=-1), torch.cat([point, ranges]), ranges)
    assert (programs.outer is not None) == outer
    cost = uniform(13, columns, seed=2) - 0.5
    primal, _ = programs.minimise(point.expand(13, -1), cost)
    slack = (of_ranges @ ranges).numpy()
    right = (matrix @ point).numpy()
    for objective, found in zip(cost.numpy(), primal.numpy(), strict=True):
        result = linprog(
            objective,
            A_ub=np.vstack([matrix, -matrix]),
            b_ub=np.concatenate([right + slack, slack - right]),
            bounds=(0, None),
        )
        assert abs(result.fun - objective @ found) < 1e-8
        assert found.min() > 0


def test_programs_of_a_batch_do_not_meet():
    matrix, point = orthonormal(3, 7, seed=0), uniform(7, seed=0)
    cost = uniform(5, 7, seed=1) - 0.5
    cost[2] = torch.nan
    programs = Programs(matrix, point)
    together = programs.minimise(point.expand(5, -1), cost).primal
    for place in (0, 1, 3, 4):
        alone = programs.minimise(point[None], cost[place, None]).primal[0]
        torch.testing.assert_close(together[place], alone, atol=1e-10, rtol=0)
