"""Series to prepare, in files that need not fit in memory: long tables in Parquet and CSV files, and .npy arrays.

A source is read in blocks, in order, and any block alone: row groups, ranges of bytes that end with a line, or some
series of an array. pyarrow's `dataset.Scanner` would read a CSV file only from its beginning.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool, Float
from numpy.typing import ArrayLike

from ...datasets.columns import Column, Frame
from ...datasets.npz import npy_header
from ...datasets.table import Roles, TableOptions, find_roles
from ...datasets.targets import is_number_text
from ...datasets.times import since_1970
from ...errors import setting
from .files import SourceError, Values

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


def open_source(data: str | os.PathLike, columns: Values, *, labels: Any = None, groups: Any = None) -> "RowSource":
    """A source by the ending of its files.

    Args:
        data: a file, or a folder of files.
        columns: which column of a table is what, as in `neuralrde.read`.
        labels, groups: for .npy data, one entry per series.
    """
    named = {name: value for name, value in columns.items() if value is not None}
    path = Path(data).expanduser().resolve()
    found = [str(file) for file in (sorted(path.rglob("*")) if path.is_dir() else [path]) if file.is_file()]
    for endings in (PARQUET, CSV, NPY):
        files = [file for file in found if file.lower().endswith(endings)]
        if files and endings != NPY:
            if labels is not None or groups is not None:
                raise ValueError(
                    f"Got {setting('labels')} or groups= for a table; expected {setting('target')} and "
                    f"{setting('group')}, the names of columns."
                )
            return TableSource.open(files, TableOptions(**named))
        if files:
            if named:
                raise ValueError(
                    f"Got {sorted(named)} for .npy data, which have no columns; expected {setting('labels')} instead."
                )
            return NpySource.open(files, labels=labels, groups=groups)
    expected = f"expected a file, or a folder of files, that end in {', '.join(PARQUET + CSV + NPY)}"
    raise (SourceError if found else FileNotFoundError)(f"Got {str(data)!r}; {expected}.")


# Tables.


@dataclass(frozen=True)
class TableSource:
    """A long table in Parquet or CSV files, a row per point."""

    files: list[str]
    roles: Roles
    blocks: list[tuple[int, int, int]]
    """The file of each, and a row group and its rows, or the first byte and the one behind the last."""
    header: tuple[list[str], str] | None
    """The columns of CSV files and what stands between them; None for Parquet."""

    @staticmethod
    def open(files: list[str], options: TableOptions) -> "TableSource":
        blocks, first = [], None
        for number, file in enumerate(files):
            names, header, places = (_look_at_csv if file.lower().endswith(CSV) else _look_at_parquet)(file)
            own = find_roles(names, file, options), header
            if first not in (None, own):
                raise SourceError(f"Got the columns {names} in {file}; expected those of {files[0]}.")
            first = own
            blocks += [(number, *place) for place in places]
        if first is None or not blocks:
            raise SourceError(f"Got {files[0]} without a row; expected series.")
        return TableSource(files, first[0], blocks, first[1])

    @property
    def channels(self) -> tuple[str, ...]:
        return self.roles.channels

    @property
    def timed(self) -> bool:
        return self.roles.time is not None

    def described(self) -> Values:
        """Options that affect the output, as JSON values."""
        roles = self.roles
        named = {"id": roles.id, "time": roles.time, "target": list(roles.target), "group": roles.group}
        return named | {"columns": list(roles.channels), "delimiter": self.header and self.header[1]}

    def read(self, block: int, *, about_series: bool, values: bool) -> Iterator[Rows]:
        """The rows of a block in pieces of bounded size.

        Args:
            block: its number.
            about_series: whether ids, targets and groups are wanted, and are to be checked.
            values: whether the channels are wanted; without them `Rows.values` has no columns.
        """
        roles, file = self.roles, self.files[self.blocks[block][0]]
        constant = [name for name in (*roles.target, roles.group) if name is not None]
        wanted = (*roles.channels * values, roles.time, *(roles.id, *constant) * about_series)
        names = list(dict.fromkeys(name for name in wanted if name is not None)) or [roles.channels[0]]
        for frame in (self._csv if self.header else self._parquet)(block, names):
            called = {name: f"the column {name!r} of {file}" for name in names}
            begins, ids, target, groups = np.zeros(len(frame), bool), np.zeros(1, np.int64), None, None
            if about_series:
                begins[0] = True
                if roles.id is not None:
                    begins |= _changes(frame[roles.id])
                for name in constant:
                    if (_changes(frame[name]) & ~begins).any():
                        raise SourceError(
                            f"Got {called[name]}, which changes within a series; expected one value per series, "
                            "because a store holds one target for each. Targets at every point need the series in "
                            "memory: `neuralrde.read(...)`, then `fit`."
                        )
                said = {name: _labels(frame[name][begins]) for name in constant}
                if roles.id is not None:
                    if frame[roles.id].isna().any():
                        raise SourceError(f"Got a row without an id in {called[roles.id]}; expected one in every row.")
                    ids = _labels(frame[roles.id][begins])
                if len(roles.target) > 1:
                    target = np.stack([_as_reals(said[name]) for name in roles.target], axis=1)
                elif roles.target:
                    target = said[roles.target[0]]
                groups = None if roles.group is None else said[roles.group]
            array = np.zeros((len(frame), 0), np.float32)
            if values:
                array = np.stack([_numbers(frame[name], called[name]) for name in roles.channels], axis=1)
            times = None if roles.time is None else _times(frame[roles.time], called[roles.time])
            yield Rows(array, times, begins, ids, target, groups)

    def _parquet(self, block: int, names: list[str]) -> Iterator[Frame]:
        number, group, _ = self.blocks[block]
        with _opened(self.files[number]) as table:
            some = {"row_groups": [group], "columns": names, "use_threads": False}
            for batch in table.iter_batches(piece_rows(len(names)), **some):
                if batch.num_rows:
                    yield batch.replace_schema_metadata(None).to_pandas(date_as_object=False, use_threads=False)

    def _csv(self, block: int, names: list[str]) -> Iterator[Frame]:
        pa, roles = _arrow(), self.roles
        from pyarrow import csv  # type: ignore

        number, start, end = self.blocks[block]
        with open(self.files[number], "rb") as handle:
            handle.seek(start)
            text = handle.read(end - start)
        every, delimiter = self.header or ([], ",")
        types = {name: pa.float64() for name in roles.channels}
        types |= {name: pa.string() for name in (roles.id, *roles.target, roles.group) if name}
        options = {"column_types": types, "include_columns": names, "strings_can_be_null": True, "null_values": _NULLS}
        try:
            table = csv.read_csv(
                pa.py_buffer(text),
                read_options=csv.ReadOptions(column_names=every, use_threads=False),
                parse_options=csv.ParseOptions(delimiter=delimiter),
                convert_options=csv.ConvertOptions(**options),
            )
        except pa.ArrowInvalid as error:
            raise SourceError(
                f"{self.files[number]}, between bytes {start} and {end}: {error}. Expected numbers in the channels "
                f"{list(roles.channels)}, and lines that end where rows do. `columns` names the channels."
            ) from None
        if table.num_rows:
            yield table.to_pandas(date_as_object=False, use_threads=False)


def _look_at_parquet(file: str) -> tuple[list[str], None, list[tuple[int, int]]]:
    with _opened(file) as table:
        names = [name for name in table.schema_arrow.names if not name.startswith("__index_level_")]
        rows = [table.metadata.row_group(i).num_rows for i in range(table.metadata.num_row_groups)]
    return names, None, [(i, count) for i, count in enumerate(rows) if count]


def _look_at_csv(file: str) -> tuple[list[str], tuple[list[str], str], list[tuple[int, int]]]:
    blocks, size = [], os.path.getsize(file)
    with open(file, "rb") as handle:
        text = handle.readline().decode("utf-8-sig").rstrip("\r\n")
        delimiter = max("\t;,", key=text.count)
        names = [name.strip().strip('"') for name in text.split(delimiter)]
        if len(set(names)) < len(names) or any(not name or is_number_text(name) for name in names):
            raise SourceError(f"Got {text[:80]!r} as the first line of {file}; expected different names of columns.")
        while (start := handle.tell()) < size:
            handle.seek(min(size, start + _CSV_BLOCK))
            handle.readline()  # to the end of the line that the block ends in
            blocks.append((start, handle.tell()))
    return names, (names, delimiter), blocks


def piece_rows(channels: int) -> int:
    """Rows in a piece."""
    return max(1024, PIECE // (8 * max(1, channels)))


@contextmanager
def _opened(file: str) -> Iterator[Any]:
    _arrow()
    import pyarrow.parquet as parquet  # type: ignore

    with open(file, "rb") as handle:
        try:
            # In small bites: else a whole row group is in memory at once, however few of its rows are asked for.
            table = parquet.ParquetFile(handle, buffer_size=2**20, pre_buffer=False, page_checksum_verification=True)
        except Exception as error:
            raise SourceError(f"{file} is no Parquet table ({str(error)[:100]}); expected one.") from None
        yield table


def _arrow() -> Any:
    try:
        import pyarrow  # type: ignore
    except ImportError:
        raise ImportError(
            "Got a table, and no pyarrow to read it in pieces. Write `pip install 'neuralrde[parquet]'`."
        ) from None
    return pyarrow


# Columns of a piece.


def _numbers(column: Column, called: str) -> Float[np.ndarray, "rows"]:
    """A column's numbers, in float32 if they are, else in float64; NaN where there is none."""
    if column.dtype.kind not in "fiub":
        raise SourceError(
            f"Got {called}, of type {column.dtype}; expected numbers. Leave it out: name the channels, "
            f"{setting('columns', [...])}."
        )
    return column.to_numpy(np.float32 if column.dtype == np.float32 else np.float64)


