"""A table of which nothing was said: its columns with samples, and the command line that would probably read it.

Every guess is shown, none is acted on. A proposal is made only if the table can be read as it says.
"""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..datasets import Dataset, ReadError, read
from ..datasets.readers import reader_of
from ..datasets.roles import USUAL, TableOptions
from ..datasets.table import numbered
from ..datasets.times import DayOrMonth, WrongTime, are_times, as_times
from .console import FAILED, Refusal, count
from .console import table as as_table
from .flags import OFF
from .loading import open_data, targets

# Words in the names of columns, in English and German. What is in the columns decides first.
_ID = r"id|nr|no|number|name|key|case|fall|series|serie|record\w*|episode|session|trial|run|unit|device|mas?chine?|file"
_GROUP = rf"{_ID}|pat\w*|subj\w*|person\w*|proband\w*|speaker|participant\w*|donor|animal|owner|ward|site|station"
_TARGET = (
    r"target|label\w*|class\w*|klasse|outcome|ergebnis|diagnos\w*|ill|sick|krank|died|state|status|fault|fail\w*|y"
)
_SENSOR = r"sensor|variable|parameter|channel|kanal|signal|feature|item|measure"
_VALUE = r"val|value|wert|measurement|reading"
_STATIC = r"age|alter|sex|gender|geschlecht|weight|gewicht|height|bmi"
# More values than this are hardly classes, and fewer hardly patients.
_FEW = 10
_COLUMNS = 30


@dataclass(frozen=True)
class Proposal:
    """How a table is probably to be read: options of `read`, what speaks against them, and its columns in words."""

    options: dict[str, Any]
    notes: list[str]
    columns: list[tuple[str, str, str]]
    """Of each: its name, what is in it, and samples."""


def open_or_propose(word: str | None, table: dict[str, Any], *, to_fit: bool = False) -> Dataset:
    """`open_data`; what is refused comes with a proposal, where there is one."""
    try:
        data = open_data(word, table)
        if to_fit:
            targets(data)
        return data
    except (ReadError, Refusal) as error:
        if (text := proposed(word, table, refused=True)) is None:
            raise
        code = error.code if isinstance(error, Refusal) else FAILED
        raise Refusal(f"{error}\n\n{text}", code) from None


def proposed(word: str | None, table: dict[str, Any], *, refused: bool = False) -> str | None:
    """The columns of a table and a command line that reads it; None if nobody knows one, or it is no table.

    A table that is `refused` as it is gets one without a target, too.
    """
    path = Path(word or "").expanduser()
    try:
        load = reader_of(path).load if word and path.is_file() else None
        if load is None:
            return None
        how = {name: table[name] for name in ("header", "decimal", "thousands") if name in table}
        found = propose(load(path, TableOptions(**how), channels_needed=False).frame, table)
        if "labels_id" in found.options and "labels" not in table:
            labels = f"{path.name} has a row per series and no points: SERIES is the table that has them"
            options = {"labels": str(path), **found.options}
            return as_text(path, Proposal(options, [labels], found.columns), data="SERIES")
        if found.options == table or (read(path, **found.options).target is None and not refused):
            return None
    except (ReadError, TypeError, ValueError):
        return None
    return as_text(path, found, data=str(path))


def as_text(path: Path, found: Proposal, *, data: str) -> str:
    """The proposal for people, with the whole command to copy."""
    shown, more = found.columns[:_COLUMNS], len(found.columns) - _COLUMNS
    lines = [f"{path.name} has {count(len(found.columns), 'column')}:"]
    lines += [as_table(shown, header=["name", "what is in it", "samples"])]
    lines += [f"  ... and {more} more"] if more > 0 else []
    lines += ["", "It can be read like this; change what was guessed wrongly:"]
    words = ["neuralrde", "fit", data]
    for name, value in found.options.items():
        flag = f"--{name.replace('_', '-')}"
        if isinstance(value, bool):
            words.append(flag if value else OFF[name])
        else:
            words += [flag, ",".join(value) if isinstance(value, list) else str(value)]
    return "\n".join([*lines, f"  {shlex.join(words)}", *(f"  ({note})" for note in found.notes)])


