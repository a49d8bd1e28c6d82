import logging
from typing import Any

import datasets
import datasets.config
import huggingface_hub
import pytest
from datasets.exceptions import DatasetNotFoundError

from identiformer.data import Columns, load_source, split_data
from identiformer.errors import InputError


@pytest.fixture(autouse=True)
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep every test from the network. The variable alone is too late: it is read when the libraries are imported."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)


def serve(
    monkeypatch: pytest.MonkeyPatch, sets: dict[tuple[str, str | None], Any]
) -> list[tuple[str, str | None]]:
    """Have the hub know these data sets, and note what it is asked for."""
    asked: list[tuple[str, str | None]] = []

    def load(path: str, name: str | None = None) -> Any:
        asked.append((path, name))
        if (path, name) not in sets:
            raise DatasetNotFoundError(f"Dataset '{path}' doesn't exist on the Hub.\nOr it is private.")
        return datasets.DatasetDict(sets[path, name])

    monkeypatch.setattr(datasets, "load_dataset", load)
    return asked


def rows(texts: list[str], labels: list[int], names: tuple[str, ...] = ("neg", "pos")) -> datasets.Dataset:
    features = datasets.Features(
        {
            "sentence": datasets.Value("string"),
            "label": datasets.ClassLabel(names=list(names)),
            "idx": datasets.Value("int32"),
        }
    )
    return datasets.Dataset.from_dict(
        {"sentence": texts, "label": labels, "idx": list(range(len(texts)))}, features=features
    )


def test_splits_and_names_of_labels(monkeypatch: pytest.MonkeyPatch) -> None:
    extra = rows(["u"], [0])
    asked = serve(
        monkeypatch,
        {
            ("some/set", None): {
                "train": rows(["a", "b"], [1, 0]),
                "validation": rows(["c"], [1]),
                "test": rows(["d", "e"], [-1, -1]),
                "unsupervised": extra,
            }
        },
    )
    data = load_source("hf:some/set")
    assert asked == [("some/set", None)]
    assert {name: split["text"][:] for name, split in data.splits.items()} == {
        "train": ["a", "b"],
        "valid": ["c"],
    }
    assert data.splits["train"]["label"][:] == ["pos", "neg"]
    assert data.splits["train"]["row"][:] == [1, 2]
    assert data.columns == Columns("sentence", "label", None)
    assert data.notes == [
        "hf:some/set: the splits 'unsupervised' are not used",
        "hf:some/set (test) is not used: none of its rows has a label",
        "hf:some/set (train): the text is the column 'sentence'",
    ]
    # Where labels do not matter, the texts of a test set without them are there.
    assert load_source("hf:some/set", labels="ignore").splits["test"]["text"][:] == ["d", "e"]


def test_single_labels_that_are_missing_are_bad_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    serve(monkeypatch, {("some/set", None): {"train": rows(["a", "b", "c"], [1, -1, 0])}})
    with pytest.raises(
        InputError, match=r"^hf:some/set \(train\): 1 row cannot be used: missing label in row 2;"
    ):
        load_source("hf:some/set")
    assert load_source("hf:some/set", on_bad_row="skip").skipped == {"missing label": 1}


def test_a_hub_set_can_be_split(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [f"text {i}" for i in range(40)]
    serve(monkeypatch, {("some/set", None): {"train": rows(texts, [i % 2 for i in range(40)])}})
    splits = split_data(load_source("hf:some/set"), seed=0).splits
    assert {name: len(split) for name, split in splits.items()} == {"train": 32, "valid": 4, "test": 4}


@pytest.mark.parametrize(
    ("name", "asked"),
    [
        ("hf:set", [("set", None)]),
        ("hf:owner/set/config", [("owner/set", "config")]),
        # An owner first; a configuration if there is no such data set.
        ("hf:set/config", [("set/config", None), ("set", "config")]),
    ],
)
def test_what_a_name_means(monkeypatch: pytest.MonkeyPatch, name: str, asked: list) -> None:
    noted = serve(monkeypatch, {asked[-1]: {"train": rows(["a"], [0])}})
    assert load_source(name).splits["train"]["text"][:] == ["a"]
    assert noted == asked


def test_offline(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(InputError) as caught:
        load_source("hf:nobody/nothing-there")
    message = str(caught.value)
    assert message.startswith(
        "hf:nobody/nothing-there cannot be fetched: the hub cannot be reached and the data set is not in the local "
        "cache (Couldn't reach 'nobody/nothing-there' on the Hub"
    )
    assert message.endswith("connect, or use a file")
    assert "\n" not in message
    assert capfd.readouterr() == ("", "")


def test_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    serve(monkeypatch, {})
    with pytest.raises(InputError) as caught:
        load_source("hf:a/b")
    assert str(caught.value) == (
        "hf:a/b is not known to the hub, or not open to you: check its name, or log in (Dataset 'a/b' doesn't exist on "
        "the Hub. Or it is private.)"
    )


def test_other_failures_are_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def load(path: str, name: str | None = None) -> Any:
        raise ValueError("Config name is missing.\nPlease pick one among: ['x', 'y']")

    monkeypatch.setattr(datasets, "load_dataset", load)
    with pytest.raises(InputError) as caught:
        load_source("hf:a/b")
    assert str(caught.value) == (
        "hf:a/b cannot be loaded: Config name is missing. Please pick one among: ['x', 'y']"
    )


@pytest.mark.parametrize(
    "name", ["hf:", "hf:a/b/c/d", "hf:../x", "hf:a b", "hf:/a", "hf:a//b", "hf:" + "x" * 300]
)
def test_malformed_names(name: str) -> None:
    with pytest.raises(InputError, match="is not a hub name: write hf:owner/name or hf:owner/name/config"):
        load_source(name)


def test_a_local_folder_does_not_stand_in_for_a_hub_name(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(
        InputError, match=r"^hf:a/b is hidden by the local 'a/b': give its path as the source without"
    ):
        load_source("hf:a/b")


def test_no_usable_split(monkeypatch: pytest.MonkeyPatch) -> None:
    serve(monkeypatch, {("a/b", None): {"all_of_it": rows(["a"], [0])}})
    with pytest.raises(
        InputError, match="hf:a/b has no split named train, validation or test: its splits are 'all_of"
    ):
        load_source("hf:a/b")
    serve(monkeypatch, {("a/b", None): {"train": rows(["a"], [0])}})
    with pytest.raises(
        InputError, match=r"hf:a/b has no test split, which is needed here: found 'hf:a/b \(train\)'"
    ):
        load_source("hf:a/b", need=("test",))


def test_what_is_silenced_is_given_back() -> None:
    from identiformer.data.hub import quiet

    logger = logging.getLogger("datasets")
    before = logger.level
    datasets.enable_progress_bars()  # a command that ran in this process may have switched them off
    with quiet():
        assert logger.level == logging.CRITICAL
        assert datasets.are_progress_bars_disabled()
    assert logger.level == before
    assert not datasets.are_progress_bars_disabled()
