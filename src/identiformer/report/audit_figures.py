"""The figures of an audit: what its summary says, drawn."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from identiformer.report.figures import Plot, Theme
from identiformer.report.lengths_figure import lengths_plot
from identiformer.report.tables import Table, median, numbers, percent, small

LEVELS = ("free", "simplex", "generatable")
_MOST_NAMED = 20  # cells of a map in a row, with a number in each


def audit_plots(summary: Mapping[str, Any], nullities: Counter[tuple[int, int, int]]) -> list[Plot]:
    """All figures for which there are numbers.

    Args:
        summary: The contents of summary.json.
        nullities: How many rows of a layer that see so many tokens have such a nullity on the simplex.
    """
    limits = {layer["layer"]: layer["simplex_length"] for layer in summary["layers"]}
    seen: dict[int, Counter[int]] = {}
    for (layer, tokens, _), count in sorted(nullities.items()):
        seen.setdefault(layer, Counter())[tokens] += count
    plots = [lengths_plot(summary["texts"]["lengths"], seen, limits)]
    if nullities:
        plots += [
            nullity_plot(nullities, limits),
            margins_plot(summary["by_length"]),
            map_plot(
                "heads",
                "Rows identifiable on the simplex, by head",
                "are identifiable on the simplex",
                head_map(summary, lambda head: head["levels"]["simplex"]["identifiable"]),
            ),
            map_plot(
                "tops",
                "Rows whose most attended token is certain, by head",
                "have the same token at the top in all weights with the same output",
                head_map(summary, lambda head: head["top_certain"]),
            ),
        ]
    return plots


def nullity_plot(nullities: Counter[tuple[int, int, int]], limits: Mapping[int, int | None]) -> Plot:
    """In how many directions weights are free, by what a row sees, with the least that theory allows."""
    pairs = Counter[tuple[int, int]]()
    for (_, tokens, nullity), count in nullities.items():
        pairs[tokens, nullity] += count
    tokens, nullity = np.array(sorted(pairs)).T
    counts = np.array([pairs[pair] for pair in sorted(pairs)])
    marks = sorted({limit for limit in limits.values() if limit is not None})

    def draw(axes: Axes, theme: Theme) -> None:
        sizes = 8 + 60 * counts / counts.max()
        axes.scatter(
            tokens,
            nullity,
            s=sizes,
            color=theme.first,
            alpha=0.55,
            linewidths=0,
            label="rows (the larger, the more)",
        )
        line = np.array([0, *marks, max(int(tokens.max()), *marks) if marks else 0])
        for number, limit in enumerate(marks):
            axes.plot(
                line,
                np.maximum(line - limit, 0),
                color=theme.second,
                linestyle=("--", ":", "-.")[number % 3],
                label=f"n − {limit}: the least possible",
            )
        axes.grid(True)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.yaxis.set_major_locator(MaxNLocator(integer=True))
        axes.set_xlim(0, None)
        axes.set_ylim(min(-0.02 * float(nullity.max()), -0.05), None)
        axes.set_xlabel("tokens that a row sees, n")
        axes.set_ylabel("directions of freedom")

    total = int(counts.sum())
    free = int(counts[nullity > 0].sum())
    if not free:
        shows = (
            "No row has a direction in which its weights could move on the simplex and give the same output."
        )
    else:
        spread = np.repeat(nullity[nullity > 0], counts[nullity > 0])
        shows = (
            f"{percent(free / total)} of the rows are not unique on the simplex: their weights can move in "
            f"{median(spread.tolist())} directions (median; at most {spread.max()}) and give the same output."
        )
    at_least = sum(
        count
        for (layer, n, k), count in nullities.items()
        if (limit := limits.get(layer)) is not None and k == max(n - limit, 0)
    )
    known = sum(count for (layer, _, _), count in nullities.items() if limits.get(layer) is not None)
    if known:
        shows += (
            " Theory allows no fewer than n − min(d_v, d_e) − 1; "
            f"{percent(at_least / known)} of the rows have exactly that."
        )
    rows: list[list[str | int]] = []
    for low, high in _classes(int(tokens.max())):
        inside = (tokens >= low) & (tokens <= high)
        if inside.any():
            spread = np.repeat(nullity[inside], counts[inside])
            rows.append(
                [
                    f"{low}–{high}",
                    len(spread),
                    percent(float((spread == 0).mean())),
                    int(spread.min()),
                    median(spread.tolist()),
                    int(spread.max()),
                ]
            )
    return Plot(
        "nullity",
        "Directions of freedom against what a row sees",
        shows,
        "Points: rows by the tokens they see and their nullity; dashed line: the least nullity possible.",
        draw,
        Table(
            "Directions of freedom on the simplex",
            ("tokens seen", "rows", "rows without any", "least", "median", "most"),
            rows,
        ),
    )


def _classes(most: int) -> list[tuple[int, int]]:
    """Lengths from 1 to 8, then twice as long each, as summary.json has them."""
    classes = [(1, 8)]
    while classes[-1][1] < most:
        classes.append((classes[-1][1] + 1, 2 * classes[-1][1]))
    return classes


def margins_plot(classes: Sequence[Mapping[str, Any]]) -> Plot:
    """How far rows that are identifiable are from not being so, by length."""
    names = [f"{c['from']}–{c['to']}" for c in classes]
    margins = {level: [c["levels"][level]["margin"] for c in classes] for level in LEVELS}

    def draw(axes: Axes, theme: Theme) -> None:
        places = np.arange(len(classes))
        colours = (theme.second, theme.first, theme.third)
        drawn = False
        for shift, level, colour, marker in zip((-0.2, 0.0, 0.2), LEVELS, colours, "s^o", strict=True):
            known = [i for i, margin in enumerate(margins[level]) if margin["0.5"] is not None]
            if not known:
                continue
            low, middle, high = (
                np.array([margins[level][i][share] for i in known]) for share in ("0.05", "0.5", "0.95")
            )
            axes.errorbar(
                places[known] + shift,
                middle,
                yerr=[middle - low, high - middle],
                fmt=marker,
                color=colour,
                capsize=3,
                label=level,
            )
            drawn = True
        if drawn:
            axes.set_yscale("log")
        axes.yaxis.grid(True)
        axes.set_xticks(places, names)
        axes.set_xlim(-0.6, len(classes) - 0.4)
        axes.set_xlabel("tokens that a row sees")
        axes.set_ylabel("margin")

    known = [
        (name, margin["0.5"])
        for name, margin in zip(names, margins["simplex"], strict=True)
        if margin["0.5"] is not None
    ]
    shows = (
        "Of the rows that are identifiable, the margin says how far the weights are from not being so: 0 is not "
        "identifiable at all. "
    )
    if not known:
        shows += "On the simplex no row is identifiable."
    elif len(known) == 1:
        shows += f"On the simplex its median is {small(known[0][1])}, at {known[0][0]} tokens."
    else:
        (first, at_first), (last, at_last) = known[0], known[-1]
        verb = "falls" if at_last < at_first else "rises" if at_last > at_first else "stays"
        shows += (
            f"On the simplex its median {verb} from {small(at_first)} at {first} tokens to {small(at_last)} at "
            f"{last}."
        )
    rows = [
        [
            name,
            level,
            percent(c["levels"][level]["identifiable"]),
            *(small(margins[level][i][share]) for share in ("0.05", "0.5", "0.95")),
        ]
        for i, (name, c) in enumerate(zip(names, classes, strict=True))
        for level in LEVELS
        if c["levels"][level]["rows"]
    ]
    return Plot(
        "margins",
        "Margins of the rows that are identifiable",
        shows,
        "Points: median margin by length and level; bars from 5 % to 95 % of the rows; logarithmic scale.",
        draw,
        Table(
            "Margins of the rows that are identifiable: 5 %, half and 95 % of them have less",
            ("tokens seen", "level", "identifiable", "5 %", "median", "95 %"),
            rows,
            texts=(1,),
        ),
    )


def head_map(summary: Mapping[str, Any], of: Any) -> NDArray[np.float64]:
    """A number of each head, `[layers, heads]`; NaN where nothing can be said.

    Args:
        summary: The contents of summary.json.
        of: Gives the number, or `None`, of an entry of its heads.
    """
    heads = [*summary["heads"], *summary["refused"]]
    shares = np.full((max(h["layer"] for h in heads) + 1, max(h["head"] for h in heads) + 1), np.nan)
    for head in summary["heads"]:
        if (share := of(head)) is not None:
            shares[head["layer"], head["head"]] = share
    return shares


def map_plot(name: str, title: str, what: str, shares: NDArray[np.float64]) -> Plot:
    """A share of rows for each head, as a map of layers and heads.

    Args:
        name, title: Of the figure.
        what: What the rows do that are counted: "have ...".
        shares: `[layers, heads]`; NaN where nothing can be said.
    """
    layers, heads = (np.flatnonzero(~np.isnan(shares).all(axis=axis)).tolist() for axis in (1, 0))

    def draw(axes: Axes, theme: Theme) -> None:
        shown = shares[np.ix_(layers, heads)]
        grid = axes.imshow(shown, vmin=0, vmax=1, cmap="cividis", aspect="auto")
        if len(heads) <= _MOST_NAMED and len(layers) <= 2 * _MOST_NAMED:
            for layer, head in np.argwhere(~np.isnan(shown)).tolist():
                share = shown[layer, head]
                axes.text(
                    head,
                    layer,
                    f"{100 * share:.0f}",
                    ha="center",
                    va="center",
                    fontsize=8,
                    color="white" if share < 0.5 else "black",
                )
        every = max(1, len(heads) // _MOST_NAMED), max(1, len(layers) // _MOST_NAMED)
        axes.set_xticks(range(0, len(heads), every[0]), list(map(str, heads[:: every[0]])))
        axes.set_yticks(range(0, len(layers), every[1]), list(map(str, layers[:: every[1]])))
        axes.set_xlabel("head")
        axes.set_ylabel("layer")
        assert axes.figure is not None
        bar = axes.figure.colorbar(grid, ax=axes, label="% of the rows", ticks=[0, 0.25, 0.5, 0.75, 1])
        bar.ax.set_yticklabels(["0", "25", "50", "75", "100"])

    known = np.argwhere(~np.isnan(shares)).tolist()
    ordered = sorted(known, key=lambda place: (shares[tuple(place)], *place))
    least, most = (shares[tuple(ordered[i])] for i in (0, -1))
    if not known:
        shows = "Nothing can be said of any head."
    elif least == most:
        shows = f"In every head, {percent(float(least))} of the rows {what}."
    else:
        ends = [f"{percent(float(shares[a, b]))} (layer {a}, head {b})" for a, b in (ordered[0], ordered[-1])]
        shows = f"From {ends[0]} to {ends[1]} of a head’s rows {what}."
    return Plot(
        name,
        title,
        shows,
        f"Map of layers {numbers(layers)} and heads {numbers(heads)}, each cell with its share of rows in percent.",
        draw,
        Table(
            title,
            ("layer", *(f"head {head}" for head in heads)),
            [
                [
                    str(layer),
                    *(percent(None if np.isnan(share) else float(share)) for share in shares[layer, heads]),
                ]
                for layer in layers
            ],
        ),
        (7.2, min(1.4 + 0.32 * len(layers), 9.0)) if len(layers) > 2 else (7.2, 2.2),
    )
