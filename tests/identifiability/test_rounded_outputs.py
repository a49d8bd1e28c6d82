"""Recovery from outputs that a model in half precision rounded."""

from __future__ import annotations

import math
from typing import NamedTuple

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from identiformer.errors import InputError
from identiformer.identifiability import AttentionHead, Verdict, certify, recover
from identiformer.identifiability.exponential import Family
from identiformer.identifiability.nearest_row import fit_output

HALVES = (torch.bfloat16, torch.float16)
many = settings(max_examples=25, deadline=None, derandomize=True)


class Rounded(NamedTuple):
    """A head, its true row in float64, and the output that the model gives for it."""

    weights: Tensor
    keys: Tensor
    values: Tensor
    projection: Tensor | None
    output: Tensor
    visible: Tensor | None
    bias: Tensor | None

    @property
    def transformed(self) -> Tensor:
        found = (
            self.values.double()
            if self.projection is None
            else self.values.double() @ self.projection.double()
        )
        return found if self.visible is None else found.masked_fill(~self.visible[:, None], 0.0)

    @property
    def size(self) -> float:
        return max(float(self.transformed.norm(dim=-1).max()), float(self.output.double().norm()))

    def miss(self, weights: Tensor) -> float:
        return float((weights @ self.transformed - self.output.double()).norm())

    def recovered(self) -> Tensor:
        return recover(
            self.keys,
            self.values,
            self.projection,
            self.output,
            "generatable",
            visible=self.visible,
            bias=self.bias,
        )

    def certain(self) -> bool:
        head = AttentionHead(
            self.weights,
            self.keys,
            self.values,
            self.projection,
            self.visible,
            self.bias,
            dtype=self.output.dtype,
        )
        return int(certify(head).generatable.verdict) == Verdict.GLOBAL


@st.composite
def rounded(draw_from, dtype: torch.dtype) -> Rounded:
    """Flat and peaked rows over 3 to 40 tokens whose values carry the keys, computed in a half precision or rounded."""
    n, d_k, d_v, d_e = (
        draw_from(st.integers(low, high)) for low, high in ((3, 40), (1, 7), (1, 11), (1, 11))
    )
    generator = torch.Generator().manual_seed(draw_from(st.integers(0, 2**32)))
    whole = draw_from(st.booleans())

    def numbers(*shape: int) -> Tensor:
        if whole:
            return torch.randint(-2, 3, shape, generator=generator).to(dtype)
        return torch.randn(*shape, generator=generator).to(dtype)

    keys = numbers(n, d_k)
    values = torch.cat([numbers(n, d_v) * draw_from(st.sampled_from([1, 10])), keys], dim=-1)
    projection = numbers(d_v + d_k, max(d_e, d_v + d_k)) if draw_from(st.booleans()) else None
    bias = numbers(n) if draw_from(st.booleans()) else None
    visible = torch.rand(n, generator=generator) < 0.8 if draw_from(st.booleans()) else None
    logits = draw_from(st.sampled_from([0.1, 1.0, 5.0, 30.0])) * (keys.double() @ numbers(d_k).double())
    logits = logits if bias is None else logits + bias
    if visible is not None:
        visible[0] = True
        logits = logits.masked_fill(~visible, -torch.inf)
    weights = torch.softmax(logits, dim=-1)
    match draw_from(st.sampled_from(["all of it", "from the values on", "the output"])):
        case "all of it":
            mixed = weights.to(dtype) @ values
            output = mixed if projection is None else mixed @ projection
        case "from the values on":
            mixed = (weights @ values.double()).to(dtype)
            output = mixed if projection is None else mixed @ projection
        case _:
            mixed = weights @ values.double()
            output = (mixed if projection is None else mixed @ projection.double()).to(dtype)
    return Rounded(weights, keys, values, projection, output, visible, bias)


