"""Files with tables in them, as DataFrames: text, Parquet and JSON lines.

pandas is imported where a table is read and not with the package.
"""

import csv
import io
import json
import re
from collections import Counter
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from .._write import Values
from ..errors import few, setting
from .files import MISSING, ReadError, check_file, check_room, is_missing, naming, number, read_bytes

# A DataFrame and a Series of pandas. (Its own types are unions of all that a method may return: with them, pyright
# has 113 complaints and none of a mistake.)
Frame: TypeAlias = Any
Column: TypeAlias = Any


class TableFile:
    """A file with a table in it."""

    path: Path
    names: list[str]
    named = True  # whether the file names its columns

    def frame(
        self, names: list[str], *, text: Collection[str], decimal: str = ".", thousands: str | None = None
    ) -> Frame:
        """Columns by their names: some as text, others as numbers, text, dates or lists. Its index numbers rows.

        Args:
            names: of the columns.
            text: those that hold names rather than numbers, "" where there is none.
            decimal: the sign before decimals, in text.
            thousands: the sign between thousands, in text.
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


class TextTable(TableFile):
    """Cells divided by commas, semicolons, tabs or bars."""

    def __init__(self, path: str | Path, header: bool | None = None):
        self.path, data = Path(path), read_bytes(path)
        data = data if b"\n" in data else data.replace(b"\r", b"\n")
        end = data.find(b"\n", len(data.rstrip(b",;|\t\r\n ")))  # spreadsheets write rows without a value, such as `,,`
        self.data = data = data if end < 0 else data[: end + 1]
        self.start = _COMMENTS.match(data).end()  # type: ignore  # it matches an empty text, too
        self.first_line = 1 + data.count(b"\n", 0, self.start)
        body = self._body()
        outside = re.sub(r'"[^"]*"', "", body.readline().decode())
        if any(sign in outside for sign in ";\t|"):  # in 0,5;1,5 the commas belong to the numbers
            outside = re.sub(r"(?<=\d),(?=\d)", "", outside)
        self.sep = max(",;\t|", key=outside.count)
        body.seek(self.start)
        line, cells = next(self._rows(body), (self.first_line, None))
        if cells is None:
            raise ReadError(path, "Got only comments and empty lines; expected a table.", line)
        if header is False or (header is None and all(map(_is_data, cells))):
            self.named, self.names = False, list(map(str, range(self._longest())))
            return
        self.names = [cell.strip() for cell in cells]
        while len(self.names) > 1 and not self.names[-1]:  # spreadsheets write empty columns; data there are refused
            self.names.pop()
        self.names[0] = self.names[0] or "Unnamed: 0"
        name, count = Counter(self.names).most_common(1)[0]
        if "" in self.names or count > 1:
            what = f"no name for column {self.names.index('')}" if "" in self.names else f"the column {name!r} twice"
            advice = f"Write {setting('header', False)} if the first row holds data."
            raise ReadError(path, f"Got {what}; expected a different name for each. {advice}", line)
        self.first_line += data.count(b"\n", self.start, body.tell())
        self.start = body.tell()

    def _body(self) -> io.BytesIO:
        file = io.BytesIO(self.data)
        file.seek(self.start)
        return file

    def _rows(self, body: io.BytesIO | None = None) -> Iterator[tuple[int, list[str]]]:
        """Python's own reading of the rows, with the lines where they begin: slow, for mistakes."""
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

    def _width(self) -> int:
        """The columns of the file: behind those with names, cells may only be empty, as spreadsheets leave them."""
        width, longest = len(self.names), self._longest()
        for line, row in self._rows() if longest > width else ():
            if any(map(str.strip, row[width:])):
                raise ReadError(self.path, f"Got {len(row)} cells in a row; expected {width}.", line)
        return max(width, longest)

    def line(self, row: int) -> int | None:
        return next((line for i, (line, _) in enumerate(self._rows()) if i == row), None)

    def check_rows(self, frame: Frame) -> None:
        last, width = frame[self.names[-1]], len(self.names)  # which is always read
        if last.isna().any() or (last == "").any():
            for line, row in self._rows():
                if len(row) < width:
                    raise ReadError(self.path, f"Got {len(row)} cells in a row; expected {width}.", line)

    def frame(
        self, names: list[str], *, text: Collection[str], decimal: str = ".", thousands: str | None = None
    ) -> Frame:
        import pandas as pd

        width = self._width()
        rows = self.data.count(b"\n", self.start) + 1
        check_room(3 * 8 * float(rows) * width, self.path, f"{rows} rows of {width} columns")
        wanted = {*names, self.names[-1]}
        kept = [i for i, name in enumerate(self.names) if name in wanted]
        plain = [i for i in kept if self.names[i] not in text]
        # A dictionary of missing values slows wide tables down; without labels there is no need of one.
        missing: Any = _SPELLINGS if len(plain) == len(kept) else dict.fromkeys(plain, _SPELLINGS)
        options: Values = {"dtype": {i: str for i in kept if i not in plain}, "na_values": missing}
        options |= {"keep_default_na": False, "skipinitialspace": True, "low_memory": False, "index_col": False}
        options |= {"sep": self.sep, "decimal": decimal, "thousands": thousands}
        if tuple(map(int, pd.__version__.split(".")[:2])) < (3, 1):  # these round the last digit unless told not to
            options["float_precision"] = "round_trip"
        try:
            frame = pd.read_csv(self._body(), header=None, names=range(width), **options)
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

    def frame(
        self, names: list[str], *, text: Collection[str], decimal: str = ".", thousands: str | None = None
    ) -> Frame:
        import pyarrow.parquet as parquet  # type: ignore
        from pyarrow import types  # type: ignore

        with naming(self.path, "Parquet table"):
            rows = parquet.read_metadata(self.path).num_rows
            check_room(3 * 8 * float(rows) * len(names), self.path, f"{rows} rows of {len(names)} columns")
            table = parquet.read_table(self.path, columns=names, page_checksum_verification=True)
            table.validate(full=True)
            for field in table.schema:
                if types.is_nested(field.type) and (field.name in text or not _is_list(field.type)):
                    got = f"Got column {field.name!r} of type {field.type}; expected numbers or words"
                    raise ReadError(self.path, f"{got}. Write {setting('columns', [...])} without it to leave it out.")
            frame = table.replace_schema_metadata(None).to_pandas(date_as_object=False)
        for name in frame:
            kind = table.schema.field(name).type
            if name in text:
                frame[name] = frame[name].astype(object).map(lambda x: str(x).strip(), na_action="ignore").fillna("")
            elif types.is_decimal(kind) or types.is_boolean(kind):
                frame[name] = frame[name].astype(float)
            elif types.is_dictionary(kind):
                frame[name] = frame[name].astype(kind.value_type.to_pandas_dtype())
        return frame


