"""From the columns of a table to a data set, from top to bottom: roles, numbers, layout, labels, targets.

A row is a point (long), a value of one sensor (melted), or a series (wide, or lists in its cells).
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..errors import few, setting
from ..paths import Series
from .columns import Column, Frame, TableFile, find_numerals, is_text, to_numbers
from .dataset import Dataset
from .files import MISSING, NO_LABEL, ReadError, check_room, lengths_without_gaps, naming
from .targets import Task, classes_or_numbers, describe_target
from .times import SINCE_MIDNIGHT, WrongTime, are_times, as_times, time_text

# Names by which a column is known for what it is, unless the caller says otherwise; any case.
USUAL = {
    "id": ("id",),
    "time": ("time", "t", "timestamp"),
    "target": ("target", "label", "class"),
    "group": ("group", "patient", "subject", "speaker"),
    "split": ("split",),
}
_DUPLICATES = ("error", "mean", "first", "last")
_ONE_EACH = ("id", "time", "group", "split", "sensor", "value")


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
    static: Sequence[str] | bool | None = None

    def check(self, file: str | Path) -> None:
        """Refuse values that an option cannot have, and options that contradict each other."""
        thousands, decimal = self.thousands, self.decimal
        got = ""
        if self.duplicates not in _DUPLICATES:
            got = f"{setting('duplicates', self.duplicates)}; expected one of {list(_DUPLICATES)}"
        elif decimal not in (None, ".", ","):
            got = f'{setting("decimal", decimal)}; expected "." or ","'
        elif thousands is not None and (len(thousands) != 1 or thousands.isalnum()):
            got = f'{setting("thousands", thousands)}; expected one sign, such as "," or " "'
        elif thousands is not None and thousands == (decimal or "."):
            got = f"{setting('thousands', thousands)} and {setting('decimal', thousands)}; expected different signs"
        elif wrong := [name for name in ("columns", "one_hot", "static") if isinstance(getattr(self, name), str)]:
            got = f"{setting(wrong[0], getattr(self, wrong[0]))}; expected a list of names"
        elif self.value is not None and self.sensor is None:
            got = f"{setting('value', self.value)} alone; expected {setting('sensor')} too, which names the channels"
        elif self.labels_id is not None and self.labels is None:
            got = f"{setting('labels_id', self.labels_id)}; expected {setting('labels')} too, the file with it"
        if got:
            raise ReadError(file, f"Got {got}.")

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
    static: tuple[str, ...] = ()
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
        return list(dict.fromkeys([*self.numeric, *self.words, *self.static, *self.labels, *time]))


def find_roles(names: Sequence[str], file: str | Path, options: TableOptions, *, channels_needed: bool = True) -> Roles:
    """Which column is what: as given, or else by the usual names; all other columns are channels."""
    targets, static = options.targets, tuple(map(str, options.static)) if isinstance(options.static, Sequence) else ()
    roles = {role: str(name) for role in _ONE_EACH if (name := getattr(options, role)) is not None}
    for role, name in [*roles.items(), *(("target", name) for name in targets), *(("static", name) for name in static)]:
        if name not in names:
            got = f"{setting(role, name)} and the columns {few(names)}"
            raise ReadError(file, f"Got {got}; expected the name of one of them.")
    if len({*roles.values(), *targets, *static}) < len(roles) + len(targets) + len(static):
        both = roles | {"target": targets} | ({"static": static} if static else {})
        raise ReadError(file, f"Got one column for two of {both}; expected a column for each.")
    # `sex=f`, which is no column, is the word f of the column sex.
    columns, words = None if options.columns is None else list(map(str, options.columns)), {}
    for column in columns or ():
        name, sign, word = column.partition("=")
        if column not in names and sign and name in names:
            words.setdefault(name, []).append(word)
    used = {*(columns or ()), *words, *roles.values(), *targets, *static}
    free = [name for name in names if name not in used]
    usual = {**USUAL, "value": ("value",)}
    known = {role: next((name for name in free if name.lower() in usual[role]), None) for role in usual}
    value = known.pop("value")
    given = {*roles, "target"} if targets else {*roles}
    guessed = {role: name for role, name in known.items() if name is not None and role not in given}
    targets = targets or ((guessed["target"],) if "target" in guessed else ())
    roles |= {role: name for role, name in guessed.items() if role != "target"}
    if "sensor" in roles and "value" not in roles:
        if value is None:
            got = f"{setting('sensor', roles['sensor'])} and the columns {few(names)}"
            raise ReadError(file, f"Got {got}; expected {setting('value')}, the column of numbers.")
        roles["value"] = value
    if "sensor" in roles:
        channels = []
    elif columns is None:
        channels = [name for name in names if name not in {*roles.values(), *targets, *static}]
    else:
        channels = [name for name in columns if name in names or name.partition("=")[0] not in words]
        if absent := [name for name in channels if name not in names]:
            raise ReadError(file, f"Got no column {few(absent)}; expected one of the columns {few(names)}.")
    taken = {name: role for role, name in roles.items() if role != "time"} | dict.fromkeys(targets, "target")
    taken |= dict.fromkeys(static, "static")
    if both := [name for name in (*channels, *words) if name in taken]:
        raise ReadError(
            file,
            f"Got the column {both[0]!r} as {taken[both[0]]} and as a channel; expected one of them, because a channel "
            f"is what a model sees. Leave {both[0]!r} out of the columns ({setting('columns', [...])}), or name "
            f"another {setting(taken[both[0]])}.",
        )
    if not channels and channels_needed and "sensor" not in roles:
        raise ReadError(file, f"Got only the columns {few(names)}; expected a channel beside them.")
    one_each = {role: roles.get(role) for role in _ONE_EACH}
    return Roles(
        **one_each, target=targets, channels=tuple(channels), words=words, guessed=tuple(guessed), static=static
    )


_ROW_NUMBERS = re.compile(r"Unnamed: \d+|__index_level_\d+__")
_NUMBER_LAST = re.compile(r"(?P<stem>.*?)[ _.-]?[\[(]?(?P<number>\d+)[\])]?")
_NUMBER_FIRST = re.compile(r"(?P<number>\d+)[ _.-](?P<stem>.*\D.*)")
# This many points per channel are a series; fewer numbered columns may be channels.
_SERIES = 10
_MOST_WORDS = 100
# Names that no column of a file has: the number of a row's series, its time, and its target at a point.
_OWNER, _TIME, _TARGET = "\0owner", "\0time", "\0target"


@dataclass(frozen=True)
class Table:
    """Columns of a table, and which of them is what."""

    file: str | Path
    source: TableFile
    frame: Frame  # its index holds each row's number in the file
    roles: Roles
    options: TableOptions
    numerals: tuple[str, str | None] = (".", None)  # the signs before decimals and between thousands
    notes: list[str] = field(default_factory=list)  # how the table was read, beyond its layout
    parts: tuple["Table", ...] = ()  # the tables whose rows these are, one after the other

    def error(self, message: str, row: int | None = None) -> ReadError:
        """An error about a row (its place in the frame), with its file and line or the id that stands there."""
        if row is None:
            return ReadError(self.file, message)
        for part in self.parts:
            if row < len(part.frame):
                return part.error(message, row)
            row -= len(part.frame)
        line = self.source.line(int(self.frame.index[row]))
        if line is None and self.roles.id is not None and (id := self.frame[self.roles.id].iloc[row]):
            message = f"{message} That is in a row of id {id}."
        return ReadError(self.file, message, line=line)


def load_table(source: TableFile, options: TableOptions, *, channels_needed: bool = True) -> Table:
    """The columns with a role: channels and times as numbers where all cells are, labels as text."""
    roles = find_roles(source.names, source.path, options, channels_needed=channels_needed)
    names, labels, times = roles.all, roles.labels, [] if roles.time is None else [roles.time]
    text = {*labels, *(times if options.time_format else [])}
    maybe = list(dict.fromkeys([*roles.numeric, *times, *roles.target, *roles.static]))
    decimal, thousands = options.decimal or ".", options.thousands
    frame = source.frame(names, text=text, time=roles.time, decimal=decimal)
    if options.decimal is None and thousands is None:
        decimal, thousands = find_numerals([frame[name] for name in maybe if is_text(frame[name])], source.path)
        if decimal != ".":  # 1.234 is not what it was taken for
            frame = source.frame(names, text=text, time=roles.time, decimal=decimal)
    plain = (decimal, thousands) == (".", None)
    for name in maybe:
        if is_text(frame[name]) and not (name in text and (plain or name == roles.time)):
            numbers, wrong = to_numbers(frame[name], decimal, thousands)
            if not wrong.any() and name in labels:  # targets stay text, spelled as Python does
                numbers = np.array(["" if np.isnan(x) else repr(float(x)) for x in numbers], object)
            if not wrong.any():
                frame[name] = numbers
    by = f", thousands by {thousands!r}" if thousands else ""
    notes = [] if plain else [f"decimal {'commas' if decimal == ',' else 'points'}{by}"]
    return Table(source.path, source, frame, roles, options, (decimal, thousands), notes)


def join_tables(tables: Sequence[Table], file: Path) -> Table:
    """The rows of several tables with the same columns, one after the other."""
    import pandas as pd

    def meaning(table: Table) -> Any:
        """Tables without names may be of different widths, and others have their columns in another order."""
        roles, source = replace(table.roles, channels=(), guessed=()), table.source
        return source.time_unit, source.named and (roles, sorted(table.roles.channels))

    first = tables[0]
    for table in tables[1:]:
        if meaning(table) != meaning(first):
            raise ReadError(
                file,
                f"Got the channels {few(table.roles.channels)} in {table.file} and {few(first.roles.channels)} in "
                f"{first.file}; expected the same columns with the same meaning in every table.",
            )
    frame = pd.concat([table.frame for table in tables], ignore_index=True)
    roles = max((table.roles for table in tables), key=lambda roles: len(roles.channels))
    notes = list(dict.fromkeys(note for table in tables for note in table.notes))
    return Table(file, first.source, frame, roles, first.options, first.numerals, notes, tuple(tables))


def from_table(table: Table, *, task: Task | None = None, name: str = "data") -> Dataset:
    """The series of a table, and in one sentence how it was understood (`Dataset.reading`)."""
    with naming(table.file):
        return _from_table(table, task, name)


def _from_table(table: Table, task: Task | None, name: str) -> Dataset:
    if len(table.frame) == 0:
        raise table.error("Got column names and no rows; expected series.")
    table = _without_row_numbers(table)
    if table.roles.id is not None and (absent := _is_no_label(table.frame[table.roles.id])).any():
        got = f"Got a row without {table.roles.id!r}"
        raise table.error(f"{got}; expected one in each, to know its series.", int(np.argmax(absent)))
    if any(_has_lists(table.frame[channel]) for channel in table.roles.numeric):
        layout = "lists"
    else:
        table = _with_one_hot(_with_found_static(table) if table.options.static is True else table)
        _check_numbers(table)
        layout = "melted" if table.roles.sensor is not None else "wide" if is_wide(table) else "long"
    channels, classes, described = table.roles.channels, None, ""
    if table.options.per_time:
        if layout != "long":
            got = f"{setting('per_time', True)} for a table with a row per series or value"
            raise ValueError(f"Got {got}; expected a row per point.")
        table, classes, described = _with_point_targets(table, task)
    if layout in ("long", "melted"):
        for part in table.parts or (table,):
            part.source.check_rows(part.frame)
    rows = RowOwners.of(table, row_is_series=layout in ("wide", "lists"))
    labels, static = labels_of_series(table, rows), _static_of_series(table, rows)
    understood = {"lists": _lists, "melted": _melted, "wide": _wide, "long": _long}[layout](table, rows)
    series, groups, split, labelled = understood.series, labels.groups, labels.split, labels.labelled
    if table.options.per_time:
        last = np.where(series.valid[..., None], series.values[..., len(channels) :], np.nan)
        series = replace(series, values=series.values[..., : len(channels)], channels=channels)
        target = np.nan_to_num(last[..., 0], nan=-1).astype(np.int64) if classes else last
        fields: dict[str, Any] = {"target": target, "classes": classes}
        labelled = (target >= 0).any(axis=1) if classes else ~np.isnan(target).all(axis=(1, 2))
        described = f"target {listed(table.roles.target, quoted=True)} at each point ({described})"
    else:
        fields, described = describe_target(labels.targets, labelled, task)
    notes = [*table.notes, *labels.notes, *understood.notes]
    if table.options.drop_unlabelled and labelled is not None and not labelled.all():
        if not labelled.any():
            raise ValueError("Got no series with a target; expected some. Leave `drop_unlabelled` out.")
        notes.append(f"{int((~labelled).sum())} series without a target left out")
        series, static = series[labelled], {name: column[labelled] for name, column in static.items()}
        groups, split = (None if array is None else array[labelled] for array in (groups, split))
        if table.options.per_time:  # otherwise only targets that are there have been described
            fields["target"] = fields["target"][labelled]
    reading = "; ".join([", ".join(filter(None, [*understood.description, described])), *notes])
    known: dict[str, Any] = {"groups": groups, "split": split, "static": static or None}
    return Dataset(series, **fields, **known, name=name, time_unit=understood.time_unit, reading=reading)


def _without_row_numbers(table: Table) -> Table:
    """Row numbers, which pandas and R write in a column without a name, are no channel; dates there are times."""
    roles, notes = table.roles, list(table.notes)
    for name in [name for name in roles.channels if _ROW_NUMBERS.fullmatch(name) and table.options.columns is None]:
        column = table.frame[name]
        others = tuple(channel for channel in roles.channels if channel != name)
        if column.dtype.kind in "fiu":
            # They begin anew in each file of a folder.
            parts = [part.frame[name] for part in table.parts if name in part.frame] or [column]
            whole = all(part.is_unique and (part == np.floor(part)).all() for part in parts)
            if whole or column.isna().all():
                roles = replace(roles, channels=others)
                notes.append(f"`{name}` left out (row numbers)")
        elif name == "Unnamed: 0" and roles.time is None and are_times(column):
            roles = replace(roles, channels=others, time=name)
        elif name == "Unnamed: 0":
            raise table.error(
                f"Got the first column without a name, and {column.iloc[0]!r} in it; expected a name, or row numbers. "
                f"Write {setting('id', name)}, {setting('target', name)} or the like to say what it is."
            )
    if not roles.channels and roles.sensor is None:
        raise table.error("Got no channel; expected a column of numbers beside ids, times and targets.")
    return replace(table, roles=roles, notes=notes)


def _with_one_hot(table: Table) -> Table:
    """A channel per word: `sex` with the words f and m becomes `sex=f` and `sex=m`, NaN where the cell is empty."""
    roles, asked = table.roles, table.options.one_hot or ()
    if asked is True:
        asked = [name for name in roles.channels if is_text(table.frame[name])]
    if any(name not in (*roles.channels, *roles.words) for name in asked):
        got = f"{setting('one_hot', list(asked))} and the channels {few(roles.channels)}"
        raise table.error(f"Got {got}; expected some of these.")
    channels, all_words, columns, notes = list(roles.channels), {}, {}, list(table.notes)
    for name in dict.fromkeys([*asked, *roles.words]):
        column = table.frame[name]
        if column.dtype.kind in "fiu":  # 1.0 is the word 1, as it was before a gap made floats of it
            column = column.map(lambda x: "" if x != x else str(int(x)) if float(x).is_integer() else str(x))
        cells = column.astype(object).fillna("").astype(str).str.strip().to_numpy(object)
        absent = np.array([cell.lower() in MISSING for cell in cells], bool)
        words = roles.words.get(name) or sorted(set(cells[~absent]))
        if (strange := ~absent & ~np.isin(cells.astype(str), words)).any():
            row = int(np.argmax(strange))
            got = f"{cells[row][:40]!r} in column {name!r}"
            raise table.error(f"Got {got}; expected one of {few(words)}, which you gave.", row)
        if len(words) > _MOST_WORDS:
            got = f"{len(words)} different words in column {name!r}"
            raise table.error(f"Got {got}; expected at most {_MOST_WORDS} for a channel each. Is it an id, or a note?")
        all_words[name] = words
        columns |= {f"{name}={word}": np.where(absent, np.nan, cells == word) for word in words}
        place = channels.index(name) if name in channels else len(channels)
        channels[place : place + 1] = [f"{name}={word}" for word in words]
        notes.append(f"a channel per word of `{name}`")
    if table.options.columns is not None and roles.words:  # in the order asked for
        channels = list(map(str, table.options.columns))
    roles = replace(roles, channels=tuple(channels), words=all_words)
    return replace(table, frame=with_columns(table.frame, columns), roles=roles, notes=notes)


def _with_found_static(table: Table) -> Table:
    """Channels that are constant within each series, which no path can show, as what is known of it as a whole."""
    import pandas as pd

    roles, options, frame = table.roles, table.options, table.frame
    if roles.id is None or roles.sensor is not None or options.columns is not None or not roles.channels:
        return table
    known = {}
    for name in roles.channels:
        column = frame[name]
        if is_text(column):
            codes, distinct = pd.factorize(column)
            if len(distinct) > _MOST_WORDS:  # names, or notes
                continue
            column = pd.Series(codes, frame.index, float).where(~_is_no_label(column))
        known[name] = column
    groups: Any = pd.DataFrame(known, index=frame.index).groupby(frame[roles.id])
    low, high, several = groups.min(), groups.max(), (groups.count() > 1).sum() > 1
    asked = {*(options.one_hot if isinstance(options.one_hot, Sequence) else ())}
    still = ((low == high) | low.isna()).all() & several
    found = tuple(name for name in known if still[name] and name not in asked)
    if not found or len(found) == len(roles.channels):
        return table
    channels = tuple(name for name in roles.channels if name not in found)
    notes = [*table.notes, f"static, because constant within each series: {listed(found)}"]
    return replace(table, roles=replace(roles, channels=channels, static=found), notes=notes)


def _static_of_series(table: Table, rows: "RowOwners") -> dict[str, np.ndarray]:
    """What a table says of each series as a whole: numbers with NaN, or words with None."""
    found = {name: _one_each(table, name, "static", rows) for name in table.roles.static}
    for name, texts in found.items():
        numbers = table.frame[name].dtype.kind in "fiub"
        cells = [(float(text) if numbers else text) if text else None for text in texts.tolist()]
        found[name] = np.array(cells, float if numbers else object)
    return found


def with_columns(frame: Frame, columns: dict[str, Any]) -> Frame:
    """A frame with columns replaced or added; the frame itself stays as it is."""
    import pandas as pd

    # All at once: pandas warns of columns that are inserted one by one, as those of a wide table would be.
    return pd.DataFrame({**frame, **columns}, index=frame.index, copy=False)


def _check_numbers(table: Table) -> None:
    """Refuse channels that are not finite numbers."""
    for name in table.roles.numeric:
        column = table.frame[name]
        if column.dtype.kind not in "fiub":
            words = column.where(column.map(lambda cell: isinstance(cell, str)))  # numbers come from other files
            row = int(np.argmax(to_numbers(words, *table.numerals)[1]))
            without = f"{setting('columns', [...])} without it"
            if table.roles.time is None and are_times(column):
                advice = f"{setting('time', name)} if it holds the times of the points, or {without}"
            else:
                advice = f"{without} to leave it out, or {setting('one_hot', [name])} for a channel per word"
                if "value" in map(str.lower, table.roles.channels):
                    sensor, value = setting("sensor", "column of names"), setting("value", "column of numbers")
                    advice += f", or say that the table is melted ({sensor}, {value})"
            raise table.error(
                f"Got {str(column.iloc[row])[:40]!r} in column {name!r}; expected a number. Write {advice}.", row
            )
        if column.dtype.kind == "f" and (infinite := np.isinf(column.to_numpy())).any():
            expected = "finite numbers, or an empty cell where there is none"
            raise table.error(f"Got infinity in column {name!r}; expected {expected}.", int(np.argmax(infinite)))


class RowOwners(NamedTuple):
    """Which series each row belongs to: its number, and the series' ids in the order in which they appear."""

    owner: np.ndarray
    ids: np.ndarray | None

    @classmethod
    def of(cls, table: Table, *, row_is_series: bool = False) -> "RowOwners":
        import pandas as pd

        id, count = table.roles.id, len(table.frame)
        if row_is_series:
            return cls(np.arange(count), None if id is None else table.frame[id].to_numpy(object))
        if id is None:
            return cls(np.zeros(count, np.int64), None)
        owner, ids = pd.factorize(table.frame[id])
        return cls(owner, np.asarray(ids, object))

    def who(self, i: int) -> str:
        return f"series {i}" if self.ids is None else f"id {self.ids[int(i)]}"

    def of_whom(self, i: int) -> str:
        return "" if self.ids is None else f" for id {self.ids[int(i)]}"


