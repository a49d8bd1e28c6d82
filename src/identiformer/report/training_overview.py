"""The page of a training run: how good the model is, on what it was trained, and test texts word by word."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from identiformer.evaluation import label_scores
from identiformer.report.document import document, fragment
from identiformer.report.figures import Plot, picture
from identiformer.report.lengths_figure import lengths_plot
from identiformer.report.samples import Samples
from identiformer.report.tables import Table, counted, percent, settings_table
from identiformer.report.training_figures import curve_plot, reliability_plot

_MOST_IN_MATRIX = 30  # labels; of more the matrix cannot be read
_MOST_PAIRS = 30
_MOST_LABELS = 200
_LONGEST_LABEL = 80  # characters
_SHADES = 10

_ALLOWED = {
    "free": "any numbers",
    "simplex": "distributions: none below 0, sum 1",
    "generatable": "what some query gives with the text’s keys",
}


@dataclass(frozen=True)
class TestPredictions:
    """What the model says of the test texts.

    Args:
        confidences: `[N]`, the probability of each predicted label.
        correct: `[N]`, whether it is the true one.
        lengths: How many texts have so many tokens, before truncation.
    """

    __test__ = False  # no test, whatever pytest makes of its name

    confidences: NDArray[np.float64]
    correct: NDArray[np.bool_]
    lengths: Counter[int]


@dataclass(frozen=True)
class TrainedOn:
    """Where a model came from.

    Args:
        source: The data, as it was named.
        columns: What was read of it, by what for.
        notes: What was said of it.
        command: That trains the model again.
        settings: Of the training.
        model: Of the model.
    """

    source: str
    columns: Mapping[str, str | None]
    notes: Sequence[str]
    command: str
    settings: Mapping[str, Any]
    model: Mapping[str, Any]


def training_page(
    name: str,
    metrics: Mapping[str, Any],
    log: Sequence[Mapping[str, Any]],
    predictions: TestPredictions,
    simplex_length: int | None,
    trained_on: TrainedOn,
    samples: Samples,
) -> str:
    """The HTML document of a training run.

    Args:
        name: Of the model folder.
        metrics: The contents of metrics.json.
        log: Those of training_log.jsonl.
        predictions: Of the test texts.
        simplex_length: The most tokens of a text that can be identifiable on the simplex, where that is known.
        trained_on: Data, settings and command.
        samples: The texts that it shows.
    """
    test = metrics["test"]
    labels = [_short(label) for label in test["labels"]]
    counts = np.array(test["confusion_matrix"])
    plots: list[Plot] = [curve_plot(log, metrics["best_epoch"])] if log else []
    plots.append(reliability_plot(predictions.confidences, predictions.correct, test["calibration_error"]))
    main = fragment(
        "training.html.j2",
        sections=[
            ("findings", "How good it is"),
            ("labels", "Labels, and what is taken for what"),
            ("training", "Training"),
            ("identifiable", "Can its attention be cited?"),
            ("data", "Data"),
            ("settings", "How it was made"),
            ("texts", "The texts, word by word"),
        ],
        tiles=[
            (percent(test["accuracy"]), "accuracy: test texts with the right label"),
            (f"{test['macro_f1']:.3f}", "macro F1, the mean over labels; 1 is best"),
            (f"{test['log_loss']:.3f}", "log loss in nats; 0 is best"),
            (f"{test['calibration_error']:.3f}", "calibration error; 0 is best"),
        ],
        findings=_findings(metrics, counts, labels),
        confusion_sentence=_confusion_sentence(counts, labels),
        matrix=_matrix(counts, labels) if len(labels) <= _MOST_IN_MATRIX else None,
        confused=_confused(counts, labels),
        by_label=_by_label(counts, labels),
        figures=[picture(plot) for plot in plots],
        identifiable_sentences=_identifiable_sentences(metrics["identifiable"]),
        identifiable=_identifiable(metrics["identifiable"]),
        lengths=picture(lengths_plot(sorted(predictions.lengths.items()), {}, {-1: simplex_length})),
        splits=Table("Texts in each split", ("split", "texts"), list(metrics["examples"].items())),
        data_notes=_data_notes(trained_on, metrics),
        command=trained_on.command,
        settings=settings_table(trained_on.settings, "Settings of the training"),
        model_settings=settings_table(trained_on.model, "Settings of the model"),
        next_command=_next_command(name, paired=trained_on.columns.get("pair") is not None),
        samples=samples,
    )
    examples = metrics["examples"]
    return document(
        f"{name}: a text classifier",
        main,
        samples.view_data("training", name),
        head_note=(
            f"{counted(len(labels), 'label')}; trained on {counted(examples['train'], 'text')} of "
            f"{trained_on.source}, tested on {examples['test']:,} others"
        ),
        static=samples.static,
    )


def _next_command(name: str, *, paired: bool) -> str:
    given = "--text 'a text'" + (" --text-pair 'its pair'" if paired else "")
    return f"identiformer explain {shlex.quote(name)} {given} --html explanation.html"


def _short(label: str) -> str:
    return label if len(label) <= _LONGEST_LABEL else label[: _LONGEST_LABEL - 1] + "…"


def _findings(metrics: Mapping[str, Any], counts: NDArray[np.int64], labels: Sequence[str]) -> list[str]:
    texts, hits = int(counts.sum()), int(np.trace(counts))
    most = int(counts.sum(1).argmax())
    said = [
        f"{hits:,} of {counted(texts, 'test text')} get their true label ({percent(hits / texts)}). "
        f"Always saying “{labels[most]}”, the most frequent one, would be right in "
        f"{percent(int(counts.sum(1)[most]) / texts)}."
    ]
    valid = metrics["valid"]["accuracy"]
    said.append(f"On the validation texts, by which the epoch was chosen, {percent(valid)} are right.")
    if metrics["identifiable"] is not None:
        share = metrics["identifiable"]["global"]["simplex"]
        said.append(
            f"For {percent(share)} of the test texts, the attention behind the prediction is the only distribution of "
            "weights that gives the outputs of the heads."
        )
    return said


def _confusion_sentence(counts: NDArray[np.int64], labels: Sequence[str]) -> str:
    off = counts - np.diag(counts.diagonal())
    if not off.any():
        return "No test text is taken for another label than its own."
    true, said = divmod(int(off.argmax()), len(labels))
    wrong = int(off.sum())
    as_often = int((off == off.max()).sum())
    which = "The most frequent" if as_often == 1 else f"One of the {as_often} most frequent, all as frequent,"
    return (
        f"{which} of {counted(wrong, 'wrong prediction')}: “{labels[true]}” is taken for “{labels[said]}” in "
        f"{counted(int(off.max()), 'text')}, {percent(int(off.max()) / int(counts[true].sum()))} of those labelled "
        f"“{labels[true]}”."
    )


@dataclass(frozen=True)
class _Matrix:
    """The confusion matrix: for each true label its cells, `(count, shade, right)`."""

    labels: Sequence[str]
    rows: Sequence[tuple[str, list[tuple[int, int, bool]]]]


def _matrix(counts: NDArray[np.int64], labels: Sequence[str]) -> _Matrix:
    shades = np.ceil(_SHADES * counts / np.maximum(counts.sum(1, keepdims=True), 1)).astype(int)
    return _Matrix(
        labels,
        [
            (
                label,
                [(int(counts[i, j]), int(shades[i, j]), i == j) for j in range(len(labels))],
            )
            for i, label in enumerate(labels)
        ],
    )


def _confused(counts: NDArray[np.int64], labels: Sequence[str]) -> Table | None:
    """The pairs of labels that are confused most, where they are too many for a matrix."""
    if len(labels) <= _MOST_IN_MATRIX:
        return None
    off = counts - np.diag(counts.diagonal())
    pairs = sorted(np.argwhere(off > 0).tolist(), key=lambda pair: (-off[tuple(pair)], pair))
    if not pairs:
        return None
    shown = pairs[:_MOST_PAIRS]
    return Table(
        "Labels that are confused most",
        ("true", "predicted", "texts", "of the true label’s"),
        [
            [labels[i], labels[j], int(off[i, j]), percent(int(off[i, j]) / int(counts[i].sum()))]
            for i, j in shown
        ],
        texts=(1,),
        note=""
        if len(shown) == len(pairs)
        else f"The first {len(shown)} of {len(pairs)} pairs; the whole confusion matrix is in metrics.json.",
    )


def _by_label(counts: NDArray[np.int64], labels: Sequence[str]) -> Table:
    rows: list[tuple[float, list[str | int]]] = []
    for label, of in zip(labels, label_scores(counts), strict=True):
        measures = (f"{measure:.3f}" for measure in (of.precision, of.recall, of.f1))
        rows.append((of.f1, [label, of.texts, of.predicted, *measures]))
    note = ""
    if len(rows) > _MOST_LABELS:
        rows = sorted(rows, key=lambda row: row[0])[:_MOST_LABELS]
        note = f"The {_MOST_LABELS} of {len(labels)} labels with the least F1; README.md and metrics.json have more."
    return Table(
        "Test texts, label by label",
        ("label", "texts", "predicted", "precision", "recall", "F1"),
        [row for _, row in rows],
        note=note,
    )


def _identifiable_sentences(identifiable: Mapping[str, Any] | None) -> list[str]:
    if identifiable is None:
        return ["Attention of this kind of model cannot be certified."]
    said = (
        "A text counts where the weights of every head of the last layer, in the row that reaches the prediction, are "
        "the only ones allowed that give the head’s output. "
        + (
            f"The longest such text, on the simplex, has {counted(identifiable['longest'], 'token')}."
            if identifiable["longest"]
            else "On the simplex there is no such text."
        )
    )
    if identifiable["tied"]:
        said += (
            f" In {percent(identifiable['tied'])} of the texts tokens have equal keys and values: only their total is "
            "fixed."
        )
    return [said]


def _identifiable(identifiable: Mapping[str, Any] | None) -> Table | None:
    if identifiable is None:
        return None
    return Table(
        "Test texts whose attention is unique",
        ("level", "unique", "unique nearby", "allowed weights"),
        [
            (level, percent(identifiable["global"][level]), percent(identifiable["share"][level]), allowed)
            for level, allowed in _ALLOWED.items()
        ],
        texts=(3,),
        note="Unique: no other allowed weights give the same output; nearby: none that are close do.",
    )


def _data_notes(trained_on: TrainedOn, metrics: Mapping[str, Any]) -> list[str]:
    read = "; ".join(
        f"{what} from column “{column}”" for what, column in trained_on.columns.items() if column is not None
    )
    skipped = [f"left out: {counted(count, 'row')} ({why})" for why, count in metrics["skipped"].items()]
    return [
        *([read] if read else []),
        f"texts are truncated at {counted(metrics['max_length'], 'token')}",
        *skipped,
        *trained_on.notes,
    ]
