from collections.abc import Callable
from pathlib import Path

import pytest

from identiformer.data import Columns, load_source
from identiformer.errors import InputError

Write = Callable[..., Path]
PROSE = ["a film that I liked a lot", "it was far too long for me", "we left before the end"]


def columns_of(
    write: Write, names: str, *, rows: list[str] | None = None, **options
) -> tuple[Columns, list[str]]:
    """The columns chosen for a file; by default the text-like cells are under names with "T" in front."""
    header = names.replace("*", "")
    kinds = [name.startswith("*") for name in names.split(",")]
    made = rows or [",".join(PROSE[i] if prose else f"v{i % 2}" for prose in kinds) for i in range(3)]
    path = write("a.csv", "\n".join([header, *made]) + "\n")
    data = load_source(path, **options)
    return data.columns, [note.removeprefix(f"{path}: ") for note in data.notes]


@pytest.mark.parametrize(
    ("names", "columns", "notes"),
    [
        ("*text,label", ("text", "label", None), []),
        ("label,id,*text", ("text", "label", None), []),
        (
            "*Text,LABEL",
            ("Text", "LABEL", None),
            ["the text is the column 'Text'", "the label is the column 'LABEL'"],
        ),
        (
            "*sentence,target",
            ("sentence", "target", None),
            ["the text is the column 'sentence'", "the label is the column 'target'"],
        ),
        ("*Review,*text,sentiment", ("text", "sentiment", None), ["the label is the column 'sentiment'"]),
        # By what is in them: one column of prose, and one other.
        (
            "*answer,stars",
            ("answer", "stars", None),
            [
                "the text is the column 'answer', the only one of prose",
                "the label is the column 'stars', the only one left",
            ],
        ),
        ("id,kind,*text", ("text", "kind", None), ["the label is the column 'kind', the only one left"]),
        (",*text,kind", ("text", "kind", None), ["the label is the column 'kind', the only one left"]),
        (
            "*premise,*hypothesis,label",
            ("premise", "label", "hypothesis"),
            ["the texts are the columns 'premise' and 'hypothesis', as a pair"],
        ),
        (
            "idx,*sentence1,*sentence2,label",
            ("sentence1", "label", "sentence2"),
            ["the texts are the columns 'sentence1' and 'sentence2', as a pair"],
        ),
        ("*text,*text_pair,label", ("text", "label", "text_pair"), []),
    ],
)
def test_the_choice(write: Write, names: str, columns: tuple, notes: list[str]) -> None:
    assert columns_of(write, names) == (Columns(*columns), notes)


def test_given_names_come_first(write: Write) -> None:
    for names, text, label in (("*text,label,*body,kind", "body", "kind"), ("*BODY,Kind", "BODY", "Kind")):
        chosen = columns_of(write, names, text_column="body", label_column="kind")
        assert chosen == (Columns(text, label, None), [])
    assert columns_of(write, "*a,*b,c", text_column="b", text_pair_column="a", label_column="c") == (
        Columns("b", "c", "a"),
        [],
    )
    # A text that is given on its own is no half of a pair.
    assert columns_of(write, "*premise,*hypothesis,label", text_column="premise")[0] == Columns(
        "premise", "label", None
    )


@pytest.mark.parametrize(
    ("names", "option"),
    [
        ("*review,*message,label", "--text-column"),
        ("a,b,label", "--text-column"),
        ("*a,*b,label", "--text-column"),
        ("*text,target,category", "--label-column"),
        ("*text,a,b", "--label-column"),
    ],
)
def test_no_telling_which(write: Write, names: str, option: str) -> None:
    with pytest.raises(InputError) as caught:
        columns_of(write, names)
    message = str(caught.value)
    assert "there is no telling which column is the " in message
    assert message.endswith(f"name it with {option}")
    for name in names.replace("*", "").split(","):
        assert repr(name) in message


def test_no_column_left_for_the_label(write: Write) -> None:
    with pytest.raises(
        InputError, match=r"has no column of labels: its columns are 'id', 'text'; add a column named"
    ):
        columns_of(write, "id,*text")


def test_labels_that_are_not_needed(write: Write) -> None:
    assert columns_of(write, "*text", labels="ignore") == (Columns("text", None, None), [])
    assert columns_of(write, "*text", labels="optional") == (Columns("text", None, None), [])
    assert columns_of(write, "*text,label", labels="ignore") == (Columns("text", None, None), [])
    assert columns_of(write, "*text,label", labels="optional") == (Columns("text", "label", None), [])
    # Only a usual name makes a label of a column that is not asked for.
    assert columns_of(write, "*text,stars", labels="optional") == (Columns("text", None, None), [])
    assert columns_of(write, "*text,target,category", labels="optional") == (
        Columns("text", None, None),
        [
            "no labels are used, since 'target', 'category' could each be the label: name one with --label-column"
        ],
    )
    # The label's column is not taken for a text, and need not be there.
    assert columns_of(write, "label,words", labels="ignore", label_column="gone")[0] == Columns(
        "words", None, None
    )


def test_one_column_for_two_things(write: Write) -> None:
    with pytest.raises(InputError, match="one column cannot be two things"):
        columns_of(write, "*text,label", text_column="text", label_column="text")


def test_a_file_without_a_header(write: Write) -> None:
    for rows in (
        ["ham,did you get home all right", "spam,call now to claim your prize", "ham,see you at the station"],
        ["did you get home all right,ham", "call now to claim your prize,spam", "see you at the station,ham"],
    ):
        with pytest.raises(
            InputError, match="the first line seems to be a row, not the names of the columns: put a "
        ):
            columns_of(write, rows[0], rows=rows[1:])
    # Names as long as that are possible, when asked for.
    rows = ["see you at the station,ham"]
    chosen, _ = columns_of(
        write, "what did the caller say,kind", rows=rows, text_column="what did the caller say"
    )
    assert chosen == Columns("what did the caller say", "kind", None)


def test_keys_that_only_some_objects_have(write: Write) -> None:
    path = write("a.jsonl", '{"text":"a"}\n{"label":"x","text":"b"}\n')
    data = load_source(path, on_bad_row="skip")
    assert data.columns == Columns("text", "label", None)
    assert data.splits["all"]["row"][:] == [2]
