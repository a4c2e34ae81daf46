"""Estimators that are trained from a store, and predict from one: series whose log-signatures are on a disk.

The transform and the windows are the store's. Everything that needs whole series is left out: a search for windows or
models, augmentation, and the closed form beside an ensemble.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import numpy as np
from jax.sharding import Mesh

from ..devices import try_all_cores
from ..models import Ensemble
from ..paths import Series, Windows
from ..registry import Config
from ..stores import Store, StoreError
from ..stores.examples import StoredExamples
from ..training import Listener, ProgressBar
from .blend import fit_blend
from .collapse import restarted_if_collapsed
from .division import FEWEST_TO_DECIDE, Division, Samples, check_groups, check_sample_weight, divide, folds
from .families import is_auto
from .fitting import KEPT, _learn, _members, _seed, _settings
from .run import Run
from .search import check_size


@dataclass(frozen=True)
class StoredRun(Run):
    """A training whose samples' series are a `Store`."""

    @property
    def channels(self) -> int:
        return len(self.data.training.series.path_channels)  # type: ignore

    def examples(self, model: Any, samples: Samples, windows: Windows, shift: int = 0) -> Any:
        target, store = samples.target, samples.series
        weight = self.estimator._weights(target, self.data.training.target)
        if samples.weight is not None:
            weight = samples.weight if weight is None else weight * samples.weight
        others = []
        if isinstance(model, Ensemble):
            fold = None if samples is self.data.validation else self.folds
            others.append(np.full(len(samples), -1, np.int32) if fold is None else fold)
        return StoredExamples(store, model, target=target, weight=weight, others=others)  # type: ignore

    def _conditioned(self, model: Any, training: Any) -> Any:
        if hasattr(model, "fit_inputs"):
            model = model.fit_inputs((None, training.sizes()))
        scale = self.estimator.loss_.label_scale(self.data.training.target)
        return model.with_labels(scale) if scale is not None and hasattr(model, "with_labels") else model


def fit_store(
    estimator: Any,
    store: Store,
    y: Any,
    sample_weight: Any,
    *,
    groups: Any,
    validation: Any,
    checkpoint: str | os.PathLike | None,
    resume: bool,
    listeners: Sequence[Listener],
    mesh: Mesh | None,
) -> None:
    """Train an estimator from a store."""
    if mesh is None:
        try_all_cores()
    estimator._mesh = mesh
    parts = estimator._check_parameters()
    _check_possible(estimator, parts, store)
    vars(estimator).pop("_state", None)
    vars(estimator).pop("model_", None)
    whole = _samples(estimator, store, y, sample_weight, groups, reset=True)
    estimator.config_ = parts.model
    estimator._kept = {name: vars(estimator)[name] for name in KEPT}
    estimator.members_ = _members(estimator)
    seed = _seed(estimator, mesh)

    # Data: what is the store's own, and a validation set.
    estimator.transform_, windows = store.transform, store.windows
    if (options := getattr(estimator.config_.cls, "usual_options", None)) is not None:
        usual = options(int(np.median(store.window_counts)))
        estimator.config_ = Config(estimator.config_.cls, **usual | estimator.config_.options)
    data = _divided(estimator, whole, validation, seed)
    training = data.training
    estimator.augmentation_, estimator.loss_ = None, parts.loss.fit(training.target)
    fold = None
    if estimator.members_ > 1:
        how = {"groups": training.groups, "shuffle": estimator.shuffle, "seed": seed}
        fold = folds(training.target, estimator.members_, **how)
    bar = [] if estimator.verbose is False else [ProgressBar(always=estimator.verbose is True)]
    settings = _settings(estimator, parts.optimizer, len(training), seed)
    run = StoredRun(estimator, data, settings, seed, [*listeners, *bar], mesh, None, fold)
    check_size(lambda: estimator._build(run.channels, windows, 0), run.channels, windows)

    # Training, as from series.
    state = run(windows, checkpoint=checkpoint, resume=resume)
    estimator.trials_, estimator.restarts_ = [], []
    if estimator.members_ == 1:
        state, estimator.restarts_ = restarted_if_collapsed(run, windows, state)
    elif not data.decides:
        state = replace(state, best=state.model)
    _learn(estimator, run, windows, state)
    fit_blend(estimator, run, windows, state, training)
    if data.validation is not None:
        estimator._calibrate(data.validation)


