"""Faults of a whole file: always an error of one line that says what, where and how to mend it."""

import gzip
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from identiformer.data import load_source
from identiformer.errors import InputError

Write = Callable[..., Path]
GOOD = "text,label\na,x\nb,y\n"


def refusal(source: Path | str, **options) -> str:
    with pytest.raises(InputError) as caught:
        load_source(source, on_bad_row="skip", **options)
    message = str(caught.value)
    assert "\n" not in message
    assert len(message) < 900
    return message


@pytest.mark.parametrize(
    "name", ["a.csv", "a.tsv", "a.jsonl", "a.json", "a.parquet", "a.csv.gz", "a.parquet.gz"]
)
def test_an_empty_file(write: Write, name: str) -> None:
    path = write(name, b"")
    assert refusal(path) == f"{path} is empty: it needs rows of texts"


@pytest.mark.parametrize("content", [b"\n\n \n", b"\xef\xbb\xbf", b"\xef\xbb\xbf\r\n", b" " * 5000])
def test_a_file_of_white_space(write: Write, content: bytes) -> None:
    path = write("a.csv", content)
    assert refusal(path) == f"{path} is empty: it needs rows of texts"


def test_white_space_before_the_contents_is_not_an_empty_file(write: Write) -> None:
    path = write("a.json", " " * 5000 + '[{"text": "a", "label": "x"}]')
    assert len(load_source(path).splits["all"]) == 1


@pytest.mark.parametrize("content", ["text,label", "text,label\n", "text,label\r\n\r\n"])
def test_only_a_header(write: Write, content: str) -> None:
    path = write("a.csv", content)
    assert refusal(path) == f"{path} has no rows: it needs at least one"


def test_no_rows_in_other_formats(write: Write) -> None:
    import pyarrow
    import pyarrow.parquet

    assert "has no rows" in refusal(write("a.json", "[]"))
    assert "none of its 2 rows can be used: an object without keys in rows 1 (line 1) and 2" in refusal(
        write("a.jsonl", "{}\n{}\n")
    )
    path = write("a.parquet", b"")
    pyarrow.parquet.write_table(
        pyarrow.table({"text": pyarrow.array([], pyarrow.string()), "label": []}), path
    )
    assert "has no rows" in refusal(path)


def test_a_column_that_is_not_there(write: Write) -> None:
    path = write("a.csv", GOOD)
    assert refusal(path, text_column="body") == (
        f"{path} has no column 'body' (given with --text-column): its columns are 'text', 'label'"
    )
    assert "'stars' (given with --label-column)" in refusal(path, label_column="stars")
    assert "'pair' (given with --text-pair-column)" in refusal(path, text_pair_column="pair")


def test_two_columns_of_one_name(write: Write) -> None:
    path = write("a.csv", "text,label,text\na,x,b\n")
    assert refusal(path) == f"{path} has more than one column named 'text': give every column its own name"
    assert "more than one column named 'label'" in refusal(write("a.tsv", "text\tlabel\tlabel \na\tx\tb\n"))


def test_a_repeated_key_in_json(write: Write) -> None:
    path = write("a.json", '[{"text": "a", "label": "x", "text": "b"}]')
    assert refusal(path) == f"{path} is not usable JSON: an object has more than one 'text'; mend it there"
    path = write("a.jsonl", '{"text": "a", "label": "x"}\n{"text": "b", "label": "x", "label": "y"}\n')
    assert load_source(path, on_bad_row="skip").skipped == {"a line that is not JSON": 1}


def test_two_parquet_columns_of_one_name(write: Write) -> None:
    import pyarrow
    import pyarrow.parquet

    path = write("a.parquet", b"")
    table = pyarrow.Table.from_arrays([pyarrow.array(["a"])] * 2, names=["text", "text"])
    pyarrow.parquet.write_table(table, path)
    assert refusal(path) == f"{path} has more than one column named 'text': give every column its own name"


