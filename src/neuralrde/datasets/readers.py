"""The registry of readers: which file formats there are, how a file is recognised, and which function reads it.

A new format is one file with a function that reads it, and one entry in `READERS`. `read`, folders, tables of labels,
the command line and its messages take everything from this list. A format of your own is entered with
`register_reader`.
"""

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from pathlib import Path

from ..errors import setting
from .arff import read_arff
from .csv import csv_names, load_csv
from .dataset import Dataset
from .files import ReadError, check_file, open_text
from .jsonl import jsonl_names, load_jsonl
from .npz import read_npz
from .parquet import load_parquet, parquet_names
from .roles import TableOptions
from .table import Load, Table, from_table
from .targets import Task
from .ts import read_ts


@dataclass(frozen=True)
class Reader:
    """A file format and the function that reads it.

    A format that says itself what is what has `read`. A table, whose columns the caller explains, has `load` and
    `names` instead.

    Args:
        about: what the format is, in a few words.
        endings: how names of its files end, the usual ending first. Text files may also end with .gz.
        read: called as `read(path, task=..., name=...)`; it returns a `Dataset`.
        load: called with the path and the `TableOptions`; it returns a `Table`.
        names: called with the path and `header`; it returns the names of the columns.
        magic: the first bytes of every such file, if the format is binary.
        starts: how the first word of every such file starts, if the format is text and no other starts so.
    """

    about: str
    endings: tuple[str, ...]
    read: Callable[..., Dataset] | None = None
    load: Load | None = None
    names: Callable[[Path, bool | None], list[str]] | None = None
    magic: bytes = b""
    starts: tuple[str, ...] = ()

    def __post_init__(self):
        if (self.read is None) == (self.load is None) or (self.load is None) != (self.names is None):
            raise ValueError(f"Got the reader {self.about!r}; expected either `read`, or both `load` and `names`.")
        if wrong := [ending for ending in self.endings if ending and not ending.startswith(".")]:
            raise ValueError(f"Got the ending {wrong[0]!r}; expected it with its dot, {'.' + wrong[0]!r}.")


READERS = [
    Reader("table in text", (".csv", ".tsv", ".txt", ".dat", ""), load=load_csv, names=csv_names),
    Reader("Parquet table", (".parquet", ".pq"), load=load_parquet, names=parquet_names, magic=b"PAR1"),
    Reader("JSON lines", (".jsonl", ".ndjson"), load=load_jsonl, names=jsonl_names, starts=("{",)),
    Reader("NumPy's arrays by name", (".npz",), read_npz, magic=b"PK\x03\x04"),
    Reader("series of Weka", (".arff",), read_arff, starts=("@relation", "@attribute")),
    Reader("series of sktime and aeon", (".ts",), read_ts, starts=("@",)),
]
_OURS = tuple(READERS)


def register_reader(reader: Reader) -> Reader:
    """Enter a file format of your own, for this process: `read` and the command line then know its endings.

    >>> import numpy as np
    >>> from neuralrde.datasets import Dataset
    >>> from neuralrde.paths import Series
    >>> def read_wav(path, *, task=None, name=None):
    ...     values = np.fromfile(path, "<i2", offset=44).astype(float)
    ...     return Dataset(Series.from_arrays([values]), name=name or path.stem)
    >>> register_reader(Reader("sound", (".wav",), read_wav)).endings
    ('.wav',)
    >>> READERS.pop().about  # and out again
    'sound'
    """
    for ending in reader.endings:
        if taken := [known for known in READERS if ending in known.endings]:
            raise ValueError(f"Got the ending {ending!r}; expected a new one: {taken[0].about!r} has it.")
    READERS.append(reader)
    return reader


def endings(*, tables: bool = False) -> tuple[str, ...]:
    """The endings of the files that `read` can read; with `tables`, only of tables, whose columns the caller explains.

    >>> endings()[:3]
    ('.csv', '.tsv', '.txt')
    """
    readers = [reader for reader in READERS if reader.load or not tables]
    return tuple(ending for reader in readers for ending in reader.endings if ending)


def reader_of(path: Path) -> Reader:
    """The reader for a file: by its content, or by its ending where the content does not tell."""
    path = check_file(path)
    with open(path, "rb") as file:
        head = file.read(max(len(reader.magic) for reader in READERS))
    ending = Path(path.name.lower().removesuffix(".gz")).suffix
    by_ending = next((reader for reader in READERS if ending in reader.endings), None)
    for reader in READERS:
        if reader.magic and head.startswith(reader.magic):
            return reader
    if by_ending is not None and (by_ending.magic or by_ending not in _OURS):
        return by_ending  # a binary reader says what is wrong; the text of another format may look like anything
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


def read_file(path: Path, options: TableOptions, *, task: Task | None, name: str | None = None) -> Dataset:
    """The series of one file, without the labels that a second file may hold."""
    reader = reader_of(path)
    if reader.read is not None:
        _check_no_options(path, reader, options)
        return reader.read(path, task=task, name=name)
    plain = replace(options, labels=None, labels_id=None)
    return from_table(load_table(path, options, reader), plain, task=task, name=name or path.name.split(".")[0])


def load_table(path: Path, options: TableOptions, reader: Reader) -> Table:
    """The table in a file. If a second file holds the targets, that may also hold groups and parts."""
    assert reader.load is not None
    assert reader.names is not None
    if options.labels is None:
        return reader.load(path, options)
    names = reader.names(path, options.header)
    elsewhere = {role: None for role in ("group", "split") if str(getattr(options, role)) not in names}
    table = reader.load(path, replace(options, target=None, **elsewhere))
    return replace(table, roles=replace(table.roles, target=()))


def _check_no_options(path: Path, reader: Reader, options: TableOptions) -> None:
    """Refuse options of tables for a file that says itself what is what."""
    allowed = ["labels", "labels_id", "drop_unlabelled"]
    allowed += [] if options.labels is None else ["target", "group", "split"]
    for option in fields(TableOptions):
        value = getattr(options, option.name)
        if value != option.default and option.name not in allowed:
            kind = reader.endings[0]
            raise ReadError(
                path,
                f"Got {setting(option.name, value)} for a {kind} file; expected it for tables only, "
                f"because a {kind} file says itself what is what. Leave it out.",
            )
