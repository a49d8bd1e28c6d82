"""Figures: what one is, and how it becomes a PNG file, or a picture inside of a page."""

from __future__ import annotations

import base64
import io
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from identiformer.output import whole_file
from identiformer.report.tables import Table


@dataclass(frozen=True)
class Theme:
    """The colours of a figure. `first` to `third` are told apart by colour-blind people (Okabe and Ito's)."""

    ink: str
    faint: str
    first: str
    second: str
    third: str


LIGHT = Theme(ink="#1f2328", faint="#d0d7de", first="#0072B2", second="#D55E00", third="#009E73")
DARK = Theme(ink="#e6edf3", faint="#3d444d", first="#56B4E9", second="#E69F00", third="#3CC9A0")


@dataclass(frozen=True)
class Plot:
    """A figure that can be drawn, what it shows, and its numbers.

    Args:
        name: Of its file, and of its place in a page.
        title: What it is of.
        shows: A sentence or two on what is to be seen, computed from the numbers.
        alt: What kind of picture it is, for those who do not see it.
        draw: Draws it.
        table: Its numbers.
        size: In inches.
    """

    name: str
    title: str
    shows: str
    alt: str
    draw: Callable[[Axes, Theme], None]
    table: Table
    size: tuple[float, float] = (7.2, 3.7)


def write_png(plots: Iterable[Plot], folder: Path) -> list[Path]:
    """Draw figures into a folder, which is made where it is missing, as PNG files; gives the files."""
    folder.mkdir(parents=True, exist_ok=True)
    files: list[Path] = []
    for plot in plots:
        files.append(folder / f"{plot.name}.png")
        with whole_file(files[-1], "wb") as handle:
            handle.write(_drawn(plot, LIGHT, "png"))
    return files


@dataclass(frozen=True)
class Picture:
    """A figure inside of a page: the addresses of its light and its dark variant, which hold all of it."""

    plot: Plot
    light: str
    dark: str


def picture(plot: Plot) -> Picture:
    """Draw a figure for a page."""
    light, dark = (
        "data:image/svg+xml;base64," + base64.b64encode(_drawn(plot, theme, "svg")).decode()
        for theme in (LIGHT, DARK)
    )
    return Picture(plot, light, dark)


def _drawn(plot: Plot, theme: Theme, kind: str) -> bytes:
    """The same numbers give the same bytes: no dates, no versions, no random names."""
    svg = kind == "svg"
    settings: dict[Any, Any] = {
        "svg.hashsalt": "identiformer",
        "svg.fonttype": "none",
        "font.size": 10,
        "text.color": theme.ink,
        "axes.edgecolor": theme.ink,
        "axes.labelcolor": theme.ink,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.axisbelow": True,
        "axes.titlesize": 11,
        "grid.color": theme.faint,
        "grid.linewidth": 0.6,
        "xtick.color": theme.ink,
        "ytick.color": theme.ink,
        "legend.frameon": False,
        "legend.fontsize": 9,
    }
    with matplotlib.rc_context(settings):
        # In a page there is less room: letters are larger beside the rest.
        width, height = plot.size
        figure = Figure(figsize=(0.8 * width, 0.85 * height) if svg else plot.size, layout="constrained")
        FigureCanvasAgg(figure)
        axes = figure.add_subplot()
        plot.draw(axes, theme)
        _legend_below(figure, axes)
        if not svg:  # in a page the title is a heading
            axes.set_title(plot.title, loc="left")
        target = io.BytesIO()
        nothing = ("Date", "Creator", "Format", "Type") if svg else ("Software",)
        figure.savefig(target, format=kind, dpi=150, transparent=svg, metadata=dict.fromkeys(nothing))
    return target.getvalue()


def percent_axis(axis: Axis) -> None:
    """Say shares as percentages."""
    axis.set_major_formatter(FuncFormatter(lambda share, _: f"{round(100 * share, 6):g} %"))


def _legend_below(figure: Figure, axes: Axes) -> None:
    """The legend, where it covers nothing."""
    handles, labels = axes.get_legend_handles_labels()
    if handles:
        figure.legend(
            handles, labels, loc="outside lower center", ncols=1 if max(map(len, labels)) > 34 else 3
        )
