"""From the columns of a table to a data set, from top to bottom: roles, numbers, layout, labels, targets.

A row is a point (long), a value of one sensor (melted), or a series (wide, or lists in its cells, which become points).
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from .._write import Values
from ..errors import few, setting
from ..paths import Series
from .columns import Column, Frame, TableFile, is_text, numeral_advice, to_numbers, without_number
from .dataset import Dataset
from .files import NO_LABEL, ReadError, check_room, lengths_without_gaps, naming
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
        for name, wrong, expected in (
            ("duplicates", self.duplicates not in _DUPLICATES, f"one of {list(_DUPLICATES)}"),
            ("decimal", decimal not in (None, ".", ","), '"." or ","'),
            ("thousands", thousands is not None and (len(thousands) != 1 or thousands.isalnum()), 'a sign such as ","'),
            ("thousands", thousands == (decimal or "."), "different signs before decimals and between thousands"),
            ("columns", isinstance(self.columns, str), "a list of names"),
            ("one_hot", isinstance(self.one_hot, str), "a list of names"),
            ("static", isinstance(self.static, str), "a list of names"),
            ("value", self.value is not None and self.sensor is None, f"{setting('sensor')} too, the channels' names"),
            ("labels_id", self.labels_id is not None and self.labels is None, f"{setting('labels')} too, its file"),
        ):
            if wrong:
                raise ReadError(file, f"Got {setting(name, getattr(self, name))}; expected {expected}.")

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
    static = tuple(map(str, options.static)) if isinstance(options.static, Sequence) else ()
    found = {role: (str(name),) for role in _ONE_EACH if (name := getattr(options, role)) is not None}
    found |= {role: columns for role, columns in (("target", options.targets), ("static", static)) if columns}
    taken = [(name, role) for role, columns in found.items() for name in columns]
    for name, role in taken:
        if name not in names:
            got = f"{setting(role, name)} and the columns {few(names)}"
            raise ReadError(file, f"Got {got}; expected the name of one of them.")
    if len(dict(taken)) < len(taken):
        raise ReadError(file, f"Got one column for two of {found}; expected a column for each.")
    # `sex=f`, which is no column, is the word f of the column sex.
    columns, words = None if options.columns is None else list(map(str, options.columns)), {}
    for column in columns or ():
        name, sign, word = column.partition("=")
        if column not in names and sign and name in names:
            words.setdefault(name, []).append(word)
    free = [name for name in names if name not in {*(columns or ()), *words, *dict(taken)}]
    usual = {**USUAL, **({"value": ("value",)} if options.sensor is not None else {})}
    known = {role: name for role in usual if role not in found for name in free[::-1] if name.lower() in usual[role]}
    found |= {role: (name,) for role, name in known.items()}
    if "sensor" in found and "value" not in found:
        got = f"{setting('sensor', options.sensor)} and the columns {few(names)}"
        raise ReadError(file, f"Got {got}; expected {setting('value')}, the column of numbers.")
    taken = {name: role for role, columns in found.items() for name in columns}
    if "sensor" in found:
        channels = []
    elif columns is None:
        channels = [name for name in names if name not in taken]
    else:
        channels = [name for name in columns if name in names or name.partition("=")[0] not in words]
        if absent := [name for name in channels if name not in names]:
            raise ReadError(file, f"Got no column {few(absent)}; expected one of the columns {few(names)}.")
    if both := [name for name in (*channels, *words) if taken.get(name, "time") != "time"]:
        raise ReadError(
            file,
            f"Got the column {both[0]!r} as {taken[both[0]]} and as a channel; expected one of them, because a channel "
            f"is what a model sees. Leave {both[0]!r} out of the columns ({setting('columns', [...])}), or name "
            f"another {setting(taken[both[0]])}.",
        )
    if not channels and channels_needed and "sensor" not in found:
        raise ReadError(file, f"Got only the columns {few(names)}; expected a channel beside them.")
    one_each = {role: found[role][0] if role in found else None for role in _ONE_EACH}
    target, guessed = found.get("target", ()), tuple(known)
    return Roles(**one_each, target=target, channels=tuple(channels), words=words, static=static, guessed=guessed)


_ROW_NUMBERS = re.compile(r"Unnamed: \d+|__index_level_\d+__")
_MOST_WORDS = 100
# This many numbered columns are points of a series; fewer may be channels.
_SERIES = 10
# Names that no column of a file has: the number of a row's series, and its time.
_OWNER, _TIME = "\0owner", "\0time"


@dataclass(frozen=True)
class Table:
    """Columns of a table, and which of them is what."""

    file: str | Path
    sources: tuple[TableFile, ...]
    frame: Frame  # its index holds the number of each row's file, and the row's number in it
    roles: Roles
    options: TableOptions
    notes: tuple[str, ...] = ()  # how the table was read, beyond its layout

    def error(self, message: str, row: int) -> ReadError:
        """An error about a row (its place in the frame), with its file and line or the id that stands there."""
        number, place = self.frame.index[row]
        source = self.sources[number]
        line = source.line(int(place))
        if line is None and self.roles.id is not None and (id := self.frame[self.roles.id].iloc[row]):
            message = f"{message} That is in a row of id {id}."
        return ReadError(source.path, message, line)


def load_table(source: TableFile, options: TableOptions, *, channels_needed: bool = True) -> Table:
    """The columns with a role: channels and times as numbers where all cells are, labels as text."""
    import pandas as pd

    roles = find_roles(source.names, source.path, options, channels_needed=channels_needed)
    text = {*roles.labels, *([roles.time] if options.time_format and roles.time is not None else [])}
    signs = {"decimal": options.decimal or ".", "thousands": options.thousands}
    frame = source.frame(roles.all, text=text, **signs)
    given = signs != {"decimal": ".", "thousands": None}
    for name in dict.fromkeys([*roles.numeric, *roles.static, *roles.target, *([roles.time] if roles.time else [])]):
        if is_text(frame[name]) and (name not in text or (given and name in roles.target)):
            numbers = to_numbers(frame[name], **signs)
            if not without_number(frame[name], numbers).any():
                # Targets stay text, spelled as Python does.
                frame[name] = numbers.map(repr, na_action="ignore").fillna("") if name in text else numbers
    frame = pd.concat([frame], keys=[0])
    return Table(source.path, (source,), frame, roles, options)


def join_tables(tables: Sequence[Table], file: Path) -> Table:
    """The rows of several tables with the same columns, one after the other."""
    import pandas as pd

    def meaning(table: Table) -> object:
        """Tables without names may be of different widths, and others have their columns in another order."""
        roles = replace(table.roles, channels=(), guessed=())
        return table.sources[0].named and (roles, sorted(table.roles.channels))

    first = tables[0]
    for table in tables[1:]:
        if meaning(table) != meaning(first):
            raise ReadError(
                file,
                f"Got the channels {few(table.roles.channels)} in {table.file} and {few(first.roles.channels)} in "
                f"{first.file}; expected the same columns with the same meaning in every table.",
            )
    frame = pd.concat({number: table.frame.droplevel(0) for number, table in enumerate(tables)})
    roles = max((table.roles for table in tables), key=lambda roles: len(roles.channels))
    notes = tuple(dict.fromkeys(note for table in tables for note in table.notes))
    return Table(file, tuple(table.sources[0] for table in tables), frame, roles, first.options, notes)


def from_table(table: Table, *, task: Task | None = None, name: str = "data") -> Dataset:
    """The series of a table, and in one sentence how it was understood (`Dataset.reading`)."""
    with naming(table.file):
        return _from_table(table, task, name)


def _from_table(table: Table, task: Task | None, name: str) -> Dataset:
    options = table.options
    if len(table.frame) == 0:
        raise ValueError("Got column names and no rows; expected series.")
    table = _without_row_numbers(table)
    if table.roles.id is not None and (absent := _is_no_label(table.frame[table.roles.id])).any():
        got = f"Got a row without {table.roles.id!r}"
        raise table.error(f"{got}; expected one in each, to know its series.", int(np.argmax(absent)))
    if any(_has_lists(table.frame[channel]) for channel in table.roles.numeric):
        table, rows, layout = *_exploded(table), "table of lists"
    else:
        rows, layout = None, "melted table" if table.roles.sensor is not None else "long table"
    table = _with_one_hot(_with_found_static(table) if options.static is True else table)
    _check_numbers(table)
    if layout == "long table" and is_wide(table):
        layout = "wide table"
    rows = rows or RowOwners.of(table, row_is_series=layout == "wide table")
    if options.per_time and layout != "long table":
        got = f"{setting('per_time', True)} for a {layout}"
        raise ValueError(f"Got {got}; expected a row per point.")
    if layout in ("long table", "melted table"):
        for number, source in enumerate(table.sources):
            source.check_rows(table.frame.loc[number])
    labels, static = labels_of_series(table, rows), _static_of_series(table, rows)
    groups, split, labelled = labels.groups, labels.split, labels.labelled
    fields: Values
    if layout == "wide table":
        series, unit, description, notes = _wide(table, rows)
        fields, described = describe_target(labels.targets, labelled, task)
    else:
        classes, described = None, ""
        if options.per_time:
            table, classes, described = _with_point_targets(table, task)
        points, channels, unit, description, notes = _points(table, rows)
        series = _packed(points, channels, rows)
        if options.per_time:
            packed = _packed(points, table.roles.target, rows).values
            target = np.where(series.valid[..., None], packed, np.nan)
            target = np.nan_to_num(target[..., 0], nan=-1).astype(np.int64) if classes else target
            fields = {"target": target, "classes": classes}
            labelled = (target >= 0).any(axis=1) if classes else ~np.isnan(target).all(axis=(1, 2))
        else:
            fields, described = describe_target(labels.targets, labelled, task)
    notes = [*table.notes, *labels.notes, *notes]
    if options.drop_unlabelled and labelled is not None and not labelled.all():
        if not labelled.any():
            raise ValueError("Got no series with a target; expected some. Leave `drop_unlabelled` out.")
        notes.append(f"{int((~labelled).sum())} series without a target left out")
        series, static = series[labelled], {name: column[labelled] for name, column in static.items()}
        groups, split = (None if array is None else array[labelled] for array in (groups, split))
        if options.per_time:  # otherwise only targets that are there have been described
            fields["target"] = fields["target"][labelled]
    reading = "; ".join([", ".join(filter(None, [layout, *description, described])), *notes])
    known: Values = {"groups": groups, "split": split, "static": static or None}
    return Dataset(series, **fields, **known, name=name, time_unit=unit, reading=reading)


def _without_row_numbers(table: Table) -> Table:
    """Row numbers, which pandas and R write in a column without a name, are no channel; dates there are times."""
    roles, notes = table.roles, list(table.notes)
    for name in [name for name in roles.channels if _ROW_NUMBERS.fullmatch(name) and table.options.columns is None]:
        column = table.frame[name]
        others = tuple(channel for channel in roles.channels if channel != name)
        if column.dtype.kind in "fiu":
            again = table.frame.assign(file=table.frame.index.get_level_values(0)).duplicated(["file", name])
            if column.isna().all() or ((column % 1 == 0).all() and not again.any()):  # they begin anew in each file
                roles = replace(roles, channels=others)
                notes.append(f"`{name}` left out (row numbers)")
        elif name == "Unnamed: 0" and roles.time is None and are_times(column):
            roles = replace(roles, channels=others, time=name)
        elif name == "Unnamed: 0":
            raise ValueError(
                f"Got the first column without a name, and {column.iloc[0]!r} in it; expected a name, or row numbers. "
                f"Write {setting('id', name)}, {setting('target', name)} or the like to say what it is."
            )
    if not roles.channels and roles.sensor is None:
        raise ValueError("Got no channel; expected a column of numbers beside ids, times and targets.")
    return replace(table, roles=roles, notes=tuple(notes))


def _with_one_hot(table: Table) -> Table:
    """A channel per word: `sex` with the words f and m becomes `sex=f` and `sex=m`, NaN where the cell is empty."""
    import pandas as pd

    roles, asked, frame = table.roles, table.options.one_hot or (), table.frame
    if asked is True:
        asked = [name for name in roles.channels if is_text(frame[name])]
    if any(name not in (*roles.channels, *roles.words) for name in asked):
        got = f"{setting('one_hot', list(asked))} and the channels {few(roles.channels)}"
        raise ValueError(f"Got {got}; expected some of these.")
    channels, all_words, columns, notes = list(roles.channels), {}, {}, list(table.notes)
    for name in dict.fromkeys([*asked, *roles.words]):
        cells = frame[name].where(~_is_no_label(frame[name]))
        if cells.dtype.kind == "f":  # 1.0 is the word 1, as it was before a gap made floats of it
            cells = cells.map(lambda x: f"{x:.0f}" if float(x).is_integer() else str(x), na_action="ignore")
        cells = cells.astype(object).map(lambda x: str(x).strip(), na_action="ignore")
        words = roles.words.get(name) or sorted(cells.dropna().unique())
        if (strange := cells.notna() & ~cells.isin(words)).any():
            row = int(np.argmax(strange))
            got = f"{cells.iloc[row][:40]!r} in column {name!r}"
            raise table.error(f"Got {got}; expected one of {few(words)}, which you gave.", row)
        if len(words) > _MOST_WORDS:
            got = f"{len(words)} different words in column {name!r}"
            raise ValueError(f"Got {got}; expected at most {_MOST_WORDS} for a channel each. Is it an id, or a note?")
        all_words[name] = words
        columns |= {f"{name}={word}": (cells == word).astype(float).where(cells.notna()) for word in words}
        place = channels.index(name) if name in channels else len(channels)
        channels[place : place + 1] = [f"{name}={word}" for word in words]
        notes.append(f"a channel per word of `{name}`")
    if table.options.columns is not None and roles.words:  # in the order asked for
        channels = list(map(str, table.options.columns))
    roles, frame = replace(roles, channels=tuple(channels), words=all_words), pd.DataFrame({**frame, **columns})
    return replace(table, frame=frame, roles=roles, notes=tuple(notes))


def _with_found_static(table: Table) -> Table:
    """Channels that are constant within each series, which no path can show, as what is known of it as a whole."""
    roles, options, frame = table.roles, table.options, table.frame
    if roles.id is None or roles.sensor is not None or options.columns is not None:
        return table
    asked = options.one_hot if isinstance(options.one_hot, Sequence) else ()
    names = [name for name in roles.channels if not (is_text(frame[name]) and frame[name].nunique() > _MOST_WORDS)]
    found = [name for name in _constant(frame[names], frame[roles.id]) if name not in asked]
    if not found or len(found) == len(roles.channels):
        return table
    channels = tuple(name for name in roles.channels if name not in found)
    notes = (*table.notes, f"static, because constant within each series: {listed(found)}")
    return replace(table, roles=replace(roles, channels=channels, static=tuple(found)), notes=notes)


def _constant(frame: Frame, owner: Column | np.ndarray) -> list[str]:
    """The columns whose values never change within a series, of those that several series have more than once."""
    frame = frame.where(~frame.apply(_is_no_label))
    groups = frame.groupby(owner)
    return [name for name in frame if groups[name].nunique().max() <= 1 and (groups[name].count() > 1).sum() > 1]


def _static_of_series(table: Table, rows: "RowOwners") -> dict[str, np.ndarray]:
    """What a table says of each series as a whole: numbers with NaN, or words with None."""
    found = {name: _one_each(table, name, "static", rows) for name in table.roles.static}
    for name, first in found.items():
        numeric = table.frame[name].dtype.kind in "fiub"
        found[name] = first.to_numpy(float) if numeric else first.astype(object).where(first.notna(), None).to_numpy()
    return found


def _check_numbers(table: Table) -> None:
    """Refuse channels that are not finite numbers, and words that would be numbers if an option said so."""
    for name in (*table.roles.target, *table.roles.static):
        cells: Column = table.frame[name]
        cells = cells[~_is_no_label(cells) & is_text(cells)].astype(str).drop_duplicates()
        advice = list(filter(None, map(numeral_advice, cells)))
        if advice and not to_numbers(cells, thousands=",").isna().any():
            raise ValueError(f"Got {cells.iloc[0]!r} in column {name!r}. Write {advice[0]}, if it is a number.")
    for name in table.roles.numeric:
        column = table.frame[name]
        if column.dtype.kind not in "fiub":
            row = int(np.argmax(without_number(column, to_numbers(column))))
            cell, without = str(column.iloc[row]), f"{setting('columns', [...])} without it"
            if advice := numeral_advice(cell):
                advice += ", if it is a number"
            elif table.roles.time is None and are_times(column):
                advice = f"{setting('time', name)} if it holds the times of the points, or {without}"
            else:
                advice = f"{without} to leave it out, or {setting('one_hot', [name])} for a channel per word"
                if "value" in map(str.lower, table.roles.channels):
                    sensor, value = setting("sensor", "column of names"), setting("value", "column of numbers")
                    advice += f", or say that the table is melted ({sensor}, {value})"
            raise table.error(f"Got {cell[:40]!r} in column {name!r}; expected a number. Write {advice}.", row)
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

    @property
    def names(self) -> np.ndarray | None:
        return None if self.ids is None else text_array(self.ids)

    def who(self, i: int) -> str:
        return f"series {i}" if self.ids is None else f"id {self.ids[int(i)]}"

    def of_whom(self, i: int) -> str:
        return "" if self.ids is None else f" for id {self.ids[int(i)]}"


def _has_lists(column: Column) -> bool:
    return column.dtype == object and any(isinstance(cell, np.ndarray | list) for cell in column)


def _exploded(table: Table) -> tuple[Table, RowOwners]:
    """A table of lists, of which a row is a series, with a row per point."""
    roles, frame = table.roles, table.frame
    columns = [*roles.channels, *([] if roles.time is None else [roles.time])]
    sizes = frame[columns].map(lambda cell: len(cell) if isinstance(cell, np.ndarray | list) else 0).to_numpy()
    wrong = (sizes != sizes[:, :1]) | (sizes == 0)
    rows = RowOwners.of(table, row_is_series=True)
    if wrong.any():
        row, column = (int(place[0]) for place in np.nonzero(wrong))
        raise table.error(
            f"Got for {rows.who(row)} in column {columns[column]!r} no list as long as that of {columns[0]!r}; "
            "expected lists of numbers, one for each channel of the series.",
            row,
        )
    points = frame.assign(**{name: frame[name].map(list) for name in columns}).explode(columns)
    for name in columns:
        if (
            points[name].dtype.kind == "O"
            and not without_number(points[name], numbers := to_numbers(points[name])).any()
        ):
            points[name] = numbers
    return replace(table, frame=points), RowOwners(np.repeat(rows.owner, sizes[:, 0]), rows.ids)


def _points(table: Table, rows: RowOwners) -> tuple[Frame, list[str], str | None, list[str], list[str]]:
    """The points of a long or melted table, the channels, the times' unit, and a description in parts and notes."""
    roles, frame, ids = table.roles, table.frame, rows.ids
    if roles.sensor is not None:
        if roles.time is None:
            got = f"{setting('sensor', roles.sensor)} and no column of times"
            raise ValueError(f"Got {got}; expected {setting('time')}, to know which values belong together.")
        if (absent := _is_no_label(frame[roles.sensor])).any():
            raise table.error(f"Got no name in column {roles.sensor!r}; expected one.", int(np.argmax(absent)))
    times, unit, kind = _times(table, rows)
    points = frame.assign(**{_OWNER: rows.owner}, **({} if times is None else {_TIME: times}))
    channels, whose = list(roles.channels), "one series" if ids is None else f"{len(ids)} series by `{roles.id}`"
    if roles.sensor is not None:
        names = [str(sensor) for sensor in frame[roles.sensor].unique()]
        channels = names if table.options.columns is None else list(map(str, table.options.columns))
        if lost := [sensor for sensor in channels if sensor not in names]:
            raise ValueError(f"Got no sensor {few(lost)}; expected one of {few(names)}.")
        points = points[points[roles.sensor].isin(channels)]
    points, notes = _merge_duplicates(table, points, rows, unit)
    if roles.sensor is not None:
        points = _pivoted(table, points, channels, rows)
        whose_channels = f"channels {listed(channels)} from `{roles.sensor}`"
    else:
        whose_channels = f"channels {listed(channels)}"
        if ids is not None and 1 < len(ids) < len(points) and (still := _constant(points[channels], points[_OWNER])):
            advice = f"({setting('columns', [...])} leaves columns out)"
            notes.append(f"constant within each series: {listed(still)} {advice}")
    timed = "" if roles.time is None else f"time from `{roles.time}` ({kind})"
    return points, channels, unit, [whose, timed, whose_channels], notes


