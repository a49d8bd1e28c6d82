"""docs/results.md: its sections, of which each benchmark writes one, and what their tables hold."""

from __future__ import annotations

import platform
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import mean
from typing import Any

Runs = Mapping[str, Mapping[str, Sequence[Mapping[str, Any]]]]  # data set -> model -> metrics of each seed


def write_section(file: Path, text: str) -> None:
    """Put a section into the page, in the place of the one with the same heading; what begins with `# ` goes first.

    Args:
        file: The page; made where it is missing.
        text: The section, its heading on the first line.
    """
    from identiformer.output import whole_file

    there = file.read_text(encoding="utf-8") if file.exists() else ""
    parts = [part for part in re.split(r"^(?=##? )", there, flags=re.MULTILINE) if part.strip()]
    sections = {_heading(part): part.rstrip("\n") + "\n" for part in parts} or {"# Results": "# Results\n"}
    key = _heading(text)
    if key.startswith("# "):
        sections = {key: text} | {heading: part for heading, part in sections.items() if heading != key}
    else:
        sections[key] = text
    with whole_file(file) as out:
        out.write("\n".join(sections.values()))


def versions() -> str:
    """With what a section was made."""
    import torch
    import transformers

    return f"torch {torch.__version__}, transformers {transformers.__version__}, Python {platform.python_version()}"


def accuracy(runs: Sequence[Mapping[str, Any]]) -> str:
    """The mean test accuracy, and the lowest and highest where there are several."""
    values = [metrics["test"]["accuracy"] for metrics in runs]
    several = f" ({min(values):.4f} to {max(values):.4f})" if len(values) > 1 else ""
    return f"{mean(values):.4f}{several}"


def shares(results: Runs, models: Sequence[str]) -> list[str]:
    """The lines of a table of the mean share of test texts that are identifiable, with what that means."""
    levels = ("simplex", "generatable")
    heads = [f"{model}, {level}" for level in levels for model in models]
    rows = [
        f"| {name} | " + " | ".join(_share(of[model], level) for level in levels for model in models) + " |"
        for name, of in results.items()
    ]
    return [
        "The share of test texts for which the weights behind the prediction (the first token's row of every head of "
        "the last layer) are unique on the simplex, and at least unique nearby at `generatable`, each head from its "
        "own output:",
        "",
        f"| data set | {' | '.join(heads)} |",
        "| --- " * (len(heads) + 1) + "|",
        *rows,
    ]


def _share(runs: Sequence[Mapping[str, Any]], level: str) -> str:
    return f"{mean(metrics['identifiable']['share'][level] for metrics in runs):.1%}"


def _heading(part: str) -> str:
    return part.split("\n", 1)[0]
