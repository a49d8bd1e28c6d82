"""The worked cases that the project shares, one by one and all in one batch."""

import json
from pathlib import Path

import pytest
import torch

from identiformer.errors import InputError
from identiformer.identifiability import (
    AttentionHead,
    Level,
    Verdict,
    certify,
    effective_attention,
    possible_tops,
    recover,
    weight_intervals,
)

GOLDEN = Path(__file__).parents[2].parent / "shared" / "golden" / "heads.json"
CASES = json.loads(GOLDEN.read_text())["cases"] if GOLDEN.exists() else []
NAMES = [case["name"] for case in CASES]

pytestmark = pytest.mark.skipif(not CASES, reason=f"the worked cases are not here: {GOLDEN}")


def tensor(numbers) -> torch.Tensor:
    return torch.tensor(numbers, dtype=torch.float64)


def build(case):
    projection, visible = case["output_projection"], case["visible"]
    return AttentionHead.from_query(
        tensor(case["query"]),
        tensor(case["keys"]),
        tensor(case["values"]),
        None if projection is None else tensor(projection),
        None if visible is None else torch.tensor(visible),
        float(case["scaling"]),
    )


@pytest.fixture(scope="module")
def together():
    """All cases in one padded batch."""
    return AttentionHead.stack([build(case) for case in CASES])


def check_certificate(case, certificate, at=()):
    expected = case["expected"]
    for level in Level:
        assert int(certificate[level].nullity[at]) == expected[level]["nullity"], level
    generatable = certificate.generatable
    assert int(generatable.directions[at]) == expected["generatable"]["directions"]
    is_global = int(generatable.verdict[at]) == Verdict.GLOBAL
    assert is_global == expected["generatable"]["globally_certified"]


@pytest.mark.parametrize("case", CASES, ids=NAMES)
def test_weights_and_certificate(case):
    head = build(case)
    torch.testing.assert_close(head.weights, tensor(case["expected"]["weights"]), atol=1e-8, rtol=0)
    check_certificate(case, certify(head))


def test_certificates_of_all_cases_in_one_batch(together):
    certificate = certify(together)
    for i, case in enumerate(CASES):
        weights = tensor(case["expected"]["weights"])
        torch.testing.assert_close(together.weights[i, : len(weights)], weights, atol=1e-8, rtol=0)
        check_certificate(case, certificate, i)
        alone = certify(build(case))
        for level in Level:
            torch.testing.assert_close(
                certificate[level].margin[i], alone[level].margin, atol=1e-10, rtol=1e-6
            )
        assert int(certificate.tied_tokens[i]) == int(alone.tied_tokens)
        assert int(certificate.tokens[i]) == int(alone.tokens)


@pytest.mark.parametrize("case", CASES, ids=NAMES)
def test_effective_attention(case):
    effective = effective_attention(build(case))
    torch.testing.assert_close(effective, tensor(case["expected"]["effective"]), atol=1e-8, rtol=0)


def test_effective_attention_of_all_cases_in_one_batch(together):
    effective = effective_attention(together)
    for row, case in zip(effective, CASES, strict=True):
        expected = tensor(case["expected"]["effective"])
        torch.testing.assert_close(row[: len(expected)], expected, atol=1e-8, rtol=0)
        assert (row[len(expected) :] == 0).all()


@pytest.mark.parametrize("index", range(len(CASES)), ids=NAMES)
@pytest.mark.parametrize("padded", [False, True], ids=["alone", "padded"])
def test_intervals_and_tops(index, padded, together):
    expected = CASES[index]["expected"]
    head = together[index] if padded else build(CASES[index])
    intervals = weight_intervals(head)
    tokens = len(expected["weights"])
    for bound, numbers in zip(intervals, expected["intervals"], strict=True):
        torch.testing.assert_close(bound[:tokens], tensor(numbers), atol=1e-8, rtol=0)
        assert (bound[tokens:] == 0).all()
    assert possible_tops(head) == expected["possible_tops"]
    assert possible_tops(head, intervals=intervals) == expected["possible_tops"]


@pytest.mark.parametrize("case", CASES, ids=NAMES)
def test_recovery(case):
    head, expected = build(case), case["expected"]
    globally = {
        "free": expected["free"]["nullity"] == 0,
        "simplex": expected["simplex"]["nullity"] == 0,
        "generatable": expected["generatable"]["globally_certified"],
    }
    for level, fixed in globally.items():
        arguments = head.keys, head.values, head.output_projection, head.output, level
        if fixed:
            found = recover(*arguments, visible=head.visible)
            torch.testing.assert_close(found, tensor(expected["weights"]), atol=1e-8, rtol=0)
        else:
            with pytest.raises(InputError, match="does not fix the weights"):
                recover(*arguments, visible=head.visible)