def propose(frame: Any, given: dict[str, Any]) -> Proposal:
    """What each column of a table probably is. What is given is kept.

    Args:
        frame: the table as text and numbers, a DataFrame of pandas.
        given: options of `read` that are known.
    """
    named = {role: _flat([given.get(role)]) for role in (*USUAL, "sensor", "value", "columns")}
    wrong = [role for role, names in named.items() if not {*map(str, names)} <= {*frame}]  # misspelt, perhaps
    guess, rows = {role: value for role, value in given.items() if role not in wrong}, len(frame)
    kinds = {name: _kind(frame[name]) for name in frame}
    distinct = {name: frame[name].nunique() for name in frame}
    taken = {str(one) for one in _flat(guess.get(role) for role in named)}

    def free(*wanted: str) -> list[str]:
        return [name for name in frame if kinds[name] in wanted and name not in taken]

    def take(role: str, names: list[str]) -> str | None:
        """The column of a role: given, known by its name, or the first of these."""
        usual = [name for name in frame if name.lower() in USUAL.get(role, ()) and name not in taken]
        if role not in guess and (found := next(iter([*usual, *names]), None)) is not None:
            guess[role] = found
            taken.add(found)
        return guess.get(role)

    notes = []
    single = [name for name in free("words") if distinct[name] == rows > 2]
    wide = numbered(free("numbers", "whole numbers"))
    if "time" not in given and "dates or times" not in kinds.values() and (wide is not None or single):
        # A row is a series, with its points or with its label only.
        points = [] if wide is None else [name for channel in wide[0].values() for name in channel]
        take("labels_id" if wide is None else "id", single)
        take("target", _targets([name for name in frame if name not in (*points, *taken)], frame, distinct))
        return Proposal(guess, notes, _columns(frame, kinds, distinct))

    dates = sorted(free("dates or times"), key=lambda name: -distinct[name])
    time = take("time", dates)
    sensor = None
    if "sensor" in given or (values := [name for name in free("numbers", "whole numbers") if _named(name, _VALUE)]):
        names = [name for name in free("words") if _named(name, _SENSOR) and distinct[name] <= rows / 2]
        if (sensor := take("sensor", names)) is not None:
            take("value", values if "sensor" not in given else [])
    ids = [name for name in free("words", "whole numbers") if 2 <= distinct[name] <= rows / 2]
    ids.sort(key=lambda name: -distinct[name])
    key = [name for name in (time, sensor) if name is not None]
    id = take("id", [name for name in ids if _divides(frame, name, key, kinds[name] == "words")])
    owner = np.zeros(rows, int) if id is None else frame.groupby(id, sort=False).ngroup().to_numpy()
    if time is None and id is not None:  # numbers that rise within every series
        time = take("time", [name for name in free("numbers", "whole numbers") if _rises(frame[name], owner)])
        key = [name for name in (time, sensor) if name is not None]
    if time is not None and (again := int(frame.duplicated([*key, *([] if id is None else [id])]).sum())):
        guess.setdefault("duplicates", "mean")
        notes.append(f"{count(again, 'row')} repeat a time of their series: the mean is taken")
    if time is not None and "time_format" not in guess and _is_ambiguous(frame[time]):
        guess["time_format"] = "day-first"
        notes.append("no date tells whether the day or the month comes first: day-first or month-first")

    still = [name for name in frame if name not in taken and _constant(frame[name], owner)] if id is not None else []
    first = frame[still].iloc[np.unique(owner, return_index=True)[1]]
    groups = [name for name in still if is_shared(name, first[name].to_numpy())]
    if "labels" not in given:
        take("target", _targets([name for name in still if name not in groups], first, distinct))
        if "target" not in guess and take("target", [name for name in free(*kinds.values()) if _named(name, _TARGET)]):
            guess["per_time"] = True
        elif "target" not in guess:
            notes.append("no column looks like the target: name it with --target, and --per-time if it changes")
    take("group", groups)
    left = free("words", "dates or times")
    if left and sensor is None and "columns" not in guess and "one_hot" not in guess:
        guess["columns"] = free("numbers", "whole numbers")
        notes.append(f"left out, because they hold no numbers: {', '.join(left)}")
    return Proposal(guess, notes, _columns(frame, kinds, distinct))