class Understood(NamedTuple):
    """The series of a table, a description of its layout in parts, and their times' unit."""

    series: Series
    description: list[str]
    time_unit: str | None = None
    notes: Sequence[str] = ()


def _long(table: Table, rows: RowOwners) -> Understood:
    """A row is a point."""
    roles, ids = table.roles, rows.ids
    times, unit, kind = _times(table, rows)
    points = with_columns(table.frame, {_OWNER: rows.owner} | ({} if times is None else {_TIME: times}))
    points, notes = _merge_duplicates(table, points, rows, unit)
    channels = [name for name in roles.channels if not name.startswith(_TARGET)]
    if ids is not None and 1 < len(ids) < len(points):
        groups = points.groupby(_OWNER)[channels]
        low, high, counts = groups.min(), groups.max(), groups.count()
        still = ((low == high) | low.isna()).all() & ((counts > 1).sum() > 1)
        if still.any():
            constant = listed(still.index[still].tolist())
            notes.append(f"constant within each series: {constant} ({setting('columns', [...])} leaves columns out)")
    description = ["long table", _whose(table, ids), _time_described(table, kind), f"channels {listed(channels)}"]
    return Understood(_packed(points, roles.channels, ids), description, unit, notes)


def _melted(table: Table, rows: RowOwners) -> Understood:
    """A row is a value of one channel, which the column `sensor` names."""
    roles, frame, ids = table.roles, table.frame, rows.ids
    if roles.time is None:
        got = f"{setting('sensor', roles.sensor)} and no column of times"
        raise ValueError(f"Got {got}; expected {setting('time')}, to know which values belong together.")
    if (absent := _is_no_label(frame[roles.sensor])).any():
        raise table.error(f"Got no name in column {roles.sensor!r}; expected one.", int(np.argmax(absent)))
    times, unit, kind = _times(table, rows)
    names = [str(sensor) for sensor in frame[roles.sensor].unique()]
    points = with_columns(frame, {_OWNER: rows.owner, _TIME: times})
    if table.options.columns is not None:
        wanted = list(map(str, table.options.columns))
        if lost := [sensor for sensor in wanted if sensor not in names]:
            raise ValueError(f"Got no sensor {few(lost)}; expected one of {few(names)}.")
        names, points = wanted, points[points[roles.sensor].isin(wanted)]
    points, notes = _merge_duplicates(table, points, rows, unit)
    moments = points.groupby([_OWNER, _TIME]).ngroups
    check_room(3 * 8 * float(moments) * len(names), table.file, f"{moments} points of {len(names)} sensors")
    points = points.pivot(index=[_OWNER, _TIME], columns=roles.sensor, values=roles.value)[names].reset_index()
    if ids is not None and len(lost := np.setdiff1d(np.arange(len(ids)), points[_OWNER])):
        raise ValueError(f"Got none of the sensors {few(names)} for id {ids[lost[0]]}; expected values of one of them.")
    description = [
        "melted table",
        _whose(table, ids),
        _time_described(table, kind),
        f"channels {listed(names)} from `{roles.sensor}`",
    ]
    return Understood(_packed(points, names, ids), description, unit, notes)


