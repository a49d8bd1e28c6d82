"""The examples in the documentation, run: they must print what stands there."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[1] / "docs"
FENCE = re.compile(r"^```(\w*)$")


def examples(text: str, name: str) -> doctest.DocTest:
    """What stands in the Python blocks of a Markdown text, as one doctest that keeps the line numbers."""
    lines: list[str] = []
    language: str | None = None
    for line in text.splitlines():
        fence = FENCE.match(line)
        if fence:
            language = fence[1] if language is None else None
        # Blank lines end expected output, so fences and prose become blank.
        lines.append("" if fence or language != "python" else line)
    assert language is None, f"{name}: a block without an end"
    return doctest.DocTestParser().get_doctest("\n".join(lines), {}, name, name, 0)


def failures(text: str, name: str) -> str:
    """What the examples of a text print against what they say, in doctest's words; empty if nothing differs."""
    said: list[str] = []
    test = examples(text, name)
    doctest.DocTestRunner(verbose=False).run(test, out=said.append)
    return "".join(said)


@pytest.mark.parametrize("name", ["identifiability.md"])
def test_examples_print_what_is_written(name):
    text = (DOCS / name).read_text(encoding="utf-8")
    said = failures(text, name)
    if said:
        pytest.fail(said, pytrace=False)


@pytest.mark.parametrize("name", ["identifiability.md"])
def test_every_block_is_an_example_with_its_output(name):
    text = (DOCS / name).read_text(encoding="utf-8")
    blocks = re.findall(r"^```(.*)\n((?:.*\n)*?)```$", text, flags=re.MULTILINE)
    assert {language for language, _ in blocks} == {"python"}
    # The first one defines what the others use.
    for _, block in blocks[1:]:
        assert doctest.DocTestParser().get_examples(block)[-1].want, block


def test_what_is_wrong_is_found():
    wrong = "Prose >>> 1\n\n```python\n>>> x = 2\n>>> x + 1\n3\n```\n\nMore.\n\n```python\n>>> x\n3\n```\n"
    said = failures(wrong, "wrong.md")
    assert said.count("Failed example") == 1
    assert 'File "wrong.md", line 12' in said
    assert failures(wrong.replace("x\n3", "x\n2"), "right.md") == ""
    assert "ZeroDivisionError" in failures("```python\n>>> 1 / 0\n1\n```\n", "raising.md")