def is_shared(name: str, values: np.ndarray) -> bool:
    """Whether what is constant within each series may name a patient: several series share a value, on average.

    >>> is_shared("pat_id", np.arange(120) // 6), is_shared("x", np.arange(120) % 2), is_shared("age", np.arange(50))
    (True, False, False)

    Args:
        name: of the column.
        values: one per series.
    """
    different = len(set(values.tolist()))
    if different < 2 or 2 * different > len(values) or _named(name, _STATIC):
        return False
    return different > _FEW or _named(name, _GROUP)


def group_hints(data: Dataset) -> Iterator[str]:
    """Columns among the channels that may be patients: a random split would have some of each in every part."""
    if data.groups is not None:
        return
    values, valid = data.series.values, data.series.valid
    for c, name in enumerate(data.series.channels):
        first = values[:, 0, c]
        constant = ((values[..., c] == first[:, None]) | ~valid).all() and (first == np.round(first)).all()
        if constant and is_shared(name, first):
            yield (
                f"{name} is constant within each series, and {len(first):,} series share {len(np.unique(first)):,} "
                f"values of it: if it names a patient or the like, --group {shlex.quote(name)} keeps each in one part, "
                "because a random split would leak"
            )


def _kind(column: Any) -> str:
    if column.dtype.kind in "fiub":
        values = column.to_numpy(float)
        return "whole numbers" if (values == np.round(values))[~np.isnan(values)].all() else "numbers"
    cells = column.iloc[:1000]
    try:
        return _kind(cells.where(cells != "").astype(float))
    except (TypeError, ValueError):
        return "dates or times" if are_times(cells) else "words"


def _columns(frame: Any, kinds: dict[str, str], distinct: dict[str, int]) -> list[tuple[str, str, str]]:
    rows = []
    for name in frame:
        some = [str(cell)[:20] for cell in frame[name].drop_duplicates().iloc[:4]]
        rows.append((name, f"{distinct[name]:,} {kinds[name]}", ", ".join(filter(None, some))))
    return rows


def _named(name: str, words: str) -> bool:
    """Whether a part of a column's name is one of these words: `pat_id`, `machineNo`."""
    parts = re.split(r"[\W_]+|(?<=[a-z])(?=[A-Z])", name)
    return any(re.fullmatch(words, part.lower()) for part in parts)


def _targets(names: list[str], frame: Any, distinct: dict[str, int]) -> list[str]:
    """Columns that may be predicted, the likeliest first: by name, then words, then the last one."""
    names = [name for name in names if distinct[name] > 1]
    likely = [name for name in names if _named(name, _TARGET)]
    words = [name for name in names if distinct[name] <= len(frame) / 2 and not _named(name, _STATIC)]
    words.sort(key=lambda name: frame[name].dtype.kind != "O")
    last = [name for name in reversed(words) if frame[name].dtype.kind == frame[words[0]].dtype.kind]
    return [*likely, *last]


def _divides(frame: Any, name: str, key: list[str], words: bool) -> bool:
    """Whether a column tells series apart: at hardly any time has a series of its two rows."""
    codes = frame[name].to_numpy()
    blocks = int((codes[1:] != codes[:-1]).sum()) + 1 == len(set(codes.tolist()))
    if not (blocks or words or _named(name, _ID)):
        return False
    return blocks if not key else bool(frame.duplicated([name, *key]).mean() < 0.05)


def _is_ambiguous(times: Any) -> bool:
    try:
        as_times(times)
    except WrongTime as error:
        return isinstance(error, DayOrMonth)
    return False


def _rises(column: Any, owner: np.ndarray) -> bool:
    values = column.to_numpy(float)
    same = owner[1:] == owner[:-1]
    return bool(same.any() and (np.diff(values)[same] > 0).all())


def _constant(column: Any, owner: np.ndarray) -> bool:
    return bool((column.groupby(owner).nunique() <= 1).all())


def _flat(values: Any) -> list[Any]:
    return [one for value in values if value is not None for one in (value if isinstance(value, list) else [value])]
