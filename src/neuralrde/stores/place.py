"""Where a store is: a folder, or a prefix in object storage. Every file in it is whole or not there."""

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from .._write import private_folder, writing
from .files import file_system, is_url


@dataclass(frozen=True)
class Place:
    """Files by name, below a folder or a URL."""

    root: str

    @staticmethod
    def at(root: str | os.PathLike) -> "Place":
        return Place(str(root).rstrip("/") if is_url(root) else str(Path(root).expanduser().resolve()))

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
        """In bytes; None if there is no such file."""
        try:
            if not self.remote:
                return os.stat(Path(self.root) / name).st_size
            fs, path = self._inside(name)
            return int(fs.info(path)["size"])
        except (FileNotFoundError, NotADirectoryError):  # the place may be a file itself
            return None

    def read(self, name: str) -> bytes:
        if not self.remote:
            return (Path(self.root) / name).read_bytes()
        fs, path = self._inside(name)
        return fs.cat_file(path)

    def local(self, name: str, cache: Path) -> Path:
        """The file on a disk: itself, or a copy that is made once. The name of the cache is that of the content."""
        if not self.remote:
            return Path(self.root) / name
        copy = private_folder(cache) / name
        if not copy.exists():
            private_folder(copy.parent)
            fs, path = self._inside(name)
            with writing(copy) as file, fs.open(path, "rb") as original:
                shutil.copyfileobj(original, file, 2**22)
        return copy

    def tidy(self, folder: str) -> None:
        """Remove a folder, and the beginnings of files that an interruption has left behind."""
        if not self.remote:
            shutil.rmtree(Path(self.root) / folder, ignore_errors=True)
            for part in Path(self.root).rglob(".*.part"):
                part.unlink(missing_ok=True)
            return
        fs, path = self._inside(folder)
        with contextlib.suppress(FileNotFoundError):
            fs.rm(path, recursive=True)

    def occupied(self) -> bool:
        """Whether anything is there."""
        if not self.remote:
            path = Path(self.root)
            return path.exists() and (not path.is_dir() or any(path.iterdir()))
        fs, root = file_system(self.root)
        try:
            return bool(fs.ls(root, detail=False))
        except FileNotFoundError:
            return False
