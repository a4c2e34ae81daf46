"""Files with tables in them, as DataFrames: text, Parquet and JSON lines; and text that is numbers.

pandas is imported where a table is read and not with the package.
"""

import csv
import io
import json
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from ..errors import few, setting
from .files import MISSING, ReadError, check_file, check_room, is_missing, naming, number, read_bytes
from .times import SINCE_1970, seconds, since_1970

# A DataFrame and a Series of pandas. (Its own types are unions of all that a method may return: with them, pyright
# has 113 complaints and none of a mistake.)
Frame: TypeAlias = Any
Column: TypeAlias = Any


class TableFile:
    """A file with a table in it."""

    path: Path
    names: list[str]
    named = True  # whether the file names its columns
    time_unit: str | None = None  # of lists of dates

    def frame(self, names: list[str], *, text: Collection[str], time: str | None, decimal: str) -> Frame:
        """Columns by their names: some as text, others as numbers, text, dates or lists. Its index numbers rows.

        Args:
            names: of the columns.
            text: those that hold names rather than numbers.
            time: the one of times, in whose lists there may be dates.
            decimal: the sign before decimals, in text.
        """
        raise NotImplementedError

    def line(self, row: int) -> int | None:
        """The line of the file on which a row begins, where there are lines."""
        return None

    def check_rows(self, frame: Frame) -> None:
        """Refuse rows that lack cells."""


# Missing values as pandas' reader compares them: to the letter.
_SPELLINGS = sorted({form for word in MISSING for form in (word, word.upper(), word.capitalize())} | {"NaN", "<Na>"})
_DATE = re.compile(r"\d{4}-\d\d-\d\d.*|\d{1,2}[./]\d{1,2}[./]\d{4}.*|\d{1,2}:\d\d(:\d\d)?.*")
_COMMENTS = re.compile(rb"(?:(?:#[^\n]*|[^\S\n]*)(?:\n|\Z))*+")
# A table is refused if nearly all of it would be padding: one long row makes all others as long.
_PADDED_CELLS, _PADDED_TIMES = 20_000_000, 20


