"""Whether a run that goes on is the one that was stopped: same settings, same data, same model."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from identiformer.errors import InputError
from identiformer.output import write_json

if TYPE_CHECKING:
    from datasets import Dataset

_AT_ONCE = 1000  # texts


def is_same_run(file: Path, run: dict[str, Any]) -> bool:
    """Keep what a run was started with, and refuse to go on with what another one left.

    Args:
        file: Where it is kept.
        run: JSON's types, or what becomes them: `settings`, a dictionary; and digests of what is read.

    Returns:
        Whether `file` was there; if not, it is now.

    Raises:
        InputError: If it was there and holds something else.
    """
    run = json.loads(json.dumps(run))
    if not file.exists():
        write_json(file, run)
        return False
    earlier = read_run(file)
    differing = [
        name
        for name, value in run["settings"].items()
        if earlier["settings"].get(name, value) != value  # a setting that is newer than the run
    ]
    if differing:
        raise InputError(
            f"the run to resume was started with other settings ({', '.join(differing)}): "
            "give the same ones, or start again with --overwrite"
        )
    for name, digest in run.items():
        if name != "settings" and earlier.get(name) != digest:
            raise InputError(f"the {name} changed since the run was stopped: start again with --overwrite")
    return True


def read_run(file: Path) -> dict[str, Any]:
    """What `is_same_run` kept."""
    return json.loads(file.read_text(encoding="utf-8"))


def digest_of(splits: Iterable[Dataset], columns: Collection[str]) -> str:
    """A number that other texts do not have.

    Args:
        splits: The rows.
        columns: Those that count, where there are such.
    """
    digest = hashlib.sha256()
    for split in splits:
        names = [name for name in columns if name in split.column_names]
        for start in range(0, len(split), _AT_ONCE):
            batch = split[start : start + _AT_ONCE]
            for name in names:
                for text in batch[name]:
                    digest.update(text.encode("utf-8", "surrogatepass") + b"\0")
    return digest.hexdigest()
