"""Rows that cannot be used: an error that names them, or left out and counted."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from identiformer.data import load_source
from identiformer.errors import InputError

Write = Callable[..., Path]


def test_missing_and_blank_texts(write: Write) -> None:
    path = write("a.csv", 'text,label\na,x\n,y\n"  ",x\n"b\nc",y\n,x\n')
    with pytest.raises(InputError) as caught:
        load_source(path)
    assert str(caught.value) == (
        f"{path}: 3 rows cannot be used: missing text in rows 2 (line 3) and 5; blank text in row 3 (line 4); mend "
        "them, or leave them out with --on-bad-row skip"
    )
    data = load_source(path, on_bad_row="skip")
    assert data.splits["all"]["row"][:] == [1, 4]
    assert data.splits["all"]["text"][:] == ["a", "b\nc"]
    assert data.skipped == {"missing text": 2, "blank text": 1}
    assert data.notes == [
        f"{path}: 3 rows left out: missing text in rows 2 (line 3) and 5; blank text in row 3 (line 4)"
    ]
    assert data.on_bad_row == "skip"


def test_the_line_of_a_row_after_texts_of_several_lines(write: Write) -> None:
    path = write("a.csv", 'text,label\n"a\n\nb",x\n"c\r\nd",y\n\n,x\n')
    with pytest.raises(InputError, match=r"missing text in row 3 \(line 8\); mend"):
        load_source(path)


@pytest.mark.parametrize("ending", ["csv", "tsv"])
def test_ragged_rows(write: Write, ending: str) -> None:
    tab = "," if ending == "csv" else "\t"
    lines = [["text", "label"], ["a", "x"], ["b"], ["c", "y", "z"], ["d", "y"], ["e", "x", ""]]
    path = write(f"a.{ending}", "\n".join(tab.join(cells) for cells in lines) + "\n")
    with pytest.raises(InputError) as caught:
        load_source(path)
    assert str(caught.value) == (
        f"{path}: 3 rows cannot be used: fewer cells than the header in row 2 (line 3); more cells than the header in "
        "rows 3 (line 4) and 5; mend them, or leave them out with --on-bad-row skip"
    )
    data = load_source(path, on_bad_row="skip")
    assert data.splits["all"]["text"][:] == ["a", "d"]
    assert data.skipped == {"fewer cells than the header": 1, "more cells than the header": 2}


def test_only_the_first_rows_are_named(write: Write) -> None:
    path = write("a.csv", "text,label\n" + ",x\n" * 100_000 + "a,y\n")
    with pytest.raises(InputError) as caught:
        load_source(path)
    assert str(caught.value) == (
        f"{path}: 100,000 rows cannot be used: missing text in rows 1 (line 2), 2, 3, 4, 5 and 99,995 more; mend them, "
        "or leave them out with --on-bad-row skip"
    )


def test_labels_that_are_missing(write: Write) -> None:
    content = [
        '{"text":"a","label":null}',
        '{"text":"b","label":NaN}',
        '{"text":"c"}',
        '{"text":"d","label":"nan"}',
    ]
    path = write("a.jsonl", "\n".join([*content, '{"text":"e","label":0}']))
    with pytest.raises(
        InputError, match=r"4 rows cannot be used: missing label in rows 1 \(line 1\), 2, 3 and 4;"
    ):
        load_source(path)
    data = load_source(path, on_bad_row="skip")
    assert data.splits["all"]["label"][:] == ["0"]
    assert data.skipped == {"missing label": 4}
    ignored = load_source(path, labels="ignore")
    assert ignored.splits["all"].column_names == ["text", "row"]
    assert len(ignored.splits["all"]) == 5


def test_lines_that_are_not_json_objects(write: Write) -> None:
    path = write(
        "a.jsonl",
        '{"text":"a","label":1}\n{"text":"b",\n[1]\n"text"\n' + "[" * 50_000 + '\n{"text":"c","label":2}',
    )
    with pytest.raises(InputError) as caught:
        load_source(path)
    assert str(caught.value) == (
        f"{path}: 4 rows cannot be used: a line that is not JSON in rows 2 (line 2) and 5; a row that is not a JSON "
        "object in rows 3 (line 3) and 4; mend them, or leave them out with --on-bad-row skip"
    )
    assert load_source(path, on_bad_row="skip").splits["all"]["row"][:] == [1, 6]


@pytest.mark.parametrize("ending", ["json", "parquet"])
def test_texts_of_other_types(write: Write, ending: str) -> None:
    if ending == "json":
        path = write(
            "a.json", json.dumps([{"text": t, "label": 1} for t in (3, 2.5, ["a"], {"a": 1}, None, "b")])
        )
        data = load_source(path, on_bad_row="skip")
        assert data.splits["all"]["text"][:] == ["3", "2.5", "b"]
        assert data.skipped == {"text that is a list, an object or bytes": 2, "missing text": 1}
    else:
        path = write("a.parquet", [{"text": [1, 2], "label": 1}, {"text": [3], "label": 2}])
        with pytest.raises(
            InputError, match=r"none of its 2 rows can be used: text that is a list, an object or byt"
        ):
            load_source(path)
        data = load_source(write("b.parquet", [{"text": 7, "label": True}, {"text": 8, "label": False}]))
        assert data.splits["all"]["text"][:] == ["7", "8"]
        assert data.splits["all"]["label"][:] == ["True", "False"]


def test_half_a_character(write: Write) -> None:
    path = write("a.jsonl", '{"text":"\\ud83d","label":1}\n{"text":"\\ud83d\\ude00","label":1}\n')
    data = load_source(path, on_bad_row="skip")
    assert data.splits["all"]["text"][:] == ["😀"]
    assert data.skipped == {"text that is not valid Unicode": 1}


def test_faults_of_pairs(write: Write) -> None:
    path = write("a.csv", "text,text_pair,label\na,,x\nb, ,x\nc,d,y\n")
    data = load_source(path, on_bad_row="skip")
    assert data.splits["all"]["row"][:] == [3]
    assert data.skipped == {"missing text pair": 1, "blank text pair": 1}


def test_no_good_row(write: Write) -> None:
    path = write("a.csv", "text,label\n,x\n ,y\n")
    with pytest.raises(InputError) as caught:
        load_source(path, on_bad_row="skip")
    assert str(caught.value) == (
        f"{path}: none of its 2 rows can be used: missing text in row 1 (line 2); blank text in row 2 (line 3)"
    )


def test_counts_of_all_splits_are_added_up(write: Write) -> None:
    folder = write("set/train.csv", "text,label\na,x\n,y\nb,y\n").parent
    write("set/test.csv", "text,label\n,x\nc,\nd,y\n")
    data = load_source(folder, on_bad_row="skip")
    assert data.skipped == {"missing text": 2, "missing label": 1}
    assert [note.split(": ")[0] for note in data.notes] == [
        str(folder / "train.csv"),
        str(folder / "test.csv"),
    ]
