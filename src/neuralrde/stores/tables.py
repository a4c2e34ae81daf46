"""Long tables in Parquet and CSV files, in blocks: row groups, or ranges of bytes that end with a line."""

import functools
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..datasets.table import Roles, TableOptions, find_roles
from .columns import arrow, as_reals, changes, check_whole, numbers, plain, times_of
from .files import files_at, identity, open_file
from .rows import Rows, SourceError, piece_rows

PARQUET, CSV = (".parquet", ".pq"), (".csv", ".tsv")
# Bytes of a block of a CSV file.
_BLOCK = 2**23
# Columns that a caller may name.
NAMED = ("id", "time", "target", "group", "columns")


@dataclass(frozen=True)
class _TableSource:
    """What Parquet and CSV share: which column is what, and how columns become arrays."""

    files: list[str]
    roles: Roles
    places: list[tuple[int, int, int]]
    """Of each block: its file, and a row group, or the first byte and the one behind the last."""

    @property
    def channels(self) -> tuple[str, ...]:
        return self.roles.channels

    @property
    def timed(self) -> bool:
        return self.roles.time is not None

    @property
    def target(self) -> tuple[str, ...]:
        return self.roles.target

    @property
    def group(self) -> str | None:
        return self.roles.group

    @property
    def blocks(self) -> int:
        return len(self.places)

    def read(self, block: int, *, about_series: bool, values: bool) -> Iterator[Rows]:
        roles = self.roles
        names = [*roles.channels] if values else []
        names += [] if roles.time is None else [roles.time]
        if about_series:
            names += [name for name in (roles.id, *roles.target, roles.group) if name is not None]
        names = names or [*roles.channels][:1]  # something must say how many rows there are
        for table in self._tables(block, list(dict.fromkeys(names))):
            if table.num_rows:
                yield self._rows(table, about_series, values, self.files[self.places[block][0]])

    def _tables(self, block: int, names: list[str]) -> Iterator[Any]:
        raise NotImplementedError

    def _rows(self, table: Any, about_series: bool, values: bool, file: str) -> Rows:
        roles, count = self.roles, table.num_rows
        array = np.zeros((count, 0), np.float32)
        if values:
            columns = [numbers(table[name], name, file) for name in roles.channels]
            array = np.stack(columns, axis=1, dtype=np.result_type(*columns))  # type: ignore
        times = None if roles.time is None else times_of(table[roles.time], roles.time, file)
        begins, ids, target, groups = np.zeros(count, bool), np.zeros(0), None, None
        if about_series:
            begins[0] = True
            if roles.id is not None:
                begins |= changes(table[roles.id])
                check_whole(table[roles.id], roles.id, file)
            rows = np.flatnonzero(begins)
            ids = np.zeros(1, np.int64) if roles.id is None else plain(table[roles.id], rows)
            for name in (*roles.target, *([] if roles.group is None else [roles.group])):
                if (changes(table[name]) & ~begins).any():
                    raise SourceError(
                        f"Got the column {name!r} of {file}, which changes within a series; expected one value per "
                        "series, because a store holds one target for each. Targets at every point need the series in "
                        "memory: `neuralrde.read(...)`, then `fit`."
                    )
            if roles.target:
                told = [plain(table[name], rows) for name in roles.target]
                target = told[0] if len(told) == 1 else np.stack([as_reals(one) for one in told], axis=1)
            groups = None if roles.group is None else plain(table[roles.group], rows)
        return Rows(array, times, begins, ids, target, groups)

    def described(self) -> dict[str, Any]:
        roles = self.roles
        return {"id": roles.id, "time": roles.time, "target": list(roles.target), "group": roles.group} | {
            "columns": list(roles.channels)
        }


@dataclass(frozen=True)
class ParquetSource(_TableSource):
    """A block is a row group."""

    @staticmethod
    def open(data: str | os.PathLike, **named: Any) -> "ParquetSource":
        files, places, roles = files_at(data, PARQUET), [], None
        for number, file in enumerate(files):
            with _parquet(file) as table:
                names = [name for name in table.schema_arrow.names if not name.startswith("__index_level_")]
                own = find_roles(names, file, TableOptions(**named))
                if roles is not None and own != roles:
                    raise SourceError(f"Got the columns {names} in {file}; expected those of {files[0]}.")
                roles = own
                groups = [table.metadata.row_group(i).num_rows for i in range(table.metadata.num_row_groups)]
            places += [(number, i, rows) for i, rows in enumerate(groups) if rows]
        if roles is None or not places:
            raise SourceError(f"Got {data} without a row; expected series.")
        return ParquetSource(files, roles, places)

    def _tables(self, block, names):
        number, group, _ = self.places[block]
        with _parquet(self.files[number]) as table:
            yield from table.iter_batches(piece_rows(len(names)), row_groups=[group], columns=names, use_threads=False)


