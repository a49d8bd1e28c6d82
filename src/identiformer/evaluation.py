"""How well predicted probabilities agree with the true labels, as plain numbers and as a table."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.metrics import accuracy_score, confusion_matrix, f1_score, log_loss

from identiformer.printable import printable

if TYPE_CHECKING:
    from rich.console import Group

BINS = 15  # as in Guo et al.
MOST_CLASSES_SHOWN = 12  # a wider confusion matrix does not fit a terminal


def classification_metrics(
    probabilities: np.ndarray, labels: np.ndarray, label_names: Sequence[str]
) -> dict[str, Any]:
    """Score predictions. The predicted class is the most probable one, the first of them in a tie.

    All C classes count, also those that no text of this split has: `macro_f1` is the plain mean of C values,
    and a class that is neither true nor predicted anywhere has an F1 of 0, as in scikit-learn with `labels=`
    all and `zero_division=0`. So numbers from splits of one data set are means over the same classes.

    Args:
        probabilities: shape [N, C], each row a distribution.
        labels: the true classes as integers 0 to C-1, shape [N].
        label_names: C names, in the order of the columns.

    Returns:
        A dict that `json.dumps` takes as it is: `accuracy`, `macro_f1`, `log_loss` (in nats; probabilities
        below 2.2e-16 count as that, so that it is finite), `calibration_error` (see
        `expected_calibration_error`), `confusion_matrix` (C lists of C counts, a row for a true class, a column
        for a predicted one), and `labels` (the names).

    Raises:
        ValueError: shapes do not fit together, N is 0, a row is not a distribution, a label is out of range.
    """
    distributions, truth = _checked(probabilities, labels, label_names)
    classes = np.arange(len(label_names))
    predicted = distributions.argmax(axis=1)  # [N]
    macro_f1 = f1_score(
        truth,
        predicted,
        labels=classes,
        average="macro",
        zero_division=0,  # pyright: ignore[reportArgumentType]  (inferred from the default, "warn")
    )
    return {
        "accuracy": float(accuracy_score(truth, predicted)),
        "macro_f1": float(macro_f1),
        "log_loss": float(log_loss(truth, distributions, labels=classes)),
        "calibration_error": expected_calibration_error(distributions.max(axis=1), predicted == truth),
        "confusion_matrix": confusion_matrix(truth, predicted, labels=classes).tolist(),
        "labels": [str(name) for name in label_names],
    }


@dataclass(frozen=True)
class LabelScores:
    """How well one label is told; what has nothing to divide by is 0.

    Args:
        texts: How many have it.
        predicted: How many are said to.
        precision, recall, f1: As usual.
    """

    texts: int
    predicted: int
    precision: float
    recall: float
    f1: float


def label_scores(confusion: ArrayLike) -> list[LabelScores]:
    """The scores of each label.

    Args:
        confusion: `[C, C]` counts, a row for a true label, a column for a predicted one.
    """
    counts = np.asarray(confusion)
    return [
        LabelScores(
            texts,
            predicted,
            hits / max(predicted, 1),
            hits / max(texts, 1),
            2 * hits / max(texts + predicted, 1),
        )
        for hits, texts, predicted in zip(
            counts.diagonal().tolist(), counts.sum(axis=1).tolist(), counts.sum(axis=0).tolist(), strict=True
        )
    ]


def expected_calibration_error(confidences: np.ndarray, correct: np.ndarray, bins: int = BINS) -> float:
    """How far confidence is from accuracy, on average over texts grouped by confidence.

    With the texts in bins B_1 ... B_M of equal width, B_m holding the confidences in ((m-1)/M, m/M],

        error = sum over m of |B_m| / N * |accuracy of B_m - mean confidence of B_m|

    as in section 3 of Guo et al., On Calibration of Modern Neural Networks, 2017 (arXiv 1706.04599).

    Args:
        confidences: the probability of each predicted class, shape [N].
        correct: whether it was the true class, shape [N].
        bins: M, their number.

    Returns:
        The error, from 0 (calibrated) to 1.
    """
    # Upper ends belong to their bin, and i / bins is the float nearest to one: 0.6 is in the ninth of fifteen.
    ends = np.arange(1, bins + 1) / bins
    bin_of = np.digitize(confidences, ends[:-1], right=True)  # [N], 0 to bins-1
    gaps = np.bincount(bin_of, weights=correct.astype(float) - confidences, minlength=bins)
    return float(np.abs(gaps).sum() / len(confidences))


def metrics_table(metrics: dict[str, Any]) -> "Group":
    """Lay the metrics out for a terminal: the numbers, then each class, then the confusion matrix.

    The last two appear for at most 12 classes; for more, a line says where to find them.

    Args:
        metrics: what `classification_metrics` returned, or the same read back from JSON.

    Returns:
        Something `rich` prints.
    """
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text  # names of labels are data: as `Text`, "[red]" is no markup

    summary = Table("metric", title="Scores")
    summary.add_column("value", justify="right")
    for key in ("accuracy", "macro_f1", "log_loss", "calibration_error"):
        summary.add_row(key.replace("_", " ").replace("f1", "F1"), f"{metrics[key]:.4f}")

    names = [Text(printable(name)) for name in metrics["labels"]]
    if len(names) > MOST_CLASSES_SHOWN:
        note = f"{len(names)} classes are too many to show one by one; the confusion matrix is in the JSON."
        return Group(summary, Text(note))

    counts = np.array(metrics["confusion_matrix"])  # [C, C], true by predicted
    per_class = Table("class", title="Classes")
    for heading in ("texts", "precision", "recall", "F1"):
        per_class.add_column(heading, justify="right")
    for name, row, column, hits in zip(names, counts.sum(1), counts.sum(0), counts.diagonal(), strict=True):
        scores = (hits / max(column, 1), hits / max(row, 1), 2 * hits / max(row + column, 1))
        per_class.add_row(name, str(row), *(f"{score:.4f}" for score in scores))

    confusion = Table("true \\ predicted", title="Confusion matrix")
    for name in names:
        confusion.add_column(name, justify="right")
    for name, row in zip(names, counts, strict=True):
        confusion.add_row(name, *(str(count) for count in row))
    return Group(summary, per_class, confusion)


def _checked(
    probabilities: np.ndarray, labels: np.ndarray, label_names: Sequence[str]
) -> tuple[np.ndarray, np.ndarray]:
    """Return probabilities in double precision whose rows sum to 1, and labels as integers."""
    distributions = np.asarray(probabilities, dtype=np.float64)
    truth = np.asarray(labels)
    classes = len(label_names)
    if distributions.ndim != 2 or truth.shape != distributions.shape[:1] or distributions.shape[1] != classes:
        raise ValueError(
            f"classification_metrics: probabilities of shape {distributions.shape}, labels of shape "
            f"{truth.shape} and {classes} label names do not fit; they must be [N, C], [N] and C."
        )
    if len(truth) == 0 or classes < 2:
        raise ValueError(
            f"classification_metrics: {len(truth)} texts, {classes} classes; give 1 and 2 or more."
        )
    if not np.issubdtype(truth.dtype, np.integer) or truth.min() < 0 or truth.max() >= classes:
        raise ValueError(
            f"classification_metrics: labels must be integers from 0 to {classes - 1}; they are of type "
            f"{truth.dtype}, from {truth.min()} to {truth.max()}."
        )
    sums = distributions.sum(axis=1, keepdims=True)  # [N, 1]
    # 0.01 is what rounding to bfloat16 can move a sum; logits passed by mistake are further off.
    wrong = ~((distributions >= 0).all(axis=1) & (np.abs(sums[:, 0] - 1) <= 0.01))  # NaN is wrong, too
    if wrong.any():
        row = int(wrong.argmax())
        raise ValueError(
            f"classification_metrics: row {row} of probabilities is not a distribution: {distributions[row]}; "
            "apply a softmax to logits first."
        )
    return distributions / sums, truth