def _is_list(kind: Any) -> bool:
    from pyarrow import types  # type: ignore

    return types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)


_LARGER = 12  # times: lists of Python's numbers, beside the text that they were made from


class JsonLines(TableFile):
    """An object per line, which is a row of a table, or a series with lists of numbers in it."""

    def __init__(self, path: str | Path, header: bool | None = None):
        self.path, data = Path(path), read_bytes(path)
        check_room(_LARGER * float(len(data)), path, "The objects of this file")
        self.rows: list[tuple[int, Values]] = []
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

    def frame(
        self, names: list[str], *, text: Collection[str], decimal: str = ".", thousands: str | None = None
    ) -> Frame:
        import pandas as pd

        columns: Values = {}
        for name in names:
            cells = [row.get(name) for _, row in self.rows]
            for cell, (line, _) in zip(cells, self.rows, strict=True):
                if isinstance(cell, dict) or (isinstance(cell, list) and name in text):
                    kind = "an object" if isinstance(cell, dict) else "a list"
                    raise ReadError(self.path, f"Got {kind} in {name!r}; expected one value.", line)
            column = pd.Series(cells, dtype=object)
            if name in text or any(isinstance(cell, str) for cell in cells):
                column = column.map(lambda x: x.strip() if isinstance(x, str) else json.dumps(x), na_action="ignore")
                column = column.fillna("") if name in text else column
            elif not any(isinstance(cell, list) for cell in cells):
                column = to_numbers(column)
            columns[name] = column
        return pd.DataFrame(columns)


def to_numbers(column: Column, decimal: str = ".", thousands: str | None = None) -> Column:
    """Numbers and text as numbers, NaN where there is none.

    >>> import pandas as pd
    >>> to_numbers(pd.Series(["1.234,5", "?", "x"]), ",", ".").tolist()
    [1234.5, nan, nan]
    """
    import pandas as pd

    if column.dtype.kind == "O":
        column = column.astype(str).str.strip()
        column = column if thousands is None else column.str.replace(thousands, "", regex=False)
        if decimal != ".":  # and 1.234 is no number
            column = column.str.replace(".", "_", regex=False).str.replace(decimal, ".", regex=False)
    numbers: Column = pd.to_numeric(column, errors="coerce")
    return numbers.astype(float)


def without_number(column: Column, numbers: Column) -> np.ndarray:
    """Which cells of a column are neither numbers nor missing."""
    cells = column.astype(str).str.strip().str.lower()
    return (numbers.isna() & column.notna() & ~cells.isin(MISSING)).to_numpy(bool)


def numeral_advice(cell: str) -> str:
    """The options with which a cell that has commas may be a number; "" if there are none.

    >>> numeral_advice("1.234,5"), numeral_advice("35,000"), numeral_advice("high")
    ("decimal=',' and thousands='.'", "decimal=',' or thousands=','", '')
    """
    if "," not in cell or not re.fullmatch(r"[-+]?[\d.,]*\d[\d.,]*", cell):
        return ""
    if re.fullmatch(r"[-+]?[1-9]\d{0,2},\d{3}", cell):
        return f"{setting('decimal', ',')} or {setting('thousands', ',')}"
    if cell.count(",") > 1 or cell.rfind(".") > cell.rfind(","):
        return setting("thousands", ",")
    return setting("decimal", ",") + (f" and {setting('thousands', '.')}" if "." in cell else "")


def is_text(column: Column) -> bool:
    """Whether a column holds text, and neither numbers, nor dates, nor lists."""
    from pandas.api.types import infer_dtype, is_string_dtype

    return column.dtype.kind == "O" and (
        is_string_dtype(column) or infer_dtype(column, skipna=True) in ("string", "empty")
    )
