"""A run's estimator and data together: trained on some of the samples, and predicting for others."""

import inspect
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..assessment import Baseline, TrainingTargets, baselines, trivial
from ..datasets import Dataset, Split
from ..stores import Store
from .closed_form import fit_rows
from .config import RunSettings
from .estimator import is_closed_form
from .predictions import PredictionTable, predictions_of


@dataclass(frozen=True)
class Job:
    """What is trained on what."""

    settings: RunSettings
    estimator: Any
    data: Dataset
    """With a store, a stand-in for it."""
    y: np.ndarray
    verbose: bool | None
    listeners: list[Any]
    store: Store | None = None
    """Where the series are, if they are not in `data`."""

    @property
    def closed_form(self) -> bool:
        """Whether nothing is trained."""
        return is_closed_form(self.estimator)

    @property
    def searched(self) -> bool:
        """Whether windows are searched for, or models compared."""
        if self.closed_form or self.store is not None:
            return False
        return self.estimator._part("windows").searched or self.settings.compared

    def fit(self, rows: Split, **options: Any) -> Any:
        """An estimator that was trained on the training rows."""
        from sklearn.base import clone

        estimator: Any = clone(self.estimator)
        if self.closed_form:
            return fit_rows(estimator, self.data, self.y, rows)
        estimator.set_params(verbose=self.verbose)
        options["listeners"] = self.listeners
        if self.store is not None:
            if len(rows.validation):
                options["validation"] = self.store[rows.validation]
            return estimator.fit(self.store[rows.train], **options)
        if len(rows.validation):
            options["validation"] = self.data[rows.validation].series, self.y[rows.validation]
        elif self.data.groups is not None and "groups" in inspect.signature(estimator.fit).parameters:
            options["groups"] = self.data.groups[rows.train]
        return estimator.fit(self.data[rows.train].series, self.y[rows.train], **options)

    def predict(self, estimator: Any, rows: np.ndarray) -> PredictionTable:
        """An estimator's predictions for some of the samples."""
        return predictions_of(estimator, self.data[rows] if self.store is None else self.store[rows])

    def baselines(self, train: np.ndarray, test: np.ndarray) -> list[Baseline]:
        """Those that can be had: without whole series, only the trivial one."""
        if self.store is None:
            return baselines(self.data[train], self.data[test], seed=self.settings.seed)
        return [trivial(TrainingTargets.of(self.data[train]), len(test))]
