"""Features of whole series for linear models: random multi-scale log-signature features beside plain statistics."""

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, Self

import equinox as eqx
import numpy as np
from jaxtyping import Float
from sklearn.base import TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from ..paths import Series
from ..paths.statistics import summary_statistics
from ..signatures.looks import MOST_THRESHOLDS, MOST_WORDS, Looks
from ..training.archive import arrays_of, with_arrays
from ..transforms import Resample
from .base import SeriesEstimator
from .inputs import as_series
from .learned import check_inputs, check_transform
from .parameters import check_whole
from .random_features import RandomFeatures

# Standardised features beyond so many standard deviations are cut off: a linear model goes on for ever.
_FARTHEST = 8.0
# What a user may choose about random features, and the most of each.
SIZES = {"draws": 2**16, "maps": 2**12, "thresholds": MOST_THRESHOLDS, "contests": 2**9, "windows": 2**20}


class Standardised(eqx.Module):
    """Features in units of their spread over the training set, divided by the root of their number.

    So every block of features has about the same length, however many features it has: a few statistics are not lost
    among thousands of shares. A feature that did not vary, or is not known, counts for nothing.
    """

    mean: Float[Any, "features"]
    factor: Float[Any, "features"]

    @staticmethod
    def fit(features: Float[np.ndarray, "samples features"]) -> "Standardised":
        known = ~np.isnan(features)
        mean = features.mean(axis=0, where=known, dtype=np.float64)
        spread = features.std(axis=0, where=known, dtype=np.float64)
        # Rounding makes a constant vary, in the last digits.
        varies = (known.sum(axis=0) > 1) & (spread > 1e-6 * (1e-30 + np.abs(mean)))
        factor = np.where(varies, 1.0 / np.where(varies, spread, 1.0), 0.0) / np.sqrt(max(1, features.shape[1]))
        return Standardised(np.where(varies, mean, 0.0).astype(np.float32), factor.astype(np.float32))

    def __call__(self, features: Float[np.ndarray, "samples features"]) -> Float[np.ndarray, "samples features"]:
        far = _FARTHEST / np.sqrt(max(1, features.shape[1]))
        return np.clip(np.nan_to_num((features - self.mean) * self.factor), -far, far).astype(np.float32)


class SeriesFeatures(eqx.Module):
    """Both blocks, fitted: of raw series and of the same on a regular grid."""

    random: RandomFeatures
    shares: Standardised
    statistics: Standardised

    @staticmethod
    def fit(series: Series, regular: Series, **options: Any) -> tuple["SeriesFeatures", np.ndarray]:
        """With the training set's own features, which need not be computed twice."""
        random = RandomFeatures.fit(regular, **options)
        shares, statistics = random(regular), plain_statistics(series)
        fitted = SeriesFeatures(random, Standardised.fit(shares), Standardised.fit(statistics))
        return fitted, fitted._joined(shares, statistics)

    def __call__(self, series: Series, regular: Series) -> Float[np.ndarray, "samples features"]:
        return self._joined(self.random(regular), plain_statistics(series))

    def _joined(self, shares: np.ndarray, statistics: np.ndarray) -> np.ndarray:
        return np.concatenate([self.shares(shares), self.statistics(statistics)], axis=1)

    @staticmethod
    def template(channels: int, features: int, **sizes: int) -> Any:
        """The shapes, without the numbers, for loading. How many features there are, the plan in the file decides."""
        shape = lambda *sizes: np.zeros(sizes, np.float32)
        statistics = _STATISTICS * channels + 1
        looks = Looks.empty(channels=channels, **sizes)
        random = RandomFeatures(looks, shape(channels), shape(channels), shape(channels))
        block = lambda size: Standardised(shape(size), shape(size))
        return SeriesFeatures(random, block(features - statistics), block(statistics))


_STATISTICS = 8  # per channel, and one more for the duration


def plain_statistics(series: Series) -> Float[np.ndarray, "samples statistics"]:
    """Seven statistics of each channel, the share of its values that are missing, and how long the series lasts."""
    known = ~np.isnan(series.values) & series.valid[..., None]
    missing = 1.0 - known.sum(axis=1) / series.lengths[:, None]
    clock = series.clock
    duration = clock[np.arange(len(series)), series.lengths - 1] - clock[:, 0]
    return np.concatenate([summary_statistics(series), missing, np.log1p(np.abs(duration))[:, None]], axis=1)


