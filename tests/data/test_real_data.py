"""Real data sets, where they are: beside the repository, in shared/data."""

from pathlib import Path

import pytest

from identiformer.data import label_names, load_source, split_data

FOLDER = Path(__file__).parents[3] / "shared" / "data"

SETS = {
    "ag_news": (["Business", "Sci/Tech", "Sports", "World"], (13341, 1001, 7600), {}),
    "mr": (["negative", "positive"], (8528, 1066, 1068), {}),
    "sms_spam": (["ham", "spam"], (4457, 559, 558), {}),
    "sst2": (["negative", "positive"], (6917, 872, 1821), {"train text also in test": 3}),
    "subj": (["objective", "subjective"], (8000, 1000, 1000), {}),
    # Without a validation set; 11 of its 5,452 training texts are also in the test set.
    "trec": (
        ["ABBR", "DESC", "ENTY", "HUM", "LOC", "NUM"],
        (4897, 544, 500),
        {"train text also in test": 11},
    ),
}


@pytest.mark.parametrize("name", SETS)
def test_real_data_sets_load_and_split(name: str) -> None:
    if not (FOLDER / name).is_dir():
        pytest.skip(f"the data set {name} is not there: {FOLDER / name}")
    labels, sizes, skipped = SETS[name]
    data = split_data(load_source(FOLDER / name, need=("train",)), seed=0)
    assert tuple(len(data.splits[split]) for split in ("train", "valid", "test")) == sizes
    assert label_names(data) == labels
    assert data.skipped == skipped
    assert sum("left out" in note for note in data.notes) == len(skipped)
