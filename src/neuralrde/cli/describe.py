"""What data are, for people: dates as dates, spans of time in words, and what was taken for what."""

import datetime
import re
from collections.abc import Iterator
from typing import Any

import numpy as np

from ..datasets import Dataset
from .shell import in_flags

# Beyond so many distinct whole numbers nobody would speak of classes, and below it perhaps.
_FEW = 20
_SPANS = ((86400 * 7, "week"), (86400, "day"), (3600, "hour"), (60, "minute"), (1, "second"), (1e-3, "millisecond"))


def is_dated(data: Dataset) -> bool:
    """Whether times are dates, counted in seconds since 1970."""
    return "1970" in (getattr(data, "time_unit", None) or "")


def is_timed(data: Dataset) -> bool:
    """Whether the unit of times is known to be the second."""
    return "second" in (getattr(data, "time_unit", None) or "")


def date(seconds: float) -> str:
    """
    >>> date(1709121600.0), date(1709121600.25), date(1709078400.0)
    ('2024-02-28 12:00', '2024-02-28 12:00:00.250', '2024-02-28')
    """
    try:
        found = datetime.datetime(1970, 1, 1) + datetime.timedelta(seconds=float(seconds))
    except OverflowError:
        return f"{seconds:.6g} s since 1970"
    if found.microsecond:
        return found.isoformat(" ", "milliseconds")
    if found.second:
        return found.isoformat(" ", "seconds")
    return found.date().isoformat() if found.time() == datetime.time() else found.isoformat(" ", "minutes")


def span(seconds: float) -> str:
    """
    >>> span(86400.0), span(5400.0), span(0.0625), span(0.0)
    ('1 day', '1.5 hours', '62.5 milliseconds', '0 seconds')
    """
    size, name = next(((size, name) for size, name in _SPANS if abs(seconds) >= size), _SPANS[-2])
    count = f"{seconds / size:.4g}"
    return f"{count} {name}{'' if count == '1' else 's'}"


def time_span(data: Dataset, value: float) -> str:
    """A stretch of the data's time, with its unit where that is known."""
    return span(value) if is_timed(data) else f"{value:.4g}"


def summary(data: Dataset) -> str:
    """`Dataset.summary`, with dates as dates, and what the reader understood."""
    text = data.summary()
    if is_dated(data) and data.series.times is not None:
        first, last = data.series.times.min(), data.series.times.max()
        text = re.sub(r"times [-+.\de]+ to [-+.\de]+", f"times {date(first)} to {date(last)}", text, count=1)
    reading = getattr(data, "reading", None)
    if not reading:
        return text
    return text.replace(reading, in_flags(reading)) if reading in text else f"{text}\n  read as {in_flags(reading)}"


def task_hints(data: Dataset, table: dict[str, Any]) -> Iterator[str]:
    """What was guessed of the task, where one could think otherwise."""
    chosen = "task" in table or "task" in (getattr(data, "reading", None) or "")
    if data.target is None or chosen:
        return
    if data.classes is not None and len(data.classes) > 2 and all(map(_is_number, data.classes)):
        yield f"the target's {len(data.classes)} numbers are taken for classes; --task regression predicts numbers"
    if data.classes is None:
        known = np.asarray(data.target)[np.isfinite(data.target)]
        distinct = np.unique(known)
        if len(distinct) <= _FEW and (distinct == np.round(distinct)).all() and len(distinct) < len(known) / 2:
            yield (
                f"the target's {len(distinct)} distinct whole numbers are predicted as numbers; --task classification "
                "takes them for classes"
            )


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