def test_not_utf_8(write: Write) -> None:
    path = write("a.csv", b"text,label\nfine,x\ncaf\xe9,y\n")
    assert refusal(path) == f"{path} is not UTF-8: line 3, byte 21 of the file is 0xe9; save it as UTF-8"
    path = write("b.csv.gz", b"text,label\n" + b"long text,x\n" * 100_000 + b"caf\xe9,y\n")
    assert "line 100,002, byte 1,200,014 of the file is 0xe9" in refusal(path)
    path = write("c.jsonl", b'{"text": "a\xff", "label": "x"}\n')
    assert "line 1, byte 11 of the file is 0xff" in refusal(path)
    path = write("d.json", b'[{"text": "caf\xc3')
    assert "is not UTF-8: line 1, byte 14 of the file is 0xc3" in refusal(path)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32"])
def test_other_unicode_encodings_are_named(write: Write, encoding: str) -> None:
    path = write("a.csv", GOOD.encode(encoding))
    assert refusal(path) == f"{path} is {encoding[:6].upper()}, not UTF-8: save it as UTF-8"


def test_a_broken_gzip_file(write: Write) -> None:
    whole = gzip.compress(b"text,label\n" + b"some text,x\n" * 1000)
    path = write("a.csv", b"").with_name("a.csv.gz")
    for content in (whole[:-20], b"text,label\na,x\n", whole[:40] + b"\x00\x00\x00" + whole[43:], whole[:5]):
        path.write_bytes(content)
        assert refusal(path).startswith(f"{path} is not a whole gzip file (")
    parquet = path.with_name("a.parquet.gz")
    parquet.write_bytes(whole[:-20])
    assert refusal(parquet).startswith(f"{parquet} is not a whole gzip file (")


def test_files_under_a_wrong_name(write: Write) -> None:
    assert "is compressed with gzip: add .gz" in refusal(write("a.csv", gzip.compress(GOOD.encode())))
    assert "a zip archive or an Excel workbook" in refusal(write("a.csv", b"PK\x03\x04rest of it"))
    assert "is a Parquet file: end its name in .parquet" in refusal(write("a.jsonl", b"PAR1rest of it"))
    assert "it holds an object a line, so end its name in .jsonl" in refusal(
        write("a.json", '{"text": "a", "label": "x"}\n{"text": "b", "label": "y"}\n')
    )


def test_broken_json(write: Write) -> None:
    path = write("a.json", '[{"text": "a", "label": "x"},\n {"text": "b", "label": }]')
    assert refusal(path) == f"{path} is not valid JSON: line 2, column 25: Expecting value; mend it there"
    assert "is not usable JSON" in refusal(write("a.json", "[" * 100_000))


def test_json_of_another_shape(write: Write) -> None:
    path = write("a.json", '{"text": ["a"], "label": ["x"]}')
    assert refusal(path).startswith(
        f"{path} holds an object with the keys 'text', 'label': it must be a list of obj"
    )
    assert "holds a single value" in refusal(write("a.json", "3"))


def test_no_line_is_json(write: Write) -> None:
    path = write("a.jsonl", "text,label\na,x\n")
    assert refusal(path) == (
        f"{path}: none of its 2 rows can be used: a line that is not JSON in rows 1 (line 1) and 2"
    )


