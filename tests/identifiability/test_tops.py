import numpy as np
import pytest
import torch
from hypothesis import given
from scipy.optimize import linprog

import identiformer.identifiability.tops as module
from drawn_heads import heads, many
from identiformer.errors import InputError
from identiformer.identifiability import (
    AttentionHead,
    possible_tops,
    tied_tokens,
    top_is_certain,
    weight_intervals,
)
from identiformer.identifiability.program import RowProgram


def head(weights, transformed, **more):
    weights = torch.tensor(weights, dtype=torch.float64)
    transformed = torch.tensor(transformed, dtype=torch.float64)
    return AttentionHead(weights, transformed, transformed, **more)


def random_head(n, d_v, seed, sharpness=1.0):
    generator = torch.Generator().manual_seed(seed)
    weights = torch.softmax(sharpness * torch.randn(n, generator=generator, dtype=torch.float64), dim=-1)
    values = torch.randint(-3, 4, (n, d_v), generator=generator).to(torch.float64)
    return AttentionHead(weights, torch.ones(n, 3), values)


def check(row, tops, certain, tolerance=0.0, groups=None):
    """With and without intervals that are there already."""
    for intervals in (None, weight_intervals(row, None, tolerance, groups)):
        assert possible_tops(row, None, tolerance, intervals, groups) == tops
        assert top_is_certain(row, None, tolerance, intervals, groups) == certain


def test_by_hand():
    # b = (t, 1 - 2t, t) with t in [0, 1/2].
    check(head([0.1, 0.8, 0.1], [[0.0], [1.0], [2.0]]), [0, 1, 2], False)
    # b = (3t, 1 - 4t, t): token 2 never has more than token 0.
    check(head([0.3, 0.6, 0.1], [[0.0], [1.0], [4.0]]), [0, 1], False)
    # Between 0.6 and 0.8 for token 0, T = (0, 1, 2): it is never passed.
    check(head([0.7, 0.2, 0.1], [[0.0], [1.0], [2.0]]), [0], True)


def test_tolerance_by_hand():
    # Identifiable, T = (0, 1): the weight of token 1 is the output.
    row = head([0.48, 0.52], [[0.0], [1.0]])
    check(row, [1], True)
    check(row, [1], True, tolerance=0.02)
    check(row, [0, 1], False, tolerance=0.05)


def test_what_is_not_visible_is_no_top():
    visible = torch.tensor([True, False, True, True, False])
    row = head([0.1, 0.0, 0.8, 0.1, 0.0], [[0.0], [9.0], [1.0], [2.0], [-9.0]], visible=visible)
    check(row, [0, 2, 3], False)


def test_one_token():
    check(head([1.0], [[5.0, 3.0]]), [0], True)
    check(head([0.0, 1.0], [[5.0], [3.0]], visible=torch.tensor([False, True])), [1], True)


def test_values_that_say_nothing():
    check(head([0.9, 0.1, 0.0], [[0.0, 0.0]] * 3), [0, 1, 2], True)
    # With keys that differ, they are three tokens.
    values = torch.zeros(3, 2, dtype=torch.float64)
    row = AttentionHead(torch.tensor([0.9, 0.1, 0.0], dtype=torch.float64), torch.eye(3).double(), values)
    check(row, [0, 1, 2], False)


def test_tied_tokens_count_as_one():
    # Tokens 1 and 3 are one word: 0.6 together, so each can be on top, and token 0 can as well.
    row = head([0.4, 0.3, 0.0, 0.3], [[1.0, 0.0], [0.0, 1.0], [0.0, 0.0], [0.0, 1.0]])
    check(row, [0, 1, 3], False)
    # 0.9 together leaves at least 0.45 for the heavier of the two.
    row = head([0.1, 0.45, 0.0, 0.45], [[1.0, 0.0], [0.0, 1.0], [0.0, 0.0], [0.0, 1.0]])
    check(row, [1, 3], True)
    # As totals, the word has 0.6 in any case.
    row = head([0.4, 0.3, 0.0, 0.3], [[1.0, 0.0], [0.0, 1.0], [0.0, 0.0], [0.0, 1.0]])
    check(row, [1], True, groups=tied_tokens(row).group)


def test_groups_by_hand():
    # b = (t, 1 - 2t, t): the ends together have 2t, the middle 1 - 2t.
    row = head([0.1, 0.8, 0.1], [[0.0], [1.0], [2.0]])
    check(row, [0, 1], False, groups=torch.tensor([0, 1, 0]))
    # 1 - t against t, with t up to 1/2, where they are equal.
    check(row, [0, 1], False, groups=torch.tensor([0, 0, 1]))
    # Without the middle, or with a group that nobody is in.
    check(row, [0, 1], False, groups=torch.tensor([0, -1, 1]))
    check(row, [2], True, groups=torch.tensor([2, 2, 2]))
    # b = (3t, 1 - 4t, t): 1 - 3t against 3t, and 1 - t against t <= 1/4.
    row = head([0.3, 0.6, 0.1], [[0.0], [1.0], [4.0]])
    check(row, [0, 1], False, groups=torch.tensor([1, 0, -1]))
    check(row, [0], True, groups=torch.tensor([0, 0, 1]))


