"""Certainty of whole batches against the row by row answer."""

from __future__ import annotations

import pytest
import torch

from identiformer.identifiability import (
    AttentionHead,
    certify,
    possible_tops,
    top_is_certain,
    weight_intervals,
)
from identiformer.identifiability import certainty as module
from identiformer.identifiability.certainty import tops_certain
from identiformer.identifiability.interior import Ends, Programs
from identiformer.identifiability.spectrum import centre, output_scale, spectrum
from identiformer.identifiability.tops_of_rows import tops_of_rows


def heads(seed: int, peaked: float, tokens: int, columns: int, tied: bool = False) -> AttentionHead:
    """A batch `[3, 5]` of heads and rows of which the second head sees two tokens fewer."""
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    keys, values = normal(3, 1, tokens, 4), normal(3, 1, tokens, columns)
    if tied:
        keys[..., 1, :], values[..., 1, :] = keys[..., 0, :], values[..., 0, :]
    visible = torch.ones(3, 1, tokens, dtype=torch.bool)
    visible[1, :, -2:] = False
    return AttentionHead.from_query(
        peaked * normal(3, 5, 4), keys, values, normal(3, 1, columns, 7), visible, dtype=torch.float32
    )


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("peaked", [0.3, 3.0])
@pytest.mark.parametrize(("tokens", "columns", "tolerance"), [(3, 5, 0.0), (7, 3, 0.01), (11, 5, 0.0)])
def test_every_row_is_as_certain_as_on_its_own(
    tied: bool, peaked: float, tokens: int, columns: int, tolerance: float
) -> None:
    head = heads(tokens, peaked, tokens, columns, tied)
    certain = tops_certain(head, certify(head), tolerance)
    for index in torch.ones(3, 5).nonzero().tolist():
        assert bool(certain[tuple(index)]) == top_is_certain(head, tuple(index), tolerance)


def test_programs_are_left_for_few_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = 0

    def count(*arguments: object) -> bool:
        nonlocal asked
        asked += 1
        return top_is_certain(*arguments)  # pyright: ignore[reportArgumentType]

    monkeypatch.setattr(module, "top_is_certain", count)
    answers: list[bool] = []
    for seed in range(10):
        for peaked in (0.3, 3.0):
            head = heads(seed, peaked, 11, 5)
            answers += tops_certain(head, certify(head)).flatten().tolist()
    assert 0.2 < sum(answers) / len(answers) < 0.8
    assert asked < 0.3 * len(answers)


def many_rows(seed: int, peaked: float, tokens: int, columns: int, causal: bool = False) -> AttentionHead:
    """`[2, 20]`: two heads with many rows each; with `causal`, every other row sees three tokens fewer."""
    generator = torch.Generator().manual_seed(seed)
    keys = torch.randn(2, 1, tokens, 4, generator=generator, dtype=torch.float64)
    values = torch.randn(2, 1, tokens, columns, generator=generator, dtype=torch.float64)
    query = peaked * torch.randn(2, 20, 4, generator=generator, dtype=torch.float64)
    visible = torch.ones(2, 20 if causal else 1, tokens, dtype=torch.bool)
    if causal:
        visible[:, ::2, -3:] = False
    return AttentionHead.from_query(query, keys, values, None, visible, dtype=torch.float32)


MANY = [(11, 5, False), (11, 5, True), (13, 3, False), (30, 12, False)]


@pytest.mark.parametrize("peaked", [0.3, 1.0, 3.0])
@pytest.mark.parametrize(("tokens", "columns", "causal"), MANY)
def test_rows_of_a_head_are_as_certain_as_on_their_own(
    tokens: int, columns: int, causal: bool, peaked: float
) -> None:
    head = many_rows(tokens, peaked, tokens, columns, causal)
    certain = tops_certain(head, certify(head))
    for index in torch.ones(2, 20).nonzero().tolist():
        assert bool(certain[tuple(index)]) == top_is_certain(head, tuple(index))


def test_programs_of_many_rows_settle_nearly_all(monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[module.Certainty] = []

    def keep(*arguments: object) -> module.Certainty:
        found.append(tops_of_rows(*arguments))  # pyright: ignore[reportArgumentType]
        return found[-1]

    monkeypatch.setattr(module, "tops_of_rows", keep)
    for tokens, columns, causal in MANY:
        for peaked in (0.3, 1.0, 3.0):
            head = many_rows(tokens, peaked, tokens, columns, causal)
            tops_certain(head, certify(head))
    settled = torch.cat([one.settled for one in found])
    certain = torch.cat([one.certain for one in found])[settled]
    assert len(settled) > 100
    assert settled.double().mean() > 0.95
    assert 0.2 < certain.double().mean() < 0.9


def test_programs_of_many_rows_are_not_trusted(monkeypatch: pytest.MonkeyPatch) -> None:
    head = many_rows(1, 1.0, 13, 5)
    expected = tops_certain(head, certify(head))
    generator = torch.Generator().manual_seed(0)

    def noise(_: object, point: torch.Tensor, cost: torch.Tensor) -> Ends:
        return Ends(*torch.rand(2, *cost.shape, generator=generator, dtype=torch.float64))

    def nothing(_: object, point: torch.Tensor, cost: torch.Tensor) -> Ends:
        return Ends(torch.full_like(cost, torch.nan), torch.full_like(cost, torch.nan))

    for answer in (noise, nothing):
        monkeypatch.setattr(Programs, "minimise", answer)
        assert tops_certain(head, certify(head)).equal(expected)


def test_pairs_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    head = many_rows(2, 1.0, 13, 5)
    certificate = certify(head)
    expected = tops_certain(head, certificate)
    monkeypatch.setattr("identiformer.identifiability.pieces._NUMBERS_AT_ONCE", 0)
    assert tops_certain(head, certificate).equal(expected)


def test_a_bound_worked_by_hand() -> None:
    r"""T = (1, 0, 0, 0): the output is b_0 itself, so it stays 0.6 and the others share 0.4 in any way."""
    head = AttentionHead(
        weights=torch.tensor([0.6, 0.2, 0.1, 0.1], dtype=torch.float64),
        keys=torch.zeros(4, 1, dtype=torch.float64),
        values=torch.tensor([[1.0], [0.0], [0.0], [0.0]], dtype=torch.float64),
    )
    left = torch.tensor([[3.0], [-1.0], [-1.0], [-1.0]], dtype=torch.float64) / 12**0.5
    assert float(module._always(head, left, torch.tensor([0]))) == pytest.approx(0.6)
    assert bool(tops_certain(head, certify(head)))
    assert possible_tops(head) == [0]


@pytest.mark.parametrize("peaked", [0.3, 3.0])
def test_bounds_contain_the_intervals(peaked: float) -> None:
    head = heads(5, peaked, 11, 5)
    left = spectrum(centre(head.reduced, head.mask), output_scale(head).cutoff).left
    most = module._at_most(head, left)
    known = most.isfinite()
    assert known[0].all()
    top = head.weights.argmax(dim=-1, keepdim=True)
    always = module._always(head, left, top)
    for index in [(0, 0), (1, 2), (2, 4)]:
        lower, upper = weight_intervals(head, index)
        assert bool((most[index][known[index]] >= upper[known[index]] - 1e-9).all())
        assert float(always[index]) <= float(lower[top[index]]) + 1e-9