def _times(table: Table, rows: RowOwners) -> tuple[np.ndarray | None, str | None, str]:
    import pandas as pd

    if table.roles.time is None:
        if table.options.time_format is not None:
            got = f"{setting('time_format', table.options.time_format)} and no column of times"
            raise ValueError(f"Got {got}; expected {setting('time')}.")
        return None, None, ""
    try:
        times, unit, kind = as_times(table.frame[table.roles.time], time_format=table.options.time_format)
    except WrongTime as error:
        got, divided, rest = str(error).partition(";")
        raise table.error(f"{got} in column {table.roles.time!r}{divided}{rest}", error.row) from None
    if unit == SINCE_MIDNIGHT:  # clock times that start again would be sorted into the wrong order
        back = pd.Series(times).groupby(rows.owner).diff().to_numpy() < -43200
        if back.any():
            row = int(np.argmax(back))
            got = f"the clock time {time_text(times[row], unit)} after a later one{rows.of_whom(rows.owner[row])}"
            expected = "clock times within one day. Write dates with them"
            raise table.error(f"Got {got}, as past midnight; expected {expected}.", row)
    return times, unit, kind


def _merge_duplicates(table: Table, points: Frame, rows: RowOwners, unit: str | None) -> tuple[Frame, list[str]]:
    """Points whose times differ within each series, and sensor, and what was done for that."""
    roles = table.roles
    keys = [_OWNER, _TIME, *([] if roles.sensor is None else [roles.sensor])]
    if _TIME not in points or not (again := points.duplicated(keys).to_numpy()).any():
        return points, []
    count, first = int(again.sum()), points.iloc[int(np.argmax(again))]
    if table.options.duplicates == "error":
        sensor = (
            "" if roles.sensor is None else f"{',' if rows.ids is not None else ' for'} sensor {first[roles.sensor]}"
        )
        more = f" (and {count - 1} more such rows)" if count > 1 else ""
        by_name = f" The column {roles.time!r} was taken for the time by its name." if "time" in roles.guessed else ""
        raise table.error(
            f"Got the time {time_text(first[_TIME], unit)} twice{rows.of_whom(first[_OWNER])}{sensor}{more}; expected "
            f"times that differ, because a path has one value at a time. Write {setting('duplicates', 'mean')}, "
            f"{setting('duplicates', 'first')} or {setting('duplicates', 'last')} to merge such rows.{by_name}",
            table.frame.index.get_loc(points.index[int(np.argmax(again))]),
        )
    notes = [f"{count} rows of duplicated times merged ({table.options.duplicates})"]
    if table.options.duplicates != "mean":
        points = points.drop_duplicates(keys, keep=table.options.duplicates)
        return points.sort_values(_OWNER, kind="stable"), notes
    groups = points.groupby(keys)[list(roles.numeric)]
    if (_TARGET in points) and (groups[_TARGET].nunique() > 1).any():
        raise ValueError(f"Got different classes at one time; expected one. Write {setting('duplicates', 'first')}.")
    return groups.mean().reset_index(), notes


