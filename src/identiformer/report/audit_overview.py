"""The page of an audit: what was found, as sentences, figures and tables, then texts word by word."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Any

from identiformer.report.audit_figures import audit_plots
from identiformer.report.document import document, fragment
from identiformer.report.figures import picture
from identiformer.report.samples import Samples
from identiformer.report.tables import (
    Table,
    command_line,
    counted,
    median,
    numbers,
    percent,
    settings_table,
    small,
)

_MOST_HEADS = 1200  # rows of a table
_MOST_TRIED = 100
_MOST_NOTES = 50


def audit_page(
    name: str,
    summary: Mapping[str, Any],
    nullities: Counter[tuple[int, int, int]],
    samples: Samples,
    options: Mapping[str, Any],
    defaults: Mapping[str, Any],
) -> str:
    """The HTML document of an audit.

    Args:
        name: Of the folder that it is in.
        summary: The contents of summary.json.
        nullities: How many rows of a layer that see so many tokens have such a nullity on the simplex.
        samples: The texts that it shows.
        options: All options of the command that makes this audit again.
        defaults: The options of an audit, where none are given.
    """
    texts, every = summary["texts"], summary["all"]
    pictures = [picture(plot) for plot in audit_plots(summary, nullities)]
    proof = summary.get("proof")
    notes = _notes(summary["notes"])
    main = fragment(
        "audit.html.j2",
        sections=[
            ("findings", "What was found"),
            ("lengths", "Length decides"),
            ("heads", "Layers and heads"),
            ("proof", "Proof by running"),
            *([("left-out", "Left out, and noted")] if summary["refused"] or notes else []),
            ("settings", "How it was made"),
            ("texts", "The texts, word by word"),
        ],
        tiles=_tiles(every, texts),
        findings=_findings(every, proof, nullities),
        length_figures=[it for it in pictures if it.plot.name in ("lengths", "nullity", "margins")],
        head_figures=[it for it in pictures if it.plot.name in ("heads", "tops")],
        by_length=_table(
            "By the tokens that a row sees",
            "tokens seen",
            [(f"{c['from']}–{c['to']}", c) for c in summary["by_length"]],
        ),
        by_layer=_table("By layer", "layer", [(str(layer["layer"]), layer) for layer in summary["layers"]]),
        by_head=_by_head(summary["heads"]),
        proof_sentences=_proof_sentences(proof),
        proof_table=_proof_table(proof),
        refused=_refused(summary["refused"]),
        notes=notes,
        command=command_line("audit", [summary["model"], summary["source"]], name, options, defaults),
        settings=settings_table(summary["settings"]),
        samples=samples,
    )
    return document(
        f"Audit of {_short_name(summary['model'])}",
        main,
        samples.view_data("audit", summary["model"]),
        head_note=(
            f"{counted(texts['number'], 'text')} of {summary['source']}; {counted(every['rows'], 'row')} of "
            f"{counted(len(summary['heads']), 'attention head')} of {summary['model']}"
        ),
        static=samples.static,
    )


def _short_name(model: str) -> str:
    """The last two parts of a path, which is what hubs call models as well."""
    return "/".join(PurePath(model).parts[-2:])


def _tiles(every: Mapping[str, Any], texts: Mapping[str, Any]) -> list[tuple[str, str]]:
    levels = every["levels"]
    return [
        (percent(levels["simplex"]["identifiable"]), "of the rows unique on the simplex"),
        (
            percent(levels["generatable"]["identifiable"]),
            "unique, at least nearby, of what the heads can generate",
        ),
        (percent(every["top_certain"]), "with a most attended token that is certain"),
        (percent(texts["truncated"]), "of the texts truncated"),
    ]


def _findings(
    every: Mapping[str, Any], proof: Mapping[str, Any] | None, nullities: Counter[tuple[int, int, int]]
) -> list[str]:
    simplex, generatable = every["levels"]["simplex"], every["levels"]["generatable"]
    share = simplex["identifiable"]
    if share == 1:
        said = [
            "Every row is unique on the simplex: no other distribution of weights gives the same output of the head."
        ]
    else:
        middle = median(k for _, _, k in nullities.elements() if k)
        directions = "1 direction" if middle == "1" else f"{middle} directions"
        said = [
            (f"{percent(share)} of the rows are" if share else "No row is")
            + " unique on the simplex. The weights of "
            + ("the others" if share else "each")
            + f" can move in {directions} (median) while nothing in the model changes: they are one of many attention "
            "maps that stand for the same output equally well."
        ]
    if generatable["identifiable"] is None:
        said.append(
            "Of the weights that the heads could generate with other queries nothing is said: see what is noted below."
        )
    else:
        said.append(
            f"Among the weights that the heads could generate with other queries, {percent(generatable['global'])} of "
            f"the rows are unique, and {percent(generatable['identifiable'])} at least nearby."
        )
    said.append(
        f"In {percent(every['top_certain'])} of the rows the most attended token is certain: it has the greatest "
        "weight in every distribution with the same output."
    )
    if every["tied"]:
        said.append(
            f"In {percent(every['tied'])} of the rows tokens are tied: equal keys and values, of which only the total "
            "is fixed."
        )
    if proof and proof["found"]:
        said.append(_proof_sentences(proof)[0])
    return said


def _table(caption: str, by: str, groups: Sequence[tuple[str, Mapping[str, Any]]], note: str = "") -> Table:
    rows: list[list[str | int]] = []
    for name, group in groups:
        free, simplex, generatable = (group["levels"][level] for level in ("free", "simplex", "generatable"))
        rows.append(
            [
                name,
                group["rows"],
                percent(free["identifiable"]),
                percent(simplex["identifiable"]),
                small(simplex["margin"]["0.5"]),
                percent(generatable["identifiable"]),
                percent(generatable["global"]),
                small(generatable["margin"]["0.5"]),
                percent(group["top_certain"]),
                percent(group["tied"]),
            ]
        )
    columns = (
        by,
        "rows",
        "free",
        "simplex",
        "its margin",
        "generatable",
        "global",
        "its margin",
        "top certain",
        "tied",
    )
    return Table(f"{caption}: share of rows that are identifiable, and more", columns, rows, note=note)


def _by_head(heads: Sequence[Mapping[str, Any]]) -> Table | None:
    if len(heads) == 1:
        return None
    shown = heads[:_MOST_HEADS]
    rows = [(f"{h['layer']}.{h['head']}", h) for h in shown]
    return _table("By head", "layer.head", rows, _first_of(shown, heads))


def _first_of(shown: Sequence[Any], every: Sequence[Any]) -> str:
    """What is said below a table that does not have all rows."""
    return (
        ""
        if len(shown) == len(every)
        else f"The first {len(shown)} of {len(every)}; all are in summary.json."
    )


def _proof_sentences(proof: Mapping[str, Any] | None) -> list[str]:
    if proof is None:
        return [
            "Not asked for: --prove N puts alternatives in place of the weights of N rows, runs the model with them, "
            "and says here how little its outputs moved."
        ]
    if not proof["asked"]:
        return ["Every row is unique on the simplex: there are no other weights to try."]
    if not proof["found"]:
        return [f"No alternative was found for {counted(proof['asked'], 'row')}."]
    largest = proof["largest_change"]
    moved = f"no output by more than {small(largest)} of the largest one" if largest else "no output at all"
    said = [
        f"Other weights in place of the model’s own, in {proof['found']} of {proof['asked']} rows tried, moved "
        f"{moved}; weights as far away that are no alternatives move it by "
        f"{small(proof['median_control_change'])} (median)."
    ]
    tops = proof["tops_changed"]
    said.append(
        f"The alternatives differ from the weights by {small(proof['median_distance'])} (median) and up to "
        f"{small(proof['largest_distance'])} of 1, the most that distributions can; in {tops} of "
        f"{proof['found']} another token is the most attended."
    )
    if proof["predictions_changed"] is not None:
        said.append(f"{counted(proof['predictions_changed'], 'prediction')} changed.")
    return said


def _proof_table(proof: Mapping[str, Any] | None) -> Table | None:
    if proof is None or not proof["rows"]:
        return None
    rows = sorted(proof["rows"], key=lambda row: -(row.get("distance") or 0))
    shown = rows[:_MOST_TRIED]
    return Table(
        "Rows, the farthest alternatives first",
        (
            "text",
            "layer.head",
            "row",
            "level",
            "distance",
            "output moved by",
            "control moved by",
            "another top",
        ),
        [
            [
                row["text_id"],
                f"{row['layer']}.{row['head']}",
                row["row"],
                row["level"],
                *_outcome(row),
            ]
            for row in shown
        ],
        texts=(3, 7),
        note=_first_of(shown, rows),
    )


def _outcome(row: Mapping[str, Any]) -> list[str]:
    if row["status"] != "found":
        return [row["status"].replace("_", " "), "–", "–", "–"]
    measured = (small(row[name]) for name in ("distance", "change", "control_change"))
    return [*measured, "yes" if row["top_changed"] else "no"]


def _refused(refused: Sequence[Mapping[str, Any]]) -> Table | None:
    heads: dict[str, dict[int, list[int]]] = {}
    for entry in refused:
        heads.setdefault(entry["reason"], {}).setdefault(entry["layer"], []).append(entry["head"])
    if not heads:
        return None
    return Table(
        "Heads of which nothing can be said",
        ("reason", "heads", "which"),
        [
            [
                reason,
                sum(map(len, layers.values())),
                "; ".join(
                    f"layer {layer}: {numbers(some)}" for layer, some in list(layers.items())[:_MOST_NOTES]
                ),
            ]
            for reason, layers in heads.items()
        ],
        texts=(2,),
    )


def _notes(notes: Sequence[Mapping[str, Any]]) -> list[str]:
    layers: dict[str, list[int]] = {}
    for entry in notes:
        layers.setdefault(entry["note"], []).append(entry["layer"])
    return [
        f"layer{'s' if len(some) > 1 else ''} {numbers(some)}: {note}"
        for note, some in list(layers.items())[:_MOST_NOTES]
    ]
