"""Figures: the same bytes from the same numbers, light and dark, with what they show and their numbers."""

from __future__ import annotations

import base64
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from identiformer.report.audit_figures import map_plot, margins_plot, nullity_plot
from identiformer.report.figures import DARK, LIGHT, Plot, picture, write_png
from identiformer.report.lengths_figure import lengths_plot
from identiformer.report.training_figures import curve_plot, reliability_plot

LENGTHS = [(3, 2), (5, 3), (7, 1), (11, 4)]
WHOLE = Counter({3: 2, 5: 3, 7: 1, 11: 4})


def drawn(plot: Plot) -> Axes:
    axes = Figure().add_subplot()
    plot.draw(axes, LIGHT)
    return axes


def svg(address: str) -> str:
    head, _, data = address.partition(",")
    assert head == "data:image/svg+xml;base64"
    return base64.b64decode(data).decode()


def test_the_same_numbers_give_the_same_bytes(tmp_path: Path) -> None:
    plots = [lengths_plot(LENGTHS, {0: WHOLE}, {0: 5}) for _ in range(2)]
    pictures = [picture(plot) for plot in plots]
    assert pictures[0].light == pictures[1].light
    files = [write_png([plot], tmp_path / str(i))[0] for i, plot in enumerate(plots)]
    assert files[0].name == "lengths.png"
    assert files[0].read_bytes() == files[1].read_bytes()
    assert "<dc:date>" not in svg(pictures[0].light)


def test_the_dark_variant_has_the_colours_of_the_dark(tmp_path: Path) -> None:
    made = picture(lengths_plot(LENGTHS, {0: WHOLE}, {0: 5}))
    for address, own, other in ((made.light, LIGHT, DARK), (made.dark, DARK, LIGHT)):
        text = svg(address).lower()
        assert own.ink.lower() in text
        assert own.first.lower() in text
        assert other.first.lower() not in text


# Lengths


@pytest.mark.parametrize("longest", [11, 130, 700])
@pytest.mark.parametrize("limit", [5, 33])
def test_no_bar_stands_on_both_sides_of_a_limit(longest: int, limit: int) -> None:
    axes = drawn(lengths_plot([(3, 1), (longest, 2)], {}, {0: limit}))
    (line,) = (line for line in axes.lines if line.get_linestyle() == "--")
    assert line.get_xdata()[0] == limit + 0.5  # pyright: ignore[reportIndexIssue]
    bars = [
        (bar.get_x(), bar.get_x() + bar.get_width()) for bar in axes.patches if isinstance(bar, Rectangle)
    ]
    assert all(not low < limit + 0.5 < high for low, high in bars)
    assert any(low < longest < high for low, high in bars)
    # Whole numbers of tokens in each: edges lie between them.
    assert {low % 1 for low, _ in bars} == {0.5}


def test_rows_beyond_the_limit_are_counted() -> None:
    plot = lengths_plot(LENGTHS, {0: WHOLE, 1: WHOLE}, {0: 5, 1: 5})
    assert plot.shows == (
        "Texts have 3 to 11 tokens, half of them at most 5. A row that sees up to 5 tokens can be identifiable on the "
        "simplex; 50 % of the rows see more."
    )
    assert plot.table.columns == ["tokens", "texts"]
    assert [row[:2] for row in plot.table.rows] == [["3", 2], ["5", 3], ["7", 1], ["11", 4]]


def test_layers_with_local_attention_are_told_apart() -> None:
    local = Counter({3: 2, 4: 8})
    plot = lengths_plot(LENGTHS, {0: WHOLE, 1: local, 2: local}, {0: 5, 1: 5, 2: 5})
    assert "Rows of layers 1, 2 see at most 4 tokens, however long the text" in plot.shows
    # 5 of 30 rows.
    assert "16.7 % of the rows see more" in plot.shows
    assert plot.table.columns == ["tokens", "texts", "rows of layers 1, 2"]
    assert [row[2] for row in plot.table.rows] == [2, 8, 0, 0, 0]
    assert "rows of layers 1, 2, by what they see" in drawn(plot).get_legend_handles_labels()[1]


def test_layers_with_other_limits_have_lines_of_their_own() -> None:
    plot = lengths_plot(LENGTHS, {0: WHOLE, 1: WHOLE}, {0: 5, 1: 9})
    assert "5 in layer 0; 9 in layer 1; 45 % of the rows see more" in plot.shows
    marks = [line.get_xdata()[0] for line in drawn(plot).lines]  # pyright: ignore[reportIndexIssue]
    assert marks == [5.5, 9.5]