def _packed(points: Frame, channels: Sequence[str], ids: np.ndarray | None) -> Series:
    time = _TIME if _TIME in points else None
    series = Series.from_table(points, id=_OWNER, time=time, columns=list(channels))
    return replace(series, ids=text_array(ids))


def is_wide(table: Table) -> bool:
    """Whether a row is a series, and not a point: only if the columns' names say so; ReadError if nobody can tell."""
    roles, rows = table.roles, len(table.frame)
    if table.options.wide is not None:
        return table.options.wide
    if roles.time is not None or table.options.per_time or roles.words:
        return False
    unique = roles.id is not None and table.frame[roles.id].is_unique
    if roles.id is not None and not unique:
        return False
    grid, yes, no = numbered(roles.channels), setting("wide", True), setting("wide", False)
    if grid is None:
        if not unique or rows == 1:
            return False
        raise table.error(
            f"Got one row per {roles.id!r} and the columns {few(roles.channels)}; expected several rows per series, or "
            f"numbered columns, to know what a row is. Write {yes} if it is a series, or {no} if it is a point."
        )
    points = len(next(iter(grid[0].values())))
    sure = unique or points >= _SERIES or rows <= _SERIES * points
    named = all(map(_is_plain_number, roles.channels)) if table.source.named else bool(roles.target)
    if not sure and not named:
        raise table.error(
            f"Got {rows} rows of the columns {few(roles.channels)} and no ids; expected to know whether a row is a "
            f"series of {points} points ({yes}), or a point of one long series ({no})."
        )
    return True


