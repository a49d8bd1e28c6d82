"""The model card: what a model folder is, for somebody who finds it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

from identiformer.evaluation import label_scores

if TYPE_CHECKING:
    from transformers import PreTrainedConfig

    from identiformer.data import TextData
    from identiformer.settings import TrainingSettings

MOST_LABELS = 100  # in the table of scores by label


def model_card(
    name: str,
    source: str,
    settings: TrainingSettings,
    data: TextData,
    config: PreTrainedConfig,
    metrics: dict[str, Any],
) -> str:
    """The text of a model card, in Markdown with the front matter that model hubs read.

    Args:
        name: The model's name: that of its folder.
        source: Where the data came from.
        settings: Of the training.
        data: The splits and what was said of them.
        config: Of the model.
        metrics: The contents of `metrics.json`.
    """
    labels = [str(label) for label in (config.id2label or {}).values()]
    shown = ", ".join(code(label) for label in labels[:20]) + (", …" if len(labels) > 20 else "")
    folder = shlex.quote(name)
    origin, made, known = settings.from_model, "trained", "It knows nothing beyond its training texts"
    if origin is not None:
        made = f"fine-tuned from {code(origin)}"
        known = "What it was pretrained on is said in the card of that model"
    sections = [
        "---\nlibrary_name: transformers\npipeline_tag: text-classification\ntags:\n- identiformer\n---\n",
        f"# {plain(name)}\n\nA text classifier with {len(labels)} labels ({shown}), {made} by identiformer on "
        f"{code(source)}.\n",
        "## Intended use\n\nTo label texts like those it was trained on, and to explain its predictions by attention "
        "weights together with a certificate of whether they are the only ones that give the heads' outputs. "
        f"{known}; scores on other kinds of text will be lower than those below. A "
        "certificate speaks of one head and one text, with the input and the key weights held fixed; it does not say "
        "that attention is the cause of a prediction.\n",
        f"## Data\n\n{_data(data, metrics)}",
        f"## Metrics\n\n{_metrics(metrics)}",
        f"## Identifiability\n\n{_identifiable(metrics['identifiable'])}",
        "`report.html`, beside this card, has figures of all this, and test texts word by word.\n",
        f"## Settings\n\n{_settings(settings, config)}",
        "## How to load it\n\n```python\nimport identiformer\nfrom transformers import pipeline\n\n"
        f'classify = pipeline("text-classification", {f"path/to/{name}"!r})\n'
        'print(classify("a text", truncation=True))\n```\n\n'
        f'Or from the command line:\n\n```sh\nidentiformer predict {folder} --text "a text"\n'
        f'identiformer explain {folder} --text "a text"\n```\n',
    ]
    return "\n".join(sections)


def _data(data: TextData, metrics: dict[str, Any]) -> str:
    counts = _table(("split", "texts"), metrics["examples"].items())
    columns = f"Text from column {code(data.columns.text)}"
    if data.columns.text_pair:
        columns += f", its pair from {code(data.columns.text_pair)}"
    if data.columns.label:
        columns += f", label from {code(data.columns.label)}"
    notes = "".join(f"- {plain(note)}\n" for note in data.notes)
    return f"{counts}\n{columns}.\n" + (f"\n{notes}" if notes else "")


def _metrics(metrics: dict[str, Any]) -> str:
    names = ("accuracy", "macro_f1", "log_loss", "calibration_error")
    scores = _table(
        ("split", *(name.replace("_", " ") for name in names)),
        ((split, *(f"{metrics[split][name]:.4f}" for name in names)) for split in ("valid", "test")),
    )
    return (
        f"{scores}\nEpoch {metrics['best_epoch']} of {metrics['epochs']} was best on the validation set and is the one "
        f"kept. Training took {metrics['train_seconds']:.0f} seconds.\n\n{_by_label(metrics['test'])}"
    )


def _by_label(scores: dict[str, Any]) -> str:
    every = zip(scores["labels"], label_scores(scores["confusion_matrix"]), strict=True)
    rows = [
        (code(label), of.texts, f"{of.precision:.4f}", f"{of.recall:.4f}", f"{of.f1:.4f}")
        for label, of in islice(every, MOST_LABELS)
    ]
    more = len(scores["labels"]) - len(rows)
    rest = f"\n{more} more labels are in metrics.json.\n" if more else ""
    return f"On the test set, label by label:\n\n{_table(('label', 'texts', 'precision', 'recall', 'F1'), rows)}{rest}"


def _identifiable(identifiable: dict[str, Any] | None) -> str:
    if identifiable is None:
        return "Attention of this kind of model cannot be certified.\n"
    allowed = {
        "free": "any numbers",
        "simplex": "non-negative, sum 1",
        "generatable": "what some query gives with the text's keys",
    }
    rows = (
        (level, weights, f"{identifiable['global'][level]:.1%}", f"{identifiable['share'][level]:.1%}")
        for level, weights in allowed.items()
    )
    return (
        "The share of test texts for which the weights of every head of the last layer are identifiable, in the row "
        "that reaches the prediction: no other allowed weights give the head's output (unique), or none that are close "
        f"(unique nearby).\n\n{_table(('level', 'allowed weights', 'unique', 'unique nearby'), rows)}\n"
        f"The longest text that is identifiable on the simplex has {identifiable['longest']} tokens. "
        f"In {identifiable['tied']:.1%} of the texts, tokens have equal keys and values, so that only their total is "
        "fixed.\n"
    )


def _settings(settings: TrainingSettings, config: PreTrainedConfig) -> str:
    model = (
        "hidden_size", "num_hidden_layers", "num_attention_heads", "key_size", "value_size", "head_merge",
        "values_carry_keys", "position_embedding", "intermediate_size", "embedding_dropout_prob",
        "token_dropout_prob", "hidden_dropout_prob", "attention_probs_dropout_prob", "max_position_embeddings",
        "vocab_size",
    )  # fmt: skip
    training = (
        "from_model", "seed", "epochs", "patience", "batch_size", "learning_rate", "weight_decay",
        "label_smoothing", "class_weights", "tokenizer", "min_frequency", "valid_fraction", "test_fraction",
    )  # fmt: skip
    if settings.from_model is None:
        training = training[1:]
    else:
        model = ("model_type", *(name for name in model if hasattr(config, name)))
        training = tuple(name for name in training if name not in ("tokenizer", "min_frequency"))
    rows = [(name, getattr(config, name)) for name in model] + [
        (name, getattr(settings, name)) for name in training
    ]
    return _table(("setting", "value"), rows)


def _table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    # In a table, a bar ends a cell even inside of code, unless it is escaped.
    return "".join(
        "| " + " | ".join(str(cell).replace("|", "\\|") for cell in line) + " |\n" for line in lines
    )


def code(value: object) -> str:
    """As inline code that no value can break out of."""
    text = _line(str(value))
    longest = max(map(len, re.findall("`+", text)), default=0)
    ticks = "`" * (longest + 1)
    padding = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{ticks}{padding}{text}{padding}{ticks}"


def plain(text: str) -> str:
    """One line of text that Markdown shows as it is."""
    return "".join("\\" + c if c in "\\`*_{}[]<>#|" else c for c in _line(text))


def _line(text: str) -> str:
    """On one line, without characters that cannot be seen."""
    return "".join(c if c.isprintable() else "\ufffd" for c in " ".join(text.split()))
