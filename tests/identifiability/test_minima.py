import numpy as np
import pytest
import torch

import identiformer.identifiability.minima as module
from identiformer.identifiability import AttentionHead, weight_intervals
from identiformer.identifiability.interior import Ends, Programs
from identiformer.identifiability.minima import EXACT, minima
from identiformer.identifiability.polytope import RowPolytope
from identiformer.identifiability.program import RowProgram


def random_head(n, d_v, seed, sharpness=1.0, d_e=None):
    generator = torch.Generator().manual_seed(seed)
    weights = torch.softmax(sharpness * torch.randn(n, generator=generator, dtype=torch.float64), dim=-1)
    values = torch.randn(n, d_v, generator=generator, dtype=torch.float64)
    projection = None if d_e is None else torch.randn(d_v, d_e, generator=generator, dtype=torch.float64)
    return AttentionHead(weights, torch.ones(n, 3), values, projection)


@pytest.fixture
def without_simplex(monkeypatch):
    """Fails where the simplex method is called."""

    def refuse(*_):
        raise AssertionError("the simplex method was called")

    monkeypatch.setattr(RowProgram, "minimise", refuse)


@pytest.mark.parametrize("sharpness", [0.1, 1.0, 4.0, 20.0])
@pytest.mark.parametrize(("n", "d_v", "d_e"), [(11, 5, 7), (43, 32, 64), (80, 64, 96), (90, 33, 96)])
def test_no_program_is_left_to_the_simplex_method(n, d_v, d_e, sharpness, without_simplex):
    head = random_head(n, d_v, seed=n, sharpness=sharpness, d_e=d_e)
    for tolerance in (0.0, 0.01):
        lower, upper = weight_intervals(head, tolerance=tolerance)
        assert (lower <= upper).all()
    polytope = RowPolytope(head)
    costs = np.concatenate([np.eye(n), -np.eye(n)])
    bounds, rows = minima(polytope, costs)
    attained = (costs * rows).sum(axis=1)
    # Proved from below, and attained from above.
    assert (bounds <= attained + 1e-10).all()
    assert (attained - bounds <= EXACT).all()
    assert rows.min() >= 0
    np.testing.assert_allclose(rows.sum(axis=1), 1, atol=1e-9)
    np.testing.assert_allclose(
        rows @ polytope.basis.T, np.tile(polytope.basis @ polytope.weights, (2 * n, 1)), atol=1e-9
    )


@pytest.mark.parametrize("tolerance", [0.0, 0.05])
@pytest.mark.parametrize(("n", "d_v"), [(7, 3), (7, 5), (11, 3), (11, 7)])
def test_what_the_interior_point_method_says_is_not_trusted(n, d_v, tolerance, monkeypatch):
    polytope = RowPolytope(random_head(n, d_v, seed=3), tolerance)
    costs = np.concatenate([np.eye(n), -np.eye(n)])
    expected = minima(polytope, costs).bounds
    generator = torch.Generator().manual_seed(0)

    def noise(_, point, cost):
        return Ends(*(torch.rand(2, *cost.shape, generator=generator, dtype=torch.float64)))

    def nothing(_, point, cost):
        return Ends(torch.full_like(cost, torch.nan), torch.full_like(cost, torch.nan))

    def too_much(_, point, cost):
        # Dual variables without end, as where no row is positive; the proof must mind its own rounding.
        ends = honest(_, point, cost)
        return Ends(ends.primal, ends.reduced + 1e15) if polytope.null is None else ends

    honest = Programs.minimise
    for answer in (noise, nothing, too_much):
        monkeypatch.setattr(Programs, "minimise", answer)
        np.testing.assert_allclose(minima(polytope, costs).bounds, expected, atol=1e-9)


@pytest.mark.parametrize("tolerance", [0.0, 0.05])
def test_whatever_the_reduced_costs_the_bound_holds(tolerance):
    head = random_head(11, 3, seed=1)
    polytope = RowPolytope(head, tolerance)
    a, basis, slack = (torch.as_tensor(t) for t in (polytope.weights, polytope.basis, polytope.slack))
    costs = np.concatenate([np.eye(11), -np.eye(11)])
    least = torch.as_tensor(minima(polytope, costs).bounds)
    for seed in range(50):
        reduced = 3 * torch.randn(22, 11, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
        bounds, *_ = module._bounds(a.expand(22, -1), basis, slack, torch.as_tensor(costs), reduced)
        assert (bounds <= least + 1e-9).all()


def test_what_is_proved_of_one_row_holds_for_others():
    generator = torch.Generator().manual_seed(0)
    rows = torch.softmax(2 * torch.randn(6, 11, generator=generator, dtype=torch.float64), dim=-1)
    values = torch.randn(11, 4, generator=generator, dtype=torch.float64)
    polytopes = [RowPolytope(AttentionHead(row, torch.ones(11, 3), values)) for row in rows]
    costs = torch.eye(11, dtype=torch.float64)
    tightest = 1.0
    for row in rows:
        found = module.minima_of_rows(polytopes[0], row.expand(11, -1), costs)
        assert found.settled.all()
        for other, polytope in zip(rows, polytopes, strict=True):
            least = torch.as_tensor(minima(polytope, costs.numpy()).bounds)
            proved = found.proofs @ other - found.rounding
            assert (proved <= least + EXACT).all()
            if other is row:
                assert (proved >= least - 1e-9).all()
            else:
                tightest = min(tightest, float((least - proved).median()))
    # It is worth something elsewhere too.
    assert tightest < 0.1


def test_programs_in_pieces(monkeypatch):
    polytope = RowPolytope(random_head(11, 3, seed=1))
    costs = np.concatenate([np.eye(11), -np.eye(11)])
    expected = minima(polytope, costs)
    monkeypatch.setattr("identiformer.identifiability.interior._NUMBERS_AT_ONCE", 0)
    found = minima(polytope, costs)
    np.testing.assert_allclose(found.bounds, expected.bounds, atol=1e-11)
    np.testing.assert_allclose(found.rows, expected.rows, atol=1e-6)
    none = minima(polytope, costs[:0])
    assert none.bounds.shape == (0,)
    assert none.rows.shape == (0, 11)
