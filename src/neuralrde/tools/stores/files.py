"""The files of a store, each guarded by a checksum, each whole or not there.

Names are computed, never read: what a store says must not choose which files are read and written.
"""

import io
import json
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import IO

import numpy as np

from ..._write import Values, private_folder, writing

FORMAT = 2
MANIFEST, SERIES, PLAN, INDEX = "manifest.json", "series.npz", "work/plan.json", "work/index.npz"
OTHER_CHECKSUM = "its checksum is another than when it was written"

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
class StoreFolder:
    """Files by name, below the folder of a store."""

    root: Path

    @staticmethod
    def at(root: str | os.PathLike) -> "StoreFolder":
        return StoreFolder(Path(root).expanduser().resolve())

    @contextmanager
    def writing(self, name: str) -> Iterator[IO[bytes]]:
        """A file to write, anywhere in it; it takes its place when the block ends without an error."""
        private_folder(self.root)
        path = self.root / name
        private_folder(path.parent)
        with writing(path) as file:
            yield file

    def write(self, name: str, data: bytes) -> None:
        with self.writing(name) as file:
            file.write(data)

    def size(self, name: str) -> int | None:
        """The size in bytes; None if there is no such file."""
        path = self.root / name
        return path.stat().st_size if path.is_file() else None

    def remove_work(self) -> None:
        """Remove what only a preparation needs, and parts of files that an interruption has left behind."""
        shutil.rmtree(self.root / "work", ignore_errors=True)
        for part in self.root.rglob(".*.part"):
            part.unlink(missing_ok=True)

    def holds_something_else(self) -> bool:
        """Whether there is anything that no preparation, however short, has left behind."""
        path = self.root
        if self.size(PLAN) is not None or not path.exists():
            return False
        return path.is_file() or any(file.name not in ("work", "shards") for file in path.iterdir())

    def damaged(self, name: str, what: str) -> StoreError:
        return StoreError(
            f"{self.root}/{name} is damaged: {what}. Remove the store and prepare it again, or copy this file from "
            "where it is whole."
        )

    def write_json(self, name: str, content: Values) -> None:
        self.write(name, sealed(content))

    def read_json(self, name: str) -> Values:
        """What `write_json` wrote, its checksum included."""
        try:
            content = json.loads((self.root / name).read_bytes())
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
            data = (self.root / name).read_bytes()
        except FileNotFoundError:
            raise self.damaged(name, "it is not there") from None
        if expected not in (None, checksum(data)):
            raise self.damaged(name, OTHER_CHECKSUM)
        with np.load(io.BytesIO(data), allow_pickle=False) as archive:
            return dict(archive)


def checksum(data: bytes) -> str:
    return blake2b(data, digest_size=16).hexdigest()


def checksum_of(content: Values) -> str:
    return checksum(json.dumps(content, sort_keys=True).encode())


def sealed(content: Values) -> bytes:
    """JSON with a checksum: a number in it that changes is noticed."""
    content = json.loads(json.dumps({"format": FORMAT, **content}))
    return json.dumps({**content, "checksum": checksum_of(content)}, indent=1).encode()


def packed(arrays: dict[str, np.ndarray]) -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)  # type: ignore
    return buffer.getvalue()
