"""What all forecasters share: series and moments as users give them, forecasts, their evaluation, and streams."""

import re
from collections.abc import Mapping
from datetime import UTC
from typing import Any, NamedTuple, Protocol

import numpy as np
from jaxtyping import Float
from sklearn.utils.validation import check_is_fitted

from ..errors import ParameterError, setting
from ..features.forecast import Origins, Questions
from ..online.stream import FORMAT, MOST, as_array, as_points, check_head, to_plain
from ..paths import Series
from ..paths.checks import check_number
from ..paths.series import as_numbers, seconds_of
from .inputs import InputDescription, described_series, is_table
from .saving import digest_of

_UNITS = {"s": 1, "min": 60, "h": 3600, "d": 86_400, "w": 604_800}
_DURATION = re.compile(r"\s*([0-9]*\.?[0-9]+)\s*(s|min|h|d|w)\s*")
# Points of a fan for which no times were named, at most.
_MOST_TIMES = 1000
FAN = 48
"""Times of a forecast that is drawn or served, for which none were named, at most."""
# Moments that forecasts are judged from, unless they are named.
_MOST_ORIGINS = 2000
# Quantiles of which a continuous ranked probability score is made.
_CRPS = np.arange(1, 20) / 20
_PARTS = 4
"""Into how many parts of the horizon errors and intervals are divided."""


class FittedForecaster(Protocol):
    """What a forecaster has learned, as the interface uses it."""

    @property
    def inputs(self) -> InputDescription: ...
    @property
    def horizon(self) -> float: ...
    @property
    def lookback(self) -> float: ...
    @property
    def step(self) -> float:
        """The usual time between points of the training series."""
        ...

    def spread(self, channel: int) -> float:
        """A channel's standard deviation in training."""
        ...

    def past(self, series: Series, origins: Origins) -> Any:
        """What is known at each origin, as `answers` and `naive` take it."""
        ...

    def answers(self, past: Any, asked: dict[int, Questions]) -> "dict[int, Answer]":
        """What channels will be."""
        ...

    def offsets(self, ahead: np.ndarray, channel: int, levels: Any) -> Float[np.ndarray, "questions levels"]:
        """By how many of the answer's spreads a share of `levels` of what came was at most above it."""
        ...

    def naive(self, past: Any, questions: Questions, channel: int) -> dict[str, np.ndarray]:
        """Forecasts that need no learning, by name."""
        ...


class Answer(NamedTuple):
    """What one channel will be, in its own units."""

    value: Float[np.ndarray, "questions"]
    spread: Any
    """How far off that may be, for each question or for all."""

    def ends(self, offsets: Float[np.ndarray, "questions levels"]) -> Float[np.ndarray, "questions levels"]:
        """By how much quantiles are above the value."""
        return np.reshape(self.spread, (-1, 1)) * offsets


class Targets(NamedTuple):
    """What came after origins, of one channel."""

    questions: Questions
    value: Float[np.ndarray, "questions"]


def as_duration(name: str, value: Any, *, dated: bool) -> float:
    """A span of time in the unit of the series' times: a positive number, or "24h" where times are dates.

    >>> as_duration("horizon", "1.5h", dated=True), as_duration("horizon", 24, dated=False)
    (5400.0, 24.0)
    """
    if isinstance(value, str) and (found := _DURATION.fullmatch(value)):
        if dated:
            return float(found[1]) * _UNITS[found[2]]
        raise ParameterError(
            name,
            value,
            "a number, in the unit of the series' times",
            because="their times are numbers and not dates, so that hours mean nothing",
            remedy=f"Write for example {setting(name, 24)}.",
        )
    if isinstance(value, bool) or not isinstance(value, int | float | np.number) or not 0 < value < np.inf:
        raise ParameterError(name, value, 'a positive number, or a text such as "24h", "30min" or "7d" for dates')
    return float(value)


