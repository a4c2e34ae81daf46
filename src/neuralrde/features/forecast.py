"""Features of a past and of a question about its future, for forecasts in closed form.

Of each channel's past, held from one observation to the next, there are iterated integrals with time up to the third
level over look-backs of several lengths, which are the terms of its log-signature; beside them the last value, its age,
and means that fade. Nothing is put on a grid: a past is a list of observations with their ages, whatever is missing.
"""

from typing import Any, NamedTuple

import equinox as eqx
import numpy as np
from jaxtyping import Float, Int, Shaped

from ..paths import Series

# Look-backs of the integrals, time constants of the fading means: as shares of the longest look-back.
_SPANS, _FADES = (1 / 48, 1 / 12, 1 / 4, 1.0), (1 / 8, 1 / 3, 1.0)
# Time constants with which a question fades into the future, as shares of the horizon.
_AHEAD = (1 / 12, 1 / 3)
# Phases of a period, between which values are interpolated.
_PHASES = 24
_OWN = 8 + 3 * len(_SPANS) + len(_FADES)
# Of every channel, for the forecasts of all others: two fading means, whether there is anything, and how much.
_OTHERS = 4
# Random thresholds, which bend the linear map.
_BENDS = 100
# Ridge regression shrinks what has small numbers most: other channels, what changes with the time ahead, and bends
# have to earn their weight (chosen on PhysioNet 2012's validation patients).
_OF_OWN, _OF_OTHERS, _OF_AHEAD, _OF_BENDS = 0.5, 0.05, 0.3, 0.1
CONTROLS = 5
"""Numbers that each window of `increments` has."""
# Standard deviations beyond which a feature says no more: of other channels, and of a channel for itself, some of whose
# values are far out, but what follows them is, too.
_MOST, _FARTHEST = 5.0, 30.0


class Origins(NamedTuple):
    """Moments in series from which forecasts are made: points up to `now` are the past."""

    sample: Int[np.ndarray, "origins"]
    now: Float[np.ndarray, "origins"]


class Past(NamedTuple):
    """What is known at each origin."""

    own: Float[np.ndarray, "origins channels own"]
    phases: Float[np.ndarray, "origins channels both phases"] | None
    """Means of the same phase of the period: of recent cycles, and of the whole look-back."""
    last: Float[np.ndarray, "origins channels"]
    mean: Float[np.ndarray, "origins channels"]
    """The last value and the mean in standard units; 0 where there is none."""


class Questions(NamedTuple):
    """Which channel, how long after which origin."""

    origin: Int[np.ndarray, "questions"]
    ahead: Float[np.ndarray, "questions"]

    def take(self, rows: Any) -> "Questions":
        return Questions(self.origin[rows], self.ahead[rows])


def own_features(period: float | None) -> int:
    return _OWN + 2 * (period is not None)


def others_features(channels: int) -> int:
    """How many features all channels tell to each other."""
    return _OTHERS * channels


def design_features(channels: int, period: float | None) -> int:
    """How many features a question has."""
    own = own_features(period)
    return others_features(channels) + own + (own + 1) * (1 + len(_AHEAD)) + _BENDS


