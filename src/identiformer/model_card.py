"""The model card: what a model folder is, for somebody who finds it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from identiformer.data import TextData
    from identiformer.model import IdentiformerConfig
    from identiformer.settings import TrainingSettings


def model_card(
    name: str,
    source: str,
    settings: TrainingSettings,
    data: TextData,
    config: IdentiformerConfig,
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
    labels = list((config.id2label or {}).values())
    shown = ", ".join(_code(label) for label in labels[:20]) + (", …" if len(labels) > 20 else "")
    sections = [
        "---\nlibrary_name: transformers\npipeline_tag: text-classification\ntags:\n- identiformer\n---\n",
        f"# {name}\n\nA text classifier with {len(labels)} labels ({shown}), trained by identiformer on "
        f"{_code(source)}.\n",
        "## Intended use\n\nTo label texts like those it was trained on, and to explain its predictions by attention "
        "weights together with a certificate of whether they are the only ones that give the heads' outputs. It knows "
        "nothing beyond its training texts; scores on other kinds of text will be lower than those below. A "
        "certificate speaks of one head and one text, with the input and the key weights held fixed; it does not say "
        "that attention is the cause of a prediction.\n",
        f"## Data\n\n{_data(data, metrics)}",
        f"## Metrics\n\n{_metrics(metrics)}",
        f"## Identifiability\n\n{_identifiable(metrics['identifiable'])}",
        f"## Settings\n\n{_settings(settings, config)}",
        "## How to load it\n\n```python\nimport identiformer\nfrom transformers import pipeline\n\n"
        f'classify = pipeline("text-classification", {f"path/to/{name}"!r})\nclassify("a text")\n```\n\n'
        f'Or from the command line: `identiformer predict {name} --text "a text"`, '
        f'`identiformer explain {name} --text "a text"`.\n',
    ]
    return "\n".join(sections)


def _data(data: TextData, metrics: dict[str, Any]) -> str:
    rows = "\n".join(f"| {split} | {count} |" for split, count in metrics["examples"].items())
    notes = "\n".join(f"- {_plain(note)}" for note in data.notes)
    columns = f"Text from column {_code(data.columns.text)}"
    if data.columns.text_pair:
        columns += f", its pair from {_code(data.columns.text_pair)}"
    columns += f", label from {_code(data.columns.label)}.\n" if data.columns.label else ".\n"
    return f"| split | texts |\n| --- | --- |\n{rows}\n\n{columns}" + (f"\n{notes}\n" if notes else "")


def _metrics(metrics: dict[str, Any]) -> str:
    names = ("accuracy", "macro_f1", "log_loss", "calibration_error")
    rows = "\n".join(
        f"| {split} | " + " | ".join(f"{metrics[split][name]:.4f}" for name in names) + " |"
        for split in ("valid", "test")
    )
    header = " | ".join(name.replace("_", " ") for name in names)
    return (
        f"| split | {header} |\n| --- |{' --- |' * len(names)}\n{rows}\n\n"
        f"Epoch {metrics['best_epoch']} of {metrics['epochs']} was best on the validation set and is the one kept.\n"
    )


def _identifiable(identifiable: dict[str, Any]) -> str:
    meaning = {
        "free": "no other vector gives the heads' outputs",
        "simplex": "no other weights (non-negative, sum 1) do",
        "generatable": "no other weights nearby that some query could give do",
    }
    rows = "\n".join(
        f"| {level} | {meaning[level]} | {share:.1%} |" for level, share in identifiable["share"].items()
    )
    return (
        "The share of test texts for which the weights of every head of the last layer are identifiable, in the row "
        f"that reaches the prediction:\n\n| level | meaning | share |\n| --- | --- | --- |\n{rows}\n"
    )


def _settings(settings: TrainingSettings, config: IdentiformerConfig) -> str:
    model = (
        "hidden_size", "num_hidden_layers", "num_attention_heads", "key_size", "value_size", "head_merge",
        "values_carry_keys", "position_embedding", "intermediate_size", "embedding_dropout_prob",
        "token_dropout_prob", "hidden_dropout_prob", "attention_probs_dropout_prob", "max_position_embeddings",
        "vocab_size",
    )  # fmt: skip
    training = (
        "seed", "epochs", "patience", "batch_size", "learning_rate", "weight_decay", "label_smoothing",
        "class_weights", "tokenizer", "min_frequency",
    )  # fmt: skip
    rows = [f"| {name} | {getattr(config, name)} |" for name in model]
    rows += [f"| {name} | {getattr(settings, name)} |" for name in training]
    return "| setting | value |\n| --- | --- |\n" + "\n".join(rows) + "\n"


def _code(value: object) -> str:
    """As inline code that no value can break out of."""
    text = " ".join(str(value).split()).replace("|", "\\|")
    longest = max(map(len, re.findall("`+", text)), default=0)
    ticks = "`" * (longest + 1)
    padding = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{ticks}{padding}{text}{padding}{ticks}"


def _plain(text: str) -> str:
    """One line of text that Markdown shows as it is."""
    return "".join("\\" + c if c in "\\`*_{}[]<>#|" else c for c in " ".join(text.split()))
