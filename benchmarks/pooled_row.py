"""The pooled-row path against the explicit one, forward and backward, in one run.

    python benchmarks/pooled_row.py [--rounds 30]

Prints, for several lengths, how many times longer the explicit computation of the last layer takes: all rows, and
only the pooled row but with keys and values formed. Median of paired rounds, the quartiles in brackets.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from identiformer.model import IdentiformerConfig
from identiformer.model.attention import IdentiformerAttention, eager_attention

BATCH = 32


def pooled(module: IdentiformerAttention, x: Tensor, row: Tensor) -> Tensor:
    """As the classifier computes it."""
    return module.pooled_row(x, row)


def one_row(module: IdentiformerAttention, x: Tensor, row: Tensor) -> Tensor:
    """One query row, keys and values formed."""
    first = x[torch.arange(len(x)), row][:, None]
    query = module._by_head(module.query(first), module.key_size)
    key, value = (
        module._by_head(module.key(x), module.key_size),
        module._by_head(module.value(x), module.value_size),
    )
    mixed, _ = eager_attention(module, query, key, value, None, scaling=module.scaling)
    return module.output(module._merge(mixed))[:, 0]


def every_row(module: IdentiformerAttention, x: Tensor, row: Tensor) -> Tensor:
    """All rows, of which one is used."""
    return module(x)[0][torch.arange(len(x)), row]


def seconds(
    compute: Callable[[IdentiformerAttention, Tensor, Tensor], Tensor],
    module: IdentiformerAttention,
    x: Tensor,
) -> float:
    """Seconds of one forward and backward pass."""
    module.zero_grad()
    row = torch.zeros(len(x), dtype=torch.long)
    start = time.perf_counter()
    compute(module, x, row).sum().backward()
    return time.perf_counter() - start


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=30)
    rounds: int = parser.parse_args().rounds
    torch.set_num_threads(1)
    torch.manual_seed(0)
    config = IdentiformerConfig(attention_probs_dropout_prob=0.0)
    module = IdentiformerAttention(config, layer_idx=0)
    print(f"default sizes, {BATCH} texts, forward and backward; times as long as the pooled row")
    for tokens in (16, 64, 128, 512):
        x = torch.randn(BATCH, tokens, config.hidden_size, requires_grad=True)
        ways = (pooled, one_row, every_row)
        times = np.array([[seconds(way, module, x) for way in ways] for _ in range(rounds + 2)])[2:]
        ratios = times[:, 1:] / times[:, :1]
        low, middle, high = np.percentile(ratios, (25, 50, 75), axis=0)
        shown = [f"{middle[i]:.1f} ({low[i]:.1f} to {high[i]:.1f})" for i in range(2)]
        print(f"{tokens:4d} tokens: one row with keys and values {shown[0]}, every row {shown[1]}")


if __name__ == "__main__":
    main()