def _pivoted(table: Table, points: Frame, channels: list[str], rows: RowOwners) -> Frame:
    """A row per point, of rows that each hold the value of one sensor."""
    roles, moments = table.roles, points.groupby([_OWNER, _TIME]).ngroups
    check_room(3 * 8 * float(moments) * len(channels), table.file, f"{moments} points of {len(channels)} sensors")
    points = points.pivot(index=[_OWNER, _TIME], columns=roles.sensor, values=roles.value)[channels].reset_index()
    if rows.ids is not None and len(lost := np.setdiff1d(np.arange(len(rows.ids)), points[_OWNER])):
        got = f"none of the sensors {few(channels)} for id {rows.ids[lost[0]]}"
        raise ValueError(f"Got {got}; expected values of one of them.")
    return points


def _times(table: Table, rows: RowOwners) -> tuple[np.ndarray | None, str | None, str]:
    import pandas as pd

    name, form = table.roles.time, table.options.time_format
    if name is None:
        if form is not None:
            raise ValueError(f"Got {setting('time_format', form)} and no column of times; expected {setting('time')}.")
        return None, None, ""
    try:
        times, unit, kind = as_times(table.frame[name], time_format=form)
    except WrongTime as error:
        got, divided, rest = str(error).partition(";")
        message = f"{got} in column {name!r}{divided}{rest}"
        if error.row is None:
            raise ValueError(message) from None
        advice = numeral_advice(str(table.frame[name].iloc[error.row]))
        raise table.error(message + (f" Write {advice}, if it is a number." if advice else ""), error.row) from None
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
    roles, how = table.roles, table.options.duplicates
    keys = [_OWNER, _TIME, *([] if roles.sensor is None else [roles.sensor])]
    if _TIME not in points or not (again := points.duplicated(keys).to_numpy()).any():
        return points, []
    count, first = int(again.sum()), points.iloc[int(np.argmax(again))]
    if how == "error":
        who = [] if rows.ids is None else [f"id {rows.ids[first[_OWNER]]}"]
        who += [] if roles.sensor is None else [f"sensor {first[roles.sensor]}"]
        whose = f" for {', '.join(who)}" if who else ""
        more = f" (and {count - 1} more such rows)" if count > 1 else ""
        by_name = f" The column {roles.time!r} was taken for the time by its name." if "time" in roles.guessed else ""
        raise replace(table, frame=points).error(
            f"Got the time {time_text(first[_TIME], unit)} twice{whose}{more}; expected times that differ, because a "
            f"path has one value at a time. Write {setting('duplicates', 'mean')}, {setting('duplicates', 'first')} or "
            f"{setting('duplicates', 'last')} to merge such rows.{by_name}",
            int(np.argmax(again)),
        )
    notes = [f"{count} rows of duplicated times merged ({how})"]
    if how != "mean":
        return points.drop_duplicates(keys, keep=how).sort_values(_OWNER, kind="stable"), notes
    targets = [*roles.target] if table.options.per_time else []
    groups = points.groupby(keys)
    if targets and (groups[targets].nunique() > 1).any(axis=None):
        raise ValueError(f"Got different targets at one time; expected one. Write {setting('duplicates', 'first')}.")
    return groups[[*roles.numeric, *targets]].mean().reset_index(), notes