@dataclass(frozen=True)
class CsvSource(_TableSource):
    """A block is a range of bytes that ends with a line, so that any can be read alone."""

    names: tuple[str, ...] = ()
    delimiter: str = ","
    dated: bool = False

    @staticmethod
    def open(data: str | os.PathLike, **named: Any) -> "CsvSource":
        files, places, first = files_at(data, CSV), [], None
        for number, file in enumerate(files):
            with open_file(file) as handle:
                line = handle.readline()
                start, size = len(line), identity(file)[1]
                names, delimiter = _header(line, file)
                if first is not None and (names, delimiter) != first:
                    raise SourceError(f"Got the columns {list(names)} in {file}; expected those of {files[0]}.")
                first = names, delimiter
                while start < size:
                    handle.seek(min(size, start + _BLOCK))
                    handle.readline()  # to the end of the line that the block ends in
                    places.append((number, start, handle.tell()))
                    start = handle.tell()
        if first is None or not places:
            raise SourceError(f"Got {data} without a row; expected series.")
        names, delimiter = first
        roles = find_roles(list(names), files[0], TableOptions(**named))
        found = CsvSource(files, roles, places, names, delimiter)
        return found if roles.time is None else CsvSource(files, roles, places, names, delimiter, found._has_dates())

    def _has_dates(self) -> bool:
        """Whether the first time is a date rather than a number."""
        number, start, _ = self.places[0]
        with open_file(self.files[number]) as handle:
            handle.seek(start)
            line = handle.readline()
        cell = line.decode("utf-8").rstrip("\r\n").split(self.delimiter)[self.names.index(str(self.roles.time))]
        try:
            float(cell.strip().strip('"'))
        except ValueError:
            return True
        return False

    def _tables(self, block, names):
        pa = arrow()
        from pyarrow import csv  # type: ignore

        number, start, end = self.places[block]
        with open_file(self.files[number]) as handle:
            handle.seek(start)
            text = handle.read(end - start)
        types = {name: pa.float64() for name in self.roles.channels}
        types |= {name: pa.string() for name in (self.roles.id, *self.roles.target, self.roles.group) if name}
        if self.roles.time is not None:
            types[self.roles.time] = pa.timestamp("ns") if self.dated else pa.float64()
        try:
            yield csv.read_csv(
                pa.py_buffer(text),
                read_options=csv.ReadOptions(column_names=list(self.names), use_threads=False),
                parse_options=csv.ParseOptions(delimiter=self.delimiter),
                convert_options=csv.ConvertOptions(
                    column_types=types, include_columns=names, strings_can_be_null=True, null_values=_NULLS
                ),
            )
        except pa.ArrowInvalid as error:
            raise SourceError(
                f"{self.files[number]}, between bytes {start} and {end}: {error}. Expected numbers in the channels "
                f"{list(self.roles.channels)}, and lines that end where rows do. `columns` names the channels."
            ) from None

    def described(self):
        return super().described() | {"delimiter": self.delimiter}


_NULLS = ["", "nan", "NaN", "NA", "null", "NULL", "None"]


@contextmanager
def _parquet(file: str) -> Iterator[Any]:
    arrow()
    import pyarrow.parquet as parquet  # type: ignore

    with open_file(file) as handle:
        try:
            # In small bites: else a whole row group is in memory at once, however few of its rows are asked for.
            table = parquet.ParquetFile(handle, buffer_size=2**20, pre_buffer=False, page_checksum_verification=True)
        except Exception as error:
            raise SourceError(f"{file} is no Parquet table ({str(error)[:100]}); expected one.") from None
        yield table


def _header(line: bytes, file: str) -> tuple[tuple[str, ...], str]:
    text = line.decode("utf-8-sig").rstrip("\r\n")
    delimiter = max("\t;,", key=text.count)
    names = tuple(name.strip().strip('"') for name in text.split(delimiter))
    if len(set(names)) < len(names) or any(_is_number(name) for name in names):
        raise SourceError(f"Got {text[:80]!r} as the first line of {file}; expected different names of columns.")
    return names, delimiter


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return text == ""
    return True


@functools.cache
def kinds() -> dict[tuple[str, ...], Any]:
    """Which source reads files of which ending."""
    from .npy import NpySource

    return {PARQUET: ParquetSource, CSV: CsvSource, (".npy",): NpySource}
