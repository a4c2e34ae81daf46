"""The `.ts` format of sktime and aeon: a header, then one line per series, with colons between channels.

aeon's own reader drops time stamps, signs and whole numbers beside them, and the case of labels, and it
imports pandas, numba and scikit-learn; so this is our own. The tests compare the two where they agree.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ..errors import few
from ..paths import Series
from .dataset import Dataset, safe_name
from .files import NO_LABEL, ReadError, lengths_without_gaps, naming, numbers, open_text
from .targets import Task
from .times import seconds

# A point with its time, such as (0.5,12.1) or (2024-01-01 00:00:00,12.1).
_POINT = re.compile(r"\(([^(),]*),([^(),]*)\)")
# Colons divide channels; those within parentheses belong to clock times.
_PARENTHESES_OR_COLON = re.compile(r"\([^()]*\)|:")
# Longer rows are taken in pieces, because a list of Python's numbers is several times as large as an array.
_PIECE = 1 << 16
_NO_FLOAT = "could not convert string to float: "


def read_ts(path: str | Path, *, task: Task | None = None, name: str | None = None) -> Dataset:
    """Read a `.ts` file: series of any lengths, with missing values and time stamps, classes or numbers.

    The header says what the target is and whether points have times; what it says of lengths, channels and
    missing values is not relied upon, as files contradict it. Points at the end of a series that are missing
    in all channels are padding, unless they have times. If the channels of a series are stamped with
    different times, their times are joined and what a channel lacks is missing.

    Args:
        path: the file, which may be gzipped.
        task: None believes the header; "regression" reads class labels as numbers.
        name: of the data set; None takes the header's or the file's.
    """
    with open_text(path) as lines, naming(path):
        numbered = numbered_lines(lines, "#%")
        header = _header(numbered, path)
        labelled = header.classes is not None or header.regression

        def split(line: str) -> tuple[list[str], str | None]:
            channels = split_outside_parentheses(line) if header.timed else line.split(":")
            return channels, channels.pop().strip() if labelled else None

        points = "points `(time,value)`" if header.timed else "numbers"
        expected = f"{points} divided by commas, or ? where one is missing"
        series = read_series(numbered, split, path, expected, timed=header.timed)
    regression = task == "regression" or (header.regression and task is None)
    name = name or safe_name(header.name, safe_name(Path(path).name.split(".")[0]))
    return series.labelled(path, classes=header.classes, regression=regression, task=task, name=name)


def numbered_lines(lines: Iterable[str], comments: str) -> Iterator[tuple[int, str]]:
    return (
        (number, text) for number, line in enumerate(lines, 1) if (text := line.strip()) and text[0] not in comments
    )


class Lines(NamedTuple):
    """Series from the lines of a file, and their labels in text."""

    points: list[np.ndarray]
    clocks: list[np.ndarray] | None
    labels: list[str]
    at: list[int]

    def labelled(
        self, file: str | Path, *, classes: Sequence[str] | None, regression: bool, task: Task | None, name: str
    ) -> Dataset:
        target, names = read_labels(self.labels, self.at, file, classes=classes, regression=regression)
        with naming(file):
            series = Series.from_arrays(self.points, times=self.clocks)
            return Dataset(series, target, task=task if names is None else None, classes=names, name=name)


def read_series(
    lines: Iterable[tuple[int, str]],
    split: Callable[[str], tuple[list[str], str | None]],
    file: str | Path,
    expected: str,
    *,
    timed: bool = False,
) -> Lines:
    """A series per line, which `split` divides into the texts of its channels and its label."""
    points, clocks, labels, at = [], [], [], []
    for number, line in lines:
        try:
            channels, label = split(line)
            if points and len(channels) != points[0].shape[1]:
                got = f"{len(channels)} channels beside {points[0].shape[1]} in line {at[0]}"
                raise ReadError(file, f"Got {got}; expected as many in each. Is a label or channel left out?", number)
            if not channels:
                raise ReadError(file, "Got a label without a series; expected `1.0,2.0:label`.", number)
            values, clock = _timed(channels) if timed else _untimed(channels)
        except ReadError:
            raise
        except (ArithmeticError, ValueError) as error:
            got = str(error).removeprefix(_NO_FLOAT)[:80]
            raise ReadError(file, f"Got {got}; expected {expected}.", number) from None
        points.append(values)
        clocks.append(clock)
        labels += [] if label is None else [label]
        at.append(number)
    if not points:
        raise ReadError(file, "Got a header and no series; expected one line per series after @data.")
    return Lines(points, clocks if timed else None, labels, at)


class _Header(NamedTuple):
    """What the header says and is believed."""

    name: str = ""
    timed: bool = False
    classes: tuple[str, ...] | None = None
    regression: bool = False


def _header(lines: Iterator[tuple[int, str]], file: str | Path) -> _Header:
    header = _Header()
    for number, line in lines:
        words = line.split()
        key = words[0].lower()
        if not key.startswith("@"):
            expected = "a header of lines such as `@timeStamps false` that ends with `@data`. Is this a .csv file?"
            raise ReadError(file, f"Got {line[:40]!r}; expected {expected}", number)
        if key == "@data":
            return header
        on = len(words) > 1 and words[1].lower() == "true"
        if key == "@problemname":
            header = header._replace(name=" ".join(words[1:]))
        elif key == "@timestamps":
            header = header._replace(timed=on)
        elif key == "@targetlabel":
            header = header._replace(regression=on)
        elif key == "@classlabel" and on:
            header = header._replace(classes=tuple(dict.fromkeys(words[2:])))
    raise ReadError(file, "Got no line `@data`; expected one between the header and the series.")


def split_outside_parentheses(line: str) -> list[str]:
    """Parts of a line between colons.

    >>> split_outside_parentheses("(10:30,1),(10:31,2):(10:30,5):walk")
    ['(10:30,1),(10:31,2)', '(10:30,5)', 'walk']
    """
    colons = [match.start() for match in _PARENTHESES_OR_COLON.finditer(line) if match.group() == ":"]
    return [line[start + 1 : end] for start, end in zip([-1, *colons], [*colons, len(line)], strict=True)]


def row_of_numbers(text: str) -> np.ndarray:
    """Numbers divided by commas, NaN for missing ones.

    >>> row_of_numbers("1,?,2.5")
    array([1. , nan, 2.5])
    """
    pieces, start = [], 0
    while len(text) - start > _PIECE and (end := text.find(",", start + _PIECE)) > 0:
        pieces.append(numbers(text[start:end].split(",")))
        start = end + 1
    return np.concatenate([*pieces, numbers(text[start:].split(","))])


def _untimed(channels: list[str]) -> tuple[np.ndarray, None]:
    columns = [row_of_numbers(channel) for channel in channels]
    if len({len(column) for column in columns}) > 1:
        raise ValueError(f"channels of the lengths {[len(column) for column in columns]} in one series")
    values = np.stack(columns, axis=1)
    return values[: lengths_without_gaps(values[None])[0]], None


def _timed(channels: list[str]) -> tuple[np.ndarray, np.ndarray]:
    stamped = []
    for channel in channels:
        rest = _POINT.sub("", channel).replace(",", "").replace("()", "").strip()
        if rest:
            raise ValueError(f"{rest[:40]!r}")
        pairs = _POINT.findall(channel)
        stamped.append((seconds(time for time, _ in pairs), numbers([value for _, value in pairs])))
    clock = np.unique(np.concatenate([times for times, _ in stamped]))
    if len(clock) == 0:
        raise ValueError("a series without points")
    values = np.full((len(clock), len(channels)), np.nan)
    for c, (times, column) in enumerate(stamped):
        if len(np.unique(times)) < len(times):
            raise ValueError(f"a time twice in channel {c}")
        values[np.searchsorted(clock, times), c] = column
    return values, clock


def read_labels(
    labels: list[str], lines: list[int], file: str | Path, *, classes: Sequence[str] | None, regression: bool
) -> tuple[list[float] | list[str] | None, tuple[str, ...] | None]:
    """The target that labels on these lines stand for: numbers, numbers of the header's classes, or other names."""
    if not labels:
        return None, None
    # Headers and lines may spell a class differently: 1 and 1.0, Run and run.
    names = tuple(classes or ())
    place = {_spelling(name): i for i, name in enumerate(names)} | {name: i for i, name in enumerate(names)}
    target = []
    for label, line in zip(labels, lines, strict=True):
        absent = label.strip().lower() in NO_LABEL and label not in names
        if regression:
            try:
                target.append(float("" if absent else label))
            except ValueError:
                raise ReadError(file, f"Got the target {label[:40]!r}; expected a number.", line=line) from None
        elif absent:
            raise ReadError(file, f"Got the label {label!r}; expected one for each series. Leave it out.", line=line)
        elif not names:
            target.append(label)
        elif (number := place.get(label, place.get(_spelling(label)))) is not None:
            target.append(number)
        else:
            expected = f"one of {few(names, 10)}, as the header says. Is it left out, or a class missing there?"
            raise ReadError(file, f"Got the label {label[:40]!r}; expected {expected}", line)
    return target, None if regression or not names else names


def _spelling(label: str) -> str:
    try:
        return str(float(label))
    except ValueError:
        return label.lower()