def as_pasts(X: Any, described: InputDescription | None, name: str) -> tuple[Series, InputDescription, Any, bool]:
    """Series, their description, their groups if X has some, and whether times are seconds since 1970.

    One long array or DataFrame is one series: rows are points. The index of a DataFrame, if it holds dates or numbers
    that increase, has its times.
    """
    groups, dated = getattr(X, "groups", None), getattr(X, "time_unit", None) == "seconds since 1970"
    if isinstance(getattr(X, "series", None), Series):
        X = X.series
    elif is_table(X) or (isinstance(X, list | tuple) and len(X) and all(map(is_table, X))):
        X, dated = _from_tables([X] if is_table(X) else list(X))
    elif isinstance(X, np.ndarray) and X.ndim in (1, 2) and X.dtype != object:
        X = [np.asarray(X, np.float64)]
    if isinstance(X, list | tuple) and len(X) and not isinstance(X[0], Series):
        X = Series.from_arrays(X)
    series, found = described_series(X, described, estimator=name)
    if described is not None and series.channels != described.channels and isinstance(X, Series):
        generic = tuple(f"x{number}" for number in range(len(series.channels)))
        if generic not in (series.channels, described.channels):
            raise ValueError(
                f"Got the channels {list(series.channels)}; expected {list(described.channels)}, as in `fit`, in this "
                "order."
            )
    return series, found, groups, dated


def _from_tables(tables: list[Any]) -> tuple[Series, bool]:
    given = [getattr(table, "index", np.arange(len(table))) for table in tables]
    indexes = [np.asarray(seconds_of(index)) for index in given]
    dates = [getattr(index, "dtype", np.dtype(float)).kind == "M" for index in given]
    dated, timed = all(dates), all(index.dtype.kind in "iuf" for index in indexes)
    if any(dates) and not dated:
        raise ValueError(
            f"Got {len(dates)} tables, {sum(dates)} of which have dates as their index; expected all or none, because "
            "their times are of one clock. Write `table.set_index(...)` for those without."
        )
    plain, _ = described_series(list(tables))
    arrays = [values[:length] for values, length in zip(plain.values, plain.lengths, strict=True)]
    return Series.from_arrays(arrays, times=indexes if timed else None, channels=plain.channels), dated


