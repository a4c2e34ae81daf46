"""The files of a store, each guarded by a checksum, and files to read from, on a disk or in object storage.

Names are computed, never read: what a store at a URL says must not choose which files are read and written. Every
file is whole or not there.
"""

import contextlib
import io
import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import IO, Any

import numpy as np

from ..._write import private_folder, writing

FORMAT = 2
MANIFEST, SERIES, PLAN, INDEX = "manifest.json", "series.npz", "work/plan.json", "work/index.npz"
OTHER_CHECKSUM = "its checksum is another than when it was written"

Json = dict[str, Any]
Classes = Sequence[str | int | float]


class SourceError(ValueError):
    """Data that cannot be prepared: the sentence says where and why."""


class StoreError(ValueError):
    """A store that is not whole, or damaged: the sentence says which file."""


def shard_name(number: int) -> str:
    return f"shards/{number:05d}.npy"


def record_name(number: int) -> str:
    """The record of a shard, which is written after it: a shard with a record is whole."""
    return f"work/{number:05d}.npz"


@dataclass(frozen=True)
class Location:
    """Files by name, below a folder or a URL that fsspec knows."""

    root: str

    @staticmethod
    def at(root: str | os.PathLike) -> "Location":
        return Location(str(root).rstrip("/") if is_url(root) else str(Path(root).expanduser().resolve()))

    @property
    def remote(self) -> bool:
        return is_url(self.root)

    def _inside(self, name: str) -> tuple[Any, str]:
        fs, root = file_system(self.root)
        return fs, f"{root.rstrip('/')}/{name}"

    @contextmanager
    def writing(self, name: str) -> Iterator[IO[bytes]]:
        """A file to write, anywhere in it; it takes its place when the block ends without an error.

        Object storage takes files whole, so that one is written to a disk first.
        """
        if not self.remote:
            path = private_folder(self.root) / name
            private_folder(path.parent)
            with writing(path) as file:
                yield file
            return
        with tempfile.NamedTemporaryFile(suffix=".part") as file:
            yield file  # type: ignore
            file.flush()
            fs, path = self._inside(name)
            fs.makedirs(path.rpartition("/")[0], exist_ok=True)
            fs.put_file(file.name, path)

    def write(self, name: str, data: bytes) -> None:
        with self.writing(name) as file:
            file.write(data)

    def size(self, name: str) -> int | None:
        """The size in bytes; None if there is no such file."""
        try:
            if not self.remote:
                return os.stat(Path(self.root) / name).st_size
            fs, path = self._inside(name)
            return int(fs.info(path)["size"])
        except (FileNotFoundError, NotADirectoryError):  # the location may be a file itself
            return None

    def read(self, name: str) -> bytes:
        if not self.remote:
            return (Path(self.root) / name).read_bytes()
        fs, path = self._inside(name)
        return fs.cat_file(path)

    def local(self, name: str, cache: Path) -> Path:
        """The file on a disk: itself, or a copy that is made once. The cache is named after the content."""
        if not self.remote:
            return Path(self.root) / name
        copy = private_folder(cache) / name
        if not copy.exists():
            private_folder(copy.parent)
            fs, path = self._inside(name)
            with writing(copy) as file, fs.open(path, "rb") as original:
                shutil.copyfileobj(original, file, 2**22)
        return copy

    def remove_work(self) -> None:
        """Remove what only a preparation needs, and parts of files that an interruption has left behind."""
        if self.remote:
            fs, path = self._inside("work")
            with contextlib.suppress(FileNotFoundError):
                fs.rm(path, recursive=True)
            return
        shutil.rmtree(Path(self.root) / "work", ignore_errors=True)
        for part in Path(self.root).rglob(".*.part"):
            part.unlink(missing_ok=True)

    def holds_something_else(self) -> bool:
        """Whether there is anything that no preparation, however short, has left behind."""
        if self.size(PLAN) is not None:
            return False
        if self.remote:
            fs, root = file_system(self.root)
            return fs.exists(root) and bool(fs.ls(root, detail=False))
        path = Path(self.root)
        return path.is_file() or (path.is_dir() and any(f.name not in ("work", "shards") for f in path.iterdir()))

    def damaged(self, name: str, what: str) -> StoreError:
        return StoreError(
            f"{self.root}/{name} is damaged: {what}. Remove the store and prepare it again, or copy this file from "
            "where it is whole."
        )

    def write_json(self, name: str, content: Json) -> None:
        self.write(name, sealed(content))

    def read_json(self, name: str) -> Json:
        """What `write_json` wrote, its checksum included."""
        try:
            content = json.loads(self.read(name))
            layout, expected = content.get("format"), content.get("checksum")
        except (ValueError, AttributeError, RecursionError):
            raise self.damaged(name, "it is no JSON of a store") from None
        if layout != FORMAT:
            raise StoreError(
                f"Got {self.root}, a store of format {layout}; expected {FORMAT}, because another version of neuralrde "
                "has made it. Use that version, or prepare the data again, in another folder."
            )
        if expected != checksum_of({key: value for key, value in content.items() if key != "checksum"}):
            raise self.damaged(name, OTHER_CHECKSUM)
        return content

    def read_arrays(self, name: str, expected: str | None = None) -> dict[str, np.ndarray]:
        """The arrays of a file, which must have the expected checksum."""
        try:
            data = self.read(name)
        except FileNotFoundError:
            raise self.damaged(name, "it is not there") from None
        if expected not in (None, checksum(data)):
            raise self.damaged(name, OTHER_CHECKSUM)
        with np.load(io.BytesIO(data), allow_pickle=False) as archive:
            return dict(archive)


