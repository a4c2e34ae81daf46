"""Parquet files: tables as in CSV, or a row a series with lists in its cells. Needs pyarrow."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from .dataset import Dataset
from .errors import ReadError
from .table import find_roles, from_table
from .targets import Task
from .text import check_file, seconds


def read_parquet(
    path: str | Path,
    *,
    target: str | None = None,
    id: str | None = None,
    time: str | None = None,
    group: str | None = None,
    split: str | None = None,
    columns: Sequence[str] | None = None,
    wide: bool | None = None,
    per_time: bool = False,
    task: Task | None = None,
    name: str | None = None,
) -> Dataset:
    """Read a Parquet table of series: the arguments are those of `read_csv`.

    Beside the long and the wide table, cells may hold lists: then a row is a series, and each such column a
    channel. Times of a date type become seconds since 1970.
    """
    path = check_file(path)
    asked = {"target": target, "id": id, "time": time, "group": group, "split": split}
    roles = find_roles(parquet_names(path), path, columns=columns, **asked)
    kept = [*roles.channels, *roles.labels, *([roles.time] if roles.time else [])]
    with _parquet(path) as parquet:
        table = parquet.read_table(path, columns=kept)
    arrays = {}
    for column in kept:
        if column in roles.channels or column == roles.time:
            arrays[column] = _numbers(table[column], column, path, dates=column == roles.time)
        else:
            arrays[column] = np.array(["" if x is None else x for x in table[column].to_pylist()])
    return from_table(arrays, roles, file=path, wide=wide, per_time=per_time, task=task, name=name or Path(path).stem)


def parquet_names(path: str | Path) -> list[str]:
    """Of the columns, without the row numbers that pandas stores."""
    path = check_file(path)
    with _parquet(path) as parquet:
        schema = parquet.read_schema(path)
    stored = json.loads((schema.metadata or {}).get(b"pandas", b"{}")).get("index_columns", [])
    return [name for name in schema.names if not (name in stored and name.startswith("__index_level_"))]


@contextmanager
def _parquet(path: Path) -> Iterator[Any]:
    """pyarrow's module; what it cannot read becomes a sentence."""
    try:
        import pyarrow as arrow  # type: ignore
        import pyarrow.parquet as parquet  # type: ignore
    except ImportError:
        raise ImportError(
            f"Got the Parquet file {path}, and no pyarrow to read it with. Write `pip install "
            "'neuralrde[parquet]'`, or save the table as .csv."
        ) from None
    try:
        yield parquet
    except (arrow.ArrowInvalid, OSError) as error:
        raise ReadError(path, f"Got no Parquet table ({str(error)[:100]}); expected one.") from None


def _numbers(column, name: str, path, *, dates: bool) -> np.ndarray:
    import pyarrow as arrow  # type: ignore

    kind = column.type
    if arrow.types.is_list(kind) or arrow.types.is_large_list(kind) or arrow.types.is_fixed_size_list(kind):
        cells = np.empty(len(column), dtype=object)
        for i, cell in enumerate(column):
            cells[i] = None if not cell.is_valid else _numbers(cell.values, name, path, dates=dates)
        return cells
    if dates and (arrow.types.is_timestamp(kind) or arrow.types.is_date(kind)):
        moments = column.cast(arrow.timestamp("ns", tz=getattr(kind, "tz", None))).cast(arrow.int64())
        if moments.null_count == 0:
            return moments.to_numpy() / 1e9
    if dates and (arrow.types.is_string(kind) or arrow.types.is_large_string(kind)):
        try:
            return seconds(["" if cell is None else cell for cell in column.to_pylist()])
        except ValueError as error:
            raise ReadError(path, f"Got {error} in column {name!r}; expected numbers or ISO 8601 dates.") from None
    if arrow.types.is_decimal(kind) or arrow.types.is_boolean(kind) or arrow.types.is_float16(kind):
        column, kind = column.cast(arrow.float64()), arrow.float64()
    if not (arrow.types.is_floating(kind) or arrow.types.is_integer(kind) or arrow.types.is_null(kind)):
        raise ReadError(
            path,
            f"Got column {name!r} of type {kind}; expected numbers. Name the columns to read, "
            "`columns=[...]`, if this one is of words.",
        )
    exact = arrow.float32() if kind == arrow.float32() else arrow.float64()
    return np.asarray(column.cast(exact, safe=False))
