"""What all estimators share: parameters by name, X and y as series and targets, saving, streams."""

import importlib
from types import SimpleNamespace
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from ..paths import Series
from ..transforms import Transform
from .division import Samples, check_groups, check_sample_weight
from .file import Saved
from .inputs import as_series
from .parameters import Parameters
from .sources import SeriesInMemory
from .targets import are_known


class SeriesEstimator(Parameters, Saved, BaseEstimator):
    """An estimator of series with scikit-learn's interface. Subclasses say how anything is learned.

    A subclass is a dataclass whose fields are its parameters. It says which of them are parts (`_parts`), which
    attributes it learns (`_learned`), and how targets are checked: `ClassTargets` and `NumberTargets` do that.
    """

    transform_: Transform
    flat_: bool
    n_channels_in_: int
    n_features_in_: int
    feature_names_in_: np.ndarray
    per_time_: bool
    _learned = ("transform_", "flat_", "n_channels_in_", "n_features_in_", "feature_names_in_")

    def _check_parameters(self) -> SimpleNamespace:
        """The parts that parameters stand for, by parameter. Raises if a parameter is wrong."""
        parts = SimpleNamespace()
        for name, family in self._parts.items():
            part = self._part(name)
            setattr(parts, name, part.expanded() if family == "transform" else part)
        return parts

    def _check_targets(self, y: Any, series: Series, *, reset: bool) -> np.ndarray:
        """Targets as numbers; with `reset` learns the classes, or how many outputs there are."""
        raise NotImplementedError

    def _check_learned(self, parts: SimpleNamespace, numbers: int) -> None:
        """Raise unless what a file says was learned fits together, and needs no more numbers than its arrays hold."""
        raise NotImplementedError

    def _check_fitted(self) -> None:
        check_is_fitted(self, "transform_")

    def _source(self, X: Any, *, reset: bool) -> Any:
        """X as a source of samples. With `reset` the estimator learns its channels."""
        return SeriesInMemory(as_series(self, X, reset=reset))

    def _samples(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None, *, reset: bool) -> Samples:
        """The arguments of `fit`, checked. Series without a weight, or without a target at any point, are left out."""
        source = self._source(X, reset=reset)
        target = self._check_targets(source.targets(self, y), source.series, reset=reset)
        groups = check_groups(source.groups if groups is None else groups, len(source))
        samples = Samples(source, target, groups=groups).times(check_sample_weight(sample_weight, len(source)))
        if not self.per_time_ or (rows := are_known(target).any(axis=1)).all():
            return samples
        if not rows.any():
            raise ValueError("Got series without any label that is known; expected some to compare with.")
        return samples[rows]

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.three_d_array = True
        return tags


class Streaming:
    """For estimators that the part `online` can follow.

    That part builds on estimators, so that they may not import it. They find it by its name when they are asked.
    """

    def stream(self, state: Any = None, *, last: int | None = None) -> Any:
        """A series that is still arriving: push points, and predict at any moment what the whole series would get.

        See `neuralrde.online.Stream`.

        Args:
            state: that of a stream to go on with, as `stream.state()` returned it.
            last: for estimators that look at series as a whole (those in closed form, and neural ones in which the
                closed form has a weight): predict from the last so many points, as if they were the whole series.
                None keeps all points, up to 131,072.
        """
        return _online().Stream(self, state, last=last)

    def streams(self, *, last: int | None = None) -> Any:
        """Many streams by name, which are advanced as one batch; see `neuralrde.online.StreamBatch`."""
        return _online().StreamBatch(self, last=last)


def _online() -> Any:
    return importlib.import_module("neuralrde.online")