class ForecastFeatures(eqx.Module):
    """What features are measured by, learned from training series alone."""

    level: Float[Any, "channels"]
    spread: Float[Any, "channels"]
    centre: Float[Any, "channels own"]
    width: Float[Any, "channels own"]
    others_centre: Float[Any, "channels others"]
    others_width: Float[Any, "channels others"]
    bends: Float[Any, "own_and_ahead bends"]
    thresholds: Float[Any, "bends"]

    @staticmethod
    def empty(channels: int, period: float | None) -> "ForecastFeatures":
        """Its shapes."""
        own = own_features(period)
        sizes = (channels,), (channels,), (channels, own), (channels, own), (channels, _OTHERS), (channels, _OTHERS)
        return ForecastFeatures(*(np.zeros(size) for size in (*sizes, (own + 1, _BENDS), (_BENDS,))))

    @staticmethod
    def drawn(series: Series, period: float | None, seed: int) -> "ForecastFeatures":
        """Levels and spreads of the series' channels, and random bends; the rest is learned from questions."""
        values = series.values[series.valid].astype(np.float64)
        known = ~np.isnan(values)
        count = np.maximum(known.sum(axis=0), 1)
        level = np.where(known, values, 0.0).sum(axis=0) / count
        spread = np.sqrt(np.where(known, (values - level) ** 2, 0.0).sum(axis=0) / count)
        empty = ForecastFeatures.empty(len(level), period)
        random, (inputs, bends) = np.random.default_rng(seed), empty.bends.shape
        return ForecastFeatures(
            level,
            np.where(spread > 0, spread, 1.0),
            empty.centre,
            empty.width + 1.0,
            empty.others_centre,
            empty.others_width + 1.0,
            1.5 * random.normal(size=(inputs, bends)) / np.sqrt(inputs),
            random.uniform(-2.0, 2.0, bends),
        )

    def past(self, series: Series, origins: Origins, lookback: float, period: float | None) -> Past:
        """What is known at each origin, from its look-back alone."""
        rows, key, age, value = _observations(series, origins, lookback)
        channels = len(self.level)
        value = (value - self.level[key % channels]) / self.spread[key % channels]
        size = rows * channels
        total = lambda weights: np.bincount(key, weights, size)
        count, ends = total(np.ones(len(key))), np.flatnonzero(np.diff(key, append=-1))
        last, latest = np.zeros(size), np.full(size, 2.0)
        last[key[ends]], latest[key[ends]] = value[ends], age[ends]
        # Each observation is held until the next of its channel.
        until = np.zeros(len(key))
        until[:-1] = np.where(key[1:] == key[:-1], age[1:], 0.0)
        off, found = value - last[key], [last, count == 0, np.log1p(24 * latest), np.log1p(count)]
        found += [last * np.exp(-4 * latest), last * np.exp(-latest)]
        for span in _SPANS:
            first, end = np.minimum(age, span), np.minimum(until, span)
            held, moment = (first - end) / span, (first**2 - end**2) / span**2
            found += [total(held * off), total(moment * off), np.sqrt(total(held * off**2))]
        for fade in _FADES:
            weights = np.exp(-age / fade)
            found.append(total(weights * value) / (total(weights) + 0.5))
        lowest, highest = np.full(size, np.inf), np.full(size, -np.inf)
        np.minimum.at(lowest, key, value)
        np.maximum.at(highest, key, value)
        found += [np.where(count > 0, ends_of, 0.0) for ends_of in (lowest, highest)]
        shape = rows, channels
        return Past(
            np.stack(found, axis=-1).reshape(*shape, _OWN),
            None if period is None else _phases(key, age * lookback, value, size, period).reshape(*shape, 2, _PHASES),
            last.reshape(shape),
            (total(value) / np.maximum(count, 1)).reshape(shape),
        )

    def increments(
        self, series: Series, origins: Origins, lookback: float, windows: int
    ) -> Float[np.ndarray, "origins channels windows controls"]:
        """What each of equal windows of the look-back adds to time and to the past of each channel.

        A channel is held from one observation to the next, and is at its level before the first. After time come its
        own increment, its mean and its moment about the middle of the window (what its log-signature with time has up
        to the third level, with the channel once), and the number of observations.
        """
        rows, key, age, value = _observations(series, origins, lookback)
        channels, size = len(self.level), rows * len(self.level)
        value = (value - self.level[key % channels]) / self.spread[key % channels]
        # One more at the end, in no channel, so that there always is one.
        key, value, time = np.append(key, size), np.append(value, 0.0), np.append(1 - age, 0.0)
        edges, starts = np.linspace(0, 1, windows + 1), np.searchsorted(key, np.arange(size))
        # Integrals of the held values up to each observation, over all channels in a row: only differences count.
        lasts = np.where(np.diff(key, append=-1) == 0, np.diff(time, append=0), 0.0)
        sums = [np.cumsum(value * lasts * factor) - value * lasts * factor for factor in (1.0, time + lasts / 2)]
        place = np.searchsorted(2 * key + time, 2 * np.arange(size)[:, None] + edges, "right")
        held, seen = np.maximum(place - 1, 0), place > starts[:, None]
        since, last = edges - time[held], np.where(seen, value[held], 0.0)
        until = lambda sums, factor: sums[held] - sums[starts][:, None] + last * since * factor
        whole = np.where(seen, until(sums[0], 1.0), 0.0)
        moment = np.where(seen, until(sums[1], edges - since / 2), 0.0)
        middle = (edges[1:] + edges[:-1]) / 2
        moment = windows**2 * (np.diff(moment) - middle * np.diff(whole))
        counts = np.diff(np.where(seen, place - starts[:, None], 0))
        time = np.full((size, windows), 1 / windows)
        found = np.stack([time, np.diff(last), windows * np.diff(whole), moment, counts], axis=-1, dtype=np.float32)
        return found.reshape(rows, channels, windows, CONTROLS)

    def scaled_by(self, past: Past, asked: list[Questions], period: float | None) -> "ForecastFeatures":
        """The same, with means and spreads of features over the questions of each channel."""
        centre, width = np.array(self.centre), np.array(self.width)
        for channel, questions in enumerate(asked):
            if len(questions.origin):
                own = self._own(past, questions, channel, period)
                centre[channel], width[channel] = own.mean(axis=0), own.std(axis=0) + 1e-6
        others = _others(past)
        where = lambda one: (one.centre, one.width, one.others_centre, one.others_width)
        return eqx.tree_at(where, self, (centre, width, others.mean(axis=0), others.std(axis=0) + 1e-6))

    def others(self, past: Past) -> Float[np.ndarray, "origins others"]:
        """What every channel tells about all others."""
        return _clipped(_others(past), self.others_centre, self.others_width).reshape(len(past.own), -1)

    def design(
        self, past: Past, others: np.ndarray, questions: Questions, channel: int, horizon: float, period: float | None
    ) -> Float[np.ndarray, "questions features"]:
        """The features of questions about one channel."""
        own, ahead = self._standard(past, questions, channel, period), questions.ahead / horizon
        bent = np.concatenate([own, np.log1p(24 * ahead)[:, None] - 2], axis=1) @ self.bends + self.thresholds
        parts = [_OF_OTHERS * others[questions.origin], _OF_OWN * own, _OF_AHEAD * _crossed(own, ahead)]
        return np.concatenate([*parts, _OF_BENDS * np.maximum(bent, 0.0)], axis=1)

    def common_design(
        self, past: Past, questions: Questions, channel: int, horizon: float, period: float | None
    ) -> Float[np.ndarray, "questions common"]:
        """What means the same in every channel: its own past, and this times the time ahead, in its standard units."""
        own = self.centre[channel] + self.width[channel] * self._standard(past, questions, channel, period)
        return np.concatenate([own, _crossed(own, questions.ahead / horizon)], axis=1)

    def of_common(
        self, coefficients: Float[np.ndarray, "common"], channel: int
    ) -> tuple[Float[np.ndarray, "features"], float]:
        """The coefficients of `design`, and the intercept, that say what those of `common_design` do."""
        centre, width = self.centre[channel], self.width[channel]
        own, crossed = coefficients[: len(centre)], coefficients[len(centre) :].reshape(len(centre) + 1, -1).copy()
        crossed[-1] += centre @ crossed[:-1]
        crossed[:-1] *= width[:, None]
        others = np.zeros(others_features(len(self.level)))
        parts = [others, width * own / _OF_OWN, crossed.ravel() / _OF_AHEAD, np.zeros(_BENDS)]
        return np.concatenate(parts), float(centre @ own)

    def own(self, past: Past, origin: Any, channel: Any) -> Float[np.ndarray, "rows own"]:
        """What a channel's own past tells, whatever the question."""
        own = past.own[origin, channel]
        return _clipped(own, *(each[channel, : own.shape[-1]] for each in (self.centre, self.width)))

    def _standard(self, past: Past, questions: Questions, channel: int, period: float | None) -> np.ndarray:
        own = self._own(past, questions, channel, period)
        return np.clip((own - self.centre[channel]) / self.width[channel], -_FARTHEST, _FARTHEST)

    def _own(self, past: Past, questions: Questions, channel: int, period: float | None) -> np.ndarray:
        own = past.own[questions.origin, channel]
        return own if period is None else np.concatenate([own, seasonal(past, questions, channel, period)], axis=1)


