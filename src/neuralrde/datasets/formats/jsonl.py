"""JSON lines: an object per line, which is a row of a table, or a series with lists of numbers in it."""

import json
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import ReadError, check_room
from ..tables.numerals import convert_numbers
from ..tables.table import Source, Table, TableOptions, find_roles
from ..tables.times import SINCE_1970, seconds
from ..text import read_bytes

_LARGER = 12  # times: lists of Python's numbers, beside the text that they were made from


def load_jsonl(path: str | Path, options: TableOptions, *, channels_needed: bool = True) -> Table:
    """A table's columns: labels as text, channels as numbers, words or lists, times as numbers, dates or lists."""
    import pandas as pd

    options.check(path)
    lines, rows = _rows(path)
    roles = find_roles(_names(rows), path, options, channels_needed=channels_needed)
    table = Table(path, None, roles, [Source(path, np.arange(len(rows)), lambda row: lines[row])])
    columns: dict[str, Any] = {}
    wanted: list[str] = [*roles.numeric, *roles.words, *roles.labels, *([roles.time] if roles.time else [])]
    for name in dict.fromkeys(wanted):
        cells = [row.get(name) for row in rows]
        for cell, line in zip(cells, lines, strict=True):
            if isinstance(cell, dict) or (isinstance(cell, list) and name in roles.labels):
                kind = "an object" if isinstance(cell, dict) else "a list"
                raise ReadError(path, f"Got {kind} in {name!r}; expected one value.", line=line)
        if name in roles.labels:
            columns[name] = _texts(cells)
        elif any(isinstance(cell, list) for cell in cells):
            columns[name] = _lists(cells, name, lines, table)
        elif any(isinstance(cell, str) for cell in cells):
            columns[name] = _texts(cells)
        else:
            columns[name] = np.array([_number(cell) for cell in cells])
    table.frame = pd.DataFrame({name: pd.Series(column, dtype=column.dtype) for name, column in columns.items()})
    convert_numbers(table, None, options)
    return table


def jsonl_names(path: str | Path, header: bool | None = None) -> list[str]:
    """The names in the objects, in the order in which they first appear."""
    return _names(_rows(path)[1])


def _rows(path: str | Path) -> tuple[list[int], list[dict[str, Any]]]:
    """The objects, and the lines where they stand."""
    data = read_bytes(path)
    check_room(_LARGER * float(len(data)), path, "The objects of this file")
    lines, rows = [], []
    for number, line in enumerate(data.split(b"\n"), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise ReadError(path, f"Got no JSON ({str(error)[:80]}); expected an object per line.", number) from None
        if not isinstance(row, dict):
            raise ReadError(path, f"Got {line[:40].decode()!r}; expected an object, such as {{...}}.", number)
        lines.append(number)
        rows.append(row)
    if not rows:
        raise ReadError(path, "Got no objects; expected series.")
    return lines, rows


def _names(rows: list[dict[str, Any]]) -> list[str]:
    return list(dict.fromkeys(name for row in rows for name in row))


def _texts(cells: list[Any]) -> np.ndarray:
    texts = np.empty(len(cells), dtype=object)
    texts[:] = ["" if cell is None else cell.strip() if isinstance(cell, str) else json.dumps(cell) for cell in cells]
    return texts


def _lists(cells: list[Any], name: str, lines: list[int], table: Table) -> np.ndarray:
    """A list of numbers per series; lists of times may be dates."""
    found = np.empty(len(cells), dtype=object)
    for i, cell in enumerate(cells):
        if not isinstance(cell, list):
            continue  # the layout says so
        try:
            found[i] = np.array([_number(one) for one in cell], np.float64)
        except TypeError:
            try:
                if name != table.roles.time:
                    raise ValueError(_first_word(cell))
                found[i], table.time_unit = seconds(map(str, cell)), SINCE_1970
            except ValueError as error:
                raise ReadError(
                    table.file, f"Got {str(error)[:60]} in the list {name!r}; expected numbers, or null.", line=lines[i]
                ) from None
    return found


def _number(cell: Any) -> float:
    if cell is None:
        return np.nan
    if not isinstance(cell, int | float):
        raise TypeError
    try:
        return float(cell)
    except OverflowError:  # an integer of more than 308 digits
        return np.inf


def _first_word(cells: list[Any]) -> str:
    return json.dumps(next(cell for cell in cells if cell is not None and not isinstance(cell, int | float)))
