import dataclasses

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

import identiformer.identifiability.intervals as module
from exact_polytopes import bounds, vertices
from identiformer.errors import InputError
from identiformer.identifiability import AttentionHead, Level, certify, weight_intervals
from identiformer.identifiability.minima import Minima
from identiformer.identifiability.polytope import RowPolytope
from identiformer.identifiability.program import RowProgram


def head(weights, transformed, **more):
    weights = torch.tensor(weights, dtype=torch.float64)
    transformed = torch.tensor(transformed, dtype=torch.float64)
    return AttentionHead(weights, torch.ones(len(weights), 3), transformed, **more)


def random_head(n, d_v, seed, sharpness=1.0):
    generator = torch.Generator().manual_seed(seed)
    weights = torch.softmax(sharpness * torch.randn(n, generator=generator, dtype=torch.float64), dim=-1)
    values = torch.randint(-3, 4, (n, d_v), generator=generator).to(torch.float64)
    return AttentionHead(weights, torch.ones(n, 3), values)


def check(intervals, lower, upper, atol=1e-9):
    for found, expected in zip(intervals, (lower, upper), strict=True):
        torch.testing.assert_close(found, torch.tensor(expected, dtype=torch.float64), atol=atol, rtol=0)


@pytest.fixture
def without_program(monkeypatch):
    """Fails where a program is solved."""

    def refuse(*_):
        raise AssertionError("a program was solved")

    monkeypatch.setattr(module, "minima", refuse)
    monkeypatch.setattr(RowProgram, "minimise", refuse)


def test_by_hand():
    # b1 + 2 b2 = 1 and b0 + b1 + b2 = 1: b = (t, 1 - 2t, t) with t in [0, 1/2].
    row = head([0.1, 0.8, 0.1], [[0.0], [1.0], [2.0]])
    check(weight_intervals(row), [0.0, 0.0, 0.0], [0.5, 1.0, 0.5])
    # Output 1 of T = (0, 1, 4): b = (3t, 1 - 4t, t).
    row = head([0.3, 0.6, 0.1], [[0.0], [1.0], [4.0]])
    check(weight_intervals(row), [0.0, 0.0, 0.0], [0.75, 1.0, 0.25])
    # Output 1 of T = (0, 0, 2): tokens 0 and 1 share a half.
    row = head([0.2, 0.3, 0.5], [[0.0], [0.0], [2.0]])
    check(weight_intervals(row), [0.0, 0.0, 0.5], [0.5, 0.5, 0.5])


def test_tolerance_by_hand():
    # The output 1 may move by 0.1: b0 is at most 0.55, with b2 = 0.45. Never less than nothing.
    row = head([0.1, 0.8, 0.1], [[0.0], [1.0], [2.0]])
    check(weight_intervals(row, tolerance=0.1), [0.0, 0.0, 0.0], [0.55, 1.0, 0.55])
    # Identifiable, T = (0, 1): the weight of token 1 is the output, 0.5, up to 10%.
    row = head([0.5, 0.5], [[0.0], [1.0]])
    check(weight_intervals(row), [0.5, 0.5], [0.5, 0.5])
    check(weight_intervals(row, tolerance=0.1), [0.45, 0.45], [0.55, 0.55])
    # Twice the output, and more: then any row will do.
    for tolerance in (2.0, 1e3, 1e300):
        check(weight_intervals(row, tolerance=tolerance), [0.0, 0.0], [1.0, 1.0])


def test_tolerance_of_no_output():
    # h = 0: a share of it is nothing.
    row = head([0.25, 0.5, 0.25], [[-1.0, 0.0], [0.0, 0.0], [1.0, 0.0]])
    check(weight_intervals(row, tolerance=0.5), [0.0, 0.0, 0.0], [0.5, 1.0, 0.5])


