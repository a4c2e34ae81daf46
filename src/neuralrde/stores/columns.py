"""Columns of Arrow tables as arrays: numbers, times, and what is said of series."""

from typing import Any

import numpy as np

from .rows import SourceError


def arrow() -> Any:
    try:
        import pyarrow  # type: ignore
    except ImportError:
        raise ImportError(
            "Got a table, and no pyarrow to read it in pieces. Write `pip install 'neuralrde[parquet]'`."
        ) from None
    return pyarrow


def numbers(column: Any, name: str, file: str) -> np.ndarray:
    """In float32 if they are, else in float64; NaN where there is none."""
    pa = arrow()
    kind = column.type
    if not (pa.types.is_floating(kind) or pa.types.is_integer(kind) or pa.types.is_boolean(kind)):
        raise SourceError(
            f"Got the column {name!r} of {file}, of type {kind}; expected numbers. Leave it out: name the channels, "
            "`columns=[...]`."
        )
    wanted = pa.float32() if kind == pa.float32() else pa.float64()
    return _combined(column if kind == wanted else column.cast(wanted, safe=False)).to_numpy(zero_copy_only=False)


def times_of(column: Any, name: str, file: str) -> np.ndarray:
    pa = arrow()
    kind = column.type
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        counts = _combined(column.cast(pa.timestamp("ns")).cast(pa.int64()))
        times = counts.to_numpy(zero_copy_only=False) / 1e9
    elif pa.types.is_floating(kind) or pa.types.is_integer(kind):
        times = _combined(column.cast(pa.float64(), safe=False)).to_numpy(zero_copy_only=False)
    else:
        raise SourceError(
            f"Got the column of times {name!r} of {file}, of type {kind}; expected numbers or timestamps. Convert it "
            "when the table is written."
        )
    if not np.isfinite(times).all():
        raise SourceError(
            f"Got a row without a time in {file} (column {name!r}); expected one in every row, because a point without "
            "a time has no place on the path."
        )
    return np.asarray(times, np.float64)


def _combined(column: Any) -> Any:
    return column.combine_chunks() if hasattr(column, "combine_chunks") else column


def changes(column: Any) -> np.ndarray:
    """At which rows a column differs from the row before; not at the first."""
    arrow()
    import pyarrow.compute as compute  # type: ignore

    found, column = np.zeros(len(column), bool), _combined(column)
    if hasattr(column, "num_chunks"):  # of no rows
        return found
    if hasattr(column, "dictionary_decode"):
        column = column.dictionary_decode()
    differs = compute.fill_null(compute.not_equal(column[1:], column[:-1]), False)  # type: ignore
    nulls = column.is_null().to_numpy(zero_copy_only=False)
    found[1:] = differs.to_numpy(zero_copy_only=False)
    found[1:] |= nulls[1:] != nulls[:-1]
    return found


def check_whole(column: Any, name: str, file: str) -> None:
    if column.null_count:
        raise SourceError(f"Got a row without an id in {file} (column {name!r}); expected one in every row.")


def plain(column: Any, rows: np.ndarray) -> np.ndarray:
    """Some rows of a column: numbers as they are, all else as text; "" where there is nothing."""
    pa = arrow()
    column = column.take(pa.array(rows))
    kind = column.type
    if (pa.types.is_integer(kind) or pa.types.is_floating(kind)) and not column.null_count:
        return _combined(column).to_numpy(zero_copy_only=False)
    if pa.types.is_boolean(kind) and not column.null_count:
        return _combined(column).to_numpy(zero_copy_only=False).astype(np.int64)
    return np.array(["" if cell is None else str(cell) for cell in column.to_pylist()], dtype=str)


def as_reals(column: np.ndarray) -> np.ndarray:
    try:
        return np.where(column == "", "nan", column).astype(np.float64) if column.dtype.kind == "U" else column * 1.0
    except ValueError:
        raise SourceError(
            f"Got several targets, one of which is the text {str(column[0])!r}; expected numbers. Name one target."
        ) from None