def origins_in(series: Series, cuts: Any, horizon: float, most: int, random: np.random.Generator | None) -> Origins:
    """Moments after which there is something to compare with: those given, or up to `most` points of all series.

    Args:
        cuts: times, for all series alike; or a list of times for each. None takes points, at random or evenly.
    """
    samples, moments = [], []
    if cuts is not None:
        listed = isinstance(cuts, list | tuple) and any(np.ndim(cut) for cut in cuts)
        if listed and len(cuts) != len(series):
            raise ValueError(
                f"Got cuts for {len(cuts)} series; expected {len(series)}: a list of times for each series, or one "
                "list of times for all."
            )
    each = -(-most // len(series))
    for sample, length in enumerate(series.lengths):
        times = series.clock[sample, :length]
        if cuts is None:
            own = times[:-1]
            if len(own) > each:
                even = ((np.arange(each) + 0.5) / each * len(own)).astype(int)
                own = own[even if random is None else np.sort(random.choice(len(own), each, replace=False))]
        else:
            own = np.atleast_1d(_as_moments(cuts[sample] if listed else cuts, "cuts"))
        later = np.searchsorted(times, own, "right")
        own = own[(later > 0) & (later < length) & (times[np.minimum(later, length - 1)] <= own + horizon)]
        samples.append(np.full(len(own), sample))
        moments.append(own)
    origins = Origins(np.concatenate(samples), np.concatenate(moments).astype(np.float64))
    if not len(origins.now):
        raise ValueError(
            f"Got {len(series)} series without an observation within {horizon:g} after any moment with a past; "
            "expected some to compare forecasts with. Give longer series, a longer horizon, or other `cuts`."
        )
    return origins


def targets_after(
    series: Series, origins: Origins, horizon: float, most: int | None = None, random: Any = None
) -> list[Targets]:
    """What was observed up to `horizon` after each origin, for each channel; at most so many points of an origin."""
    points, rows = [], []
    for row, (sample, now) in enumerate(zip(origins.sample, origins.now, strict=True)):
        times = series.clock[sample, : series.lengths[sample]]
        found = np.arange(np.searchsorted(times, now, "right"), np.searchsorted(times, now + horizon, "right"))
        if most is not None and len(found) > most:
            found = np.sort(random.choice(found, most, replace=False))
        points.append(found)
        rows.append(np.full(len(found), row))
    row, point = np.concatenate(rows), np.concatenate(points)
    sample = origins.sample[row]
    values, ahead = series.values[sample, point].astype(np.float64), series.clock[sample, point] - origins.now[row]
    known = ~np.isnan(values)
    return [Targets(Questions(row[own], ahead[own]), values[own, channel]) for channel, own in enumerate(known.T)]


class Forecaster:
    """Forecasts at any time after a past, of any fitted forecaster."""

    fitted_: Any
    """A `FittedForecaster`."""

    def times_ahead(self, X: Any, horizon: Any = None, *, now: Any = None) -> Float[np.ndarray, "samples times"]:
        """Times for each series from its present, in the usual steps of the training series, up to `horizon`."""
        _, present, dated = self.moments(X, now)
        return self._ahead(present, horizon, dated)

    def moments(self, X: Any, now: Any = None) -> tuple[Series, Float[np.ndarray, "samples"], bool]:
        """X as series, the present of each, and whether times are seconds since 1970."""
        check_is_fitted(self, "fitted_")
        series, *_, dated = as_pasts(X, self.fitted_.inputs, type(self).__name__)
        if now is None:
            return series, series.clock[np.arange(len(series)), series.lengths - 1].astype(np.float64), dated
        return series, np.broadcast_to(_as_moments(now, "now"), (len(series),)).copy(), dated

    def predict(
        self, X: Any, times: Any = None, *, horizon: Any = None, now: Any = None, channels: Any = None,
        interval: float | None = None,
    ) -> Any:  # fmt: skip
        """Forecasts `(samples, times, channels)`; with `interval`, a pair of them and of `(..., 2)` ends of intervals.

        Args:
            X: the past of each series, as in `fit`; nothing later than `now` is looked at.
            times: on the clock of the series, after the present: `(times,)` for all, or `(samples, times)`.
            horizon: instead of times, how far ahead, in the usual steps of the training series; see `times_ahead`.
            now: the present, for all series or for each. None is the time of each one's last point.
            channels: names or numbers of those that are wanted; None is all.
            interval: the share of what comes that intervals are to hold, such as 0.9. Where too little was observed
                to promise that, an end is infinite.
        """
        series, present, dated = self.moments(X, now)
        fitted: FittedForecaster = self.fitted_
        wanted = _numbers_of(channels, fitted.inputs.channels)
        if times is None:
            times = self._ahead(present, horizon, dated)
        elif horizon is not None:
            raise ValueError(f"Got both times and horizon={horizon!r}; expected one of them.")
        times = _as_moments(times, "times")
        ahead = np.broadcast_to(times, (len(series), times.shape[-1])) - present[:, None]
        if ahead.size == 0 or ahead.min() <= 0 or ahead.max() > fitted.horizon * (1 + 1e-9):
            got = f"{ahead.min():g} to {ahead.max():g} after the present" if ahead.size else "of length 0"
            raise ValueError(
                f"Got times {got}; expected them above 0, and at most the horizon {fitted.horizon:g} of `fit` ahead, "
                "beyond which nothing was learned. Fit with a longer horizon, or give `now` if the present is not the "
                "last point."
            )
        origins = Origins(np.arange(len(series)), present)
        questions = Questions(np.repeat(origins.sample, ahead.shape[1]), ahead.ravel())
        answers = fitted.answers(fitted.past(series, origins), dict.fromkeys(wanted, questions))
        found = np.stack([answers[channel].value.reshape(ahead.shape) for channel in wanted], axis=-1)
        if interval is None:
            return found
        check_number("interval", interval, high=1.0, above=True)
        levels = (1 - interval) / 2, (1 + interval) / 2
        ends = [answers[channel].ends(fitted.offsets(questions.ahead, channel, levels)) for channel in wanted]
        return found, found[..., None] + np.stack([each.reshape(*ahead.shape, 2) for each in ends], axis=-2)

    def evaluate(self, X: Any, *, cuts: Any = None, interval: float = 0.9) -> dict[str, Any]:
        """Errors of forecasts from moments in series that were not trained on, beside those of naive forecasts.

        "mse", "mae" and "crps" are means over channels, in each one's standard deviations of training; those in
        "channels" are in its own units. "coverage" is the share of what came that was inside the intervals. "naive"
        has the same errors of the last value, of the mean of the look-back and, with a period, of its same phase.
        "ahead" has them by the time ahead.

        Args:
            X: whole series, past and future.
            cuts: the moments, as in `fit`; None takes up to 2,000, evenly through the series in order of time.
        """
        check_is_fitted(self, "fitted_")
        fitted: FittedForecaster = self.fitted_
        series, *_ = as_pasts(X, fitted.inputs, type(self).__name__)
        origins = origins_in(series, cuts, fitted.horizon, _MOST_ORIGINS, None)
        targets = targets_after(series, origins, fitted.horizon)
        past = fitted.past(series, origins)
        asked = {channel: one.questions for channel, one in enumerate(targets) if len(one.value)}
        answers, found = fitted.answers(past, asked), []
        for channel, questions in asked.items():
            value, spread = targets[channel].value, fitted.spread(channel)
            off = value - answers[channel].value
            levels = np.array([(1 - interval) / 2, (1 + interval) / 2, *_CRPS])
            offsets = answers[channel].ends(fitted.offsets(questions.ahead, channel, levels))
            missed = off[:, None] - offsets[:, 2:]
            # Where a quantile is not known, the answer stands for it.
            missed = np.where(np.isfinite(missed), missed, off[:, None])
            each = {
                "mse": off**2,
                "mae": abs(off),
                "crps": 2 * np.maximum(_CRPS * missed, (_CRPS - 1) * missed).mean(axis=1),
                "coverage": (off >= offsets[:, 0]) & (off <= offsets[:, 1]),
            }
            for name, naive in fitted.naive(past, questions, channel).items():
                each |= {f"{name} mse": (value - naive) ** 2, f"{name} mae": abs(value - naive)}
            found.append((fitted.inputs.channels[channel], spread, questions.ahead / fitted.horizon, each))
        parts = [(part / _PARTS, (part + 1) / _PARTS) for part in range(_PARTS)]
        by_time = [_summary(found, lambda ahead, ends=ends: (ahead > ends[0]) & (ahead <= ends[1])) for ends in parts]
        return {
            **_summary(found, lambda ahead: ahead > 0),
            "channels": {
                name: {"count": len(ahead), **{key: float(one.mean()) for key, one in each.items()}}
                for name, _, ahead, each in found
            },
            "ahead": [
                {"from": low * fitted.horizon, "to": high * fitted.horizon, **one}
                for (low, high), one in zip(parts, by_time, strict=True)
                if one
            ],
            "origins": len(origins.now),
        }

    def score(self, X: Any, *, cuts: Any = None) -> float:
        """The fraction by which the mean squared error improves on the best naive forecast; negative if it is worse."""
        found = self.evaluate(X, cuts=cuts)
        return 1.0 - found["mse"] / min(one["mse"] for one in found["naive"].values())

    def stream(self) -> "ForecastStream":
        """A past that is still arriving: push points, and forecast at any moment; see `ForecastStream`."""
        check_is_fitted(self, "fitted_")
        return ForecastStream(self)

    def streams(self) -> "ForecastStreams":
        """Many streams by name; see `ForecastStreams`."""
        check_is_fitted(self, "fitted_")
        return ForecastStreams(self)

    def _ahead(self, present: np.ndarray, horizon: Any, dated: bool) -> np.ndarray:
        fitted: FittedForecaster = self.fitted_
        span = fitted.horizon if horizon is None else as_duration("horizon", horizon, dated=dated)
        step = max(fitted.step, span / _MOST_TIMES)
        return present[:, None] + step * np.arange(1, max(1, int(span / step + 1e-9)) + 1)


def _summary(found: list, of: Any) -> dict[str, Any]:
    """Means over channels of their means, in standard units."""
    rows = []
    for _, spread, ahead, each in found:
        if (own := of(ahead)).any():
            units = {key: 1.0 if key == "coverage" else spread ** (2 if key.endswith("mse") else 1) for key in each}
            rows.append({key: one[own].mean() / units[key] for key, one in each.items()})
    if not rows:
        return {}
    mean = {key: float(np.mean([row[key] for row in rows])) for key in rows[0]}
    naive: dict[str, dict[str, float]] = {}
    for key in [key for key in mean if " " in key]:
        name, error = key.split()
        naive.setdefault(name, {})[error] = mean.pop(key)
    return {**mean, "naive": naive}


def _as_moments(times: Any, name: str) -> np.ndarray:
    """Times as numbers; dates are seconds since 1970."""
    array = np.asarray(times)
    if array.dtype == object and all(hasattr(one, "tzinfo") for one in array.flat):  # moments, one by one
        plain = [np.datetime64(one.astimezone(UTC).replace(tzinfo=None) if one.tzinfo else one) for one in array.flat]
        times = np.array(plain).reshape(array.shape)
    return as_numbers(np.asarray(seconds_of(times)), name=name).astype(np.float64)


def _numbers_of(channels: Any, names: tuple[str, ...]) -> list[int]:
    if channels is None:
        return list(range(len(names)))
    wanted = [channels] if isinstance(channels, str | int) else list(channels)
    for one in wanted:
        if one not in names and not (isinstance(one, int | np.integer) and 0 <= one < len(names)):
            raise ValueError(f"Got the channel {one!r}; expected some of {list(names)}, or their numbers.")
    return [names.index(one) if one in names else int(one) for one in wanted]


class ForecastStream:
    """A past that is still arriving. Forecasts are those that `predict` makes of the same points.

    Only the points of the look-back are kept, up to 131,072.
    """

    def __init__(self, forecaster: Forecaster):
        self._forecaster = forecaster
        channels = len(forecaster.fitted_.inputs.channels)
        self._values, self._times, self.points = np.empty((0, channels)), np.empty(0), 0

    def push(self, values: Any, times: Any = None) -> None:
        """Take in points `(count, channels)`, or one point `(channels,)`, NaN where nothing was observed.

        Args:
            times: one per point, increasing; None counts points, for a forecaster of series without times.
        """
        values, times = as_points(values, times, channels=self._values.shape[1])
        times = self.points + np.arange(len(values), dtype=np.float64) if times is None else times
        steps = np.diff(np.concatenate([self._times[-1:], times]))
        if not np.isfinite(times).all() or (steps <= 0).any() or np.isinf(values).any():
            raise ValueError("Got times that do not increase, or infinite numbers; expected points in order of time.")
        self.points += len(values)
        values, times = np.concatenate([self._values, values]), np.concatenate([self._times, times])
        first = np.searchsorted(times, times[-1] - self._forecaster.fitted_.lookback, "left") if len(times) else 0
        first = max(first, len(times) - MOST)
        self._values, self._times = values[first:], times[first:]

    @property
    def now(self) -> float:
        """The time of the last point."""
        if not len(self._values):
            raise ValueError("Got no point of the stream yet; expected at least one to forecast from.")
        return float(self._times[-1])

    def forecast(self, times: Any = None, **options: Any) -> Any:
        """Forecasts `(times, channels)`, with `interval` also `(times, channels, 2)`; see `predict` for the options."""
        options, channels = {"now": self.now, **options}, self._forecaster.fitted_.inputs.channels
        past = Series(self._values[None], times=self._times[None], channels=channels)
        found = self._forecaster.predict(past, times, **options)
        return found[0] if isinstance(found, np.ndarray) else tuple(part[0] for part in found)

    def state(self) -> tuple[np.ndarray, np.ndarray, int]:
        """All that forecasts depend on: the points of the look-back, their times, and how many points there were."""
        return self._values, self._times, self.points

    def go_on_from(self, state: tuple[np.ndarray, np.ndarray, int]) -> None:
        self._values, self._times, self.points = state


class ForecastStreams:
    """Streams by name, all of one forecaster, with the interface of `neuralrde.online.StreamBatch`."""

    def __init__(self, forecaster: Forecaster):
        self.model = digest_of(forecaster.fitted_)
        """A checksum of all that a forecast depends on, which is in every state."""
        self._forecaster = forecaster
        self._streams: dict[str, ForecastStream] = {}
        self._before: dict[str, tuple[np.ndarray, np.ndarray, int]] = {}  # of each stream of the last push

    def open(self, name: str, state: Any = None, static: None = None) -> None:
        """Begin a stream, or go on with one from its `state`."""
        if name in self._streams:
            raise ValueError(f"Got the name {name!r}, which is open already; expected a new one.")
        if static is not None:
            raise ValueError("Got `static` for a forecaster; expected none, because it was fitted without a table.")
        stream = ForecastStream(self._forecaster)
        if state is not None:
            check_head(state, self.model, None)
            channels = len(self._forecaster.fitted_.inputs.channels)
            values = as_array(state["values"], (None, channels), "values")
            times, count = as_array(state["times"], (len(values),), "times"), state["points"]
            if type(count) is not int or not len(values) <= count < 2**53:
                raise ValueError(f"points is {count!r}; expected a whole number from {len(values)}")
            stream.push(values, times)
            stream.points = count
        self._streams[name] = stream

    def state(self, name: str) -> dict[str, Any]:
        """A stream as JSON can hold it, to go on with it elsewhere."""
        values, times, points = self._streams[name].state()
        head = {"stream": "neuralrde", "format": FORMAT, "model": self.model, "last": None}
        return {**head, "points": points, "values": to_plain(values), "times": times.tolist()}

    def discard(self, name: str) -> None:
        del self._streams[name]

    def rename(self, name: str, new: str) -> None:
        """Give a stream another name; the one that had it ends."""
        self._streams[new] = self._streams.pop(name)

    def __contains__(self, name: object) -> bool:
        return name in self._streams

    def __len__(self) -> int:
        return len(self._streams)

    def points(self, name: str) -> int:
        """How many points a stream has seen."""
        return self._streams[name].points

    def now(self, name: str) -> float:
        """The time of a stream's last point."""
        return self._streams[name].now

    def push(self, arrivals: Mapping[str, tuple[Any, Any]]) -> dict[str, str]:
        """Take in new points, `{name: (values, times or None)}`, and return an error for each stream that was refused.

        A stream that is refused is left as it was, and the others are not concerned.
        """
        self._before, errors = {name: self._streams[name].state() for name in arrivals}, {}
        for name, points in arrivals.items():
            try:
                self._streams[name].push(*points)
            except (ValueError, TypeError, OverflowError) as error:
                errors[name] = str(error)
        return errors

    def undo(self, name: str) -> None:
        """Leave a stream as it was before the last push, if it was in that."""
        if name in self._before and name in self._streams:
            self._streams[name].go_on_from(self._before.pop(name))

    def forecast(self, name: str, times: Any = None, **options: Any) -> Any:
        """As `ForecastStream.forecast`."""
        return self._streams[name].forecast(times, **options)

    def warm_up(self, sizes: Any = None) -> None:
        """Compile what forecasts need."""
        stream = ForecastStream(self._forecaster)
        stream.push(np.zeros((2, len(self._forecaster.fitted_.inputs.channels))), [0.0, self._forecaster.fitted_.step])
        for count in (1, FAN):
            stream.forecast(stream.now + self._forecaster.fitted_.horizon * np.arange(1, count + 1) / count)