def test_a_row_with_zeros_can_be_unique():
    # Nobody else is at the corner of the triangle of the outputs.
    row = head([1.0, 0.0, 0.0], [[0.0], [1.0], [2.0]])
    assert int(certify(row).simplex.nullity) == 1
    check(weight_intervals(row), [1.0, 0.0, 0.0], [1.0, 0.0, 0.0])
    # On an edge of a square, its two ends; the middle can be given by either diagonal.
    square = [[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.0]]
    check(weight_intervals(head([0.3, 0.7, 0.0, 0.0], square)), [0.3, 0.7, 0.0, 0.0], [0.3, 0.7, 0.0, 0.0])
    check(weight_intervals(head([0.5, 0.0, 0.5, 0.0], square)), [0.0] * 4, [0.5] * 4)


def test_what_is_not_visible_has_no_weight():
    visible = torch.tensor([True, False, True, True, False])
    row = head([0.1, 0.0, 0.8, 0.1, 0.0], [[0.0], [9.0], [1.0], [2.0], [-9.0]], visible=visible)
    intervals = weight_intervals(row)
    check(intervals, [0.0] * 5, [0.5, 0.0, 1.0, 0.5, 0.0])
    assert not intervals.seen_on_top[[1, 4]].any()


def test_tied_tokens_share_a_total():
    # Tokens 1 and 3 are one word: 0.6 together.
    row = head([0.4, 0.3, 0.0, 0.3], [[1.0, 0.0], [0.0, 1.0], [0.0, 0.0], [0.0, 1.0]])
    check(weight_intervals(row), [0.4, 0.0, 0.0, 0.0], [0.4, 0.6, 0.0, 0.6])
    check(weight_intervals(row, groups=torch.tensor([0, 1, 2, 1])), [0.4, 0.6, 0.0], [0.4, 0.6, 0.0])


def test_one_token():
    check(weight_intervals(head([1.0], [[5.0, 3.0]])), [1.0], [1.0])
    check(weight_intervals(head([1.0], [[0.0]]), tolerance=0.5), [1.0], [1.0])
    visible = torch.tensor([False, True, False])
    check(weight_intervals(head([0.0, 1.0, 0.0], [[1.0]] * 3, visible=visible)), [0, 1.0, 0], [0, 1.0, 0])


def test_values_that_say_nothing():
    # All zero, all equal, or erased by the projection: any row gives this output.
    for values in (torch.zeros(5, 3), torch.ones(5, 3), torch.randn(5, 1).expand(5, 3).clone()):
        projection = torch.tensor([[1.0, 2.0], [1.0, 2.0], [-2.0, -4.0]], dtype=torch.float64)
        weights = torch.tensor([0.5, 0.2, 0.2, 0.1, 0.0], dtype=torch.float64)
        row = AttentionHead(weights, torch.ones(5, 3), values.double(), projection)
        for tolerance in (0.0, 0.1):
            check(weight_intervals(row, tolerance=tolerance), [0.0] * 5, [1.0] * 5)


def test_more_value_channels_than_output_channels():
    # d_v = 5, d_e = 1, n < d_k: the output is the second value alone.
    generator = torch.Generator().manual_seed(0)
    values = torch.randn(3, 5, generator=generator, dtype=torch.float64)
    values[:, 1] = torch.tensor([0.0, 1.0, 2.0])
    projection = torch.tensor([[0.0], [1.0], [0.0], [0.0], [0.0]], dtype=torch.float64)
    weights = torch.tensor([0.1, 0.8, 0.1], dtype=torch.float64)
    row = AttentionHead(weights, torch.ones(3, 7), values, projection)
    check(weight_intervals(row), [0.0, 0.0, 0.0], [0.5, 1.0, 0.5])


# Weights of every size; what rounding leaves of them is what counts.
WEIGHT = st.sampled_from([0.0, 1.0, 1.0, 2.0, 5.0, 1e-3, 1e-6, 1e-9, 1e-17, 1e-30])


