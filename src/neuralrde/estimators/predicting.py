"""From new series to a neural estimator's outputs: averaged over shifts and blended with the closed form."""

import functools
from typing import Any

import numpy as np

from ..paths import Series
from ..stores import Store, StoreError
from ..stores.examples import StoredExamples
from ..training import Examples, predict
from .augmenting import VersionOutputs
from .examples import Inputs, inputs_of


def outputs_of(estimator: Any, series: Series | Store) -> tuple[list[VersionOutputs], Any]:
    """The outputs of a fitted estimator, one version of the series or several, and where the last one was cut."""
    if isinstance(series, Store):
        return _of_store(estimator, series), None  # nobody asks where: it has one target per series
    # The closed form never saw another version: it predicts from the series as they are, once.
    closed = functools.cache(lambda form: form._outputs(series))
    augmentation, versions = estimator.augmentation_, []
    for version, factor in [(series, 1.0)] if augmentation is None else augmentation.test_versions(series):
        outputs, inputs = _of_one(estimator, version)
        versions.append(VersionOutputs(estimator._blended(outputs, closed, factor), factor))
    return versions, inputs


def _of_one(estimator: Any, series: Series) -> tuple[np.ndarray, Inputs]:
    prepared, outputs = estimator.transform_(series), []
    for shift in estimator.windows_.all_shifts():
        inputs = inputs_of(estimator.model_, prepared, estimator.windows_, shift=shift)
        examples = Examples(inputs.arrays, windows=inputs.windows)
        outputs.append(predict(estimator.model_, examples, mesh=getattr(estimator, "_mesh", None)))
    mean = np.mean(outputs, axis=0)
    check_finite_outputs(mean, prepared)
    return mean, inputs


def check_finite_outputs(outputs: np.ndarray, prepared: Series) -> None:
    """No prediction is better than one made of NaN, which `argmax` would take for the first class."""
    wrong = ~np.isfinite(outputs).all(axis=tuple(range(1, outputs.ndim)))
    if not wrong.any():
        return
    row = int(wrong.argmax())
    name = f"{row}" if prepared.ids is None else f"{row} ({prepared.ids[row]})"
    name += f" and {wrong.sum() - 1} more" if wrong.sum() > 1 else ""
    largest = np.abs(prepared.values[row]).max(axis=0)
    channel = int(largest.argmax())
    raise ValueError(
        f"Got series {name}, for which the model's prediction is not a finite number: scaled as in training, "
        f"channel {prepared.channels[channel]!r} reaches {largest[channel]:.3g}, and the model computes in float32. "
        "Look for values that are no measurements, and write NaN for them."
    )


def _of_store(estimator: Any, store: Store) -> list[VersionOutputs]:
    """The outputs of a fitted estimator for the series of a store."""
    if store.transform != estimator.transform_ or store.windows != estimator.windows_:
        raise StoreError(
            f"Got a store with the windows {store.windows!r} and statistics of its own; expected "
            f"{estimator.windows_!r} and the statistics of the training set. Prepare it like the store that was "
            "trained from: `neuralrde prepare DATA STORE --like TRAINED`, or `prepare(..., like=Store(...))`."
        )
    if estimator.closed_form_ is not None and estimator.blend_[0] != 0:
        raise StoreError(
            "Got a store for an estimator that is blended with the closed form; expected series, because the closed "
            "form looks at them as a whole. Fit with closed_form=False, or from a store, to predict from a store."
        )
    examples = StoredExamples(store, estimator.model_)
    outputs = predict(estimator.model_, examples, mesh=getattr(estimator, "_mesh", None))
    wrong = ~np.isfinite(outputs).all(axis=tuple(range(1, outputs.ndim)))
    if wrong.any():
        raise StoreError(
            f"Got series {store.ids[int(wrong.argmax())]}, for which the model's prediction is not a finite number. "
            "Look for values in it that are no measurements, and write NaN for them."
        )
    return [VersionOutputs(estimator._blended(outputs, lambda form: np.zeros(())))]
