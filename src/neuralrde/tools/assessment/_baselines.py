"""Baselines: predictions without looking at a series, and with seven plain statistics of it."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Shaped

from ...datasets import Dataset
from ...features.statistics import running_statistics, summary_statistics

TRIVIAL, LAST, PREVIOUS, CHEAP = "trivial", "last value", "previous target", "cheap model"
CLOSED_FORM = "closed form"
"""The kind of a baseline that is an estimator in closed form: the least that a neural model must reach."""
# A cheap model stays cheap: it learns from this many points at most, drawn at random.
_MOST_POINTS = 20_000
_PENALTIES = np.logspace(-6, 3, 19)
# Standard deviations beyond which a feature counts as an outlier and is cut.
_FARTHEST = 8.0


@dataclass(frozen=True, eq=False)
class Baseline:
    """Predictions that cost nothing, or little.

    Args:
        kind: "trivial", "last value", "previous target", "cheap model" or "closed form".
        name: what to call it.
        predicted: one row for each series, or for each point whose target is known.
        explained: what it is, in a few words.
    """

    kind: str
    name: str
    predicted: Shaped[np.ndarray, "rows ..."]
    explained: str = ""


@dataclass(frozen=True)
class TrainingTargets:
    """The facts about a training set that a trivial prediction needs; small enough to be kept beside a model.

    Args:
        counts: how many series, or points, each class has.
        mean: of each output.
    """

    counts: dict[str, int] | None = None
    mean: list[float] | None = None

    @classmethod
    def of(cls, train: Dataset) -> "TrainingTargets":
        """Counts of the classes, or the mean of each output.

        >>> from neuralrde.paths import Series
        >>> series = Series.from_array([[1.0, 2.0]] * 3)
        >>> TrainingTargets.of(Dataset(series, ["no", "yes", "no"])).counts
        {'no': 2, 'yes': 1}
        """
        target = known_targets(train)
        if train.classes is None:
            return cls(mean=target.mean(axis=0).tolist())
        return cls(counts={name: int((target == name).sum()) for name in train.classes})


def baselines(train: Dataset, test: Dataset, *, seed: int = 0) -> list[Baseline]:
    """All baselines that make sense for these targets, the trivial one first.

    Args:
        train: what to learn from.
        test: what to predict; its own targets are used for "previous target" only.
        seed: of the points that the cheap model learns from, if there are very many.
    """
    first = trivial(TrainingTargets.of(train), len(known_targets(test)))
    others = (last_value(train, test), previous_target(test, first.predicted[:1]), cheap_model(train, test, seed=seed))
    return [first, *filter(None, others)]


def known_targets(data: Dataset) -> np.ndarray:
    """Names of classes `(rows,)`, or numbers `(rows, outputs)`: of each series, or of each point that has one."""
    target = np.asarray(data.target)
    target = target[known_points(data)] if data.per_time else target
    return target.reshape(len(target), -1) if data.classes is None else np.asarray(data.classes)[target]


def known_points(data: Dataset) -> np.ndarray:
    """Which targets at points are known."""
    target = np.asarray(data.target)
    known = target >= 0 if data.classes is not None else np.isfinite(target).all(axis=-1)
    return data.series.valid & known


def trivial(train: TrainingTargets, rows: int) -> Baseline:
    """Predicts the largest class of the training set, or its mean, whatever the series.

    >>> trivial(TrainingTargets(counts={"no": 5, "yes": 2}), 2)  # doctest: +ELLIPSIS
    Baseline(kind='trivial', name='always `no`', predicted=array(['no', 'no'], dtype='<U2'), ...)
    """
    if train.counts is not None:
        name = max(train.counts, key=lambda name: train.counts[name])  # type: ignore
        return Baseline(TRIVIAL, f"always `{name}`", np.full(rows, name), "the largest class of the training set")
    mean = np.asarray(train.mean, float)
    shown = ", ".join(f"{number:.4g}" for number in mean[:4]) + (", ..." if len(mean) > 4 else "")
    return Baseline(TRIVIAL, "training mean", np.broadcast_to(mean, (rows, len(mean))), shown)


def last_value(train: Dataset, test: Dataset) -> Baseline | None:
    """The last value of the channel that comes nearest to the target in training, where one does; for numbers.

    In a forecast, that is often hard to beat. For targets at each point it is the channel's latest value.
    """
    target = known_targets(train)
    if train.classes is not None or target.shape[1] != 1:
        return None
    latest = _latest(train)
    error = np.sqrt(((latest - target) ** 2).mean(axis=0))
    best = int(np.argmin(np.where(np.isnan(error), np.inf, error)))
    if not error[best] < target.std():
        return None
    found = np.where(np.isnan(_latest(test)), target.mean(), _latest(test))[:, [best]]
    return Baseline(LAST, f"last value of `{train.series.channels[best]}`", found, "no learning at all")


def previous_target(test: Dataset, first: np.ndarray) -> Baseline | None:
    """The target at the point before, and `first` at the first point of a series; for targets at each point.

    It asks for targets that are known as soon as their time has come, so it is fair in forecasts only.
    """
    if not test.per_time:
        return None
    target, places = known_targets(test), np.cumsum(known_points(test).sum(axis=1))[:-1]
    parts = [part for part in np.split(target, places) if len(part)]
    before = [np.concatenate([np.broadcast_to(first, part[:1].shape), part[:-1]]) for part in parts]
    return Baseline(PREVIOUS, "previous true target", np.concatenate(before), "fair only if known by then")


def cheap_model(train: Dataset, test: Dataset, *, seed: int = 0) -> Baseline:
    """Ridge regression or classification of seven statistics per channel, its penalty chosen by leave-one-out.

    With targets at each point, the statistics are of the series so far.
    """
    from sklearn.linear_model import RidgeClassifierCV, RidgeCV
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import FunctionTransformer, StandardScaler

    def features(data: Dataset) -> np.ndarray:
        if not data.per_time:
            return summary_statistics(data.series)
        return running_statistics(data.series)[known_points(data)[data.series.valid]]

    known, asked, target = features(train), features(test), known_targets(train)
    if len(known) > _MOST_POINTS:
        some = np.random.default_rng(seed).choice(len(known), _MOST_POINTS, replace=False)
        known, target = known[some], target[some]

    def clip(scaled: np.ndarray) -> np.ndarray:  # what is missing becomes the mean, 0
        return np.clip(np.nan_to_num(scaled), -_FARTHEST, _FARTHEST) / np.sqrt(scaled.shape[1])

    ridge = RidgeClassifierCV(_PENALTIES) if train.classes is not None else RidgeCV(_PENALTIES)
    model: Any = make_pipeline(StandardScaler(), FunctionTransformer(clip), ridge)
    found = model.fit(known, target).predict(asked)
    explained = f"ridge on 7 statistics of each channel{' so far' if train.per_time else ''}"
    return Baseline(CHEAP, CHEAP, found if train.classes is not None else found.reshape(len(asked), -1), explained)


def _latest(data: Dataset) -> np.ndarray:
    """The latest known value of each channel, at the end or at each point whose target is known."""
    values = data.series.values.astype(np.float64)
    known = ~np.isnan(values) & data.series.valid[..., None]
    last = np.maximum.accumulate(np.where(known, np.arange(values.shape[1])[:, None], -1), axis=1)
    latest = np.where(last >= 0, np.take_along_axis(values, np.maximum(last, 0), axis=1), np.nan)
    return latest[known_points(data)] if data.per_time else latest[:, -1]
