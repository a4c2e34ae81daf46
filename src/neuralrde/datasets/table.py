"""A table of series: what the caller says of it, which column is what, its numbers, and where its rows stand."""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from ..errors import setting
from .errors import ReadError
from .text import MISSING

# A DataFrame and a Series of pandas, which is imported where a table is read and not with the package. (Its own types
# are unions of all that a method may return: with them, pyright has 113 complaints and none of a mistake.)
Frame: TypeAlias = Any
Column: TypeAlias = Any

# Names by which a column is known for what it is, unless the caller says otherwise; any case.
USUAL = {
    "id": ("id",),
    "time": ("time", "t", "timestamp"),
    "target": ("target", "label", "class"),
    "group": ("group", "patient", "subject", "speaker"),
    "split": ("split",),
}
DUPLICATES = ("error", "mean", "first", "last")


@dataclass(frozen=True)
class TableOptions:
    """What the caller says of a table; `read` explains each."""

    target: str | int | Sequence[str] | None = None
    id: str | int | None = None
    time: str | int | None = None
    group: str | int | None = None
    split: str | int | None = None
    columns: Sequence[str] | None = None
    wide: bool | None = None
    per_time: bool = False
    header: bool | None = None
    labels: str | Path | None = None
    labels_id: str | None = None
    time_format: str | None = None
    decimal: str | None = None
    thousands: str | None = None
    duplicates: str = "error"
    drop_unlabelled: bool = False
    sensor: str | int | None = None
    value: str | int | None = None
    one_hot: Sequence[str] | bool | None = None

    @classmethod
    def of(cls, options: dict[str, Any]) -> "TableOptions":
        """From the arguments of a reader; TypeError names one that does not exist."""
        known = [option.name for option in fields(cls)]
        if unknown := sorted(set(options) - set(known)):
            raise TypeError(f"Got the argument {unknown[0]!r}; expected some of {', '.join(known)}.")
        return cls(**options)

    def check(self, file: str | Path) -> None:
        """Refuse values that an option cannot have, and options that contradict each other."""
        if self.duplicates not in DUPLICATES:
            raise ReadError(file, f"Got {setting('duplicates', self.duplicates)}; expected one of {list(DUPLICATES)}.")
        if self.decimal not in (None, ".", ","):
            raise ReadError(file, f'Got {setting("decimal", self.decimal)}; expected "." or ",".')
        if self.thousands is not None and (len(self.thousands) != 1 or self.thousands.isalnum()):
            raise ReadError(file, f'Got {setting("thousands", self.thousands)}; expected one sign, such as "," or " ".')
        if self.thousands is not None and self.thousands == (self.decimal or "."):
            raise ReadError(
                file,
                f"Got {setting('thousands', self.thousands)} and "
                f"{setting('decimal', self.decimal or '.')}; expected different signs.",
            )
        for name in ("columns", "one_hot"):
            if isinstance(value := getattr(self, name), str):
                raise ReadError(file, f"Got {setting(name, value)}; expected a list of names.")
        if self.value is not None and self.sensor is None:
            raise ReadError(
                file,
                f"Got {setting('value', self.value)} alone; expected {setting('sensor')} too, "
                "which names the channels.",
            )
        if self.labels_id is not None and self.labels is None:
            raise ReadError(
                file,
                f"Got {setting('labels_id', self.labels_id)}; expected {setting('labels')} too, the file with it.",
            )

    @property
    def targets(self) -> tuple[str, ...]:
        if self.target is None:
            return ()
        return (str(self.target),) if isinstance(self.target, str | int) else tuple(map(str, self.target))


