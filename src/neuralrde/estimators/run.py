"""One training of an estimator. Everything is fixed but the windows, so that a search can try several."""

import os
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jax.sharding import Mesh

from ..models import CrossFitted, Ensemble
from ..paths import Windows
from ..training import EachMember, Listener, RandomChoice, Settings, TrainingState, fit
from .division import AugmentedSamples, Division, Samples
from .targets import are_known, share_at_cuts


@dataclass(frozen=True)
class Run:
    """A training that is called with windows: `run(windows)`.

    The estimator says how weights, losses and models are made. `model` is the model to continue with, if there is one.
    """

    estimator: Any
    data: Division
    """Prepared, so that the model can be trained on it."""
    settings: Settings
    seed: int
    listeners: Sequence[Listener]
    mesh: Mesh | None = None
    model: Any = None
    folds: np.ndarray | None = None
    """The fold of each training sample, for an ensemble: every member leaves out one fold."""
    augmented: AugmentedSamples | None = None
    """Versions of the training samples, to train on instead of them."""

    @property
    def channels(self) -> int:
        """How many channels the prepared series have."""
        return self.data.training.source.channels

    def __call__(
        self,
        windows: Windows,
        state: TrainingState | None = None,
        until: int | None = None,
        *,
        checkpoint: str | os.PathLike | None = None,
        resume: bool = False,
    ) -> TrainingState:
        estimator = self.estimator
        model = estimator._build(self.channels, windows, self.seed) if self.model is None else self.model
        versions = self.versions(model, windows)
        if self.model is None:
            model = self._conditioned(model, versions[0])
        others: dict[str, Any] = {}
        if self.data.validation is not None:
            others["validation"] = self.examples(model, self.data.validation, windows)
            others["decides"] = self.data.decides
        loss, metric = estimator.loss_, estimator._metric()
        if isinstance(model, Ensemble):
            model, loss, metric = CrossFitted(model), EachMember(loss), _OfMean(metric)
        if self.mesh is not None:
            others["mesh"] = self.mesh
        return fit(
            model,
            versions[0] if len(versions) == 1 else RandomChoice(versions, self.seed),
            loss=loss,
            metric=metric,
            # Without a validation set that decides, training runs to its end: its own loss cannot say when to stop.
            settings=self.settings if self.data.decides else replace(self.settings, patience=None),
            state=state,
            until=until,
            checkpoint=checkpoint,
            resume=resume,
            listeners=self.listeners,
            **others,
        )

    def _conditioned(self, model: Any, training: Any) -> Any:
        """The model with statistics of the training set."""
        model = self.data.training.source.fit_inputs(model, training)
        target = self.data.training.target if self.augmented is None else self.augmented.targets()
        scale = self.estimator.loss_.label_scale(target)
        return model if scale is None else model.with_labels(scale)

    def versions(self, model: Any, windows: Windows) -> list[Any]:
        """The training set, in one version or several."""
        shifts, augmented = windows.all_shifts(), self.augmented
        if augmented is None:
            return [self.examples(model, self.data.training, windows, shift) for shift in shifts]
        prepared = (augmented.prepared(number, self.estimator.transform_) for number in range(len(augmented)))
        return [self.examples(model, one, windows, shifts[i % len(shifts)]) for i, one in enumerate(prepared)]

    def examples(self, model: Any, samples: Samples, windows: Windows, shift: int = 0) -> Any:
        """A model's inputs and targets. Where labels at points are sparse, windows end at them too."""
        estimator, target = self.estimator, samples.target
        at = are_known(target) if estimator.per_time_ and self.labels(windows)[0] else None
        keep = samples is self.data.training or samples is self.data.validation  # and not one of many versions
        others = []
        if isinstance(model, Ensemble):
            fold = None if samples is self.data.validation else self.folds
            others.append(np.full(len(samples), -1, np.int32) if fold is None else fold)
        how = {"shift": shift, "at": at, "per_time": estimator.per_time_, "keep": keep}
        return samples.source.examples(model, windows, target, weight=self.weights(samples), others=others, **how)

    def weights(self, samples: Samples) -> np.ndarray | None:
        """How much each sample counts, by itself and by its class."""
        weight = self.estimator._weights(samples.target, self.data.training.target)
        if weight is None or samples.weight is None:
            return samples.weight if weight is None else weight
        return weight * samples.weight

    def labels(self, windows: Windows) -> tuple[bool, float]:
        """Whether windows end at labels too, and the share of the training labels that are used."""
        if not self.estimator.per_time_:
            return False, 1.0
        samples = self.data.training
        return share_at_cuts(samples.series, are_known(samples.target), windows)

    def say_share(self, windows: Windows) -> None:
        """Warn if some labels stand at no window's end; raise if all do."""
        _, share = self.labels(windows)
        how = f"step={windows.step}" if windows.every is None else f"every={windows.every}"
        if share == 0:
            raise ValueError(
                f"Got labels none of which stands at the end of a window of {how}; expected some, because the model is "
                "trained on its predictions there. Write step=1 to use all labels."
            )
        if share < 1:
            warnings.warn(
                f"With windows of {how}, {100 * share:.0f} % of the labels stand at a window's end and are trained on. "
                "Write step=1 to use all of them.",
                stacklevel=4,
            )


class _OfMean:
    """Applies a metric to the mean of the members' outputs."""

    def __init__(self, metric: Any):
        self.metric, self.__name__ = metric, getattr(metric, "__name__", "metric")

    def __call__(self, outputs: np.ndarray, target: np.ndarray) -> float:
        return self.metric(outputs.mean(axis=1), target)