@pytest.mark.parametrize("dtype", HALVES)
def test_the_row_found_fits_as_well_as_the_true_one(dtype):
    eps, above = torch.finfo(dtype).eps, []

    @many
    @given(rounded(dtype))
    def check(head):
        if not head.certain():
            return
        found = head.recovered()  # and no valid output is refused
        assert float(found.sum()) == pytest.approx(1.0)
        miss, true = head.miss(found), head.miss(head.weights)
        assert miss <= max(true, eps * head.size) * (1 + 1e-6)
        above.append(miss > true * (1 + 1e-6) + 1e-12 * head.size)

    check()
    # Local minima that are better than the true row can tell itself from are rare.
    assert len(above) > 12
    assert sum(above) <= 1


def hand(dtype, keys, values, output, **more) -> Rounded:
    keys, values, output = (torch.tensor(numbers, dtype=dtype) for numbers in (keys, values, output))
    return Rounded(
        torch.ones(len(keys), dtype=torch.float64) / len(keys), keys, values, None, output, None, None
    )


@pytest.mark.parametrize("dtype", HALVES)
def test_a_mean_beyond_the_hull_is_that_of_its_edge(dtype):
    # The values are the keys 0, 1, 2; the greatest mean that there is is 2, and the output is an eps more.
    eps = torch.finfo(dtype).eps
    head = hand(dtype, [[0.0], [1.0], [2.0]], [[0.0], [1.0], [2.0]], [2 + 2 * eps])
    torch.testing.assert_close(
        head.recovered(), torch.tensor([0.0, 0.0, 1.0], dtype=torch.float64), atol=1e-9, rtol=0
    )
    # A square, and a mean beyond its lower side: the nearest one is (1/4, 0), of 3/4, 1/4 and no weight above.
    corners = [[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]
    found = hand(dtype, corners, corners, [0.25, -eps]).recovered()
    torch.testing.assert_close(
        found, torch.tensor([0.75, 0.25, 0.0, 0.0], dtype=torch.float64), atol=1e-9, rtol=0
    )


@pytest.mark.parametrize("dtype", HALVES)
def test_the_nearest_output_is_that_of_least_squares(dtype):
    # Two tokens, T = (0, 0) and (1, 0), and an output beside the line: the foot of its perpendicular is the answer.
    eps = torch.finfo(dtype).eps
    head = hand(dtype, [[0.0], [1.0]], [[0.0, 0.0], [1.0, 0.0]], [0.25, eps])
    torch.testing.assert_close(
        head.recovered(), torch.tensor([0.75, 0.25], dtype=torch.float64), atol=1e-9, rtol=0
    )


def test_keys_that_a_certificate_does_not_tell_apart_still_make_the_row():
    # 1 and 1 + 2 eps count as equal in bfloat16; the weights of the row are as 1, e^8 and e^8.125.
    step = 2 * torch.finfo(torch.bfloat16).eps
    keys = torch.tensor([[0.0], [1.0], [1.0 + step]], dtype=torch.bfloat16)
    weights = torch.softmax(8 * keys.double()[:, 0], dim=-1)
    values = torch.cat([keys, torch.eye(3)], dim=-1).to(torch.bfloat16)
    found = recover(keys, values, None, weights @ values.double(), "generatable", dtype=torch.bfloat16)
    torch.testing.assert_close(found, weights, atol=1e-9, rtol=0)


def test_a_least_error_at_the_edge_is_reached():
    # Features -1, 0, 1 that are their own outputs, and 1.5 is wanted: from the even row, all weight goes to the last.
    features = math.sqrt(1.5) * torch.tensor([[-1.0], [0.0], [1.0]], dtype=torch.float64)
    family = Family(features, torch.ones(3, dtype=torch.bool), None)
    theta, error = fit_output(family, torch.zeros(1, dtype=torch.float64), features, 1.5 * features[2])
    assert float(error) == pytest.approx(0.5 / 1.5, abs=1e-12)
    assert float(family.weights(theta)[2]) == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize("dtype", HALVES)
def test_an_output_of_no_row_is_refused_still(dtype):
    head = hand(dtype, [[0.0], [1.0], [2.0]], [[0.0], [1.0], [2.0]], [3.0])
    with pytest.raises(InputError, match="no weights at level 'generatable' have this output"):
        head.recovered()


def test_an_output_that_float16_is_too_narrow_for_is_not_refused():
    # T is (0, 2^-20, 2^-19) and float16 holds multiples of 2^-24; the mean in the middle of two is off by 2^-25.
    keys = torch.tensor([[0.0], [1.0], [2.0]], dtype=torch.float16)
    projection = torch.tensor([[2.0**-20]], dtype=torch.float16)
    weights = torch.softmax(0.3 * keys.double()[:, 0], dim=-1)
    output = (weights @ keys.double() @ projection.double()).half()
    found = recover(keys, keys, projection, output, "generatable")
    miss = abs(float((found @ keys.double() @ projection.double() - output.double())[0]))
    assert miss < 1e-12 * 2.0**-20
    far = torch.tensor([2.0**-18], dtype=torch.float16)
    with pytest.raises(InputError, match="have this output"):
        recover(keys, keys, projection, far, "generatable")


def test_a_product_that_cancels_explains_what_its_rounding_does():
    # V D = 0, 1, 2 of values beside 128, where float16 holds multiples of 1/8: a V may be off by 1/16 twice.
    keys = torch.tensor([[0.0], [1.0], [2.0]], dtype=torch.float16)
    values = torch.cat([torch.full((3, 1), 128.0, dtype=torch.float16), 128 + keys], dim=-1)
    projection = torch.tensor([[-1.0], [1.0]], dtype=torch.float16)
    found = recover(keys, values, projection, torch.tensor([-0.125], dtype=torch.float16), "generatable")
    torch.testing.assert_close(found, torch.tensor([1.0, 0.0, 0.0], dtype=torch.float64), atol=1e-9, rtol=0)
    # Of T alone, the same misfit is more than any rounding.
    with pytest.raises(InputError, match="have this output"):
        recover(keys, keys, None, torch.tensor([-0.125], dtype=torch.float16), "generatable")


@pytest.mark.parametrize("seed", [50, 55, 154])
def test_the_certificate_of_the_row_itself_is_enough(seed):
    # Of equal weights, some direction hardly moves the output by bfloat16's measure; of the row, none.
    generator = torch.Generator().manual_seed(seed)
    keys, values, projection = (
        torch.randint(-2, 3, shape, generator=generator).bfloat16() for shape in ((7, 5), (7, 6), (6, 6))
    )
    query = torch.randn(5, generator=generator, dtype=torch.float64)
    head = AttentionHead.from_query(query, keys, values, projection, scaling=0.3, dtype=torch.bfloat16)
    equal = torch.full((7,), 1 / 7, dtype=torch.float64)
    even = AttentionHead(equal, keys, values, projection, dtype=torch.bfloat16)
    assert int(certify(head).generatable.verdict) == Verdict.GLOBAL
    assert int(certify(even).generatable.verdict) == Verdict.NONE
    found = recover(keys, values, projection, head.output, "generatable", dtype=torch.bfloat16)
    torch.testing.assert_close(found, head.weights, atol=1e-9, rtol=0)
    with pytest.raises(InputError, match="does not fix the weights"):
        recover(keys, values, projection, even.output, "generatable", dtype=torch.bfloat16)


def test_the_error_names_the_precision():
    # Singular values of 1 and 1e-3: a rank of 2 in float16, of 1 in bfloat16.
    keys = torch.tensor([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]], dtype=torch.float64)
    values = keys * torch.tensor([1.0, 4e-3], dtype=torch.float64)
    with pytest.raises(InputError, match=r"^the output as bfloat16 rounds it does not fix.*nullity 1\)"):
        recover(keys, values, None, values.mean(dim=0), "generatable", dtype=torch.bfloat16)
    found = recover(keys, values, None, values.mean(dim=0), "generatable", dtype=torch.float64)
    torch.testing.assert_close(found, torch.full((3,), 1 / 3, dtype=torch.float64))
