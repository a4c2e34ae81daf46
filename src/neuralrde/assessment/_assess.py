"""A result beside its baselines."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ._baselines import Baseline
from .intervals import accuracy_interval, bootstrap_interval
from .metrics import Predictions, calibration_error, measures


@dataclass(frozen=True)
class Assessment:
    """One metric of one part of the data, with its interval and the baselines' values.

    `metric` is "accuracy" or "rmse". The first baseline is the trivial one.
    """

    metric: str
    measures: dict[str, Any]
    intervals: dict[str, tuple[float, float] | None]
    units: int
    unit: str
    baselines: tuple[tuple[Baseline, dict[str, Any]], ...]
    same: str | None
    """What all predictions are, if all are the same class or nearly the same number."""

    @property
    def value(self) -> float:
        """The metric's value."""
        return self.measures[self.metric]

    @property
    def interval(self) -> tuple[float, float] | None:
        """The metric's interval; None where one unit is all there is."""
        return self.intervals[self.metric]

    def gain(self, over: float) -> float:
        """How much better than another value of the metric; below 0 if it is worse."""
        return self.value - over if self.metric == "accuracy" else over - self.value

    def is_clear(self, other: float) -> bool:
        """Whether another value lies outside the interval, so that the difference is hardly due to chance."""
        return self.interval is not None and not self.interval[0] <= other <= self.interval[1]

    def as_dict(self) -> dict[str, Any]:
        """For a JSON file."""
        return {
            "metric": self.metric,
            "value": self.value,
            "intervals_95": {name: None if ends is None else list(ends) for name, ends in self.intervals.items()},
            "units": {"count": self.units, "of": self.unit},
            "baselines": [{"name": one.name, "what": one.explained, **found} for one, found in self.baselines],
        } | ({"calibration_error": self.measures["calibration_error"]} if "calibration_error" in self.measures else {})


def assess(found: Predictions, baselines: Sequence[Baseline], *, seed: int = 0) -> Assessment:
    """Compare predictions with baselines.

    >>> from neuralrde.assessment import TrainingTargets, trivial
    >>> true = np.array(["no", "no", "no", "yes"])
    >>> always = trivial(TrainingTargets(counts={"no": 9, "yes": 3}), len(true))
    >>> found = assess(Predictions(true, np.full(4, "no"), np.arange(4)), [always])
    >>> found.value, found.baselines[0][1]["accuracy"], found.same
    (0.75, 0.75, 'no')

    Args:
        found: the predictions for a part that was not trained on.
        baselines: theirs for the same rows, the trivial one first.
        seed: seed of the draws for intervals.
    """
    own = measures(found)
    units = len(np.unique(found.units))
    if found.is_classes:
        right = found.true.astype(str) == found.predicted.astype(str)
        intervals = {"accuracy": accuracy_interval(right, found.units)}
        if found.probability is not None:
            own["calibration_error"] = calibration_error(found.probability, right)
    else:
        off = (np.asarray(found.predicted, float) - np.asarray(found.true, float)).reshape(len(found.true), -1)
        intervals = {
            "rmse": bootstrap_interval((off**2).mean(axis=1), found.units, seed=seed),
            "mae": bootstrap_interval(np.abs(off).mean(axis=1), found.units, of=np.asarray, seed=seed),
        }
    return Assessment(
        metric="accuracy" if found.is_classes else "rmse",
        measures=own,
        intervals=intervals,
        units=units,
        unit=found.unit,
        baselines=tuple(
            (one, measures(Predictions(found.true, one.predicted, found.units, found.unit))) for one in baselines
        ),
        same=_same(found),
    )


def _same(found: Predictions) -> str | None:
    if found.is_classes:
        names = np.unique(found.predicted.astype(str))
        return str(names[0]) if len(names) == 1 and len(found.predicted) > 1 else None
    predicted, true = np.asarray(found.predicted, float), np.asarray(found.true, float)
    # A fiftieth of the true spread: on a picture of predicted against true, a flat line.
    flat = len(true) > 1 and (predicted.std(axis=0) < 0.02 * true.std(axis=0)).all()
    return f"{predicted.mean():.4g}" if flat else None
