"""Forecasts in closed form: features of the past and of the question, and a ridge regression for each channel."""

from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import equinox as eqx
import numpy as np
from jaxtyping import Float, Int

from ..features import Ridge
from ..features.forecast import (
    ForecastFeatures,
    Origins,
    Past,
    Questions,
    design_features,
    seasonal,
)
from ..paths import Series
from ..paths.checks import check_number, check_whole
from .base import SeriesEstimator
from .division import check_groups
from .fitted import held_out_scores
from .forecasting import Answer, Forecaster, Targets, as_duration, as_pasts, origins_in, targets_after
from .inputs import InputDescription
from .parameters import Learned

# Penalties as multiples of the mean squared length of a row; some rows choose among them.
_PENALTIES, _CHOOSING = np.logspace(-2, 4, 9), 3000
# Origins that a fit looks at, points after each of them, and parts of the horizon with errors of their own.
_ORIGINS, _AFTER, _BINS = 4000, 64, 8
# Blocks of time that stand for series where there are few, and groups that errors of their own take.
_BLOCKS, _FEWEST = 10, 40
# Errors are kept as quantiles at multiples of half a percent.
_LEVELS = 200
# Questions of each channel for the map that all share, its penalty, and how far off a value may be to it, in spreads.
_SHARED, _FIRM, _FAR = 1000, 1e-3, 8.0
# Questions that are answered at a time.
_AT_ONCE = 2**15


class ForecastModel(eqx.Module):
    """Features, a linear map of them for each channel, and quantiles of what it misses."""

    features: ForecastFeatures
    coefficients: Float[Any, "features channels"]
    intercept: Float[Any, "channels"]
    lowest: Float[Any, "channels"]
    highest: Float[Any, "channels"]
    """In standard units; answers are never beyond."""
    missed: Float[Any, "channels parts levels"]
    counts: Float[Any, "channels parts"]
    """How many groups these errors are of."""


@dataclass(frozen=True, kw_only=True, eq=False)
class FittedForecast:
    """What `LogSignatureForecaster` has learned."""

    inputs: InputDescription
    horizon: float
    lookback: float
    period: float | None
    step: float
    """The usual time between points of the training series."""
    model: ForecastModel | None
    """None while a file's sizes are checked."""

    def __post_init__(self):
        for name in ("horizon", "lookback", "step"):
            check_number(name, getattr(self, name), above=True)
        check_number("period", self.period, above=True, also=(None,))

    def spread(self, channel: int) -> float:
        assert self.model is not None
        return float(self.model.features.spread[channel])

    def past(self, series: Series, origins: Origins) -> Past:
        assert self.model is not None
        return self.model.features.past(series, origins, self.lookback, self.period)

    def answers(self, past: Past, asked: dict[int, Questions]) -> dict[int, Answer]:
        model, answers = self.model, {}
        assert model is not None
        others = model.features.others(past)
        for channel, questions in asked.items():
            found = np.empty(len(questions.ahead))
            for first in range(0, len(found), _AT_ONCE):
                some = questions.take(slice(first, first + _AT_ONCE))
                design = model.features.design(past, others, some, channel, self.horizon, self.period)
                found[first : first + _AT_ONCE] = design @ model.coefficients[:, channel] + model.intercept[channel]
            found = np.clip(found, model.lowest[channel], model.highest[channel])
            level, spread = model.features.level[channel], model.features.spread[channel]
            answers[channel] = Answer(level + spread * found, spread)
        return answers

    def offsets(self, ahead: np.ndarray, channel: int, levels: Any) -> Float[np.ndarray, "questions levels"]:
        assert self.model is not None
        return offsets_of(self.model.missed[channel], self.model.counts[channel], part_of(ahead, self.horizon), levels)

    def naive(self, past: Past, questions: Questions, channel: int) -> dict[str, np.ndarray]:
        assert self.model is not None
        found = {"last": past.last[questions.origin, channel], "mean": past.mean[questions.origin, channel]}
        if self.period is not None:
            found["seasonal"] = seasonal(past, questions, channel, self.period)[:, 0]
        level, spread = self.model.features.level[channel], self.model.features.spread[channel]
        return {name: level + spread * value for name, value in found.items()}

    def least_sizes(self) -> dict[str, int]:
        """Numbers that a model has at least."""
        channels = self.inputs.n_channels
        return {"channels": channels, "features": design_features(channels, self.period) * channels}

    def shapes(self) -> ForecastModel:
        """The model's shapes, without its numbers."""
        channels = self.inputs.n_channels
        sizes = (design_features(channels, self.period), channels), (channels,), (channels,), (channels,)
        arrays = [np.zeros(size) for size in (*sizes, *error_sizes(channels))]
        return ForecastModel(ForecastFeatures.empty(channels, self.period), *arrays)