class TextTable(TableFile):
    """Cells divided by commas, semicolons, tabs or bars."""

    def __init__(self, path: str | Path, header: bool | None = None):
        self.path, data = Path(path), read_bytes(path)
        self.data = data = data if b"\n" in data else data.replace(b"\r", b"\n")
        self.start = _COMMENTS.match(data).end()  # type: ignore  # it matches an empty text, too
        self.first_line = 1 + data.count(b"\n", 0, self.start)
        if self.start == len(data):
            raise ReadError(path, "Got only comments and empty lines; expected a table.")
        body = self._body()
        outside = re.sub(r'"[^"]*"', "", body.readline().decode())
        # In 0,5;1,5 the commas belong to the numbers.
        decimals = "," in outside and "," not in re.sub(r"(?<=\d),(?=\d)", "", outside)
        signs = ";\t|" if decimals and any(sign in outside for sign in ";\t|") else ",;\t|"
        self.sep = max(signs, key=outside.count)
        body.seek(self.start)
        line, cells = next(self._rows(body), (self.first_line, None))
        if cells is None:
            raise ReadError(path, "Got empty rows only; expected a table.", line)
        if header is False or (header is None and all(map(_is_data, cells))):
            self.named, self.names = False, list(map(str, range(self._longest())))
            return
        self.names = [cell.strip() for cell in cells]
        while len(self.names) > 1 and not self.names[-1]:  # spreadsheets write empty columns; data there are refused
            self.names.pop()
        self.names[0] = self.names[0] or "Unnamed: 0"
        twice = [name for name, count in Counter(self.names).items() if count > 1]
        if "" in self.names or twice:
            what = (
                f"no name for column {self.names.index('')}" if "" in self.names else f"the column {twice[0]!r} twice"
            )
            advice = f"Write {setting('header', False)} if the first row holds data."
            raise ReadError(path, f"Got {what}; expected a different name for each. {advice}", line)
        self.first_line += data.count(b"\n", self.start, body.tell())
        self.start = body.tell()

    def _body(self) -> io.BytesIO:
        file = io.BytesIO(self.data)
        file.seek(self.start)
        return file

    def _rows(self, body: io.BytesIO | None = None) -> Iterator[tuple[int, list[str]]]:
        """Python's own reading of the rows, with the lines where they begin: slow, for mistakes and quotes."""
        lines = (line.decode() for line in body or self._body())
        reader, before = csv.reader(lines, delimiter=self.sep, skipinitialspace=True), 0
        try:
            for cells in reader:
                if len(cells) > 1 or "".join(cells).strip():  # empty lines are no rows, as for pandas
                    yield self.first_line + before, cells
                before = reader.line_num
        except csv.Error as error:
            raise ReadError(self.path, f"Got a damaged table ({error}).", self.first_line + before) from None

    def _longest(self) -> int:
        """The cells of the longest row."""
        if b'"' in self.data:
            return max((len(row) for _, row in self._rows()), default=0)
        return max((1 + row.rstrip(b" \r\n").count(self.sep.encode()) for row in self._body()), default=0)

    def line(self, row: int) -> int | None:
        return next((line for i, (line, _) in enumerate(self._rows()) if i == row), None)

    def check_rows(self, frame: Frame) -> None:
        last, width = frame[self.names[-1]], len(self.names)  # which is always read
        if last.isna().any() or (last == "").any():
            for line, row in self._rows():
                if len(row) < width:
                    raise ReadError(self.path, f"Got {len(row)} cells in a row; expected {width}.", line)

    def _width(self) -> int:
        """The columns of the file: behind those with names, cells may only be empty."""
        width, rows = len(self.names), self.data.count(b"\n", self.start) + 1
        if rows * width > max(_PADDED_CELLS, _PADDED_TIMES * (self.data.count(self.sep.encode(), self.start) + rows)):
            raise ReadError(
                self.path,
                f"Got {rows} rows and {width} columns with nearly all of their cells missing; expected rows of "
                "similar length. Write the series one below the other, as a long table with a column `id`.",
            )
        if (longest := self._longest()) > width:
            for line, row in self._rows():
                if any(map(str.strip, row[width:])):
                    raise ReadError(self.path, f"Got {len(row)} cells in a row; expected {width}.", line)
        return max(width, longest)

    def frame(self, names: list[str], *, text: Collection[str], time: str | None, decimal: str) -> Frame:
        import pandas as pd

        wanted = {*names, self.names[-1]}
        kept = [i for i, name in enumerate(self.names) if name in wanted]
        plain = [i for i in kept if self.names[i] not in text]
        # A dictionary of missing values slows wide tables down; without labels there is no need of one.
        spellings: Any = _SPELLINGS if len(plain) == len(kept) else dict.fromkeys(plain, _SPELLINGS)
        # Older versions of pandas round the last digit unless told not to.
        version = tuple(int(part) for part in pd.__version__.split(".")[:2])
        exact: Any = {"float_precision": "round_trip"} if version < (3, 1) else {}
        width = self._width()
        try:
            frame = pd.read_csv(
                self._body(), header=None, names=range(width), index_col=False, sep=self.sep,
                decimal=decimal, dtype={i: str for i in kept if i not in plain}, keep_default_na=False,
                na_values=spellings, skipinitialspace=True, low_memory=False, **exact,
            )  # fmt: skip
        except pd.errors.EmptyDataError:
            raise ReadError(self.path, "Got column names and no rows; expected series.") from None
        except (pd.errors.ParserError, ValueError, OverflowError) as error:
            if "EOF inside string" in str(error):
                *_, (line, row) = [(self.first_line, ['"']), *self._rows()]
                raise ReadError(self.path, f"Got a quote in {row[-1][:40]!r} that does not end.", line) from None
            raise ReadError(self.path, f"Got a damaged table ({str(error).strip()[:100]}).") from None
        frame = frame[kept].set_axis([self.names[i] for i in kept], axis=1)
        for name in frame:
            if name in text:
                frame[name] = frame[name].fillna("").str.strip()
            elif frame[name].dtype.kind not in "fiu":  # words; pandas takes True and False for more than that
                frame[name] = frame[name].astype(str).where(frame[name].notna())
        blank = (frame.isna() | (frame == "")).all(axis=1).to_numpy()
        if blank.any():  # rows without any cell that is not empty, such as `,,`
            places = [i for i, (_, row) in enumerate(self._rows()) if not any(map(str.strip, row))]
            frame = frame.drop(index=[i for i in places if i < len(blank) and blank[i]])
        return frame


def _is_data(cell: str) -> bool:
    """Whether a cell of the first row is a value, and not a name."""
    try:
        return is_missing(cell) or bool(_DATE.fullmatch(cell.strip())) or number(cell.replace(",", ".")) is not None
    except ValueError:
        return False


