"""Loading a classifier and its tokenizer from a folder or a hub."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from identiformer.errors import InputError
from identiformer.hub import hub_or_cache

if TYPE_CHECKING:
    from transformers import PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

_HUB_NAME = re.compile(r"[\w.-]+(/[\w.-]+)?", re.ASCII)  # all else is a path


def load_classifier(name: str, **kwargs: Any) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """Load a text classifier, ready for use (in evaluation mode), with its tokenizer.

    Args:
        name: A model folder, or the name of a model on a hub.
        **kwargs: Passed on to `AutoModelForSequenceClassification.from_pretrained`.

    Raises:
        InputError: If there is no such model, it is not a text classifier that can be loaded, or its weights are no
            numbers.
    """
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    with _loading("text classifier", name):
        model, report = AutoModelForSequenceClassification.from_pretrained(
            name, output_loading_info=True, **kwargs
        )
        tokenizer = AutoTokenizer.from_pretrained(name)
    if report["missing_keys"]:
        missing = ", ".join(sorted(report["missing_keys"])[:3])
        raise InputError(f"{name} is no trained text classifier: it has no weights for {missing}")
    if model.config.num_labels < 2 or model.config.problem_type == "multi_label_classification":
        raise InputError(f"{name} does not choose one label of several: give a model that does")
    _check_reads_tokens(name, model)
    check_numbers(name, model)
    _complete(tokenizer, model)
    return model.eval(), tokenizer


def load_model(name: str) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """Load any model of transformers, in evaluation mode, with its tokenizer: what it was saved as, head included.

    Args:
        name: A model folder, or the name of a model on a hub.

    Raises:
        InputError: If there is no such model, or it lacks weights that its attention depends on, or they are no
            numbers.
    """
    import transformers

    tokenizer, config = load_tokenizer(name)
    with _loading("model", name):
        architecture = (config.architectures or [""])[0]
        # Its own class where transformers has it; an Auto class loads what is registered elsewhere, ours for example.
        loader = getattr(transformers, architecture or "AutoModel", None)
        loader = loader or getattr(transformers, _auto_class(architecture))
        model, report = loader.from_pretrained(name, output_loading_info=True)
    # Checkpoints of sentence encoders often lack a pooler, which comes after all attention.
    missing = sorted(key for key in report["missing_keys"] if "pooler" not in key)
    if missing:
        raise InputError(f"{name} is no whole model: it has no weights for {', '.join(missing[:3])}")
    _check_reads_tokens(name, model)
    check_numbers(name, model)
    _complete(tokenizer, model)
    return model.eval(), tokenizer


def load_to_fine_tune(name: str, labels: Sequence[str]) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """Load a pretrained model as a classifier of other labels, in single precision, with its tokenizer.

    What comes after the encoder gets initial weights where the model has none, or some of another size.

    Args:
        name: A model folder, or the name of a model on a hub.
        labels: The labels, in the order of their numbers.

    Raises:
        InputError: If there is no such model, it cannot classify, it lacks weights of the encoder, or they are no
            numbers.
    """
    import torch
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    with _loading("model to fine-tune", name):
        model, report = AutoModelForSequenceClassification.from_pretrained(
            name,
            num_labels=len(labels),
            id2label=dict(enumerate(labels)),
            label2id={label: number for number, label in enumerate(labels)},
            problem_type="single_label_classification",
            dtype=torch.float32,
            ignore_mismatched_sizes=True,
            output_loading_info=True,
        )
        tokenizer = AutoTokenizer.from_pretrained(name)
    inside = f"{model.base_model_prefix}."
    absent = {*report["missing_keys"], *(key for key, *_ in report["mismatched_keys"])}
    # Of the encoder, what comes after all layers may be new, too.
    lacking = sorted(key for key in absent if key.startswith(inside) and "pooler" not in key)
    if lacking:
        raise InputError(f"{name} is no pretrained model: it has no weights for {', '.join(lacking[:3])}")
    check_numbers(name, model)
    _complete(tokenizer, model)
    return model, tokenizer


def load_tokenizer(name: str) -> tuple[PreTrainedTokenizerBase, PreTrainedConfig]:
    """Load a model's tokenizer and its configuration, and none of its weights.

    Args:
        name: A model folder, or the name of a model on a hub.

    Raises:
        InputError: If there is no such model, or it has no tokenizer.
    """
    from transformers import AutoTokenizer

    config = load_configuration(name)
    with _loading("tokenizer", name):
        tokenizer = AutoTokenizer.from_pretrained(name)
    # Where the files of a vocabulary are missing, some classes make a tokenizer that knows no word.
    if len(tokenizer) <= len(tokenizer.all_special_ids):
        raise InputError(f"{name} has a tokenizer without a vocabulary: give a model folder that is whole")
    return tokenizer, config


def load_configuration(name: str) -> PreTrainedConfig:
    """Load a model's configuration alone.

    Args:
        name: A model folder, or the name of a model on a hub.

    Raises:
        InputError: If there is no such model.
    """
    from transformers import AutoConfig

    with _loading("model", name):
        return AutoConfig.from_pretrained(name)


def _auto_class(architecture: str) -> str:
    """The Auto class that loads what was saved as `architecture`, as its name says by its ending."""
    for ending, auto in (
        ("ForSequenceClassification", "AutoModelForSequenceClassification"),
        ("ForMaskedLM", "AutoModelForMaskedLM"),
        ("ForConditionalGeneration", "AutoModelForSeq2SeqLM"),
        ("ForCausalLM", "AutoModelForCausalLM"),
        ("LMHeadModel", "AutoModelForCausalLM"),
        ("ForTokenClassification", "AutoModelForTokenClassification"),
        ("ForQuestionAnswering", "AutoModelForQuestionAnswering"),
    ):
        if architecture.endswith(ending):
            return auto
    return "AutoModel"


@contextmanager
def _loading(what: str, name: str) -> Iterator[None]:
    """A block in which libraries load something by its name: their errors become an `InputError`."""
    check_name(name)
    try:
        with nullcontext() if Path(name).is_dir() else hub_or_cache():
            yield
    except Exception as error:  # each library that reads a part has its own
        raise _not_loaded(what, name, error) from error


def check_name(name: str) -> None:
    """Raise an `InputError` where a name can be none of a model, before any library looks for it.

    Args:
        name: What the user takes for a model folder, or the name of a model on a hub.
    """
    folder = Path(name)
    try:
        folder.exists()
    except OSError as error:  # a name that is too long, or a folder that may not be entered
        raise InputError(f"{name} cannot be read ({error.strerror}): give a model folder") from error
    if folder.is_dir() and not (folder / "config.json").is_file():
        raise InputError(f"{name} is not a model folder: it has no config.json; train writes one to --output")
    if folder.is_file():
        raise InputError(f"{name} is a file; a model is a folder, as train writes it to --output")
    if folder.exists():
        return
    if name.startswith(".") or not _HUB_NAME.fullmatch(name):
        raise InputError(f"{name} does not exist: give a model folder, or the name of a model on a hub")
    # A typing error would be looked for on a hub, and could be found there: somebody else's model.
    siblings = (
        sorted(config.parent.name for config in folder.parent.glob("*/config.json")) if "/" in name else []
    )
    if siblings:
        more = ", ..." if len(siblings) > 5 else ""
        raise InputError(
            f"{name} does not exist: the models in {folder.parent} are {', '.join(siblings[:5])}{more}; give one of "
            "them"
        )


def check_numbers(name: str, model: PreTrainedModel) -> None:
    """Raise an `InputError` where a weight is no number: whatever is computed with it would be none either.

    Args:
        name: What the user calls the model.
        model: The model.
    """
    for key, weights in model.named_parameters():
        if not weights.is_floating_point() or weights.dtype.itemsize < 2 or weights.is_meta:
            continue  # of quantised numbers not every type can be asked
        wrong = int((~weights.detach().isfinite()).sum())
        if wrong:
            raise InputError(
                f"{name} has weights that are no numbers: {wrong} of {weights.numel()} in {key} are NaN or infinite; "
                "its training must have diverged, or its file is damaged: give another model"
            )


def _check_reads_tokens(name: str, model: PreTrainedModel) -> None:
    """Refuse models of pictures and sounds: a tokenizer may lie beside them all the same."""
    if model.main_input_name not in ("input_ids", "inputs_embeds"):
        raise InputError(f"{name} reads {model.main_input_name} and no tokens: give a model of texts")


def _not_loaded(what: str, name: str, error: Exception) -> InputError:
    here = Path(name).is_dir()
    where = "folder" if here else "folder (there is none of that name here), or a model that a hub gives here"
    return InputError(f"no {what} could be loaded from {name} ({_reason(error)}); give a model {where}")


def _reason(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    # Where settings are refused, the last line says why.
    chosen = lines[-1 if type(error).__name__.startswith("StrictDataclass") else 0] if lines else ""
    return chosen or type(error).__name__


def _complete(tokenizer: PreTrainedTokenizerBase, model: PreTrainedModel) -> None:
    """Give a tokenizer what other people's sometimes lack: where to truncate, and something to pad with."""
    limit = getattr(model.config, "max_position_embeddings", None)
    if limit is not None and limit > 0:  # XLNet says -1 for texts of any length
        for name, module in model.named_modules():
            # Some count positions from the number of the padding on (RoBERTa and its kin).
            first = getattr(module, "padding_idx", None)
            if name.endswith("position_embeddings") and first is not None:
                limit -= first + 1
        tokenizer.model_max_length = min(tokenizer.model_max_length, limit)
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    if getattr(model.config, "pad_token_id", None) is None:
        model.config.pad_token_id = tokenizer.pad_token_id


def label_list(model: PreTrainedModel) -> list[str]:
    """The labels of a classifier, in the order of their numbers."""
    labels: dict[Any, str] = model.config.id2label or {}
    return [str(labels[number]) for number in sorted(labels)]
