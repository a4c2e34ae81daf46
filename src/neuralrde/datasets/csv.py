"""Tables in text: cells divided by commas, semicolons, tabs or bars. pandas reads them."""

import csv
import io
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import setting
from .dataset import Dataset
from .files import MISSING, ReadError, is_missing, number, read_bytes
from .roles import Roles, TableOptions, find_roles
from .table import Frame, Table, find_numerals, is_text, read_table, text_columns, with_numbers
from .targets import Task

# Missing values as pandas' reader compares them: to the letter.
_SPELLINGS = sorted({form for word in MISSING for form in (word, word.upper(), word.capitalize())} | {"NaN", "<Na>"})
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
    text = _open(path, options.header)
    roles = find_roles(text.names, path, options, channels_needed=channels_needed)
    _check_padding(text)
    decimal = options.decimal or "."
    frame = _frame(text, roles, options, decimal)
    numerals = find_numerals(text_columns(frame, roles), options, path)
    if numerals[0] != decimal:  # 1.234 is not what it was taken for
        frame = _frame(text, roles, options, numerals[0])
    notes = ()
    if numerals != (".", None):
        thousands = f", thousands by {numerals[1]!r}" if numerals[1] else ""
        notes = (f"decimal {'commas' if numerals[0] == ',' else 'points'}{thousands}",)

    def check_rows() -> None:
        last = frame.iloc[:, -1]  # the last column of the file is always read
        if last.isna().any() or (is_text(last) and (last == "").any()):
            for line, row in text.rows():
                if len(row) < len(text.names):
                    raise ReadError(path, f"Got {len(row)} cells in a row; expected {len(text.names)}.", line=line)

    return Table(
        path,
        with_numbers(frame, roles, options, *numerals),
        roles,
        line=lambda row: next((line for i, (line, _) in enumerate(text.rows()) if i == row), None),
        check_rows=check_rows,
        named=text.named,
        numerals=numerals,
        notes=notes,
    )


def csv_names(path: str | Path, header: bool | None = None) -> list[str]:
    """The names of the columns: numbers if there is no header."""
    return list(_open(path, header).names)


@dataclass(frozen=True)
class _Text:
    """A table in text: its bytes, and where in them the rows begin."""

    path: str | Path
    data: bytes
    sep: str
    start: int = 0  # of the rows in the bytes, after the header
    line: int = 1  # where the rows start
    names: tuple[str, ...] = ()
    named: bool = False

    def body(self) -> io.BytesIO:
        file = io.BytesIO(self.data)
        file.seek(self.start)
        return file

    def rows(self, body: io.BytesIO | None = None) -> Iterator[tuple[int, list[str]]]:
        """Python's own reading of the rows, with the lines where they begin: slow, and only to name mistakes."""
        lines = (line.decode() for line in body or self.body())
        reader, before = csv.reader(lines, delimiter=self.sep, skipinitialspace=True), 0
        try:
            for cells in reader:
                if len(cells) > 1 or "".join(cells).strip():  # empty lines are no rows, as for pandas
                    yield self.line + before, cells
                before = reader.line_num
        except csv.Error as error:
            raise ReadError(self.path, f"Got a damaged table ({error}).", line=self.line + before) from None


def _open(path: str | Path, header: bool | None) -> _Text:
    data = read_bytes(path)
    if b"\n" not in data:
        data = data.replace(b"\r", b"\n")
    start, line, body = 0, 1, io.BytesIO(data)
    for content in body:
        if content.strip() and not content.startswith(b"#"):
            break
        start, line = body.tell(), line + 1
    else:
        raise ReadError(path, "Got only comments and empty lines; expected a table.")
    outside = re.sub(r'"[^"]*"', "", content.decode())
    # In 0,5;1,5 the commas belong to the numbers.
    decimals = "," in outside and "," not in re.sub(r"(?<=\d),(?=\d)", "", outside)
    signs = ";\t|" if decimals and any(sign in outside for sign in ";\t|") else ",;\t|"
    text = _Text(path, data, max(signs, key=outside.count), start, line)
    body = text.body()
    try:
        line, cells = next(text.rows(body))
    except StopIteration:
        raise ReadError(path, "Got empty rows only; expected a table.", line=line) from None
    if header is False or (header is None and all(map(_is_data, cells))):
        if b'"' not in data:
            width = 1 + max(row.rstrip(b" \r\n").count(text.sep.encode()) for row in text.body())
        else:
            width = max(len(row) for _, row in text.rows())
        return _Text(path, data, text.sep, start, text.line, tuple(map(str, range(width))))
    names = [cell.strip() for cell in cells]
    while len(names) > 1 and not names[-1]:  # spreadsheets write empty columns at the end; data there are refused
        names.pop()
    unnamed = [i for i, name in enumerate(names) if not name and i > 0]
    twice = [name for name, count in Counter(names).items() if count > 1]
    if unnamed or twice:
        what = f"no name for column {unnamed[0]}" if unnamed else f"the column {twice[0]!r} twice"
        raise ReadError(
            path,
            f"Got {what}; expected a different name for each. Write {setting('header', False)} if "
            "the first row holds data.",
            line=line,
        )
    names[0] = names[0] or "Unnamed: 0"
    end = body.tell()
    return _Text(path, data, text.sep, end, text.line + data.count(b"\n", start, end), tuple(names), named=True)


