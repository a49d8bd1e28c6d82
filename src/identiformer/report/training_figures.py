"""The figures of a training run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from identiformer.report.figures import Plot, Theme, percent_axis
from identiformer.report.tables import Table, percent

_BINS = 10


def curve_plot(log: Sequence[Mapping[str, Any]], best_epoch: int) -> Plot:
    """Loss and validation accuracy, epoch by epoch.

    Args:
        log: An entry for each epoch, as training_log.jsonl has them.
        best_epoch: The one whose weights were kept.
    """
    epochs = [round(entry["epoch"]) for entry in log]
    accuracies = [entry["valid_accuracy"] for entry in log]
    losses = [entry.get("train_loss") for entry in log], [entry.get("valid_log_loss") for entry in log]

    def draw(axes: Axes, theme: Theme) -> None:
        right = axes.twinx()
        for loss, colour, marker, name in zip(
            losses, (theme.second, theme.third), "s^", ("training loss", "validation log loss"), strict=True
        ):
            known = [(x, y) for x, y in zip(epochs, loss, strict=True) if y is not None]
            if known:
                axes.plot(
                    *zip(*known, strict=True),
                    marker=marker,
                    markersize=4,
                    linestyle="--",
                    color=colour,
                    label=name,
                )
        axes.plot([], [], marker="o", markersize=4, color=theme.first, label="validation accuracy (right)")
        right.plot(epochs, accuracies, marker="o", markersize=4, color=theme.first)
        axes.axvline(best_epoch, color=theme.ink, linewidth=0.8, linestyle=":", label="epoch kept")
        right.spines["right"].set_visible(True)
        percent_axis(right.yaxis)
        axes.set_ylim(0, None)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.yaxis.grid(True)
        axes.set_xlabel("epoch")
        axes.set_ylabel("loss (nats)")
        right.set_ylabel("accuracy")

    best = next(
        (accuracy for epoch, accuracy in zip(epochs, accuracies, strict=True) if epoch == best_epoch),
        max(accuracies),
    )
    shows = (
        f"Validation accuracy is best after epoch {best_epoch} of {max(epochs)}, with {percent(best)}: these are the "
        "weights that were kept."
    )
    return Plot(
        "curve",
        "Epoch by epoch",
        shows,
        "Lines by epoch: training loss, validation log loss and validation accuracy.",
        draw,
        Table(
            "Epochs",
            ("epoch", "training loss", "validation log loss", "validation accuracy"),
            [
                [
                    str(epoch),
                    *("–" if loss[i] is None else f"{loss[i]:.4f}" for loss in losses),
                    percent(accuracies[i]),
                ]
                for i, epoch in enumerate(epochs)
            ],
        ),
    )


def reliability_plot(confidences: NDArray[np.float64], correct: NDArray[np.bool_], error: float) -> Plot:
    """How often predictions are right, by how sure the model is of them (Guo et al. 2017, arXiv 1706.04599).

    Args:
        confidences: `[N]`, the probability of each predicted label.
        correct: `[N]`, whether it is the true one.
        error: The calibration error, from metrics.json.
    """
    ends = np.arange(1, _BINS + 1) / _BINS
    place = np.digitize(confidences, ends[:-1], right=True)
    counts = np.bincount(place, minlength=_BINS)
    filled = np.flatnonzero(counts)
    accuracy = np.bincount(place, weights=correct, minlength=_BINS)[filled] / counts[filled]
    confidence = np.bincount(place, weights=confidences, minlength=_BINS)[filled] / counts[filled]

    def draw(axes: Axes, theme: Theme) -> None:
        axes.plot([0, 1], [0, 1], color=theme.second, linestyle="--", label="as often right as it is sure")
        axes.scatter(
            confidence,
            accuracy,
            s=25 + 200 * counts[filled] / counts.max(),
            color=theme.first,
            alpha=0.7,
            linewidths=0,
            label="texts (the larger, the more)",
        )
        percent_axis(axes.xaxis)
        percent_axis(axes.yaxis)
        axes.set_xlim(0, 1.04)
        axes.set_ylim(-0.05, 1.06)
        axes.grid(True)
        axes.set_xlabel("how sure the model is (probability of its label)")
        axes.set_ylabel("how often it is right")

    gap = float(confidences.mean() - correct.mean())
    manner = "surer than it is right" if gap > 0 else "right more often than it is sure"
    shows = (
        f"On average the model is {percent(float(confidences.mean()))} sure and right in "
        f"{percent(float(correct.mean()))} of the test texts: {manner}, by {abs(100 * gap):.1f} points. Over groups "
        f"of equally sure texts the difference is {100 * error:.1f} points on average (the calibration error)."
    )
    return Plot(
        "reliability",
        "Can its probabilities be trusted?",
        shows,
        "Points: share of right predictions by probability; dashed line: where both are the same.",
        draw,
        Table(
            "Test texts by the probability of their predicted label",
            ("probability", "texts", "mean probability", "right"),
            [
                [
                    f"{100 * i // _BINS}–{100 * (i + 1) // _BINS} %",
                    int(counts[i]),
                    percent(float(confidence[j])),
                    percent(float(accuracy[j])),
                ]
                for j, i in enumerate(filled.tolist())
            ],
        ),
    )
