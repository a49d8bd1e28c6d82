import numpy as np
import pytest
import torch
from scipy.optimize import linprog

from identiformer.errors import InputError
from identiformer.identifiability import (
    AttentionHead,
    Level,
    certify,
    possible_tops,
    weight_intervals,
)
from identiformer.identifiability.polytope import RowPolytope


def head(weights, transformed, **more):
    weights = torch.tensor(weights, dtype=torch.float64)
    transformed = torch.tensor(transformed, dtype=torch.float64)
    return AttentionHead(weights, torch.ones(len(weights), 3), transformed, **more)


def random_head(n, d_v, seed, sharpness=1.0):
    generator = torch.Generator().manual_seed(seed)
    weights = torch.softmax(sharpness * torch.randn(n, generator=generator, dtype=torch.float64), dim=-1)
    values = torch.randint(-3, 4, (n, d_v), generator=generator).to(torch.float64)
    return AttentionHead(weights, torch.ones(n, 3), values)


def check(intervals, lower, upper):
    torch.testing.assert_close(intervals.lower, torch.tensor(lower, dtype=torch.float64), atol=1e-9, rtol=0)
    torch.testing.assert_close(intervals.upper, torch.tensor(upper, dtype=torch.float64), atol=1e-9, rtol=0)


def test_by_hand():
    # b1 + 2 b2 = 1 and b0 + b1 + b2 = 1: b = (t, 1 - 2t, t) with t in [0, 1/2].
    row = head([0.1, 0.8, 0.1], [[0.0], [1.0], [2.0]])
    check(weight_intervals(row), [0.0, 0.0, 0.0], [0.5, 1.0, 0.5])
    assert possible_tops(row) == [0, 1, 2]
    # Output 1 of T = (0, 1, 4): b = (3t, 1 - 4t, t), and token 2 never has more than token 0.
    row = head([0.3, 0.6, 0.1], [[0.0], [1.0], [4.0]])
    check(weight_intervals(row), [0.0, 0.0, 0.0], [0.75, 1.0, 0.25])
    assert possible_tops(row) == [0, 1]


def test_tolerance_by_hand():
    # The output 1 may move by 0.1: b0 is at most 0.55, with b2 = 0.45. Never less than nothing.
    row = head([0.1, 0.8, 0.1], [[0.0], [1.0], [2.0]])
    check(weight_intervals(row, tolerance=0.1), [0.0, 0.0, 0.0], [0.55, 1.0, 0.55])
    # Identifiable, T = (0, 1): the weight of token 1 is the output, 0.5, up to 10%.
    row = head([0.5, 0.5], [[0.0], [1.0]])
    check(weight_intervals(row), [0.5, 0.5], [0.5, 0.5])
    check(weight_intervals(row, tolerance=0.1), [0.45, 0.45], [0.55, 0.55])
    row = head([0.48, 0.52], [[0.0], [1.0]])
    assert possible_tops(row) == [1]
    assert possible_tops(row, tolerance=0.02) == [1]
    assert possible_tops(row, tolerance=0.05) == [0, 1]


def test_a_row_with_zeros_can_be_unique():
    row = head([1.0, 0.0, 0.0], [[0.0], [1.0], [2.0]])
    assert int(certify(row).simplex.nullity) == 1
    check(weight_intervals(row), [1.0, 0.0, 0.0], [1.0, 0.0, 0.0])
    assert possible_tops(row) == [0]


def test_what_is_not_visible_has_no_weight():
    visible = torch.tensor([True, False, True, True, False])
    row = head([0.1, 0.0, 0.8, 0.1, 0.0], [[0.0], [9.0], [1.0], [2.0], [-9.0]], visible=visible)
    check(weight_intervals(row), [0.0] * 5, [0.5, 0.0, 1.0, 0.5, 0.0])
    assert possible_tops(row) == [0, 2, 3]


def test_tied_tokens_share_a_total():
    # Tokens 1 and 3 are one word: 0.6 together, so each can be on top, and token 0 can as well.
    row = head([0.4, 0.3, 0.0, 0.3], [[1.0, 0.0], [0.0, 1.0], [0.0, 0.0], [0.0, 1.0]])
    check(weight_intervals(row), [0.4, 0.0, 0.0, 0.0], [0.4, 0.6, 0.0, 0.6])
    assert possible_tops(row) == [0, 1, 3]
    # 0.9 together leaves at least 0.45 for the heavier of the two.
    row = head([0.1, 0.45, 0.0, 0.45], [[1.0, 0.0], [0.0, 1.0], [0.0, 0.0], [0.0, 1.0]])
    assert possible_tops(row) == [1, 3]


