import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from itertools import chain
from pathlib import Path

import datasets
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from identiformer.data import Columns, TextData, label_names, load_source, split_data
from identiformer.data.types import OnBadRow
from identiformer.errors import InputError

Write = Callable[..., Path]
SPLITS = ["train", "valid", "test"]


def made(on_bad_row: OnBadRow = "error", **splits: Sequence[tuple[str, str]]) -> TextData:
    """A data set whose splits are lists of (text, label)."""
    sets = {
        name: datasets.Dataset.from_dict(
            {
                "text": [text for text, _ in rows],
                "label": [label for _, label in rows],
                "row": list(range(1, len(rows) + 1)),
            }
        )
        for name, rows in splits.items()
    }
    return TextData(
        sets, Columns("text", "label", None), ["said before"], {"missing text": 1}, "src", on_bad_row
    )


def numbers(data: TextData) -> dict[str, list[int]]:
    return {name: list(rows["row"]) for name, rows in data.splits.items()}


def normal(text: str) -> str:
    return " ".join(text.casefold().split())


def test_shares_of_labels_and_of_rows() -> None:
    rows = [(f"text {i}", "a" if i % 10 < 7 else "b" if i % 10 < 9 else "c") for i in range(1000)]
    data = split_data(made(all=rows), seed=3)
    assert list(data.splits) == SPLITS
    assert {name: Counter(split["label"]) for name, split in data.splits.items()} == {
        "train": {"a": 560, "b": 160, "c": 80},
        "valid": {"a": 70, "b": 20, "c": 10},
        "test": {"a": 70, "b": 20, "c": 10},
    }
    assert data.notes == ["said before"]
    assert data.skipped == {"missing text": 1}
    assert all(found == sorted(found) for found in numbers(data).values())
    other = split_data(made(all=rows), seed=3, valid_fraction=0.25, test_fraction=0.05)
    assert {name: len(split) for name, split in other.splits.items()} == {
        "train": 700,
        "valid": 250,
        "test": 50,
    }


def test_rare_labels_get_their_share_together() -> None:
    # 300 labels of 3 rows: a tenth of each is a third of a row.
    rows = [(f"text {i}", f"l{i % 300}") for i in range(900)]
    data = split_data(made(all=rows), seed=0)
    sizes = {name: len(split) for name, split in data.splits.items()}
    assert abs(sizes["valid"] - 90) <= 2
    assert abs(sizes["test"] - 90) <= 2
    assert set(data.splits["train"]["label"]) == {f"l{i}" for i in range(300)}


def test_the_seed_decides() -> None:
    rows = [(f"text {i}", f"l{i % 2}") for i in range(200)]
    one, again, other = (numbers(split_data(made(all=rows), seed=seed)) for seed in (1, 1, 2))
    assert one == again
    assert one != other


@pytest.mark.slow
def test_other_processes_split_alike(write: Write) -> None:
    path = write("a.csv", "text,label\n" + "".join(f"text {i % 70},l{i % 2}\n" for i in range(100)))
    code = (
        "import sys; from identiformer.data import load_source, split_data\n"
        "splits = split_data(load_source(sys.argv[1]), seed=5).splits\n"
        "print({name: list(rows['row']) for name, rows in splits.items()})"
    )
    here = f"{numbers(split_data(load_source(path), seed=5))}\n"
    for hash_seed in ("1", "2"):
        done = subprocess.run(
            [sys.executable, "-c", code, str(path)],
            capture_output=True,
            text=True,
            check=True,
            env={"PYTHONHASHSEED": hash_seed},
        )
        assert done.stdout == here


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["A b", "a  B", "c", "d", "E", "e ", *"fghijklmnop"]), st.sampled_from("xyz")
        ),
        min_size=1,
        max_size=60,
    ),
    st.integers(0, 3),
)
def test_any_rows_split_well_or_are_refused(rows: list[tuple[str, str]], seed: int) -> None:
    labels = {label for _, label in rows}
    texts: dict[str, set[str]] = defaultdict(set)
    for text, label in rows:
        texts[normal(text)].add(label)
    try:
        data = split_data(made(all=rows), seed=seed)
    except InputError:
        # A text for each label, two more, and two labels are enough.
        assert len(labels) < 2 or len(labels) == len(rows) or len(texts) < len(labels) + 2
        return
    found = numbers(data)
    assert sorted(chain(*found.values())) == list(range(1, len(rows) + 1))
    assert all(found.values())
    split_texts = {name: {normal(text) for text in data.splits[name]["text"]} for name in SPLITS}
    assert not split_texts["train"] & split_texts["valid"]
    assert not split_texts["train"] & split_texts["test"]
    assert not split_texts["valid"] & split_texts["test"]
    assert set(data.splits["train"]["label"]) == labels
    assert label_names(data) == sorted(labels)
    assert numbers(split_data(made(all=rows), seed=seed)) == found


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 12), st.integers(0, 3)), min_size=60, max_size=250),
    st.sampled_from([(0.1, 0.1), (0.2, 0.05), (0.15, 0.3)]),
    st.integers(0, 5),
)
def test_shares_hold_with_many_copies(
    groups: list[tuple[int, int]], shares: tuple[float, float], seed: int
) -> None:
    rows = [(f"text {g}", f"l{label}") for g, (size, label) in enumerate(groups) for _ in range(size)]
    counts = Counter(label for _, label in rows)
    if len(counts) < 2:
        return
    data = split_data(made(all=rows), seed=seed, valid_fraction=shares[0], test_fraction=shares[1])
    largest = max(size for size, _ in groups)
    for name, share in zip(("valid", "test"), shares, strict=True):
        found = Counter(data.splits[name]["label"])
        for label, count in counts.items():
            assert abs(found[label] - share * count) <= largest + 1
        # Taken together, what labels with few texts leave over is made up for.
        assert abs(found.total() - share * len(rows)) <= 2 * largest


