"""From a model folder to that of its retrofit."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal, cast

from transformers import PreTrainedModel, PreTrainedTokenizerBase

from identiformer.data import load_source
from identiformer.errors import InputError
from identiformer.loading import load_model
from identiformer.output import (
    UnfinishedFolder,
    refuse_existing,
    refuse_replacing,
    whole_file,
    write_json,
)
from identiformer.retrofitting.card import retrofit_card
from identiformer.retrofitting.carrying import Progress, retrofit
from identiformer.retrofitting.families import family_of
from identiformer.retrofitting.models import CARRYING_MODELS
from identiformer.retrofitting.report import RetrofitReport

REPORT = "retrofit.json"
# What tokenizers were saved as before they were one file.
VOCABULARIES = {
    "special_tokens_map.json", "added_tokens.json", "vocab.txt", "vocab.json", "merges.txt", "spiece.model",
    "sentencepiece.bpe.model", "tokenizer.model",
}  # fmt: skip
# What makes a model folder one of sentence-transformers, beside the modules that MODULES lists.
MODULES = "modules.json"
SENTENCE_FILES = (MODULES, "config_sentence_transformers.json", "sentence_bert_config.json")

Say = Callable[[str], None]


def retrofit_folder(
    name: str,
    output: Path,
    *,
    strength: float = 0.01,
    sources: Sequence[str] = (),
    text_column: str | None = None,
    on_bad_row: Literal["error", "skip"] = "error",
    limit: int = 512,
    seed: int = 0,
    overwrite: bool = False,
    say: Say = lambda _: None,
    progress: Progress = lambda _done, _total: None,
) -> RetrofitReport:
    """Retrofit a model and write it, with its tokenizer, a card and the report, to a folder.

    Args:
        name: A model folder, or the name of a model on a hub.
        output: The model folder to make.
        strength, seed: As of `retrofit`.
        sources: Where texts come from, as `load_source` takes them; none for random tokens.
        text_column: The column of texts in each source.
        on_bad_row: `error`, or `skip` to leave out rows that cannot be used and count them.
        limit: At most so many texts of each source, evenly spread over it.
        overwrite: Replace `output`.
        say: Called with a sentence on every choice made and everything left out.
        progress: Called as batches are done.

    Raises:
        InputError: For a model, texts or a folder that cannot be used.
    """
    refuse_existing(output, overwrite, "folder")
    refuse_replacing(output, [name, *sources], overwrite, "folder")
    if limit < 1:
        raise InputError(f"--limit is {limit}: give at least 1 text")
    texts = _texts(sources, text_column, on_bad_row, limit, say)
    model, tokenizer = load_model(name)
    family_of(model.config)
    if model.dtype.itemsize < 4:
        say(
            f"the model's weights are {str(model.dtype).removeprefix('torch.')}; the retrofit is saved in float32"
        )
        model.float()
    if type(model) not in CARRYING_MODELS:  # a head of pretraining, say
        say(f"of the {type(model).__name__}, the encoder alone is retrofitted")
        model = cast("PreTrainedModel", model.base_model)
    retrofitted, report = retrofit(model, tokenizer, strength, texts or None, seed, progress=progress)
    with UnfinishedFolder(output, overwrite=overwrite, resume=None, option="folder") as folder:
        folder.result.mkdir()
        _save(retrofitted, tokenizer, name, folder.result, say)
        write_json(folder.result / REPORT, {"model": name, "sources": list(sources), **report.to_dict()})
        with whole_file(folder.result / "README.md") as card:
            card.write(retrofit_card(output.name, name, retrofitted.config.model_type, report))
        folder.finish()
    return report


def _texts(
    sources: Sequence[str],
    text_column: str | None,
    on_bad_row: Literal["error", "skip"],
    limit: int,
    say: Say,
) -> list[str]:
    """Texts of all sources, of their first split where there are several."""
    texts: list[str] = []
    for source in sources:
        data = load_source(source, text_column=text_column, labels="ignore", on_bad_row=on_bad_row)
        for note in data.notes:
            say(note)
        split, rows = next(iter(data.splits.items()))
        found = list(rows["text"])
        count = min(limit, len(found))
        texts += [found[place * len(found) // count] for place in range(count)]
        of = "" if split == "all" else f" (the {split} split)"
        if count < len(found):
            say(f"{count} of {len(found)} texts of {source}{of} are used (--limit)")
    return texts


def _save(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, name: str, folder: Path, say: Say
) -> None:
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    source = Path(os.path.expanduser(name))
    if not source.is_dir():
        return
    copied = VOCABULARIES | {file.name for file in folder.iterdir()} | _copy_sentence_modules(source, folder)
    weights = (".safetensors", ".bin", ".h5", ".msgpack", ".ot")
    behind = sorted(
        item.name
        for item in source.iterdir()
        if item.name not in copied and item.name[0] != "." and item.suffix not in weights
    )
    if behind:
        say(f"what is of the original only stays behind: {', '.join(behind)}")


def _copy_sentence_modules(source: Path, folder: Path) -> set[str]:
    """Copy what lets sentence-transformers load the folder, which does not depend on the encoder's weights."""
    if not (source / MODULES).is_file():
        return set()
    try:
        modules: Any = json.loads((source / MODULES).read_text(encoding="utf-8"))
        paths = [str(module["path"]) for module in modules]
    except (ValueError, TypeError, KeyError) as error:
        raise InputError(f"{source / MODULES} does not list modules of sentence-transformers") from error
    for file in SENTENCE_FILES:
        if (source / file).is_file():
            shutil.copyfile(source / file, folder / file)
    for path in paths:
        inside = (source / path).resolve()
        if path and inside.is_dir() and inside.parent == source.resolve():
            shutil.copytree(inside, folder / inside.name)
    return set(SENTENCE_FILES) | {Path(path).name for path in paths if path}
