"""Where data are kept, and how they get there: whole, checked, and never half."""

import errno
import hashlib
import http.client
import os
import sys
import tempfile
import urllib.error
import urllib.request
from pathlib import Path

from .errors import DatasetUnavailable, ReadError

VARIABLE = "NEURALRDE_DATA"
_BLOCK = 1 << 20


def data_folder() -> Path:
    """The folder of data sets: `$NEURALRDE_DATA`, or `neuralrde` in the user's cache folder."""
    named = os.environ.get(VARIABLE)
    if named:
        return Path(named).expanduser()
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "neuralrde"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", Path.home() / "AppData" / "Local")) / "neuralrde"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "neuralrde"


def make_folder(folder: Path, why: str) -> Path:
    """A folder to write to, made if need be; a sentence if that may not be."""
    try:
        there = next(place for place in (folder, *folder.parents) if place.exists())
        # An administrator may write anywhere, but a folder marked as read-only is meant to stay as it is.
        if not there.stat().st_mode & 0o222:
            raise PermissionError(errno.EACCES, "it is read-only")
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return folder
    except OSError as error:
        raise DatasetUnavailable(
            f"Got the data folder {data_folder()}, which cannot be written to ({error.strerror or error}); "
            f"expected one that can, because {why}. Set {VARIABLE} to another folder."
        ) from None


def fetch(url: str, path: Path, *, checksum: str | None = None) -> Path:
    """Download to a temporary file beside `path`, check it and rename it.

    Args:
        url: the address.
        path: the file to make; if it is there, nothing is done.
        checksum: for example "sha256:..."; None takes what comes.
    """
    if path.exists():
        return path
    digest = hashlib.new(checksum.partition(":")[0] if checksum else "sha256")
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        request = urllib.request.Request(url, headers={"User-Agent": "neuralrde"})
        with urllib.request.urlopen(request, timeout=30) as source, open(part, "wb") as file:
            size, done = int(source.headers.get("Content-Length") or 0), 0
            while block := source.read(_BLOCK):
                file.write(block)
                digest.update(block)
                done += len(block)
                _progress(path.name, done, size)
        if size and done < size:
            raise DatasetUnavailable(f"Got {done} of {size} bytes of {url}. Try again.")
        if checksum and digest.hexdigest() != checksum.partition(":")[2]:
            raise DatasetUnavailable(
                f"Got {url} with the checksum {digest.name}:{digest.hexdigest()}; expected {checksum}. It "
                "was damaged on its way, or is another version. Try again."
            )
        os.replace(part, path)
    except (urllib.error.URLError, http.client.HTTPException, OSError) as error:
        if isinstance(error, DatasetUnavailable):
            raise
        raise DatasetUnavailable(f"Could not download {url} ({error})") from None
    finally:
        part.unlink(missing_ok=True)
    return path


def checksum_of(path: Path) -> str:
    with open(path, "rb") as file:
        return f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}"


def seal(path: Path) -> None:
    """Write the checksum of a file beside it."""
    beside = path.with_name(path.name + ".sha256")
    beside.write_text(f"{checksum_of(path).partition(':')[2]}  {path.name}\n")


def check_seal(path: Path) -> None:
    """Raise if the file is not the one whose checksum was written beside it; nothing if there is none."""
    beside = path.with_name(path.name + ".sha256")
    if beside.exists() and beside.read_text().split()[:1] != [checksum_of(path).partition(":")[2]]:
        raise ReadError(
            path,
            f"Got a file that has changed since it was made (see {beside.name}). Delete both, and load again.",
        )


def _progress(name: str, done: int, size: int) -> None:
    if sys.stderr.isatty():
        share = f" of {size / 1e6:.0f}" if size else ""
        end = "\n" if done == size else ""
        print(f"\r{name}: {done / 1e6:.0f}{share} MB", end=end, file=sys.stderr, flush=True)