class ParquetTable(TableFile):
    """A Parquet table, read with pyarrow; checksums of pages are verified."""

    def __init__(self, path: str | Path, header: bool | None = None):
        self.path = check_file(path)
        try:
            import pyarrow.parquet as parquet  # type: ignore
        except ImportError:
            raise ImportError(
                f"Got the Parquet file {path}, and no pyarrow to read it with. Write `pip install "
                "'neuralrde[parquet]'`, or save the table as .csv."
            ) from None
        with naming(path, "Parquet table"):
            names = parquet.read_schema(path).names
        if len(set(names)) < len(names):
            raise ReadError(path, f"Got the column names {few(names)}, one of them twice; expected different names.")
        self.names = [name for name in names if not name.startswith("__index_level_")]  # row numbers of pandas

    def frame(self, names: list[str], *, text: Collection[str], time: str | None, decimal: str) -> Frame:
        import pandas as pd
        import pyarrow.parquet as parquet  # type: ignore

        with naming(self.path, "Parquet table"):
            rows = parquet.read_metadata(self.path).num_rows
            check_room(3 * 8 * float(rows) * len(names), self.path, f"{rows} rows of {len(names)} columns")
            table = parquet.read_table(self.path, columns=names, page_checksum_verification=True)
            table.validate(full=True)
            columns = {name: self._column(table[name], name, text=name in text) for name in names}
            return pd.DataFrame(columns, index=range(rows))

    def _column(self, column: Any, name: str, *, text: bool) -> Any:
        """Numbers, text, dates, or lists of numbers, in which dates become seconds."""
        import pandas as pd
        import pyarrow as arrow  # type: ignore

        kind, types = column.type, arrow.types
        if types.is_dictionary(kind):
            return self._column(column.cast(kind.value_type), name, text=text)
        if types.is_string(kind) or types.is_large_string(kind) or (text and not types.is_nested(kind)):
            return pd.Series(["" if cell is None else str(cell).strip() for cell in column.to_pylist()], dtype=object)
        if (types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)) and not text:
            cells = np.empty(len(column), object)
            for i, cell in enumerate(column):
                if cell.is_valid:
                    values = self._column(cell.values, name, text=False)
                    if values.dtype.kind == "M":
                        if values.isna().any():
                            raise ValueError("a date is missing in a list")
                        values, self.time_unit = since_1970(values), SINCE_1970
                    cells[i] = np.asarray(values)
            return pd.Series(cells, dtype=object)
        if types.is_timestamp(kind) or types.is_date(kind):
            unit = kind.unit if types.is_timestamp(kind) else "s" if types.is_date32(kind) else "ms"
            return pd.Series(np.asarray(column.cast(arrow.timestamp(unit))))
        try:
            exact = arrow.float32() if kind == arrow.float32() else arrow.float64()
            return np.asarray(column.cast(exact, safe=False))
        except (arrow.ArrowInvalid, arrow.ArrowNotImplementedError):
            advice = f"Write {setting('columns', [...])} without it to leave it out."
            raise ReadError(self.path, f"Got column {name!r} of type {kind}; expected numbers. {advice}") from None


_LARGER = 12  # times: lists of Python's numbers, beside the text that they were made from


class JsonLines(TableFile):
    """An object per line, which is a row of a table, or a series with lists of numbers in it."""

    def __init__(self, path: str | Path, header: bool | None = None):
        self.path, data = Path(path), read_bytes(path)
        check_room(_LARGER * float(len(data)), path, "The objects of this file")
        self.rows: list[tuple[int, dict[str, Any]]] = []
        for line, text in enumerate(data.split(b"\n"), 1):
            if text.strip():
                try:
                    row = json.loads(text)
                except (ValueError, RecursionError) as error:
                    message = f"Got no JSON ({str(error)[:80]}); expected an object per line."
                    raise ReadError(path, message, line) from None
                if not isinstance(row, dict):
                    raise ReadError(path, f"Got {text[:40].decode()!r}; expected an object, such as {{...}}.", line)
                self.rows.append((line, row))
        if not self.rows:
            raise ReadError(path, "Got no objects; expected series.")
        self.names = list(dict.fromkeys(name for _, row in self.rows for name in row))

    def line(self, row: int) -> int | None:
        return self.rows[row][0]

    def frame(self, names: list[str], *, text: Collection[str], time: str | None, decimal: str) -> Frame:
        import pandas as pd

        columns: dict[str, Any] = {}
        for name in names:
            cells = [row.get(name) for _, row in self.rows]
            for cell, (line, _) in zip(cells, self.rows, strict=True):
                if isinstance(cell, dict) or (isinstance(cell, list) and name in text):
                    kind = "an object" if isinstance(cell, dict) else "a list"
                    raise ReadError(self.path, f"Got {kind} in {name!r}; expected one value.", line)
            if any(isinstance(cell, list) for cell in cells):
                lists = np.empty(len(cells), object)
                for i, cell in enumerate(cells):
                    if isinstance(cell, list):  # the layout refuses others among them
                        lists[i] = self._list(cell, i, name, dates=name == time)
                columns[name] = pd.Series(lists, dtype=object)
            elif name in text or any(isinstance(cell, str) for cell in cells):
                texts = ["" if c is None else c.strip() if isinstance(c, str) else json.dumps(c) for c in cells]
                columns[name] = pd.Series(texts, dtype=object)
            else:
                columns[name] = _as_floats(cells)
        return pd.DataFrame(columns)

    def _list(self, cells: list[Any], row: int, name: str, *, dates: bool) -> np.ndarray:
        """A list of numbers or dates; NaN for null."""
        words = [cell for cell in cells if cell is not None and not isinstance(cell, int | float)]
        try:
            if words and not dates:
                raise ValueError(json.dumps(words[0]))
            if words:
                self.time_unit = SINCE_1970
                return seconds(map(str, cells))
            return _as_floats(cells)
        except ValueError as error:
            message = f"Got {str(error)[:60]} in the list {name!r}; expected numbers, or null."
            raise ReadError(self.path, message, self.line(row)) from None


