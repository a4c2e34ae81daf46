"""The closed form in a run: a result in seconds, before any training, and the least that a neural model must reach."""

import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..assessment import FLOOR, Baseline
from ..datasets import Dataset, Split
from .estimator import closed_form_for
from .predictions import PredictionTable, predictions_of
from .run_folder import RunFolder

_EXPLAINED = "random log-signature features and ridge"
# A floor stays cheap: it learns from so many series at most, drawn at random.
_MOST = 10_000


@dataclass(frozen=True)
class Floor:
    """A closed form, fitted on what a run may learn from, and the seconds that this took."""

    estimator: Any
    seconds: float

    def baseline(self, data: Dataset) -> Baseline:
        """Its predictions, as one of the baselines."""
        return as_baseline(predictions_of(self.estimator, data))


def without_validation(rows: Split) -> Split:
    """Nothing is stopped and nothing is chosen by a validation part, so that it can be learned from."""
    return replace(rows, train=np.sort(np.concatenate([rows.train, rows.validation])), validation=rows.validation[:0])


def fit_rows(estimator: Any, data: Dataset, y: np.ndarray, rows: Split) -> Any:
    """Fit on the training and the validation part; samples of a group are left out together."""
    rows = without_validation(rows)
    groups = None if data.groups is None else np.asarray(data.groups)[rows.train]
    return estimator.fit(data[rows.train].series, y[rows.train], groups=groups)


def floor(data: Dataset, y: np.ndarray, rows: Split, *, seed: int) -> Floor:
    """The closed form with its defaults, on the training and the validation part."""
    begun = time.monotonic()
    rows = without_validation(rows)
    if len(rows.train) > _MOST:
        some = np.random.default_rng(seed).choice(rows.train, _MOST, replace=False)
        rows = replace(rows, train=np.sort(some))
    fitted = fit_rows(closed_form_for(data)(random_state=seed), data, y, rows)
    return Floor(fitted, time.monotonic() - begun)


def kept_floor(folder: RunFolder) -> Any:
    """The estimator of a run's floor; None if the run has none."""
    from ..estimators import load

    return load(folder.closed_form) if folder.closed_form.exists() else None


def as_baseline(found: PredictionTable) -> Baseline:
    return Baseline(FLOOR, FLOOR, found.known().predicted, _EXPLAINED)
