import json
import math
from itertools import permutations
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from identiformer.errors import InputError
from identiformer.identifiability import (
    AlternativeGoal,
    AlternativeStatus,
    AttentionHead,
    Level,
    Verdict,
    alternative,
    certify,
    weight_intervals,
)
from identiformer.identifiability.group_alternatives import group_alternatives

FOUND, UNIQUE, NOT_FOUND = AlternativeStatus
LEVELS = (Level.SIMPLEX, Level.GENERATABLE)
# Keys of three tokens with which every positive row is a softmax; the same values as ever, 0, 1 and 2.
ANY_ROW = [[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]]
LINE = [[0.0], [1.0], [2.0]]
# Four tokens: softmax(K q) is the product of (1 - p, p) and (1 - r, r).
PRODUCT = [[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]


def tensor(numbers):
    return torch.tensor(numbers, dtype=torch.float64)


def head(weights, transformed, keys=ANY_ROW, **more):
    return AttentionHead(tensor(weights), tensor(keys), tensor(transformed), **more)


def draw(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def random_head(n, d_k, d_v, seed=0, sharpness=1.0, dtype=torch.float64):
    def some(*shape, place):
        return draw(*shape, seed=3 * seed + place).to(dtype)

    query = (sharpness * draw(d_k, seed=3 * seed)).to(dtype)
    return AttentionHead.from_query(query, some(n, d_k, place=1), some(n, d_v, place=2), scaling=d_k**-0.5)


def check(found, row, level):
    """What is true of every alternative, from the definitions."""
    check_row(found, row, level)
    if found.goal == AlternativeGoal.FARTHEST:
        assert found.token is found.gain is None
    else:
        assert found.gain == pytest.approx(float((found.weights - row.weights)[found.token]), abs=1e-12)


def check_row(found, row, level):
    """What is true of those of groups too."""
    assert found.status == FOUND, found.reason
    moved = found.weights - row.weights
    allowed = 1e-6 * float(row.output.norm() or torch.linalg.matrix_norm(row.transformed, ord=2))
    change = float((moved @ row.transformed).norm())
    assert change <= allowed
    assert found.residual == pytest.approx(change * 1e-6 / allowed if allowed else 0.0, abs=1e-12)
    assert found.residual < 1e-6
    assert float(found.weights.min()) >= 0
    assert (found.weights[~row.mask] == 0).all()
    assert found.distance == pytest.approx(float(moved.abs().sum()) / 2, abs=1e-12)
    if found.goal == AlternativeGoal.FARTHEST:
        assert found.distance > 0
    else:
        assert found.gain > 0 if found.goal == AlternativeGoal.FAVOUR else found.gain < 0
    assert not found.extreme or (level == Level.SIMPLEX and found.goal != AlternativeGoal.FARTHEST)
    if level == Level.SIMPLEX:
        assert found.query is None
        assert float(found.weights.sum()) == pytest.approx(float(row.weights.sum()), abs=1e-12)
    else:
        again = AttentionHead.from_query(
            found.query, row.keys, row.values, row.output_projection, row.visible, row.scaling, row.bias
        )
        assert torch.equal(found.weights, again.weights)


def ask(row, level: Level | str = Level.SIMPLEX, at: Any = None, **goal: Any) -> Any:
    return alternative(row, at, level, **goal)


def close(found, expected, atol=1e-9):
    torch.testing.assert_close(found, tensor(expected), atol=atol, rtol=0)


@pytest.mark.parametrize(
    ("goal", "expected"),
    [
        ({"favour": 0}, [0.5, 0.0, 0.5]),
        ({"avoid": 1}, [0.5, 0.0, 0.5]),
        ({"favour": 1}, [0.0, 1.0, 0.0]),
        ({"avoid": 0}, [0.0, 1.0, 0.0]),
        ({"farthest": True}, [0.5, 0.0, 0.5]),
    ],
)
def test_simplex_by_hand(goal, expected):
    # b1 + 2 b2 = 1 and b0 + b1 + b2 = 1: b = (t, 1 - 2t, t) with t in [0, 1/2].
    row = head([0.1, 0.8, 0.1], LINE)
    found = ask(row, Level.SIMPLEX, **goal)
    check(found, row, Level.SIMPLEX)
    close(found.weights, expected)
    assert found.distance == pytest.approx(0.8 if expected[0] else 0.2)
    assert found.residual < 1e-12


@pytest.mark.parametrize(
    ("goal", "expected"),
    [
        ({"favour": 0}, [0.5, 0.0, 0.5]),
        ({"favour": 2}, [0.5, 0.0, 0.5]),
        ({"favour": 1}, [0.0, 1.0, 0.0]),
        ({"avoid": 2}, [0.0, 1.0, 0.0]),
        ({"farthest": True}, [0.5, 0.0, 0.5]),
    ],
)
@pytest.mark.parametrize("start", [0.1, 1e-30])
def test_generatable_by_hand(goal, expected, start):
    # The same curve, whose ends no query reaches. From 1e-30 it is 70 logits to where anything can be measured.
    row = head([start, 1 - 2 * start, start], LINE)
    if start < 1e-9 and expected[1] == 1.0:
        # A weight of 1 cannot become more, nor one of 1e-30 less.
        assert ask(row, "generatable", **goal).status == UNIQUE
        return
    found = ask(row, "generatable", **goal)
    check(found, row, Level.GENERATABLE)
    # A query moves the greatest of these weights by its square root only: the last step is a short one.
    close(found.weights, expected, atol=1e-3)
    # Logits 0, q0 and q1 are those of (t, 1 - 2t, t).
    first, second, third = found.weights.tolist()
    assert first == pytest.approx(third, rel=1e-6)
    close(found.query, [math.log(second / first), 0.0], atol=1e-6)


@pytest.mark.parametrize("level", LEVELS)
def test_a_group_by_hand(level):
    # T = (0, 1, 1, 2), so b1 + b2 + 2 b3 = 0.8. Tokens 0 and 1 are one word: b0 + b1 = 1 - (b2 + b3) is least where all
    # output comes from token 2, and greatest where it comes from token 1. Of the products, p + r = 0.8 and
    # b0 + b1 = 1 - r, with r between 0 and 0.8: the same ends.
    p, r = 0.2, 0.6
    weights = [(1 - p) * (1 - r), p * (1 - r), (1 - p) * r, p * r]
    row = head(weights, [[0.0], [1.0], [1.0], [2.0]], PRODUCT)
    groups = torch.tensor([1, 1, 0, -1])
    for goal, expected in (({"favour": 1}, [0.2, 0.8, 0.0, 0.0]), ({"avoid": 1}, [0.2, 0.0, 0.8, 0.0])):
        found = ask(row, level, groups=groups, **goal)
        check_row(found, row, level)
        assert found.token == 1
        # Both logits of the query go to where it can move no more.
        close(found.weights, expected, atol=1e-9 if level == Level.SIMPLEX else 1e-4)
        after = float(found.weights[:2].sum())
        assert found.gain == pytest.approx(after - 0.4, abs=1e-12)
        assert f"group 1 has weight {after:.4g}" in found.reason
        assert found.extreme == (level == Level.SIMPLEX)
    # What is most for token 0, (0.6, 0, 0, 0.4) or a query's (0.36, 0.24, 0.24, 0.16), is not most for the two.
    assert float(ask(row, level, favour=0).weights[:2].sum()) == pytest.approx(0.6, abs=1e-4)


@pytest.mark.parametrize("level", LEVELS)
def test_groups_of_one_token_are_tokens(level):
    row = random_head(11, 7, 3)
    # Counted backwards, with a number that no token has.
    groups = 12 - torch.arange(11)
    for token in (2, 5):
        for goal in ("favour", "avoid"):
            found, expected = (
                ask(row, level, groups=groups, **{goal: 12 - token}),
                ask(row, level, None, **{goal: token}),
            )
            assert torch.equal(found.weights, expected.weights)
            assert found.gain == expected.gain


def test_a_group_ends_where_its_interval_ends():
    row = random_head(11, 7, 3)
    groups = torch.tensor([0, 0, 1, 2, 2, 2, 3, 3, -1, 4, 0])
    lower, upper = weight_intervals(row, groups=groups)
    for group in range(5):
        own = float(row.weights[groups == group].sum())
        for goal, bound in (("favour", upper), ("avoid", lower)):
            found = ask(row, "simplex", groups=groups, **{goal: group})
            check_row(found, row, Level.SIMPLEX)
            assert float(found.weights[groups == group].sum()) == pytest.approx(float(bound[group]), abs=1e-8)
            assert found.extreme
            # A query can do no more than the simplex allows.
            among = ask(row, Level.GENERATABLE, groups=groups, **{goal: group})
            check_row(among, row, Level.GENERATABLE)
            assert abs(among.gain) <= abs(float(bound[group]) - own) + 1e-8


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_groups_one_after_the_other_are_as_each_by_itself(dtype):
    row = random_head(11, 7, 3, dtype=dtype)
    groups = torch.tensor([0, 0, 1, 2, 2, 2, 3, 3, -1, 4, 0])
    both = group_alternatives(row, groups, [3, 0, 4])
    for group, (favoured, avoided) in zip([3, 0, 4], both, strict=True):
        for found, goal in ((favoured, "favour"), (avoided, "avoid")):
            expected = ask(row, "simplex", groups=groups, **{goal: group})
            check_row(found, row, Level.SIMPLEX)
            assert (found.goal, found.token, found.extreme) == (goal, group, expected.extreme)
            assert found.gain == pytest.approx(expected.gain, abs=1e-8)
    # T = (0, 1, 1, 2) by hand, as above: of b0 + b1 and of b3.
    row = head([0.32, 0.08, 0.48, 0.12], [[0.0], [1.0], [1.0], [2.0]], PRODUCT)
    (word, last) = group_alternatives(row, torch.tensor([1, 1, 0, 2]), [1, 2])
    for found, expected in zip((*word, *last), (0.6, -0.2, 0.28, -0.12), strict=True):
        assert found.gain == pytest.approx(expected, abs=1e-9)
    assert group_alternatives(row, torch.tensor([1, 1, 0, 2]), []) == []
    # A row of a batch, and one with nothing to find.
    rows = AttentionHead(tensor([[0.2, 0.6, 0.2], [0.1, 0.8, 0.1]]), tensor(ANY_ROW), tensor(LINE))
    ((found, _),) = group_alternatives(rows, torch.arange(3), [0], row=1)
    close(found.weights, [0.5, 0.0, 0.5])
    ((none, too),) = group_alternatives(head([0.1, 0.8, 0.1], torch.eye(3).tolist()), torch.arange(3), [2])
    assert none.status == too.status == UNIQUE
    with pytest.raises(InputError, match="no group 7 to favour"):
        group_alternatives(rows, torch.arange(3), [7], row=1)


@pytest.mark.parametrize("level", LEVELS)
def test_all_tokens_in_one_group_leave_nothing_to_gain(level):
    row = head([0.1, 0.8, 0.1], LINE)
    none = ask(row, level, favour=0, groups=torch.zeros(3, dtype=torch.long))
    assert none.status == UNIQUE
    assert "give group 0 more than 1" in none.reason
    # b0 + b1 = 1 - t is least at t = 1/2; hidden tokens of the group have no part in it.
    row = head(
        [0.1, 0.8, 0.1, 0.0], [*LINE, [7.0]], [*ANY_ROW, [9.0, 9.0]], visible=torch.tensor([1, 1, 1, 0]) > 0
    )
    found = ask(row, avoid=0, groups=torch.tensor([0, 0, 1, 0]))
    close(found.weights, [0.5, 0.0, 0.5, 0.0])
    assert found.gain == pytest.approx(-0.4)


def test_the_top_of_a_curve_by_hand():
    # T = (0, 1, 1, 2) gives the output p + r. Of the products with p + r = 0.8, pr is greatest at p = r = 0.4, and
    # p (1 - r) = p (p + 0.2) at p = 0.8, r = 0.
    p, r = 0.2, 0.6
    weights = [(1 - p) * (1 - r), p * (1 - r), (1 - p) * r, p * r]
    row = head(weights, [[0.0], [1.0], [1.0], [2.0]], PRODUCT)
    assert int(certify(row).generatable.nullity) == 1
    found = ask(row, Level.GENERATABLE, favour=3)
    check(found, row, Level.GENERATABLE)
    close(found.weights, [0.36, 0.24, 0.24, 0.16], atol=1e-4)
    close(found.query, [math.log(2 / 3)] * 2, atol=1e-2)
    # The simplex allows more: (0.6, 0, 0, 0.4).
    close(ask(row, favour=3).weights, [0.6, 0.0, 0.0, 0.4])
    # Least at either end, of which the search looks for both.
    found = ask(row, Level.GENERATABLE, avoid=3)
    check(found, row, Level.GENERATABLE)
    assert float(found.weights[3]) < 1e-9
    found = ask(row, Level.GENERATABLE, favour=1)
    close(found.weights, [0.2, 0.8, 0.0, 0.0], atol=1e-6)
    # From (0.32, 0.08, 0.48, 0.12), (0.2, 0.8, 0, 0) is 0.72 away, and the other end, (0.2, 0, 0.8, 0), 0.32.
    found = ask(row, Level.GENERATABLE, farthest=True)
    check(found, row, Level.GENERATABLE)
    assert found.distance == pytest.approx(0.72, abs=1e-6)


def test_a_channel_of_the_keys_that_no_output_sees():
    # softmax(K q) is the product of (1 - p, p) and softmax(0, q1, 2 q1). The output tells all of the second, though
    # it has two dimensions as the query has, and nothing of the first.
    keys = [[x, y] for x in (0.0, 1.0) for y in (0.0, 1.0, 2.0)]
    row = AttentionHead.from_query(tensor([1.0, -0.5]), tensor(keys), tensor([[0, 0], [1, 0], [0, 1.0]] * 2))
    assert int(certify(row).generatable.nullity) == 1
    second = torch.softmax(tensor([0.0, -0.5, -1.0]), dim=-1)
    found = ask(row, "generatable", favour=4)
    check(found, row, Level.GENERATABLE)
    close(found.weights, [0.0, 0.0, 0.0, *second.tolist()])
    found = ask(row, "generatable", farthest=True)
    # From (1 - p, p) to (1, 0), which is farther than (0, 1) where p is more than a half.
    assert found.distance == pytest.approx(1 / (1 + math.exp(-1)), abs=1e-8)
    assert float(found.query[1]) == pytest.approx(-0.5)


def test_a_part_of_the_curve_that_is_apart():
    # Uphill from the row itself, the curve ends at 0.043 less. A part that it does not lead to has all that the
    # simplex allows.
    row = random_head(11, 7, 3, sharpness=3.0)
    token = int(row.weights.argmax())
    found = ask(row, "generatable", avoid=token)
    check(found, row, Level.GENERATABLE)
    assert found.gain == pytest.approx(ask(row, avoid=token).gain, rel=1e-3)


def test_bias_scaling_and_a_row_of_a_batch():
    # The logits K q s + bias are those of (t, 1 - 2t, t): q0 = 2 (log(1/t - 2) - 1) and q1 = 2 (0 - 3).
    bias = tensor([0.0, 1.0, 3.0])
    weights = tensor([[0.2, 0.6, 0.2], [0.1, 0.8, 0.1]])
    rows = AttentionHead(weights, tensor(ANY_ROW), tensor(LINE), bias=bias, scaling=tensor([0.7, 0.5]))
    found = ask(rows, Level.GENERATABLE, 1, favour=0)
    check(found, rows[1], Level.GENERATABLE)
    t = float(found.weights[0])
    assert t > 0.499
    close(found.query, [2 * (math.log(1 / t - 2) - 1), -6.0], atol=1e-4)
    assert torch.equal(ask(rows, "generatable", (-1,), favour=0).weights, found.weights)
    with pytest.raises(InputError, match=r"batch shape \(2,\)"):
        ask(rows, favour=0)


@pytest.mark.parametrize("level", LEVELS)
def test_what_is_not_visible_stays_without_weight(level):
    visible = torch.tensor([False, True, True, False, True])
    keys = [[9.0, 9.0], *ANY_ROW[:2], [0.0, 0.0], ANY_ROW[2]]
    row = head([0.0, 0.1, 0.8, 0.0, 0.1], [[7.0], *LINE[:2], [-7.0], LINE[2]], keys, visible=visible)
    found = ask(row, level, favour=4)
    check(found, row, level)
    close(found.weights, [0.0, 0.5, 0.0, 0.0, 0.5], atol=1e-3)
    with pytest.raises(InputError, match="the row does not see it"):
        ask(row, level, avoid=3)


def test_tied_tokens_move_on_the_simplex_only():
    # Tokens 1 and 2 are one word.
    row = AttentionHead.from_query(
        tensor([0.5, 0.3]), tensor([[0, 0], [1, 0], [1, 0], [0, 1.0]]), torch.eye(4)[[0, 1, 1, 3]].double()
    )
    found = ask(row, favour=1)
    check(found, row, Level.SIMPLEX)
    assert float(found.weights[1]) == pytest.approx(2 * float(row.weights[1]))
    assert float(found.weights[2]) == pytest.approx(0, abs=1e-12)
    assert ask(row, "generatable", favour=1).status == UNIQUE
    # Where the values leave more room, the two still go together.
    row = AttentionHead(row.weights, row.keys, tensor([[0.0], [1.0], [1.0], [2.0]]))
    for goal in ({"favour": 1}, {"avoid": 1}, {"farthest": True}):
        found = ask(row, "generatable", **goal)
        check(found, row, Level.GENERATABLE)
        assert float(found.weights[1]) == pytest.approx(float(found.weights[2]), rel=1e-12)


@pytest.mark.parametrize("level", LEVELS)
def test_values_of_zero_leave_everything_open(level):
    row = head([0.1, 0.8, 0.1], [[0.0], [0.0], [0.0]])
    for goal, token, weight in ((AlternativeGoal.FAVOUR, 2, 1.0), (AlternativeGoal.AVOID, 1, 0.0)):
        found = ask(row, level, **{goal: token})
        check(found, row, level)
        assert float(found.weights[token]) == pytest.approx(weight, abs=1e-9)
        assert found.residual == 0
    found = ask(row, level, farthest=True)
    check(found, row, level)
    assert found.distance == pytest.approx(0.9, abs=1e-6)


def test_an_output_of_zero_is_measured_by_the_values():
    # T = (-1, 0, 1) and aT = 0: the residual is relative to sigma_max(T), the square root of 2.
    row = head([0.1, 0.8, 0.1], [[-1.0], [0.0], [1.0]])
    for level in LEVELS:
        check(ask(row, level, favour=0), row, level)


def test_unique_where_the_certificate_says_so():
    # On the simplex: T and ones have full rank. By carried keys: the values are the keys.
    identifiable = head([0.1, 0.8, 0.1], torch.eye(3).tolist())
    carried = AttentionHead.from_query(draw(2), draw(7, 2, seed=1), draw(7, 2, seed=1))
    alone = head([1.0], [[3.0]], [[2.0]])
    equal_keys = head([1 / 3] * 3, LINE, [[1.0], [1.0], [1.0]])
    for goal in ({"favour": 0}, {"avoid": 0}, {"farthest": True}):
        for row in (identifiable, alone):
            for level in LEVELS:
                none = ask(row, level, **goal)
                assert none.status == UNIQUE
                assert none.weights is none.query is none.residual is none.distance is none.gain is None
                assert "the output fixes the weights" in none.reason
        for row in (carried, equal_keys):
            assert int(certify(row).generatable.verdict) == Verdict.GLOBAL
            assert ask(row, Level.SIMPLEX, **goal).status == FOUND
            assert ask(row, "generatable", **goal).status == UNIQUE


def test_unique_where_the_interval_ends_at_the_weight():
    # A row with zeros at a corner of the simplex, whose nullity is not 0.
    row = head([1.0, 0.0, 0.0], LINE)
    assert int(certify(row).simplex.nullity) == 1
    for goal in ({"favour": 1}, {"avoid": 0}, {"farthest": True}):
        assert ask(row, Level.SIMPLEX, **goal).status == UNIQUE
    # Token 0 is alone in its direction, tokens 1 and 2 are one word: only the two can move.
    row = head([0.4, 0.3, 0.3], [[1.0], [0.0], [0.0]])
    none = ask(row, favour=0)
    assert none.status == UNIQUE
    assert "no weights with the same output give token 0 more than 0.4" in none.reason
    assert ask(row, "generatable", avoid=0).status == UNIQUE
    assert ask(row, avoid=1).status == FOUND


def test_not_found_where_the_verdict_is_local():
    row = random_head(11, 3, 5)
    assert int(certify(row).generatable.verdict) == Verdict.LOCAL
    none = ask(row, "generatable", favour=2)
    assert none.status == NOT_FOUND
    assert "nearby" in none.reason
    assert ask(row, favour=2).status == FOUND


def test_not_found_where_no_query_generates_the_row():
    # log a would have to be linear in the key, and 0, 1, 2 are equally far apart.
    row = head([0.1, 0.8, 0.1], LINE, LINE)
    none = ask(row, "generatable", favour=1)
    assert none.status == NOT_FOUND
    assert "no query generates the weights" in none.reason
    # A token that the mask hides, with a key in the middle, and nobody said so.
    row = head([0.5, 0.0, 0.5], [[1.0], [1.0], [1.0]], LINE)
    assert ask(row, "generatable", avoid=0).reason.endswith(
        "token 1 has weight 0, and 0.3333 with the query that comes closest; if it is masked, say so in visible"
    )


def test_not_found_where_the_search_comes_back_with_too_little():
    # b = (1 - 3e-8 + t, 3e-8 - 2t, t): nothing moves by more than 3e-8, which is less than a query's 1e-6.
    row = head([1 - 2e-8, 1e-8, 1e-8], LINE)
    assert int(certify(row).generatable.nullity) == 1
    assert ask(row, favour=0).gain == pytest.approx(5e-9, rel=1e-6)
    none = ask(row, "generatable", farthest=True)
    assert none.status == NOT_FOUND
    assert "that were followed, none moves the weights by more than 1e-06" in none.reason


def test_not_found_where_only_the_precision_of_the_model_leaves_room():
    # (1, -2, 1) moves the second column by 2y, and its singular value is y sqrt(2/3). Up to 8e-7 that is nothing in
    # float32, but in steps of 0.4 it shows in the sixth digit of the output unless y is small.
    def row(y, dtype=torch.float32):
        return head([0.1, 0.8, 0.1], [[0.0, 0.0], [1.0, y], [2.0, 0.0]], dtype=dtype)

    assert int(certify(row(9e-7)).simplex.nullity) == 1
    none = ask(row(9e-7), favour=0)
    assert none.status == NOT_FOUND
    assert "float32" in none.reason
    found = ask(row(4e-7), favour=0)
    check(found, row(4e-7), Level.SIMPLEX)
    assert found.residual == pytest.approx(0.8 * 4e-7, rel=1e-3)
    assert ask(row(4e-7, torch.float64), favour=0).status == UNIQUE


def test_in_low_precision_the_extreme_of_what_reproduces_the_output():
    # As above, and tokens 3 and 4 are like tokens 0 and 1. Only they trade places; the second column stays.
    weights, y = tensor([0.1, 0.4, 0.1, 0.2, 0.2]), 9e-7
    values = tensor([[0.0, 0.0], [1.0, y], [2.0, 0.0], [0.0, 0.0], [1.0, y]])
    row, exact = (
        AttentionHead(weights, values, values, dtype=dtype) for dtype in (torch.float32, torch.float64)
    )
    for goal, expected in (({"favour": 0}, [0.3, 0.1, 0.0]), ({"avoid": 0}, [0.0, 0.1, 0.3])):
        found = ask(row, Level.SIMPLEX, **goal)
        check(found, row, Level.SIMPLEX)
        close(found.weights[[0, 2, 3]], expected)
        # The certificate of float32 leaves out the second column, and its intervals go further.
        assert not found.extreme
        assert ask(exact, Level.SIMPLEX, **goal).extreme
        close(ask(exact, Level.SIMPLEX, **goal).weights[[0, 2, 3]], expected)


@pytest.mark.parametrize("scale", [1e-6, 1e6])
def test_the_scale_of_the_values_changes_nothing(scale):
    row = random_head(11, 7, 3)
    scaled = AttentionHead(row.weights, row.keys, row.values * scale, scaling=row.scaling)
    for level in LEVELS:
        for goal in ({"favour": 5}, {"avoid": 5}):
            expected = ask(row, level, **goal)
            found = ask(scaled, level, **goal)
            check(found, scaled, level)
            assert found.gain == pytest.approx(expected.gain, rel=1e-3)


def test_what_all_tokens_have_in_common_costs_no_accuracy():
    row = random_head(11, 7, 3)
    shifted = AttentionHead(row.weights, row.keys + 1e4, row.values + 1e4, scaling=row.scaling)
    for level in LEVELS:
        found = ask(shifted, level, favour=5)
        check(found, shifted, level)
        # In the output without the common part as well, of which the residual would not tell.
        assert float(((found.weights - row.weights) @ row.values).norm()) < 1e-7
        assert found.gain == pytest.approx(ask(row, level, favour=5).gain, rel=1e-3)


@pytest.mark.parametrize("sharpness", [0.0, 3.0, 30.0])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_models_in_low_precision(dtype, sharpness):
    row = random_head(11, 7, 3, seed=2, sharpness=sharpness, dtype=dtype)
    token = int(row.weights.argmax())
    for level in LEVELS:
        found = ask(row, level, avoid=token)
        check(found, row, level)
        assert found.gain < -0.01


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_weights_that_were_rounded(dtype):
    # What is kept is the output of the rounded weights, although no softmax has them.
    exact = random_head(11, 7, 3, seed=3)
    row = AttentionHead(exact.weights.to(dtype), exact.keys, exact.values, scaling=exact.scaling)
    assert float(row.weights.sum()) != 1
    for level in LEVELS:
        found = ask(row, level, favour=int(row.weights.argmin()))
        check(found, row, level)
        assert found.gain > 0.01


def test_exact_zeros_come_back_to_life():
    # Token 2 has underflowed; tokens 0 and 1 do the same to the output, and it does something else.
    row = AttentionHead.from_query(
        tensor([math.log(3), -800.0]), tensor(ANY_ROW), tensor([[1.0], [1.0], [2.0]])
    )
    close(row.weights, [0.25, 0.75, 0.0], atol=1e-12)
    assert float(row.weights[2]) == 0
    found = ask(row, "generatable", favour=0)
    check(found, row, Level.GENERATABLE)
    close(found.weights, [1.0, 0.0, 0.0], atol=1e-9)
    # Between tokens with outputs 0 and 2, the one with 1 can take all.
    row = AttentionHead.from_query(tensor([0.0, -800.0]), tensor(ANY_ROW), tensor([[0.0], [2.0], [1.0]]))
    assert float(row.weights[2]) == 0
    assert int(certify(row).generatable.nullity) == 0
    assert ask(row, favour=2).gain == pytest.approx(1.0)


def test_no_effect_of_queries_no_other_row():
    row = AttentionHead.from_query(tensor([1.0, 2.0]), tensor(ANY_ROW), tensor(LINE), scaling=0.0)
    none = ask(row, "generatable", favour=0)
    assert none.status == UNIQUE
    assert ask(row, favour=0).status == FOUND


def test_the_seed_decides():
    row = random_head(11, 5, 3, seed=7, sharpness=3.0)
    one, same, other = (ask(row, "generatable", farthest=True, seed=seed) for seed in (0, 0, 1))
    assert torch.equal(one.weights, same.weights)
    assert not torch.equal(one.weights, other.weights)


def test_the_farthest_of_a_small_simplex_is_found():
    # All vertices by hand: one row for every choice of as many tokens as there are equations.
    for seed in range(5):
        row = random_head(7, 3, 3, seed)
        equations = torch.cat([row.transformed, torch.ones(7, 1, dtype=torch.float64)], dim=-1).T
        right = equations @ row.weights
        greatest = 0.0
        for chosen in {tuple(sorted(order[:4])) for order in permutations(range(7), 4)}:
            vertex = torch.linalg.solve(equations[:, chosen], right)
            if vertex.min() >= -1e-12:
                whole = torch.zeros(7, dtype=torch.float64)
                whole[list(chosen)] = vertex
                greatest = max(greatest, float((whole - row.weights).abs().sum()) / 2)
        assert ask(row, farthest=True).distance == pytest.approx(greatest, abs=1e-8)


@pytest.mark.usefixtures("unhooked")
def test_errors_name_what_is_wrong():
    row = head([0.1, 0.8, 0.1], LINE)
    for goals, given_goals in (({}, "none"), ({"favour": 0, "avoid": 1}, "favour and avoid")):
        with pytest.raises(InputError, match=f"one goal, .* was given {given_goals}"):
            ask(row, Level.SIMPLEX, **goals)
    with pytest.raises(InputError, match="was given avoid and farthest"):
        ask(row, avoid=0, farthest=True)
    for token in (3, -1):
        with pytest.raises(InputError, match=f"no token {token} to favour: the head has 3"):
            ask(row, favour=token)
    for level in (Level.FREE, "everything"):
        with pytest.raises(InputError, match=f"simplex or generatable, not {level}"):
            ask(row, level, favour=0)
    with pytest.raises(InputError, match="leave row out"):
        alternative(row, 0, favour=0)
    groups = torch.tensor([0, 2, 2])
    with pytest.raises(InputError, match="no group 3 to avoid: there are 3, counted from 0"):
        ask(row, avoid=3, groups=groups)
    with pytest.raises(InputError, match="no way to avoid group 1: the row sees none of its tokens"):
        ask(row, avoid=1, groups=groups)
    with pytest.raises(InputError, match="groups are for favour and avoid"):
        ask(row, farthest=True, groups=groups)
    with pytest.raises(InputError, match=r"groups have shape \(2,\) and the row has 3 tokens"):
        ask(row, favour=0, groups=groups[:2])


def golden_heads(shared):
    for case in json.loads((shared / "golden" / "heads.json").read_text())["cases"]:
        projection, visible = case["output_projection"], case["visible"]
        yield (
            case["expected"],
            AttentionHead.from_query(
                tensor(case["query"]),
                tensor(case["keys"]),
                tensor(case["values"]),
                None if projection is None else tensor(projection),
                None if visible is None else torch.tensor(visible),
                float(case["scaling"]),
            ),
        )


def test_golden_heads(shared):
    statuses = {level: [] for level in LEVELS}
    for expected, row in golden_heads(shared):
        for level in LEVELS:
            found = ask(row, level, farthest=True)
            statuses[level].append(found.status)
            if expected[level]["nullity"] > 0:
                check(found, row, level)
            elif level == Level.SIMPLEX or expected[level]["globally_certified"]:
                assert found.status == UNIQUE
            else:
                assert found.status == NOT_FOUND
        # What the intervals leave to a token is what it can be given.
        lower, upper = (tensor(bound) for bound in expected["intervals"])
        token = int((upper - row.weights).argmax())
        if float(upper[token] - row.weights[token]) > 1e-6:
            assert float(ask(row, favour=token).weights[token]) == pytest.approx(
                float(upper[token]), abs=1e-8
            )
        token = int((row.weights - lower).argmax())
        if float(row.weights[token] - lower[token]) > 1e-6:
            assert float(ask(row, avoid=token).weights[token]) == pytest.approx(float(lower[token]), abs=1e-8)
    for level, statuses_of_level in statuses.items():
        assert statuses_of_level.count(FOUND) > 3, level
        assert statuses_of_level.count(UNIQUE) > 10, level


# What must hold for every head.


@st.composite
def heads(draw_from):
    """Heads of small integers, in which ties, dependent columns and equal keys are common."""
    n, d_k, d_v, d_e = (draw_from(st.sampled_from([1, 3, 5, 7, 11])) for _ in range(4))
    generator = torch.Generator().manual_seed(draw_from(st.integers(0, 2**32)))

    def integers(*shape):
        return torch.randint(-2, 3, shape, generator=generator).to(torch.float64)

    visible = torch.rand(n, generator=generator) < 0.8
    visible[0] = True
    return AttentionHead.from_query(
        integers(d_k),
        integers(n, d_k),
        integers(n, d_v),
        integers(d_v, d_e) if draw_from(st.booleans()) else None,
        visible=visible,
        bias=integers(n) if draw_from(st.booleans()) else None,
        scaling=draw_from(st.sampled_from([0.1, 1.0, 5.0])),
        dtype=draw_from(st.sampled_from([torch.float32, torch.float64])),
    )


goals = st.sampled_from(AlternativeGoal)
many = settings(max_examples=40, deadline=None, derandomize=True)


def towards(row, level, goal, token=0):
    return ask(row, level, **{goal: True if goal == AlternativeGoal.FARTHEST else token})


@many
@given(heads(), goals, st.sampled_from(LEVELS))
def test_every_alternative_is_one(row, goal, level):
    found = towards(row, level, goal)
    if found.status == FOUND:
        check(found, row, level)
        lower, upper = weight_intervals(row)
        assert (found.weights >= lower - 1e-7).all()
        assert (found.weights <= upper + 1e-7).all()
        assert int(certify(row)[level].nullity) > 0
    elif found.status == UNIQUE and goal != AlternativeGoal.FARTHEST:
        # No sampled row is a counterexample: not the one that the simplex would give.
        assert (
            int(certify(row)[level].verdict) == Verdict.GLOBAL
            or towards(row, Level.SIMPLEX, goal).status == UNIQUE
        )
    else:
        assert found.weights is None


@many
@given(heads())
def test_favour_and_avoid_reach_the_interval(row):
    lower, upper = weight_intervals(row)
    for goal, end in ((AlternativeGoal.FAVOUR, upper), (AlternativeGoal.AVOID, lower)):
        found = towards(row, Level.SIMPLEX, goal)
        if found.status == FOUND:
            assert float(found.weights[0]) == pytest.approx(float(end[0]), abs=1e-8)
        else:
            assert found.status == UNIQUE
            assert float(row.weights[0]) == pytest.approx(float(end[0]), abs=2e-9)


@many
@given(heads(), st.randoms(use_true_random=False), st.sampled_from(LEVELS))
def test_the_order_of_tokens_changes_nothing(row, random, level):
    order = list(range(row.weights.shape[-1]))
    random.shuffle(order)
    assert row.visible is not None
    shuffled = AttentionHead(
        row.weights[order],
        row.keys[order],
        row.values[order],
        row.output_projection,
        row.visible[order],
        None if row.bias is None else row.bias[order],
        row.scaling,
        dtype=row.dtype,
    )
    for goal in (AlternativeGoal.FAVOUR, AlternativeGoal.AVOID):
        one, other = towards(row, level, goal), towards(shuffled, level, goal, order.index(0))
        if level == Level.SIMPLEX:
            assert one.status == other.status
            assert (one.gain or 0.0) == pytest.approx(other.gain or 0.0, abs=1e-8)
        else:
            # Different ways up may end on different tops, but not where there is none.
            assert (one.status == UNIQUE) == (other.status == UNIQUE)


@many
@given(heads())
def test_a_query_never_does_more_than_the_simplex_allows(row):
    for goal in (AlternativeGoal.FAVOUR, AlternativeGoal.AVOID):
        inner, outer = towards(row, Level.GENERATABLE, goal), towards(row, Level.SIMPLEX, goal)
        if inner.status == FOUND:
            assert outer.status == FOUND
            assert abs(inner.gain) <= abs(outer.gain) + 1e-7
        if outer.status == UNIQUE:
            assert inner.status != FOUND


@pytest.mark.parametrize("goal", [{"favour": 0}, {"avoid": 0}, {"farthest": True}])
def test_where_the_output_is_stationary_its_neighbours_are_no_alternatives(goal: dict[str, Any]) -> None:
    r"""With $K = (0, 1, 2)$ and $T = (0, 1, 0)$, $a T = a_1$ is greatest at the query 0, and only there."""
    head = AttentionHead.from_query(
        query=torch.zeros(1, dtype=torch.float64),
        keys=torch.tensor([[0.0], [1.0], [2.0]], dtype=torch.float64),
        values=torch.tensor([[0.0], [1.0], [0.0]], dtype=torch.float64),
    )
    assert int(certify(head).generatable.nullity) == 1
    assert alternative(head, level=Level.GENERATABLE, **goal).status == AlternativeStatus.NOT_FOUND


@pytest.mark.parametrize(
    ("options", "message"), [({"favour": True}, "favour is True"), ({"favour": 0, "seed": -1}, "seed is -1")]
)
def test_wrong_options_are_one_line(options: dict[str, Any], message: str) -> None:
    head = AttentionHead(torch.tensor([0.5, 0.5]), torch.ones(2, 1), torch.ones(2, 1))
    with pytest.raises(InputError, match=message):
        alternative(head, **options)


def test_the_most_that_is_possible_is_what_intervals_say() -> None:
    """Keys and values of low rank in float32, with singular values on either side of what counts as zero."""
    generator = torch.Generator().manual_seed(23)
    values = torch.randn(6, 2, generator=generator) @ torch.randn(2, 5, generator=generator)
    weights = torch.softmax(torch.randn(6, generator=generator), 0)
    head = AttentionHead(weights, torch.randn(6, 2, generator=generator), values)
    upper = weight_intervals(head).upper
    for token in range(6):
        other = alternative(head, favour=token)
        if other.extreme:
            assert other.weights is not None
            assert float(other.weights[token]) == pytest.approx(float(upper[token]), abs=1e-6)