def _wide(table: Table, rows: RowOwners) -> Understood:
    """A row is a series, its points in numbered columns."""
    roles, frame = table.roles, table.frame
    if roles.time is not None:
        got = f"the time column {roles.time!r} in a wide table, whose rows are whole series"
        raise ValueError(f"Got {got}; expected none. Write {setting('wide', False)} for a row per point.")
    grid, others = numbered(roles.channels, strict=True) or ({"x0": list(roles.channels)}, [])
    notes = [f"left out, because they are not numbered as the others are: {listed(others)}"] if others else []
    channels = list(grid) if len(grid) > 1 else ["x0"]
    first, last = grid[next(iter(grid))], grid[list(grid)[-1]]
    values = np.stack([frame[names].to_numpy() for names in grid.values()], axis=2)
    lengths = lengths_without_gaps(values)
    series = Series(values[:, : lengths.max()], lengths=lengths, channels=channels, ids=text_array(rows.ids))
    whose = f"{len(frame)} series, one per row" + (f", by `{roles.id}`" if roles.id else "")
    shape = f"{len(first)} points" if lengths.min() == len(first) else f"{lengths.min()} to {lengths.max()} points"
    named = f"channels {listed(channels)}" if len(channels) > 1 else "one channel"
    return Understood(series, ["wide table", whose, named, f"{shape} ({first[0]} to {last[-1]})"], None, notes)


