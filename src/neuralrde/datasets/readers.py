"""The registry of readers: which file formats there are, how a file is recognised, and which function reads it.

A new format is a function that reads it, and one entry in `READERS`. `read`, folders, tables of labels, the command
line and its messages take everything from this list. A format of your own is entered with `register_reader`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from .arff import read_arff
from .columns import JsonLines, ParquetTable, TableFile, TextTable
from .dataset import Dataset
from .files import ReadError, check_file, first_word
from .npz import read_npz
from .roles import TableOptions
from .table import Table, load_table
from .ts import read_ts


@dataclass(frozen=True)
class Reader:
    """A file format and what reads it: a function, if the file says itself what is what, or else a kind of table.

    Args:
        about: what the format is, in a few words.
        endings: how names of its files end, the usual ending first. Text files may also end with .gz.
        read: called as `read(path, task=..., name=...)`; it returns a `Dataset`.
        table: called with the path and `header`; it returns a `TableFile`.
        magic: the first bytes of every such file, if the format is binary.
        starts: how the first word of every such file starts, if the format is text and no other starts so.
    """

    about: str
    endings: tuple[str, ...]
    read: Callable[..., Dataset] | None = None
    table: Callable[[Path, bool | None], TableFile] | None = None
    magic: bytes = b""
    starts: tuple[str, ...] = ()

    def __post_init__(self):
        if (self.read is None) == (self.table is None):
            raise ValueError(f"Got the reader {self.about!r}; expected either `read` or `table`.")
        if wrong := [ending for ending in self.endings if ending and not ending.startswith(".")]:
            raise ValueError(f"Got the ending {wrong[0]!r}; expected it with its dot, {'.' + wrong[0]!r}.")

    @property
    def load(self) -> Callable[..., Table] | None:
        """Of a table: what reads its columns, called with the path and the `TableOptions`."""
        return None if self.table is None else partial(_load, self.table)


def _load(open_table, path: Path, options: TableOptions, *, channels_needed: bool = True) -> Table:
    return load_table(open_table(path, options.header), options, channels_needed=channels_needed)


READERS = [
    Reader("table in text", (".csv", ".tsv", ".txt", ".dat", ""), table=TextTable),
    Reader("Parquet table", (".parquet", ".pq"), table=ParquetTable, magic=b"PAR1"),
    Reader("JSON lines", (".jsonl", ".ndjson"), table=JsonLines, starts=("{",)),
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
    readers = [reader for reader in READERS if reader.table or not tables]
    return tuple(ending for reader in readers for ending in reader.endings if ending)


def reader_of(path: Path) -> Reader:
    """The reader for a file: by its content, or by its ending where the content does not tell."""
    path = check_file(path)
    with open(path, "rb") as file:
        head = file.read(max(len(reader.magic) for reader in READERS))
    for reader in READERS:
        if reader.magic and head.startswith(reader.magic):
            return reader
    ending = Path(path.name.lower().removesuffix(".gz")).suffix
    by_ending = next((reader for reader in READERS if ending in reader.endings), None)
    if by_ending is not None and (by_ending.magic or by_ending not in _OURS):
        return by_ending  # a binary reader says what is wrong; the text of another format may look like anything
    word = first_word(path)
    for reader in READERS:
        if reader.starts and word.startswith(reader.starts):
            return reader
    if by_ending is None:
        raise ReadError(path, f"Got the ending {ending!r}; expected one of {list(endings())}. Rename the file.")
    return by_ending
