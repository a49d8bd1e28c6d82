"""Output that appears under its final name only when it is whole."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from identiformer.errors import InputError
from identiformer.output import UnfinishedFolder, refuse_existing, whole_file, write_json


def test_a_file_appears_when_it_is_whole(tmp_path: Path):
    path = tmp_path / "new" / "file.txt"
    with whole_file(path) as handle:
        handle.write("a\r\nb\x85")
        assert not path.exists()
    assert path.read_bytes() == "a\r\nb\x85".encode()
    assert [entry.name for entry in path.parent.iterdir()] == ["file.txt"]


def test_a_file_that_breaks_off_leaves_the_old_one(tmp_path: Path):
    path = tmp_path / "file.txt"
    path.write_text("old")

    def write_half():
        with whole_file(path) as handle:
            handle.write("half")
            raise RuntimeError("stopped")

    with pytest.raises(RuntimeError, match="stopped"):
        write_half()
    assert path.read_text() == "old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["file.txt"]


def test_a_name_that_is_too_long_is_refused(tmp_path: Path):
    path = tmp_path / ("m" * 5000)
    refuse_existing(path, overwrite=False)
    with pytest.raises(InputError, match=r"cannot be written \(File name too long\): give another path"):
        write_json(path, {})


def test_json_is_plain_and_without_nan(tmp_path: Path):
    write_json(tmp_path / "a.json", {"é": [1, 2.5, None]})
    assert json.loads((tmp_path / "a.json").read_text(encoding="utf-8")) == {"é": [1, 2.5, None]}
    assert "é" in (tmp_path / "a.json").read_text(encoding="utf-8")
    with pytest.raises(ValueError, match="JSON compliant"):
        write_json(tmp_path / "b.json", float("nan"))
    assert not (tmp_path / "b.json").exists()


def test_what_exists_is_refused_unless_it_may_be_replaced(tmp_path: Path):
    refuse_existing(tmp_path / "new", overwrite=False)
    refuse_existing(tmp_path, overwrite=False)  # an empty folder is as good as none
    (tmp_path / "file").write_text("")
    for path in (tmp_path, tmp_path / "file"):
        with pytest.raises(InputError, match="exists already: give another --output, or --overwrite"):
            refuse_existing(path, overwrite=False)
        refuse_existing(path, overwrite=True)


def run(
    target: Path, *, overwrite: bool = False, resume: bool | None = False, finish: bool = True
) -> list[str]:
    """One run that writes `target/a`; gives what it found left of an earlier one."""
    with UnfinishedFolder(target, overwrite=overwrite, resume=resume) as folder:
        found = sorted(entry.name for entry in folder.path.iterdir())
        (folder.path / "kept").write_text("")
        folder.result.mkdir()
        (folder.result / "a").write_text(str(found))
        if finish:
            folder.finish()
    return found


def test_a_folder_appears_when_it_is_whole_and_nothing_else_stays(tmp_path: Path):
    run(tmp_path / "model")
    assert [entry.name for entry in tmp_path.iterdir()] == ["model"]
    assert [entry.name for entry in (tmp_path / "model").iterdir()] == ["a"]


def test_a_stopped_run_is_not_lost_in_silence(tmp_path: Path):
    target = tmp_path / "model"
    run(target, finish=False)
    assert not target.exists()
    with pytest.raises(InputError, match=r"model\.unfinished holds a run .* --resume, or .* --overwrite"):
        run(target)
    assert run(target, resume=True, finish=False) == ["kept"]
    assert run(target, overwrite=True) == []
    assert target.exists()


def test_a_run_that_cannot_be_resumed_starts_again(tmp_path: Path):
    target = tmp_path / "model"
    run(target, resume=None, finish=False)
    assert run(target, resume=None) == []
    assert [entry.name for entry in tmp_path.iterdir()] == ["model"]
    with pytest.raises(InputError, match="model exists already"):
        run(target, resume=None)


def test_resume_without_anything_to_resume_starts_anew(tmp_path: Path):
    assert run(tmp_path / "model", resume=True) == []


def test_an_existing_folder_is_replaced_only_where_it_may_be_and_in_the_end(tmp_path: Path):
    target = tmp_path / "model"
    target.mkdir()
    (target / "old").write_text("")
    with pytest.raises(InputError, match="model exists already"):
        run(target)
    run(target, overwrite=True, finish=False)
    assert (target / "old").exists()
    run(target, overwrite=True)
    assert [entry.name for entry in target.iterdir()] == ["a"]


def test_two_at_once_are_refused(tmp_path: Path):
    target = tmp_path / "model"
    with UnfinishedFolder(target, overwrite=False, resume=False):
        for options in ({}, {"overwrite": True}, {"resume": True}):
            with pytest.raises(InputError, match="another run is writing"):
                run(target, **options)
    assert run(target, resume=True) == []


def test_a_file_in_the_place_of_the_folder_is_refused(tmp_path: Path):
    (tmp_path / "model").write_text("a file")
    with pytest.raises(InputError, match="exists already"):
        run(tmp_path / "model")
    run(tmp_path / "model", overwrite=True)
    assert (tmp_path / "model" / "a").exists()


def test_a_folder_that_cannot_be_made_is_refused_in_one_line(tmp_path: Path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="file cannot be made"):
        run(tmp_path / "file" / "model")


@pytest.mark.skipif(
    not Path("/proc/self").exists(), reason="needs a folder in which even root can make no file"
)
def test_a_place_that_takes_no_files_is_not_called_another_run():
    with pytest.raises(InputError, match="cannot be written"):
        run(Path("/proc/model"))


def test_a_pipe_is_not_replaced(tmp_path: Path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match="no regular file"), whole_file(tmp_path / "pipe"):
        pass
    assert (tmp_path / "pipe").is_fifo()
