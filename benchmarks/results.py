"""Trains the default model and the standard layer on real data sets, and writes docs/results.md.

    python benchmarks/results.py [--data ../shared/data] [--only trec sst2] [--seeds 0 1 2]

Each data set is a folder with train and test files, and a valid file or none (then a tenth of train is split off).
Nothing is chosen here: the settings are the defaults of `identiformer train`, and the epoch kept is the best one on
the validation set. A run that is there already is not run again; a stopped one is resumed.
"""

from __future__ import annotations

import argparse
import json
import platform
import re
import sys
from pathlib import Path
from statistics import mean
from typing import Any

ROOT = Path(__file__).parents[1]
DATA_SETS = ("trec", "sst2", "ag_news", "subj", "mr", "sms_spam")
MODELS = ("default", "standard")


def settings_of(model: str, seed: int) -> Any:
    """The default settings, or the usual transformer layer at the same hidden size and number of heads."""
    from identiformer import IdentiformerConfig, TrainingSettings

    if model == "default":
        return TrainingSettings(seed=seed)
    size = IdentiformerConfig.hidden_size // IdentiformerConfig.num_attention_heads
    return TrainingSettings(seed=seed, model={"head_merge": "concat", "key_size": size, "value_size": size})


def run(data: Path, name: str, model: str, seed: int, work: Path) -> dict[str, Any]:
    """The metrics of one training, from its folder where it is there already."""
    folder = work / f"{name}-{model}-{seed}"
    if not (folder / "metrics.json").exists():
        from identiformer import train

        train(str(data / name), folder, settings_of(model, seed), resume=True)
    metrics = json.loads((folder / "metrics.json").read_text(encoding="utf-8"))
    print(
        f"{folder.name}: valid {metrics['valid']['accuracy']:.4f}, test {metrics['test']['accuracy']:.4f}, "
        f"{metrics['epochs']} epochs, {metrics['train_seconds']:.0f} s",
        file=sys.stderr,
        flush=True,
    )
    return metrics


def accuracy(runs: list[dict[str, Any]]) -> str:
    """The mean test accuracy, and the lowest and highest."""
    values = [metrics["test"]["accuracy"] for metrics in runs]
    return f"{mean(values):.4f} ({min(values):.4f} to {max(values):.4f})"


def share(runs: list[dict[str, Any]], level: str) -> str:
    """The mean share of test texts that are identifiable at a level."""
    return f"{mean(metrics['identifiable']['share'][level] for metrics in runs):.1%}"


def page(results: dict[str, dict[str, list[dict[str, Any]]]], command: str, seeds: list[int]) -> str:
    """The text of docs/results.md."""
    import torch
    import transformers

    lines = [
        "# Results",
        "",
        f"Made by `{command}` with torch {torch.__version__}, transformers {transformers.__version__}, Python "
        f"{platform.python_version()}; every model is trained from scratch on the data set's training texts alone.",
        "",
        f"Test accuracy: the mean of seeds {', '.join(map(str, seeds))}, the lowest and the highest in brackets. "
        "*default* is `identiformer train DATA` without options: heads added, `value_size = hidden_size`. *standard* "
        "is the usual transformer layer at the same hidden size and number of heads: heads concatenated, `key_size = "
        "value_size = hidden_size / num_attention_heads`. Settings were chosen on validation data; the epoch kept is "
        "the best one on the validation set.",
        "",
        "| data set | default | standard |",
        "| --- | --- | --- |",
    ]
    lines += [
        f"| {name} | {accuracy(of['default'])} | {accuracy(of['standard'])} |" for name, of in results.items()
    ]
    lines += [
        "",
        "The share of test texts for which the weights behind the prediction (the first token's row of every head of "
        "the last layer) are identifiable, each head from its own output:",
        "",
        "| data set | default, simplex | standard, simplex | default, generatable | standard, generatable |",
        "| --- | --- | --- | --- | --- |",
    ]
    lines += [
        f"| {name} | "
        + " | ".join(share(of[model], level) for level in ("simplex", "generatable") for model in MODELS)
        + " |"
        for name, of in results.items()
    ]
    return "\n".join(lines) + "\n"


def sections(file: Path) -> dict[str, str]:
    """The sections of the page as it is, by their headings; what comes before the first is none."""
    text = file.read_text(encoding="utf-8") if file.exists() else ""
    parts = re.split(r"^(?=## )", text, flags=re.MULTILINE)[1:]
    return {part.split("\n", 1)[0]: part.rstrip("\n") + "\n" for part in parts}


def write_section(file: Path, heading: str, text: str) -> None:
    """Put a section into the page, in the place of one with the same heading."""
    from identiformer.output import whole_file

    page_itself = file.read_text(encoding="utf-8") if file.exists() else "# Results\n"
    page_itself = re.split(r"^## ", page_itself, maxsplit=1, flags=re.MULTILINE)[0].rstrip("\n") + "\n"
    with_it = sections(file) | {heading: text}
    with whole_file(file) as out:
        out.write("\n".join([page_itself, *with_it.values()]))


def main() -> None:
    """Run what is missing, and write the page."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data")
    parser.add_argument("--only", nargs="+", default=list(DATA_SETS), choices=DATA_SETS)
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--work", type=Path, default=ROOT / "models" / "results")
    parser.add_argument("--output", type=Path, default=ROOT / "docs" / "results.md")
    given = parser.parse_args()
    from identiformer.output import whole_file

    results = {
        name: {
            model: [run(given.data, name, model, seed, given.work) for seed in given.seeds]
            for model in MODELS
        }
        for name in given.only
    }
    kept = sections(given.output)  # what other benchmarks wrote
    with whole_file(given.output) as file:
        file.write("\n".join([page(results, "python benchmarks/results.py", given.seeds), *kept.values()]))
    print(f"results: {given.output}", file=sys.stderr)


if __name__ == "__main__":
    main()
