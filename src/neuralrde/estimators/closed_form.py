"""Classification, regression and features in closed form: random log-signature features and ridge regression."""

from dataclasses import dataclass, fields, replace
from typing import Self

import numpy as np
from jaxtyping import Float
from sklearn.base import TransformerMixin
from sklearn.utils import check_random_state

from .._types import OnePerSeries, Seed, SeriesLike, TableLike, TargetLike
from ..features import FeatureSizes, LinearModel, SeriesFeatures, ridge_of_classes, ridge_of_numbers
from ..features.features import ManyFeatures
from ..paths import Series
from ..transforms import Resample
from .base import Predicting, SeriesEstimator
from .division import Samples, check_several_groups
from .fitted import FittedClosedForm, FittedFeatures, held_out_scores
from .inputs import InputDescription
from .parameters import Learned
from .sources import whole_series
from .targets import (
    ClassTargets,
    NumberTargets,
    TargetCoding,
    check_threshold_suits,
    chosen_threshold,
    class_weights,
)


def fit_closed_form(
    samples: Samples,
    inputs: InputDescription,
    targets: TargetCoding,
    *,
    sizes: FeatureSizes | None = None,
    random_state: Seed = 0,
) -> tuple[FittedClosedForm, Float[np.ndarray, "samples outputs"]]:
    """Features and a ridge regression; and its outputs for each series, had that series been left out."""
    source, sizes = samples.source, sizes or FeatureSizes()
    fitted, values = fit_features(whole_series(source), inputs, sizes, random_state, source.static, placed=True)
    features = fitted.model
    assert features is not None
    if targets.classes is not None:
        known = (samples.target, targets.outputs, samples.weight, samples.groups)
        ridge, sharpness = ridge_of_classes(values, *known, blocks=features.scales)
        scores = None
    else:
        known = (samples.target, samples.weight, samples.groups)
        ridge, sharpness = ridge_of_numbers(values, *known, blocks=features.scales), 1.0
        scores = held_out_scores(np.abs(samples.target.astype(np.float64) - ridge.left_out), samples.groups)
    features, coefficients = features.without(ridge.coefficients)
    arrays = (coefficients, ridge.intercept, np.asarray(sharpness))
    model = LinearModel(features, *(array.astype(np.float32) for array in arrays))
    learned = vars(fitted) | {"model": model, "counts": features.counts, "targets": targets}
    learned |= {"penalty": ridge.penalty, "scores": scores}
    return FittedClosedForm(**learned), ridge.left_out * float(model.sharpness)


def fit_features(
    series: Series,
    inputs: InputDescription,
    sizes: FeatureSizes,
    random_state: Seed,
    static: Float[np.ndarray, "samples numbers"] | None = None,
    *,
    placed: bool = False,
) -> tuple[FittedFeatures, Float[np.ndarray, "samples features"] | ManyFeatures]:
    """Features of a training set, for whatever comes after; and their values for it."""
    seed = int(check_random_state(random_state).randint(2**31 - 1))
    transform = Resample().fit(series)
    model, values = SeriesFeatures.fit(series, transform(series), sizes, static, placed=placed, seed=seed)
    return FittedFeatures(inputs=inputs, transform=transform, sizes=sizes, counts=model.counts, model=model), values


@dataclass(kw_only=True, eq=False, repr=False)
class ClosedForm(SeriesEstimator):
    """The parameters that estimators in closed form share.

    Args:
        draws: how many random draws of windows are taken from the series; each has some 130 features.
        maps: random linear maps of each draw's log-signatures.
        thresholds: thresholds for each of these maps.
        competitions: groups of eight other maps in each draw, which compete.
        windows: the largest number of windows of a series in a draw.
        random_state: the seed of everything that is drawn; with the same one, results are the same to the bit.

    Attributes:
        model_: all that was learned, as arrays.
        transform_: the fitted transform, which puts series on a regular grid.
        features_: how many features a series has.
    """

    draws: int = FeatureSizes.draws
    maps: int = FeatureSizes.maps
    thresholds: int = FeatureSizes.thresholds
    competitions: int = FeatureSizes.competitions
    windows: int = FeatureSizes.windows
    random_state: Seed = 0

    model_ = Learned[SeriesFeatures | LinearModel]("model")
    features_ = Learned[int]("features")

    def _sizes(self) -> FeatureSizes:
        return FeatureSizes(**{field.name: getattr(self, field.name) for field in fields(FeatureSizes)})

    def _check_parameters(self) -> Self:
        self._sizes()
        return super()._check_parameters()


@dataclass(kw_only=True, eq=False, repr=False)
class LogSignatureFeatures(TransformerMixin, ClosedForm):
    """Random multi-scale log-signature features and plain statistics of series, for any linear model that comes after.

    X is `(n, length, channels)`, `(n, length)` of one channel, a list of arrays or DataFrames `(length, channels)`, or
    a `neuralrde.Series`: with any times, of any lengths, and with NaN for missing values.

    >>> X = np.random.default_rng(0).normal(size=(8, 100, 3))
    >>> LogSignatureFeatures(draws=10).fit_transform(X).shape[0]
    8
    """

    _kind = FittedFeatures

    def fit(self, X: SeriesLike, y: TargetLike = None) -> Self:
        """Learn scales and thresholds."""
        self.fit_transform(X)
        return self

    def fit_transform(self, X: SeriesLike, y: TargetLike = None) -> np.ndarray:
        """Fit and transform, in half the time of one after the other."""
        self._check_parameters()
        source, inputs = self._source(X)
        self.fitted_, values = fit_features(whole_series(source), inputs, self._sizes(), self.random_state)
        return values if isinstance(values, np.ndarray) else self.transform(X)

    def transform(self, X: SeriesLike) -> np.ndarray:
        """The features of each series."""
        self._check_fitted()
        return self.fitted_.of(whole_series(self._source(X, self.fitted_.inputs)[0]))


