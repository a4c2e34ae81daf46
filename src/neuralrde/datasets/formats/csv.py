"""Tables in text: cells divided by commas, semicolons, tabs or bars. pandas reads them."""

import csv
import io
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..dataset import Dataset
from ..errors import ReadError
from ..tables.layouts import read_table
from ..tables.numerals import SPELLINGS, Numerals, convert_numbers, numerals_of, respell_targets
from ..tables.table import Roles, Source, Table, TableOptions, each_distinct, find_roles, set_text
from ..targets import Task
from ..text import is_missing, number, read_bytes

_LINE = re.compile(rb"[^\r\n]*(?:\r\n|\r|\n|\Z)")
_DATE = re.compile(r"\d{4}-\d\d-\d\d.*|\d{1,2}[./]\d{1,2}[./]\d{4}.*|\d{1,2}:\d\d(:\d\d)?.*")
# A table is refused if nearly all of it would be padding: one long row makes all others as long.
_PADDED_CELLS, _PADDED_TIMES = 20_000_000, 20


def read_csv(path: str | Path, *, task: Task | None = None, name: str | None = None, **options: Any) -> Dataset:
    """Read a table of series from text, plain or gzipped: comma, semicolon, tab or bar between the cells.

    Args:
        path: the file.
        task: "classification" or "regression"; None decides, see `read`.
        name: of the data set; None takes the file's.
        options: which column is what, and how the table is laid out: those of `read`.
    """
    return read_table(load_csv, path, task, name, options)


def load_csv(path: str | Path, options: TableOptions, *, channels_needed: bool = True) -> Table:
    """A table's columns: labels as text, channels as numbers or words, times as numbers or text."""
    options.check(path)
    text = _open(path, options.header)
    names = text.names
    row_numbers = "" in names[:1]
    if row_numbers:
        names = ["Unnamed: 0", *names[1:]]
    roles = find_roles([name for name in names if name], path, options, channels_needed=channels_needed)
    _check_padding(text)
    as_text = options.decimal == "," or options.thousands is not None
    frame = _frame(text, names, roles, options, as_text=as_text)
    numerals = numerals_of(_text_columns(frame, roles), options, path)
    if numerals.decimal == "," and not as_text:  # 1.234 is not what it was taken for
        frame = _frame(text, names, roles, options, as_text=True)
    rows = frame.index.to_numpy()
    table = Table(
        path,
        frame.reset_index(drop=True),
        roles,
        [Source(path, rows, text.line_of, lambda: _short_row(text, len(names), frame))],
        named=text.header_line > 0,
    )
    if numerals != Numerals():
        signs = "decimal commas" if numerals.decimal == "," else "decimal points"
        table.notes.append(f"{signs}, thousands by {numerals.thousands!r}" if numerals.thousands else signs)
    convert_numbers(table, numerals, options)
    respell_targets(table, numerals)
    return table


def csv_names(path: str | Path, header: bool | None = None) -> list[str]:
    """Of the columns: numbers if there is no header."""
    return [name for name in _open(path, header).names if name]


@dataclass(frozen=True)
class _Text:
    """A table in text: its bytes, and where in them the rows begin."""

    path: Any
    data: bytes
    start: int  # of the rows, after the header
    first_line: int  # of the rows
    delimiter: str
    names: list[str]
    header_line: int  # 0 without one

    def body(self) -> io.BytesIO:
        file = io.BytesIO(self.data)
        file.seek(self.start)
        return file

    def rows(self) -> Iterator[tuple[int, list[str]]]:
        """Python's own reading of the rows, with the lines where they begin: slow, and only to name mistakes."""
        rows = _rows(self.data, self.start, self.first_line, self.delimiter, self.path)
        return ((row.line, row.cells) for row in rows)

    def line_of(self, row: int) -> int | None:
        return next((line for i, (line, _) in enumerate(self.rows()) if i == row), None)