def _packed(points: Frame, channels: Sequence[str], rows: RowOwners) -> Series:
    time = _TIME if _TIME in points else None
    series = Series.from_table(points, id=_OWNER, time=time, columns=list(channels))
    return replace(series, ids=rows.names)


def is_wide(table: Table) -> bool:
    """Whether a row is a series, and not a point: only if the columns' names say so; ReadError if nobody can tell."""
    roles, rows = table.roles, len(table.frame)
    if table.options.wide is not None:
        return table.options.wide
    if roles.time is not None or table.options.per_time or roles.words:
        return False
    unique = roles.id is not None and table.frame[roles.id].is_unique
    if roles.id is not None and (not unique or rows == 1):
        return False
    grid = numbered(roles.channels)
    if grid is not None:
        plain = all(map(_is_plain_number, roles.channels)) and bool(table.sources[0].named or roles.target)
        if unique or plain or len(next(iter(grid.values()))) >= _SERIES:
            return True
    if grid is None and not unique:
        return False
    raise ValueError(
        f"Got {rows} rows of the columns {few(roles.channels)}; expected several rows with one id, or times, to know "
        f"what a row is. Write {setting('wide', True)} if it is a series, or {setting('wide', False)} if it is a point."
    )


def _wide(table: Table, rows: RowOwners) -> tuple[Series, None, list[str], list[str]]:
    """The series of a table whose rows they are, with their points in numbered columns; see `_points`."""
    roles, frame = table.roles, table.frame
    if roles.time is not None:
        got = f"the time column {roles.time!r} in a wide table, whose rows are whole series"
        raise ValueError(f"Got {got}; expected none. Write {setting('wide', False)} for a row per point.")
    grid = numbered(roles.channels, strict=True) or {"x0": list(roles.channels)}
    channels = list(grid) if len(grid) > 1 else ["x0"]
    first, last = grid[next(iter(grid))], grid[list(grid)[-1]]
    values = np.stack([frame[names].to_numpy() for names in grid.values()], axis=2)
    lengths = lengths_without_gaps(values)
    series = Series(values[:, : lengths.max()], lengths=lengths, channels=channels, ids=rows.names)
    whose = f"{len(frame)} series, one per row" + (f", by `{roles.id}`" if roles.id else "")
    shape = f"{len(first)} points" if lengths.min() == len(first) else f"{lengths.min()} to {lengths.max()} points"
    named = f"channels {listed(channels)}" if len(channels) > 1 else "one channel"
    return series, None, [whose, named, f"{shape} ({first[0]} to {last[-1]})"], []


