"""Trains the default model and the standard layer on real data sets, and writes docs/results.md.

    python benchmarks/results.py [--data ../shared/data] [--only trec sst2] [--seeds 0 1 2]

Each data set is a folder with train and test files, and a valid file or none (then a tenth of train is split off).
Nothing is chosen here: the settings are the defaults of `identiformer train`, and the epoch kept is the best one on
the validation set. A run that is there already is not run again; a stopped one is resumed.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from results_page import Runs, accuracy, shares, versions, write_section

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


def page(results: Runs, command: str, seeds: list[int]) -> str:
    """What the page begins with."""
    lines = [
        "# Results",
        "",
        f"Made by `{command}` with {versions()}; every model is trained from scratch on the data set's training texts "
        "alone.",
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
    lines += ["", *shares(results, MODELS)]
    return "\n".join(lines) + "\n"


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
    results = {
        name: {
            model: [run(given.data, name, model, seed, given.work) for seed in given.seeds]
            for model in MODELS
        }
        for name in given.only
    }
    write_section(given.output, page(results, "python benchmarks/results.py", given.seeds))
    print(f"results: {given.output}", file=sys.stderr)


if __name__ == "__main__":
    main()
