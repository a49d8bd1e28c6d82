"""The model card of a retrofitted model."""

from __future__ import annotations

from identiformer.model_card import code, plain
from identiformer.retrofitting.report import HeadMargins, RetrofitReport


def retrofit_card(name: str, original: str, model_type: str, report: RetrofitReport) -> str:
    """The text of the card, in Markdown with the front matter that model hubs read.

    Args:
        name: Of the retrofitted model.
        original: The name of the model that it was made from.
        model_type: Of the retrofitted model.
        report: What the retrofit did.
    """
    measured = "random tokens" if report.texts is None else f"{report.drift.texts} texts"
    drift = (
        f"Mean-pooled embeddings have a cosine of {report.drift.mean_cosine:.6f} with those of the original on "
        f"average, and of {report.drift.min_cosine:.6f} at least"
    )
    if report.drift.max_logit_change is not None:
        drift += (
            f"; logits moved by {report.drift.max_logit_change:.2g} at most, and {report.drift.labels_changed} labels "
            "changed"
        )
    return "\n".join(
        [
            "---\nlibrary_name: transformers\ntags:\n- identiformer\n---\n",
            f"# {plain(name)}\n\n{code(original)} with values that carry its keys: a head that gave `a V D` gives "
            f"`a V D + (a K - const) E` with a small `E` (strength {report.strength:g}, seed {report.seed}), which "
            "makes its attention weights identifiable among the rows that the head can generate, for texts of any "
            "length. What the original's card says of its use, its data and its licence holds for this model, too.\n",
            f"## What changed\n\nOn {measured}: {drift}.\n",
            "Margins at `generatable`, the least relative change of a head's output that a unit change of its weights "
            f"can cause, over all {len(report.after)} heads:\n\n{_table(report)}",
            "## How to load it\n\n```python\nimport identiformer  # makes the model type "
            f"{model_type} known\nfrom transformers import AutoModel\n\n"
            f"model = AutoModel.from_pretrained({f'path/to/{name}'!r})\n```\n",
        ]
    )


def _table(report: RetrofitReport) -> str:
    lines = ["| | least | median of heads | rows `none` | `local` | `global` |", "| --- " * 6 + "|"]
    for when, heads in (("before", report.before), ("after", report.after)):
        lines.append(f"| {when} | {_least(heads):.2e} | {_median(heads):.2e} | {_counts(heads)} |")
    return "\n".join(lines) + "\n"


def _least(heads: list[HeadMargins]) -> float:
    return min(head.least for head in heads)


def _median(heads: list[HeadMargins]) -> float:
    return sorted(head.median for head in heads)[len(heads) // 2]


def _counts(heads: list[HeadMargins]) -> str:
    counts = (
        sum(head.none for head in heads),
        sum(head.local for head in heads),
        sum(head.everywhere for head in heads),
    )
    return " | ".join(map(str, counts))
