"""Files to read from, on a disk or in object storage: what is there, how large it is, and its bytes."""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import IO, Any


def is_url(path: str | os.PathLike) -> bool:
    """Whether a path is for fsspec: `s3://bucket/name`, `memory://name`.

    >>> is_url("s3://bucket/data.parquet"), is_url("folder/data.parquet")
    (True, False)
    """
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


def files_at(data: str | os.PathLike, endings: Iterable[str]) -> list[str]:
    """The file, or the files of a folder that have one of these endings, by name."""
    ends = tuple(endings)
    if is_url(data):
        fs, root = file_system(str(data))
        found = [root] if fs.isfile(root) else sorted(p for p in fs.find(root) if p.lower().endswith(ends))
        names = [fs.unstrip_protocol(path) for path in found]
    else:
        path = Path(data).expanduser().resolve()
        inside = sorted(p for p in path.rglob("*") if p.name.lower().endswith(ends)) if path.is_dir() else [path]
        names = [str(one) for one in inside if one.is_file()]
    if not names:
        raise FileNotFoundError(
            f"Got {str(data)!r}; expected a file, or a folder of files that end in {', '.join(ends)}."
        )
    return names


def open_file(path: str) -> IO[bytes]:
    """To read from, anywhere in it."""
    if is_url(path):
        fs, inside = file_system(path)
        return fs.open(inside, "rb")
    return open(path, "rb")


def identity(path: str) -> list[Any]:
    """What changes when a file does: its name, its size, and when it was written or what the storage calls its version.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "a.csv"
    >>> _ = file.write_text("x")
    >>> before = identity(str(file))
    >>> _ = file.write_text("xy")
    >>> identity(str(file)) == before
    False
    """
    if is_url(path):
        fs, inside = file_system(path)
        info = fs.info(inside)
        version = next(
            (info[name] for name in ("ETag", "etag", "created", "mtime", "LastModified") if name in info), ""
        )
        return [path, int(info["size"]), str(version)]
    status = os.stat(path)
    return [path, status.st_size, status.st_mtime_ns]
