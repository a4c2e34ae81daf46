"""JSON lines: an object per line, which is a row of a table, or a series with lists of numbers in it."""

import json
from pathlib import Path
from typing import Any

import numpy as np

from .files import ReadError, check_room, read_bytes
from .roles import TableOptions, find_roles
from .table import Table, find_numerals, text_columns, with_numbers
from .times import SINCE_1970, seconds

_LARGER = 12  # times: lists of Python's numbers, beside the text that they were made from


def load_jsonl(path: str | Path, options: TableOptions, *, channels_needed: bool = True) -> Table:
    """A table's columns: labels as text, channels as numbers, words or lists, times as numbers, dates or lists."""
    import pandas as pd

    lines, rows = _rows(path)
    roles = find_roles(_names(rows), path, options, channels_needed=channels_needed)
    columns: dict[str, Any] = {}
    time_unit = None
    for name in roles.all:
        cells = [row.get(name) for row in rows]
        for cell, line in zip(cells, lines, strict=True):
            if isinstance(cell, dict) or (isinstance(cell, list) and name in roles.labels):
                kind = "an object" if isinstance(cell, dict) else "a list"
                raise ReadError(path, f"Got {kind} in {name!r}; expected one value.", line=line)
        if any(isinstance(cell, list) for cell in cells):
            lists = np.empty(len(cells), object)
            for i, cell in enumerate(cells):
                if isinstance(cell, list):  # the layout refuses others among them
                    try:
                        lists[i], dated = _numbers(cell, dates=name == roles.time)
                        time_unit = SINCE_1970 if dated else time_unit
                    except ValueError as error:
                        got = f"Got {str(error)[:60]} in the list {name!r}; expected numbers, or null."
                        raise ReadError(path, got, line=lines[i]) from None
            columns[name] = pd.Series(lists, dtype=object)
        elif name in roles.labels or any(isinstance(cell, str) for cell in cells):
            columns[name] = pd.Series([_text(cell) for cell in cells], dtype=object)
        else:
            columns[name] = _numbers(cells)[0]
    frame = pd.DataFrame(columns)
    numerals = find_numerals(text_columns(frame, roles), options, path)
    frame = with_numbers(frame, roles, options, *numerals)
    return Table(path, frame, roles, line=lambda row: lines[row], numerals=numerals, time_unit=time_unit)


def jsonl_names(path: str | Path, header: bool | None = None) -> list[str]:
    """The names in the objects, in the order in which they first appear."""
    return _names(_rows(path)[1])


def _rows(path: str | Path) -> tuple[list[int], list[dict[str, Any]]]:
    """The objects, and the lines on which they stand."""
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


def _text(cell: object) -> str:
    return "" if cell is None else cell.strip() if isinstance(cell, str) else json.dumps(cell)


def _numbers(cells: list[Any], *, dates: bool = False) -> tuple[np.ndarray, bool]:
    """Values of JSON as numbers, NaN for null, and whether they were dates; ValueError names one that is neither."""
    words = [cell for cell in cells if cell is not None and not isinstance(cell, int | float)]
    if words and dates:
        return seconds(map(str, cells)), True
    if words:
        raise ValueError(json.dumps(words[0]))
    try:
        return np.array([np.nan if cell is None else cell for cell in cells], np.float64), False
    except OverflowError:  # an integer of more than 308 digits
        return np.array([np.inf if isinstance(cell, int) else cell for cell in cells], np.float64), False
