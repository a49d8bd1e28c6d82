import pytest
import torch

from identiformer.identifiability import AttentionHead, Level
from identiformer.identifiability.directions import directions


def draw(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def with_weights(weights, keys, dtype=torch.float64):
    weights = torch.tensor(weights, dtype=torch.float64)
    return AttentionHead(
        weights, torch.as_tensor(keys, dtype=torch.float64), torch.ones(len(weights), 7), dtype=dtype
    )


def project(found, vector):
    vector = torch.tensor(vector, dtype=torch.float64)
    return found.basis @ (found.basis.mT @ vector)


def outside(found, vector):
    """How much of a vector lies outside the directions, relative to its length."""
    vector = torch.tensor(vector, dtype=torch.float64)
    return float((vector - found.basis @ (found.basis.mT @ vector)).norm() / vector.norm())


@pytest.mark.parametrize("level", Level)
def test_bases_are_orthonormal_and_masked(level):
    visible = torch.tensor([[True] * 7, [True, False, True, True, False, True, False], [False] * 6 + [True]])
    head = AttentionHead.from_query(draw(3, 3), draw(3, 7, 3), draw(3, 7, 5), visible=visible)
    basis, dimension = directions(head, level)
    expected = {
        Level.FREE: [7, 4, 1],
        Level.SIMPLEX: [6, 3, 0],
        Level.GENERATABLE: [3, 3, 0],
    }[level]
    assert dimension.tolist() == expected
    for row, (columns, count) in enumerate(zip(basis, expected, strict=True)):
        filled = columns[:, (columns != 0).any(dim=0)]
        assert filled.shape[1] == count
        torch.testing.assert_close(filled.mT @ filled, torch.eye(count, dtype=torch.float64))
        assert (columns[~visible[row]] == 0).all()
        if level != Level.FREE:
            assert columns.sum(dim=0).abs().max() < 1e-14


def test_generatable_directions_by_hand():
    # diag(a) (K - 1 a K) with a = (1/2, 1/4, 1/4), K = (0, 4, 8): the mean is 3.
    found = directions(with_weights([0.5, 0.25, 0.25], [[0.0], [4.0], [8.0]]), Level.GENERATABLE)
    assert int(found.dimension) == 1
    assert outside(found, [-1.5, 0.25, 1.25]) < 1e-15


def test_they_are_the_derivative_of_the_softmax():
    query, keys, bias = draw(3), draw(7, 3, seed=1), draw(7, seed=2)

    def weights(theta):
        return torch.softmax(keys @ theta + bias, dim=-1)

    head = AttentionHead.from_query(query, keys, draw(7, 5, seed=3), bias=bias)
    jacobian = torch.autograd.functional.jacobian(weights, query)
    assert isinstance(jacobian, torch.Tensor)
    found = directions(head, Level.GENERATABLE)
    assert int(found.dimension) == 3
    torch.testing.assert_close(found.basis @ (found.basis.mT @ jacobian), jacobian)


def test_equal_keys_give_no_direction():
    for dtype in (torch.float64, torch.float32):
        generator = torch.Generator().manual_seed(0)
        noise = torch.finfo(dtype).eps * torch.rand(7, 3, generator=generator, dtype=torch.float64)
        keys = 3.7 * (1 + 0.2 * noise)
        head = with_weights([1 / 7] * 7, keys, dtype)
        assert int(directions(head, Level.GENERATABLE).dimension) == 0


def test_a_common_offset_of_the_keys_changes_nothing():
    keys = draw(7, 3)
    weights = torch.softmax(draw(7, seed=1), dim=-1).tolist()
    plain = directions(with_weights(weights, keys), Level.GENERATABLE).basis
    moved = directions(with_weights(weights, keys + 1e6), Level.GENERATABLE).basis
    torch.testing.assert_close(plain @ plain.mT, moved @ moved.mT, atol=1e-8, rtol=0)


def test_peaked_rows_keep_their_small_directions():
    # Every direction of the simplex on three tokens, though the last moves by 1e-30.
    found = directions(
        with_weights([1.0, 1e-15, 1e-30], [[0.0, 0.0], [1.0, 0.0], [3.0, 1.0]]), Level.GENERATABLE
    )
    assert int(found.dimension) == 2
    assert outside(found, [1.0, 0.0, -1.0]) < 1e-15
    assert outside(found, [0.0, 1.0, -1.0]) < 1e-15

    # Two heavy tokens: theta = (1, 0) trades between them. theta = (0, 1) leaves their keys alone; it moves token 2 by
    # 1, token 3 by 2 * -2 (times 1e-30), and the heavy ones share the rest evenly.
    keys = [[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [3.0, -2.0]]
    found = directions(with_weights([0.5, 0.5, 1e-30, 2e-30], keys), Level.GENERATABLE)
    assert int(found.dimension) == 2
    assert outside(found, [1.0, -1.0, 0.0, 0.0]) < 1e-15
    assert outside(found, [1.5, 1.5, 1.0, -4.0]) < 1e-14


def test_repeated_heavy_tokens_do_not_drown_the_others_in_noise():
    # Tokens 0 and 1 are the same up to float32 rounding; only the others move them, in equal parts.
    keys = [[1.0, 2.0], [1.0 + 1e-7, 2.0 - 1e-7], [5.0, 3.0], [2.0, 7.0]]
    found = directions(with_weights([0.5, 0.5, 1e-12, 1e-12], keys, torch.float32), Level.GENERATABLE)
    assert int(found.dimension) == 2
    assert outside(found, [0.5, 0.5, -1.0, 0.0]) < 1e-10
    assert outside(found, [0.5, 0.5, 0.0, -1.0]) < 1e-10


def test_weights_of_exactly_zero_do_not_move():
    keys = draw(5, 3)
    found = directions(with_weights([0.5, 0.0, 0.25, 0.25, 0.0], keys), Level.GENERATABLE)
    assert int(found.dimension) == 2
    assert (found.basis[[1, 4]] == 0).all()
    assert int(directions(with_weights([1.0, 0.0, 0.0, 0.0, 0.0], keys), Level.GENERATABLE).dimension) == 0


def test_both_ways_to_the_basis_agree():
    head = AttentionHead.from_query(draw(11, 5), draw(11, 5), draw(11, 7), scaling=0.3)
    # float64 always takes the careful way; float32 takes the other while rows are not too peaked.
    careful = directions(head, Level.GENERATABLE).basis
    head = AttentionHead.from_query(draw(11, 5), draw(11, 5), draw(11, 7), scaling=0.3, dtype=torch.float32)
    quick = directions(head, Level.GENERATABLE).basis
    torch.testing.assert_close(careful @ careful.mT, quick @ quick.mT, atol=1e-9, rtol=0)
