"""A transform of series: `fit` it on the training set, then call it on any series.

What it may learn from are `Statistics` of a training set, in memory or in parts, whose `Sums` add up.
"""

import inspect
import math
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar, NamedTuple, Union, get_args, get_origin, get_type_hints

import numpy as np
from jaxtyping import Float, Int, Real

from ..errors import python_only, setting
from ..paths.series import Series
from ..registry import Registry


class Sums(NamedTuple):
    """Number, mean, sum of squared deviations, lowest and highest of each channel's observed values, in float64."""

    points: int
    count: Int[np.ndarray, "channels"]
    mean: Float[np.ndarray, "channels"]
    squares: Float[np.ndarray, "channels"]
    low: Float[np.ndarray, "channels"]
    high: Float[np.ndarray, "channels"]

    @staticmethod
    @np.errstate(over="ignore", invalid="ignore")  # whoever divides by them checks that they are finite
    def of(columns: Iterable[Real[np.ndarray, "points"]]) -> "Sums":
        """The sums of some channels.

        >>> Sums.of([np.array([1.0, np.nan, 3.0])]).mean.tolist()
        [2.0]
        """
        points, rows = 0, []
        for column in columns:
            points = len(column)
            # One channel at a time: contiguous, so that NumPy sums pairwise and loses almost nothing.
            seen = column[~np.isnan(column)].astype(np.float64, copy=False)
            mean = np.mean(seen) if len(seen) else 0.0
            extremes = seen.min(initial=np.inf), seen.max(initial=-np.inf)
            rows.append((len(seen), mean, np.sum(np.square(seen - mean)), *extremes))
        count, *sums = np.array(rows, np.float64).reshape(-1, 5).T
        return Sums(points, count.astype(np.int64), *sums)

    @np.errstate(over="ignore", invalid="ignore")
    def __add__(self, other: "Sums") -> "Sums":  # type: ignore[override]
        """Those of both parts (Chan, Golub and LeVeque 1983)."""
        count = self.count + other.count
        share = other.count / np.maximum(count, 1)
        difference = other.mean - self.mean
        return Sums(
            self.points + other.points,
            count,
            np.where(self.count == 0, other.mean, self.mean + difference * share),
            self.squares + other.squares + difference**2 * self.count * share,
            np.minimum(self.low, other.low),
            np.maximum(self.high, other.high),
        )

    @property
    def has_gaps(self) -> np.ndarray:
        """Whether each channel has a missing value."""
        return self.count < self.points


@dataclass(frozen=True)
class Statistics:
    """A training set as a transform's `fit_statistics` sees it.

    Args:
        channels: the names of its channels.
        sums: computes the sums over all of it; most transforms do not ask.
        duration: of the longest series; without times, its number of increments.
        timed: whether its series have times.
    """

    channels: tuple[str, ...]
    sums: Callable[[], Sums]
    duration: float
    timed: bool

    @staticmethod
    def of(series: Series) -> "Statistics":
        """Statistics of series in memory: neither missing values nor padding count."""
        valid, clock = series.valid, series.clock
        sums = lambda: Sums.of(series.values[..., channel][valid] for channel in range(len(series.channels)))
        duration = float((clock[:, -1] - clock[:, 0]).max())
        return Statistics(series.channels, sums, duration, series.times is not None)

    def observed_sums(self) -> Sums:
        """The sums; an error if a channel was never observed."""
        sums = self.sums()
        if not sums.count.all():
            raise ValueError(
                f"Got the channel {self.channels[int(sums.count.argmin())]!r} without any observation in the training "
                "set; expected at least one, because there is nothing to learn its mean from. Leave the channel out "
                f"(of a table, with {setting('columns', [...])})"
                f"{python_only(', or fill it with a number of your own, `FillForward(default=0.0)`')}."
            )
        return sums


# What a transform carries from chunk to chunk: arrays whose first axis is the stream, or a list of such dictionaries.
Carried = Any


