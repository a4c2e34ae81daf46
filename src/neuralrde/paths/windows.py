"""Where to cut a series into windows, by number of points or by time, to which depth and at which scales.

Cuts are numbers of points: window k of a sample runs from point `cuts[k]` to point `cuts[k + 1]`, and holds
the increments between them. Neighbouring windows share a point, so no increment is lost, and the tail is a
window too. Two equal cuts are a window in which nothing happens: its log-signature is zero and the state
stays where it is.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy.typing import ArrayLike

from ..errors import ParameterError, setting
from ..registry import Config, Registry
from .checks import check_number, check_whole
from .series import Series, as_lengths, as_numbers

# The most windows by time: more of them come of a mistaken unit of time.
_MOST_WINDOWS = 2**24


def window_cuts(
    series: Series,
    *,
    step: int | None = None,
    shift: int = 0,
    every: float | None = None,
    start: float | ArrayLike | None = None,
    at: Bool[np.ndarray, "samples length"] | None = None,
) -> Int[np.ndarray, "cuts"] | Int[np.ndarray, "samples cuts"]:
    """Cut a series into windows, either of `step` increments each or of the time `every` each.

    Args:
        step: increments in a window, as in `cuts_by_count`. The cuts are `(windows + 1,)` for all samples, or
            `(samples, windows + 1)` if samples have different lengths: a sample that has ended has empty
            windows.
        shift: how many points earlier windows by count end, from 0 to step - 1: the same path, cut elsewhere. The first
            window has as many increments less.
        every: time in a window, in the unit of the series' times, as in `cuts_by_time`. The cuts are
            `(samples, windows + 1)`.
        start: where the first window by time begins; None is at each sample's first point.
        at: points at which to cut as well, for example those that have a label. The cuts are
            `(samples, windows + 1)`.

    >>> window_cuts(Series.from_array([[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]]), step=2)
    array([0, 2, 4, 5])
    >>> window_cuts(Series.from_arrays([[1.0, 2.0, 3.0, 4.0], [5.0, 6.0]]), step=2)
    array([[0, 2, 3],
           [0, 1, 1]])
    >>> labelled = np.array([[False, False, False, True], [False, True, False, False]])
    >>> window_cuts(Series.from_array([[1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0]]), step=2, at=labelled)
    array([[0, 2, 3, 3],
           [0, 1, 2, 3]])
    """
    if at is not None:
        return _also_at(at, series, window_cuts(series, step=step, shift=shift, every=every, start=start))
    if (step is None) == (every is None):
        both = f"both {setting('step', step)} and {setting('every', every)}"
        got = "neither step nor every" if step is None else both
        raise ValueError(
            f"Got {got}; expected exactly one of them. Write {setting('step', 32)} for windows of 32 "
            f"increments, or {setting('every', 0.5)} for windows of half a unit of time."
        )
    if step is not None:
        if start is not None:
            raise ValueError("Got start= with windows by count, which begin at the first point. Leave it out.")
        cuts = cuts_by_count(series.values.shape[1], step, shift)
        return np.minimum(cuts, series.lengths[:, None] - 1) if series.ragged else cuts
    if shift:
        raise ValueError(f"Got shift={shift} with windows by time. Write start= for where the first one begins.")
    return cuts_by_time(check_timed(series), every, lengths=series.lengths, start=start)  # type: ignore


def _also_at(
    points: Bool[np.ndarray, "samples length"], series: Series, cuts: Int[np.ndarray, "*samples cuts"]
) -> Int[np.ndarray, "samples more_cuts"]:
    """These cuts and those points, in order; a sample with fewer cuts than others repeats its last."""
    points = np.asarray(points)
    if points.dtype != bool or points.shape != series.valid.shape:
        raise ValueError(
            f"Got at= of shape {points.shape} and type {points.dtype}; expected {series.valid.shape} and bool, for "
            "each point whether to cut there. Write for example `at=~np.isnan(labels)`."
        )
    cuts = np.broadcast_to(cuts, (len(series), cuts.shape[-1]))
    new = points & series.valid
    np.put_along_axis(new, cuts, False, axis=1)
    last = series.lengths[:, None] - 1
    every = np.sort(np.concatenate([cuts, np.where(new, np.arange(new.shape[1]), last)], axis=1), axis=1)
    return every[:, : max(1, int(window_counts(series, every).max())) + 1]


def window_counts(
    series: Series, cuts: Int[np.ndarray, "cuts"] | Int[np.ndarray, "samples cuts"]
) -> Int[np.ndarray, "samples"]:
    """Each sample's own number of windows: up to the one that reaches its last point; what comes then is padding.

    >>> series = Series.from_arrays([[1.0, 2.0, 3.0, 4.0], [5.0, 6.0]])
    >>> window_counts(series, window_cuts(series, step=2))
    array([2, 1])
    """
    return np.broadcast_to((cuts[..., :-1] < series.lengths[:, None] - 1).sum(axis=-1), len(series))


def even_shifts(step: int, count: int) -> list[int]:
    """`count` evenly spaced shifts for windows of `step` points; 0 comes first.

    >>> even_shifts(step=10, count=4)
    [0, 2, 5, 8]
    """
    return [step - max(1, round(step * share / count)) for share in range(count, 0, -1)]


def cuts_by_count(length: int, step: int, shift: int = 0) -> Int[np.ndarray, "cuts"]:
    """Cuts 0, step, 2 step, ..., length - 1 for windows of `step` increments; the last window may be shorter.

    There are ceil((length - 1) / step) windows, and at least one: a single point makes one empty window. With `shift`
    all windows end so many points earlier, and the first has so many increments less.

    >>> cuts_by_count(10, step=4)
    array([0, 4, 8, 9])
    >>> cuts_by_count(10, step=4, shift=2)
    array([0, 2, 6, 9])
    """
    check_whole("length", length, high=np.inf, because="an empty series has no path")
    check_whole("step", step, high=np.inf, because="a window needs an increment")
    check_whole("shift", shift, low=0, high=step - 1, because="a larger shift cuts where a smaller one does")
    windows = max(1, -(-(length - 1 + shift) // step))
    return np.clip(np.arange(windows + 1, dtype=np.int64) * step - shift, 0, length - 1)


def cuts_by_time(
    times: ArrayLike,
    every: float,
    *,
    lengths: ArrayLike | None = None,
    start: float | ArrayLike | None = None,
) -> Int[np.ndarray, "samples cuts"]:
    """Cuts at the last point up to each of the times start, start + every, start + 2 every, ...

    An increment belongs to the window in which its right end is observed, (start + k every, start + (k + 1)
    every]. So a window is known once its time is over, without a look ahead. A window without a new point is
    empty, and so are the windows after a sample's end. A time that is on a boundary up to rounding counts as
    on it.

    Args:
        times: `(samples, length)`, increasing in each sample.
        every: the time in a window.
        lengths: how many points of each sample are real; None if all are.
        start: where the first window begins, a number for all samples or one for each, at or before their
            first points; None is at each sample's first point.

    >>> cuts_by_time([[0.0, 0.2, 0.5, 0.9, 2.1]], every=0.5)
    array([[0, 2, 3, 3, 3, 4]])
    """
    times = as_numbers(times, name="times").astype(np.float64, copy=False)
    if times.ndim != 2 or 0 in times.shape:
        raise ValueError(f"Got times of shape {times.shape}; expected (samples, length), both at least 1.")
    lengths = as_lengths(lengths, times.shape)
    valid = np.arange(times.shape[1]) < lengths[:, None]
    times = np.where(valid, times, np.take_along_axis(times, lengths[:, None] - 1, axis=1))
    if not (np.isfinite(times).all() and (np.diff(times) >= 0).all()):
        raise ValueError(
            "Got times that are not finite or do not increase; expected increasing times in each sample. "
            "`Series` says where: write `Series(values, times=times, lengths=lengths)`."
        )
    position, _ = positions_in_windows(times, every, start)
    # Point j is the right end of its increment, and so in the window that is closed at the next boundary.
    closed_at = np.ceil(position).astype(np.int64)
    windows = max(1, int(closed_at.max()))
    cells = np.arange(len(times))[:, None] * (windows + 1) + closed_at
    arrivals = np.bincount(cells[valid], minlength=len(times) * (windows + 1)).reshape(len(times), -1)
    cuts = np.cumsum(arrivals, axis=1) - 1
    return np.maximum(cuts, 0)  # no point has arrived yet: stay at the first


def starts_by_count(
    cuts: Int[np.ndarray, "*samples cuts"], step: int, scale: float, shift: int = 0
) -> Int[np.ndarray, "*samples windows"]:
    """Where to start, to look back over the last `scale` windows of `step` at the end of each window.

    A window that the series' end or a label cuts short looks back as far as it does when it is complete.

    >>> starts_by_count(np.array([0, 4, 8, 9]), step=4, scale=1.5)
    array([0, 2, 6])
    """
    ends = cuts[..., 1:]
    return np.clip(-(-(ends + shift) // step) * step - shift - round(scale * step), 0, ends)


def starts_by_time(
    times: Float[np.ndarray, "samples length"],
    lengths: Int[np.ndarray, "samples"],
    cuts: Int[np.ndarray, "samples cuts"],
    every: float,
    scale: float,
) -> Int[np.ndarray, "samples windows"]:
    """The same for windows by time, which look back from the time at which they are over.

    >>> times, cuts = np.array([[0.0, 0.2, 0.5, 0.9, 2.1]]), np.array([[0, 2, 3, 3, 3, 4]])
    >>> starts_by_time(times, np.array([5]), cuts, every=0.5, scale=1.5)  # from -0.25, 0.25, 0.75, 1.25, 1.75
    array([[0, 1, 2, 3, 3]])
    """
    whole, part = int(scale), scale % 1
    position, first = positions_in_windows(times, every, None)
    earlier = cuts_by_time(times, every, lengths=lengths, start=(first - part * every)[:, 0])
    # The number of the window that ends there: after an empty one, which ends where the last did, one more.
    place = np.arange(cuts.shape[1])
    latest = np.maximum.accumulate(np.where(np.diff(cuts, axis=1, prepend=-1) > 0, place, 0), axis=1)
    at = np.take_along_axis(np.ceil(position).astype(np.int64), np.take_along_axis(cuts, latest, axis=1), axis=1)
    number = np.where(latest > 0, at, 0) + place - latest
    starts = np.take_along_axis(earlier, np.clip(number[:, 1:] - whole, 0, earlier.shape[1] - 1), axis=1)
    return np.minimum(starts, cuts[:, 1:])


def positions_in_windows(
    times: Float[np.ndarray, "samples length"], every: float, start: float | ArrayLike | None, passed: Any = 0
) -> tuple[Float[np.ndarray, "samples length"], Float[np.ndarray, "samples 1"]]:
    """Each time counted in windows from the start, exactly whole if it is on a boundary; and the start.

    Windows that have `passed`, in a stream or in each of several, take no memory any more, and do not count among too
    many.
    """
    check_number("every", every, above=True, finite=True, because="time runs forward")
    first = times[:, :1] if start is None else _starts(start, times)
    with np.errstate(over="ignore"):
        position = (times - first) / every
    if not (position.max(axis=1) - passed < _MOST_WINDOWS).all():
        raise ValueError(
            f"Got every={every:g} for times that run over {(times - first).max():g}, which makes "
            f"{position.max():.2g} windows; expected at most {_MOST_WINDOWS}. Is `every` in the unit of the "
            "times?"
        )
    # Rounding of the times themselves (large if they count from 1970), and of sums of steps such as 0.1.
    rounding = 4 * np.finfo(np.float64).eps * np.maximum(np.abs(times), np.abs(first)) / every
    slack = rounding + 1e-9 * np.maximum(position, 1.0)
    boundary = np.round(position)
    return np.where(np.abs(position - boundary) <= slack, boundary, position), first


def _starts(start, times: Float[np.ndarray, "samples length"]) -> Float[np.ndarray, "samples 1"]:
    start = np.asarray(as_numbers(start, name="start"), dtype=np.float64)
    if start.shape not in ((), (1,), (len(times),)):
        raise ValueError(
            f"Got start of shape {start.shape}; expected one number, or {len(times)}, one for each sample."
        )
    first = np.broadcast_to(start, len(times))
    wrong = ~(first <= times[:, 0]) | ~np.isfinite(first)
    if wrong.any():
        i = int(np.argmax(wrong))
        raise ValueError(
            f"Got start={first[i]} for sample {i}, which begins at {times[i, 0]}; expected a start at or "
            "before it, because what comes before the first window would be lost."
        )
    return first[:, None]


def check_timed(series: Series) -> Float[np.ndarray, "samples length"]:
    if series.times is None:
        raise ValueError(
            f"Got windows by time, {setting('every', ...)}, for a series without times; expected "
            f"times. Write {setting('step', 32)} for windows by count, or give the times: "
            "`Series.from_array(array, times=times)`."
        )
    return series.times


@dataclass(frozen=True)
class Windows:
    """How series are cut into windows, and to which depth each window's log-signature is taken.

    Args:
        step: points in a window; None cuts into about `count` windows.
        depth: of the log-signatures. With several scales it may be a tuple, one for each.
        every: instead of `step`, the time in a window, for a `Series` with times.
        count: without `step` and `every`, into how many windows a series of median length is cut. With `count=1` the
            whole of every series is one window.
        shifts: ways of cutting a series into windows of `step`. The path is the same in all of them: training draws
            one for each series and epoch, and predictions are averaged over all, which steadies them. 4 to 8 is much;
            log-signatures and predictions take that many times as long.
        scales: how many windows back each log-signature looks. With `scales=(1, 2, 4, 8)`, at the end of each window
            there are those of the last 1, 2, 4 and 8 windows, side by side; at the beginning fewer windows are there.
        lengths: instead of `scales`, how far back each looks, counted as `step` or in the time of `every`, and not
            necessarily in whole windows: `Windows(step=21, lengths=(280, 55))`.
        whole: the depth of one more log-signature, over all that has been seen; None for none.

    >>> windows = Windows(count=4).resolved(Series.from_array(np.zeros((1, 9))))
    >>> windows
    Windows(step=2, depth=2)
    >>> windows.cuts(Series.from_array(np.zeros((1, 9))))
    array([0, 2, 4, 6, 8])
    >>> Windows(step=16, depth=(3, 2), lengths=(24, 64), whole=1).looks
    {'depth': (3, 2, 1), 'scales': (1.5, 4, inf)}
    """

    step: int | None = None
    depth: int | tuple[int, ...] = 2
    every: float | None = None
    count: int = 32
    shifts: int = 1
    scales: tuple[float, ...] = (1,)
    lengths: tuple[float, ...] | None = None
    whole: int | None = None

    def __post_init__(self):
        object.__setattr__(self, "scales", as_scales(self.scales))  # one number, or a list, too
        if self.lengths is not None:
            object.__setattr__(self, "lengths", as_scales(self.lengths, "lengths"))
            if self.scales != (1,):
                raise ValueError(
                    f"Got {setting('scales', self.scales)} and {setting('lengths', self.lengths)}; expected one."
                )
        check_whole("whole", self.whole, high=12, also=(None,))
        check_whole("step", self.step, high=2**31, also=(None,))
        for depth in self.depths:
            check_whole("depth", depth, high=12)
        check_whole("count", self.count, high=2**24)
        check_whole("shifts", self.shifts, high=1024)
        if self.every is not None:
            check_number("every", self.every, above=True, finite=True, because="time runs forward")
        if self.every is not None and self.step is not None:
            raise ValueError(
                f"Got both {setting('step', self.step)} and {setting('every', self.every)}; expected at "
                "most one of them."
            )
        if self.shifts > 1 and self.every is not None:
            raise ValueError(
                f"Got {setting('shifts', self.shifts)} with {setting('every', self.every)}; expected "
                "windows by `step` for that."
            )

    @staticmethod
    def of(value: "Windows | int | str") -> "Windows":
        """From a number of points too.

        >>> Windows.of(16)
        Windows(step=16, depth=2)
        """
        if isinstance(value, str):
            raise ParameterError(
                "windows",
                value,
                "Windows(...) or a number of points",
                remedy='Try several: `GridSearchCV(estimator, {"windows__depth": [1, 2], "windows__step": [8, 32]})`.',
            )
        return value if isinstance(value, Windows) else Windows(step=value)

    @property
    def depths(self) -> tuple[Any, ...]:
        """The depth of each log-signature."""
        several = depths_of(self.depth, self.scales if self.lengths is None else self.lengths)
        return several if self.whole is None else (*several, self.whole)

    @property
    def looks(self) -> dict[str, Any]:
        """The `depth` and the `scales` that `log_signatures` takes: how many windows back each looks."""
        scales = self.scales
        if self.lengths is not None:
            if (window := self.step or self.every) is None:
                raise ValueError(f"Got {self!r} without a step; expected it `resolved` for some series.")
            scales = as_scales([length / window for length in self.lengths])
        if self.whole is None:
            return {"depth": self.depth, "scales": scales}
        return {"depth": self.depths, "scales": (*scales, np.inf)}

    def resolved(self, series: Series) -> "Windows":
        """With a number of points in place of `count`."""
        return self.for_lengths(series.lengths, series.values.shape[1])

    def for_lengths(self, lengths: Int[np.ndarray, "samples"], longest: int | None = None) -> "Windows":
        """The same for series of these lengths.

        >>> Windows(count=4).for_lengths(np.array([9, 9, 17]))
        Windows(step=2, depth=2)
        """
        if self.every is not None or self.step is not None:
            return self
        longest = int(lengths.max()) if longest is None else longest
        step = longest - 1 if self.count == 1 else round((float(np.median(lengths)) - 1) / self.count)
        return replace(self, step=max(1, step), count=Windows.count)

    def all_shifts(self) -> list[int]:
        """The shifts of all ways of cutting, the usual one first."""
        return [0] if self.every is not None else even_shifts(self.step, min(self.shifts, self.step))  # type: ignore

    def cuts(self, series: Series, *, shift: int = 0, at: Any = None) -> Int[np.ndarray, "*samples cuts"]:
        """Where to cut; see `window_cuts`."""
        how: Any = {"every": self.every} if self.every is not None else {"step": self.step, "shift": shift}
        return window_cuts(series, at=at, **how)

    def starts(
        self, series: Series, cuts: Int[np.ndarray, "*samples cuts"], *, shift: int = 0, at: Any = None
    ) -> list[Int[np.ndarray, "*samples windows"] | None]:
        """Where each of the `looks` starts; None where it counts windows. The other arguments are those of `cuts`."""
        found: list[Any] = []
        for scale in self.looks["scales"]:
            if np.isinf(scale) or (scale % 1 == 0 and (at is None or self.lengths is None)):
                found.append(None)
            elif self.step is not None:
                found.append(starts_by_count(cuts, self.step, scale, shift))
            else:
                found.append(starts_by_time(check_timed(series), series.lengths, cuts, self.every, scale))  # type: ignore
        return found

    def __repr__(self) -> str:
        given = {field.name: getattr(self, field.name) for field in fields(self)}
        usual = {"every": None, "count": Windows.count, "shifts": 1, "scales": (1,), "lengths": None, "whole": None}
        usual |= {"step": None} if self.every else {}
        return f"Windows({', '.join(f'{k}={v!r}' for k, v in given.items() if k not in usual or v != usual[k])})"


def as_scales(scales: Any, name: str = "scales") -> tuple[float, ...]:
    """Scales as a tuple: how many windows each looks back over, the one that ends included; None is all of them.

    >>> as_scales([1, 2.0, 2.5, None])
    (1, 2, 2.5, inf)
    """
    given: Any = scales if isinstance(scales, Sequence | np.ndarray) and not isinstance(scales, str) else (scales,)
    several = [np.inf if one is None else one for one in given]
    real = all(isinstance(one, int | float | np.number) and not isinstance(one, bool) for one in several)
    most = 2**20 if name == "scales" else 2**40
    if not (several and real and len(set(several)) == len(several)) or not all(
        0 < one <= most or one == np.inf for one in several
    ):
        counts = "windows that a scale" if name == "scales" else "points, or the time, that a log-signature"
        raise ValueError(
            f"Got {name}={scales!r}; expected different numbers above 0, because each counts the {counts} looks back "
            f"over. Write for example {name}={'(1, 2, 4, 8)' if name == 'scales' else '(280, 55)'}."
        )
    # A quotient that is whole but for rounding counts windows.
    return tuple(round(one) if one != np.inf and abs(one - round(one)) <= 1e-9 * one else float(one) for one in several)


def depths_of(depth: int | str | tuple[int, ...], scales: tuple[float, ...]) -> tuple[Any, ...]:
    """The depth at each scale: one for all of them, or one for each.

    >>> depths_of(2, (1, 4)), depths_of((3, 2), (1, 4))
    ((2, 2), (3, 2))
    """
    if not isinstance(depth, tuple | list):
        return (depth,) * len(scales)
    if len(depth) != len(scales):
        raise ValueError(
            f"Got {setting('depth', depth)} for scales={scales!r}; expected one depth for all scales, "
            f"or {len(scales)}, one for each."
        )
    return tuple(depth)


def _coerced(value: Any) -> Any:
    return value if isinstance(value, Mapping | type | Config) else Windows.of(value)


WINDOWS = Registry("windows", Windows, {"windows": Windows}, coerce=_coerced)