class _RidgeOnFeatures(Predicting, ClosedForm):
    """`fit` and what follows from it."""

    _kind = FittedClosedForm
    class_weight: dict | str | None
    threshold: dict | str | None
    penalty_ = Learned[float]("penalty")

    def fit(
        self,
        X: SeriesLike,
        y: TargetLike,
        sample_weight: OnePerSeries = None,
        *,
        groups: OnePerSeries = None,
        static: TableLike = None,
    ) -> Self:
        """Compute features of series X, and the ridge regression of targets y on them.

        Args:
            X: series; see the class.
            y: one target per series.
            sample_weight: how much each series counts; None counts all alike.
            groups: one per series, such as its patient. Series of a group are left out together when the penalty is
                chosen and predictions are calibrated.
            static: what is known of each series as a whole, such as age and sex: a DataFrame, or columns by their
                names, of numbers or words, with gaps. Predictions then take such a table, too.
        """
        self._check_parameters()
        vars(self).pop("fitted_", None)  # a fit that fails leaves nothing behind
        samples, inputs, targets = self._samples(X, y, sample_weight, groups, static=static)
        if targets.per_time:
            raise ValueError(
                f"Got a target at every point; expected one per series, because {type(self).__name__} looks at series "
                f"as a whole. Use NeuralRDE{'Regressor' if targets.classes is None else 'Classifier'} for that."
            )
        samples = samples.weighted_by(class_weights(self.class_weight, targets, samples.target, samples.target))
        check_several_groups(samples)
        check_threshold_suits(self.threshold, targets)
        sizes, seed = self._sizes(), self.random_state
        fitted, left_out = fit_closed_form(samples, inputs, targets, sizes=sizes, random_state=seed)
        threshold = None
        if self.threshold is not None:
            likely = fitted.probabilities(fitted.one_per_series(left_out))[:, 1]
            threshold = chosen_threshold(self.threshold, likely, samples.target)
        self.fitted_ = replace(fitted, threshold=threshold)
        return self


@dataclass(kw_only=True, eq=False, repr=False)
class LogSignatureClassifier(ClassTargets, _RidgeOnFeatures):
    """Classifies series in closed form: random multi-scale log-signature features and a ridge classifier.

    It takes seconds, has no training loop, needs no validation set, and is the same each time. The penalty is the
    one with the smallest log loss on series that were left out, and probabilities are calibrated on the same.

    X is `(n, length, channels)`, `(n, length)` of one channel, a list of arrays or DataFrames `(length, channels)`, or
    a `neuralrde.Series`: with any times, of any lengths, and with NaN for missing values. y is one label per series.

    >>> from neuralrde.datasets import order_of_events
    >>> data = order_of_events(samples=60, length=64)
    >>> model = LogSignatureClassifier().fit(data.series, data.target)
    >>> model.score(data.series, data.target)
    1.0

    Args:
        class_weight: None, "balanced", or a dictionary from labels to weights, 0 for a class that should not count.
        threshold: a goal by which to choose the probability from which on the second of two classes is predicted:
            "f1", "balanced_accuracy", {"sensitivity": 0.9} or {"specificity": 0.9}. Each series is judged by what
            would have been predicted without it, or its group. None predicts the likelier class.

    Attributes:
        classes_: the labels.
        penalty_: as chosen.
        threshold_: as chosen.
    """

    class_weight: dict | str | None = None
    threshold: dict | str | None = None

    def decision_function(self, X: SeriesLike, *, static: TableLike = None) -> np.ndarray:
        """The score of each class, near 1 for the right one and near -1 for others; of two classes, the second's."""
        self._check_fitted()
        source, _ = self._source(X, self.fitted_.inputs, static)
        scores = self.fitted_.values(whole_series(source), source.static)
        return (scores[:, 1] - scores[:, 0]) / 2 if self.outputs_ == 2 else scores


@dataclass(kw_only=True, eq=False, repr=False)
class LogSignatureRegressor(NumberTargets, _RidgeOnFeatures):
    """Predicts numbers from series in closed form: random multi-scale log-signature features and ridge regression.

    It takes seconds, has no training loop, needs no validation set, and is the same each time. The penalty is the
    one with the smallest squared error on series that were left out. Their errors calibrate intervals, too.

    X is `(n, length, channels)`, `(n, length)` of one channel, a list of arrays or DataFrames `(length, channels)`, or
    a `neuralrde.Series`: with any times, of any lengths, and with NaN for missing values. y is `(n,)` or `(n,
    outputs)`, with NaN for outputs that are not known: each output is fitted to the series that have it.

    >>> X = np.cumsum(np.random.default_rng(0).normal(size=(200, 65)), axis=1)
    >>> LogSignatureRegressor().fit(X[:150], X[:150].std(axis=1)).score(X[150:], X[150:].std(axis=1)) > 0.9
    True

    Attributes:
        penalty_: as chosen; the largest, if outputs are known for different series.
        scores_: how far targets that were left out were from their predictions, for each output; as many as groups.
    """

    scores_ = Learned[list[list[float]] | None]("scores")
