import codecs
import gzip
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from identiformer.data import Columns, TextData, load_source

Write = Callable[..., Path]
ENDINGS = ["csv", "tsv", "jsonl", "ndjson", "json", "parquet"]
NASTY = [
    "next\x85line",
    "nul\x00nul",
    "line\nline",
    "return\rreturn",
    "both\r\nboth",
    'a "quoted" word',
    '"',
    '""starts with two',
    "tab\tcomma,semicolon;",
    "  kept  ",
    "emoji 👩‍👩‍👧 and e\u0301",
    "שלום עולם ‏",
    "separator\u2028paragraph\u2029",
    "bom \ufeff inside",
    "\ufeffbom at the start",
    "back\\slash \\n",
    "NA",
    "null",
    "None",
    "nan",
    "x y " * 250_000,
]


def rows_of(data: TextData) -> list[tuple[int, str, str]]:
    split = data.splits["all"]
    return list(zip(split["row"], split["text"], split["label"], strict=True))


@pytest.mark.parametrize("gz", ["", ".gz"])
@pytest.mark.parametrize("ending", ENDINGS)
def test_every_format_gives_back_every_text(write: Write, ending: str, gz: str) -> None:
    path = write(f"data.{ending}{gz}", [{"text": text, "label": f"l{i % 3}"} for i, text in enumerate(NASTY)])
    data = load_source(str(path))
    assert rows_of(data) == [(i + 1, text, f"l{i % 3}") for i, text in enumerate(NASTY)]
    assert data.columns == Columns("text", "label", None)
    assert data.notes == []
    assert data.skipped == {}
    assert data.source == str(path)


def test_a_path_object_and_capital_endings(write: Write) -> None:
    path = write("DATA.CSV", "text,label\na,x\n")
    assert rows_of(load_source(path)) == [(1, "a", "x")]
    path = write("data.CSV.GZ", b"")
    path.write_bytes(gzip.compress(b"text,label\nb,y\n"))
    assert rows_of(load_source(path)) == [(1, "b", "y")]


def test_a_byte_order_mark_is_no_part_of_the_first_name(write: Write) -> None:
    for name, content in (
        ("data.csv", "text,label\na,x\n"),
        ("data.jsonl", '{"text": "a", "label": "x"}\n'),
        ("data.json", '[{"text": "a", "label": "x"}]'),
    ):
        path = write(name, codecs.BOM_UTF8 + content.encode())
        assert rows_of(load_source(path)) == [(1, "a", "x")]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r", "\r\r\n"])
def test_line_ends_of_every_system(write: Write, end: str) -> None:
    # "\r\r\n" is what Windows programs write that translate line ends twice.
    path = write("data.csv", end.join(["text,label", "a,x", '"b, c",y', ""]))
    assert rows_of(load_source(path)) == [(1, "a", "x"), (2, "b, c", "y")]


def test_no_line_end_after_the_last_row_and_blank_lines_between(write: Write) -> None:
    assert rows_of(load_source(write("a.csv", "\ntext,label\n\na,x\n\n\nb,y"))) == [
        (1, "a", "x"),
        (2, "b", "y"),
    ]
    lines = '\n{"text":"a","label":1}\n \n{"text":"b","label":2}'
    assert rows_of(load_source(write("a.jsonl", lines))) == [(1, "a", "1"), (2, "b", "2")]


def test_json_lines_with_windows_line_ends(write: Write) -> None:
    path = write("a.jsonl", '{"text":"a","label":1}\r\n{"text":"b","label":2}\r\n')
    assert rows_of(load_source(path)) == [(1, "a", "1"), (2, "b", "2")]


def test_a_json_object_with_data(write: Write) -> None:
    path = write("a.json", json.dumps({"version": 1, "data": [{"text": "a", "label": True}]}))
    assert rows_of(load_source(path)) == [(1, "a", "True")]


def test_a_tsv_whose_quotes_are_ordinary_characters(write: Write) -> None:
    path = write("a.tsv", 'text\tlabel\n"Hello," she said\tx\n5" screen\ty\n"never closed\tx\n')
    data = load_source(path)
    assert rows_of(data) == [(1, '"Hello," she said', "x"), (2, '5" screen', "y"), (3, '"never closed', "x")]
    assert data.notes == [
        f'{path}: quotes (") are read as ordinary characters: they do not pair up around cells'
    ]


def test_mixed_ways_of_writing_numbers_are_one_label(write: Write) -> None:
    lines = [f'{{"text":"t","label":{label}}}' for label in ("1", "1.0", '"1.0"', '" 1 "')]
    assert load_source(write("a.jsonl", "\n".join(lines))).splits["all"]["label"][:] == ["1", "1", "1", "1"]


def test_a_parquet_column_of_integers_with_gaps_is_no_column_of_floats(write: Write) -> None:
    path = write(
        "a.parquet", [{"text": "a", "label": 1.0}, {"text": "b", "label": None}, {"text": "c", "label": 2.0}]
    )
    data = load_source(path, on_bad_row="skip")
    assert rows_of(data) == [(1, "a", "1"), (3, "c", "2")]
    assert data.skipped == {"missing label": 1}


def test_a_text_pair(write: Write) -> None:
    path = write("a.csv", "text,text_pair,label\na,b,x\nc,d,y\n")
    data = load_source(path)
    assert data.columns == Columns("text", "label", "text_pair")
    assert data.splits["all"].column_names == ["text", "text_pair", "label", "row"]
    assert data.splits["all"]["text_pair"][:] == ["b", "d"]


def test_a_folder_of_splits(write: Write, tmp_path: Path) -> None:
    write("set/TRAIN.csv", "text,label\na,x\nb,y\n")
    write("set/dev.jsonl", '{"text":"c","label":"x"}\n')
    write("set/test.parquet", [{"text": "d", "label": "y"}])
    write("set/README.md", "hello")
    write("set/other.csv", "text,label\nz,x\n")
    data = load_source(tmp_path / "set")
    assert {name: rows["text"][:] for name, rows in data.splits.items()} == {
        "train": ["a", "b"],
        "valid": ["c"],
        "test": ["d"],
    }
    assert list(load_source(tmp_path / "set", only=("test",), need=("test",)).splits) == ["test"]


def test_a_changed_file_gives_its_new_rows(write: Write) -> None:
    path = write("a.csv", "text,label\na,x\n")
    before = path.stat()
    first = load_source(path)
    write("a.csv", "text,label\nb,y\n")
    # Same name, same size, same time: nothing but its contents tells.
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert rows_of(load_source(path)) == [(1, "b", "y")]
    assert rows_of(first) == [(1, "a", "x")]
