"""Output that appears under its final name only when it is whole."""

from __future__ import annotations

import json
import os
import shutil
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from filelock import FileLock, Timeout

from identiformer.errors import InputError


def refuse_existing(path: Path, overwrite: bool, option: str = "--output") -> None:
    """Raise an `InputError` if `path` holds something and may not be written over."""
    if overwrite or not os.path.exists(path) or (path.is_dir() and not any(path.iterdir())):
        return
    raise InputError(f"{path} exists already: give another {option}, or --overwrite to replace it")


def refuse_file(
    path: Path | None, read: Iterable[str | Path], overwrite: bool, option: str = "--json file"
) -> None:
    """Raise an `InputError` if a file that is to be written would replace something it must not.

    Args:
        path: The file; `None` where none is wanted.
        read: Files, and folders with all they hold, that are read: they are never replaced. A name of something on a
            hub is no file.
        overwrite: Whether another file may be replaced.
        option: What the user calls `path`.
    """
    if path is None:
        return
    if os.path.exists(path):
        # What is written takes the place of a link, and of no file that the link leads to; so both count.
        places = {path.parent.resolve() / path.name, path.resolve()}
        for there in (Path(os.path.expanduser(name)) for name in read):
            if os.path.isfile(there) and path.samefile(there):
                raise InputError(f"{path} is the file to read, and is not replaced: give another {option}")
            if os.path.isdir(there) and any(place.is_relative_to(there.resolve()) for place in places):
                raise InputError(
                    f"{path} lies in {there}, which is read, and is not replaced: give another {option}"
                )
    refuse_existing(path, overwrite, option)


def refuse_replacing(
    output: Path,
    sources: Sequence[str],
    overwrite: bool,
    option: str = "--output",
    kind: str = "model folder",
    mark: str = "config.json",
) -> None:
    """Refuse to replace anything but a folder of a kind: it may be somebody's home, or hold what is to be read.

    Args:
        output: The folder to make.
        sources: What is read, files and folders among them.
        overwrite: Whether `output` may be replaced.
        option: What the user calls it.
        kind, mark: What may be replaced, and the file that such a folder holds.
    """
    if os.path.exists(output) and not output.is_dir():
        raise InputError(f"{output} is no folder, and is not replaced: give another {option}")
    if not overwrite:
        return
    for source in sources:
        there = os.path.expanduser(source)
        if os.path.exists(there) and Path(there).resolve().is_relative_to(output.resolve()):
            raise InputError(f"{source} lies in {output}, which would be replaced: give another {option}")
    if output.is_dir() and any(output.iterdir()) and not (output / mark).is_file():
        raise InputError(
            f"{output} is no {kind}, and is not replaced: give another {option}, or empty it first"
        )


@contextmanager
def whole_file(path: Path, mode: str = "w") -> Iterator[IO[Any]]:
    """Open a file that takes the name `path` only when the block ends without an error.

    Args:
        path: The final name; its folder is made where it is missing.
        mode: `w` for text in UTF-8, or `wb`.
    """
    if os.path.isdir(path):
        raise InputError(f"{path} is a folder: give the name of a file")
    if os.path.exists(path) and not os.path.isfile(path):  # a device or a pipe would be replaced by a file
        raise InputError(f"{path} is no regular file, and is not replaced: give the name of a file")
    _make_folder(path.parent)
    partial = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}.partial")
    encoding, newline = (None, None) if "b" in mode else ("utf-8", "")
    try:
        handle = open(partial, mode, encoding=encoding, newline=newline)  # noqa: SIM115 (its own errors are the user's, the block's are not)
    except OSError as error:
        raise InputError(f"{path} cannot be written ({error.strerror}): give another path") from error
    try:
        with handle:
            yield handle
            handle.flush()
            os.fsync(handle.fileno())
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)


def write_json(path: Path, value: Any) -> None:
    """Write `value` as JSON that any reader takes: UTF-8, no NaN or infinity."""
    with whole_file(path) as handle:
        json.dump(value, handle, ensure_ascii=False, allow_nan=False, indent=2)
        handle.write("\n")


class UnfinishedFolder:
    """The folder `TARGET.unfinished` in which a long run keeps what it has until `TARGET` is whole.

    A run that is killed leaves it behind, and can go on from it; one that the user's input ended in an `InputError`
    leaves nothing, unless it went on with an earlier one. One run at a time: it is locked.

    A run that is short enough to start again (`resume` is `None`) goes on with nothing, and clears away what an
    earlier one left.

    Args:
        target: The final folder.
        overwrite: Replace `target`, and whatever an earlier run left unfinished.
        resume: Go on with what an earlier run left unfinished; `None` where no run can.
        option: What the user calls the folder.

    Raises:
        InputError: If `target` exists, another run is at work, or an unfinished run is in the way.
    """

    def __init__(self, target: Path, *, overwrite: bool, resume: bool | None, option: str = "--output"):
        target = Path(os.path.abspath(target))
        if not target.name:
            raise InputError(f"{target} cannot be replaced: give another {option}")
        self.target = target
        self._option = option
        self.path = target.with_name(target.name + ".unfinished")
        self.result = self.path / "result"
        self._overwrite = overwrite
        self._resume = resume
        self._found = False
        self._removed = target.with_name(target.name + ".removed")
        self._lock = FileLock(target.with_name(target.name + ".lock"))

    def __enter__(self) -> UnfinishedFolder:
        refuse_existing(self.target, self._overwrite, self._option)
        _make_folder(self.target.parent)
        try:
            self._lock.acquire(timeout=0)
        except Timeout:
            if not Path(self._lock.lock_file).exists():  # nobody holds it: it cannot be made
                raise InputError(f"{self.target} cannot be written: give another {self._option}") from None
            raise InputError(
                f"another run is writing {self.target}: wait for it, or give another {self._option}"
            ) from None
        except OSError as error:
            raise InputError(
                f"{self.target} cannot be written ({error.strerror}): give another {self._option}"
            ) from error
        try:
            # Looked at again: a run that just ended may have made it before the lock was ours.
            refuse_existing(self.target, self._overwrite, self._option)
            shutil.rmtree(self._removed, ignore_errors=True)
            if self.path.exists() and not self._resume:
                if not self._overwrite and self._resume is not None:
                    raise InputError(
                        f"{self.path} holds a run that was stopped: go on with --resume, "
                        "or start again with --overwrite"
                    )
                self.discard()
            self._found = self.path.exists()
            self.path.mkdir(exist_ok=True)
            shutil.rmtree(self.result, ignore_errors=True)
        except BaseException:
            self._release()
            raise
        return self

    def __exit__(self, _: object, error: object, __: object) -> None:
        if isinstance(error, InputError) and not self._found:
            self.discard()
        self._release()

    def finish(self) -> None:
        """Give the result its final name, in place of what stood there, and remove the rest."""
        if self.target.exists():
            shutil.rmtree(self.path / "replaced", ignore_errors=True)
            os.rename(self.target, self.path / "replaced")
        os.rename(self.result, self.target)
        self.discard()

    def discard(self) -> None:
        """Remove what was left unfinished; a run that is killed meanwhile leaves nothing that looks resumable."""
        os.rename(self.path, self._removed)
        shutil.rmtree(self._removed)

    def _release(self) -> None:
        # While it is still held: afterwards it could be another run's. Windows removes no open files.
        with suppress(OSError):
            Path(self._lock.lock_file).unlink()
        self._lock.release()


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{folder} cannot be made ({error.strerror}): give another path") from error