class Lesson(NamedTuple):
    """What the closed form has learned, and of what."""

    fitted: FittedForecast
    series: Series
    origins: Origins
    past: Past
    targets: list[Targets]
    left_out: list[Float[np.ndarray, "questions"]]
    """For each channel's targets, what it would have said without them, in standard units; NaN where not asked."""
    owner: Int[np.ndarray, "origins"]
    grouped: bool
    """Whether owners are groups of series, and not blocks of time."""


@dataclass(kw_only=True, eq=False, repr=False)
class LogSignatureForecaster(Forecaster, SeriesEstimator):
    """Forecasts every channel at any later time, in closed form, from an irregular past with gaps.

    Of each past there are iterated integrals of every channel with time (the terms of its log-signature) over several
    look-backs, last values with their ages, and fading means; of each question, how far ahead it is. A ridge regression
    per channel makes the forecast. Its penalty and its intervals come from series that were left out.

    X is a `Series`, a list of arrays or DataFrames `(length, channels)`, an array `(n, length, channels)`, or one long
    array or DataFrame; a DataFrame's index has the times. NaN is what was not observed.

    >>> times = np.arange(1200)
    >>> X = np.sin(times / 8) + 0.1 * np.random.default_rng(0).normal(size=1200)
    >>> model = LogSignatureForecaster(horizon=24).fit(X[:1000])
    >>> model.predict(X[:1000], horizon=24).shape
    (1, 24, 1)
    >>> model.score(X[1000:]) > 0.5
    True

    Args:
        horizon: how far ahead forecasts are learned, in the unit of the series' times, or "24h" where times are dates.
        lookback: how far back they look; None is four times the horizon.
        period: of a season, such as a day; None looks for none.
        examples: at most so many observations of each channel are learned from.
        random_state: the seed of what is drawn; with the same one, results are the same to the bit.

    Attributes:
        horizon_, lookback_, period_: in the unit of the series' times.
    """

    horizon: Any
    lookback: Any = None
    period: Any = None
    examples: int = 10_000
    random_state: int = 0

    _kind = FittedForecast
    horizon_ = Learned[float]("horizon")
    lookback_ = Learned[float]("lookback")
    period_ = Learned[float | None]("period")

    def fit(self, X: Any, y: None = None, *, cuts: Any = None, groups: Any = None) -> Self:
        """Learn from what came after moments in the series.

        Args:
            X: whole series; see the class.
            y: nothing, as what is to be forecast are the series themselves.
            cuts: moments from which to forecast: times for all series, or a list of times for each. None takes some
                4,000 points at random, of all series.
            groups: one per series, such as its patient: those of a group are left out together.
        """
        vars(self).pop("fitted_", None)  # a fit that fails leaves nothing behind
        self.fitted_ = self._lesson(X, cuts, groups).fitted
        return self

    def _lesson(self, X: Any, cuts: Any, groups: Any) -> Lesson:
        self._check_parameters()
        series, inputs, own_groups, dated = as_pasts(X, None, type(self).__name__)
        groups = check_groups(own_groups if groups is None else groups, len(series))
        span = lambda name: as_duration(name, getattr(self, name), dated=dated)
        horizon = span("horizon")
        lookback = 4 * horizon if self.lookback is None else span("lookback")
        period = None if self.period is None else span("period")
        random = np.random.default_rng(self.random_state)
        origins = origins_in(series, cuts, horizon, max(_ORIGINS, len(series)), random)
        targets = targets_after(series, origins, horizon, _AFTER, random)
        owner, blocks = _owners(series, origins, horizon, groups)
        if blocks is not None:  # what is left out shares no target with the rest
            targets = [_inside(one, origins, blocks, owner) for one in targets]
        chosen = [_some(len(one.value), self.examples, random) for one in targets]

        features = ForecastFeatures.drawn(series, period, int(self.random_state))
        past = features.past(series, origins, lookback, period)
        asked = [one.questions.take(rows) for one, rows in zip(targets, chosen, strict=True)]
        features = features.scaled_by(past, asked, period)
        others = features.others(past)
        fitted = FittedForecast(
            inputs=inputs, horizon=horizon, lookback=lookback, period=period, step=_usual_step(series), model=None
        )
        model, left_out = fitted.shapes(), [np.full(len(one.value), np.nan) for one in targets]
        standard = [
            (one.value[rows] - level) / spread
            for one, rows, level, spread in zip(targets, chosen, features.level, features.spread, strict=True)
        ]
        common = _CommonMap.fit(fitted, features, past, asked, standard, owner)
        for channel, (questions, rows, target) in enumerate(zip(asked, chosen, standard, strict=True)):
            held = owner[questions.origin]
            if len(np.unique(held)) < 2:
                continue  # the channel's level is the answer, with intervals without ends
            design = features.design(past, others, questions, channel, horizon, period)
            ridge = _regression(design, target, held)
            if common is not None:
                ridge = common.joined(ridge, features, channel, design, target)
            model.coefficients[:, channel], model.intercept[channel] = ridge.coefficients[:, 0], ridge.intercept[0]
            room = 0.5 * (target.max() - target.min())
            model.lowest[channel], model.highest[channel] = target.min() - room, target.max() + room
            found = np.clip(ridge.left_out[:, 0], model.lowest[channel], model.highest[channel])
            left_out[channel][rows] = found
            model.missed[channel], model.counts[channel] = quantiles(
                target - found, part_of(questions.ahead, horizon), None if blocks is not None else held
            )
        arrays = {name: value for name, value in vars(model).items() if name != "features"}
        fitted = replace(fitted, model=ForecastModel(features, **arrays))
        return Lesson(fitted, series, origins, past, targets, left_out, owner, blocks is None)

    def _check_parameters(self) -> Self:
        for name in ("horizon", "lookback", "period"):
            if name == "horizon" or getattr(self, name) is not None:
                as_duration(name, getattr(self, name), dated=True)
        check_whole("examples", self.examples, low=10)
        check_whole("random_state", self.random_state, low=0, high=2**32 - 1)
        return super()._check_parameters()