@st.composite
def integer_rows(draw_from):
    n, d = draw_from(st.integers(1, 6)), draw_from(st.integers(1, 3))
    weights = np.array(draw_from(st.lists(WEIGHT, min_size=n, max_size=n).filter(any)))
    transformed = draw_from(
        st.lists(st.lists(st.integers(-2, 2), min_size=d, max_size=d), min_size=n, max_size=n)
    )
    return (weights / weights.sum()).tolist(), transformed


@given(integer_rows(), st.sampled_from([1e-6, 1.0, 1e6]), st.data())
@settings(max_examples=150, deadline=None, derandomize=True)
def test_against_exact_arithmetic(case, scale, data):
    weights, transformed = case
    row = head(weights, (scale * np.array(transformed)).tolist())
    found = vertices(weights, transformed)
    tokens = [[j] for j in range(len(weights))]
    lower, upper = np.array(list(bounds(found, tokens)), dtype=float).T.tolist()
    check(weight_intervals(row), lower, upper)
    groups = data.draw(st.lists(st.integers(-1, 2), min_size=len(weights), max_size=len(weights)))
    members = [[j for j, group in enumerate(groups) if group == k] for k in range(max(groups) + 1)]
    lower, upper = np.array(list(bounds(found, members)), dtype=float).reshape(-1, 2).T.tolist()
    check(weight_intervals(row, groups=torch.tensor(groups)), lower, upper)


def feasible(row):
    """The constraints as the definition states them, for another solver."""
    equalities = np.vstack([row.transformed.numpy().T, np.ones(len(row.weights))])
    return equalities, equalities @ row.weights.numpy()


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("n", "d_v"), [(5, 3), (7, 3), (7, 5), (11, 3), (11, 7)])
def test_against_another_solver(n, d_v, seed):
    row = random_head(n, d_v, seed, sharpness=1 + seed % 3)
    equalities, right = feasible(row)
    intervals = weight_intervals(row)
    for token in range(n):
        cost = np.zeros(n)
        for bound, sign in ((intervals.lower, 1.0), (intervals.upper, -1.0)):
            cost[token] = sign
            result = linprog(cost, A_eq=equalities, b_eq=right, bounds=(0, None))
            assert abs(sign * result.fun - float(bound[token])) < 1e-8


@pytest.mark.parametrize("tolerance", [1e-4, 0.01, 0.3])
@pytest.mark.parametrize(("n", "d_v"), [(5, 5), (7, 3), (11, 7)])
def test_tolerance_against_another_solver(n, d_v, tolerance):
    row = random_head(n, d_v, seed=n)
    lower, upper = weight_intervals(row, tolerance=tolerance)
    # The box, from the definition: along each right singular vector of the centred T the output moves no more.
    transformed = row.transformed.numpy()
    _, singular, right = np.linalg.svd(transformed - transformed.mean(axis=0), full_matrices=False)
    along = (transformed @ right[singular > 1e-9].T).T
    most = tolerance * np.linalg.norm(row.output.numpy())
    center = along @ row.weights.numpy()
    for token in range(n):
        for bound, sign in ((lower, 1.0), (upper, -1.0)):
            result = linprog(
                sign * np.eye(n)[token],
                A_ub=np.vstack([along, -along]),
                b_ub=np.concatenate([center + most, most - center]),
                A_eq=np.ones((1, n)),
                b_eq=[1],
                bounds=(0, None),
            )
            assert abs(sign * result.fun - float(bound[token])) < 1e-7


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


def test_no_program_where_the_simplex_is_identifiable(without_program):
    row = random_head(5, 7, seed=0)
    lower, upper = weight_intervals(row)
    assert torch.equal(lower, row.weights)
    assert torch.equal(upper, row.weights)
    lower, upper = weight_intervals(row, groups=torch.tensor([1, 0, 0, -1, 1]))
    expected = torch.stack([row.weights[1:3].sum(), row.weights[[0, 4]].sum()])
    torch.testing.assert_close(lower, expected, atol=1e-15, rtol=0)
    torch.testing.assert_close(upper, expected, atol=1e-15, rtol=0)
    with pytest.raises(AssertionError, match="a program was solved"):
        weight_intervals(row, tolerance=0.1)


