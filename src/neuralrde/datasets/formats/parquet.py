"""Parquet files: tables as in CSV, or a row per series with lists in its cells. Needs pyarrow."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from ..dataset import Dataset
from ..errors import ReadError, check_room
from ..tables.layouts import read_table
from ..tables.numerals import convert_numbers
from ..tables.table import Source, Table, TableOptions, find_roles
from ..tables.times import SINCE_1970, since_1970
from ..targets import Task
from ..text import check_file


def read_parquet(path: str | Path, *, task: Task | None = None, name: str | None = None, **options: Any) -> Dataset:
    """Read a Parquet table of series.

    Beside the long, the wide and the melted table, cells may hold lists: then a row is a series, and each such
    column a channel. Times of a date type become seconds since 1970. Checksums of pages are verified.

    Args:
        path: the file.
        task: "classification" or "regression"; None decides, see `read`.
        name: of the data set; None takes the file's.
        options: which column is what, and how the table is laid out: those of `read`.
    """
    return read_table(load_parquet, path, task, name, options)


def load_parquet(path: str | Path, options: TableOptions, *, channels_needed: bool = True) -> Table:
    """A table's columns: labels as text, channels as numbers, words or lists, times as numbers, dates or text."""
    import pandas as pd

    options.check(path)
    path = check_file(path)
    roles = find_roles(parquet_names(path), path, options, channels_needed=channels_needed)
    times = [] if roles.time is None else [roles.time]
    kept = list(dict.fromkeys([*roles.numeric, *roles.words, *roles.labels, *times]))
    with _parquet(path) as parquet:
        rows = parquet.read_metadata(path).num_rows
        check_room(3 * 8 * float(rows) * len(kept), path, f"{rows} rows of {len(kept)} columns")
        table = parquet.read_table(path, columns=kept, page_checksum_verification=True)
        table.validate(full=True)
        columns, unit = {}, None
        for name in kept:
            if name in roles.labels:
                columns[name] = _texts(table[name], name, path)
            else:
                # A column of dates that nobody called the time is refused with all others that are no numbers.
                dates = name == roles.time or _is_dated(table[name].type)
                columns[name], dated = _values(table[name], name, path, dates=dates)
                unit = SINCE_1970 if dated else unit
    made = {name: pd.Series(column, dtype=getattr(column, "dtype", None)) for name, column in columns.items()}
    frame = pd.DataFrame(made)
    whole = Table(path, frame, roles, [Source(path, np.arange(len(frame)))], time_unit=unit)
    convert_numbers(whole, None, options)
    return whole


def parquet_names(path: str | Path, header: bool | None = None) -> list[str]:
    """Of the columns, without the row numbers that pandas stores; the file always has a header."""
    path = check_file(path)
    with _parquet(path) as parquet:
        schema = parquet.read_schema(path)
        names = [str(name) for name in schema.names]
        if len(set(names)) < len(names):
            raise ReadError(path, f"Got the column names {names[:12]}, one of them twice; expected different names.")
        stored = _stored_index((schema.metadata or {}).get(b"pandas", b"{}"))
    return [name for name in names if not (name in stored and name.startswith("__index_level_"))]


def _stored_index(metadata: bytes) -> list[str]:
    """The columns that pandas notes as its row numbers; none if the note cannot be read."""
    try:
        index = json.loads(metadata).get("index_columns", [])
    except (ValueError, AttributeError, RecursionError):
        return []
    return [name for name in index if isinstance(name, str)] if isinstance(index, list) else []


@contextmanager
def _parquet(path: Path) -> Iterator[Any]:
    """pyarrow's module; what it cannot read becomes a sentence."""
    try:
        import pyarrow.parquet as parquet  # type: ignore
    except ImportError:
        raise ImportError(
            f"Got the Parquet file {path}, and no pyarrow to read it with. Write `pip install "
            "'neuralrde[parquet]'`, or save the table as .csv."
        ) from None
    try:
        yield parquet
    except ReadError:
        raise
    except Exception as error:  # pyarrow has a dozen kinds for damaged files, and wraps those of others
        raise ReadError(path, f"Got no Parquet table ({str(error)[:100]}); expected one. Make it again.") from None


def _is_dated(kind: Any) -> bool:
    import pyarrow as arrow  # type: ignore

    return arrow.types.is_timestamp(kind) or arrow.types.is_date(kind)


def _texts(column, name: str, path) -> np.ndarray:
    import pyarrow as arrow  # type: ignore

    if arrow.types.is_nested(column.type):
        raise ReadError(path, f"Got column {name!r} of type {column.type}; expected one label in each row.")
    texts = np.empty(len(column), dtype=object)
    texts[:] = ["" if cell is None else str(cell).strip() for cell in column.to_pylist()]
    return texts


def _values(column, name: str, path, *, dates: bool) -> tuple[Any, bool]:
    """Numbers, text, dates or lists, and whether lists hold dates that have become seconds."""
    import pandas as pd
    import pyarrow as arrow  # type: ignore

    kind = column.type
    if arrow.types.is_dictionary(kind):
        column = column.cast(kind.value_type)
        kind = column.type
    if arrow.types.is_list(kind) or arrow.types.is_large_list(kind) or arrow.types.is_fixed_size_list(kind):
        cells, dated = np.empty(len(column), dtype=object), False
        for i, cell in enumerate(column):
            if cell.is_valid:
                cells[i], dated = _values(cell.values, name, path, dates=dates)
                if isinstance(cells[i], pd.Series):
                    if cells[i].isna().any():
                        raise ValueError("a date is missing in a list")
                    cells[i], dated = since_1970(cells[i]), True
        return cells, dated
    if dates and _is_dated(kind):
        unit = kind.unit if arrow.types.is_timestamp(kind) else "s" if arrow.types.is_date32(kind) else "ms"
        moments = column if arrow.types.is_timestamp(kind) else column.cast(arrow.timestamp(unit))
        moments = moments.cast(arrow.int64())
        counts = np.asarray(moments.fill_null(np.iinfo(np.int64).min))  # which is NaT
        return pd.Series(counts.view(f"M8[{unit}]")), False
    if arrow.types.is_string(kind) or arrow.types.is_large_string(kind) or kind == arrow.string_view():
        cells = np.empty(len(column), dtype=object)
        cells[:] = ["" if cell is None else cell for cell in column.to_pylist()]
        return cells, False
    if arrow.types.is_decimal(kind) or arrow.types.is_boolean(kind) or arrow.types.is_float16(kind):
        column, kind = column.cast(arrow.float64()), arrow.float64()
    if not (arrow.types.is_floating(kind) or arrow.types.is_integer(kind) or arrow.types.is_null(kind)):
        raise ReadError(
            path,
            f"Got column {name!r} of type {kind}; expected numbers. Write `columns=[...]` without it to leave it out.",
        )
    exact = arrow.float32() if kind == arrow.float32() else arrow.float64()
    return np.asarray(column.cast(exact, safe=False)), False
