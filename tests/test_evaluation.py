import json
import math

import numpy as np
import pytest
from rich.console import Console

from identiformer.evaluation import classification_metrics, expected_calibration_error, metrics_table

# Five texts, three classes. True: 0 0 1 1 2, predicted: 0 1 1 1 0.
PROBABILITIES = np.array(
    [
        [0.9, 0.1, 0.0],
        [0.2, 0.7, 0.1],
        [0.1, 0.8, 0.1],
        [0.3, 0.5, 0.2],
        [0.6, 0.0, 0.4],
    ]
)
LABELS = np.array([0, 0, 1, 1, 2])
NAMES = ["bad", "good", "mixed"]


def printed(metrics, width=100):
    console = Console(width=width, color_system=None)
    with console.capture() as capture:
        console.print(metrics_table(metrics))
    return capture.get()


def test_numbers_worked_by_hand():
    metrics = classification_metrics(PROBABILITIES, LABELS, NAMES)
    assert list(metrics) == [
        "accuracy",
        "macro_f1",
        "log_loss",
        "calibration_error",
        "confusion_matrix",
        "labels",
    ]
    assert metrics["accuracy"] == 3 / 5
    # F1 = 2 hits / (true + predicted): 2/4, 4/5, 0/1.
    assert metrics["macro_f1"] == pytest.approx((1 / 2 + 4 / 5 + 0) / 3)
    truth = [0.9, 0.2, 0.8, 0.5, 0.4]
    assert metrics["log_loss"] == pytest.approx(-sum(map(math.log, truth)) / 5)
    # Five confidences in five bins: 0.9 right, 0.7 wrong, 0.8 right, 0.5 right, 0.6 wrong.
    assert metrics["calibration_error"] == pytest.approx((0.1 + 0.7 + 0.2 + 0.5 + 0.6) / 5)
    # A row for each true class.
    assert metrics["confusion_matrix"] == [[1, 1, 0], [0, 2, 0], [1, 0, 0]]
    assert metrics["labels"] == NAMES
    assert json.loads(json.dumps(metrics)) == metrics


def test_classes_absent_from_the_split_count_as_zero():
    metrics = classification_metrics(np.eye(4)[[1, 1]], np.array([1, 1]), list("abcd"))
    assert metrics["accuracy"] == 1
    assert metrics["macro_f1"] == 1 / 4
    assert metrics["log_loss"] == pytest.approx(0, abs=1e-12)
    assert metrics["calibration_error"] == 0
    assert metrics["confusion_matrix"] == [[0, 0, 0, 0], [0, 2, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0]]


def test_one_text_of_one_class():
    metrics = classification_metrics(np.array([[0.25, 0.75]]), np.array([0]), ["no", "yes"])
    assert metrics == {
        "accuracy": 0.0,
        "macro_f1": 0.0,
        "log_loss": pytest.approx(math.log(4)),
        "calibration_error": 0.75,
        "confusion_matrix": [[0, 1], [0, 0]],
        "labels": ["no", "yes"],
    }


def test_certain_and_wrong_is_finite():
    metrics = classification_metrics(np.array([[1.0, 0.0]]), np.array([1]), ["no", "yes"])
    assert metrics["log_loss"] == pytest.approx(-math.log(2**-52))
    assert metrics["calibration_error"] == 1


@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float32, 1e-6), (np.float16, 1e-3)])
def test_low_precision_gives_no_warning(dtype, tolerance):
    exact = classification_metrics(PROBABILITIES, LABELS, NAMES)
    rough = classification_metrics(PROBABILITIES.astype(dtype), LABELS.astype(np.int32), NAMES)
    assert rough["log_loss"] == pytest.approx(exact["log_loss"], rel=tolerance)
    assert rough["confusion_matrix"] == exact["confusion_matrix"]


def test_the_first_of_equal_probabilities_is_predicted():
    metrics = classification_metrics(np.full((3, 2), 0.5), np.array([0, 1, 1]), ["a", "b"])
    assert metrics["confusion_matrix"] == [[1, 0], [2, 0]]


