"""How exactly a model computes."""

from __future__ import annotations

import torch

# What `torch.set_float32_matmul_precision` allows products of float32 to be computed in: TF32 and bfloat16.
_FLOAT32 = {"high": 2.0**-10, "medium": 2.0**-7}


def epsilon(dtype: torch.dtype) -> float:
    """The relative rounding of a matrix product in a type, as torch is set to compute it."""
    eps = torch.finfo(dtype).eps
    if dtype != torch.float32:
        return eps
    return _FLOAT32.get(torch.get_float32_matmul_precision(), eps)
