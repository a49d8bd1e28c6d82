"""The figures of an audit: one function each, from summary.json's contents to a PNG file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from numpy.typing import NDArray

from identiformer.auditing.summary import share_map, top_map
from identiformer.identifiability import Level
from identiformer.output import whole_file

# Okabe and Ito's colours, which colour-blind people tell apart.
_BLUE, _ORANGE, _GREEN = "#0072B2", "#D55E00", "#009E73"
_OF_LEVEL = {Level.FREE: _ORANGE, Level.SIMPLEX: _BLUE, Level.GENERATABLE: _GREEN}


def draw_figures(folder: Path, summary: dict[str, Any], nullities: Counter[tuple[int, int]]) -> list[Path]:
    """Draw all figures into a folder; gives the files. A figure for which there is no number is left out.

    Args:
        folder: Made where it is missing.
        summary: As `Summary.to_dict` gives it.
        nullities: How often a row that sees so many tokens has such a nullity on the simplex.
    """
    lengths = {layer["simplex_length"] for layer in summary["layers"]} - {None}
    figures: dict[str, Callable[[Axes], None]] = {
        "lengths": lambda axes: _lengths(axes, summary["texts"]["lengths"], lengths)
    }
    if nullities:
        figures |= {
            "nullity": lambda axes: _nullity(axes, nullities, lengths),
            "margins": lambda axes: _margins(axes, summary["by_length"]),
            "heads": lambda axes: _heads(
                axes, share_map(summary, Level.SIMPLEX), "identifiable on the simplex"
            ),
            "tops": lambda axes: _heads(axes, top_map(summary), "whose top token is certain"),
        }
    folder.mkdir(parents=True, exist_ok=True)
    drawn: list[Path] = []
    for name, draw in figures.items():
        figure = Figure(figsize=(7, 4.2), layout="constrained")
        FigureCanvasAgg(figure)
        draw(figure.add_subplot())
        with whole_file(folder / f"{name}.png", "wb") as handle:
            # Without the version of matplotlib, the same audit gives the same file.
            figure.savefig(handle, format="png", dpi=150, metadata={"Software": None})
        drawn.append(folder / f"{name}.png")
    return drawn


def _lengths(axes: Axes, lengths: list[tuple[int, int]], marks: set[int]) -> None:
    values = np.array([length for length, _ in lengths])
    counts = np.array([count for _, count in lengths])
    width = -(-(int(values.max()) + 1) // 60)  # whole numbers of tokens
    bins = np.arange(0, values.max() + width + 1, width)
    axes.hist(values, bins=bins.tolist(), weights=counts, color=_BLUE)
    for mark in sorted(marks):
        axes.axvline(mark + 0.5, color=_ORANGE, linestyle="--")
    if marks:
        axes.plot([], [], color=_ORANGE, linestyle="--", label="longest that is identifiable on the simplex")
        axes.legend()
    axes.set_xlim(0, max(values.max(), *marks, 1) * 1.05)
    axes.set_xlabel("tokens of a text, before truncation")
    axes.set_ylabel("texts")
    axes.set_title("Lengths of the texts")


def _nullity(axes: Axes, nullities: Counter[tuple[int, int]], lengths: set[int]) -> None:
    tokens, nullity = np.array(sorted(nullities)).T
    counts = np.array([nullities[pair] for pair in sorted(nullities)])
    sizes = 8 + 60 * counts / counts.max()
    axes.scatter(
        tokens, nullity, s=sizes, color=_BLUE, alpha=0.5, linewidths=0, label="rows (area: how many)"
    )
    line = np.arange(0, tokens.max() + 1)
    for number, longest in enumerate(sorted(lengths)):
        axes.plot(
            line,
            np.maximum(line - longest, 0),
            color=_ORANGE,
            linestyle="--",
            label="n − min(d_v, d_e) − 1, the least possible" if number == 0 else None,
        )
    axes.legend()
    axes.set_xlabel("tokens that a row sees, n")
    axes.set_ylabel("nullity on the simplex")
    axes.set_title("Directions in which the weights can move unseen")


def _margins(axes: Axes, classes: list[dict[str, Any]]) -> None:
    names = [f"{c['from']}–{c['to']}" for c in classes]
    places = np.arange(len(classes))
    drawn = False
    for shift, level in zip((-0.2, 0.0, 0.2), Level, strict=True):
        margins = [c["levels"][level.value]["margin"] for c in classes]
        known = [i for i, margin in enumerate(margins) if margin["0.5"] is not None]
        if not known:
            continue
        middle = np.array([margins[i]["0.5"] for i in known])
        low = middle - np.array([margins[i]["0.05"] for i in known])
        high = np.array([margins[i]["0.95"] for i in known]) - middle
        axes.errorbar(
            places[known] + shift,
            middle,
            yerr=[low, high],
            fmt="o",
            color=_OF_LEVEL[level],
            capsize=3,
            label=level.value,
        )
        drawn = True
    if drawn:
        axes.set_yscale("log")
        axes.legend(title="level")
    axes.set_xticks(places, names)
    axes.set_xlabel("tokens that a row sees")
    axes.set_ylabel("margin (median, 5 % to 95 %)")
    axes.set_title("Margins of the rows that are identifiable")


def _heads(axes: Axes, shares: NDArray[np.float64], what: str) -> None:
    picture = axes.imshow(shares, vmin=0, vmax=1, cmap="cividis", aspect="auto")
    for layer, head in np.argwhere(~np.isnan(shares)).tolist():
        share = shares[layer, head]
        colour = "white" if share < 0.5 else "black"
        axes.text(head, layer, f"{share:.0%}", ha="center", va="center", fontsize=7, color=colour)
    axes.set_xticks(range(shares.shape[1]))
    axes.set_yticks(range(shares.shape[0]))
    axes.set_xlabel("head")
    axes.set_ylabel("layer")
    axes.set_title(f"Rows {what}")
    assert axes.figure is not None
    axes.figure.colorbar(picture, ax=axes, label="share of rows")
