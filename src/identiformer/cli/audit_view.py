"""What `audit` prints: its summary as tables and sentences."""

from __future__ import annotations

from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

_SHOWN_REASONS = 5


def audit_view(summary: dict[str, Any]) -> RenderableType:
    """Tables by layer and by length of what `audit` returned, or the same read back from summary.json."""
    texts = summary["texts"]
    parts: list[RenderableType] = [
        Text(
            f"{texts['number']} texts, {summary['all']['rows']} rows of {len(summary['heads'])} heads; "
            f"{texts['truncated']:.1%} of the texts truncated"
        ),
        _table("layer", [(str(layer["layer"]), layer) for layer in summary["layers"]]),
        _table("tokens", [(f"{c['from']}-{c['to']}", c) for c in summary["by_length"]]),
        Text(
            "free, simplex, generatable: share of rows whose output no other weights nearby give, out of any, of all "
            "distributions, of those that other queries give; global: no others at all. margin: median over "
            "identifiable rows. top certain: the same token is at the top in all weights with that output."
        ),
    ]
    parts += _refused(summary["refused"])
    parts += [Text(f"layer {note['layer']}: {note['note']}") for note in summary["notes"][:_SHOWN_REASONS]]
    if proof := summary.get("proof"):
        parts.append(Text(_proof(proof)))
    return Group(*parts)


def _table(by: str, groups: list[tuple[str, dict[str, Any]]]) -> Table:
    table = Table(by)
    for heading in (
        "rows", "free", "simplex", "margin", "generatable", "global", "margin", "top certain", "tied",
    ):  # fmt: skip
        table.add_column(heading, justify="right")
    for name, group in groups:
        free, simplex, generatable = (group["levels"][level] for level in ("free", "simplex", "generatable"))
        table.add_row(
            name,
            str(group["rows"]),
            _percent(free["identifiable"]),
            _percent(simplex["identifiable"]),
            _small(simplex["margin"]["0.5"]),
            _percent(generatable["identifiable"]),
            _percent(generatable["global"]),
            _small(generatable["margin"]["0.5"]),
            _percent(group["top_certain"]),
            _percent(group["tied"]),
        )
    return table


def _proof(proof: dict[str, Any]) -> str:
    if not proof["asked"]:
        return "proof: every row is unique on the simplex, so that there are no other weights to try"
    if not proof["found"]:
        return f"proof: no alternative was found for {proof['asked']} rows"
    changed = proof["predictions_changed"]
    largest = proof["largest_change"]
    moved = f"no output by more than {largest:.1e} of the largest one" if largest else "no output at all"
    return (
        f"proof: alternatives in place of the weights of {proof['found']} of {proof['asked']} rows (median distance "
        f"{proof['median_distance']:.2f} of 1, another token at the top in {proof['tops_changed']}) moved {moved}; "
        f"other weights as far away move it by {proof['median_control_change']:.1e} (median)"
        + ("" if changed is None else f"; {changed} predictions changed")
    )


def _refused(refused: list[dict[str, Any]]) -> list[RenderableType]:
    """One line for each reason why heads are left out."""
    heads: dict[str, list[str]] = {}
    for entry in refused:
        heads.setdefault(entry["reason"], []).append(f"{entry['layer']}.{entry['head']}")
    return [
        Text(
            f"left out, layer.head {', '.join(some[:10])}{', …' if len(some) > 10 else ''}: {reason}",
            style="yellow",
        )
        for reason, some in heads.items()
    ]


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{share:.1%}"


def _small(value: float | None) -> str:
    return "-" if value is None else f"{value:.1e}"
