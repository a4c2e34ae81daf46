"""From a table to a data set: which layout it has, and what all layouts check first."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np

from ..dataset import Dataset
from ..errors import ReadError
from ..targets import Task
from ..text import is_missing, is_no_label
from .long import from_long, from_melted
from .table import Table, TableOptions, each_distinct, few
from .times import are_times
from .wide import from_lists, from_wide, has_lists, is_wide

_ROW_NUMBERS = re.compile(r"Unnamed: \d+|__index_level_\d+__")
_MOST_WORDS = 100


@runtime_checkable
class Load(Protocol):
    """What reads a file as a table."""

    def __call__(self, path: str | Path, options: TableOptions, *, channels_needed: bool = True) -> Table: ...


def read_table(load: Load, path: str | Path, task: Task | None, name: str | None, options: dict[str, Any]) -> Dataset:
    """Read a table of series from a file; the options are those of `read`."""
    known = TableOptions.of(options)
    return from_table(load(path, known), known, task=task, name=name or Path(path).name.split(".")[0])


def from_table(table: Table, options: TableOptions, *, task: Task | None = None, name: str = "data") -> Dataset:
    """The series of a table, and in one sentence how it was understood (`Dataset.reading`)."""
    if len(table.frame) == 0:
        raise table.error("Got column names and no rows; expected series.")
    _set_row_numbers_aside(table, options)
    _check_ids(table)
    try:
        if has_lists(table):
            return from_lists(table, options, task, name)
        _check_numbers(table, options)
        if table.roles.sensor is not None:
            return from_melted(table, options, task, name)
        if is_wide(table, options):
            return from_wide(table, options, task, name)
        return from_long(table, options, task, name)
    except (TypeError, ValueError) as error:
        raise error if isinstance(error, ReadError) else table.error(str(error)) from None


def _set_row_numbers_aside(table: Table, options: TableOptions) -> None:
    """Row numbers, which pandas and R write in a column without a name, are no channel; dates there are times."""
    roles = table.roles
    for name in [name for name in roles.channels if _ROW_NUMBERS.fullmatch(name) and options.columns is None]:
        column = table.frame[name]
        others = tuple(channel for channel in roles.channels if channel != name)
        if column.dtype.kind in "fiu":
            values, start, numbers = column.to_numpy(np.float64), 0, True
            for source in table.sources:
                part = values[start : start + len(source.rows)]
                start += len(part)
                numbers = numbers and len(np.unique(part)) == len(part) and (part == np.floor(part)).all()
            if numbers or np.isnan(values).all():
                roles = replace(roles, channels=others)
                table.notes.append(f"`{name}` left out (row numbers)")
        elif name == "Unnamed: 0" and roles.time is None and are_times(column):
            roles = replace(roles, channels=others, time=name)
        elif name == "Unnamed: 0":
            raise table.error(
                f"Got the first column without a name, and {column.iloc[0]!r} in it; expected a name, or row numbers. "
                'Write `id="Unnamed: 0"`, `target="Unnamed: 0"` or the like to say what it is.'
            )
    if not roles.channels and roles.sensor is None:
        raise table.error("Got no channel; expected a column of numbers beside ids, times and targets.")
    table.roles = roles


def _check_ids(table: Table) -> None:
    if table.roles.id is None:
        return
    absent = each_distinct(table.frame[table.roles.id], is_no_label).astype(bool)
    if absent.any():
        raise _without_ids(table).error(
            f"Got a row without {table.roles.id!r}; expected one in each, because it belongs to no series without.",
            int(np.argmax(absent)),
        )


def _without_ids(table: Table) -> Table:
    """The table without its ids, for an error about a row that has none."""
    return replace(table, roles=replace(table.roles, id=None))


def _check_numbers(table: Table, options: TableOptions) -> None:
    """Channels are finite numbers; columns of words become a channel per word, if asked for."""
    _spread_words(table, options)
    roles = table.roles
    for name in roles.numeric:
        column = table.frame[name]
        if column.dtype.kind not in "fiub":
            row, cell = table.words.get(name, (0, str(column.iloc[0])))
            melted = ' or the table is melted (`sensor="column of names"`, `value="column of numbers"`)'
            if roles.time is None and are_times(column):
                advice = f"Write `time={name!r}` if it holds the times of the points, or `columns=[...]` without it."
            else:
                advice = (
                    f"Write `columns=[...]` without it to leave it out, or `one_hot=[{name!r}]` for a channel per "
                    f"word, if it holds words{melted if 'value' in map(str.lower, roles.channels) else ''}."
                )
            raise table.error(f"Got {cell[:40]!r} in column {name!r}; expected a number. {advice}", row)
        values = column.to_numpy()
        if values.dtype.kind == "f" and np.isinf(values).any():
            raise table.error(
                f"Got infinity in column {name!r}; expected finite numbers, or an empty cell where there is none.",
                int(np.argmax(np.isinf(values))),
            )


def _spread_words(table: Table, options: TableOptions) -> None:
    """One-hot channels: `sex` with the words f and m becomes `sex=f` and `sex=m`, NaN where the cell is empty."""
    roles, asked = table.roles, options.one_hot or ()
    if asked is True:
        asked = [name for name in roles.channels if table.frame[name].dtype.kind == "O"]
    unknown = [name for name in asked if name not in (*roles.channels, *roles.words)]
    if unknown:
        raise table.error(
            f"Got `one_hot={list(asked)}` and the channels {few(roles.channels)}; expected some of these."
        )
    channels, all_words = list(roles.channels), {}
    for name in dict.fromkeys([*asked, *roles.words]):
        cells = np.array([_word(cell) for cell in table.frame[name]], dtype=object)
        absent = np.array([is_missing(cell) for cell in cells])
        words = roles.words.get(name) or sorted(set(cells[~absent]))
        strange = ~absent & ~np.isin(cells.astype(str), words)
        if strange.any():
            row = int(np.argmax(strange))
            raise table.error(
                f"Got {cells[row][:40]!r} in column {name!r}; expected one of {few(words)}, which you gave.", row
            )
        if len(words) > _MOST_WORDS:
            raise table.error(
                f"Got {len(words)} different words in column {name!r}; expected at most {_MOST_WORDS} for a channel "
                "each. Is it an id, or a note?"
            )
        spread = [f"{name}={word}" for word in words]
        for channel, word in zip(spread, words, strict=True):
            table.frame[channel] = np.where(absent, np.nan, (cells == word).astype(np.float64))
        place = channels.index(name) if name in channels else len(channels)
        channels[place : place + 1] = spread
        all_words[name] = words
        table.notes.append(f"a channel per word of `{name}`")
    if options.columns is not None and roles.words:  # in the order asked for
        channels = [str(name) for name in options.columns]
    table.roles = replace(roles, channels=tuple(channels), words=all_words)


def _word(cell: object) -> str:
    if isinstance(cell, float | np.floating):
        return "" if np.isnan(cell) else str(int(cell)) if float(cell).is_integer() else str(cell)
    return str(cell).strip()
