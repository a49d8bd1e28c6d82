import gc
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from identiformer.data import arrow, load_source, split_data
from identiformer.errors import InputError

Write = Callable[..., Path]


def leftovers(folder: Path) -> list[str]:
    return [item.name for item in folder.iterdir() if item.name.startswith("identiformer-")]


@pytest.fixture
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "scratch"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    monkeypatch.setattr(arrow, "SPILL_BYTES", 10_000)
    monkeypatch.setattr(arrow, "BATCH_ROWS", 50)
    return folder


def test_a_large_table_is_memory_mapped(write: Write, scratch: Path) -> None:
    path = write("a.csv", "text,label\n" + "".join(f"text {i},l{i % 2}\n" for i in range(1000)))
    data = load_source(path)
    rows = data.splits["all"]
    assert len(rows.cache_files) == 1
    assert rows["text"][:] == [f"text {i}" for i in range(1000)]
    assert rows["row"][:] == list(range(1, 1001))
    splits = split_data(data, seed=0).splits
    assert sum(len(split) for split in splits.values()) == 1000
    assert splits["test"].cache_files == rows.cache_files
    # A changed file is read anew, and what was read before stays.
    write("a.csv", "text,label\n" + "".join(f"other {i},l{i % 2}\n" for i in range(1000)))
    assert load_source(path).splits["all"]["text"][:2] == ["other 0", "other 1"]
    assert rows["text"][:2] == ["text 0", "text 1"]


def test_the_file_of_an_error_is_removed(write: Write, scratch: Path) -> None:
    path = write("a.csv", "text,label\n" + "some text,x\n" * 2000 + ",x\n")
    with pytest.raises(InputError, match="missing text in row 2,001"):
        load_source(path)
    assert leftovers(scratch) == []


def test_the_file_of_a_compressed_parquet_file_is_removed(write: Write, scratch: Path) -> None:
    path = write("a.parquet.gz", [{"text": "a", "label": "x"}])
    assert load_source(path).splits["all"]["text"][:] == ["a"]
    gc.collect()
    assert leftovers(scratch) == []


@pytest.mark.slow
def test_nothing_stays_when_the_process_ends(write: Write, tmp_path: Path) -> None:
    path = write("a.csv", "text,label\n" + "some text,x\n" * 2000)
    folder = tmp_path / "scratch"
    folder.mkdir()
    code = (
        "import sys, tempfile; tempfile.tempdir = sys.argv[1]\n"
        "from pathlib import Path\n"
        "from identiformer.data import arrow, load_source\n"
        "arrow.SPILL_BYTES = 1000\n"
        "data = load_source(sys.argv[2])\n"
        "print(len([1 for item in Path(sys.argv[1]).iterdir() if item.name.startswith('identiformer-')]))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(folder), str(path)], capture_output=True, text=True, check=True
    )
    assert done.stdout == "1\n"
    assert done.stderr == ""
    assert leftovers(folder) == []


@pytest.mark.slow
def test_importing_the_package_is_cheap() -> None:
    code = (
        "import sys, identiformer.data\n"
        "print([name for name in ('torch', 'transformers', 'datasets', 'pyarrow', 'pandas') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
