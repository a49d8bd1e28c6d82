"""`explain --html`: the page, where it is written, and what is refused before anything is computed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from hostile import Read
from identiformer.cli import main
from identiformer.explaining import explanation
from identiformer.explaining.alternatives import AlternativeLimits
from small import small_classifier

TEXT = "we waited and waited but nobody came with food or good music"
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("saved") / "model"
    small, tokenizer = small_classifier()
    small.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], model: Path) -> Run:
    """`identiformer explain` with the model and the text, and further options."""

    def run(*options: object, text: str = TEXT) -> tuple[int, str, str]:
        capsys.readouterr()
        with pytest.raises(SystemExit) as end:
            main(["explain", str(model), "--text", text, *map(str, options)])
        assert isinstance(end.value.code, int)
        printed = capsys.readouterr()
        return end.value.code, printed.out, printed.err

    return run


def data_of(file: Path) -> dict:
    return json.loads(Read(file.read_text("utf-8")).contents["script"][0])


def test_a_page_and_a_json_of_one_explanation(model: Path, run: Run, tmp_path: Path):
    page, file = tmp_path / "new" / "page.html", tmp_path / "out.json"
    status, out, err = run("--html", page, "--json", file)
    assert status == 0
    assert err.splitlines() == [f"page: {page}", f"explanation: {file}"]
    assert "prediction: " in out
    data, value = data_of(page), json.loads(file.read_text("utf-8"))
    assert (data["kind"], data["model"], data["sampled"]) == ("explanation", str(model), None)
    (one,) = data["explanations"]
    assert one["text"] == value["text"] == TEXT
    assert one["prediction"] == value["prediction"]
    for head, whole in zip(one["heads"], value["heads"], strict=True):
        assert head["levels"] == whole["levels"]
        goals = [(other["goal"], other["word"]) for other in whole["alternatives"]]
        assert goals[0] == ("farthest", None)
        assert {word for _, word in goals} == {None, *range(len(value["words"]))}
        assert [(other["goal"], other["word"]) for other in head["alternatives"]] == goals
        assert whole["alternatives"][0]["output_change"] < 1e-5
    assert sorted(path.name for path in page.parent.iterdir()) == ["page.html"]  # nothing half written


def test_alternatives_in_the_json_only_where_they_are_asked_for(run: Run, tmp_path: Path):
    for options, asked in ((["--alternatives"], True), ([], False)):
        file = tmp_path / f"{asked}.json"
        assert run("--json", file, "--heads", 1, *options)[0] == 0
        (head,) = json.loads(file.read_text("utf-8"))["heads"]
        assert (head["alternatives"] is not None) == asked


def test_what_the_limits_leave_out_is_said_twice(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    explain, few = explanation.explain, AlternativeLimits(programs=12)
    monkeypatch.setattr(
        explanation,
        "explain",
        lambda *given, **settings: explain(*given, **{**settings, "alternatives": few}),
    )
    status, _, err = run("--html", tmp_path / "page.html")
    sentence = "alternatives were looked for only for the 2 heaviest words of each row"
    assert status == 0
    assert sentence in err
    assert data_of(tmp_path / "page.html")["sampled"]["detailed"] == f"A{sentence[1:]}."


def test_files_that_are_in_the_way_are_refused_at_once(
    model: Path, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    there = tmp_path / "page.html"
    there.write_text("mine")
    link = tmp_path / "link.html"
    link.symlink_to(there)
    with monkeypatch.context() as patch:
        patch.setattr(
            "identiformer.explaining.explanation.load_to_explain",
            lambda _name: pytest.fail("the model was loaded"),
        )
        for options, message in (
            (
                ["--html", there],
                f"{there} exists already: give another --html file, or --overwrite to replace it",
            ),
            (["--html", tmp_path / "a", "--json", tmp_path / "a"], "--json and --html are both"),
            (["--html", link, "--json", there, "--overwrite"], "--json and --html are both"),
            (["--html", model / "config.json", "--overwrite"], "which is read, and is not replaced"),
            (["--alternatives"], "--alternatives are written to files: give --json FILE or --html FILE"),
        ):
            status, out, err = run(*options)
            assert (status, out) == (2, "")
            assert message in err
            assert err.count("\n") == 1
    assert there.read_text() == "mine"
    status, _, _ = run("--html", there, "--overwrite", text="Not good.")
    assert status == 0
    assert data_of(there)["explanations"][0]["text"] == "Not good."


@pytest.mark.parametrize(
    "text", ["</script><script>alert(1)</script> good", "good {{ 7 * 7 }} \x00 \u202e<!--"]
)
def test_hostile_texts(run: Run, tmp_path: Path, text: str):
    page = tmp_path / "page.html"
    assert run("--html", page, text=text)[0] == 0
    assert data_of(page)["explanations"][0]["text"] == text
    read = Read(page.read_text("utf-8"))
    assert len(read.all("script")) == 2
    assert "\x00" not in page.read_text("utf-8")


def test_a_text_that_is_no_unicode_is_one_line(run: Run, tmp_path: Path):
    """As a shell passes on bytes that are no UTF-8."""
    status, out, err = run("--html", tmp_path / "page.html", text="good \udc80 food")
    assert (status, out) == (2, "")
    assert err.startswith("error: ")
    assert not (tmp_path / "page.html").exists()


def test_one_row_by_its_number(run: Run, tmp_path: Path):
    page = tmp_path / "page.html"
    status, _, err = run("--layers", 1, "--heads", 0, "--row", 7, "--html", page)
    assert (status, err.splitlines()) == (0, [f"page: {page}"])
    (head,) = data_of(page)["explanations"][0]["heads"]
    assert (head["layer"], head["head"], head["row"]) == (1, 0, 7)
    for options, said in {
        ("--row", 7, "--rows", "all"): "--row 7 and --rows are both given",
        ("--row", -1): "--row is -1",
        ("--row", 99): "row 99 does not exist: there are rows 0 to 12",
    }.items():
        status, _, err = run(*options)
        assert status == 2
        assert said in err
