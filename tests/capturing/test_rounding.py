"""How exactly a model computes decides what counts as the same number."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from identiformer.capturing.rounding import epsilon


@pytest.fixture
def restored() -> Iterator[None]:
    before = torch.get_float32_matmul_precision()
    yield
    torch.set_float32_matmul_precision(before)


@pytest.mark.usefixtures("restored")
@pytest.mark.parametrize(("setting", "eps"), [("highest", 2.0**-23), ("high", 2.0**-10), ("medium", 2.0**-7)])
def test_products_of_float32_are_as_exact_as_torch_is_set_to_compute_them(setting: str, eps: float):
    torch.set_float32_matmul_precision(setting)
    assert epsilon(torch.float32) == eps
    assert epsilon(torch.float64) == 2.0**-52
    assert epsilon(torch.bfloat16) == 2.0**-7
    assert epsilon(torch.float16) == 2.0**-10