@dataclass(frozen=True)
class Roles:
    """Which column of a table is what; None where there is no such column."""

    id: str | None
    time: str | None
    target: tuple[str, ...]
    group: str | None
    split: str | None
    sensor: str | None
    value: str | None
    channels: tuple[str, ...]
    # Words of a column that are channels, by `columns=["sex=f", ...]`.
    words: dict[str, list[str]] = field(default_factory=dict)
    # The roles that were not given but known by the columns' names.
    guessed: tuple[str, ...] = ()

    @property
    def labels(self) -> list[str]:
        """The columns that hold names rather than numbers."""
        return [name for name in (self.id, *self.target, self.group, self.split, self.sensor) if name is not None]

    @property
    def numeric(self) -> list[str]:
        """The columns that hold the values of channels."""
        return [self.value] if self.value is not None else list(dict.fromkeys(self.channels))

    @property
    def all(self) -> list[str]:
        """Every column that has a role."""
        time = [] if self.time is None else [self.time]
        return list(dict.fromkeys([*self.numeric, *self.words, *self.labels, *time]))


def find_roles(names: Sequence[str], file: str | Path, options: TableOptions, *, channels_needed: bool = True) -> Roles:
    """Which column is what: as given, or else by the usual names; all other columns are channels."""
    targets = options.targets
    given = {role: getattr(options, role) for role in ("id", "time", "group", "split", "sensor", "value")}
    roles = {role: str(name) for role, name in given.items() if name is not None}
    for role, name in [*roles.items(), *(("target", name) for name in targets)]:
        if name not in names:
            raise ReadError(
                file, f"Got {setting(role, name)} and the columns {few(names)}; expected the name of one of them."
            )
    if len({*roles.values(), *targets}) < len(roles) + len(targets):
        raise ReadError(file, f"Got one column for two of {roles | {'target': targets}}; expected a column for each.")
    # `sex=f`, which is no column, is the word f of the column sex.
    columns, words = None if options.columns is None else list(map(str, options.columns)), {}
    for column in columns or ():
        name, sign, word = column.partition("=")
        if column not in names and sign and name in names:
            words.setdefault(name, []).append(word)
    used = {*(columns or ()), *words, *roles.values(), *targets}
    free = [name for name in names if name not in used]

    def known_by(words: Sequence[str]) -> str | None:
        return next((name for name in free if name.lower() in words), None)

    open_roles = [role for role in USUAL if role not in roles and not (role == "target" and targets)]
    guessed = {role: name for role in open_roles if (name := known_by(USUAL[role])) is not None}
    targets = targets or ((guessed["target"],) if "target" in guessed else ())
    roles |= {role: name for role, name in guessed.items() if role != "target"}
    if "sensor" in roles and "value" not in roles:
        if (value := known_by(["value"])) is None:
            raise ReadError(
                file,
                f"Got {setting('sensor', roles['sensor'])} and the columns {few(names)}; expected "
                f"{setting('value')}, the column of numbers.",
            )
        roles["value"] = value
    if "sensor" in roles:
        channels = []
    elif columns is None:
        channels = [name for name in names if name not in {*roles.values(), *targets}]
    else:
        channels = [name for name in columns if name in names or name.partition("=")[0] not in words]
        if absent := [name for name in channels if name not in names]:
            raise ReadError(file, f"Got no column {few(absent)}; expected one of the columns {few(names)}.")
    taken = {name: role for role, name in roles.items() if role != "time"} | dict.fromkeys(targets, "target")
    if both := [name for name in (*channels, *words) if name in taken]:
        role = taken[both[0]]
        raise ReadError(
            file,
            f"Got the column {both[0]!r} as {role} and as a channel; expected one of them, because a "
            f"channel is what a model sees. Leave {both[0]!r} out of the columns "
            f"({setting('columns', [...])}), or name another {setting(role)}.",
        )
    if not channels and channels_needed and "sensor" not in roles:
        raise ReadError(file, f"Got only the columns {few(names)}; expected a channel beside them.")
    one_each = {role: roles.get(role) for role in ("id", "time", "group", "split", "sensor", "value")}
    return Roles(**one_each, target=targets, channels=tuple(channels), words=words, guessed=tuple(guessed))


