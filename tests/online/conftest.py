"""Fitted estimators for streams. What is compared is arithmetic, so that models with their first weights will do."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from neuralrde import Config, NeuralRDE, NeuralRDERegressor, Series
from neuralrde.estimators.fitted import Blend, FittedNeural
from neuralrde.estimators.neural import ARCHITECTURE_PARAMETERS
from neuralrde.estimators.sources import inputs_of
from neuralrde.models import READOUTS
from neuralrde.paths import concatenate

SMALL: dict[str, Any] = {"epochs": 1, "verbose": False, "random_state": 0}
TINY = Config(NeuralRDE, state=6, width=8, layers=2)


def irregular(samples=30, length=160, seed=0) -> Series:
    """Random walks of two channels at random times, a third of the values missing."""
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(samples, length, 2)).cumsum(axis=1)
    values[rng.random(values.shape) < 0.3] = np.nan
    return Series.from_array(values, times=np.cumsum(rng.exponential(size=(samples, length)), axis=1))


def untrained(
    series: Series, *, members: int = 1, y: Any = None, kind: Any = NeuralRDERegressor, **options: Any
) -> Any:
    """All that `fit` learns, but with the first weights: training would take most of the tests' time, to compile."""
    estimator = kind(**SMALL | {"model": TINY, "windows": 8, "members": members} | options)
    parts = estimator._check_parameters()
    y = np.nanmean(series.values, axis=(1, 2)) if y is None else y
    _, inputs, targets = estimator._samples(series, y)
    transform, prepared = vars(parts)["transform"].expanded().fit_and_call(series)
    windows, channels = parts.windows.resolved(prepared), prepared.values.shape[2]
    fitted = FittedNeural(
        inputs=inputs,
        targets=targets,
        transform=transform,
        windows=windows,
        config=parts.model,
        members=members,
        loss=parts.loss,
        augmentation=parts.augmentation,
        n_path_channels=channels,
        given={name: estimator.get_params()[name] for name in ARCHITECTURE_PARAMETERS},
    )
    model = fitted.built(1)
    arrays = inputs_of(model, prepared, windows)
    model = model.fit_inputs(arrays.arrays, windows=arrays.windows)
    return estimator._of(replace(fitted, model=model), estimator.get_params(deep=False))


def blended_with(estimator: Any, closed: Any, factors: tuple[float, float], **changes: Any) -> Any:
    """The estimator with a closed form blended in."""
    closed = None if closed is None else closed.fitted_
    return type(estimator)._of(replace(estimator.fitted_, blend=Blend(closed, factors), **changes))


def prefixes(series: Series, row: int, ends: list[int]) -> Series:
    """The beginnings of one series, as series."""
    one = lambda end: Series(
        series.values[row : row + 1, :end],
        times=None if series.times is None else series.times[row : row + 1, :end],
        channels=series.channels,
    )
    return concatenate([one(end) for end in ends])


def pushed(streams: Any, series: Series, row: int, sizes: dict[str, int], start: int, end: int) -> None:
    """Push the points from `start` to `end` into each stream, in pieces of its own size, all streams side by side."""
    for number in range(-(-(end - start) // min(sizes.values()))):
        news = {}
        for name, size in sizes.items():
            first, last = start + number * size, min(start + (number + 1) * size, end)
            if first < last:
                times = None if series.times is None else series.times[row, first:last]
                news[name] = (series.values[row, first:last], times)
        assert streams.push(news) == {}


def readout(name: str) -> Any:
    return READOUTS[name]()


@pytest.fixture(scope="session")
def walks() -> Series:
    return irregular()


@pytest.fixture(scope="session")
def estimator(walks) -> NeuralRDERegressor:
    """Trained, with irregular times and missing values, windows by count."""
    options = SMALL | {"model": TINY, "windows": 8}
    return NeuralRDERegressor(**options).fit(walks, np.nanmean(walks.values, axis=(1, 2)))
