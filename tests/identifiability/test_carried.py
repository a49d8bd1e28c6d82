"""Keys that values carry softly: the certificate sees them at every length, and sees none where there are none."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from identiformer.identifiability import AttentionHead, Verdict, certify
from identiformer.identifiability.certificate import certify_levels
from identiformer.identifiability.directions import Level

KEYS, VALUES, WIDTH = 3, 4, 11


def head(
    tokens: int, seed: int, added: float, values: Tensor | None = None, aligned: bool = False
) -> AttentionHead:
    """A head whose values carry its keys: `[V K] [D; added * E]`, in single precision.

    `values`: stand in for `[V K]`; `aligned`: with the first rows of `D` in the place of `E`.
    """
    chance = torch.Generator().manual_seed(seed)
    keys = torch.randn(tokens, KEYS, generator=chance)
    own = torch.randn(tokens, VALUES, generator=chance)
    rows = torch.linalg.qr(torch.randn(WIDTH, VALUES + KEYS, generator=chance)).Q.T
    beside = rows[:KEYS] if aligned else rows[VALUES:]
    return AttentionHead.from_query(
        query=torch.randn(5, KEYS, generator=chance),
        keys=keys,
        values=torch.cat([own, keys], dim=-1) if values is None else values,
        output_projection=torch.cat([rows[:VALUES], added * beside]),
    )


@pytest.mark.parametrize("added", [1.0, 1e-2, 1e-4])
def test_softly_carried_keys_are_seen_at_every_length(added: float):
    """At about as many tokens as columns of `[V K]`, rounding hides a direction of `T`; the keys are carried still."""
    hidden = 0
    for tokens in range(2, 4 * (VALUES + KEYS)):
        for seed in range(7):
            certificate = certify(head(tokens, seed, added))
            assert certificate.generatable.verdict.tolist() == [Verdict.GLOBAL] * 5, (tokens, seed)
            hidden += int(certificate.simplex.nullity[0] > max(0, tokens - 1 - VALUES - KEYS))
    assert (hidden > 0) == (added < 1e-3)


def test_both_paths_say_the_same():
    for tokens in range(2, 4 * (VALUES + KEYS)):
        for seed in range(3):
            one = head(tokens, seed, 1e-3)
            quick, exact = (
                certify_levels(one, [Level.GENERATABLE], way)[Level.GENERATABLE] for way in (True, False)
            )
            assert torch.equal(quick.verdict, exact.verdict)


def test_values_that_do_not_carry_the_keys_are_not_taken_for_some_that_do():
    """A column of almost nothing hides a direction of `T`, but other keys than these are carried."""
    for seed in range(7):
        chance = torch.Generator().manual_seed(100 + seed)
        values = torch.randn(2 * WIDTH, VALUES + KEYS, generator=chance)
        values[:, 0] *= 1e-8
        certificate = certify(head(2 * WIDTH, seed, 1.0, values))
        assert certificate.generatable.verdict.tolist() == [Verdict.LOCAL] * 5


def test_keys_that_the_projection_mixes_with_the_values_are_not_carried():
    """`T = (V + [K 0]) D`: the values hold the keys, but the output does not tell them apart."""
    for seed in range(7):
        certificate = certify(head(2 * WIDTH, seed, 1.0, aligned=True))
        assert not bool((certificate.generatable.verdict == Verdict.GLOBAL).any())


def test_keys_that_are_added_below_the_rounding_of_the_model_are_not_carried():
    for seed in range(7):
        certificate = certify(head(2 * WIDTH, seed, 1e-9))
        assert not bool((certificate.generatable.verdict == Verdict.GLOBAL).any())
