"""Columns of text as numbers: missing values, decimal commas, thousands separators."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import ReadError
from ..text import MISSING, is_missing, number
from .table import Table, TableOptions, set_text

# Missing values as pandas' reader compares them: to the letter.
SPELLINGS = sorted({form for word in MISSING for form in (word, word.upper(), word.capitalize())} | {"NaN", "<Na>"})

# What a column of numbers is written with, whatever its decimals and thousands are divided by.
_NUMERIC = re.compile(r"[-+\d.,'eE\s]*\d[-+\d.,'eE\s]*")
_THOUSANDS = re.compile(r"[-+]?[1-9]\d{0,2}(,\d{3})+\.\d*|[-+]?[1-9]\d{0,2}(,\d{3}){2,}")  # 35,000.00 or 1,234,567
_EITHER = re.compile(r"[-+]?[1-9]\d{0,2},\d{3}")  # 35,000
_DECIMAL = re.compile(r"[-+]?(\d{1,3}(\.\d{3})+|\d*),\d*([eE][-+]?\d+)?")  # 0,5 or 1.234,5


class NotANumber(ValueError):
    """A cell is no number; `row` says where it stands in its column."""

    def __init__(self, row: int, cell: str):
        super().__init__(row, cell)
        self.row, self.cell = row, cell


@dataclass(frozen=True)
class Numerals:
    """How a table writes its numbers.

    >>> Numerals(decimal=",", thousands=".")("1.234,5")
    1234.5
    """

    decimal: str = "."
    thousands: str | None = None

    def __call__(self, cell: str) -> float:
        """A cell as a number, NaN if it is missing; ValueError if it is no number."""
        cell = cell.strip()
        if is_missing(cell):
            return np.nan
        if self.thousands and any(mark in cell for mark in self._marks):
            marks = f"[{re.escape(self._marks)}]"
            whole, found, rest = cell.partition(self.decimal)
            if not re.fullmatch(rf"[-+]?\d{{1,3}}({marks}\d{{3}})*", whole):
                raise ValueError(cell)
            cell = re.sub(marks, "", whole) + found + rest
        if self.decimal != ".":
            if "." in cell:
                raise ValueError(cell)
            cell = cell.replace(self.decimal, ".")
        return number(cell)

    @property
    def _marks(self) -> str:
        """The separator; for a space, also those that do not break a line."""
        return " \u00a0\u202f" if self.thousands == " " else self.thousands or ""

    def column(self, cells: Any) -> np.ndarray:
        """A column of text as numbers; NotANumber names the first cell that is none."""
        import pandas as pd

        codes, distinct = pd.factorize(cells)
        values = np.full(len(distinct) + 1, np.nan)  # the last is for those that pandas calls missing: code -1
        for i, cell in enumerate(distinct.tolist()):
            try:
                values[i] = self(str(cell))
            except ValueError:
                raise NotANumber(int(np.argmax(codes == i)), str(cell)) from None
        return values[codes]


def find_numerals(columns: Iterable[Any]) -> Numerals:
    """How columns of text write their numbers; ValueError if that cannot be told.

    >>> find_numerals([["0,5", "12"]])
    Numerals(decimal=',', thousands=None)
    >>> find_numerals([["35,000.00"]])
    Numerals(decimal='.', thousands=',')
    """
    either, thousands, decimal, points = "", "", "", False
    for cells in columns:
        there = [text for cell in cells if not is_missing(text := str(cell).strip())]
        if not all(map(_NUMERIC.fullmatch, there)):
            continue  # words
        for cell in there:
            if "," not in cell:
                continue
            if _THOUSANDS.fullmatch(cell):
                thousands = cell
            elif _EITHER.fullmatch(cell):
                either = cell
            elif _DECIMAL.fullmatch(cell):
                decimal, points = cell, points or "." in cell
    if thousands and decimal:
        raise ValueError(
            f"Got {thousands!r} and {decimal!r}; expected one way to write numbers. Write the commas' meaning, "
            '`decimal=","` or `thousands=","`.'
        )
    if either and not thousands and not decimal:
        raise ValueError(
            f"Got {either!r}, which may be {either.replace(',', '.')} or {either.replace(',', '')}; "
            "expected to know which. "
            'Write `decimal=","` or `thousands=","`.'
        )
    if decimal:
        return Numerals(",", "." if points else None)
    return Numerals(".", "," if thousands else None)


def numerals_of(columns: Iterable[Any], options: TableOptions, file: object) -> Numerals:
    """How columns of text write their numbers: as the caller says, or else as they look."""
    if options.decimal is not None or options.thousands is not None:
        return Numerals(options.decimal or ".", options.thousands)
    try:
        return find_numerals(columns)
    except ValueError as error:
        raise ReadError(file, str(error)) from None


def convert_numbers(table: Table, numerals: Numerals | None, options: TableOptions) -> None:
    """Text to numbers, in columns of channels and times that hold numbers; words stay, and are noted."""
    frame, roles = table.frame, table.roles
    names = [*roles.numeric, *([roles.time] if roles.time and not options.time_format else [])]
    text = [name for name in names if name in frame and name not in roles.labels and _is_text(frame[name])]
    if numerals is None:
        numerals = numerals_of((frame[name].unique() for name in text), options, table.file)
    for name in text:
        try:
            frame[name] = numerals.column(frame[name])
        except NotANumber as error:
            table.words[name] = error.row, error.cell


def respell_targets(table: Table, numerals: Numerals) -> None:
    """Spell numbers among the targets, which stay text, as Python does."""
    for name in table.roles.target if numerals != Numerals() else ():
        try:
            values = numerals.column(table.frame[name])
        except NotANumber:
            continue
        set_text(table.frame, name, ["" if np.isnan(value) else repr(float(value)) for value in values])


def _is_text(column: Any) -> bool:
    return column.dtype.kind == "O" and all(isinstance(cell, str) for cell in column)