def test_texts_that_are_truncated_are_no_local_attention() -> None:
    cut = Counter({3: 2, 5: 3, 7: 5})
    plot = lengths_plot(LENGTHS, {0: cut, 1: cut}, {0: None, 1: None})
    assert plot.shows == "Texts have 3 to 11 tokens, half of them at most 5."
    assert plot.table.columns == ["tokens", "texts"]


# Audits


def test_the_nullity_figure_counts_rows_with_freedom_and_those_at_the_least() -> None:
    rows = Counter({(0, 5, 0): 4, (0, 11, 6): 3, (1, 11, 7): 1, (0, 5, 1): 2})
    plot = nullity_plot(rows, {0: 5, 1: 5})
    assert plot.shows == (
        "60 % of the rows are not unique on the simplex: their weights can move in 6 directions (median; at most 7) "
        "and give the same output. Theory allows no fewer than n − min(d_v, d_e) − 1; 70 % of the rows have exactly "
        "that."
    )
    assert [list(row) for row in plot.table.rows] == [
        ["1–8", 6, "66.7 %", 0, "0", 1],
        ["9–16", 4, "0 %", 6, "6", 7],
    ]
    (line,) = drawn(plot).lines
    np.testing.assert_array_equal(line.get_xydata(), [[0, 0], [5, 0], [11, 6]])


def test_where_all_rows_are_unique_nothing_is_said_of_directions() -> None:
    assert nullity_plot(Counter({(0, 5, 0): 4}), {0: None}).shows == (
        "No row has a direction in which its weights could move on the simplex and give the same output."
    )


def test_margins_are_followed_from_short_to_long() -> None:
    def level(median: float | None) -> dict[str, object]:
        margin = dict.fromkeys(("0.05", "0.25", "0.5", "0.75", "0.95"), median)
        return {"rows": 3, "identifiable": None if median is None else 1.0, "margin": margin}

    classes = [
        {"from": low, "to": high, "levels": dict.fromkeys(("free", "simplex", "generatable"), level(median))}
        for low, high, median in ((1, 8, 0.5), (9, 16, 0.02), (17, 32, None))
    ]
    plot = margins_plot(classes)
    assert plot.shows.endswith("its median falls from 0.5 at 1–8 tokens to 0.02 at 9–16.")
    assert len(plot.table.rows) == 9
    assert drawn(plot).get_yscale() == "log"


def test_the_map_names_its_least_and_its_greatest() -> None:
    shares = np.array([[0.5, 1.0, np.nan], [np.nan, 0.25, np.nan], [np.nan] * 3])
    plot = map_plot("heads", "Title", "are unique", shares)
    assert plot.shows == "From 25 % (layer 1, head 1) to 100 % (layer 0, head 1) of a head’s rows are unique."
    # A layer or head of which nothing is known is left out.
    assert plot.table.columns == ("layer", "head 0", "head 1")
    assert plot.table.rows == [["0", "50 %", "100 %"], ["1", "–", "25 %"]]
    assert map_plot("heads", "Title", "are unique", np.full((2, 3), 0.5)).shows == (
        "In every head, 50 % of the rows are unique."
    )


def test_a_map_of_many_heads_has_no_number_in_each_cell() -> None:
    assert drawn(map_plot("heads", "Title", "are unique", np.full((3, 7), 0.5))).texts
    many = map_plot("heads", "Title", "are unique", np.full((3, 64), 0.5))
    assert not drawn(many).texts
    assert len(many.table.columns) == 65


# Trainings


def test_the_curve_names_the_epoch_kept() -> None:
    log = [
        {
            "epoch": float(i + 1),
            "valid_accuracy": accuracy,
            "train_loss": 0.5 - 0.1 * i,
            "valid_log_loss": 0.7,
        }
        for i, accuracy in enumerate((0.5, 0.75, 0.7))
    ]
    plot = curve_plot(log, 2)
    assert plot.shows.startswith("Validation accuracy is best after epoch 2 of 3, with 75 %")
    assert plot.table.rows[1] == ["2", "0.4000", "0.7000", "75 %"]


def test_reliability_compares_confidence_with_what_is_right() -> None:
    confidences = np.array([0.55, 0.55, 0.95, 0.95])
    plot = reliability_plot(confidences, np.array([True, False, True, True]), 0.05)
    assert "75 % sure and right in 75 % of the test texts" in plot.shows
    assert "difference is 5.0 points" in plot.shows
    assert plot.table.rows == [["50–60 %", 2, "55 %", "50 %"], ["90–100 %", 2, "95 %", "100 %"]]
