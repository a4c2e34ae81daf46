"""A table of which nothing was said: its columns with samples, and the command line that would probably read it.

Every guess is shown, none is acted on. A proposal is made only if the table can be read as it says.
"""

import re
import shlex
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

from ...datasets import Dataset, ReadError, read
from ...datasets._read import reader_of
from ...datasets.columns import Column, Frame
from ...datasets.table import USUAL
from ...datasets.times import are_times
from .console import FAILED, Refusal, count
from .console import table as as_table
from .flags import OFF, Table
from .loading import open_data, targets

# Words in the names of columns, in English and German. What is in the columns decides first.
_ID = r"id|nr|no|number|name|key|case|fall|series|serie|record\w*|episode|session|trial|run|unit|device|mas?chine?|file"
_GROUP = rf"{_ID}|pat\w*|subj\w*|person\w*|proband\w*|speaker|participant\w*|donor|animal|owner|ward|site|station"
_TARGET = (
    r"target|label\w*|class\w*|klasse|outcome|ergebnis|diagnos\w*|ill|sick|krank|died|state|status|fault|fail\w*|y"
)
_STATIC = r"age|alter|sex|gender|geschlecht|weight|gewicht|height|bmi"
# More values than this are hardly classes, and fewer hardly patients.
_FEW = 10
_COLUMNS = 30


def open_or_propose(word: str | None, table: Table, *, to_fit: bool = False) -> Dataset:
    """`open_data`; what is refused comes with a proposal, where there is one."""
    try:
        found = {"static": True} if to_fit and word and Path(word).expanduser().exists() else {}
        data = open_data(word, {**found, **table})
        if to_fit:
            targets(data)
        return data
    except (ReadError, Refusal) as error:
        if (text := proposed(word, table, refused=True)) is None:
            raise
        code = error.code if isinstance(error, Refusal) else FAILED
        raise Refusal(f"{error}\n\n{text}", code) from None


def proposed(word: str | None, table: Table, *, refused: bool = False) -> str | None:
    """The columns of a table and a command line that reads it; None if nobody knows one, or it is no table.

    A table that is `refused` as it is gets one without a target, too.
    """
    path = Path(word or "").expanduser()
    try:
        open_table = reader_of(path).table if word and path.is_file() else None
        if open_table is None:
            return None
        source, signs = (
            open_table(path, table.get("header")),
            [table] if "decimal" in table else [table, {"decimal": ","}],
        )
        frames = [source.frame(source.names, text=(), **_signs(one)) for one in signs]
        kinds = [{name: _kind(frame[name]) for name in frame} for frame in frames]
        words_in = [list(one.values()).count("words") for one in kinds]
        best = words_in.index(min(words_in))  # decimal commas, if they make numbers of words
        frame, kinds = frames[best], kinds[best]
        options = guessed(frame, kinds, table | _signs(signs[best]))
        if options == table or (read(path, **options).target is None and not refused):
            return None
    except (ReadError, TypeError, ValueError):
        return None
    columns = []
    for name in [*frame][:_COLUMNS]:
        some = [str(cell)[:20] for cell in frame[name].drop_duplicates().iloc[:4]]
        columns.append((name, f"{frame[name].nunique():,} {kinds[name]}", ", ".join(filter(None, some))))
    words = ["neuralrde", "fit", str(path)]
    for name, value in options.items():
        if isinstance(value, bool):
            words.append(f"--{name.replace('_', '-')}" if value else OFF[name])
        else:
            words += [f"--{name.replace('_', '-')}", ",".join(value) if isinstance(value, list) else str(value)]
    lines = [f"{path.name} has {count(len(kinds), 'column')}:"]
    lines += [as_table(columns, header=["name", "what is in it", "samples"])]
    lines += [f"  ... and {len(kinds) - _COLUMNS} more"] if len(kinds) > _COLUMNS else []
    lines += ["", "It can be read like this; change what was guessed wrongly:", f"  {shlex.join(words)}"]
    if left := [name for name in kinds if "columns" in options and kinds[name] == "words" and name not in words]:
        lines.append(f"  (left out, because they hold no numbers: {', '.join(left)})")
    if not {"target", "labels"} & {*options}:
        lines.append("  (no column looks like the target: name it with --target, and --per-time if it changes)")
    return "\n".join(lines)


def _signs(table: Table) -> Table:
    return {name: table[name] for name in ("decimal", "thousands") if name in table}