def _times(column: Column, called: str) -> Float[np.ndarray, "rows"]:
    absent = column.isna().to_numpy()
    if column.dtype.kind not in "fiuM" and not absent.all():
        raise SourceError(
            f"Got {called}, the times, of type {column.dtype}; expected numbers or timestamps. Convert it when the "
            "table is written."
        )
    if absent.any() or (column.dtype.kind == "f" and not np.isfinite(column.to_numpy()).all()):
        raise SourceError(
            f"Got a row without a time in {called}; expected one in every row, because a point without a time has no "
            "place on the path."
        )
    return since_1970(column) if column.dtype.kind == "M" else column.to_numpy(np.float64)


def _changes(column: Column) -> Bool[np.ndarray, "rows"]:
    """The rows at which it differs from the row before, without the first row."""
    codes = column.factorize()[0]  # what is missing is -1
    return np.append(False, codes[1:] != codes[:-1])


def _labels(column: Column) -> np.ndarray:
    """Numbers as they are, all else as text; "" where there is nothing."""
    if column.dtype.kind in "fiub" and not column.isna().any():
        return column.to_numpy(np.int64 if column.dtype.kind == "b" else None)
    return np.array(["" if gap else str(cell) for cell, gap in zip(column, column.isna(), strict=True)], dtype=str)