@dataclass(frozen=True)
class Table:
    """Columns, as a DataFrame of pandas, and which of them is what."""

    file: str | Path
    frame: Frame  # its index holds each row's number in the file
    roles: Roles
    line: Callable[[int], int | None] = lambda row: None  # of a row of the file
    check_rows: Callable[[], None] = lambda: None  # refuses rows that lack cells
    named: bool = True  # whether the file names its columns
    numerals: tuple[str, str | None] = (".", None)  # the signs before decimals and between thousands
    time_unit: str | None = None  # of lists of dates
    notes: tuple[str, ...] = ()  # how the table was read, beyond its layout
    parts: tuple["Table", ...] = ()  # the tables whose rows these are, one after the other

    def noting(self, *notes: str, **changes: Any) -> "Table":
        """This table with changes and with what was noted about them."""
        return replace(self, notes=(*self.notes, *notes), **changes)

    def error(self, message: str, row: int | None = None) -> ReadError:
        """An error about a row (its place in the frame), with its file and line or the id that stands there."""
        if row is None:
            return ReadError(self.file, message)
        for part in self.parts:
            if row < len(part.frame):
                return part.error(message, row)
            row -= len(part.frame)
        line = self.line(int(self.frame.index[row]))
        if line is None and self.roles.id is not None and (id := self.frame[self.roles.id].iloc[row]):
            message = f"{message} That is in a row of id {id}."
        return ReadError(self.file, message, line=line)


def join_tables(tables: Sequence[Table], file: Path) -> Table:
    """Rows of several tables with the same columns, one after the other."""
    import pandas as pd

    first = tables[0]
    for table in tables[1:]:
        # Tables without names may be of different widths, and others have their columns in another order.
        meanings = {
            repr(
                (
                    t.named,
                    t.time_unit,
                    t.named and (replace(t.roles, channels=(), guessed=()), sorted(t.roles.channels)),
                )
            )
            for t in (first, table)
        }
        if len(meanings) > 1:
            raise ReadError(
                file,
                f"Got the channels {few(table.roles.channels)} in {table.file} and {few(first.roles.channels)} in "
                f"{first.file}; expected the same columns with the same meaning in every table.",
            )

    def check_rows() -> None:
        for table in tables:
            table.check_rows()

    return Table(
        file,
        pd.concat([table.frame for table in tables], ignore_index=True),
        max((table.roles for table in tables), key=lambda roles: len(roles.channels)),
        check_rows=check_rows,
        named=first.named,
        numerals=first.numerals,
        time_unit=first.time_unit,
        notes=tuple(dict.fromkeys(note for table in tables for note in table.notes)),
        parts=tuple(tables),
    )


# What a column of numbers is written with, whatever its decimals and thousands are divided by.
_NUMERIC = re.compile(r"[-+\d.,'eE\s]*\d[-+\d.,'eE\s]*")
_WITH_COMMA = re.compile(
    r"(?P<thousands>[-+]?[1-9]\d{0,2}(?:,\d{3})+\.\d*|[-+]?[1-9]\d{0,2}(?:,\d{3}){2,})"  # 35,000.00 or 1,234,567
    r"|(?P<either>[-+]?[1-9]\d{0,2},\d{3})"  # 35,000
    r"|(?P<decimal>[-+]?(?:\d{1,3}(?:\.\d{3})+|\d*),\d*(?:[eE][-+]?\d+)?)"  # 0,5 or 1.234,5
)
_SAMPLE = 20_000  # distinct cells of a column decide how it writes numbers; others are then refused


