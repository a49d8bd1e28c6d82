"""Lengths of texts as bars of whole numbers of tokens, with the identifiable length between two of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np
from matplotlib.axes import Axes

from identiformer.report.figures import Plot, Theme, percent_axis
from identiformer.report.tables import Table, numbers, percent

_BARS = 60
_STYLES = ("--", ":", "-.")


def lengths_plot(
    lengths: Sequence[tuple[int, int]], seen: Mapping[int, Counter[int]], limits: Mapping[int, int | None]
) -> Plot:
    """The lengths of texts, what rows see of them, and up to how much that rows can be identifiable.

    Args:
        lengths: `(tokens, texts)`: how many texts have so many tokens, before truncation.
        seen: For each layer, how many of its rows see so many tokens: fewer than the text has where it is truncated,
            where attention is local, or where no token sees a later one.
        limits: For each layer the most tokens of a row that can be identifiable on the simplex, where that is known.
    """
    texts = Counter(dict(lengths))
    groups = _groups(texts, seen)
    marks = _marks(limits)
    longest = max(texts)
    width = -(-longest // _BARS)
    # Edges lie between whole numbers, one of them where the first mark is: no bar stands on both sides of it.
    mark = min(marks, default=0)
    start = 0.5 - (-mark % width)
    edges = np.arange(start, longest + 0.5 + width, width)

    def draw(axes: Axes, theme: Theme) -> None:
        axes.hist(
            list(texts),
            bins=edges.tolist(),
            weights=[count / texts.total() for count in texts.values()],
            color=theme.first,
            label="texts",
        )
        for number, (layers, counts) in enumerate(groups):
            axes.stairs(
                np.histogram(list(counts), edges, weights=[c / counts.total() for c in counts.values()])[0],
                edges,
                color=theme.third,
                linewidth=1.5,
                linestyle=("-", *_STYLES)[number % 4],
                label=f"rows of {_layers(layers, seen)}, by what they see",
            )
        for number, (limit, layers) in enumerate(sorted(marks.items())):
            where = "" if len(marks) == 1 else f" ({_layers(layers, limits)})"
            axes.axvline(
                limit + 0.5,
                color=theme.second,
                linestyle=_STYLES[number % 3],
                label=f"{limit} tokens: the most that can be identifiable{where}",
            )
        axes.set_xlim(min(float(edges[0]), 0), max(longest, *marks, 1) * 1.04 + 1)
        percent_axis(axes.yaxis)
        axes.yaxis.grid(True)
        axes.set_xlabel("tokens, special ones included, before truncation")
        axes.set_ylabel("share of texts" + (" or rows" if groups else ""))

    columns = ["tokens", "texts", *(f"rows of {_layers(layers, seen)}" for layers, _ in groups)]
    rows: list[list[str | int | float | None]] = []
    for low, high in pairwise(edges.tolist()):
        inside = range(int(np.ceil(low)), int(np.floor(high)) + 1)
        cells = [sum(counts[n] for n in inside) for counts in (texts, *(counts for _, counts in groups))]
        if any(cells):
            first = max(inside.start, 1)
            rows.append([str(first) if len(inside) == 1 else f"{first}–{inside.stop - 1}", *cells])
    return Plot(
        "lengths",
        "Lengths of the texts",
        " ".join(_sentences(texts, seen, limits, marks)),
        "Bars: share of texts by number of tokens"
        + ("; dashed line: the most tokens that can be identifiable on the simplex." if marks else "."),
        draw,
        Table("Texts by length", columns, rows),
    )


def _marks(limits: Mapping[int, int | None]) -> dict[int, list[int]]:
    marks: dict[int, list[int]] = {}
    for layer, limit in limits.items():
        if limit is not None:
            marks.setdefault(limit, []).append(layer)
    return marks


def _groups(texts: Counter[int], seen: Mapping[int, Counter[int]]) -> list[tuple[list[int], Counter[int]]]:
    """Layers whose rows see something else than their whole text, up to where it is truncated; equal ones together."""
    groups: dict[tuple[tuple[int, float], ...], tuple[list[int], Counter[int]]] = {}
    for layer, counts in seen.items():
        most = max(counts)
        whole = Counter[int]()
        for length, count in texts.items():
            whole[min(length, most)] += count
        shares = _shares(counts)
        if shares != _shares(whole) or (most < max(texts) and most < max(map(max, seen.values()))):
            groups.setdefault(shares, ([], counts))[0].append(layer)
    return list(groups.values())


def _shares(counts: Counter[int]) -> tuple[tuple[int, float], ...]:
    return tuple((n, round(counts[n] / counts.total(), 9)) for n in sorted(counts))


def _layers(layers: Sequence[int], every: Mapping[int, object]) -> str:
    if len(layers) == len(every):
        return "all layers"
    return f"layer{'s' if len(layers) > 1 else ''} {numbers(layers)}"


def _sentences(
    texts: Counter[int],
    seen: Mapping[int, Counter[int]],
    limits: Mapping[int, int | None],
    marks: Mapping[int, list[int]],
) -> list[str]:
    ordered = np.repeat(sorted(texts), [texts[n] for n in sorted(texts)])
    median = int(np.sort(ordered)[(len(ordered) - 1) // 2])
    said = [
        f"Texts have {min(texts)} to {max(texts)} tokens, half of them at most {median}."
        if len(texts) > 1
        else f"Each text has {median} tokens."
    ]
    if not marks:
        return said
    if len(marks) == 1:
        (limit,) = marks
        said.append(f"A row that sees up to {limit} tokens can be identifiable on the simplex")
    else:
        parts = [f"{limit} in {_layers(layers, limits)}" for limit, layers in sorted(marks.items())]
        said.append(
            f"The most tokens that a row can see and be identifiable on the simplex are {'; '.join(parts)}"
        )
    known = {layer: counts for layer, counts in seen.items() if limits.get(layer) is not None}
    total = sum(counts.total() for counts in known.values())
    beyond = sum(
        count for layer, counts in known.items() for n, count in counts.items() if n > (limits[layer] or 0)
    )
    if total:
        said[-1] += f"; {percent(beyond / total)} of the rows see more." if beyond else "; no row sees more."
    else:
        over = sum(count for n, count in texts.items() if n > min(marks))
        said[-1] += (
            f"; {percent(over / texts.total())} of the texts are longer." if over else "; no text is longer."
        )
    most = max(map(max, seen.values()), default=0)
    local = [layer for layer, counts in seen.items() if max(counts) < most]
    if local:
        widest = max(max(seen[layer]) for layer in local)
        said.append(
            f"Rows of {_layers(local, seen)} see at most {widest} tokens, however long the text: their attention is "
            "local."
        )
    return said