def _is_plain_number(name: str) -> bool:
    return re.fullmatch(r"-?\d+(\.\d+)?([eE][-+]?\d+)?", name) is not None


def numbered(names: Sequence[str], *, strict: bool = False) -> tuple[dict[str, list[str]], list[str]] | None:
    """The columns of each channel in the order of their numbers, and those without a number; None if not numbered.

    >>> numbered(["x_0", "x_1", "y_0", "y_1"])
    ({'x': ['x_0', 'x_1'], 'y': ['y_0', 'y_1']}, [])
    >>> numbered(["pm2", "pm10", "no2"])
    """
    if all(map(_is_plain_number, names)):
        return {"x0": list(names)}, []
    for form in (_NUMBER_LAST, _NUMBER_FIRST):
        matches = {name: match for name in names if (match := form.fullmatch(name))}
        others = [name for name in names if name not in matches]
        if len(matches) < 2 or (others and (len(matches) < _SERIES or len(others) > 0.2 * len(names))):
            continue
        grid: dict[str, dict[int, str]] = {}
        for name, match in matches.items():
            grid.setdefault(match["stem"], {})[int(match["number"])] = name
        counts = [sorted(row) for row in grid.values()]
        run = all(row == list(range(row[0], row[0] + len(row))) and len(row) > 1 for row in counts)
        if run and all(row == counts[0] for row in counts) and sum(map(len, counts)) == len(matches):
            return {stem: [row[i] for i in sorted(row)] for stem, row in grid.items()}, others
        if strict and run and len(grid) > 1:
            sizes = ", ".join(f"{len(row)} of {stem!r}" for stem, row in list(grid.items())[:5])
            raise ValueError(f"Got {sizes}; expected as many columns, numbered alike, for each channel.")
    return None