def checksum(data: bytes) -> str:
    return blake2b(data, digest_size=16).hexdigest()


def checksum_of(content: Json) -> str:
    return checksum(json.dumps(content, sort_keys=True).encode())


def sealed(content: Json) -> bytes:
    """JSON with a checksum: a number in it that changes is noticed."""
    content = json.loads(json.dumps({"format": FORMAT, **content}))
    return json.dumps({**content, "checksum": checksum_of(content)}, indent=1).encode()


def packed(arrays: dict[str, np.ndarray]) -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)  # type: ignore
    return buffer.getvalue()


# Files to read from.


def is_url(path: str | os.PathLike) -> bool:
    """Whether a path is for fsspec: `s3://bucket/name`, `memory://name`."""
    return "://" in str(path)


def file_system(url: str) -> tuple[Any, str]:
    """fsspec's file system of a URL, and the path in it."""
    try:
        from fsspec.core import url_to_fs  # type: ignore
    except ImportError:
        raise ImportError(
            f"Got {url!r}, and no fsspec to reach it with. Write `pip install 'neuralrde[cloud]'` and the package of "
            "its storage, such as s3fs or gcsfs; or give a folder."
        ) from None
    return url_to_fs(url)


def files_at(data: str | os.PathLike) -> list[str]:
    """The file, or all files of a folder, by name."""
    if is_url(data):
        fs, root = file_system(str(data))
        return [fs.unstrip_protocol(path) for path in ([root] if fs.isfile(root) else sorted(fs.find(root)))]
    path = Path(data).expanduser().resolve()
    return [str(file) for file in (sorted(path.rglob("*")) if path.is_dir() else [path]) if file.is_file()]


def open_file(path: str) -> IO[bytes]:
    """Open a file to read from, anywhere in it."""
    if is_url(path):
        fs, inside = file_system(path)
        return fs.open(inside, "rb")
    return open(path, "rb")


def identity(path: str) -> tuple[str, int, int | str]:
    """What changes when a file does: its name, its size, and when it was written or what the storage calls its version.

    >>> file = Path(tempfile.mkdtemp()) / "a.csv"
    >>> file.write_text("x"), identity(str(file))[1], file.write_text("xy"), identity(str(file))[1]
    (1, 1, 2, 2)
    """
    if is_url(path):
        fs, inside = file_system(path)
        info = fs.info(inside)
        versions = (info[name] for name in ("ETag", "etag", "created", "mtime", "LastModified") if name in info)
        return path, int(info["size"]), str(next(versions, ""))
    status = os.stat(path)
    return path, status.st_size, status.st_mtime_ns