def find_numerals(columns: Iterable[Column], options: TableOptions, file: str | Path) -> tuple[str, str | None]:
    """The decimal and the thousands sign of columns of text: as given, or else as their cells show."""
    if options.decimal is not None or options.thousands is not None:
        return options.decimal or ".", options.thousands
    found: dict[str, str] = {}
    for column in columns:
        cells = column.drop_duplicates().iloc[:_SAMPLE].astype(object).dropna().map(str.strip)
        cells = [cell for cell in cells if cell.lower() not in MISSING]
        if all(map(_NUMERIC.fullmatch, cells)):
            for cell in cells:
                match = _WITH_COMMA.fullmatch(cell)
                if match and match.lastgroup and "." not in found.get(match.lastgroup, ""):
                    found[match.lastgroup] = cell
    thousands, decimal, either = (found.get(kind) for kind in ("thousands", "decimal", "either"))
    if thousands and decimal:
        raise ReadError(
            file,
            f"Got {thousands!r} and {decimal!r}; expected one way to write numbers. Write the commas' "
            f"meaning, {setting('decimal', ',')} or {setting('thousands', ',')}.",
        )
    if either and not thousands and not decimal:
        raise ReadError(
            file,
            f"Got {either!r}, which may be {either.replace(',', '.')} or {either.replace(',', '')}; "
            f"expected to know which. Write {setting('decimal', ',')} or "
            f"{setting('thousands', ',')}.",
        )
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
        marks = " \u00a0\u202f" if thousands == " " else thousands  # spaces that do not break a line, too
        whole = rf"[-+]?\d{{1,3}}(?:[{re.escape(marks)}]\d{{3}})+(?:{re.escape(decimal)}.*)?"
        grouped = cells.str.fullmatch(whole)
        cells = cells.where(~grouped, cells.str.replace(rf"[{re.escape(marks)}]", "", regex=True))
    if decimal != ".":
        cells = cells.str.replace(".", "_", regex=False).str.replace(decimal, ".", regex=False)
    plain = cells.where(cells.str.fullmatch(r"[-+.\deEinfty]+", case=False) & ~missing)  # 0x10 and True are words
    numbers = np.asarray(pd.to_numeric(plain, errors="coerce"), np.float64)
    wrong = np.isnan(numbers) & ~missing.to_numpy(bool)
    # Cells that pandas calls missing have the code -1, which looks up the last.
    return np.append(numbers, np.nan)[codes], np.append(wrong, False)[codes]


def with_numbers(frame: Frame, roles: Roles, options: TableOptions, decimal: str, thousands: str | None) -> Frame:
    """The columns of channels and times as numbers, where all cells are; targets stay text, spelled as Python does."""
    times = [roles.time] if roles.time is not None and options.time_format is None else []
    changed = {}
    for name in {*roles.numeric, *times} - {*roles.labels}:
        if is_text(frame[name]):
            numbers, wrong = to_numbers(frame[name], decimal, thousands)
            if not wrong.any():
                changed[name] = numbers
    if (decimal, thousands) != (".", None):
        for name in roles.target:
            numbers, wrong = to_numbers(frame[name], decimal, thousands)
            if not wrong.any():
                changed[name] = np.array(["" if np.isnan(value) else repr(float(value)) for value in numbers], object)
    return with_columns(frame, changed)


def with_columns(frame: Frame, columns: dict[str, Any]) -> Frame:
    """A frame with columns replaced or added; the frame itself stays as it is."""
    frame = frame.copy(deep=False)
    for name, column in columns.items():
        frame[name] = column
    return frame


def text_columns(frame: Frame, roles: Roles) -> list[Column]:
    """The columns of text that may hold numbers."""
    names = dict.fromkeys([*roles.numeric, *([] if roles.time is None else [roles.time]), *roles.target])
    return [frame[name] for name in names if is_text(frame[name])]


def is_text(column: Column) -> bool:
    """Whether a column holds text, and neither numbers, nor dates, nor lists."""
    from pandas.api.types import infer_dtype, is_string_dtype

    return column.dtype.kind == "O" and (is_string_dtype(column) or infer_dtype(column, skipna=True) == "string")


def few(names: Sequence[str]) -> str:
    return f"{list(names)}" if len(names) <= 12 else f"{[*names[:10]]} and {len(names) - 10} more"