def _as_floats(cells: list[Any]) -> np.ndarray:
    try:
        return np.array([np.nan if cell is None else cell for cell in cells], np.float64)
    except OverflowError:  # an integer of more than 308 digits
        return np.array([np.inf if isinstance(cell, int) else cell for cell in cells], np.float64)


# What a column of numbers is written with, whatever its decimals and thousands are divided by.
_NUMERIC = re.compile(r"[-+\d.,'eE\s]*\d[-+\d.,'eE\s]*")
_WITH_COMMA = re.compile(
    r"(?P<thousands>[-+]?[1-9]\d{0,2}(?:,\d{3})+\.\d*|[-+]?[1-9]\d{0,2}(?:,\d{3}){2,})"  # 35,000.00 or 1,234,567
    r"|(?P<either>[-+]?[1-9]\d{0,2},\d{3})"  # 35,000
    r"|(?P<decimal>[-+]?(?:\d{1,3}(?:\.\d{3})+|\d*),\d*(?:[eE][-+]?\d+)?)"  # 0,5 or 1.234,5
)
_SAMPLE = 20_000  # distinct cells of a column decide how it writes numbers; others are then refused


def find_numerals(columns: Iterable[Column], file: Path) -> tuple[str, str | None]:
    """The decimal and the thousands sign of columns of text, as their cells show them."""
    found: dict[str | None, str] = {}
    for column in columns:
        cells = map(str.strip, column.drop_duplicates().iloc[:_SAMPLE].dropna())
        cells = [cell for cell in cells if not is_missing(cell)]
        if all(map(_NUMERIC.fullmatch, cells)):
            for match in filter(None, map(_WITH_COMMA.fullmatch, cells)):
                if "." not in found.get(match.lastgroup, ""):
                    found[match.lastgroup] = match[0]
    thousands, decimal, either = (found.get(kind) for kind in ("thousands", "decimal", "either"))
    got = f"{thousands!r} and {decimal!r}; expected one way to write numbers" if thousands and decimal else ""
    if either and not thousands and not decimal:
        got = (
            f"{either!r}, which may be {either.replace(',', '.')} or {either.replace(',', '')}; expected to know which"
        )
    if got:
        raise ReadError(file, f"Got {got}. Write {setting('decimal', ',')} or {setting('thousands', ',')}.")
    if decimal:
        return ",", "." if "." in decimal else None
    return ".", "," if thousands else None


def to_numbers(column: Column, decimal: str = ".", thousands: str | None = None) -> tuple[np.ndarray, np.ndarray]:
    """A column of text as numbers, NaN where there is none, and which of its cells are neither numbers nor missing.

    >>> import pandas as pd
    >>> to_numbers(pd.Series(["1.234,5", "?", "x"]), ",", ".")
    (array([1234.5,    nan,    nan]), array([False, False,  True]))
    """
    import pandas as pd

    codes, distinct = pd.factorize(column)
    cells = pd.Series(distinct).astype(str).str.strip()
    missing = cells.str.lower().isin(MISSING)
    if thousands is not None:
        marks = " \u00a0\u202f" if thousands == " " else re.escape(thousands)  # spaces that do not break a line, too
        grouped = cells.str.fullmatch(rf"[-+]?\d{{1,3}}(?:[{marks}]\d{{3}})+(?:{re.escape(decimal)}.*)?")
        cells = cells.where(~grouped, cells.str.replace(rf"[{marks}]", "", regex=True))
    if decimal != ".":
        cells = cells.str.replace(".", "_", regex=False).str.replace(decimal, ".", regex=False)
    plain = cells.where(cells.str.fullmatch(r"[-+.\deEinfty]+", case=False) & ~missing)  # 0x10 and True are words
    numbers = np.asarray(pd.to_numeric(plain, errors="coerce"), np.float64)
    wrong = np.isnan(numbers) & ~missing.to_numpy(bool)
    # Cells that pandas calls missing have the code -1, which looks up the last.
    return np.append(numbers, np.nan)[codes], np.append(wrong, False)[codes]


def is_text(column: Column) -> bool:
    """Whether a column holds text, and neither numbers, nor dates, nor lists."""
    from pandas.api.types import infer_dtype, is_string_dtype

    return column.dtype.kind == "O" and (is_string_dtype(column) or infer_dtype(column, skipna=True) == "string")