def feasible(row, tolerance=0.0):
    """The constraints as the definition states them, for another solver."""
    transformed = row.transformed.numpy()
    n = len(row.weights)
    equalities = np.vstack([transformed.T, np.ones(n)])
    return equalities, equalities @ row.weights.numpy()


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize(("n", "d_v"), [(5, 3), (7, 3), (7, 5), (11, 3), (11, 7)])
def test_against_another_solver(n, d_v, seed):
    row = random_head(n, d_v, seed, sharpness=1 + seed % 3)
    equalities, right = feasible(row)
    intervals = weight_intervals(row)
    tops = possible_tops(row)
    assert tops == possible_tops(row, intervals=intervals)
    for token in range(n):
        cost = np.zeros(n)
        for bound, sign in ((intervals.lower, 1.0), (intervals.upper, -1.0)):
            cost[token] = sign
            result = linprog(cost, A_eq=equalities, b_eq=right, bounds=(0, None))
            assert abs(sign * result.fun - float(bound[token])) < 1e-8
        # The definition: b_j >= b_k for all k.
        above = np.eye(n)
        above[:, token] -= 1
        result = linprog(np.zeros(n), above, np.zeros(n), equalities, right, bounds=(0, None))
        assert (token in tops) == (result.status == 0)


@pytest.mark.parametrize(("n", "d_v"), [(7, 3), (7, 5), (11, 3), (11, 7)])
def test_bounds_contain_the_weights_and_are_attained(n, d_v):
    row = random_head(n, d_v, seed=3)
    polytope = RowPolytope(row)
    lower, upper = weight_intervals(row)
    assert (lower <= row.weights).all()
    assert (row.weights <= upper).all()
    equalities, right = feasible(row)
    for token in range(n):
        for found, bound in ((polytope.least(token), lower), (polytope.most(token), upper)):
            assert abs(found[token] - float(bound[token])) < 1e-9
            assert found.min() >= 0
            np.testing.assert_allclose(equalities @ found, right, atol=1e-8)


def test_widths_are_zero_where_the_simplex_is_identifiable():
    for seed in range(20):
        row = random_head(5, 3 + seed % 3, seed)
        certificate = certify(row)[Level.SIMPLEX]
        lower, upper = weight_intervals(row)
        assert (int(certificate.nullity) == 0) == bool((upper - lower).max() < 1e-8)


def test_tolerance_widens_without_end():
    row = random_head(7, 5, seed=1)
    before = weight_intervals(row)
    for tolerance in (1e-6, 1e-3, 0.1, 1.0):
        after = weight_intervals(row, tolerance=tolerance)
        assert (after.lower <= before.lower + 1e-9).all()
        assert (after.upper >= before.upper - 1e-9).all()
        before = after
    # Outer bounds: rows whose output moves by no more than the tolerance are inside.
    lower, upper = weight_intervals(row, tolerance=0.1)
    rows = torch.rand(20000, 7, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    rows = 0.9 * row.weights + 0.1 * rows / rows.sum(dim=-1, keepdim=True)
    moved = ((rows - row.weights) @ row.transformed).norm(dim=-1)
    inside = rows[moved <= 0.1 * row.output.norm()]
    assert len(inside) > 100
    assert ((inside >= lower) & (inside <= upper)).all()


def test_scale_of_the_values_changes_nothing():
    row = random_head(7, 3, seed=5)
    expected = weight_intervals(row)
    for scale in (1e-6, 1e6):
        scaled = AttentionHead(row.weights, row.keys, row.values * scale)
        for found, wanted in zip(weight_intervals(scaled), expected, strict=True):
            torch.testing.assert_close(found, wanted, atol=1e-8, rtol=0)
        assert possible_tops(scaled) == possible_tops(row)


def test_weights_equal_in_the_models_precision_are_equal():
    third = torch.tensor([1 / 3 + 1e-8, 1 / 3, 1 / 3 - 1e-8])
    assert possible_tops(AttentionHead(third, torch.ones(3, 5), torch.eye(3))) == [0, 1, 2]
    weights = torch.tensor([0.33, 0.33, 0.34], dtype=torch.bfloat16)
    assert possible_tops(AttentionHead(weights, torch.ones(3, 5), torch.eye(3), dtype=torch.float32)) == [2]


def test_one_row_and_a_sensible_tolerance(capfd):
    row = random_head(5, 3, seed=0)
    batch = AttentionHead.stack([row, row])
    for function in (weight_intervals, possible_tops):
        with pytest.raises(InputError, match=r"batch shape \(2,\): give an index for each dimension"):
            function(batch)
        for tolerance in (-0.1, float("nan"), float("inf")):
            with pytest.raises(InputError, match="tolerance must be a finite number"):
                function(row, tolerance=tolerance)
    alone = weight_intervals(row)
    for found in (weight_intervals(batch, 1), weight_intervals(batch[1])):
        check(found, alone.lower.tolist(), alone.upper.tolist())
    assert possible_tops(batch, (1,)) == possible_tops(batch[1]) == possible_tops(row)
    # The solver's own greeting included.
    assert capfd.readouterr().out == ""
