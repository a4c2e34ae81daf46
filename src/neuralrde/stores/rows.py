"""Series to prepare, in files that need not fit in memory: long tables in Parquet and CSV files, and .npy arrays.

A source is read in blocks, in order, and any block alone: row groups, ranges of bytes that end with a line, or some
series of an array. pyarrow's `dataset.Scanner` would read a CSV file only from its beginning.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Bool, Float
from numpy.typing import ArrayLike

from ..datasets.roles import Roles, TableOptions, find_roles
from ..errors import setting
from .format import Json, SourceError, files_at, identity, is_url, open_file

PARQUET, CSV, NPY = (".parquet", ".pq"), (".csv", ".tsv"), (".npy",)
# Bytes of a piece, as float64. It stays in memory while it is looked at.
PIECE = 2**24
# Bytes of a block of a CSV file.
_CSV_BLOCK = 2**23
_NULLS = ["", "nan", "NaN", "NA", "null", "NULL", "None"]


@dataclass(frozen=True)
class Rows:
    """Consecutive rows of a source.

    `begins` marks rows whose id differs from that of the row before; of the first row only who has seen the row before
    knows. What is said of series (`ids`, `target`, `groups`) is given for those rows alone, the first one included.
    """

    values: Float[np.ndarray, "rows channels"]
    times: Float[np.ndarray, "rows"] | None
    begins: Bool[np.ndarray, "rows"]
    ids: np.ndarray
    target: np.ndarray | None = None
    """`(series,)` text, or `(series, targets)` numbers."""
    groups: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.begins)


@runtime_checkable
class RowSource(Protocol):
    """A set of series that is read in blocks. It can be pickled."""

    @property
    def files(self) -> list[str]: ...

    @property
    def channels(self) -> tuple[str, ...]: ...

    @property
    def timed(self) -> bool: ...

    @property
    def blocks(self) -> int:
        """The number of blocks."""
        ...

    def read(self, block: int, *, about_series: bool, values: bool) -> Iterator[Rows]:
        """The rows of a block in pieces of bounded size.

        Args:
            block: its number.
            about_series: whether ids, targets and groups are wanted, and are to be checked.
            values: whether the channels are wanted; without them `Rows.values` has no columns.
        """
        ...

    def described(self) -> Json:
        """Options that affect the output, as JSON values."""
        ...


def open_source(
    data: str | os.PathLike, columns: Mapping[str, Any], *, labels: Any = None, groups: Any = None
) -> RowSource:
    """A source by the ending of its files.

    Args:
        data: a file, a folder of files, or a URL.
        columns: which column of a table is what, as in `neuralrde.read`.
        labels, groups: for .npy data, one entry per series.
    """
    named = {name: value for name, value in columns.items() if value is not None}
    if _has_ending(data, PARQUET + CSV):
        if labels is not None or groups is not None:
            raise ValueError(
                f"Got {setting('labels')} or groups= for a table; expected {setting('target')} and "
                f"{setting('group')}, the names of columns."
            )
        kind = ParquetSource if _has_ending(data, PARQUET) else CsvSource
        return kind.open(data, TableOptions(**named))
    if _has_ending(data, NPY):
        if named:
            raise ValueError(
                f"Got {sorted(named)} for .npy data, which have no columns; expected {setting('labels')} instead."
            )
        return NpySource.open(data, labels=labels, groups=groups)
    every = ", ".join(PARQUET + CSV + NPY)
    raise SourceError(f"Got {str(data)!r}; expected a file, or a folder of files, that end in {every}.")


def _has_ending(data: str | os.PathLike, endings: tuple[str, ...]) -> bool:
    if str(data).lower().endswith(endings):
        return True
    if is_url(data):
        return False
    path = Path(data).expanduser()
    return path.is_dir() and any(file.name.lower().endswith(endings) for file in path.rglob("*"))


# Tables.


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
    def blocks(self) -> int:
        return len(self.places)

    def described(self) -> Json:
        roles = self.roles
        return {"id": roles.id, "time": roles.time, "target": list(roles.target), "group": roles.group} | {
            "columns": list(roles.channels)
        }

    def read(self, block: int, *, about_series: bool, values: bool) -> Iterator[Rows]:
        roles, file = self.roles, self.files[self.places[block][0]]
        constant = [name for name in (*roles.target, roles.group) if name is not None]
        said = (roles.time, roles.id, *constant) if about_series else (roles.time,)
        names = [*(roles.channels if values else ()), *(name for name in said if name is not None)]
        names = list(dict.fromkeys(names)) or [roles.channels[0]]  # something must say how many rows there are
        for batch in self._batches(block, names):
            if not batch.num_rows:
                continue
            columns = {name: _Column(batch.column(name), name, file) for name in names}
            begins, ids, target, groups = np.zeros(batch.num_rows, bool), np.zeros(0), None, None
            if about_series:
                begins[0] = True
                if roles.id is not None:
                    begins |= columns[roles.id].changes()
                first = np.flatnonzero(begins)
                ids = np.zeros(1, np.int64) if roles.id is None else columns[roles.id].ids(first)
                for name in constant:
                    columns[name].check_constant(begins)
                labels = [columns[name].labels(first) for name in roles.target]
                if labels:
                    target = labels[0] if len(labels) == 1 else np.stack(list(map(_as_reals, labels)), axis=1)
                groups = None if roles.group is None else columns[roles.group].labels(first)
            numbers = [columns[name].numbers() for name in roles.channels] if values else []
            array = np.stack(numbers, axis=1) if numbers else np.zeros((batch.num_rows, 0), np.float32)
            yield Rows(array, columns[roles.time].times() if roles.time else None, begins, ids, target, groups)

    def _batches(self, block: int, names: list[str]) -> Iterator[Any]:
        """Record batches of Arrow with these columns."""
        raise NotImplementedError


class _Column:
    """A column of an Arrow record batch."""

    def __init__(self, array: Any, name: str, file: str):
        self.types = _arrow().types
        self.array = array.dictionary_decode() if self.types.is_dictionary(array.type) else array
        self.name, self.file, self.kind = name, file, self.array.type

    @property
    def _is_real(self) -> bool:
        return self.types.is_floating(self.kind) or self.types.is_integer(self.kind)

    def _as(self, kind: Any) -> np.ndarray:
        array = self.array if self.kind == kind else self.array.cast(kind, safe=False)
        return array.to_numpy(zero_copy_only=False)

    def numbers(self) -> np.ndarray:
        """In float32 if they are, else in float64; NaN where there is none."""
        pa = _arrow()
        if not (self._is_real or self.types.is_boolean(self.kind)):
            raise SourceError(
                f"Got the column {self.name!r} of {self.file}, of type {self.kind}; expected numbers. "
                f"Leave it out: name the channels, {setting('columns', [...])}."
            )
        return self._as(pa.float32() if self.kind == pa.float32() else pa.float64())

    def times(self) -> np.ndarray:
        pa = _arrow()
        if self.types.is_timestamp(self.kind) or self.types.is_date(self.kind):
            times = self.array.cast(pa.timestamp("ns")).cast(pa.int64()).to_numpy(zero_copy_only=False) / 1e9
        elif self._is_real:
            times = self._as(pa.float64())
        else:
            raise SourceError(
                f"Got the column of times {self.name!r} of {self.file}, of type {self.kind}; expected numbers or "
                "timestamps. Convert it when the table is written."
            )
        if not np.isfinite(times).all():
            raise SourceError(
                f"Got a row without a time in {self.file} (column {self.name!r}); expected one in every row, because a "
                "point without a time has no place on the path."
            )
        return np.asarray(times, np.float64)

    def changes(self) -> Bool[np.ndarray, "rows"]:
        """At which rows it differs from the row before; not at the first."""
        _arrow()
        import pyarrow.compute as compute  # type: ignore

        differs = compute.fill_null(compute.not_equal(self.array[1:], self.array[:-1]), False)  # type: ignore
        nulls = self.array.is_null().to_numpy(zero_copy_only=False)
        return np.append(False, differs.to_numpy(zero_copy_only=False) | (nulls[1:] != nulls[:-1]))

    def check_constant(self, begins: Bool[np.ndarray, "rows"]) -> None:
        if (self.changes() & ~begins).any():
            raise SourceError(
                f"Got the column {self.name!r} of {self.file}, which changes within a series; expected one value per "
                "series, because a store holds one target for each. Targets at every point need the series in memory: "
                "`neuralrde.read(...)`, then `fit`."
            )

    def ids(self, rows: np.ndarray) -> np.ndarray:
        if self.array.null_count:
            raise SourceError(
                f"Got a row without an id in {self.file} (column {self.name!r}); expected one in every row."
            )
        return self.labels(rows)

    def labels(self, rows: np.ndarray) -> np.ndarray:
        """Some rows: numbers as they are, all else as text; "" where there is nothing."""
        array = self.array.take(_arrow().array(rows))
        if (self._is_real or self.types.is_boolean(self.kind)) and not array.null_count:
            numbers = array.to_numpy(zero_copy_only=False)
            return numbers if self._is_real else numbers.astype(np.int64)
        return np.array(["" if cell is None else str(cell) for cell in array.to_pylist()], dtype=str)


def _as_reals(column: np.ndarray) -> np.ndarray:
    try:
        return np.where(column == "", "nan", column).astype(np.float64) if column.dtype.kind == "U" else column * 1.0
    except ValueError:
        raise SourceError(
            f"Got several targets, one of which is the text {str(column[0])!r}; expected numbers. Name one target."
        ) from None


def _arrow() -> Any:
    try:
        import pyarrow  # type: ignore
    except ImportError:
        raise ImportError(
            "Got a table, and no pyarrow to read it in pieces. Write `pip install 'neuralrde[parquet]'`."
        ) from None
    return pyarrow


@dataclass(frozen=True)
class ParquetSource(_TableSource):
    """A block is a row group."""

    @staticmethod
    def open(data: str | os.PathLike, options: TableOptions) -> "ParquetSource":
        files, places, roles = files_at(data, PARQUET), [], None
        for number, file in enumerate(files):
            with _parquet(file) as table:
                names = [name for name in table.schema_arrow.names if not name.startswith("__index_level_")]
                metadata = table.metadata
                groups = [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)]
            if roles not in (None, here := find_roles(names, file, options)):
                raise SourceError(f"Got the columns {names} in {file}; expected those of {files[0]}.")
            roles = here
            places += [(number, i, rows) for i, rows in enumerate(groups) if rows]
        if roles is None or not places:
            raise SourceError(f"Got {data} without a row; expected series.")
        return ParquetSource(files, roles, places)

    def _batches(self, block: int, names: list[str]) -> Iterator[Any]:
        number, group, _ = self.places[block]
        with _parquet(self.files[number]) as table:
            yield from table.iter_batches(piece_rows(len(names)), row_groups=[group], columns=names, use_threads=False)


def piece_rows(channels: int) -> int:
    """Rows in a piece."""
    return max(1024, PIECE // (8 * max(1, channels)))


@contextmanager
def _parquet(file: str) -> Iterator[Any]:
    _arrow()
    import pyarrow.parquet as parquet  # type: ignore

    with open_file(file) as handle:
        try:
            # In small bites: else a whole row group is in memory at once, however few of its rows are asked for.
            table = parquet.ParquetFile(handle, buffer_size=2**20, pre_buffer=False, page_checksum_verification=True)
        except Exception as error:
            raise SourceError(f"{file} is no Parquet table ({str(error)[:100]}); expected one.") from None
        yield table


@dataclass(frozen=True)
class CsvSource(_TableSource):
    """A block is a range of bytes that ends with a line, so that any can be read alone."""

    names: tuple[str, ...]
    delimiter: str
    dated: bool
    """Whether times are dates rather than numbers."""

    @staticmethod
    def open(data: str | os.PathLike, options: TableOptions) -> "CsvSource":
        files, places, header, first_row = files_at(data, CSV), [], None, b""
        for number, file in enumerate(files):
            with open_file(file) as handle:
                line = handle.readline()
                start, size = len(line), identity(file)[1]
                if header not in (None, here := _csv_header(line, file)):
                    raise SourceError(f"Got the columns {list(here[0])} in {file}; expected those of {files[0]}.")
                header = here
                first_row = first_row or handle.readline()
                while start < size:
                    handle.seek(min(size, start + _CSV_BLOCK))
                    handle.readline()  # to the end of the line that the block ends in
                    places.append((number, start, handle.tell()))
                    start = handle.tell()
        if header is None or not places:
            raise SourceError(f"Got {data} without a row; expected series.")
        names, delimiter = header
        roles = find_roles(list(names), files[0], options)
        cells = first_row.decode("utf-8").rstrip("\r\n").split(delimiter)
        dated = roles.time is not None and not _is_number(cells[names.index(roles.time)].strip().strip('"') or "x")
        return CsvSource(files, roles, places, names, delimiter, dated)

    def _batches(self, block: int, names: list[str]) -> Iterator[Any]:
        pa, roles = _arrow(), self.roles
        from pyarrow import csv  # type: ignore

        number, start, end = self.places[block]
        with open_file(self.files[number]) as handle:
            handle.seek(start)
            text = handle.read(end - start)
        types = {name: pa.float64() for name in roles.channels}
        types |= {name: pa.string() for name in (roles.id, *roles.target, roles.group) if name}
        if roles.time is not None:
            types[roles.time] = pa.timestamp("ns") if self.dated else pa.float64()
        try:
            table = csv.read_csv(
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
                f"{list(roles.channels)}, and lines that end where rows do. `columns` names the channels."
            ) from None
        yield from table.combine_chunks().to_batches()

    def described(self) -> Json:
        return super().described() | {"delimiter": self.delimiter}


def _csv_header(line: bytes, file: str) -> tuple[tuple[str, ...], str]:
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


# Arrays.


@dataclass(frozen=True)
class NpySource:
    """One or several arrays `(series, length, channels)`, one after the other, with labels in an array of their own.

    Reads, rather than memory maps: pages of a map that have been touched count as memory of the process.
    """

    files: list[str]
    shapes: list[tuple[int, int, int]]
    offsets: list[int]
    dtype: str
    labels: np.ndarray | None = None
    groups: np.ndarray | None = None
    timed: bool = False

    @staticmethod
    def open(data: str | os.PathLike, *, labels: Any = None, groups: Any = None) -> "NpySource":
        files = files_at(data, NPY)
        shapes, dtypes, offsets = (list(each) for each in zip(*map(_npy_header, files), strict=True))
        if len({shape[2] for shape in shapes}) > 1 or len(set(dtypes)) > 1:
            raise SourceError(
                f"Got arrays of shapes {shapes[:4]} and types {sorted(set(dtypes))}; expected the same channels and "
                "one type in every file."
            )
        count = sum(shape[0] for shape in shapes)
        each = _one_each(labels, count, "labels"), _one_each(groups, count, "groups")
        return NpySource(files, shapes, offsets, dtypes[0], *each)

    @property
    def channels(self) -> tuple[str, ...]:
        return tuple(f"x{i}" for i in range(self.shapes[0][2]))

    def described(self) -> Json:
        labels, groups = (None if array is None else array.tolist() for array in (self.labels, self.groups))
        return {"kind": "npy", "labels": labels, "groups": groups}

    @property
    def blocks(self) -> int:
        return sum(map(len, self._starts()))

    def _starts(self) -> list[range]:
        """The first series of each block, for each file."""
        return [range(0, count, max(1, PIECE // (8 * length * width))) for count, length, width in self.shapes]

    def read(self, block: int, *, about_series: bool, values: bool) -> Iterator[Rows]:
        file, before, starts = 0, 0, self._starts()  # the file of the block, and the series in the files before it
        while block >= len(starts[file]):
            block, before, file = block - len(starts[file]), before + self.shapes[file][0], file + 1
        count, length, channels = self.shapes[file]
        first = starts[file][block]
        last = min(count, first + starts[file].step)
        series = slice(before + first, before + last)
        part = max(1, min(length, PIECE // (8 * channels)))  # a long series comes in several
        size, dtype = np.dtype(self.dtype).itemsize * channels, np.dtype(self.dtype)
        with open_file(self.files[file]) as handle:
            for start in range(0, length, part):
                points = min(part, length - start)
                rows = (last - first) * points
                array = np.zeros((rows, 0), np.float32)
                if values:
                    handle.seek(self.offsets[file] + (first * length + start) * size)
                    data = handle.read(rows * size)
                    if len(data) < rows * size:
                        raise SourceError(f"{self.files[file]} ends before its last series: it has been cut short.")
                    array = _floats(np.frombuffer(data, dtype).reshape(rows, channels))
                begins = np.zeros(rows, bool)
                begins[:: points if start == 0 else rows] = True
                said = (None if each is None else each[series] for each in (self.labels, self.groups))
                yield Rows(array, None, begins, np.arange(series.start, series.stop), *said)


def _npy_header(file: str) -> tuple[tuple[int, int, int], str, int]:
    with open_file(file) as handle:
        try:
            version = np.lib.format.read_magic(handle)
            read = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}[version]
            shape, fortran, dtype = read(handle)
        except (ValueError, KeyError) as error:
            raise SourceError(f"{file} is no .npy file ({error}); expected what `numpy.save` writes.") from None
        offset = handle.tell()
    if len(shape) == 2:
        shape = (*shape, 1)
    if len(shape) != 3 or 0 in shape or fortran or dtype.kind not in "fiu":
        raise SourceError(
            f"{file} holds an array of shape {shape} and type {dtype}{' in Fortran order' if fortran else ''}; "
            "expected numbers (series, length, channels) in C order, none of the three 0. Write "
            "`numpy.save(file, numpy.ascontiguousarray(array))`."
        )
    return shape, dtype.str, offset


def _floats(array: np.ndarray) -> np.ndarray:
    """In float32 or float64 as they are; others, and other byte orders, in float64."""
    if array.dtype in (np.float32, np.float64) and array.dtype.isnative:
        return array
    return array.astype(np.float32 if array.dtype.itemsize == 4 and array.dtype.kind == "f" else np.float64)


def _one_each(given: ArrayLike | str | os.PathLike | None, count: int, name: str) -> np.ndarray | None:
    """An array, or a .npy file of one, with an entry per series."""
    if given is None:
        return None
    if isinstance(given, str | os.PathLike):
        with open_file(str(given)) as file:
            given = np.load(file)
    array = np.asarray(given)
    if array.ndim not in (1, 2) or len(array) != count:
        raise SourceError(f"Got {name} of shape {array.shape} for {count} series; expected ({count},), one per series.")
    return array
