"""The readers of files: one table of what there is, how a file is known, and who reads it.

A new format is a file of its own, with a function that reads it, and an entry here: `read`, folders, tables of labels,
the command line and its messages take the rest from this table.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from .arff import read_arff
from .csv import csv_names, load_csv
from .dataset import Dataset
from .errors import ReadError
from .jsonl import jsonl_names, load_jsonl
from .layouts import Load
from .npz import read_npz
from .parquet import load_parquet, parquet_names
from .text import check_file, open_text
from .ts import read_ts


@dataclass(frozen=True)
class Reader:
    """A format: either `read` gives a data set, or `load` a table, whose columns `names` lists.

    Args:
        about: what it is, in a few words.
        endings: of files' names, the usual one first; files of text may also end with .gz.
        read: called with the path, `task` and `name`; for files that say themselves what is what.
        load: called with the path and the `TableOptions`; for tables, whose columns the caller explains.
        names: called with the path and `header`.
        magic: the first bytes of a binary file.
        starts: what the first word of a file of text starts with, if nothing else starts so.
    """

    about: str
    endings: tuple[str, ...]
    read: Callable[..., Dataset] | None = None
    load: Load | None = None
    names: Callable[[Path, bool | None], list[str]] | None = None
    magic: bytes = b""
    starts: tuple[str, ...] = ()


READERS = (
    Reader("table in text", (".csv", ".tsv", ".txt", ".dat", ""), load=load_csv, names=csv_names),
    Reader("Parquet table", (".parquet", ".pq"), load=load_parquet, names=parquet_names, magic=b"PAR1"),
    Reader("JSON lines", (".jsonl", ".ndjson"), load=load_jsonl, names=jsonl_names, starts=("{",)),
    Reader("NumPy's arrays by name", (".npz",), read_npz, magic=b"PK\x03\x04"),
    Reader("series of Weka", (".arff",), read_arff, starts=("@relation", "@attribute")),
    Reader("series of sktime and aeon", (".ts",), read_ts, starts=("@",)),
)


def endings(*, tables: bool = False) -> tuple[str, ...]:
    """What the names of files that `read` reads may end with; with `tables`, of those whose columns it asks for.

    >>> endings()[:3]
    ('.csv', '.tsv', '.txt')
    """
    readers = [reader for reader in READERS if reader.load or not tables]
    return tuple(ending for reader in readers for ending in reader.endings if ending)


def reader_of(path: Path) -> Reader:
    """The reader for what a file holds, and if that does not tell, for its ending."""
    path = check_file(path)
    with open(path, "rb") as file:
        head = file.read(max(len(reader.magic) for reader in READERS))
    ending = Path(path.name.lower().removesuffix(".gz")).suffix
    by_ending = next((reader for reader in READERS if ending in reader.endings), None)
    for reader in READERS:
        if reader.magic and head.startswith(reader.magic):
            return reader
    if by_ending is not None and by_ending.magic:
        return by_ending  # which says that it is not
    word = _first_word(path)
    for reader in READERS:
        if reader.starts and word.startswith(reader.starts):
            return reader
    if by_ending is None:
        raise ReadError(path, f"Got the ending {ending!r}; expected one of {list(endings())}. Rename the file.")
    return by_ending


def _first_word(path: Path) -> str:
    with open_text(path) as file:
        for line in file:
            if line.strip() and line.strip()[0] not in "#%":
                return line.split()[0].lower()
    return ""


def names_in(path: Path, header: bool | None = None) -> list[str]:
    """The names of a table's columns; none if the file is no table."""
    reader = reader_of(path)
    return [] if reader.names is None else reader.names(path, header)
