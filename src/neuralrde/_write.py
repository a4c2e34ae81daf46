"""Files that are whole or not there, JSON that every reader knows, and checksums."""

import contextlib
import errno
import json
import math
import os
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path
from typing import IO, Any

Values = dict[str, Any]
"""Values by name: settings, an object of JSON."""
Options = dict[str, Any]
"""Arguments by name."""
Plain = Any
"""What JSON can hold."""
Part = Any
"""A model, a transform, windows or another part; or a `Spec` of it."""
# A disk that is full or broken says so without naming the file.
_NAMELESS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)


def private_folder(path: str | os.PathLike) -> Path:
    """A folder for what comes of somebody's data: if it has to be made, only its owner may look into it."""
    path = Path(path)
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    return path


@contextmanager
def writing(path: str | os.PathLike, mode: str = "wb", **options: Any) -> Iterator[IO[Any]]:
    """Open a file to write; it takes its place when the block ends without an error, and not before.

    It is written beside its place, synced and renamed, so that the place holds the old file or the new one, whole,
    whatever happens in between: an error, a power cut, or another process that writes to the same place. Nobody may
    read it who may not look into its folder.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "numbers.txt"
    >>> with writing(path, "w") as file:
    ...     _ = file.write("1 2 3")
    >>> path.read_text()
    '1 2 3'

    Args:
        path: the place; its folder must exist.
        mode: "wb", or "w" for text in UTF-8.
        options: as in `open`, such as `newline=""`.
    """
    path = Path(path)
    # A name of its own for every writer, because two threads or machines may write to the same place.
    partial = path.with_name(f".{secrets.token_hex(8)}.part")
    opener = lambda name, flags: os.open(name, flags, 0o666 & path.parent.stat().st_mode)
    if "b" not in mode:
        options = {"encoding": "utf-8", **options}
    try:
        with open(partial, mode.replace("w", "x"), opener=opener, **options) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, path)
    except OSError as error:
        if error.errno in _NAMELESS or str(error.filename) in (str(partial), str(path.parent)):
            raise OSError(error.errno, error.strerror, str(path)) from None
        raise
    finally:
        partial.unlink(missing_ok=True)
    _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    """The new name itself must outlast a power cut; a file system that cannot promise that has still written it."""
    if os.name == "posix":
        with contextlib.suppress(OSError):
            descriptor = os.open(folder, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)


def strict_json(value: Any) -> str:
    """JSON on one line. What is not a finite number becomes null, because JSON has no NaN and no infinity.

    >>> strict_json({"loss": float("nan"), "scales": (1, 4)})
    '{"loss": null, "scales": [1, 4]}'
    """
    return json.dumps(_finite(value), allow_nan=False)


def _finite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _finite(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def digest_of(*parts: Any) -> str:
    """A checksum of arrays, with their types and shapes, and of other values by their text, in this order.

    >>> import numpy as np
    >>> digest_of("a", None, np.arange(3)) == digest_of("a", None, np.arange(3)), digest_of("a") == digest_of("a", None)
    (True, False)
    """
    digest = blake2b(digest_size=16)
    for part in parts:
        if hasattr(part, "dtype"):
            array = part.astype(str) if part.dtype == object else part
            digest.update(f"{array.dtype.str} {array.shape}\n".encode())
            digest.update(array.data if array.flags.c_contiguous else array.tobytes())
        else:
            digest.update(f"{part!r}\n".encode())
    return digest.hexdigest()