def test_bounds_that_miss_the_weights_are_an_error_of_ours(monkeypatch):
    honest = module.minima

    def shifted(polytope, costs):
        found = honest(polytope, costs)
        return Minima(found.bounds + shift, found.rows)

    monkeypatch.setattr(module, "minima", shifted)
    # A token that is at its bound: what is missed by less than 1e-9 is widened.
    row = head([1.0, 0.0, 0.0], [[0.0], [1.0], [2.0]])
    shift = 9e-10
    check(weight_intervals(row), [1.0, 0.0, 0.0], [1.0, 0.0, 0.0])
    shift = 2e-9
    with pytest.raises(AssertionError, match="miss the weights by"):
        weight_intervals(row)


@pytest.mark.parametrize(("n", "d_v"), [(5, 5), (7, 5), (11, 3)])
def test_no_allowed_row_lies_outside_of_the_bounds(n, d_v):
    row = random_head(n, d_v, seed=1)
    rows = torch.rand(20000, n, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    rows = rows / rows.sum(dim=-1, keepdim=True)
    # From near to far, along lines through the weights.
    rows = row.weights + torch.logspace(-4, 0, 20000, dtype=torch.float64)[:, None] * (rows - row.weights)
    moved = ((rows - row.weights) @ row.transformed).norm(dim=-1) / row.output.norm()
    groups = torch.arange(n) % 3
    before = weight_intervals(row)
    for tolerance in (1e-3, 0.02, 0.3):
        inside = rows[moved <= tolerance]
        assert len(inside) > 100
        after = weight_intervals(row, tolerance=tolerance)
        assert ((inside >= after.lower) & (inside <= after.upper)).all()
        # And they widen without end.
        assert (after.lower <= before.lower + 1e-9).all()
        assert (after.upper >= before.upper - 1e-9).all()
        before = after
        totals = torch.stack([inside[:, groups == k].sum(dim=-1) for k in range(3)], dim=-1)
        lower, upper = weight_intervals(row, tolerance=tolerance, groups=groups)
        assert ((totals >= lower) & (totals <= upper)).all()


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_scale_of_the_values_changes_nothing(dtype):
    row = random_head(7, 3, seed=5)
    row = AttentionHead(row.weights.to(dtype), row.keys, row.values.to(dtype))
    expected = weight_intervals(row)
    assert float((expected.upper - expected.lower).max()) > 0.1
    for scale in (1e-6, 1e6):
        scaled = dataclasses.replace(row, values=row.values * scale)
        for found, wanted in zip(weight_intervals(scaled), expected, strict=True):
            torch.testing.assert_close(found, wanted, atol=1e-8, rtol=0)


@pytest.mark.parametrize("sharpness", [0.0, 1.0, 30.0])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_precision_of_the_model(dtype, sharpness):
    # Weights as the model would have rounded them, uniform to peaked; values that it does not have to round.
    exact = random_head(11, 3, seed=7, sharpness=sharpness)
    row = AttentionHead(exact.weights.to(dtype), exact.keys, exact.values, dtype=dtype)
    equalities, right = feasible(row)
    lower, upper = weight_intervals(row)
    for token in range(11):
        result = linprog(-np.eye(11)[token], A_eq=equalities, b_eq=right, bounds=(0, None))
        assert abs(-result.fun - float(upper[token])) < 1e-6
    assert (lower <= row.weights).all()
    assert (row.weights <= upper).all()


def test_groups_are_not_sums_of_bounds():
    # b = (t, 1 - 2t, t): the ends together have 2t, the middle with one end 1 - t.
    row = head([0.1, 0.8, 0.1], [[0.0], [1.0], [2.0]])
    check(weight_intervals(row, groups=torch.tensor([0, 1, 0])), [0.0, 0.0], [1.0, 1.0])
    check(weight_intervals(row, groups=torch.tensor([0, 0, 1])), [0.5, 0.0], [1.0, 0.5])
    check(weight_intervals(row, groups=torch.tensor([-1, 0, 0])), [0.5], [1.0])
    check(weight_intervals(row, groups=torch.tensor([0, 0, 0])), [1.0], [1.0])
    # Numbers that nobody has, and tokens that nobody sees.
    check(weight_intervals(row, groups=torch.tensor([2, 2, 0])), [0.0, 0.0, 0.5], [0.5, 0.0, 1.0])
    assert weight_intervals(row, groups=torch.tensor([-1, -1, -1])).lower.shape == (0,)
    visible = torch.tensor([True, False, True, True])
    row = head([0.1, 0.0, 0.8, 0.1], [[0.0], [9.0], [1.0], [2.0]], visible=visible)
    check(weight_intervals(row, groups=torch.tensor([0, 1, 0, 2])), [0.5, 0.0, 0.0], [1.0, 0.0, 0.5])


def test_groups_of_one_token_are_tokens():
    row = random_head(11, 3, seed=2)
    order = torch.randperm(11, generator=torch.Generator().manual_seed(0))
    for tolerance in (0.0, 0.05):
        tokens = weight_intervals(row, tolerance=tolerance)
        groups = weight_intervals(row, tolerance=tolerance, groups=order)
        for of_groups, of_tokens in zip(groups, tokens, strict=True):
            torch.testing.assert_close(of_groups[order], of_tokens, atol=1e-9, rtol=0)


@pytest.mark.parametrize(("n", "d_v"), [(5, 3), (7, 5), (11, 7)])
def test_upper_bounds_first_or_all_at_once(n, d_v, monkeypatch):
    groups = torch.arange(n) // 2
    for seed in range(5):
        row = random_head(n, d_v, seed, sharpness=2)
        at_once, of_groups = weight_intervals(row), weight_intervals(row, groups=groups)
        monkeypatch.setattr(module, "_AT_ONCE", 0)
        check(weight_intervals(row), at_once.lower.tolist(), at_once.upper.tolist())
        check(weight_intervals(row, groups=groups), of_groups.lower.tolist(), of_groups.upper.tolist())
        monkeypatch.undo()
    # Of the last of these, some bounds are 0 and some are not.
    assert (at_once.lower > 1e-3).any()


def test_one_row_sensible_tolerance_and_sensible_groups(capfd):
    row = random_head(5, 3, seed=0)
    batch = AttentionHead.stack([random_head(5, 3, seed=1), row])
    with pytest.raises(InputError, match=r"batch shape \(2,\): give an index for each dimension"):
        weight_intervals(batch)
    with pytest.raises(InputError, match="there is no row 2"):
        weight_intervals(batch, 2)
    for tolerance in (-0.1, float("nan"), float("inf")):
        with pytest.raises(InputError, match="tolerance must be a finite number"):
            weight_intervals(row, tolerance=tolerance)
    with pytest.raises(InputError, match="groups hold -2: count groups from 0"):
        weight_intervals(row, groups=torch.tensor([0, 1, -2, 0, 0]))
    alone = weight_intervals(row)
    for found in (weight_intervals(batch, 1), weight_intervals(batch, (-1,)), weight_intervals(batch[1])):
        check(found, alone.lower.tolist(), alone.upper.tolist())
    # The solver's own greeting included.
    assert capfd.readouterr().out == ""


def test_groups_of_another_length(unhooked):
    with pytest.raises(InputError, match=r"groups have shape \(3,\) and the row has 5 tokens"):
        weight_intervals(random_head(5, 3, seed=0), groups=torch.tensor([0, 1, 0]))
