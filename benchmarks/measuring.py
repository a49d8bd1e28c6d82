"""What the benchmarks share: interleaved repeats, and ratios of what ran in the same round."""

from __future__ import annotations

import json
import platform
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

CLOCKS: dict[str, Callable[[], float]] = {"wall": time.perf_counter, "cpu": time.process_time}
# Makes what is timed: what it does itself is not.
Preparation = Callable[[], Callable[[], object]]


@dataclass(frozen=True)
class Spread:
    """The median and the quartiles."""

    low: float
    median: float
    high: float

    @staticmethod
    def of(numbers: np.ndarray) -> Spread:
        """Of some numbers."""
        low, median, high = np.percentile(numbers, (25, 50, 75))
        return Spread(float(low), float(median), float(high))

    def show(self, digits: int = 3) -> str:
        """The median, the quartiles in brackets, to so many significant digits."""
        low, median, high = (f"{float(f'{n:.{digits}g}'):g}" for n in (self.low, self.median, self.high))
        return f"{median} ({low} to {high})"


def always(compute: Callable[[], object]) -> Preparation:
    """For what needs no preparation."""
    return lambda: compute


def measure(
    ways: Mapping[str, Preparation], repeats: int, clock: str = "wall", warm_ups: int = 1
) -> dict[str, np.ndarray]:
    """Seconds of each way in each round: all ways once a round, so that a slow moment slows them all."""
    now = CLOCKS[clock]
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for round_ in range(warm_ups + repeats):
        for name, prepare in ways.items():
            compute = prepare()
            start = now()
            compute()
            elapsed = now() - start
            if round_ >= warm_ups:
                seconds[name].append(elapsed)
    return {name: np.array(numbers) for name, numbers in seconds.items()}


def environment(threads: int, clock: str) -> dict[str, Any]:
    """What the numbers depend on."""
    return {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": np.__version__,
        "machine": platform.machine(),
        "threads": threads,
        "clock": clock,
    }


def write(path: Path, results: dict[str, Any]) -> None:
    """Results as JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")