def _crossed(own: np.ndarray, ahead: np.ndarray) -> Float[np.ndarray, "questions crossed"]:
    """Each feature, and 1, times how far ahead the question is: linearly, and fading."""
    fades = np.stack([ahead, *(np.exp(-ahead / fade) for fade in _AHEAD)], axis=1)
    return (np.concatenate([own, np.ones((len(own), 1))], axis=1)[:, :, None] * fades[:, None]).reshape(len(own), -1)


def _clipped(values: np.ndarray, centre: np.ndarray, width: np.ndarray) -> np.ndarray:
    return np.clip((values - centre) / width, -_MOST, _MOST)


def seasonal(past: Past, questions: Questions, channel: int, period: float) -> Float[np.ndarray, "questions both"]:
    """Means of the past at the question's phase of the period, in standard units."""
    phases = past.phases
    assert phases is not None
    place = (-questions.ahead / period % 1.0) * _PHASES
    low, share = place.astype(int) % _PHASES, (place % 1.0)[:, None]
    at = lambda phase: phases[questions.origin, channel, :, phase]
    return (1 - share) * at(low) + share * at((low + 1) % _PHASES)


def _others(past: Past) -> Float[np.ndarray, "origins channels others"]:
    return past.own[:, :, [_OWN - 4, _OWN - 3, 1, 3]]


