"""Real text that is on every machine: first paragraphs of the docstrings of installed packages.

The label is the package. Its own name is taken out of the text, so that the style and the subject have to tell.
"""

from __future__ import annotations

import ast
import random
import re
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from identiformer.data.wording import counted
from identiformer.errors import InputError

#: What stands in a text for the name of its package.
NEUTRAL = "this package"
FEWEST_WORDS, MOST_WORDS = 6, 80
# A package with fewer docstrings than this is no class to learn.
FEWEST_DOCSTRINGS = 50
# Packages are tried in the order of their size; the largest few times as many as asked for are enough.
_TRIED = 2
_LEFT_OUT = {"tests", "test", "testing", "_vendor", "vendor", "vendored", "identiformer"}
_WORD = re.compile(r"\w+(?:[.-]\w+)*")
_PART = re.compile(r"[\W_]+")


@dataclass(frozen=True)
class Docstring:
    """The first paragraph of a docstring, on one line and without its package's name, and that package."""

    text: str
    package: str


def generate_docstrings(rows: int = 3000, seed: int = 0, packages: int = 6) -> list[Docstring]:
    """Collect docstrings of the installed packages that have the most; nothing is imported.

    Args:
        rows: at most how many, an equal number from each package.
        seed: which of a package's files are read first, and the order of the result.
        packages: how many packages.

    Returns:
        The docstrings, each text once. The same packages and seed give the same ones.

    Raises:
        InputError: if fewer than two packages have enough docstrings.
    """
    wanted = max(2, packages)
    share = max(1, rows // wanted)
    enough = min(FEWEST_DOCSTRINGS, share)
    found: dict[str, list[str]] = {}
    full = 0
    for package, (names, files) in _largest(_TRIED * wanted).items():
        random.Random(f"{seed} {package}").shuffle(files)
        # Some more than the share, since those that another package has word for word are dropped.
        found[package] = _collect(files, _forms(names), share + share // 10 + 10)
        full += len(found[package]) > share
        if full == wanted:
            break
    owners = Counter(text.casefold() for texts in found.values() for text in texts)
    found = {
        package: [text for text in texts if owners[text.casefold()] == 1][:share]
        for package, texts in found.items()
    }
    # Stable: of packages with the same number, the larger comes first.
    usable = sorted(
        (name for name in found if len(found[name]) >= enough), key=lambda name: -len(found[name])
    )[:wanted]
    if len(usable) < 2:
        raise InputError(
            f"demo:docstrings needs at least 2 installed packages with {counted(enough, 'docstring')} each, and finds "
            f"{len(usable)}: install more packages, or use demo:reviews"
        )
    smallest = min(len(found[package]) for package in usable)
    result = [Docstring(text, package) for package in sorted(usable) for text in found[package][:smallest]]
    random.Random(seed).shuffle(result)
    return result


def _largest(count: int) -> dict[str, tuple[set[str], list[Path]]]:
    """The top-level packages with the most Python code: the names each goes by, and its files in a fixed order."""
    names: dict[str, set[str]] = {}
    files: dict[str, dict[str, Path]] = {}
    sizes: Counter[str] = Counter()
    for distribution in metadata.distributions():
        name = distribution.metadata["Name"]
        for file in distribution.files or ():
            package = file.parts[0]
            if file.suffix != ".py" or len(file.parts) < 2 or _LEFT_OUT & set(file.parts):
                continue
            if not package.isidentifier() or str(file) in files.get(package, ()):
                continue
            files.setdefault(package, {})[str(file)] = Path(str(file.locate()))
            names.setdefault(package, {package}).add(name or package)
            # The size that the installer recorded: asking the file system would take seconds.
            sizes[package] += file.size or 0
    largest = sorted(sizes, key=lambda package: (-sizes[package], package))[:count]
    return {
        package: (names[package], [files[package][name] for name in sorted(files[package])])
        for package in largest
    }


def _collect(files: Iterable[Path], forms: set[tuple[str, ...]], most: int) -> list[str]:
    texts: dict[str, str] = {}
    for file in files:
        for docstring in _docstrings(file):
            text = blank_names(docstring, forms)
            if FEWEST_WORDS <= len(text.split()) <= MOST_WORDS:
                texts.setdefault(text.casefold(), text)
        if len(texts) >= most:
            break
    return list(texts.values())[:most]


def _docstrings(file: Path) -> Iterator[str]:
    """The first paragraph of each docstring in a file, on one line; none for a file that does not parse."""
    try:
        with warnings.catch_warnings():
            # Other people's invalid escapes are not the user's concern.
            warnings.simplefilter("ignore")
            tree = ast.parse(file.read_bytes())
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            docstring = ast.get_docstring(node)
            if docstring and not _is_unreadable(docstring):
                yield " ".join(re.split(r"\n\s*\n", docstring, maxsplit=1)[0].split())
            # Only what a module or a class defines: to walk through every expression takes several times as long.
            if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                waiting += reversed(node.body)


def _is_unreadable(docstring: str) -> bool:
    """Whether a docstring starts with markup or an example instead of a sentence, or cannot be written as UTF-8."""
    start = docstring.lstrip()[:1]
    return not start.isalpha() or any("\ud800" <= character <= "\udfff" for character in docstring)


def _forms(names: Iterable[str]) -> set[tuple[str, ...]]:
    """The names as the sequences of their parts: "scikit-learn" as ("scikit", "learn")."""
    return {tuple(part for part in _PART.split(name.casefold()) if part) for name in names}


def blank_names(text: str, forms: set[tuple[str, ...]]) -> str:
    """Put "this package" for every word that names the package, alone or as a part of a dotted or underscored name.

    Args:
        text: the text.
        forms: the names in lower case, each as the sequence of its parts.
    """

    def blanked(match: re.Match[str]) -> str:
        parts = tuple(_PART.split(match[0].casefold()))
        named = any(
            parts[start : start + len(form)] == form
            for form in forms
            for start in range(len(parts) - len(form) + 1)
        )
        return NEUTRAL if named else match[0]

    return _WORD.sub(blanked, text)