def guessed(frame: Frame, kinds: dict[str, str], given: Table) -> Table:
    """Options of `read` for a table of points, a DataFrame. What is given is kept, unless it names no column."""
    listed = lambda value: [str(one) for one in value] if isinstance(value, list) else [str(value)]
    roles = (*USUAL, "sensor", "value", "columns")
    guess = {role: value for role, value in given.items() if role not in roles or {*listed(value)} <= {*frame}}
    taken = {name for role in roles if role in guess for name in listed(guess[role])}
    distinct, rows = frame.nunique(), len(frame)

    def free(*wanted: str) -> list[str]:
        return [name for name in frame if name not in taken and (not wanted or kinds[name] in wanted)]

    def take(role: str, names: Iterable[str]) -> str | None:
        """The column of a role: given, known by its name, or the first of these."""
        usual = [name for name in free() if name.lower() in USUAL[role]]
        if role not in guess and (found := next(iter([*usual, *names]), None)) is not None:
            guess[role] = found
            taken.add(found)
        return guess.get(role)

    time = take("time", sorted(free("dates or times"), key=lambda name: -distinct[name]))
    ids = [name for name in free("words", "whole numbers") if 2 <= distinct[name] <= rows / 2]
    ids = [name for name in ids if kinds[name] == "words" or _named(name, _ID) or _in_blocks(frame[name])]
    ids = [name for name in ids if (frame.duplicated([name, time]).mean() < 0.05 if time else _in_blocks(frame[name]))]
    id = take("id", sorted(ids, key=lambda name: -distinct[name]))
    owner = np.zeros(rows, int) if id is None else frame.groupby(id, sort=False).ngroup().to_numpy()
    if id is not None:  # numbers that rise within every series
        take("time", (name for name in free("numbers", "whole numbers") if _rises(frame[name], owner)))
    still = [] if id is None else [name for name in free() if (frame[name].groupby(owner).nunique() <= 1).all()]
    first = frame[still].iloc[np.unique(owner, return_index=True)[1]]
    groups = [name for name in still if is_shared(name, first[name].to_numpy())]
    if "labels" not in given:  # names that say so, then words, then numbers, each from the last column to the first
        names = [name for name in still if name not in groups and distinct[name] > 1]
        few = [name for name in names if distinct[name] <= len(first) / 2 and not _named(name, _STATIC)]
        few = [name for name in few if kinds[name] == "words"] or few
        take("target", [*(name for name in names if _named(name, _TARGET)), *reversed(few)])
    take("group", groups)
    if free("words", "dates or times") and not {"columns", "one_hot", "sensor"} & {*guess}:
        guess["columns"] = free("numbers", "whole numbers")
    return guess


def is_shared(name: str, values: np.ndarray) -> bool:
    """Whether what is constant within each series may name a patient: several series share a value, on average.

    >>> is_shared("pat_id", np.arange(120) // 6), is_shared("x", np.arange(120) % 2), is_shared("age", np.arange(50))
    (True, False, False)
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
    columns = {name: values[:, 0, c] for c, name in enumerate(data.series.channels)
               if ((values[..., c] == values[:, :1, c]) | ~valid).all()}  # fmt: skip
    columns |= {} if data.static is None else {name: data.static[name].to_numpy() for name in data.static}
    for name, first in columns.items():
        if (first.dtype.kind not in "fiub" or (first == np.round(first)).all()) and is_shared(name, first):
            yield (
                f"{name} is constant within each series, and {len(first):,} series share {len(np.unique(first)):,} "
                f"values of it: if it names a patient or the like, --group {shlex.quote(name)} keeps each in one part, "
                "because a random split would leak"
            )


def _kind(column: Column) -> str:
    if column.dtype.kind in "fiub":
        values = column.to_numpy(float)
        return "whole numbers" if (values == np.round(values))[~np.isnan(values)].all() else "numbers"
    cells = column.iloc[:1000]
    try:
        return _kind(cells.where(cells != "").astype(float))
    except (TypeError, ValueError):
        return "dates or times" if are_times(cells) else "words"


def _named(name: str, words: str) -> bool:
    """Whether a part of a column's name is one of these words: `pat_id`, `machineNo`."""
    parts = re.split(r"[\W_]+|(?<=[a-z])(?=[A-Z])", name)
    return any(re.fullmatch(words, part.lower()) for part in parts)


def _in_blocks(column: Column) -> bool:
    """Whether equal cells stand one below the other."""
    return int((column != column.shift()).sum()) == column.nunique(dropna=False)


def _rises(column: Column, owner: np.ndarray) -> bool:
    steps = np.diff(column.to_numpy(float))[owner[1:] == owner[:-1]]
    return bool(len(steps) and (steps > 0).all())