def _as_reals(column: np.ndarray) -> Float[np.ndarray, "series"]:
    try:
        return np.where(column == "", "nan", column).astype(np.float64) if column.dtype.kind == "U" else column * 1.0
    except ValueError:
        raise SourceError(
            f"Got several targets, one of which is the text {str(column[0])!r}; expected numbers. Name one target."
        ) from None


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
    blocks: list[tuple[int, int, int]]
    """The file of each, its first series there, and the one behind the last."""
    labels: np.ndarray | None = None
    groups: np.ndarray | None = None
    timed: bool = False

    @staticmethod
    def open(files: list[str], *, labels: Any = None, groups: Any = None) -> "NpySource":
        shapes, dtypes, offsets = (list(each) for each in zip(*map(_npy_header, files), strict=True))
        if len({shape[2] for shape in shapes}) > 1 or len(set(dtypes)) > 1:
            raise SourceError(
                f"Got arrays of shapes {shapes[:4]} and types {sorted(set(dtypes))}; expected the same channels and "
                "one type in every file."
            )
        blocks = []
        for file, (count, length, width) in enumerate(shapes):
            step = max(1, PIECE // (8 * length * width))
            blocks += [(file, first, min(count, first + step)) for first in range(0, count, step)]
        series = sum(shape[0] for shape in shapes)
        each = _one_each(labels, series, "labels"), _one_each(groups, series, "groups")
        return NpySource(files, shapes, offsets, dtypes[0], blocks, *each)

    @property
    def channels(self) -> tuple[str, ...]:
        return tuple(f"x{i}" for i in range(self.shapes[0][2]))

    def described(self) -> Values:
        labels, groups = (None if array is None else array.tolist() for array in (self.labels, self.groups))
        return {"kind": "npy", "labels": labels, "groups": groups}

    def read(self, block: int, *, about_series: bool, values: bool) -> Iterator[Rows]:
        """See `TableSource.read`."""
        file, first, last = self.blocks[block]
        before = sum(shape[0] for shape in self.shapes[:file])
        ids = np.arange(before + first, before + last)
        said = [None if each is None else each[ids] for each in (self.labels, self.groups)]
        _, length, channels = self.shapes[file]
        part = max(1, min(length, PIECE // (8 * channels)))  # a long series, alone in its block, comes in several
        dtype = np.dtype(self.dtype)
        exact = np.float32 if dtype.newbyteorder("=") == np.float32 else np.float64
        with open(self.files[file], "rb") as handle:
            for start in range(0, length, part):
                points = min(part, length - start)
                rows = (last - first) * points
                array = np.zeros((rows, 0), np.float32)
                if values:
                    handle.seek(self.offsets[file] + (first * length + start) * channels * dtype.itemsize)
                    data = handle.read(rows * channels * dtype.itemsize)
                    if len(data) < rows * channels * dtype.itemsize:
                        raise SourceError(f"{self.files[file]} ends before its last series: it has been cut short.")
                    array = np.frombuffer(data, dtype).reshape(rows, channels).astype(exact, copy=False)
                begins = np.zeros(rows, bool)
                begins[::points] = True
                yield Rows(array, None, begins, ids, *said)


RowSource = TableSource | NpySource


def _npy_header(file: str) -> tuple[tuple[int, int, int], str, int]:
    with open(file, "rb") as handle:
        try:
            shape, fortran, dtype = npy_header(handle)
        except ValueError as error:
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


def _one_each(given: ArrayLike | str | os.PathLike | None, count: int, name: str) -> np.ndarray | None:
    """An array, or a .npy file of one, with an entry per series."""
    if given is None:
        return None
    if isinstance(given, str | os.PathLike):
        with open(given, "rb") as file:
            given = np.load(file)
    array = np.asarray(given)
    if array.ndim not in (1, 2) or len(array) != count:
        raise SourceError(f"Got {name} of shape {array.shape} for {count} series; expected ({count},), one per series.")
    return array