@pytest.mark.parametrize(
    ("probabilities", "labels", "message"),
    [
        (PROBABILITIES[0], LABELS, r"shape \(3,\)"),
        (PROBABILITIES, LABELS[:4], r"shape \(4,\)"),
        (PROBABILITIES[:, :2], LABELS, r"\(5, 2\).* 3 label names"),
        (PROBABILITIES[:0], LABELS[:0], "0 texts"),
        (PROBABILITIES, LABELS + 1, "from 1 to 3"),
        (PROBABILITIES, LABELS - 1, "from -1 to 1"),
        (PROBABILITIES, LABELS.astype(float), "float64"),
        (PROBABILITIES * [[1], [1], [3], [1], [1]], LABELS, "row 2 .* softmax"),
        (PROBABILITIES * np.nan, LABELS, "row 0"),
        (PROBABILITIES + np.array([0.5, -0.5, 0.0]), LABELS, "row 0"),
    ],
)
def test_what_does_not_fit_is_refused(probabilities, labels, message):
    with pytest.raises(ValueError, match=message):
        classification_metrics(probabilities, labels, NAMES)


# Calibration


def test_calibration_averages_within_a_bin():
    # 0.61 and 0.65 share the tenth bin (0.6, 0.667]: accuracy 1/2, confidence 0.63; 0.95 is alone and right.
    confidences, correct = np.array([0.61, 0.65, 0.95]), np.array([True, False, True])
    expected = 2 / 3 * abs(1 / 2 - 0.63) + 1 / 3 * 0.05
    assert expected_calibration_error(confidences, correct) == pytest.approx(expected)


def test_calibration_bins_hold_their_upper_end():
    # 0.6 = 9/15 ends the ninth bin, 0.61 is in the tenth; in one bin the two errors would cancel.
    confidences, correct = np.array([0.6, 0.61]), np.array([True, False])
    assert expected_calibration_error(confidences, correct) == pytest.approx((0.4 + 0.61) / 2)
    assert expected_calibration_error(confidences, correct, bins=1) == pytest.approx(abs(0.5 - 0.605))


@pytest.mark.parametrize("bins", [10, 15, 20])
def test_calibration_puts_every_end_into_its_own_bin(bins):
    ends = np.array([i / bins for i in range(1, bins + 1)])
    correct = np.arange(bins) % 2 == 0
    expected = np.abs(correct - ends).mean()  # one a bin: nothing cancels
    assert expected_calibration_error(ends, correct, bins=bins) == pytest.approx(expected)


def test_calibrated_predictions_have_no_error():
    assert expected_calibration_error(np.full(4, 0.75), np.array([1, 1, 1, 0])) == 0
    assert expected_calibration_error(np.array([0.0, 1.0]), np.array([0, 1])) == 0


# The table


def test_table_shows_scores_classes_and_confusion():
    lines = printed(classification_metrics(PROBABILITIES, LABELS, NAMES)).splitlines()
    cells = [[cell.strip() for cell in line.split("│")[1:-1]] for line in lines if line.startswith("│")]
    assert ["accuracy", "0.6000"] in cells
    assert ["macro F1", "0.4333"] in cells
    assert ["log loss", "0.7095"] in cells
    assert ["calibration error", "0.4200"] in cells
    # class, texts, precision, recall, F1
    assert ["bad", "2", "0.5000", "0.5000", "0.5000"] in cells
    assert ["good", "2", "0.6667", "1.0000", "0.8000"] in cells
    assert ["mixed", "1", "0.0000", "0.0000", "0.0000"] in cells
    # true class, predicted bad, good, mixed
    assert cells[-3:] == [["bad", "1", "1", "0"], ["good", "0", "2", "0"], ["mixed", "1", "0", "0"]]


def test_table_prints_names_as_they_are():
    names = ["[red]x[/red]", "[/]", "日本"]
    shown = printed(classification_metrics(PROBABILITIES, LABELS, names))
    assert all(name in shown for name in names)


def test_table_lets_no_name_steer_the_terminal():
    shown = printed(classification_metrics(PROBABILITIES, LABELS, ["a\x1b[2J", "b\nc", "👩\u200d🍳\u3000x"]))
    assert "\x1b" not in shown
    for name in ("a\\x1b[2J", "b\\nc", "👩\u200d🍳\u3000x"):
        assert shown.count(name) == 3


def test_table_of_many_classes_is_only_the_summary():
    def shown(classes):
        names = [f"c{i}" for i in range(classes)]
        return printed(classification_metrics(np.eye(classes), np.arange(classes), names), width=200)

    assert "Confusion matrix" in shown(12)
    assert "c12" not in shown(13)
    assert "13 classes are too many" in shown(13)
