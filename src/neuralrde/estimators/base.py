"""What all estimators share: parameters by name, X and y as samples, `fitted_` and its attributes, saving, streams."""

import os
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from .._types import OnePerSeries, Options, SeriesLike, TableLike, TargetLike
from ..online import Stream, StreamBatch
from ..training.examples import as_weights
from ..transforms import Transform
from .division import Samples, check_groups
from .explanation import Explanation, explained
from .inputs import InputDescription, StaticCoding, described_series
from .parameters import Learned, Parameters
from .saving import load_estimator, save_estimator
from .sources import HasSource, SampleSource, SeriesInMemory
from .targets import TargetCoding, are_known


class SeriesEstimator(Parameters, BaseEstimator):
    """An estimator of series with scikit-learn's interface. Subclasses say how anything is learned.

    A subclass is a dataclass whose fields are its parameters. It says which of them are parts (`_parts`) and of which
    class `fitted_` is (`_kind`), the frozen value that `fit` keeps. Attributes such as `model_` read from it.
    """

    fitted_: Any
    _kind: ClassVar[type]
    _task: ClassVar[str] = ""
    """ "classification" or "regression", for those with targets."""
    transform_ = Learned[Transform]("transform")
    n_channels_in_ = Learned[int]("inputs.n_channels")
    n_features_in_ = Learned[int]("inputs.columns")
    feature_names_in_ = Learned[np.ndarray]("inputs.feature_names", optional=True)
    outputs_ = Learned[int]("targets.outputs")
    per_time_ = Learned[bool]("targets.per_time")

    def _check_parameters(self) -> Self:
        """The estimator with an object for each part, as parameters may be short names. Raises if one is wrong."""
        parts = {name: self._part(name) for name in self._parts}
        return type(self)(**self.get_params(deep=False) | parts)

    def _code_targets(
        self, y: TargetLike, series: Any, coding: TargetCoding | None, classes: TargetLike = None
    ) -> tuple[np.ndarray, TargetCoding]:
        """Targets as numbers, and their coding; see `ClassTargets` and `NumberTargets`."""
        raise NotImplementedError

    def _check_fitted(self) -> None:
        check_is_fitted(self, "fitted_")

    @classmethod
    def _of(cls, fitted: Any, parameters: Options | None = None) -> Self:
        """An estimator that has learned this."""
        estimator = cls(**parameters or {})
        estimator.fitted_ = fitted
        return estimator

    def _source(
        self, X: SeriesLike, described: InputDescription | None = None, static: TableLike = None
    ) -> tuple[SampleSource, InputDescription]:
        """X as a source of samples, and its description, which must be that of an earlier `fit` if one is given."""
        if isinstance(X, HasSource):
            if static is not None or (described is not None and described.static is not None):
                raise ValueError("Got a store and static; expected series, because a store holds nothing beside them.")
            return X.as_source(), described or InputDescription(tuple(X.channels), len(X.channels))
        first = described is None
        series, described = described_series(X, described, estimator=type(self).__name__)
        if first and static is not None:
            described = replace(described, static=StaticCoding.fit(static, len(series)))
        return SeriesInMemory(series, described.coded(static, len(series))), described

    def _source_and_targets(self, X: SeriesLike, y: TargetLike, static: TableLike) -> tuple[SampleSource, Any]:
        """The source of `score`, and the targets to compare predictions with."""
        source, _ = self._source(X, self.fitted_.inputs, static)
        y = source.targets(y, self._task)
        if y is None:
            raise ValueError("Got no y; expected the targets to compare predictions with.")
        return source, y

    def _samples(
        self,
        X: SeriesLike,
        y: TargetLike,
        sample_weight: OnePerSeries = None,
        groups: OnePerSeries = None,
        *,
        static: TableLike = None,
        described: InputDescription | None = None,
        coding: TargetCoding | None = None,
        classes: TargetLike = None,
    ) -> tuple[Samples, InputDescription, TargetCoding]:
        """The arguments of `fit`, checked. Series without a weight, or without a target at any point, are left out.

        Args:
            X, y, sample_weight, groups, static: as a user gives them.
            described, coding: those of an earlier `fit`, which these must follow; None in the first one.
            classes: all labels, if y may lack some of them.
        """
        source, described = self._source(X, described, static)
        y = source.targets(y, self._task)
        if y is None:
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None.")
        target, coding = self._code_targets(y, source.series, coding, classes)
        groups = check_groups(source.groups if groups is None else groups, len(source))
        weight = None if sample_weight is None else as_weights(sample_weight, len(source), "sample_weight", "series")
        samples = Samples(source, target, groups=groups).weighted_by(weight)
        if coding.per_time and not (rows := are_known(samples.target).any(axis=1)).all():
            if not rows.any():
                raise ValueError("Got series without any label that is known; expected some to compare with.")
            samples = samples[rows]
        return samples, described, coding

    def _outputs(self, X: SeriesLike, static: TableLike = None) -> Any:
        """The outputs for series X, of which predictions are made."""
        self._check_fitted()
        return self.fitted_.outputs(self._source(X, self.fitted_.inputs, static)[0])

    # Saving.

    def save(self, path: str | os.PathLike) -> None:
        """Write the fitted estimator to one file: weights in safetensors, settings in JSON, no pickle."""
        self._check_fitted()
        save_estimator(path, self, self._fitted_parameters())

    def _fitted_parameters(self) -> Options:
        """The parameters that `fitted_` was learned with."""
        return self.get_params(deep=False)

    @classmethod
    def load(cls, path: str | os.PathLike) -> Any:
        """The estimator that `save` wrote, with the same predictions. A file from elsewhere can do no harm.

        `FileRefused` says what is wrong with a file that is damaged, of another version, or makes no model.
        """
        return load_estimator(path, {cls.__name__: cls})

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.three_d_array = True
        return tags


class Predicting:
    """Estimators that predict: they say why, and can follow series that are still arriving."""

    fitted_: Any

    def explain(self, X: SeriesLike, *, bins: int = 24, static: TableLike = None) -> Explanation:
        """What each channel and each of `bins` spans of time contributed to the outputs for series X.

        So did the columns of `static`, if `fit` had some. Contributions add up to the logit, or the number, less a
        baseline; see `neuralrde.estimators.Explanation`.
        """
        check_is_fitted(self, "fitted_")
        source, _ = self._source(X, self.fitted_.inputs, static)  # type: ignore
        return explained(self.fitted_, source, bins)

    def stream(self, state: Any = None, *, last: int | None = None, static: TableLike = None) -> Stream:
        """A series that is still arriving: push points, and predict at any moment what the whole series would get.

        See `neuralrde.online.Stream`.

        Args:
            state: that of a stream to go on with, as `stream.state()` returned it.
            last: for estimators that look at series as a whole (those in closed form, and neural ones in which the
                closed form has a weight): predict from this many of the last points, as if they were the whole series.
                None keeps all points, up to 131,072.
            static: `{"age": 64}`, if `fit` had a table; a column that is left out is a gap. A state holds its own.
        """
        check_is_fitted(self, "fitted_")
        return Stream(self.fitted_, state, last=last, static=static)

    def streams(self, *, last: int | None = None) -> StreamBatch:
        """Many streams by name, which are advanced as one batch; see `neuralrde.online.StreamBatch`."""
        check_is_fitted(self, "fitted_")
        return StreamBatch(self.fitted_, last=last)
