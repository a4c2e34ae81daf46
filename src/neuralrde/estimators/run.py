"""One training of an estimator: its data, in parts, and all that decides about it but the depth and the step."""

import os
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jax.sharding import Mesh

from ..models import NeuralRDE
from ..paths import Series, Step
from ..training import Examples, Listener, Settings, TrainingState, Versions, fit, targets_at_cuts
from .at_points import are_known, share_at_cuts

Cut = tuple[int, Any]
"""A depth, and a window's number of points or time."""


@dataclass(frozen=True)
class Part:
    """Series and their targets."""

    series: Series
    target: np.ndarray

    def __len__(self) -> int:
        return len(self.series)

    def __getitem__(self, rows: Any) -> "Part":
        return Part(self.series[rows], self.target[rows])

    def prepared(self, steps: Step) -> "Part":
        return replace(self, series=steps(self.series))


@dataclass(frozen=True)
class Parts:
    """What to train on and what to validate with, and whether that decides when to stop and which weights to keep."""

    training: Part
    validation: Part | None
    decides: bool

    def prepared(self, steps: Step) -> "Parts":
        validation = None if self.validation is None else self.validation.prepared(steps)
        return replace(self, training=self.training.prepared(steps), validation=validation)


@dataclass(frozen=True)
class Run:
    """Called with a depth and a window, it trains: `run(cut)`.

    The estimator says how windows, weights, losses and models are made. `model` is the one to go on from, if any.
    """

    estimator: Any
    parts: Parts
    settings: Settings
    seed: int
    listeners: Sequence[Listener]
    mesh: Mesh | None = None
    model: NeuralRDE | None = None

    def __call__(
        self,
        cut: Cut,
        state: TrainingState | None = None,
        until: int | None = None,
        *,
        checkpoint: str | os.PathLike | None = None,
        resume: bool = False,
    ) -> TrainingState:
        estimator, target = self.estimator, self.parts.training.target
        versions = [self.examples(self.parts.training, cut, first) for first in estimator._firsts(cut)]
        loss, metric = estimator._loss_and_metric(target)
        others: dict[str, Any] = {}
        if self.parts.validation is not None:
            others["validation"] = self.examples(self.parts.validation, cut)
            others["decides"] = self.parts.decides
        if self.mesh is not None:
            others["mesh"] = self.mesh
        return fit(
            estimator._model(versions[0], target, cut[0], self.seed) if self.model is None else self.model,
            versions[0] if len(versions) == 1 else Versions(versions, self.seed),
            loss=loss,
            metric=metric,
            # Without a validation set that decides, training runs to its end: its own loss cannot say when to stop.
            settings=self.settings if self.parts.decides else replace(self.settings, patience=None),
            state=state,
            until=until,
            checkpoint=checkpoint,
            resume=resume,
            listeners=self.listeners,
            **others,
        )

    def examples(self, part: Part, cut: Cut, first: int | None = None) -> Examples:
        """Log-signatures over windows and targets at their ends; windows end at labels too, where these are sparse."""
        estimator, target = self.estimator, part.target
        at = None
        if estimator.per_time_ and self.labels(cut)[0]:
            at = are_known(target)
        windows = estimator._windows(part.series, cut, first, at=at, keep=True)
        weight = estimator._weights(target, self.parts.training.target)
        if estimator.per_time_:
            target = targets_at_cuts(target, windows.cuts)
        return Examples((windows.x0, windows.log_signatures), target, windows=windows.count, weight=weight)

    def labels(self, cut: Cut) -> tuple[bool, float]:
        """Whether windows end at labels too, and the share of the training labels that are used."""
        if not self.estimator.per_time_:
            return False, 1.0
        part = self.parts.training
        return share_at_cuts(part.series, are_known(part.target), **self.estimator._how(cut))

    def say_share(self, cut: Cut) -> None:
        """Warn, or raise, where labels do not stand at windows' ends."""
        _, share = self.labels(cut)
        how = " and ".join(f"{name}={value}" for name, value in self.estimator._how(cut).items())
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
