"""Files as bytes and as text: their format by name, gzip, and what is wrong with those that are not UTF-8."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TextIO, cast

from identiformer.errors import InputError

#: Endings that are understood, each also with ".gz" after it, and the format each one means.
FORMATS = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "json",
    ".parquet": "parquet",
}
ENDINGS = ".csv, .tsv, .jsonl, .ndjson, .json or .parquet, each also with .gz"

# What a file starts with when it is not text, longest first: UTF-32 starts as UTF-16 does.
_MAGIC = (
    (b"\xff\xfe\x00\x00", "is UTF-32, not UTF-8: save it as UTF-8"),
    (b"\x00\x00\xfe\xff", "is UTF-32, not UTF-8: save it as UTF-8"),
    (b"\xff\xfe", "is UTF-16, not UTF-8: save it as UTF-8"),
    (b"\xfe\xff", "is UTF-16, not UTF-8: save it as UTF-8"),
    (b"\x1f\x8b", "is compressed with gzip: add .gz to its name"),
    (b"PK\x03\x04", "is a zip archive or an Excel workbook: save the table as .csv"),
    (b"\xd0\xcf\x11\xe0", "is an old Excel workbook: save the table as .csv"),
    (b"PAR1", "is a Parquet file: end its name in .parquet"),
)


def format_of(path: Path) -> tuple[str, bool] | None:
    """The format that a file's name promises and whether it is compressed; `None` for any other name."""
    name = path.name.lower()
    compressed = name.endswith(".gz")
    kind = FORMATS.get(Path(name.removesuffix(".gz")).suffix)
    return None if kind is None else (kind, compressed)


def stem_of(path: Path) -> str:
    """A file's name without the endings of its format: "Train.csv.gz" is "train"."""
    return Path(path.name.lower().removesuffix(".gz")).stem


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn what goes wrong while a file is read into an `InputError` that names it."""
    try:
        yield
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise InputError(
            f"{path} is not a whole gzip file ({error}): compress it again, or drop .gz from its name if it is not "
            "compressed"
        ) from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not UTF-8: {_where_undecodable(path)}; save it as UTF-8") from error
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}") from error


@contextmanager
def open_bytes(path: Path) -> Iterator[IO[bytes]]:
    """Open a file's bytes, decompressed where its name ends in .gz."""
    if path.name.lower().endswith(".gz"):
        with gzip.open(path, "rb") as stream:
            yield cast("IO[bytes]", stream)
    else:
        with path.open("rb") as stream:
            yield stream


@contextmanager
def open_text(path: Path, newline: str) -> Iterator[TextIO]:
    """Open a file as UTF-8 text, with or without a byte order mark, line ends kept as they are."""
    import io

    with open_bytes(path) as stream, io.TextIOWrapper(stream, "utf-8-sig", newline=newline) as text:
        yield text


def refuse_binary(path: Path) -> None:
    """Check the first bytes of what should be a text file.

    Raises:
        InputError: if it is empty, in another encoding, or not text at all.
    """
    with reading(path), open_bytes(path) as stream:
        start = stream.read(512)
    if not start.strip(b"\xef\xbb\xbf \t\r\n"):
        # Only white space in the first bytes: an empty file, unless something comes later.
        with reading(path), open_bytes(path) as stream:
            if not any(
                chunk.strip(b"\xef\xbb\xbf \t\r\n") for chunk in iter(lambda: stream.read(1 << 20), b"")
            ):
                raise InputError(f"{path} is empty: it needs rows of texts")
    for magic, meaning in _MAGIC:
        if start.startswith(magic):
            raise InputError(f"{path} {meaning}")
    # UTF-16 without a mark: in Latin text every second byte is zero. One stray zero byte is not that.
    if len(start) >= 4 and max(start[0::2].count(0), start[1::2].count(0)) > len(start) // 2 * 0.7:
        raise InputError(f"{path} is UTF-16, not UTF-8: save it as UTF-8")


def _where_undecodable(path: Path) -> str:
    """Find the first byte that is not UTF-8: the reader's own error counts from the start of its last chunk."""
    offset = 0
    with open_bytes(path) as stream:
        # A line end is never part of a longer UTF-8 sequence, so each line can be decoded on its own.
        for number, line in enumerate(stream, 1):
            try:
                line.decode("utf-8")
            except UnicodeDecodeError as error:
                return (
                    f"line {number:,}, byte {offset + error.start:,} of the file is 0x{line[error.start]:02x}"
                )
            offset += len(line)
    return "its last character is cut off"