class Transform:
    """A transform of series, a frozen dataclass whose fields are plain numbers, names and tuples of them.

    `fit` learns from the training set and returns a fitted copy. Fields whose names end in `_` hold what it learned.
    Calling the transform changes neither the series nor the transform, so later data are treated like the training set.

    A new transform is a subclass with `fit`, if it learns, and one of three forms. One that looks ahead defines
    `__call__`. One that only looks back defines `begin` and `step`; a whole series is then a single chunk. One that
    looks at each point alone defines `__call__`, and a `begin` that returns `{}`. Files name the library's transforms
    by their short names, and yours by module and name, `"hospital.Scale"`. One that adds points says how many in
    `points_after`, one that adds channels in `channels_after`, and one that learns times says so in `timed`.
    """

    def expanded(self) -> "Transform":
        """The same transform without short forms: `Standard` becomes the transforms that it stands for."""
        return self

    def fit(self, series: Series) -> "Transform":
        """A copy that has learned from the training set; the transform itself if it has nothing to learn."""
        return self.fit_statistics(Statistics.of(series))

    def fit_statistics(self, statistics: Statistics) -> "Transform":
        """As `fit`, from statistics alone, which series that need not be in memory have too."""
        if self.is_fitted:
            return self
        raise ValueError(
            f"Got the transform {type(self).__name__}, which has fields to learn; expected a method `fit`, or "
            "`fit_statistics`, that learns them."
        )

    @property
    def is_fitted(self) -> bool:
        """Whether it has learned all that it needs, or has nothing to learn."""
        learned = (field.name for field in fields(self) if field.name.endswith("_"))  # type: ignore
        return all(getattr(self, name) is not None for name in learned)

    def fit_and_call(self, series: Series) -> tuple["Transform", Series]:
        """A fitted copy, and the training set as it transforms it."""
        fitted = self.fit(series)
        return fitted, fitted(series)

    def __call__(self, series: Series) -> Series:
        """The series, transformed."""
        return self.step(self.begin(len(series), len(series.channels)), series)[1]

    def begin(self, streams: int, channels: int) -> Carried:
        """What the fitted transform carries before a stream's first point; an error if it looks ahead."""
        raise ValueError(
            f"Got {type(self).__name__} for a series that is still arriving; expected a transform that only looks "
            f"back. {self.looks_ahead or _only_looking_back()}"
        )

    looks_ahead: ClassVar[str] = ""
    """Why it has no `begin`, and what to use instead."""

    def step(self, carried: Carried, series: Series) -> tuple[Carried, Series]:
        """What is carried on, and the new points of each stream, at least one, transformed.

        Where no times are known, a point's time is its number in the stream. The results of all steps together are the
        whole series, transformed.
        """
        return carried, self(series)

    def channels_after(self, channels: int) -> int:
        """How many channels a series has afterwards."""
        return channels

    def points_after(self, lengths: Int[np.ndarray, "samples"]) -> Int[np.ndarray, "samples"]:
        """How many points series of these lengths have afterwards."""
        return lengths

    @property
    def timed(self) -> bool | None:
        """Whether the training set had times; None if nothing that was learned depends on it."""
        return None

    @property
    def parts(self) -> tuple["Transform", ...]:
        """The transforms that it applies one after the other: only itself, unless it is made of others."""
        return (self,)

    def state(self) -> dict[str, Any]:
        """The transform as a plain dictionary that JSON can hold; `Transform.from_state` turns it back.

        >>> from neuralrde.transforms import TimeChannel
        >>> state = TimeChannel(duration=2.0).state()
        >>> state["transform"], state["duration"]
        ('time', 2.0)
        >>> Transform.from_state(state)
        TimeChannel(duration=2.0)
        """
        plain = {field.name: _to_plain(getattr(self, field.name)) for field in fields(self)}  # type: ignore
        return {"transform": Registry.families["transform"].name_of(type(self)), **plain}

    @staticmethod
    def from_state(state: dict[str, Any]) -> "Transform":
        """The transform that `state` was taken from, fitted as it was."""
        if not isinstance(state, Mapping):
            raise ValueError(f"Got the state {state!r}; expected a dictionary, what `state()` returns.")
        name = state.get("transform")
        cls = Registry.families["transform"].find(name if isinstance(name, str) else repr(name))
        try:
            values = {name: _from_plain(value) for name, value in state.items() if name != "transform"}
            _check_types(cls, values)
            return cls._from_fields(**values)
        except TypeError as error:
            raise ValueError(
                f"Got a state that does not fit the transform {cls.__name__!r} ({error}); expected what `state()` "
                "returns. It may come from another version of neuralrde."
            ) from None

    @classmethod
    def _from_fields(cls, **values) -> "Transform":
        return cls(**values)


