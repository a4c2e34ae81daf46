"""The points of a stream as they came, for estimators that look at series as a whole."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from ..errors import setting
from ..paths import Series
from ..paths.checks import check_whole
from .state import as_array, to_plain

# Points of a stream that are kept where nothing else was said: a quarter of an hour at 125 a second.
MOST = 2**17
# Numbers of all series that are looked at as a whole at a time, padding included.
_NUMBERS = 2**22


@dataclass(frozen=True)
class Buffer:
    """Raw points and their times, oldest first; with `last`, no more than so many.

    >>> buffer = Buffer.empty(1, last=3).plus(np.arange(5.0)[:, None], None)
    >>> buffer.values[:, 0].tolist()
    [2.0, 3.0, 4.0]
    """

    values: Float[np.ndarray, "points channels"]
    times: Float[np.ndarray, "points"] | None
    last: int | None

    @staticmethod
    def empty(channels: int, last: int | None) -> "Buffer":
        return Buffer(np.zeros((0, channels)), None, last)

    def plus(self, values: Float[np.ndarray, "points channels"], times: Float[np.ndarray, "points"] | None) -> "Buffer":
        """With new points. A buffer has times from its first point on, or never."""
        if self.last is None and len(self.values) + len(values) > MOST:
            raise ValueError(
                f"Got {len(self.values) + len(values)} points of a stream, all of which are kept, "
                f"because this estimator looks at series as a whole; expected at most {MOST}. Write "
                "`estimator.stream(last=N)` for predictions from the last N points, or fit a neural "
                f"estimator with {setting('closed_form', False)}, which keeps none."
            )
        if not len(self.values):  # copied: whoever pushed them may use their memory again
            joined, clock = values.copy(), None if times is None else times.copy()
        else:
            joined = np.concatenate([self.values, values])
            clock = None if self.times is None or times is None else np.concatenate([self.times, times])
        if self.last is not None and len(joined) > self.last:
            # Copied, so that the points before them can go.
            joined, clock = (None if a is None else a[-self.last :].copy() for a in (joined, clock))
        assert joined is not None
        return Buffer(joined, clock, self.last)

    def state(self) -> dict[str, Any]:
        """The points as plain numbers; None is a missing value."""
        times = None if self.times is None else self.times.tolist()
        return {"values": to_plain(self.values), "dtype": str(self.values.dtype), "times": times}

    def restored(self, state: Mapping, points: int, timed: bool) -> "Buffer":
        """The buffer of a `state`, after so many points: an error unless it can be one."""
        kept = points if self.last is None else min(points, self.last)
        values = as_array(state.get("values"), (None, self.values.shape[1]), "values")
        if len(values) != kept:
            raise ValueError(f"values are {len(values)} points; expected {kept}")
        if state.get("dtype") not in ("float32", "float64"):
            raise ValueError("dtype is neither float32 nor float64")
        with np.errstate(over="ignore"):
            values = values.astype(state["dtype"])
        if np.isinf(values).any():
            raise ValueError("values are not finite")
        if not timed or not points:
            return self.plus(values, None)
        times = as_array(state.get("times"), (kept,), "times")
        if not np.isfinite(times).all() or (np.diff(times) <= 0).any():
            raise ValueError("times do not increase")
        return self.plus(values, times)


def has_a_neural_part(estimator: Any) -> bool:
    """Whether a neural model has a weight in an estimator's predictions."""
    return hasattr(estimator, "windows_") and estimator.model_ is not None


def looks_at_whole_series(estimator: Any) -> bool:
    """Whether an estimator, or the closed form that has a weight in it, must see all points of a series at once."""
    if not hasattr(estimator, "windows_"):
        return True
    return estimator.closed_form_ is not None and estimator.blend_[0] != 0


def check_last(last: int | None, whole: bool, name: str) -> None:
    if last is None:
        return
    if not whole:
        raise ValueError(
            f"Got last={last!r} for a {name} without a closed form, which keeps no points; expected None: its state is "
            "of a fixed size, and its predictions are those for the whole series. Leave `last` out."
        )
    check_whole("last", last, high=2**24)


def outputs_of(closed: Any, buffers: Sequence[Buffer]) -> Float[np.ndarray, "streams outputs"]:
    """The outputs of an estimator in closed form, for the points that were kept."""
    outputs, fill = np.zeros((len(buffers), closed.outputs_)), closed.transform_.fill_
    names = None if fill is None else fill.channels_  # as in training
    at_once = max(1, _NUMBERS // max(buffer.values.size for buffer in buffers))
    for timed in (False, True):
        places = [place for place, buffer in enumerate(buffers) if (buffer.times is not None) == timed]
        for first in range(0, len(places), at_once):
            some = places[first : first + at_once]
            times: Any = [buffers[place].times for place in some] if timed else None
            series = Series.from_arrays([buffers[place].values for place in some], times=times, channels=names)
            outputs[some] = closed._outputs(series)
    return outputs
