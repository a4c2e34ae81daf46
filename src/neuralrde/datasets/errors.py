"""What can go wrong with data: files that are damaged, wrong or too large, and sets that cannot be downloaded.

An error is a sentence that names the file, never a raw one.
"""

import errno
import lzma
import tokenize
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager

from neuralrde.paths.checks import check_fits


class ReadError(ValueError):
    """A file does not hold what its reader expects; the message names the file, the line and what to do."""

    def __init__(self, file: object, message: str, line: int | None = None):
        super().__init__(str(file), message, line)

    def __str__(self) -> str:
        file, message, line = self.args
        return f"{file}: {message}" if line is None else f"{file}, line {line}: {message}"


class DatasetUnavailable(FileNotFoundError):
    """A data set is not here and cannot be fetched; the message says which file to put where."""


# What unpacking, decoding and NumPy's headers raise when bytes are not what they should be.
_DAMAGE = (
    ArithmeticError,
    AttributeError,
    EOFError,
    LookupError,
    OSError,
    RuntimeError,
    SyntaxError,
    TypeError,
    ValueError,
    lzma.LZMAError,
    tokenize.TokenError,
    zipfile.BadZipFile,
    zlib.error,
)


@contextmanager
def name_damage(path: object, kind: str = "file") -> Iterator[None]:
    """Turn whatever goes wrong while bytes are unpacked and decoded into a ReadError that names the file."""
    try:
        yield
    except ReadError:
        raise
    except MemoryError as error:
        raise ReadError(path, _too_large(error)) from error
    except _DAMAGE as error:
        if isinstance(error, OSError) and error.errno not in (None, errno.EINVAL):  # a place that no file has
            raise ReadError(path, f"Got a file that cannot be read ({error.strerror}).") from error
        if "password" in str(error):
            raise ReadError(
                path, f"Got an encrypted {kind}; expected one without a password. Unpack it first."
            ) from error
        why = " ".join(str(error).split())[:100] or type(error).__name__
        raise ReadError(path, f"Got a damaged {kind} ({why}). Make or fetch it again.") from error


@contextmanager
def name_file(path: object) -> Iterator[None]:
    """Put the file's name before the sentence with which its content is refused."""
    try:
        yield
    except ReadError:
        raise
    except (ArithmeticError, MemoryError, TypeError, ValueError) as error:
        raise ReadError(path, _too_large(error) if isinstance(error, MemoryError) else str(error)) from error


def check_room(size: float, path: object, what: str, instead: str = "Read it in parts.") -> None:
    """Refuse a file, by its name, if `size` bytes for `what` are more than are free."""
    with name_file(path):
        check_fits(size, what, instead)


def _too_large(error: MemoryError) -> str:
    return str(error) or "Got a file that needs more memory than there is; expected a smaller one. Read it in parts."
