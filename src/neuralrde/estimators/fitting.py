"""How a neural estimator is fitted: check everything, divide the data, choose windows, train, keep what was learned."""

import os
import time
from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
from jax.sharding import Mesh
from sklearn.utils import check_random_state

from ..devices import try_all_cores
from ..models import CrossFitted
from ..paths import Windows, window_counts
from ..registry import Config
from ..training import AdamW, ConstantRate, Listener, ProgressBar, Settings, TrainingState
from ..training.archive import arrays_of, with_arrays
from .augmenting import AugmentedSamples
from .blend import fit_blend
from .collapse import restarted_if_collapsed
from .division import FEWEST_TO_DECIDE, Division, Samples, divide, folds
from .families import choose_model, is_auto
from .run import Run
from .search import candidates, check_size, successive_halving

# Optimizer steps, whatever the number of samples, and the fewest epochs, of a model that does not say what is usual.
USUAL_STEPS, FEWEST_EPOCHS = 1000, 20
# What a fitted estimator is built by: `warm_start` and `partial_fit` go on only if these are as they were.
KEPT = ("model", "members", "transform", "windows", "loss")


def fit(
    estimator: Any,
    X: Any,
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
    """Train an estimator from the beginning, or with `warm_start` from where it is."""
    again = estimator.warm_start and hasattr(estimator, "model_")
    vars(estimator).pop("_state", None)
    parts, whole = _begin(estimator, X, y, sample_weight, groups, again, mesh)
    seed = _seed(estimator)

    # The model, if it is to be chosen.
    estimator.trials_ = []
    if is_auto(estimator.model) and not again:
        if checkpoint is not None:
            raise ValueError(
                'Got model="auto" with a checkpoint; expected a model then, because a comparison has many states. '
                'Write for example model="multi-scale-rde".'
            )
        estimator.config_, estimator.trials_ = choose_model(estimator, whole, seed)
        estimator.members_ = _members(estimator)

    # Data: a validation set, and a transform that has seen the training set only.
    wanted = estimator.windows_ if again else parts.windows
    data = _divided(estimator, whole, validation, seed, wanted.searched)
    run = _run(estimator, parts, data, again, seed, listeners, mesh)

    # Candidates for the windows, each with a model of its own.
    tried = [estimator.windows_] if again else _candidates(estimator, wanted, run)
    for one in tried:
        check_size(lambda one=one: estimator._build(run.channels, one, 0), run.channels, one)
    windows, state = tried[0], None
    if len(tried) > 1:
        if data.validation is None or checkpoint is not None:
            what = "without a validation set" if data.validation is None else "with a checkpoint"
            raise ValueError(
                f"Got windows={estimator.windows!r} {what}; expected numbers then, because a search compares "
                "validation losses and has many states. Write for example windows=Windows(step=32, depth=2)."
            )
        # Too few to stop by are too precious to leave out: with all series, unless they were given apart.
        everything = None
        if not data.decides and validation is None:
            everything = lambda: _run(estimator, parts, Division(whole), False, seed, listeners, mesh)
        windows, state, run = _searched(estimator, tried, run, everything)

    # Training; and again, if nothing was learned.
    run.say_share(windows)
    state, estimator.restarts_ = run(windows, state, checkpoint=checkpoint, resume=resume), []
    if estimator.members_ == 1:
        state, estimator.restarts_ = restarted_if_collapsed(run, windows, state)
    elif not run.data.decides:
        # To its end: the loss of an epoch with dropout does not tell better weights from worse.
        state = replace(state, best=state.model)
    _learn(estimator, run, windows, state)
    samples = whole if len(whole) == len(run.data.training) else data.training
    fit_blend(estimator, run, windows, state, samples)
    if run.data.validation is not None:
        estimator._calibrate(data.validation)


def partial_fit(estimator: Any, X: Any, y: Any, sample_weight: Any, *, listeners: Sequence[Listener]) -> None:
    """One pass over these series."""
    again = hasattr(estimator, "model_")
    parts, whole = _begin(estimator, X, y, sample_weight, None, again, None)
    if not again and is_auto(estimator.model):
        raise ValueError(
            'Got model="auto" for `partial_fit`; expected a model, because a comparison needs all series at once. '
            'Write for example model="multi-scale-rde".'
        )
    if not again and parts.windows.searched:
        raise ValueError(
            f"Got windows={estimator.windows!r} for `partial_fit`; expected numbers, because a search needs all series "
            "at once. Write for example windows=Windows(step=32, depth=2)."
        )
    run = replace(_run(estimator, parts, Division(whole), again, _seed(estimator), listeners, None), folds=None)
    windows = estimator.windows_ if again else _candidates(estimator, parts.windows, run)[0]
    check_size(lambda: estimator._build(run.channels, windows, 0), run.channels, windows)
    state: TrainingState | None = getattr(estimator, "_state", None) if again else None
    earlier, done = estimator.history_ if again else [], 0 if state is None else state.epoch
    # Nobody knows how long a stream of batches will be: no schedule, no decay over all of it, no budget.
    optimizer = replace(run.settings.optimizer, schedule=ConstantRate())
    optimizer = replace(optimizer, weight_decay=0.0) if isinstance(optimizer, AdamW) else optimizer
    settings = replace(run.settings, epochs=done + 1, patience=None, time_budget=None, optimizer=optimizer)
    state = estimator._state = replace(run, settings=settings)(windows, state)
    estimator.trials_, estimator.restarts_ = [], []
    if not again:
        estimator.closed_form_, estimator.blend_ = None, [0.0, 1.0]
    # The weights as they are now: of a stream of batches no loss is the best.
    _learn(estimator, run, windows, replace(state, best=state.model))
    estimator.history_ = [*earlier, {**state.history[-1], "epoch": len(earlier) + 1}]


def _begin(
    estimator: Any, X: Any, y: Any, sample_weight: Any, groups: Any, again: bool, mesh: Mesh | None
) -> tuple[SimpleNamespace, Samples]:
    """Check everything before anything is computed: the parts that the parameters stand for, and the samples."""
    if mesh is None:
        try_all_cores()
    estimator._mesh = mesh
    parts = estimator._check_parameters()
    samples = estimator._samples(X, y, sample_weight, groups, reset=not again)
    if parts.windows.shifts > 1 and estimator.per_time_:
        raise ValueError(
            "Got windows with shifts and a target at every point; expected shifts=1, because predictions come at "
            "the windows' ends, which differ from shift to shift."
        )
    if parts.augmentation is not None and estimator.per_time_:
        raise ValueError(
            f"Got augmentation={parts.augmentation!r} and a target at every point; expected augmentation=None, because "
            "another version of a series may have its points elsewhere."
        )
    now = {name: vars(estimator)[name] for name in KEPT}
    if not again:
        vars(estimator).pop("model_", None)  # an interrupted `fit` leaves nothing that mixes old and new
        estimator.config_, estimator._kept = parts.model, now
        estimator.members_ = _members(estimator)
    for name, first in getattr(estimator, "_kept", {}).items():
        if now[name] is not first and now[name] != first:
            raise ValueError(
                f"Got {name}={now[name]!r}; expected {first!r} as in the first `fit`, because training continues "
                "from its weights. Write warm_start=False, or `clone(model)` before `partial_fit`, for a new model."
            )
    return parts, samples


def _members(estimator: Any) -> int:
    return estimator._usual("members", 1) if estimator.members is None else estimator.members


def _seed(estimator: Any) -> int:
    return int(check_random_state(estimator.random_state).randint(2**31 - 1))


def _divided(estimator: Any, whole: Samples, validation: Any, seed: int, searched: bool) -> Division:
    """Training and validation set. Too few series to decide anything are held out only for a search."""
    if validation is not None:
        if not isinstance(validation, tuple | list) or len(validation) not in (2, 3):
            raise ValueError(
                f"Got validation of type {type(validation).__name__}; expected (X, y), or (X, y, sample_weight)."
            )
        others = estimator._samples(*validation, reset=False)
        return Division(whole, others, len(others) >= FEWEST_TO_DECIDE)
    if estimator.members_ > 1 and not searched:
        return Division(whole)  # every member leaves out a part of its own
    fraction = estimator.validation_fraction
    if len(whole) * fraction < 2 or (_units(whole) * fraction < FEWEST_TO_DECIDE and not searched):
        return Division(whole)
    options = {"groups": whole.groups, "shuffle": estimator.shuffle, "seed": seed}
    rows, held_out = divide(whole.series, whole.target, fraction=fraction, **options)
    decides = _units(whole[held_out]) >= FEWEST_TO_DECIDE
    if not len(held_out) or not (decides or searched):
        return Division(whole)
    return Division(whole[rows], whole[held_out], decides)


def _units(samples: Samples) -> int:
    """How many series there are, or groups: what is wrong for one series of a patient is wrong for the others too."""
    return len(samples) if samples.groups is None else len(np.unique(samples.groups))


def _run(
    estimator: Any,
    parts: SimpleNamespace,
    data: Division,
    again: bool,
    seed: int,
    listeners: Sequence[Listener],
    mesh: Mesh | None,
) -> Run:
    """All that a training needs but the windows. Transform and loss learn from the training set here."""
    training, validation = data.training, data.validation
    estimator.augmentation_ = parts.augmentation
    versions = None if parts.augmentation is None else AugmentedSamples(parts.augmentation, training, seed)
    if again:
        series = estimator.transform_(training.series)
    else:
        estimator.transform_, series = parts.transform.fit_and_call(training.series)
        estimator.loss_ = parts.loss.fit(training.target if versions is None else versions.targets())
    prepared = replace(
        data,
        training=replace(training, series=series),
        validation=None if validation is None else validation.prepared(estimator.transform_),
    )
    bar = [] if estimator.verbose is False else [ProgressBar(always=estimator.verbose is True)]
    settings = _settings(estimator, parts.optimizer, len(training), seed)
    fold = None
    if estimator.members_ > 1:
        how = {"groups": training.groups, "shuffle": estimator.shuffle, "seed": seed}
        fold = folds(training.target, estimator.members_, **how)
    model = estimator.model_ if again else None
    return Run(estimator, prepared, settings, seed, [*listeners, *bar], mesh, model, fold, versions)


def _candidates(estimator: Any, wanted: Windows, run: Run) -> list[Windows]:
    """Those that are asked for, or the model's usual ones; the model's options that depend on their number are set."""
    usual = getattr(estimator.config_.cls, "usual_windows", None)
    if estimator.windows is None and usual is not None:
        wanted = usual(run.channels)
    found = candidates(wanted, run.data.training.series)
    if (options := getattr(estimator.config_.cls, "usual_options", None)) is not None:
        cuts = found[0].cuts(run.data.training.series)
        number = int(np.median(window_counts(run.data.training.series, cuts)))
        estimator.config_ = Config(estimator.config_.cls, **options(number) | estimator.config_.options)
    return found


def _settings(estimator: Any, optimizer: Any, samples: int, seed: int) -> Settings:
    steps, budget = -(-samples // estimator.batch_size), estimator.time_budget
    usual = max(estimator._usual("epochs", FEWEST_EPOCHS), -(-estimator._usual("steps", USUAL_STEPS) // steps))
    return Settings(
        epochs=usual if estimator.epochs is None else estimator.epochs,
        batch_size=estimator.batch_size,
        optimizer=optimizer,
        patience=estimator.patience,
        seed=seed,
        # If the model was chosen, that took the other half.
        time_budget=budget / 2 if budget is not None and is_auto(estimator.model) else budget,
    )


def _searched(
    estimator: Any, tried: list[Windows], run: Run, everything: Any
) -> tuple[Windows, TrainingState | None, Run]:
    """The best of several windows, how far it was trained, and the run to go on with.

    Args:
        estimator: keeps a record of each trial.
        tried: the candidates.
        run: with a validation set, which decides here even if it is small.
        everything: makes a run with all series; None if the search's own is to go on.
    """
    # Half of the time for the search, the rest for the winner.
    begun, budget = time.monotonic(), estimator.time_budget
    half = None if budget is None else budget / 2
    search = replace(run, data=replace(run.data, decides=True))
    windows, state, trials = successive_halving(tried, search, epochs=run.settings.epochs, seconds=half)
    estimator.trials_ += [_record(**trial) for trial in trials]
    if not run.data.decides:
        state = None  # the winner begins anew
    if everything is not None:
        run = replace(everything(), listeners=run.listeners)
    if budget is not None:
        spent, left = 0.0 if state is None else state.seconds, budget - (time.monotonic() - begun)
        run = replace(run, settings=replace(run.settings, time_budget=spent + max(1e-3, left)))
    return windows, state, run


def _record(candidate: Windows, **found: Any) -> dict[str, Any]:
    size = {"step": candidate.step} if candidate.every is None else {"every": candidate.every}
    return {"depth": candidate.depth, **size, **found}


def _learn(estimator: Any, run: Run, windows: Windows, state: TrainingState) -> None:
    estimator.windows_ = windows
    estimator.path_channels_ = run.channels
    estimator.label_share_ = run.labels(windows)[1]
    estimator.history_ = list(state.history)
    estimator.best_epoch_, estimator.validation_loss_ = state.best_epoch, state.best_loss
    # As loading makes it, so that a loaded model is the same in every respect.
    best = state.best.ensemble if isinstance(state.best, CrossFitted) else state.best
    estimator.model_ = with_arrays(estimator._template(), arrays_of(best))
    estimator._calibrate(None)
