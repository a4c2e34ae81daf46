"""Long tables, with one row for each sample and time, as the points of samples one after the other."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from .checks import as_numbers


def rows_of_table(
    table: Any, *, id: str, time: str | None, columns: Sequence[str] | None
) -> tuple[np.ndarray, np.ndarray | None, np.ndarray, Sequence[str], np.ndarray]:
    """Points in order of their samples and times, their times, the samples' lengths, channels and ids.

    `Series.from_table` describes the arguments.
    """
    names = _column_names(table)
    keys = [id] if time is None else [id, time]
    if columns is None:
        columns = [name for name in names if name not in keys]
    absent = [name for name in [*keys, *columns] if name not in names]
    if absent:
        raise ValueError(
            f"Got a table with the columns {names}; expected also {absent}. Name its columns, for "
            'example `Series.from_table(table, id="patient", time="hour", columns=["hr", "bp"])`.'
        )
    if len(columns) == 0:
        raise ValueError(f"Got a table with only the columns {names}; expected a channel beside {keys}.")
    owners = np.asarray(table[id])
    clock = None if time is None else as_numbers(_seconds(table[time]), name=f"column {time!r}")
    data = [as_numbers(table[name], name=f"column {name!r}") for name in columns]
    shapes = {column.shape for column in [owners, *data, *([] if clock is None else [clock])]}
    if len(shapes) > 1 or owners.ndim != 1:
        raise ValueError(f"Got columns of shapes {sorted(shapes)}; expected one-dimensional ones of one length.")
    ids, owner = _number_ids(owners, id)
    order = np.argsort(owner, kind="stable") if clock is None else np.lexsort((clock, owner))
    times = None if clock is None else clock[order]
    return np.stack(data, axis=-1)[order], times, np.bincount(owner), columns, ids


def _number_ids(owners: np.ndarray, id: str) -> tuple[np.ndarray, np.ndarray]:
    """The ids in the order in which they first appear, and for each row the number of its id."""
    if len(owners) == 0:
        raise ValueError("Got a table without rows; expected at least one, because an empty series has no path.")
    try:
        ids, first, owner = np.unique(owners, return_index=True, return_inverse=True)
    except TypeError:
        raise TypeError(
            f"Got ids of mixed types in column {id!r}; expected numbers or strings only, without None. Leave "
            "rows without an id out, or write `[str(i) for i in ids]`."
        ) from None
    if (owners != owners).any():
        raise ValueError(
            f"Got NaN in the id column {id!r} at row {int(np.argmax(owners != owners))}; expected an id in "
            "every row, because a row without one belongs to no sample. Leave such rows out."
        )
    appearance = np.argsort(first)
    return ids[appearance], np.argsort(appearance)[owner]


def _seconds(column: Any) -> Any:
    """Dates as seconds since 1970 UTC, durations as seconds, all else as it is."""
    if getattr(getattr(column, "dtype", None), "tz", None) is not None:  # pandas would make objects of them
        column = np.asarray(column, "datetime64[ns]")
    array = np.asarray(column)
    if array.dtype.kind == "M":
        array = array - np.datetime64(0, "s")
    return array / np.timedelta64(1, "s") if array.dtype.kind == "m" else column


def _column_names(table: Any) -> list:
    # Arrow's `columns` are the data; polars iterates over the data; pandas and mappings iterate over names.
    for attribute in ("column_names", "columns"):
        if hasattr(table, attribute):
            return list(getattr(table, attribute))
    if hasattr(table, "keys"):
        return list(table)
    raise TypeError(
        f"Got a table of type {type(table).__name__}; expected a mapping from column names to "
        'one-dimensional arrays, for example {"id": ids, "t": times, "hr": values}, or a DataFrame.'
    )