def _open(path, header: bool | None) -> _Text:
    data = read_bytes(path)
    start, line = 0, 1
    for match in _LINE.finditer(data):
        start = match.start()
        if match.group().strip() and not match.group().startswith(b"#"):
            break
        line += 1
    else:
        start = len(data)
    if not re.compile(rb"\S").search(data, start):
        raise ReadError(path, "Got only comments and empty lines; expected a table.")
    delimiter = _delimiter(_LINE.match(data, start).group().decode())  # type: ignore
    first = next(_rows(data, start, line, delimiter, path), None)
    if first is None:
        raise ReadError(path, "Got empty rows only; expected a table.", line=line)
    if header is False or (header is None and all(map(_is_data, first.cells))):
        text = _Text(path, data, start, line, delimiter, [], 0)
        return replace(text, names=[str(i) for i in range(_width(text))])
    names = _names(first.cells, path, first.line)
    return _Text(path, data, first.end, first.next_line, delimiter, names, first.line)


def _delimiter(line: str) -> str:
    outside = re.sub(r'"[^"]*"', "", line)
    # In 0,5;1,5 the commas belong to the numbers.
    numbers = "," in outside and not re.sub(r"(?<=\d),(?=\d)", "", outside).count(",")
    signs = ";\t|" if numbers and any(sign in outside for sign in ";\t|") else ",;\t|"
    return max(signs, key=outside.count)


class _Row(NamedTuple):
    """A row as Python's own reader sees it."""

    line: int  # where it begins
    cells: list[str]
    next_line: int
    end: int  # in the bytes


def _rows(data: bytes, start: int, line: int, delimiter: str, path) -> Iterator[_Row]:
    """The rows from a place in the bytes on; empty lines are no rows, as for pandas."""
    end = start

    def lines() -> Iterator[str]:
        nonlocal end
        for match in _LINE.finditer(data, start):
            if match.group():
                end = match.end()
                yield match.group().decode()

    reader = csv.reader(lines(), delimiter=delimiter, skipinitialspace=True)
    before = 0
    try:
        for cells in reader:
            if len(cells) > 1 or "".join(cells).strip():
                yield _Row(line + before, cells, line + reader.line_num, end)
            before = reader.line_num
    except csv.Error as error:
        raise ReadError(path, f"Got a damaged table ({error}).", line=line + before) from None


def _is_data(cell: str) -> bool:
    """Whether a cell of the first row is a value, and not a name."""
    try:
        return is_missing(cell) or bool(_DATE.fullmatch(cell.strip())) or number(cell.replace(",", ".")) is not None
    except ValueError:
        return False


def _names(first: list[str], path, line: int) -> list[str]:
    names = [cell.strip() for cell in first]
    while len(names) > 1 and not names[-1]:  # spreadsheets write empty columns at the end; data there are refused
        names.pop()
    unnamed = [i for i, name in enumerate(names) if not name and i > 0]
    twice = [name for name, count in Counter(names).items() if count > 1]
    if unnamed or twice:
        what = f"no name for column {unnamed[0]}" if unnamed else f"the column {twice[0]!r} twice"
        raise ReadError(
            path,
            f"Got {what}; expected a different name for each. Write `header=False` if the first row holds data.",
            line=line,
        )
    return names


def _width(text: _Text) -> int:
    if b'"' not in text.data:
        sign = text.delimiter.encode()
        lines = text.data[text.start :].splitlines()
        return 1 + max(line.rstrip(b" \r\n").count(sign) for line in lines)
    return max(len(row) for _, row in text.rows())


def _check_padding(text: _Text) -> None:
    width, rows = len(text.names), text.data.count(b"\n", text.start) + 1
    cells = text.data.count(text.delimiter.encode(), text.start) + rows
    if rows * width > max(_PADDED_CELLS, _PADDED_TIMES * cells):
        raise ReadError(
            text.path,
            f"Got {rows} rows and {width} columns with nearly all of their cells missing; expected rows of similar "
            "length. Write the series one below the other, as a long table with a column `id`.",
        )


