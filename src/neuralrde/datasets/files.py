"""Files as people have them: damaged, zipped, in old encodings, with missing numbers; an error names the file."""

import codecs
import contextlib
import errno
import gzip
import io
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import numpy as np

from ..paths.checks import check_fits

# How files spell a value that is not there.
MISSING = frozenset({"", "?", "nan", "na", "n/a", "#n/a", "#na", "<na>", "null", "none", "-", ".", "missing"})
# Fewer for labels: "none" and "NA" may be classes.
NO_LABEL = frozenset({"", "?", "nan"})

# Archives carry old encodings in comments and names; each byte becomes a letter, and different ones stay so.
codecs.register_error("latin", lambda e: (e.object[e.start : e.end].decode("latin-1"), e.end))  # type: ignore
_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_CONTROL = re.compile(rb"[\x00-\x08\x0e-\x19\x1b-\x1f]")
# Text of numbers packs to a tenth or so of its size, and one number again and again to a thousandth. A file
# that stays below _SMALL bytes may be packed as tightly as it likes.
_RATIO, _SMALL = 250, 64 * 2**20


class ReadError(ValueError):
    """A file does not hold what its reader expects; the message names the file, the line and what to do."""

    def __init__(self, file: object, message: str, line: int | None = None):
        super().__init__(str(file), message, line)

    def __str__(self) -> str:
        file, message, line = self.args
        return f"{file}: {message}" if line is None else f"{file}, line {line}: {message}"


class DatasetUnavailable(FileNotFoundError):
    """A data set is not here and cannot be fetched; the message says which file to put where."""


@contextmanager
def naming(path: object, kind: str = "") -> Iterator[None]:
    """Name the file in what is refused inside. With a kind of file, whatever goes wrong means that it is damaged."""
    try:
        yield
    except ReadError:
        raise
    except MemoryError as error:
        raise ReadError(path, str(error) or "Got a file that does not fit into memory. Read it in parts.") from error
    except Exception as error:  # damage shows as a dozen kinds, from zlib.error to SyntaxError
        if not kind:
            if isinstance(error, ArithmeticError | TypeError | ValueError):
                raise ReadError(path, str(error)) from error
            raise
        why = " ".join(str(error).split())[:100] or type(error).__name__
        if isinstance(error, OSError) and error.errno not in (None, errno.EINVAL):  # a place that no file has
            message = f"Got a file that cannot be read ({error.strerror})."
        elif "password" in str(error):
            message = f"Got an encrypted {kind}; expected one without a password. Unpack it first."
        else:
            message = f"Got a damaged {kind} ({why}). Make or fetch it again."
        raise ReadError(path, message) from error


def check_room(size: float, path: object, what: str, instead: str = "Read it in parts.") -> None:
    """Refuse a file, by its name, if `size` bytes for `what` are more than are free."""
    with naming(path):
        check_fits(size, what, instead)


def check_file(path: str | Path) -> Path:
    """The path of a file that is there and not empty."""
    path = Path(path).expanduser()
    if path.is_dir():
        raise ReadError(path, "Got a folder; expected a file. `read(folder)` reads folders.")
    if not path.exists():
        beside = sorted(p.name for p in path.parent.iterdir())[:5] if path.parent.is_dir() else []
        there = f"In {path.parent} are {', '.join(beside)}." if beside else f"{path.parent} is empty or absent."
        raise ReadError(path, f"Got no file of this name. {there}")
    if path.stat().st_size == 0:
        raise ReadError(path, "Got an empty file; expected series.")
    return path


class _Unpacked(io.RawIOBase):
    """A stream that unpacks a file of `size` bytes; damage, and a bomb, are a ReadError when they are met."""

    def __init__(self, stream: io.BufferedIOBase | IO[bytes], path: object, kind: str, size: int):
        self.stream, self.path, self.kind, self.size, self.done = stream, path, kind, size, 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer) -> int:
        with naming(self.path, self.kind):
            block = self.stream.read(len(buffer))
        self.done += len(block)
        if self.done > max(_SMALL, _RATIO * self.size):
            raise ReadError(
                self.path,
                f"Got {self.size:,} bytes that unpack to more than {self.done:,}; expected at most {_RATIO} times as "
                "many, because a small file must not fill the memory. Unpack it yourself if you trust it.",
            )
        buffer[: len(block)] = block
        return len(block)

    def close(self) -> None:
        self.stream.close()
        super().close()


