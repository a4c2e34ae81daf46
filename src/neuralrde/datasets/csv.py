"""Tables in text: comma, semicolon or tab between cells; long (a row a point) or wide (a row a series)."""

import csv
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path

import numpy as np

from .csv_quick import quick_columns
from .dataset import Dataset
from .errors import ReadError
from .table import Roles, find_roles, from_table, is_wide
from .targets import Task
from .text import numbers, open_text, seconds

# Rows that are converted at a time where the quick way fails.
_ROWS = 20_000


def read_csv(
    path: str | Path,
    *,
    target: str | int | None = None,
    id: str | int | None = None,
    time: str | int | None = None,
    group: str | int | None = None,
    split: str | int | None = None,
    columns: Sequence[str] | None = None,
    wide: bool | None = None,
    per_time: bool = False,
    header: bool | None = None,
    task: Task | None = None,
    name: str | None = None,
) -> Dataset:
    """Read a table of series from text.

    Long: a row a point, with a column that says which series it belongs to (`id`) and perhaps one for time.
    Wide: a row a series, of one channel, its points in the order of the columns; short rows are short series.
    Columns called id, time (t, timestamp), target (label, class), group (patient, subject, speaker) and split
    are known by their names; any other name must be given. Times may be dates (ISO 8601), and become seconds
    since 1970. Missing values are empty, ?, NaN, NA or null.

    Args:
        path: the file, which may be gzipped; cells divided by commas, semicolons, tabs or bars.
        target: the column to predict; without a header, its number from 0.
        id: the column that says which series a row belongs to.
        time: the column of times.
        group: the column of patients, speakers, ...
        split: the column that says train, validation or test.
        columns: the channels (long), or the points (wide); None takes all other columns.
        wide: None decides: wide if there are no times, and no series has two rows.
        per_time: whether the target of a long table may change within a series.
        header: whether the first row names the columns; None decides: it does if a cell is not a number.
        task: None takes whole numbers and words for classes; see `Dataset`.
        name: of the data set; None takes the file's.
    """
    delimiter, line, names = csv_header(path, header)
    with open_text(path) as file:
        rows = _rows(file, delimiter, path)
        if line:
            next(rows)
        # A first column without a name is the row number that pandas writes.
        roles = find_roles(
            [name for name in names if name],
            path,
            columns=columns,
            target=target,
            id=id,
            time=time,
            group=group,
            split=split,
        )
        table, short = quick_columns(path, line, names, roles, delimiter), None
        if table is None:
            table, short = _columns(rows, names, roles, path)
    if short and not is_wide(table, roles, wide):
        line, cells = short
        raise ReadError(path, f"Got {cells} cells in a row; expected {len(names)}.", line=line)
    return from_table(
        table,
        roles,
        file=path,
        wide=wide,
        per_time=per_time,
        task=task,
        name=name or Path(path).name.split(".")[0],
    )


def csv_header(path: str | Path, header: bool | None = None) -> tuple[str, int, list[str]]:
    """What divides the cells, the line that names the columns, and their names; without one line 0, and numbers."""
    with open_text(path) as file:
        first_line = next((line for line in file if line.strip() and not line.startswith("#")), "")
    delimiter = max(",;\t|", key=first_line.count)
    with open_text(path) as file:
        line, first = next(_rows(file, delimiter, path), (0, None))
    if first is None:
        raise ReadError(path, "Got only comments and empty lines; expected a table.")
    if header is False or (header is None and all(map(_is_number, first))):
        return delimiter, 0, [str(i) for i in range(_width(path, delimiter))]
    return delimiter, line, _names(first, path, line)


def _rows(file: Iterable[str], delimiter: str, path) -> Iterator[tuple[int, list[str]]]:
    """Rows with the numbers of their lines, without empty ones and without comments before the first."""
    reader, begun = csv.reader(file, delimiter=delimiter), False
    try:
        for row in reader:
            if any(map(str.strip, row)) and (begun or not row[0].startswith("#")):
                begun = True
                yield reader.line_num, row
    except (csv.Error, EOFError, OSError) as error:
        raise ReadError(path, f"Got a damaged table ({error}).", line=reader.line_num) from None


def _is_number(cell: str) -> bool:
    try:
        numbers([cell])
    except ValueError:
        return False
    return True


def _names(first: list[str], path, line: int) -> list[str]:
    names = [cell.strip() for cell in first]
    unnamed = [i for i, name in enumerate(names) if not name and i > 0]
    twice = [name for name, count in Counter(names).items() if count > 1]
    if unnamed or twice:
        what = f"no name for column {unnamed[0]}" if unnamed else f"the column {twice[0]!r} twice"
        raise ReadError(
            path,
            f"Got {what}; expected a different name for each. Write header=False if the first row holds data.",
            line=line,
        )
    return names


def _width(path, delimiter: str) -> int:
    with open_text(path) as file:
        return 1 + max(line.rstrip().count(delimiter) for line in file)


def _columns(rows, names: list[str], roles: Roles, path):
    """The columns that have a role, as text or numbers; and the first short row, its line and cells."""
    wanted = {*roles.labels, roles.time, *roles.channels}
    kept = {i: name for i, name in enumerate(names) if name in wanted}
    parts: dict[int, list[np.ndarray]] = {i: [] for i in kept}
    short = None
    while some := list(islice(rows, _ROWS)):
        lines, cells = zip(*some, strict=True)
        if set(map(len, cells)) != {len(names)}:
            short = short or next(((n, len(row)) for n, row in some if len(row) < len(names)), None)
            cells = [_fitted(row, len(names), line, path) for line, row in some]
        columns = list(zip(*cells, strict=True))
        for i, name in kept.items():
            parts[i].append(_convert(columns[i], name, roles, lines, path))
    return {name: np.concatenate(parts[i]) if parts[i] else np.zeros(0) for i, name in kept.items()}, short


def _fitted(row: list[str], width: int, line: int, path) -> list[str]:
    if any(cell.strip() for cell in row[width:]):
        raise ReadError(path, f"Got {len(row)} cells in a row; expected {width}.", line=line)
    return row[:width] + [""] * (width - len(row))


def _convert(cells: Sequence[str], name: str, roles: Roles, lines: Sequence[int], path) -> np.ndarray:
    if name in roles.labels:
        return np.array([cell.strip() for cell in cells])
    timed = name == roles.time
    convert = seconds if timed else numbers
    try:
        return convert(cells)
    except ValueError as error:
        for line, cell in zip(lines, cells, strict=True):
            try:
                convert([cell])
            except ValueError:
                expected = "a number, or a date such as 2024-01-31 12:00:00" if timed else "a number"
                advice = "" if timed else " Name the columns to read, `columns=[...]`, if this one is of words."
                raise ReadError(
                    path, f"Got {cell[:40]!r} in column {name!r}; expected {expected}.{advice}", line=line
                ) from None
        raise ReadError(path, f"Got {error} in column {name!r}; expected one kind of times.") from None