def _frame(text: _Text, names: list[str], roles: Roles, options: TableOptions, *, as_text: bool):
    """The columns that have a role, and their rows' numbers as the index."""
    import pandas as pd

    wanted = {*roles.labels, *roles.numeric, *roles.words, roles.time, "Unnamed: 0"}
    words = {*roles.labels, "Unnamed: 0", *([roles.time] if options.time_format else [])}
    kept = [i for i, name in enumerate(names) if name in wanted or i == len(names) - 1]
    plain = [i for i in kept if not as_text and names[i] not in words]
    # A dictionary of missing values slows wide tables down; without words there is no need of one.
    spellings: Any = SPELLINGS if len(plain) == len(kept) else dict.fromkeys(plain, SPELLINGS)
    first = next(text.rows(), (0, []))[1]
    # pandas cuts a first row that is too long, without a word, and refuses such rows further on; with `usecols`
    # it would cut them all.
    width = max(len(names), _longest(text, len(names)) if len(first) > len(names) else 0)
    while True:
        try:
            frame = pd.read_csv(
                text.body(),
                header=None,
                names=range(width),
                index_col=False,
                sep=text.delimiter,
                dtype={i: object for i in kept if i not in plain},
                keep_default_na=False,
                na_values=spellings,
                skipinitialspace=True,
                low_memory=False,
                **_exact(pd),
            )
            break
        except pd.errors.EmptyDataError:
            raise ReadError(text.path, "Got column names and no rows; expected series.") from None
        except (pd.errors.ParserError, ValueError, OverflowError) as error:
            longest = _longest(text, len(names), error)
            if longest <= width:
                raise ReadError(text.path, f"Got a damaged table ({str(error).strip()[:100]}).") from None
            width = longest
    frame = frame[kept].set_axis([names[i] for i in kept], axis=1)
    for name in frame:
        column = frame[name]
        if column.dtype.kind == "O" and name in (*words, *roles.labels):
            set_text(frame, name, each_distinct(column, str.strip))
        elif column.dtype.kind not in "fiu":
            set_text(frame, name, each_distinct(column.astype(object), str))
    blank = _blank_rows(text, frame)
    return frame.drop(index=blank) if blank else frame


def _exact(pd) -> dict[str, Any]:
    """Older versions of pandas round the last digit unless told not to."""
    version = tuple(int(part) for part in pd.__version__.split(".")[:2])
    return {"float_precision": "round_trip"} if version < (3, 1) else {}


def _longest(text: _Text, width: int, error: Exception | None = None) -> int:
    """The cells of the longest row; ReadError if a row has cells that no column has, or a quote stays open."""
    longest, line, row = width, None, []
    for line, row in text.rows():
        if any(cell.strip() for cell in row[width:]):
            raise ReadError(text.path, f"Got {len(row)} cells in a row; expected {width}.", line=line)
        longest = max(longest, len(row))
    if "EOF inside string" in str(error):
        raise ReadError(text.path, f"Got a quote in {(row or [''])[-1][:40]!r} that does not end.", line=line)
    return longest


def _blank_rows(text: _Text, frame) -> list[int]:
    """Rows without any cell that is not empty, such as `,,`."""
    blank = np.full(len(frame), True)
    for name in frame:
        column = frame[name]
        blank &= (column == "").to_numpy() if column.dtype.kind == "O" else column.isna().to_numpy()
        if not blank.any():
            return []
    rows = set(np.flatnonzero(blank).tolist())
    return [i for i, (_, row) in enumerate(text.rows()) if i in rows and not any(map(str.strip, row))]


def _short_row(text: _Text, width: int, frame) -> tuple[int, str] | None:
    """The first row that lacks cells: its line, and what to say."""
    last = frame.iloc[:, -1]  # the last column of the file is always read
    if not ((last == "") if last.dtype.kind == "O" else last.isna()).any():
        return None
    for line, row in text.rows():
        if len(row) < width:
            return line, f"Got {len(row)} cells in a row; expected {width}."
    return None


def _text_columns(frame, roles: Roles) -> list[Any]:
    columns = [name for name in (*roles.numeric, roles.time, *roles.target) if name is not None and name in frame]
    return [frame[name].unique() for name in columns if frame[name].dtype.kind == "O"]
