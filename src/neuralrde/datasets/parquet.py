"""Parquet files: tables as in CSV, or a row per series with lists in its cells. Needs pyarrow."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import setting
from .dataset import Dataset
from .files import ReadError, check_file, check_room
from .roles import TableOptions, find_roles
from .table import Table, find_numerals, read_table, text_columns, with_numbers
from .targets import Task
from .times import SINCE_1970, since_1970


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

    path = check_file(path)
    roles = find_roles(parquet_names(path), path, options, channels_needed=channels_needed)
    with _parquet(path) as parquet:
        rows = parquet.read_metadata(path).num_rows
        check_room(3 * 8 * float(rows) * len(roles.all), path, f"{rows} rows of {len(roles.all)} columns")
        table = parquet.read_table(path, columns=roles.all, page_checksum_verification=True)
        table.validate(full=True)
        columns, time_unit = {}, None
        for name in roles.all:
            if name in roles.labels:
                columns[name] = _texts(table[name], name, path)
            else:
                columns[name], dated = _values(table[name], name, path)
                time_unit = SINCE_1970 if dated else time_unit
    frame = pd.DataFrame(columns, index=range(rows))
    numerals = find_numerals(text_columns(frame, roles), options, path)
    frame = with_numbers(frame, roles, options, *numerals)
    return Table(path, frame, roles, numerals=numerals, time_unit=time_unit)


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


def _texts(column: Any, name: str, path: Path) -> Any:
    import pandas as pd
    import pyarrow as arrow  # type: ignore

    if arrow.types.is_nested(column.type):
        raise ReadError(path, f"Got column {name!r} of type {column.type}; expected one label in each row.")
    return pd.Series(["" if cell is None else str(cell).strip() for cell in column.to_pylist()], dtype=object)


def _values(column: Any, name: str, path: Path) -> tuple[Any, bool]:
    """Numbers, text, dates or lists, and whether lists hold dates that have become seconds."""
    import pandas as pd
    import pyarrow as arrow  # type: ignore

    types, kind = arrow.types, column.type
    if types.is_dictionary(kind):
        return _values(column.cast(kind.value_type), name, path)
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        cells, dated = np.empty(len(column), object), False
        for i, cell in enumerate(column):
            if cell.is_valid:
                values, _ = _values(cell.values, name, path)
                if values.dtype.kind == "M":
                    if values.isna().any():
                        raise ValueError("a date is missing in a list")
                    values, dated = since_1970(values), True
                cells[i] = np.asarray(values)
        return pd.Series(cells, dtype=object), dated
    if types.is_timestamp(kind) or types.is_date(kind):
        unit = kind.unit if types.is_timestamp(kind) else "s" if types.is_date32(kind) else "ms"
        counts = column.cast(arrow.timestamp(unit)).cast(arrow.int64()).fill_null(np.iinfo(np.int64).min)  # NaT
        return pd.Series(np.asarray(counts).view(f"M8[{unit}]")), False
    if types.is_string(kind) or types.is_large_string(kind) or kind == arrow.string_view():
        return pd.Series(["" if cell is None else cell for cell in column.to_pylist()], dtype=object), False
    if types.is_decimal(kind) or types.is_boolean(kind) or types.is_float16(kind):
        column, kind = column.cast(arrow.float64()), arrow.float64()
    if not (types.is_floating(kind) or types.is_integer(kind) or types.is_null(kind)):
        raise ReadError(
            path,
            f"Got column {name!r} of type {kind}; expected numbers. Write "
            f"{setting('columns', [...])} without it to leave it out.",
        )
    exact = arrow.float32() if kind == arrow.float32() else arrow.float64()
    return np.asarray(column.cast(exact, safe=False)), False