class _CommonMap(NamedTuple):
    """One map for all channels in their standard units. It knows of no channel in particular, so it needs few values of
    one: a channel takes its own map, that one, or a mixture, by what both say of series that were left out."""

    ridge: Ridge
    rows: dict[int, slice]
    """Of each channel's questions, those it is fitted to."""
    left_out: dict[int, Float[np.ndarray, "rows"]]

    @staticmethod
    def fit(
        fitted: FittedForecast,
        features: ForecastFeatures,
        past: Past,
        asked: list[Questions],
        standard: list[np.ndarray],
        owner: np.ndarray,
    ) -> "_CommonMap | None":
        """None where there is one channel, and nothing to share."""
        count = {channel: len(one.origin) for channel, one in enumerate(asked) if len(one.origin)}
        rows = {channel: slice(None, None, -(-number // _SHARED)) for channel, number in count.items()}
        some = {channel: asked[channel].take(own) for channel, own in rows.items()}
        if len(some) < 2 or len(np.unique(groups := owner[np.concatenate([one.origin for one in some.values()])])) < 2:
            return None
        design = np.concatenate(
            [features.common_design(past, one, channel, fitted.horizon, fitted.period) for channel, one in some.items()]
        )
        target = np.concatenate([standard[channel][own] for channel, own in rows.items()])
        scale = design.std(axis=0) + 1e-6
        ridge = Ridge.fit(design / scale, np.clip(target, -_FAR, _FAR)[:, None], groups=groups, penalties=[_FIRM])
        ends = np.cumsum([len(one.origin) for one in some.values()])[:-1]
        left_out = dict(zip(some, np.split(ridge.left_out[:, 0], ends), strict=True))
        return _CommonMap(replace(ridge, coefficients=ridge.coefficients / scale[:, None]), rows, left_out)

    def joined(
        self, own: Ridge, features: ForecastFeatures, channel: int, design: np.ndarray, target: np.ndarray
    ) -> Ridge:
        """The mixture of a channel's own map and this one."""
        coefficients, more = features.of_common(self.ridge.coefficients[:, 0], channel)
        intercept = float(self.ridge.intercept[0]) + more
        found, rows = design @ coefficients + intercept, self.rows[channel]
        found[rows] = self.left_out[channel]
        apart = found - own.left_out[:, 0]
        square = float((apart[rows] ** 2).sum())
        share = float(np.clip(apart[rows] @ (target - own.left_out[:, 0])[rows] / max(square, 1e-300), 0.0, 1.0))
        return replace(
            own,
            coefficients=own.coefficients + share * (coefficients[:, None] - own.coefficients),
            intercept=own.intercept + share * (intercept - own.intercept),
            left_out=own.left_out + share * apart[:, None],
        )


def _regression(design: np.ndarray, target: np.ndarray, groups: np.ndarray) -> Ridge:
    """With the mean of all penalties, each as likely as what it said of the groups that were left out.

    Many groups leave one or two of them; of a few blocks of time the best one is best by chance.
    """
    found: list[float] = []
    some = slice(None, None, -(-len(design) // _CHOOSING))

    def loss(left_out: np.ndarray, rows: np.ndarray) -> float:
        found.append(float(((left_out[:, 0] - target[some][rows]) ** 2).mean()))
        return found[-1]

    Ridge.fit(design[some], target[some, None], groups=groups[some], penalties=_PENALTIES, loss=loss)
    error = np.log(np.array(found) + 1e-9)
    likely = np.exp(-0.5 * len(np.unique(groups)) * (error - error.min()))
    penalty = np.exp(likely @ np.log(_PENALTIES) / likely.sum())
    return Ridge.fit(design, target[:, None], groups=groups, penalties=[penalty])


def _usual_step(series: Series) -> float:
    steps = np.diff(series.clock, axis=1)[series.valid[:, 1:]]
    return float(np.median(steps)) if len(steps) else 1.0


def _owners(series: Series, origins: Origins, horizon: float, groups: Any) -> tuple[np.ndarray, np.ndarray | None]:
    """What each origin is left out with: its group, its series, or its block of time where there are few series.

    Also the ends of the blocks, if there are any.
    """
    owner = (np.arange(len(series)) if groups is None else np.unique(groups, return_inverse=True)[1])[origins.sample]
    if groups is not None or len(series) >= _BLOCKS:
        return owner, None
    clock = series.clock
    start, end = clock[:, 0], clock[np.arange(len(series)), series.lengths - 1]
    blocks = np.clip((end - start) // (2 * horizon), 1, -(-_BLOCKS // len(series))).astype(int)
    if blocks.sum() < 2:
        raise ValueError(
            f"Got one series that lasts {end[0] - start[0]:g} for a horizon of {horizon:g}; expected at least "
            f"{4 * horizon:g}, because a part of it is left out to learn how far forecasts are to be trusted. Give a "
            "shorter horizon, or more series."
        )
    size = ((end - start) / blocks)[origins.sample]
    block = np.minimum((origins.now - start[origins.sample]) // size, blocks[origins.sample] - 1)
    first = np.concatenate([[0], np.cumsum(blocks)[:-1]])[origins.sample]
    return (first + block).astype(int), start[origins.sample] + (block + 1) * size


def _inside(targets: Targets, origins: Origins, ends: np.ndarray, owner: np.ndarray) -> Targets:
    """Those in the block of their origin."""
    origin, ahead = targets.questions
    kept = origins.now[origin] + ahead <= ends[origin] * (1 + 1e-12)
    return Targets(targets.questions.take(kept), targets.value[kept])


def _some(count: int, most: int, random: np.random.Generator) -> Int[np.ndarray, "some"]:
    return np.arange(count) if count <= most else np.sort(random.choice(count, most, replace=False))


def part_of(ahead: np.ndarray, horizon: float) -> Int[np.ndarray, "questions"]:
    """Which part of the horizon a question is in."""
    return np.clip(np.ceil(ahead / horizon * _BINS).astype(int) - 1, 0, _BINS - 1)


def quantiles(missed: np.ndarray, part: np.ndarray, groups: Any) -> tuple[np.ndarray, np.ndarray]:
    """Conformal quantiles of errors in each part of the horizon, and of how many groups (or errors) they are.

    A part with few of them has those of the whole horizon.
    """
    levels, found, counts = np.arange(1, _LEVELS) / _LEVELS, [], []
    for number in range(_BINS):
        own = part == number
        if len(np.flatnonzero(own) if groups is None else np.unique(groups[own])) < _FEWEST:
            own = np.ones(len(part), bool)
        scores = np.array(held_out_scores(missed[own][:, None], None if groups is None else groups[own])[0])
        places = levels * (len(scores) + 1)
        places = np.where(levels < 0.5, np.floor(places + 1e-9), np.ceil(places - 1e-9)).astype(int)
        found.append(scores[np.clip(places, 1, len(scores)) - 1])
        counts.append(len(scores))
    return np.stack(found), np.array(counts, np.float64)


def error_sizes(channels: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The shapes of what `quantiles` finds, for all channels."""
    return (channels, _BINS, _LEVELS - 1), (channels, _BINS)


def offsets_of(
    missed: Float[np.ndarray, "parts levels"],
    counts: Float[np.ndarray, "parts"],
    part: Int[np.ndarray, "questions"],
    wanted: Any,
) -> Float[np.ndarray, "questions wanted"]:
    """Of a channel's quantiles, those at other levels; without an end where they are of too few groups."""
    found = np.empty((len(part), len(wanted)))
    for number, level in enumerate(wanted):
        # The next one outside; not 10.000000000000002 of 200.
        place = int(np.floor(level * _LEVELS + 1e-9) if level < 0.5 else np.ceil(level * _LEVELS - 1e-9))
        share = min(place, _LEVELS - place) / _LEVELS
        known = share * (counts + 1) >= 1 - 1e-9
        each = missed[:, np.clip(place, 1, _LEVELS - 1) - 1]
        found[:, number] = np.where(known, each, np.inf if level >= 0.5 else -np.inf)[part]
    return found
