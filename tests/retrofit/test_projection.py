"""The projection of carried keys: by hand, and what it promises of its directions."""

from __future__ import annotations

import pytest
import torch

from identiformer.retrofitting.projection import carrying_projection, directions_beside, whitening


def chance(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_whitening_by_hand():
    covariance = torch.tensor([[4.0, 0.0], [0.0, 0.25]], dtype=torch.float64)
    expected = torch.tensor([[0.5, 0.0], [0.0, 2.0]], dtype=torch.float64)
    torch.testing.assert_close(whitening(covariance), expected)


def test_a_direction_that_hardly_varies_is_not_magnified_without_bound():
    """A hundredth of the greatest variance, 0.04, stands in for 1e-9: 1 / sqrt(0.04) = 5."""
    covariance = torch.diag(torch.tensor([4.0, 1e-9], dtype=torch.float64))
    expected = torch.diag(torch.tensor([0.5, 5.0], dtype=torch.float64))
    torch.testing.assert_close(whitening(covariance), expected)


def test_keys_that_do_not_vary_are_left_as_they_are():
    covariance = torch.zeros(2, 3, 3, dtype=torch.float64)
    torch.testing.assert_close(whitening(covariance), torch.eye(3, dtype=torch.float64).expand(2, 3, 3))


@pytest.mark.parametrize(("heads", "values", "keys", "width"), [(3, 5, 5, 15), (2, 3, 4, 7), (5, 2, 3, 11)])
def test_directions_are_orthonormal_and_beside_the_heads_own(heads: int, values: int, keys: int, width: int):
    own = torch.randn(heads, values, width, generator=chance(1), dtype=torch.float64)
    rows = directions_beside(own, keys, chance())
    assert rows.shape == (heads, keys, width)
    torch.testing.assert_close(rows @ rows.mT, torch.eye(keys, dtype=torch.float64).expand(heads, keys, keys))
    assert float((rows @ own.mT).abs().max()) < 1e-12


def test_what_heads_add_has_no_direction_in_common():
    """Twelve heads of 4 in 48 columns: near orthogonal; independent directions would overlap by 4 / 48 on average."""
    own = torch.randn(12, 4, 48, generator=chance(1), dtype=torch.float64)
    rows = directions_beside(own, 4, chance())
    overlaps = torch.stack(
        [(rows[i] @ rows[j].mT).square().sum() / 4 for i in range(12) for j in range(12) if i != j]
    )
    assert float(overlaps.mean()) < 0.3 * 4 / 48


def test_size_by_hand():
    """An output that varies by 6 (values by 3, times 2), and keys by 2: for a share of 1, E is 3 long."""
    own = torch.tensor([[[2.0, 0.0, 0.0]]], dtype=torch.float64)
    covariance = torch.diag(torch.tensor([9.0, 4.0], dtype=torch.float64))[None]
    added = carrying_projection(own, covariance, 0.1, chance())
    assert added.shape == (1, 1, 3)
    assert float(added.norm()) == pytest.approx(0.3)
    assert float(added[0, 0, 0]) == pytest.approx(0.0, abs=1e-15)


def test_every_direction_of_the_keys_takes_the_same_part():
    """Keys that vary by 1 and by 3 with two of d_k: their parts of the output's variance are equal, (s 5)² / 2."""
    own = torch.zeros(1, 1, 5, dtype=torch.float64)
    own[0, 0, 0] = 1.0
    covariance = torch.diag(torch.tensor([25.0, 1.0, 9.0], dtype=torch.float64))[None]
    added = carrying_projection(own, covariance, 0.2, chance())[0]
    parts = torch.tensor([1.0, 9.0], dtype=torch.float64) * added.square().sum(dim=1)
    torch.testing.assert_close(parts, torch.full((2,), 0.5, dtype=torch.float64))


def test_a_head_that_gives_nothing_still_carries_its_keys():
    """It takes a thousandth of the mean size of the heads beside it: (0 + 2) / 2 / 1000."""
    own = torch.zeros(2, 1, 7, dtype=torch.float64)
    own[1, 0, 0] = 1.0
    covariance = torch.diag(torch.tensor([4.0, 1.0], dtype=torch.float64)).expand(2, 2, 2)
    added = carrying_projection(own, covariance, 1.0, chance())
    assert float(added[0].norm()) == pytest.approx(0.001)
    assert float(added[1].norm()) == pytest.approx(2.0)


def test_a_layer_that_gives_nothing_and_has_one_key_gets_a_projection():
    added = carrying_projection(
        torch.zeros(2, 3, 7, dtype=torch.float64), torch.zeros(2, 7, 7, dtype=torch.float64), 0.5, chance()
    )
    torch.testing.assert_close(added @ added.mT, 0.25 * torch.eye(4, dtype=torch.float64).expand(2, 4, 4))


def test_the_same_seed_gives_the_same_directions_and_another_one_others():
    own = torch.randn(3, 2, 11, generator=chance(1), dtype=torch.float64)
    one, same, other = (directions_beside(own, 3, chance(seed)) for seed in (5, 5, 6))
    assert torch.equal(one, same)
    assert float((one - other).abs().max()) > 0.1