def test_a_broken_parquet_file(write: Write) -> None:
    for content in (b"PAR1 and nothing else", b"no", b"text,label\na,x\n"):
        path = write("a.parquet", content)
        assert refusal(path).startswith(f"{path} is not a whole Parquet file (")
    whole = write("b.parquet", [{"text": f"text {i}", "label": "x"} for i in range(1000)]).read_bytes()
    path = write("c.parquet", whole[: len(whole) // 2])
    assert refusal(path).startswith(f"{path} is not a whole Parquet file (")
    path = write("d.parquet", b"PAR1" + b"\xaa" * 1000 + whole[1004:])
    assert refusal(path).startswith(f"{path} is not a whole Parquet file (")


def test_an_unknown_ending(write: Write) -> None:
    for name in ("a.txt", "a.xlsx", "csv", "a.csv.bz2", "a.gz"):
        path = write(name.replace("a.gz", "plain"), GOOD)
        assert refusal(path) == (
            f"{path} has an ending that is not understood: it must be .csv, .tsv, .jsonl, .ndjson, .json or .parquet, "
            "each also with .gz"
        )


def test_nothing_there(tmp_path: Path) -> None:
    path = tmp_path / "no.csv"
    assert refusal(path) == f"{path} does not exist: give a file, a folder, hf:NAME or demo:reviews"
    assert refusal("someone/set").endswith("for a data set on the hub write hf:someone/set")
    for name in ("", "a\nb.csv", "a\x00.csv", "a\udcff.csv"):
        assert refusal(name).endswith(
            " is no name of a source: give a file, a folder, hf:NAME or demo:reviews"
        )
    os.mkfifo(tmp_path / "pipe.csv")
    assert refusal(tmp_path / "pipe.csv").endswith("is neither a file nor a folder: save its rows to a file")


def test_a_folder_without_splits(write: Write, tmp_path: Path) -> None:
    folder = write("set/one.csv", GOOD).parent
    message = refusal(folder)
    assert message.startswith(f"{folder} is a folder without a file named train, valid or test (")
    assert "it holds 'one.csv'; give one of the files, or rename it" in message
    (tmp_path / "empty").mkdir()
    assert "it holds none" in refusal(tmp_path / "empty")


def test_a_folder_without_the_needed_split(write: Write) -> None:
    folder = write("set/test.csv", GOOD).parent
    assert list(load_source(folder).splits) == ["test"]
    assert refusal(folder, need=("train",)) == (
        f"{folder} has no train split, which is needed here: found 'test.csv'"
    )
    assert refusal(folder, only=("valid",)) == f"{folder} has no split 'valid': found 'test.csv'"


def test_two_files_of_one_split(write: Write) -> None:
    folder = write("set/train.csv", GOOD).parent
    write("set/train.jsonl", '{"text": "a", "label": "x"}\n')
    assert refusal(folder) == (
        f"{folder} has more than one file of the train split: 'train.csv', 'train.jsonl'; keep one of them there"
    )


def test_splits_of_different_columns(write: Write) -> None:
    folder = write("set/train.csv", GOOD).parent
    write("set/test.csv", "text,class\na,x\n")
    assert refusal(folder) == (
        f"{folder / 'test.csv'} has no column 'label', as the other splits have: its columns are 'text', 'class'"
    )
    data = load_source(folder, labels="optional")
    assert data.splits["test"].column_names == ["text", "row"]
    assert data.notes == [f"{folder / 'test.csv'} has no labels: it has no column 'label'"]


def test_cells_separated_by_something_else(write: Write) -> None:
    path = write("a.csv", "text;label\na;x\n")
    assert refusal(path) == (
        f"{path} has one column, named 'text;label': its cells seem to be separated by semicolons; save it with commas "
        "as .csv or with tabs as .tsv"
    )
    assert "separated by commas" in refusal(write("a.tsv", GOOD))


def test_a_quote_that_is_never_closed(write: Write) -> None:
    path = write("a.csv", 'text,label\na,x\n"never closed,y\nb,x\nc,y\n')
    assert refusal(path) == (
        f'{path}: the quotes (") of the row that starts on line 3 do not pair up (unexpected end of data): write a '
        'quote inside a quoted cell twice (""), or save the rows as .jsonl'
    )
    path = write("b.csv", 'text,label\n"a "quoted" word",x\n')
    assert "of line 2 do not pair up (',' expected after '\"')" in refusal(path)


def test_a_file_that_may_not_be_read(write: Write) -> None:
    path = write("a.csv", GOOD)
    path.chmod(0)
    try:
        path.read_bytes()
    except PermissionError:
        assert refusal(path) == f"{path} cannot be read: Permission denied"
    else:
        pytest.skip("this user may read every file")