@dataclass(kw_only=True, eq=False, repr=False)
class ClosedForm(SeriesEstimator):
    """What estimators in closed form share: their features, and how they are saved.

    Args:
        draws: how many random looks are taken at the series; each has some 130 features.
        maps: random linear maps of each look's log-signatures.
        thresholds: for each of these, how many thresholds.
        contests: groups of eight other maps in each look, which compete.
        windows: windows of each series that a look takes, at most.
        random_state: the seed of everything that is drawn; with the same one, results are the same to the bit.

    Attributes:
        model_: all that was learned, as arrays.
        transform_: the fitted transform, which puts series on a regular grid.
        features_: how many features a series has.
    """

    draws: int = 84
    maps: int = 24
    thresholds: int = 2
    contests: int = 4
    windows: int = 2048
    random_state: Any = 0

    _learned = (*SeriesEstimator._learned, "features_")

    def _check_parameters(self) -> SimpleNamespace:
        parts = super()._check_parameters()
        for name, high in SIZES.items():
            check_whole(name, getattr(self, name), high=high)
        return parts

    def _fit_features(self, series: Series) -> tuple[SeriesFeatures, np.ndarray]:
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        self.transform_ = Resample().fit(series)
        options = {name: getattr(self, name) for name in SIZES}
        fitted, features = SeriesFeatures.fit(series, self.transform_(series), **options, seed=seed)
        self.features_ = features.shape[1]
        return fitted, features

    def _features(self, X: Any) -> np.ndarray:
        self._check_fitted()
        series = as_series(self, X, reset=False)
        return _features_of(self.model_)(series, self.transform_(series))

    def _template(self) -> Any:
        options = {name: getattr(self, name) for name in SIZES}
        return SeriesFeatures.template(self.n_channels_in_, self.features_, **options)

    def _check_fitted(self) -> None:
        check_is_fitted(self, "model_")

    def _check_learned(self, parts: SimpleNamespace, numbers: int) -> None:
        channels = check_inputs(self)
        check_transform(self.transform_, Resample())
        for name, size in (("features_", self.features_), ("channels", channels * self.draws)):
            if size > numbers:
                raise ValueError(f"Got {numbers} numbers; expected many more, for {size} {name}")
        if self.draws * MOST_WORDS * (self.maps + 1) > numbers or self.features_ < _STATISTICS * channels + 2:
            raise ValueError(f"Got {numbers} numbers and {self.features_} features; expected other numbers of them")

    def __getstate__(self):
        state: dict[str, Any] = dict(super().__getstate__())  # type: ignore
        return state | {"model_": arrays_of(state["model_"])} if "model_" in state else state

    def __setstate__(self, state):
        super().__setstate__(state)
        if isinstance(getattr(self, "model_", None), dict):
            self.model_ = with_arrays(self._template(), self.model_)


def _features_of(model: Any) -> SeriesFeatures:
    return model if isinstance(model, SeriesFeatures) else model.features


@dataclass(kw_only=True, eq=False, repr=False)
class LogSignatureFeatures(TransformerMixin, ClosedForm):
    """Random multi-scale log-signature features and plain statistics of series, for any linear model that comes after.

    X is `(n, length, channels)`, `(n, length)` of one channel, a list of arrays or DataFrames `(length, channels)`, or
    a `neuralrde.Series`: with any times, of any lengths, and with NaN for missing values.

    >>> X = np.random.default_rng(0).normal(size=(8, 100, 3))
    >>> LogSignatureFeatures(draws=10).fit_transform(X).shape[0]
    8
    """

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn scales and thresholds."""
        self._check_parameters()
        self.model_, _ = self._fit_features(as_series(self, X, reset=True))
        return self

    def fit_transform(self, X: Any, y: Any = None) -> np.ndarray:
        """As `fit` and then `transform`, in half the time."""
        self._check_parameters()
        self.model_, features = self._fit_features(as_series(self, X, reset=True))
        return features

    def transform(self, X: Any) -> np.ndarray:
        """The features of each series."""
        return self._features(X)
