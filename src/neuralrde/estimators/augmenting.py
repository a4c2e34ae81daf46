"""The training set in the versions that an augmentation makes of it, and predictions from several versions as one."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from ..training import AbstractAugmentation
from ..transforms import Transform
from .division import Samples


@dataclass(frozen=True)
class AugmentedSamples:
    """A training set, not yet prepared, in several versions. The seed alone decides which; none is kept.

    >>> from neuralrde import Series
    >>> from neuralrde.training import TimeStretch
    >>> from neuralrde.transforms import TimeChannel
    >>> samples = Samples(Series.from_array(np.zeros((3, 9))), np.array([[60.0], [70.0], [80.0]]))
    >>> versions = AugmentedSamples(TimeStretch(0.5, 2.0, rate=True, versions=2), samples, seed=0)
    >>> versions.targets().shape
    (6, 1)
    >>> first = versions.prepared(0, TimeChannel().fit(samples.series))
    >>> bool((first.target == versions.targets()[:3]).all())
    True
    """

    augmentation: AbstractAugmentation
    samples: Samples
    seed: int

    def __len__(self) -> int:
        return self.augmentation.versions

    def targets(self) -> np.ndarray:
        """Those of all versions, for statistics."""
        return np.concatenate([self._target(self._drawn(number)) for number in range(len(self))])

    def prepared(self, number: int, transform: Transform) -> Samples:
        """A version as the model sees it."""
        drawn = self._drawn(number)
        series = self.augmentation.apply(self.samples.series, drawn)
        return replace(self.samples, series=transform(series), target=self._target(drawn))

    def _drawn(self, number: int) -> np.ndarray:
        return self.augmentation.draw(len(self.samples), np.random.default_rng([self.seed, number, 3]))

    def _target(self, drawn: np.ndarray) -> np.ndarray:
        return self.augmentation.targets(self.samples.target, drawn)


class VersionOutputs(NamedTuple):
    """A model's outputs for one version of new series."""

    outputs: np.ndarray
    factor: float = 1.0
    """What targets are multiplied by in this version."""


def median_of(versions: Sequence[VersionOutputs], predict: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """The median of the predictions that are made of each version's outputs, in the targets' own units.

    >>> versions = [VersionOutputs(np.array([60.0 * factor]), factor) for factor in (1.0, 2.0, 0.5)]
    >>> median_of(versions, np.asarray)
    array([60.])
    """
    return np.median([predict(version.outputs) / version.factor for version in versions], axis=0)


def median_scores(versions: Sequence[VersionOutputs], target: np.ndarray, loss: Any) -> np.ndarray:
    """The scores of targets with which the medians of all versions' intervals just hold them.

    The lower end of the median interval is below a target where the ends of most versions are. So the median score of
    the versions that lie above the target decides, those below counting as 0; the same holds for the upper end.
    """
    low, high = [], []
    for outputs, factor in versions:
        scores, scaled = loss.scores(outputs, target * factor), target * factor
        below = scaled < loss.predict(outputs)
        low.append(np.where(below, scores, 0.0))
        high.append(np.where(below, 0.0, scores))
    return np.maximum(np.median(low, axis=0), np.median(high, axis=0))


def check_augmentation(augmentation: Any, task: str) -> None:
    """Raise unless it is one, and one for these targets."""
    if augmentation is None:
        return
    if not isinstance(augmentation, AbstractAugmentation):
        raise ValueError(
            f"Got augmentation={augmentation!r}; expected None, an augmentation such as TimeStretch(), or one of your "
            "own, a subclass of AbstractAugmentation."
        )
    if augmentation.scales_targets and task == "classification":
        raise ValueError(
            f"Got augmentation={augmentation!r} for classification; expected one that leaves targets alone, because "
            "classes cannot be multiplied. Write for example TimeStretch(rate=False)."
        )
