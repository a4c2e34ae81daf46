"""Data in words for people: spans of time, and what was understood of the target."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from ..datasets import Dataset
from ..datasets.targets import is_number
from ..datasets.times import SINCE_1970
from .shell import in_flags

# Beyond so many distinct whole numbers nobody would speak of classes, and below it perhaps.
_FEW = 20
_SPANS = ((86400 * 7, "week"), (86400, "day"), (3600, "hour"), (60, "minute"), (1, "second"), (1e-3, "millisecond"))


def is_dated(data: Dataset) -> bool:
    """Whether the times were dates."""
    return data.time_unit == SINCE_1970


def is_timed(data: Dataset) -> bool:
    """Whether times are known to be in seconds."""
    return data.time_unit is not None


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
    """`Dataset.summary`, with flags where its sentence about the reading has Python."""
    return data.summary().replace(data.reading, in_flags(data.reading)) if data.reading else data.summary()


def task_hints(data: Dataset, table: dict[str, Any]) -> Iterator[str]:
    """How the task was guessed, where somebody could think otherwise."""
    chosen = "task" in table or "task" in data.reading
    if data.target is None or chosen:
        return
    if data.classes is not None and len(data.classes) > 2 and all(map(is_number, data.classes)):
        yield f"the target's {len(data.classes)} numbers are taken for classes; --task regression predicts numbers"
    if data.classes is None:
        known = np.asarray(data.target)[np.isfinite(data.target)]
        distinct = np.unique(known)
        if len(distinct) <= _FEW and (distinct == np.round(distinct)).all() and len(distinct) < len(known) / 2:
            yield (
                f"the target's {len(distinct)} distinct whole numbers are predicted as numbers; --task classification "
                "takes them for classes"
            )