def unpacked(stream: io.BufferedIOBase | IO[bytes], path: object, kind: str, size: int) -> io.BufferedReader:
    """What unpacks a file of `size` bytes, guarded against damage and bombs."""
    return io.BufferedReader(_Unpacked(stream, path, kind, size), 1 << 16)


@contextmanager
def _open_bytes(path: str | Path) -> Iterator[io.BufferedReader]:
    """A text file's bytes, unpacked if it is gzipped; a binary file is refused."""
    path = check_file(path)
    with contextlib.ExitStack() as stack:
        file = stack.enter_context(open(path, "rb"))
        if file.peek(2).startswith(b"\x1f\x8b"):
            file = stack.enter_context(unpacked(gzip.GzipFile(fileobj=file), path, "gzip file", path.stat().st_size))
        head = file.peek(8192)[:8192]
        if head[:2] not in _UTF16 and (control := _CONTROL.search(head)):
            raise ReadError(
                path,
                f"Got a binary file (byte {control.group()[0]:#04x} at {control.start()}); expected text. Is it "
                "of another format than its name says?",
            )
        yield file


@contextmanager
def open_text(path: str | Path) -> Iterator[io.TextIOWrapper]:
    """A text file, plain or gzipped, in UTF-8, UTF-16 with a mark, or an older encoding."""
    with _open_bytes(path) as file:
        encoding = "utf-16" if file.peek(2)[:2] in _UTF16 else "utf-8-sig"
        yield io.TextIOWrapper(file, encoding=encoding, errors="latin", newline="")


def first_word(path: Path) -> str:
    """The first word of a text file that is not in a comment, in small letters."""
    with open_text(path) as file:
        return next((line.split()[0].lower() for line in file if line.strip() and line.strip()[0] not in "#%"), "")


def read_bytes(path: str | Path) -> bytes:
    """All of a text file as UTF-8 without a mark, whatever its encoding."""
    parts, size = [], 0
    with _open_bytes(path) as file:
        while part := file.read(2**24):
            parts.append(part)
            size += len(part)
            check_room(3 * size, path, "The cells of this table")
    data = b"".join(parts)
    if data[:2] in _UTF16:
        return data.decode("utf-16", errors="latin").encode()
    data = data.removeprefix(codecs.BOM_UTF8)
    return data if data.isascii() else data.decode("utf-8", errors="latin").encode()


def numbers(cells: Sequence[str]) -> np.ndarray:
    """Cells of text as numbers, NaN for missing ones; ValueError names a cell that is neither.

    >>> numbers(["1.5", "?", " 2e1 "])
    array([ 1.5,  nan, 20. ])
    """
    if not any("_" in cell for cell in cells):
        with contextlib.suppress(ValueError):
            return np.array(list(map(float, cells)))
    return np.array([np.nan if is_missing(cell) else number(cell) for cell in cells])


def number(cell: str) -> float:
    """One cell as a number; ValueError if it is none. 1_2 is a number to Python, and to nobody else."""
    if "_" in cell:
        raise ValueError(f"could not convert string to float: {cell!r}")
    return float(cell)


def is_missing(cell: str) -> bool:
    return cell.strip().lower() in MISSING


def lengths_without_gaps(values: np.ndarray) -> np.ndarray:
    """How many points `(samples, length, channels)` has up to the last with a value, and at least one.

    >>> lengths_without_gaps(np.array([[[1.0], [np.nan], [2.0], [np.nan]]]))
    array([3])
    """
    there = np.logical_not(np.all(np.isnan(values), axis=2))
    return np.where(np.any(there, axis=1), values.shape[1] - np.argmax(there[:, ::-1], axis=1), 1)
