"""Where data are kept, and how they get there: whole, checked, and never half."""

import contextlib
import errno
import hashlib
import http.client
import ipaddress
import os
import sys
import tempfile
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import platformdirs

from .._write import writing
from .files import DatasetUnavailable, ReadError

VARIABLE = "NEURALRDE_DATA"
LIMIT = 4 * 2**30  # bytes of a download: the archives' largest files have a quarter of that
_LIST_LIMIT = 2**26  # bytes of a list of checksums
_BLOCK = 1 << 20


def data_folder() -> Path:
    """The folder of data sets: `$NEURALRDE_DATA`, or `neuralrde` in the user's cache folder."""
    named = os.environ.get(VARIABLE)
    return Path(named).expanduser() if named else platformdirs.user_cache_path("neuralrde", appauthor=False)


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


@contextmanager
def fetching(folder: Path, name: str, instead: str) -> Iterator[None]:
    """Make the folder into which a data set is fetched; where that fails, say which files to put there instead."""
    make_folder(folder, f"{name} is not in it and must be fetched")
    try:
        yield
    except (DatasetUnavailable, ReadError) as error:
        for empty in (*folder.glob("*/"), folder):
            with contextlib.suppress(OSError):  # what lies there stays
                empty.rmdir()
        message = f"{str(error).rstrip('. ')}. If there is no network, put {instead} into {folder}."
        raise DatasetUnavailable(message) from None


def fetch_listed(address: str, files: Sequence[str], folder: Path, *, limit: int = LIMIT) -> None:
    """Download files, each of which must have the checksum that the address's SHA256SUMS.txt says."""
    for file, checksum in _listed_checksums(address, files, folder / "SHA256SUMS.txt").items():
        fetch(f"{address}/{file}", folder / file, checksum=checksum, limit=limit)


# Not pooch: it follows redirects to plain http, takes files of any size, and accepts empty ones.
def fetch(url: str, path: Path, *, checksum: str | None = None, limit: int = LIMIT) -> Path:
    """Download over https, check it, and only then put it into its place.

    Args:
        url: the address; http is for servers on this machine only.
        path: the file to make; if it is there, nothing is done.
        checksum: for example "sha256:..."; None if nobody knows it, and an empty one is refused.
        limit: how many bytes to take at most, because a server may send without end.
    """
    if path.exists():
        return path
    kind, _, digits = ("sha256", "", "any") if checksum is None else str(checksum).partition(":")
    if kind not in ("md5", "sha256") or not digits:
        raise DatasetUnavailable(f"Got the checksum {checksum!r} for {url}; expected md5: or sha256: and digits")
    digest = hashlib.new(kind)
    _check_scheme(url)
    request = urllib.request.Request(url, headers={"User-Agent": "neuralrde"})
    try:
        with _OPENER.open(request, timeout=30) as source, writing(path) as file:
            said = source.headers.get("Content-Length") or ""
            size, done = int(said) if said.isdecimal() else 0, 0
            while size <= limit and done <= limit and (block := source.read(_BLOCK)):
                done += len(block)
                file.write(block)
                digest.update(block)
                _progress(path.name, done, size)
            if max(size, done) > limit:
                got = f"{max(size, done):,} bytes or more from {url}"
                raise DatasetUnavailable(f"Got {got}; expected at most {limit:,} bytes")
            if done < max(size, 1):
                got = f"{done:,} of {size:,} bytes" if size else "an empty file"
                raise DatasetUnavailable(f"Got {got} from {url}. Try again.")
            if checksum and digest.hexdigest() != digits:
                got = f"{url} with the checksum {digest.name}:{digest.hexdigest()}"
                raise DatasetUnavailable(
                    f"Got {got}; expected {checksum}. It is damaged or another version. Try again."
                )
    except DatasetUnavailable:
        raise
    except (urllib.error.URLError, http.client.HTTPException, OSError, ValueError) as error:
        if isinstance(error, urllib.error.HTTPError):
            error.close()  # it holds the connection
        raise DatasetUnavailable(f"Could not download {url} ({error})") from None
    return path


class _OnlyHttps(urllib.request.HTTPRedirectHandler):
    """Does not let a server send us to another kind of address."""

    def redirect_request(self, req, fp, code, msg, headers, newurl):
        try:
            _check_scheme(newurl)
        except DatasetUnavailable:
            fp.close()
            raise
        return super().redirect_request(req, fp, code, msg, headers, newurl)


_OPENER = urllib.request.build_opener(_OnlyHttps)


def _check_scheme(url: str) -> None:
    parts = urllib.parse.urlsplit(url)
    try:
        here = ipaddress.ip_address(parts.hostname or "").is_loopback
    except ValueError:
        here = False
    if parts.scheme != "https" and not (parts.scheme == "http" and here):
        raise DatasetUnavailable(
            f"Got the address {url[:200]}; expected https://, because whoever stands in between can change the rest"
        )


def _listed_checksums(address: str, files: Sequence[str], path: Path) -> dict[str, str]:
    """What the list SHA256SUMS.txt of an address, fetched to `path`, says of files; one that lacks any is refused."""
    url = f"{address}/{path.name}"
    lines = fetch(url, path, limit=_LIST_LIMIT).read_text(errors="replace").splitlines()
    pairs = (line.split(maxsplit=1) for line in lines)
    listed = {pair[1].strip("* "): f"sha256:{pair[0]}" for pair in pairs if len(pair) == 2}
    absent = [file for file in files if file not in listed]
    if absent:
        path.unlink()
        raise DatasetUnavailable(
            f"Got no checksum of {absent[0]} (and {len(absent) - 1} more) in {url}; expected one of each file, because "
            "nothing else tells whether it has come as it was sent"
        )
    return {file: listed[file] for file in files}


def checksum_of(path: Path) -> str:
    with open(path, "rb") as file:
        return f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}"


def write_checksum(path: Path) -> None:
    """Write the checksum of a file beside it, for `check_checksum`."""
    beside = path.with_name(path.name + ".sha256")
    with writing(beside, "w") as file:
        file.write(f"{checksum_of(path).partition(':')[2]}  {path.name}\n")


def check_checksum(path: Path) -> None:
    """Raise if the file is not the one whose checksum was written beside it; nothing if there is none."""
    beside = path.with_name(path.name + ".sha256")
    if beside.exists() and beside.read_bytes().split()[:1] != [checksum_of(path).partition(":")[2].encode()]:
        message = f"Got a file that has changed since it was made (see {beside.name}). Delete both, and load again."
        raise ReadError(path, message)


def _progress(name: str, done: int, size: int) -> None:
    if sys.stderr.isatty():
        share = f" of {size / 1e6:.0f}" if size else ""
        end = "\n" if done == size else ""
        print(f"\r{name}: {done / 1e6:.0f}{share} MB", end=end, file=sys.stderr, flush=True)