def _is_list(cell: object) -> bool:
    return isinstance(cell, np.ndarray | list)


def _has_lists(column: Column) -> bool:
    return column.dtype == object and any(map(_is_list, column))


def _lists(table: Table, rows: RowOwners) -> Understood:
    """A row is a series, with a list of numbers for each channel."""
    roles, frame = table.roles, table.frame
    if roles.sensor is not None:
        raise ValueError("Got lists in the cells; expected a row per series then, without `sensor`.")
    columns = [frame[channel].to_numpy(object) for channel in roles.channels]
    for channel, column in zip(roles.channels, columns, strict=True):
        for i, (cell, other) in enumerate(zip(column, columns[0], strict=True)):
            if not (_is_list(cell) and _is_list(other) and len(cell) == len(other) > 0):
                who = f"row {i}" if rows.ids is None else rows.who(i)
                raise ValueError(
                    f"Got for {who} in column {channel!r} no list as long as that of {roles.channels[0]!r}; expected "
                    "lists of numbers, one for each channel of the series."
                )
    series = Series.from_arrays(
        [np.stack(list(map(np.asarray, row)), axis=1) for row in zip(*columns, strict=True)],
        times=None if roles.time is None else [np.asarray(clock, np.float64) for clock in frame[roles.time]],
        channels=roles.channels,
        ids=text_array(rows.ids),
    )
    description = [
        f"{len(frame)} series, one per row",
        _time_described(table, "lists"),
        f"channels {listed(roles.channels)}",
    ]
    return Understood(series, ["table of lists", *description], table.source.time_unit)


class Labels(NamedTuple):
    """What a table says once for a series, though perhaps in each of its rows: text, "" where there is none."""

    targets: dict[str, np.ndarray]  # by the names of their columns
    groups: np.ndarray | None
    split: np.ndarray | None
    notes: Sequence[str] = ()

    @property
    def labelled(self) -> np.ndarray | None:
        """Whether a series has all its targets; None if there is no target at all."""
        return np.all([column != "" for column in self.targets.values()], axis=0) if self.targets else None