def _is_plain_number(name: str) -> bool:
    return re.fullmatch(r"-?\d+(\.\d+)?([eE][-+]?\d+)?", name) is not None


_NUMBER_LAST = re.compile(r"(?P<stem>.*?)[ _.-]?[\[(]?(?P<number>\d+)[\])]?")
_NUMBER_FIRST = re.compile(r"(?P<number>\d+)[ _.-](?P<stem>.*\D.*)")


def numbered(names: Sequence[str], *, strict: bool = False) -> dict[str, list[str]] | None:
    """The columns of each channel in the order of their numbers, as many of each; None if not all are numbered so.

    With `strict`, some that are numbered beside others that are not, or not as they are, are refused.

    >>> numbered(["x_0", "x_1", "y_0", "y_1"])
    {'x': ['x_0', 'x_1'], 'y': ['y_0', 'y_1']}
    >>> numbered(["pm2", "pm10", "no2"])
    """
    if all(map(_is_plain_number, names)):
        return {"x0": list(names)}
    for form in (_NUMBER_LAST, _NUMBER_FIRST):
        grid: dict[str, dict[int, str]] = {}
        for match in filter(None, map(form.fullmatch, names)):
            grid.setdefault(match["stem"], {})[int(match["number"])] = match.string
        numbers = [sorted(row) for row in grid.values()]
        alike = sum(map(len, numbers)) == len(names) and all(row == numbers[0] for row in numbers)
        if alike and len(numbers[0]) == numbers[0][-1] - numbers[0][0] + 1 > 1:
            return {stem: [row[i] for i in numbers[0]] for stem, row in grid.items()}
        if strict and max(map(len, numbers), default=0) > 1:
            others = [name for name in names if not any(name in row.values() for row in grid.values())]
            counts = ", ".join(f"{len(row)} of {stem!r}" for stem, row in list(grid.items())[:5])
            raise ValueError(
                f"Got the columns {counts}{f', and {few(others, 5)}' if others else ''}; expected as many columns, "
                f"numbered alike, for each channel. Say what the others are: {setting('static', [...])}, or name those "
                f"that count, {setting('columns', [...])}."
            )
    return None


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

    def text(name: str, role: str) -> np.ndarray:
        first = _one_each(table, name, role, rows)
        return text_array(first.map(str).where(first.notna(), "").to_numpy(object))

    targets = {name: text(name, "target") for name in (() if table.options.per_time else roles.target)}
    notes = []
    if targets and all((column == "").all() for column in targets.values()):
        targets, notes = {}, [f"no target: {listed(roles.target, quoted=True)} is empty"]
    others = {}
    for role, name in (("group", roles.group), ("split", roles.split)):
        others[role] = None if name is None else text(name, role)
        if name is not None and (empty := others[role] == "").any():
            raise ValueError(
                f"Got nothing for {rows.who(int(np.argmax(empty)))} in column {name!r}; expected a {role}."
            )
    labels = Labels(targets, others["group"], others["split"], notes)
    labelled = labels.labelled
    if labelled is not None and not labelled.all() and not table.options.drop_unlabelled:
        more = f" (and {int((~labelled).sum()) - 1} more)" if (~labelled).sum() > 1 else ""
        raise ValueError(
            f"Got nothing for {rows.who(int(np.argmin(labelled)))}{more} in column {roles.target[0]!r}; expected a "
            f"target for each series. Write {setting('drop_unlabelled', True)} to leave such series out."
        )
    return labels