def _only_looking_back() -> str:
    """A sentence with the library's transforms that have a `begin` of their own."""
    single = [cls for cls in Registry.families["transform"].values() if cls.expanded is Transform.expanded]
    *names, last = [cls.__name__ for cls in single if cls.begin is not Transform.begin]
    return (
        "It does not say how it carries on from point to point, by its methods `begin` and `step`. Use "
        f"{', '.join(names)} or {last}."
    )


def check_fitted(transform: Transform, learned: Any) -> None:
    if learned is None:
        name = type(transform).__name__
        raise ValueError(
            f"Got {name} before it was fitted; expected a fitted one, because it uses numbers of the "
            "training set. Write `transform = transform.fit(training)`, then `transform(series)`."
        )


def check_channels(transform: Transform, learned: tuple[str, ...] | None, series: Series) -> None:
    """A number learned for one channel must never meet another."""
    check_fitted(transform, learned)
    if learned != series.channels:
        raise ValueError(
            f"Got a series with the channels {list(series.channels)}; expected {list(learned or ())}, in "
            f"this order, because {type(transform).__name__} was fitted on them. Order and name them alike, "
            "`Series(..., channels=[...])`."
        )


def check_one_each(channels: tuple[str, ...] | None, **learned: tuple[float, ...] | None) -> None:
    """What was learned is one number for each channel, or nothing yet."""
    for name, numbers in learned.items():
        if channels is None or numbers is None:
            if numbers is not channels:
                raise ValueError(f"Got channels_={channels} and {name}={numbers}; expected both of them or neither.")
        elif len(numbers) != len(channels):
            raise ValueError(f"Got {len(channels)} channels and {len(numbers)} {name}; expected one for each channel.")


def _check_types(cls: type[Transform], values: dict[str, Any]) -> None:
    """A state may come from a file: its values must be what the transform's fields are declared to be."""
    try:
        declared = get_type_hints(cls)
    except NameError:  # a type that only its author's module knows
        return
    for name, value in values.items():
        if name in declared and not _is(value, declared[name]):
            shown = getattr(declared[name], "__name__", declared[name])
            raise TypeError(f"Got {name}={value!r}; expected {shown}, and finite numbers only")


def _is(value: Any, declared: Any) -> bool:
    """Whether a plain value is of a declared type. Types that are not plain are not looked into."""
    origin, inner = get_origin(declared), get_args(declared)
    if origin in (Union, types.UnionType):
        return any(_is(value, one) for one in inner)
    if origin in (tuple, Sequence):
        return isinstance(value, tuple) and all(_is(item, inner[0]) for item in value)
    if declared in (bool, str, types.NoneType):
        return isinstance(value, declared)
    if declared in (int, float):
        number = isinstance(value, int if declared is int else int | float) and not isinstance(value, bool)
        return number and math.isfinite(value)
    return not inspect.isclass(declared) or not issubclass(declared, Transform) or isinstance(value, declared)


def _to_plain(value: Any) -> Any:
    if isinstance(value, Transform):
        return value.state()
    return [_to_plain(item) for item in value] if isinstance(value, tuple) else value


def _from_plain(value: Any) -> Any:
    if isinstance(value, dict):
        return Transform.from_state(value)
    return tuple(_from_plain(item) for item in value) if isinstance(value, list | tuple) else value