def labels_of_series(table: Table, rows: RowOwners) -> Labels:
    """The labels of each series; ReadError if its rows contradict each other, or say nothing."""
    roles = table.roles
    names = () if table.options.per_time else roles.target
    targets, notes = {name: _one_each(table, name, "target", rows) for name in names}, []
    if targets and all((column == "").all() for column in targets.values()):
        targets, notes = {}, [f"no target: {listed(roles.target, quoted=True)} is empty"]
    others = {}
    for role, name in (("group", roles.group), ("split", roles.split)):
        others[role] = None if name is None else _one_each(table, name, role, rows)
        if name is not None and (empty := others[role] == "").any():
            raise table.error(
                f"Got nothing for {rows.who(int(np.argmax(empty)))} in column {name!r}; expected a {role}."
            )
    labels = Labels(targets, others["group"], others["split"], notes)
    labelled = labels.labelled
    if labelled is not None and not labelled.all() and not table.options.drop_unlabelled:
        more = f" (and {int((~labelled).sum()) - 1} more)" if (~labelled).sum() > 1 else ""
        raise table.error(
            f"Got nothing for {rows.who(int(np.argmin(labelled)))}{more} in column {roles.target[0]!r}; expected a "
            f"target for each series. Write {setting('drop_unlabelled', True)} to leave such series out."
        )
    return labels


def _one_each(table: Table, name: str, role: str, rows: RowOwners) -> np.ndarray:
    """The one label that the rows of each series have in a column."""
    import pandas as pd

    codes, distinct = pd.factorize(table.frame[name])
    labels = pd.Series(codes, dtype=float).where(~_is_no_label(table.frame[name]))
    first = labels.groupby(rows.owner).first().to_numpy()  # that is there; -1 is none
    texts = np.array([*map(str, distinct), ""], object)
    differs = labels.notna().to_numpy() & (labels.to_numpy() != first[rows.owner])
    if differs.any():
        row, hint = int(np.argmax(differs)), ""
        if role == "target":
            hint = f" Write {setting('per_time', True)} for a target at each point"
            hint += f", or {setting('wide', True)} if a row is a series." if rows.ids is None else "."
        elif rows.ids is None:
            hint = f" Write {setting('id', name)} if it says which series a row belongs to."
        both = f"both {texts[int(first[rows.owner[row]])]!r} and {texts[codes[row]]!r} in column {name!r}"
        raise table.error(f"Got for {rows.who(rows.owner[row])} {both}; expected one for all its rows.{hint}", row)
    return text_array(texts[np.nan_to_num(first, nan=-1).astype(int)])


def _with_point_targets(table: Table, task: Task | None) -> tuple[Table, tuple[str, ...] | None, str]:
    """The targets at the points of a long table as channels behind the others, their classes, and what they are."""
    names = table.roles.target
    if not names:
        got = f"{setting('per_time', True)} without a target"
        raise ValueError(f"Got {got}; expected one, {setting('target', 'column')}.")
    if len(names) > 1 and task == "classification":
        raise ValueError(f"Got the targets {list(names)} for a classification; expected one.")
    columns, classes, described = {}, None, ""
    for i, name in enumerate(names):
        labels, there = table.frame[name].to_numpy(object), ~_is_no_label(table.frame[name])
        target, asked = np.full(len(labels), np.nan), task if len(names) == 1 else "regression"
        target[there], classes, described = classes_or_numbers(labels[there].astype(str), name, asked)
        columns[_TARGET if classes else f"{_TARGET} {i}"] = target
    roles = replace(table.roles, channels=(*table.roles.channels, *columns))
    return replace(table, frame=with_columns(table.frame, columns), roles=roles), classes, described


def _is_no_label(column: Column) -> np.ndarray:
    """Which cells name no class, group or series."""
    import pandas as pd

    codes, distinct = pd.factorize(column)
    absent = [str(label).strip().lower() in NO_LABEL for label in distinct]
    return np.array([*absent, True])[codes]  # pandas gives the code -1 to what is missing


def _whose(table: Table, ids: np.ndarray | None) -> str:
    return "one series" if ids is None else f"{len(ids)} series by `{table.roles.id}`"


def _time_described(table: Table, kind: str) -> str:
    return "" if table.roles.time is None else f"time from `{table.roles.time}` ({kind})"


def listed(names: Sequence[str], *, quoted: bool = False) -> str:
    names = [f"`{name}`" if quoted else name for name in names]
    return ", ".join(names if len(names) <= 8 else [*names[:6], f"... ({len(names)} in all)"])


def text_array(texts: np.ndarray | None) -> Any:
    """Strings as NumPy keeps them, in equal widths, unless one long one would make them large."""
    if texts is None or 4 * max(map(len, texts), default=0) * len(texts) > 2**26:
        return texts
    return np.array([str(text) for text in texts])
