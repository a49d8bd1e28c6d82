"""The command line as a process of its own: what it imports, and pipes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from runs import write_csv
from small import small_classifier

PROGRAM = "import sys; from identiformer.cli import main; sys.argv[0] = 'identiformer'; "
HEAVY = ("torch", "transformers", "datasets", "sklearn", "numpy", "pyarrow", "scipy", "tokenizers", "rich")


def start(*arguments: str, program: str = "main()") -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-c", PROGRAM + program, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        env=os.environ | {"OMP_NUM_THREADS": "1", "PYTHONIOENCODING": "utf-8"},
    )


@pytest.mark.parametrize(
    "command", [[], ["train"], ["evaluate"], ["predict"], ["explain"], ["advise"], ["serve"]]
)
def test_help_imports_nothing_heavy(command: list[str]):
    report = f"""
try:
    main()
finally:
    print(*sorted(set({HEAVY}) & set(sys.modules)), file=sys.stderr)
"""
    process = start(*command, "--help", program=f"exec({report!r})")
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0
    assert out.startswith(b"Usage: identiformer")
    assert err.split() == []


@pytest.mark.parametrize(
    "arguments",
    [
        ["explain", "./typo", "--text", "a"],
        ["audit", "./typo", "x.csv", "--output", "new"],
        ["train", "x.csv", "--output", "new", "--from", "./typo"],
        ["advise", "x.csv", "--model", "./typo"],
    ],
)
def test_a_typing_error_imports_nothing_heavy(arguments: list[str]):
    report = f"""
try:
    main()
finally:
    print(*sorted(set({HEAVY}) & set(sys.modules)), file=sys.stderr)
"""
    process = start(*arguments, program=f"exec({report!r})")
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (2, b"")
    message, heavy = err.decode().splitlines()
    assert message.startswith("error: ./typo does not exist")
    assert heavy == ""


@pytest.mark.slow
def test_a_reader_that_leaves_early_is_no_error(tmp_path: Path):
    model, tokenizer = small_classifier()
    model.save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    # More than a pipe holds, so that the writer meets its end.
    source = write_csv(
        tmp_path / "texts.csv", [{"text": f"a good meal {'x' * 500} {n}"} for n in range(1000)]
    )
    process = start("predict", str(tmp_path / "model"), source)
    assert process.stdout is not None
    assert process.stderr is not None
    assert process.stdout.readline().startswith(b'{"row": 1, ')
    process.stdout.close()
    err = process.stderr.read()
    process.stderr.close()
    assert process.wait(timeout=60) == 0
    assert err == b""