def _one_each(table: Table, name: str, role: str, rows: RowOwners) -> Column:
    """The one value that the rows of each series have in a column; NaN where they have none."""
    column = table.frame[name].reset_index(drop=True)
    cells = column.where(~_is_no_label(column))
    first = cells.groupby(rows.owner).first()  # that is there
    own = first.reindex(rows.owner).reset_index(drop=True)
    differs = cells.notna() & (cells != own)
    if differs.any():
        row, hint = int(np.argmax(differs)), ""
        if role == "target":
            hint = f" Write {setting('per_time', True)} for a target at each point"
            hint += f", or {setting('wide', True)} if a row is a series." if rows.ids is None else "."
        elif rows.ids is None:
            hint = f" Write {setting('id', name)} if it says which series a row belongs to."
        both = f"both {str(own[row])!r} and {str(cells[row])!r} in column {name!r}"
        raise table.error(f"Got for {rows.who(rows.owner[row])} {both}; expected one for all its rows.{hint}", row)
    return first


def _with_point_targets(table: Table, task: Task | None) -> tuple[Table, tuple[str, ...] | None, str]:
    """A long table with its targets as numbers, NaN where there is none; the names of classes, and what they are."""
    names, frame = table.roles.target, table.frame
    if not names:
        raise ValueError(f"Got {setting('per_time', True)} without a target; expected {setting('target', 'column')}.")
    if len(names) > 1 and task == "classification":
        raise ValueError(f"Got the targets {list(names)} for a classification; expected one.")
    columns, classes, described = {}, None, ""
    for name in names:
        there = ~_is_no_label(frame[name])
        target, asked = np.full(len(frame), np.nan), task if len(names) == 1 else "regression"
        labels = frame[name].to_numpy(object)[there].astype(str)
        target[there], classes, described = classes_or_numbers(labels, name, asked)
        columns[name] = target
    described = f"target {listed(names, quoted=True)} at each point ({described})"
    return replace(table, frame=frame.assign(**columns)), classes, described


def _is_no_label(column: Column) -> np.ndarray:
    """Which cells name no class, group or series."""
    absent = column.isna()
    if column.dtype.kind not in "fiub":
        absent |= column.astype(str).str.strip().str.lower().isin(NO_LABEL)
    return absent.to_numpy(bool)


def listed(names: Sequence[str], *, quoted: bool = False) -> str:
    names = [f"`{name}`" if quoted else name for name in names]
    return ", ".join(names if len(names) <= 8 else [*names[:6], f"... ({len(names)} in all)"])


def text_array(texts: np.ndarray) -> np.ndarray:
    """Strings as NumPy keeps them, in equal widths, unless one long one would make them large."""
    if 4 * max(map(len, texts), default=0) * len(texts) > 2**26:
        return texts
    return np.array([str(text) for text in texts])