def can_be_top(row, token, totals):
    """The definition: some row b of the same output has b_j >= b_k for all k."""
    n = len(row.weights)
    equalities = np.vstack([row.transformed.numpy().T, np.ones(n)])
    above = totals - totals[token]
    result = linprog(
        np.zeros(n),
        above,
        np.zeros(len(totals)),
        equalities,
        equalities @ row.weights.numpy(),
        bounds=(0, None),
    )
    return result.status == 0


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize(("n", "d_v"), [(5, 3), (7, 3), (7, 5), (11, 3), (11, 7)])
def test_against_another_solver(n, d_v, seed):
    row = random_head(n, d_v, seed, sharpness=1 + seed % 3)
    tops = [token for token in range(n) if can_be_top(row, token, np.eye(n))]
    group = tied_tokens(row).group
    check(row, tops, len({int(group[top]) for top in tops}) == 1)
    groups = torch.arange(n) // 2
    totals = np.array([(groups == k).numpy() for k in range(int(groups.max()) + 1)], dtype=float)
    tops = [k for k in range(len(totals)) if can_be_top(row, k, totals)]
    check(row, tops, len(tops) == 1, groups=groups)


@given(heads())
@many
def test_tops_agree_with_intervals(row):
    intervals = weight_intervals(row)
    lower, upper = intervals
    tops = possible_tops(row)
    assert tops == possible_tops(row, intervals=intervals)
    assert int(row.weights.argmax()) in tops
    # Seen there, so possible; and never passed by what is always heavier.
    assert set(intervals.seen_on_top.nonzero()[:, 0].tolist()) <= set(tops)
    assert (upper[tops] >= lower.max() - 1e-9).all()
    # More than half, and only what is tied can be there too.
    if float(lower.max()) > 0.5 + 1e-9:
        assert tops == [int(lower.argmax())]
    group = tied_tokens(row).group[tops]
    assert top_is_certain(row) == top_is_certain(row, intervals=intervals) == bool((group == group[0]).all())


def test_scale_of_the_values_changes_nothing():
    row = random_head(7, 3, seed=5)
    for scale in (1e-6, 1e6):
        scaled = AttentionHead(row.weights, row.keys, row.values * scale)
        assert possible_tops(scaled) == possible_tops(row)


def test_weights_equal_in_the_models_precision_are_equal():
    third = torch.tensor([1 / 3 + 1e-8, 1 / 3, 1 / 3 - 1e-8])
    assert possible_tops(AttentionHead(third, torch.ones(3, 5), torch.eye(3))) == [0, 1, 2]
    weights = torch.tensor([0.33, 0.33, 0.34], dtype=torch.bfloat16)
    assert possible_tops(AttentionHead(weights, torch.ones(3, 5), torch.eye(3), dtype=torch.float32)) == [2]


def test_certainty_stops_at_the_first_rival(monkeypatch):
    asked = []
    honest = module.minima

    def counted(polytope, costs):
        asked.append(len(costs))
        return honest(polytope, costs)

    monkeypatch.setattr(module, "minima", counted)
    monkeypatch.setattr(module, "_AT_ONCE", 3)
    row = random_head(11, 3, seed=0, sharpness=0.5)
    assert not top_is_certain(row)
    # The least of the heaviest, and the most of the three that come next.
    assert asked == [1, 3]
    asked.clear()
    assert len(possible_tops(row)) == 11
    assert sum(asked) > 4


def test_what_is_clear_needs_no_program_of_its_own(monkeypatch):
    # Token 0 always has more than a half: no other comes near. b = (0.7 + t, 0.2 - 2t, 0.1 + t).
    row = head([0.7, 0.2, 0.1], [[0.0], [1.0], [2.0]])
    intervals = weight_intervals(row)
    asked = []
    honest = module.minima

    def counted(polytope, costs):
        asked.append(len(costs))
        return honest(polytope, costs)

    def refuse(*_):
        raise AssertionError("a program was solved")

    monkeypatch.setattr(module, "minima", counted)
    monkeypatch.setattr(RowProgram, "minimise", refuse)
    assert possible_tops(row) == [0]
    # The least of the heaviest.
    assert asked == [1]
    assert possible_tops(row, intervals=intervals) == [0]
    assert asked == [1]


def test_one_row_and_a_sensible_tolerance(capfd):
    row = random_head(5, 3, seed=0)
    batch = AttentionHead.stack([random_head(5, 3, seed=1), row])
    for function in (possible_tops, top_is_certain):
        with pytest.raises(InputError, match=r"batch shape \(2,\): give an index for each dimension"):
            function(batch)
        with pytest.raises(InputError, match="tolerance must be a finite number"):
            function(row, tolerance=-0.1)
        assert function(batch, 1) == function(batch, (1,)) == function(row)
    assert capfd.readouterr().out == ""


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"groups": torch.full((3,), -1)}, "groups are all -1"),
        ({"groups": torch.tensor([0, 0, 10**6])}, "groups have numbers up to 1000000 for 3 tokens"),
        ({"row": True}, "row is True"),
    ],
)
def test_wrong_groups_and_rows_are_one_line(options, message):
    head = AttentionHead(torch.tensor([0.5, 0.25, 0.25]), torch.ones(3, 1), torch.ones(3, 1))
    with pytest.raises(InputError, match=message):
        possible_tops(head, **options)


def test_intervals_of_another_row_are_refused():
    small = AttentionHead(torch.tensor([0.5, 0.5]), torch.ones(2, 1), torch.ones(2, 1))
    head = AttentionHead(torch.tensor([0.5, 0.25, 0.25]), torch.ones(3, 1), torch.ones(3, 1))
    with pytest.raises(InputError, match="intervals have shape"):
        possible_tops(head, intervals=weight_intervals(small))
