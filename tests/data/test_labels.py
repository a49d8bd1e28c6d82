import re

import datasets
import numpy as np
import pytest

from identiformer.data import Columns, TextData, check_labels, encode_labels, label_names
from identiformer.errors import InputError


def made(labels: list[str], split: str = "train") -> TextData:
    rows = datasets.Dataset.from_dict(
        {
            "text": [f"t{i}" for i in range(len(labels))],
            "label": labels,
            "row": list(range(1, len(labels) + 1)),
        }
    )
    return TextData({split: rows}, Columns("text", "stars", None), [], {}, "src")


@pytest.mark.parametrize(
    ("labels", "names"),
    [
        (["b", "a", "b"], ["a", "b"]),
        (["10", "9", "-3", "9"], ["-3", "9", "10"]),
        (["10", "9", "1.5", "9"], ["1.5", "10", "9"]),
        (["2", "02", "1", "1"], ["1", "02", "2"]),
        (["B", "a", "A", "a"], ["A", "B", "a"]),
        (["9" * 5000, "8", "8"], ["8", "9" * 5000]),
    ],
)
@pytest.mark.parametrize("split", ["train", "all"])
def test_the_order_of_labels(labels: list[str], names: list[str], split: str) -> None:
    assert label_names(made(labels, split)) == names


def test_labels_that_cannot_be_learned() -> None:
    with pytest.raises(
        InputError, match=r"^src: every row has the label 'a'; training needs at least two different"
    ):
        label_names(made(["a", "a"]))
    with pytest.raises(
        InputError,
        match=r"^src: each of the 4 rows has a label of its own \('0.1', '0.2', '0.3' and 1 more\), so the column "
        r"'stars' seems to be an id or a measured number: choose another with --label-column, or add rows$",
    ):
        label_names(made(["0.1", "0.2", "0.3", "0.4"]))
    with pytest.raises(InputError, match="src has no train split: found 'test'"):
        label_names(made(["a", "b"], "test"))
    data = made(["a", "b", "a"])
    data.splits["train"] = data.splits["train"].remove_columns("label")
    with pytest.raises(InputError, match="src has no labels: name their column with --label-column"):
        label_names(data)


def test_long_labels_make_short_messages() -> None:
    labels = [f"{i}" * 100_000 + "\n" for i in range(5)]
    with pytest.raises(InputError) as caught:
        label_names(made(labels))
    assert len(str(caught.value)) < 500
    assert "\n" not in str(caught.value)


def test_the_numbers_of_labels() -> None:
    rows = made(["b", "a", "c", "b"]).splits["train"]
    codes = encode_labels(rows, ["a", "b", "c"])
    assert codes.dtype == np.int64
    assert codes.tolist() == [1, 0, 2, 1]
    with pytest.raises(InputError, match="label 'c', which is none of 'a', 'b'"):
        encode_labels(rows, ["a", "b"])


def test_labels_that_are_not_known() -> None:
    rows = made(["b", "z", "a", "y", "z"]).splits["train"]
    same, counts = check_labels(rows, ["a", "b", "y", "z"], "here")
    assert same is rows
    assert counts == {}
    with pytest.raises(InputError) as caught:
        check_labels(rows, ["a", "b"], "here.csv")
    assert str(caught.value) == (
        "here.csv: unknown labels 'y', 'z' (rows 2, 4 and 5); known are 'a', 'b': mend the labels, or leave these rows "
        "out with --on-bad-row skip"
    )
    kept, counts = check_labels(rows, ["a", "b"], "here.csv", "skip")
    assert kept["row"][:] == [1, 3]
    assert counts == {"unknown label": 3}
    with pytest.raises(
        InputError, match=re.escape("(rows 1, 2, 3, 4 and 5); known are 'q': mend the labels, no row")
    ):
        check_labels(rows, ["q"], "here", "skip")
