"""What Gram matrices prove, by hand, and where they must not decide."""

import pytest
import torch

from identiformer.identifiability.gram import UNIT, bounded, count, exceeds, gram, row_factor
from spectra import draw, with_singular_value


def test_gram_matrices_and_their_room():
    matrix = torch.tensor([[3.0, 0.0], [4.0, 5.0], [0.0, 12.0]], dtype=torch.float64)
    for of, expected in (
        (gram(matrix), [[25.0, 20.0], [20.0, 169.0]]),
        (gram(matrix.mT), [[25.0, 20.0], [20.0, 169.0]]),
    ):
        assert of.matrix.tolist() == expected
        assert float(of.mass) == 194
        # Three products a sum, size 2.
        assert float(of.room) == pytest.approx((3 + 2 + 8) * UNIT * 194)
    huge = bounded(torch.diag(torch.tensor([1e200, 1.0], dtype=torch.float64)), terms=3)
    assert torch.isinf(huge.room)
    assert huge.matrix.isfinite().all()
    assert not bool(exceeds(huge, torch.zeros((), dtype=torch.float64)))


def test_a_cholesky_factorisation_proves_a_bound():
    of = gram(with_singular_value(0.25, 11, 5))
    for threshold, expected in (
        (0.0, True),
        (0.06, True),
        (0.0625 - 1e-12, True),
        (0.0625, False),
        (0.07, False),
    ):
        assert bool(exceeds(of, torch.tensor(threshold, dtype=torch.float64))) == expected
    assert not bool(exceeds(of, torch.tensor(torch.inf, dtype=torch.float64)))


def test_counting_leaves_open_what_may_lie_on_either_side():
    def counted(squares, dimension, cutoff, **errors):
        errors = {"room": 0.0, **errors}
        one = count(
            torch.tensor(squares, dtype=torch.float64),
            torch.tensor(dimension),
            *(torch.tensor(number, dtype=torch.float64) for number in (10.0, cutoff, errors.pop("room"))),
            **errors,
        )
        return int(one.rank), float(one.least), bool(one.known)

    # Singular values 2, 3, 10.
    assert counted([4.0, 9.0, 100.0], 3, 1.0) == (3, 2.0, True)
    assert counted([4.0, 9.0, 100.0], 3, 2.5) == (2, 2.0, True)
    assert counted([4.0, 9.0, 100.0], 3, 2.0) == (2, 2.0, False)
    # The least one is zero by construction.
    assert counted([4.0, 9.0, 100.0], 2, 2.0) == (2, 3.0, True)
    # More directions than singular values.
    assert counted([4.0, 9.0, 100.0], 5, 1.0)[::2] == (3, True)
    # Each kind of error, about the cutoff of 1.9: 2 squared is 0.39 away, 2 itself 0.1, which is 5 in 100.
    for kind, small, large in (
        ("room", 0.3, 0.5),
        ("shift", 0.09, 0.11),
        ("stretch", 0.04, 0.06),
        ("blur", 0.09, 0.11),
    ):
        for size, expected in ((small, True), (large, False)):
            # Two more directions than singular values: no margin is asked for.
            assert counted([4.0, 9.0, 100.0], 5, 1.9, **{kind: size})[2] == expected
            assert counted([3.24, 9.0, 100.0], 5, 1.9, **{kind: size})[2] == expected
    # The margin: a thirtieth of the bound is at most 4e-7 of itself, or 4e-9 of the greatest.
    assert counted([4.0, 9.0, 100.0], 3, 1.0, shift=2.3e-5)[2]
    assert not counted([4.0, 9.0, 100.0], 3, 1.0, shift=2.5e-5)[2]
    assert counted([1e-6, 9.0, 100.0], 3, 1e-4, shift=1.1e-6)[2]
    assert not counted([1e-6, 9.0, 100.0], 3, 1e-4, shift=1.3e-6)[2]


@pytest.mark.parametrize("least", [0.3, 1e-2, 1e-5, 1e-9, 0.0])
def test_a_factor_of_the_projection_stands_in_for_it(least):
    matrix = with_singular_value(least, 23, 5).mT
    factor = row_factor(matrix)
    torch.testing.assert_close(factor @ factor.mT, matrix @ matrix.mT, rtol=0, atol=1e-15)
    # Small singular values of any product with it keep their digits, which D D' alone would not give.
    found, expected = torch.linalg.svdvals(factor), torch.linalg.svdvals(matrix)
    torch.testing.assert_close(found, expected, rtol=1e-8, atol=1e-15)
    other = draw(11, 5)
    torch.testing.assert_close(
        torch.linalg.svdvals(other @ factor), torch.linalg.svdvals(other @ matrix)[:5], rtol=1e-8, atol=1e-14
    )