def _observations(
    series: Series, origins: Origins, lookback: float
) -> tuple[int, Shaped[np.ndarray, "_"], Shaped[np.ndarray, "_"], Shaped[np.ndarray, "_"]]:
    """Origins; and of every observation in their look-backs origin and channel, age and value, the oldest first."""
    clock, channels = series.clock, series.values.shape[2]
    bounds = np.empty((len(origins.now), 2), int)
    for row, (sample, now) in enumerate(zip(origins.sample, origins.now, strict=True)):
        times = clock[sample, : series.lengths[sample]]
        bounds[row] = np.searchsorted(times, now - lookback, "left"), np.searchsorted(times, now, "right")
    counts = bounds[:, 1] - bounds[:, 0]
    row = np.repeat(np.arange(len(counts)), counts)
    point = np.arange(len(row)) - np.repeat(np.cumsum(counts) - counts, counts) + bounds[row, 0]
    values = series.values[origins.sample[row], point].astype(np.float64)
    age = (origins.now[row] - clock[origins.sample[row], point]) / lookback
    which, channel = np.nonzero(~np.isnan(values))
    order = np.argsort(key := row[which] * channels + channel, kind="stable")
    return len(counts), key[order], age[which][order], values[which, channel][order]


def _phases(key: np.ndarray, age: np.ndarray, value: np.ndarray, size: int, period: float) -> np.ndarray:
    """Means of each phase before the origin, of recent cycles and of all; each value counts for the two next to it."""
    place = (age / period % 1.0) * _PHASES
    low, share = place.astype(int) % _PHASES, place % 1.0
    found = []
    for weights in (np.exp(-age / period), np.ones(len(age))):
        sums, amounts = np.zeros(size * _PHASES), np.full(size * _PHASES, 0.1)
        for phase, part in ((low, 1 - share), ((low + 1) % _PHASES, share)):
            cell = key * _PHASES + phase
            sums += np.bincount(cell, weights * part * value, len(sums))
            amounts += np.bincount(cell, weights * part, len(sums))
        found.append((sums / amounts).reshape(size, _PHASES))
    return np.stack(found, axis=1)
