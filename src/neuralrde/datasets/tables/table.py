"""A table of series: what the caller says of it, which column is what, and where its rows stand in their files."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np

from ..errors import ReadError

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
    labels: Any = None
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
        unknown = sorted(set(options) - {one.name for one in fields(cls)})
        if unknown:
            known = ", ".join(one.name for one in fields(cls))
            raise TypeError(f"Got the argument {unknown[0]!r}; expected some of {known}.")
        return cls(**options)

    def check(self, file: Any) -> None:
        """Refuse what no option may be, and what does not go together."""
        if self.duplicates not in DUPLICATES:
            raise ReadError(file, f"Got `duplicates={self.duplicates!r}`; expected one of {list(DUPLICATES)}.")
        if self.decimal not in (None, ".", ","):
            raise ReadError(file, f'Got `decimal={self.decimal!r}`; expected "." or ",".')
        if self.thousands is not None and (len(self.thousands) != 1 or self.thousands.isalnum()):
            raise ReadError(file, f'Got `thousands={self.thousands!r}`; expected one sign, such as "," or " ".')
        if self.thousands is not None and self.thousands == (self.decimal or "."):
            raise ReadError(
                file,
                f"Got `thousands={self.thousands!r}` and `decimal={self.decimal or '.'!r}`; expected different signs.",
            )
        if isinstance(self.columns, str) or isinstance(self.one_hot, str):
            name = "columns" if isinstance(self.columns, str) else "one_hot"
            raise ReadError(file, f"Got `{name}={getattr(self, name)!r}`; expected a list of names.")
        if self.value is not None and self.sensor is None:
            raise ReadError(
                file, f"Got `value={self.value!r}` alone; expected `sensor=` too, which names the channels."
            )
        if self.labels_id is not None and self.labels is None:
            raise ReadError(file, f"Got `labels_id={self.labels_id!r}`; expected `labels=` too, the file with it.")

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
        """The columns that are names rather than numbers."""
        return [name for name in (self.id, *self.target, self.group, self.split, self.sensor) if name is not None]

    @property
    def numeric(self) -> list[str]:
        """The columns that hold the values of channels."""
        return [self.value] if self.value is not None else list(dict.fromkeys(self.channels))


def find_roles(names: Sequence[str], file: Any, options: TableOptions, *, channels_needed: bool = True) -> Roles:
    """Which column is what: as given, or else by the usual names; all other columns are channels."""
    targets, columns = options.targets, options.columns
    roles = ("id", "time", "group", "split", "sensor", "value")
    found: dict[str, str | None] = {role: str(name) for role in roles if (name := getattr(options, role)) is not None}
    for role, name in [*found.items(), *(("target", name) for name in targets)]:
        if name not in names:
            raise ReadError(
                file, f"Got `{role}={name!r}` and the columns {few(names)}; expected the name of one of them."
            )
    if len({*found.values(), *targets}) < len(found) + len(targets):
        raise ReadError(file, f"Got one column for two of {found | {'target': targets}}; expected a column for each.")
    words = {} if columns is None else _words(columns, names)
    used = {*(columns or ()), *words, *found.values(), *targets}
    free = [name for name in names if name not in used]
    guessed = []
    for role, usual in USUAL.items():
        if found.get(role) is None and not (role == "target" and targets):
            found[role] = next((name for name in free if name.lower() in usual), None)
            guessed += [role] if found[role] is not None else []
    if not targets and found["target"] is not None:
        targets = (found["target"],)
    sensor = found.get("sensor")
    if sensor is not None and found.get("value") is None:
        found["value"] = next((name for name in free if name.lower() == "value"), None)
        if found["value"] is None:
            raise ReadError(
                file, f"Got `sensor={sensor!r}` and the columns {few(names)}; expected `value=`, the column of numbers."
            )
    taken = {name for role, name in found.items() if name is not None and role != "target"} | set(targets)
    channels = () if sensor is not None else _channels(names, file, columns, taken, words)
    own = {name: role for role, name in found.items() if role not in ("time", "target")} | dict.fromkeys(
        targets, "target"
    )
    both = [name for name in (*channels, *words) if name in own]
    if both:
        raise ReadError(
            file,
            f"Got the column {both[0]!r} as {own[both[0]]} and as a channel; expected one of them, because a channel "
            f"is what a model sees. Leave {both[0]!r} out of the columns (`columns=[...]`), or name another "
            f"`{own[both[0]]}=`.",
        )
    if not channels and channels_needed and sensor is None:
        raise ReadError(file, f"Got only the columns {few(names)}; expected a channel beside them.")
    return Roles(
        id=found["id"],
        time=found["time"],
        target=targets,
        group=found["group"],
        split=found["split"],
        sensor=sensor,
        value=found.get("value"),
        channels=channels,
        words=words,
        guessed=tuple(guessed),
    )


def _channels(names, file, columns, taken: set, words: dict) -> tuple[str, ...]:
    if columns is None:
        return tuple(name for name in names if name not in taken)
    spelled = {f"{name}={word}" for name, all in words.items() for word in all}
    channels = tuple(str(name) for name in columns)
    absent = [name for name in channels if name not in names and name not in spelled]
    if absent:
        raise ReadError(file, f"Got no column {few(absent)}; expected one of the columns {few(names)}.")
    return tuple(name for name in channels if name not in spelled)


def _words(columns: Sequence[str], names: Sequence[str]) -> dict[str, list[str]]:
    """`sex=f`, which is no column, is the word f of the column sex."""
    words: dict[str, list[str]] = {}
    for column in map(str, columns):
        name, found, word = column.partition("=")
        if column not in names and found and name in names:
            words.setdefault(name, []).append(word)
    return words


@dataclass(frozen=True)
class Source:
    """Rows of a table that come from one file."""

    file: Any
    rows: np.ndarray  # their numbers in the file
    line: Callable[[int], int | None] = lambda row: None  # of a row
    short: Callable[[], tuple[int, str] | None] = lambda: None  # the first row that lacks cells, and what to say


@dataclass
class Table:
    """Columns, as a DataFrame of pandas, and which of them is what."""

    file: Any
    frame: Any
    roles: Roles
    sources: list[Source]
    named: bool = True  # whether the columns have names of their own
    time_unit: str | None = None  # where the file itself has said it
    notes: list[str] = field(default_factory=list)  # what was done to it, to be said
    words: dict[str, tuple[int, str]] = field(default_factory=dict)  # where a column of numbers has a cell that is none

    def error(self, message: str, row: int | None = None) -> ReadError:
        """A sentence about a row, with its file and line and the id that stands there."""
        if row is None:
            return ReadError(self.file, message)
        start = 0
        for source in self.sources:
            if row < start + len(source.rows):
                line = source.line(int(source.rows[row - start]))
                break
            start += len(source.rows)
        if line is None and self.roles.id is not None:
            message = f"{message} That is in a row of id {self.frame[self.roles.id].iloc[row]}."
        return ReadError(source.file, message, line=line)


def join_tables(tables: Sequence[Table], file: Any) -> Table:
    """Rows of several tables with the same columns, one after the other."""
    import pandas as pd

    first = tables[0]
    for table in tables[1:]:
        if not _alike(table, first):
            raise ReadError(
                file,
                f"Got the channels {few(table.roles.channels)} in {table.file} and {few(first.roles.channels)} in "
                f"{first.file}; expected the same columns with the same meaning in every table.",
            )
    frame = pd.concat([table.frame for table in tables], ignore_index=True)
    longest = max(tables, key=lambda table: len(table.roles.channels))
    return Table(
        file=file,
        frame=frame,
        roles=longest.roles,
        sources=[source for table in tables for source in table.sources],
        named=first.named,
        time_unit=first.time_unit,
        notes=list(dict.fromkeys(note for table in tables for note in table.notes)),
        words=_words_of(tables),
    )


def _words_of(tables: Sequence[Table]) -> dict[str, tuple[int, str]]:
    words, start = {}, 0
    for table in tables:
        words = {name: (start + row, cell) for name, (row, cell) in table.words.items()} | words
        start += len(table.frame)
    return words


def _alike(one: Table, other: Table) -> bool:
    """Tables without names may be of different widths, and others have their columns in another order."""
    if one.named != other.named or one.time_unit != other.time_unit:
        return False
    if not one.named:
        return True
    roles = (replace(one_of.roles, channels=(), guessed=()) for one_of in (one, other))
    return len(set(map(repr, roles))) == 1 and set(one.roles.channels) == set(other.roles.channels)


def set_text(frame: Any, name: str, texts: Any) -> None:
    """Put a column of text into a frame, as Python's strings and not as pandas' own."""
    import pandas as pd

    frame[name] = pd.Series(texts, index=frame.index, dtype=object)


def each_distinct(column: Any, function: Callable[[Any], Any]) -> np.ndarray:
    """A function of each cell, called once for cells that are the same; "" for those that pandas calls missing."""
    import pandas as pd

    codes, distinct = pd.factorize(column)
    made = np.empty(len(distinct) + 1, dtype=object)  # the last is for those that are missing: code -1
    made[:-1] = [function(cell) for cell in distinct]
    made[-1] = ""
    return made[codes]


def few(names: Sequence[str]) -> str:
    return f"{list(names)}" if len(names) <= 12 else f"{[*names[:10]]} and {len(names) - 10} more"
