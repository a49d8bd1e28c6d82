"""Loading a classifier and its tokenizer from a folder or a hub."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from identiformer.errors import InputError

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase


def load_classifier(name: str, **kwargs: Any) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """Load a text classifier, ready for use (in evaluation mode), with its tokenizer.

    Args:
        name: A model folder, or the name of a model on a hub.
        **kwargs: Passed on to `AutoModelForSequenceClassification.from_pretrained`.

    Raises:
        InputError: If there is no such model, or it is not a text classifier that can be loaded.
    """
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    import identiformer.model  # noqa: F401  (makes identiformer known to the Auto classes)

    folder = Path(name)
    if folder.is_dir() and not (folder / "config.json").is_file():
        raise InputError(f"{name} is not a model folder: it has no config.json; train writes one to --output")
    if folder.is_file():
        raise InputError(f"{name} is a file; a model is a folder, as train writes it to --output")
    try:
        model = AutoModelForSequenceClassification.from_pretrained(name, **kwargs)
        tokenizer = AutoTokenizer.from_pretrained(name)
    except (OSError, ValueError) as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        where = "folder" if folder.is_dir() else "folder, or a model that can be had from a hub here"
        raise InputError(
            f"no text classifier could be loaded from {name} ({reason}); give a model {where}"
        ) from error
    return model.eval(), tokenizer


def label_list(model: PreTrainedModel) -> list[str]:
    """The labels of a classifier, in the order of their numbers."""
    labels = model.config.id2label or {}
    return [str(labels[number]) for number in sorted(labels)]