def stored_labels(estimator: Any, store: Store, y: Any) -> Any:
    """The targets that were given, or the store's own."""
    if y is not None:
        return y
    if store.task is None:
        raise StoreError("Got a store without a target; expected one, or y=.... Prepare it with target=....")
    if store.task != estimator._task:
        other = {"classification": "NeuralRDEClassifier", "regression": "NeuralRDERegressor"}[store.task]
        raise StoreError(
            f"Got a store of a {store.task} for {type(estimator).__name__}; expected a {estimator._task}. Write "
            f"`{other}()`, or prepare it with task={estimator._task!r}."
        )
    return store.labels


def _samples(estimator: Any, store: Store, y: Any, weight: Any, groups: Any, *, reset: bool) -> Samples:
    stand_in = _stand_in(store)
    target = estimator._check_targets(stored_labels(estimator, store, y), stand_in, reset=reset)
    channels = len(store.channels)
    if reset:
        estimator.flat_, estimator.n_channels_in_, estimator.n_features_in_ = False, channels, channels
    if estimator.per_time_:
        raise StoreError("Got a target at every point for a store; expected one per series.")
    groups = check_groups(store.groups if groups is None else groups, len(store))
    return Samples(store, target, check_sample_weight(weight, len(store)), groups)  # type: ignore


def _stand_in(store: Store) -> Series:
    """As many series, all different, for functions that ask how many there are."""
    return Series.from_array(np.arange(float(len(store)))[:, None])


def _divided(estimator: Any, whole: Samples, validation: Any, seed: int) -> Division:
    """As for series in memory; the validation set is a part of the store, or another store."""
    if validation is not None:
        other, y = validation if isinstance(validation, tuple | list) else (validation, None)
        if not isinstance(other, Store):
            raise StoreError(
                f"Got validation of type {type(other).__name__} beside a store; expected a store too, prepared like it."
            )
        if other.transform != whole.series.transform or other.windows != whole.series.windows:  # type: ignore
            raise StoreError("Got a validation store that was prepared in another way; expected it made with like=....")
        held_out = _samples(estimator, other, y, None, None, reset=False)
        return Division(whole, held_out, len(held_out) >= FEWEST_TO_DECIDE)
    units = len(whole) if whole.groups is None else len(np.unique(whole.groups))
    fraction = estimator.validation_fraction
    if estimator.members_ > 1 or units * fraction < FEWEST_TO_DECIDE:
        return Division(whole)
    options = {"groups": whole.groups, "shuffle": estimator.shuffle, "seed": seed}
    stand_in: Any = _stand_in(whole.series)  # type: ignore
    rows, held_out = divide(stand_in, whole.target, fraction=fraction, **options)
    held = whole[held_out]
    units = len(held) if held.groups is None else len(np.unique(held.groups))
    return Division(whole[rows], held, True) if units >= FEWEST_TO_DECIDE else Division(whole)


def _check_possible(estimator: Any, parts: SimpleNamespace, store: Store) -> None:
    """What an estimator can be asked for, and a store cannot give."""
    why = None
    if is_auto(estimator.model):
        why = 'model="auto"', "a model", "families are compared on series in memory"
    elif estimator.windows is not None and parts.windows != store.windows:
        why = f"windows={estimator.windows!r}", "None", f"the store was cut into {store.windows!r}"
    elif parts.augmentation is not None:
        why = f"augmentation={parts.augmentation!r}", "None", "its log-signatures are of the series as they are"
    elif estimator.warm_start and hasattr(estimator, "model_"):
        why = "warm_start=True", "False", "a store has a transform of its own; go on by checkpoint= and resume=True"
    elif vars(estimator)["transform"] != "standard":
        why = (
            f"transform={vars(estimator)['transform']!r}",
            '"standard"',
            "`prepare` has applied the store's own transform",
        )
    if why is not None:
        raise StoreError(f"Got {why[0]} for a store; expected {why[1]}, because {why[2]}.")