def test_copies_do_not_gather_in_one_split() -> None:
    # A third of the texts stands twice: so it should in each split.
    rows = [(f"text {i % 3000}", f"l{i % 2}") for i in range(4000)]
    data = split_data(made(all=rows), seed=0)
    for split in data.splits.values():
        copies = Counter(Counter(split["text"]).values())
        assert abs(copies[2] / copies.total() - 1 / 3) < 0.02


def test_case_and_white_space_make_no_other_text() -> None:
    rows = [
        (form, "ab"[i % 2]) for i in range(40) for form in (f"Text {i}", f"TEXT  {i}", f" text\u00a0{i}\n")
    ]
    data = split_data(made(all=rows), seed=0)
    for split in data.splits.values():
        assert set(Counter(normal(text) for text in split["text"]).values()) == {3}


def test_a_pair_is_one_text() -> None:
    rows = [("same", f"pair {i // 2}") for i in range(80)]
    data = made(all=[(text, f"l{i % 4 // 2}") for i, (text, _) in enumerate(rows)])
    data.splits["all"] = data.splits["all"].add_column("text_pair", [pair for _, pair in rows])  # type: ignore[call-arg]
    splits = split_data(data, seed=0).splits
    assert [len(splits[name]) for name in SPLITS] == [64, 8, 8]
    for split in splits.values():
        assert set(Counter(split["text_pair"]).values()) == {2}


def test_given_splits_are_used() -> None:
    rows = [(f"text {i}", "ab"[i % 2]) for i in range(100)]
    held = [(f"held {i}", "ab"[i % 2]) for i in range(10)]
    more = [(f"more {i}", "ab"[i % 2]) for i in range(6)]
    assert {n: len(s) for n, s in split_data(made(train=rows), seed=0).splits.items()} == {
        "train": 80,
        "valid": 10,
        "test": 10,
    }
    data = split_data(made(train=rows, test=held), seed=0)
    assert {name: len(split) for name, split in data.splits.items()} == {"train": 90, "valid": 10, "test": 10}
    assert data.splits["test"]["text"][:] == [text for text, _ in held]
    data = split_data(made(train=rows, valid=held), seed=0, test_fraction=0.2)
    assert {name: len(split) for name, split in data.splits.items()} == {"train": 80, "valid": 10, "test": 20}
    data = split_data(made(train=rows, valid=held, test=more), seed=0)
    assert {name: len(split) for name, split in data.splits.items()} == {"train": 100, "valid": 10, "test": 6}
    assert data.splits["train"]["row"][:] == list(range(1, 101))


def test_copies_across_given_splits_are_left_out_nearer_to_training() -> None:
    train = [("One", "a"), ("two", "b"), ("three", "a"), ("four", "b"), ("five", "a")]
    valid = [("two ", "b"), ("six", "a"), ("seven", "b")]
    test = [("one", "a"), ("SEVEN", "b"), ("eight", "a")]
    data = split_data(made(train=train, valid=valid, test=test), seed=0)
    assert {name: list(split["text"]) for name, split in data.splits.items()} == {
        "train": ["three", "four", "five"],
        "valid": ["two ", "six"],
        "test": ["one", "SEVEN", "eight"],
    }
    assert data.skipped == {
        "missing text": 1,
        "train text also in test": 1,
        "train text also in valid": 1,
        "valid text also in test": 1,
    }
    assert data.notes == [
        "said before",
        "src: 1 row left out: train text also in test in row 1",
        "src: 1 row left out: train text also in valid in row 2",
        "src: 1 row left out: valid text also in test in row 3",
    ]


def test_a_test_set_that_is_the_training_set() -> None:
    rows = [(f"text {i}", "ab"[i % 2]) for i in range(10)]
    with pytest.raises(
        InputError, match="src: every text of train is also in test, so none is left: give different"
    ):
        split_data(made(train=rows, test=rows), seed=0)