def _is_data(cell: str) -> bool:
    """Whether a cell of the first row is a value, and not a name."""
    try:
        return is_missing(cell) or bool(_DATE.fullmatch(cell.strip())) or number(cell.replace(",", ".")) is not None
    except ValueError:
        return False


def _check_padding(text: _Text) -> None:
    width, rows = len(text.names), text.data.count(b"\n", text.start) + 1
    cells = text.data.count(text.sep.encode(), text.start) + rows
    if rows * width > max(_PADDED_CELLS, _PADDED_TIMES * cells):
        raise ReadError(
            text.path,
            f"Got {rows} rows and {width} columns with nearly all of their cells missing; expected rows of similar "
            "length. Write the series one below the other, as a long table with a column `id`.",
        )


def _frame(text: _Text, roles: Roles, options: TableOptions, decimal: str) -> Frame:
    """The columns that have a role, and the last one; the index numbers the rows of the file."""
    import pandas as pd

    names, wanted = text.names, set(roles.all)
    as_text = {*roles.labels, *([roles.time] if options.time_format else [])}
    kept = [i for i, name in enumerate(names) if name in wanted or i == len(names) - 1]
    plain = [i for i in kept if names[i] not in as_text]
    # A dictionary of missing values slows wide tables down; without labels there is no need of one.
    spellings: Any = _SPELLINGS if len(plain) == len(kept) else dict.fromkeys(plain, _SPELLINGS)
    # Older versions of pandas round the last digit unless told not to.
    version = tuple(int(part) for part in pd.__version__.split(".")[:2])
    exact: Any = {"float_precision": "round_trip"} if version < (3, 1) else {}
    # pandas cuts a first row that is too long, without a word, and refuses such rows further on; with `usecols`
    # it would cut them all.
    first = next(text.rows(), (0, []))[1]
    width = max(len(names), _longest(text) if len(first) > len(names) else 0)
    while True:
        try:
            frame = pd.read_csv(
                text.body(),
                header=None,
                names=range(width),
                index_col=False,
                sep=text.sep,
                decimal=decimal,
                dtype={i: str for i in kept if i not in plain},
                keep_default_na=False,
                na_values=spellings,
                skipinitialspace=True,
                low_memory=False,
                **exact,
            )
            break
        except pd.errors.EmptyDataError:
            raise ReadError(text.path, "Got column names and no rows; expected series.") from None
        except (pd.errors.ParserError, ValueError, OverflowError) as error:
            longest = _longest(text, error)
            if longest <= width:
                raise ReadError(text.path, f"Got a damaged table ({str(error).strip()[:100]}).") from None
            width = longest
    frame = frame[kept].set_axis([names[i] for i in kept], axis=1)
    for name in frame:
        if name in as_text:
            frame[name] = frame[name].fillna("").str.strip()
        elif frame[name].dtype.kind not in "fiu":  # words; pandas takes True and False for more than that
            frame[name] = frame[name].astype(str).where(frame[name].notna())
    blank = np.full(len(frame), True)
    for name in frame:
        blank &= frame[name].isna().to_numpy() | ((frame[name] == "").to_numpy() if name in as_text else False)
        if not blank.any():
            return frame
    # Without any cell that is not empty, such as `,,`.
    rows = set(np.flatnonzero(blank).tolist())
    return frame.drop(index=[i for i, (_, row) in enumerate(text.rows()) if i in rows and not any(map(str.strip, row))])


def _longest(text: _Text, error: Exception | None = None) -> int:
    """The cells of the longest row; ReadError if a row has cells that no column has, or a quote stays open."""
    width = longest = len(text.names)
    line, row = None, []
    for line, row in text.rows():
        if any(cell.strip() for cell in row[width:]):
            raise ReadError(text.path, f"Got {len(row)} cells in a row; expected {width}.", line=line)
        longest = max(longest, len(row))
    if "EOF inside string" in str(error):
        raise ReadError(text.path, f"Got a quote in {(row or [''])[-1][:40]!r} that does not end.", line=line)
    return longest