def test_labels_that_training_lacks() -> None:
    train = [(f"text {i}", "ab"[i % 2]) for i in range(40)]
    test = [("x", "a"), ("y", "c"), ("z", "d")]
    with pytest.raises(InputError) as caught:
        split_data(made(train=train, test=test), seed=0)
    assert str(caught.value) == (
        "src (test): unknown labels 'c', 'd' (rows 2 and 3); known are 'a', 'b': mend the labels, or leave these rows "
        "out with --on-bad-row skip"
    )
    data = split_data(made(train=train, test=test, on_bad_row="skip"), seed=0)
    assert data.splits["test"]["text"][:] == ["x"]
    assert data.skipped["unknown label"] == 2
    assert data.notes[1] == "src (test): 2 rows left out: labels that train lacks"


def test_texts_with_two_labels_are_said() -> None:
    rows = [(f"text {i}", "ab"[i % 2]) for i in range(30)] + [
        ("Text 0", "b"),
        ("text 1", "a"),
        ("text 1", "b"),
    ]
    data = split_data(made(all=rows), seed=0)
    assert data.notes[1:] == ["src: 2 texts of the training rows (5 rows) have more than one label"]


def test_a_label_with_one_example_stays_in_training() -> None:
    rows = [(f"text {i}", "ab"[i % 2]) for i in range(30)] + [
        ("odd", "c"),
        ("odd one", "d"),
        ("odd  ONE", "d"),
    ]
    for seed in range(5):
        data = split_data(made(all=rows), seed=seed)
        assert {"c", "d"} <= set(data.splits["train"]["label"])
        assert not {"c", "d"} & {*data.splits["valid"]["label"], *data.splits["test"]["label"]}
        assert data.notes[1:] == ["src: 2 labels with a single text, so only in training: 'c', 'd'"]


def test_other_notes_on_labels() -> None:
    rows = [(f"text {i}", f"{i // 2}.5") for i in range(60)] + [("t", "0.25"), ("u", "0.75")]
    assert (
        split_data(made(all=rows), seed=0)
        .notes[1]
        .startswith("src: 32 labels in 62 rows: is the label a measured number?")
    )
    rows = [(f"text {i}", ["Pos", "pos", "neg"][i % 3]) for i in range(60)]
    assert split_data(made(all=rows), seed=0).notes[1:] == [
        "src: labels that differ only in case are different labels: 'Pos', 'pos'"
    ]


def test_few_rows() -> None:
    four = split_data(made(all=[("one", "a"), ("two", "a"), ("three", "b"), ("four", "b")]), seed=0)
    assert {name: len(split) for name, split in four.splits.items()} == {"train": 2, "valid": 1, "test": 1}
    assert set(four.splits["train"]["label"]) == {"a", "b"}
    with pytest.raises(InputError) as caught:
        split_data(made(all=[("one", "a"), ("two", "a"), ("three", "b")]), seed=0)
    assert str(caught.value) == (
        "src has too few different texts (3 with 2 labels) to take a test set from them and keep each label in "
        "training: add rows"
    )
    with pytest.raises(
        InputError, match=r"too few different texts \(2 with 2 labels\) to take a valid and a test set"
    ):
        split_data(made(all=[("one", "a"), ("one", "a"), ("three", "b")]), seed=0)
    with pytest.raises(
        InputError, match="src: every row has the label 'a'; training needs at least two different"
    ):
        split_data(made(all=[("one", "a"), ("two", "a")]), seed=0)
    with pytest.raises(InputError, match="src: each of the 3 rows has a label of its own"):
        split_data(made(all=[("one", "a"), ("two", "b"), ("three", "c")]), seed=0)


def test_what_cannot_be_split() -> None:
    rows = [("one", "a"), ("two", "b"), ("three", "a"), ("four", "b")]
    with pytest.raises(InputError, match="src has no train split, which training needs: found 'test'"):
        split_data(made(test=rows), seed=0)
    for valid, test in ((0.0, 0.1), (0.5, 0.5), (-0.1, 0.1), (0.1, float("nan"))):
        with pytest.raises(InputError, match="fractions must be above 0 and their sum below 1"):
            split_data(made(all=rows), seed=0, valid_fraction=valid, test_fraction=test)
    data = made(all=rows)
    data.splits["all"] = data.splits["all"].remove_columns("label")
    with pytest.raises(
        InputError, match="src: the train split has no labels: name their column with --label-column"
    ):
        split_data(data, seed=0)


@pytest.mark.slow
def test_a_hundred_thousand_rows_take_seconds() -> None:
    rows = [(f"text number {i * 7919 % 90_000}", f"l{i % 20}") for i in range(100_000)]
    data = made(all=rows)
    start = time.perf_counter()
    splits = split_data(data, seed=0).splits
    assert time.perf_counter() - start < 10
    assert abs(len(splits["test"]) - 10_000) < 10
