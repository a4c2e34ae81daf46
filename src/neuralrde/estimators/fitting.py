"""Fits a neural estimator: checks everything, divides the data, chooses windows, trains, keeps what was learned."""

import os
from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
from jax.sharding import Mesh
from sklearn.utils import check_random_state

from ..devices import try_all_cores
from ..models import CrossFitted
from ..paths import Windows
from ..processes import Processes
from ..registry import Config
from ..training import AdamW, ConstantRate, Listener, ProgressBar, Settings, TrainingState
from ..training.archive import arrays_of, with_arrays
from ..training.listeners import Listeners
from .blend import fit_blend, fitted_closed_form, keep_blend, left_out_by, nothing_to_gain
from .collapse import restarted_if_collapsed
from .division import FEWEST_TO_DECIDE, AugmentedSamples, Division, Samples, check_several_groups, divide, folds
from .families import choose_model, is_auto
from .run import Run
from .search import check_size, successive_halving
from .sources import VersionOutputs

# A fitted estimator was built from these parameters. `warm_start` and `partial_fit` refuse to continue with others.
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
    """Train an estimator from the beginning, or with `warm_start` from its weights."""
    again = estimator.warm_start and getattr(estimator, "model_", None) is not None
    vars(estimator).pop("_state", None)
    parts, whole = _begin(estimator, X, y, sample_weight, groups, again, mesh)
    seed = _seed(estimator, mesh)

    # Choose the model, if it is "auto".
    estimator.trials_ = []
    if is_auto(estimator.model) and not again:
        if checkpoint is not None:
            raise ValueError(
                'Got model="auto" with a checkpoint; expected a model then, because a comparison has many states. '
                'Write for example model="multi-scale-rde".'
            )
        estimator.config_, estimator.trials_ = choose_model(estimator, whole, seed, mesh)
        estimator.members_ = _members(estimator)

    # Divide off a validation set. The transform sees the training set only.
    wanted = estimator.windows_ if again else parts.windows
    data = _divided(estimator, whole, validation, seed, wanted.searched)
    run = _run(estimator, parts, data, again, seed, listeners, mesh)

    # Choose the windows. Each candidate has a model of its own.
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
        # A validation set too small to decide is needed for training. The winner is trained with all series, unless
        # the validation set was given.
        everything = None
        if not data.decides and validation is None:
            everything = lambda: _run(estimator, parts, Division(whole), False, seed, listeners, mesh)
        windows, state, run = _searched(estimator, tried, run, everything)

    # Where the closed form makes no error on series that it has not seen, there is nothing to train for.
    run.say_share(windows)
    samples = whole if len(whole) == len(run.data.training) else data.training
    closed = fitted_closed_form(estimator, run, samples)
    if Processes(mesh).agree(not again and nothing_to_gain(closed, samples)):
        Listeners(run.listeners).say(
            f"The closed form makes no error on any of the {len(samples)} series when they are left out: there is "
            "nothing to gain, and no neural model is trained. Write closed_form=False to train one."
        )
        _learn(estimator, run, windows, None)
        estimator._calibrate_with([VersionOutputs(left_out_by(closed))], samples.target, samples.groups)
        keep_blend(estimator, run, closed, [1.0, 0.0])
    else:
        # Train, and train again if nothing was learned.
        state, estimator.restarts_ = run(windows, state, checkpoint=checkpoint, resume=resume), []
        if estimator.members_ == 1:
            state, estimator.restarts_ = restarted_if_collapsed(run, windows, state)
        elif not run.data.decides:
            # Keep the last weights: with dropout, an epoch's loss does not tell better weights from worse.
            state = replace(state, best=state.model)
        _learn(estimator, run, windows, state)
        fit_blend(estimator, run, windows, state, samples, closed)
    if run.data.validation is not None:
        estimator._calibrate(data.validation)


def partial_fit(estimator: Any, X: Any, y: Any, sample_weight: Any, *, listeners: Sequence[Listener]) -> None:
    """Train an estimator for one pass over these series."""
    again = hasattr(estimator, "model_")
    if again and estimator.model_ is None:
        raise ValueError(
            "Got `partial_fit` after a `fit` in which the closed form alone decides, so that there is no neural model "
            "to go on with; expected one. Write `clone(model).set_params(closed_form=False)` and fit that first."
        )
    parts, whole = _begin(estimator, X, y, sample_weight, None, again, None)
    if not whole.source.in_memory:
        raise ValueError("Got a store for `partial_fit`; expected series, or `fit`, which reads a store in parts.")
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
    run = replace(_run(estimator, parts, Division(whole), again, _seed(estimator, None), listeners, None), folds=None)
    windows = estimator.windows_ if again else _candidates(estimator, parts.windows, run)[0]
    check_size(lambda: estimator._build(run.channels, windows, 0), run.channels, windows)
    state: TrainingState | None = getattr(estimator, "_state", None) if again else None
    earlier, done = estimator.history_ if again else [], 0 if state is None else state.epoch
    # Nobody knows how many batches will come. So there is no schedule, no weight decay and no time budget.
    optimizer = replace(run.settings.optimizer, schedule=ConstantRate())
    optimizer = replace(optimizer, weight_decay=0.0) if isinstance(optimizer, AdamW) else optimizer
    settings = replace(run.settings, epochs=done + 1, patience=None, time_budget=None, optimizer=optimizer)
    state = estimator._state = replace(run, settings=settings)(windows, state)
    estimator.trials_, estimator.restarts_ = [], []
    if not again:
        estimator.closed_form_, estimator.blend_ = None, [0.0, 1.0]
    # Keep the last weights: losses of different batches cannot be compared.
    _learn(estimator, run, windows, replace(state, best=state.model))
    estimator.history_ = [*earlier, {**state.history[-1], "epoch": len(earlier) + 1}]


def _begin(
    estimator: Any, X: Any, y: Any, sample_weight: Any, groups: Any, again: bool, mesh: Mesh | None
) -> tuple[SimpleNamespace, Samples]:
    """Check everything before anything is computed. Returns the parameters' parts, and the samples."""
    if mesh is None:
        try_all_cores()
    estimator._mesh = mesh
    parts = estimator._check_parameters()
    samples = estimator._samples(X, y, sample_weight, groups, reset=not again)
    # Classes without weight are left out here; the others are weighted later, by what is trained on.
    weight = estimator._weights(samples.target, samples.target)
    samples = samples.times(None if weight is None else np.float32(weight > 0))
    check_several_groups(samples)
    samples.source.check_possible(estimator, parts)
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
    return estimator._recommended.members if estimator.members is None else estimator.members


def _seed(estimator: Any, mesh: Mesh | None) -> int:
    # Without `agree`, every process would draw a seed of its own.
    return Processes(mesh).agree(int(check_random_state(estimator.random_state).randint(2**31 - 1)))


def _divided(estimator: Any, whole: Samples, validation: Any, seed: int, searched: bool) -> Division:
    """The training and the validation set. A validation set too small to decide is held out only for a search."""
    if validation is not None:
        others = estimator._samples(*whole.source.validation(validation), reset=False)
        if others.source.in_memory != whole.source.in_memory:
            raise ValueError("Got a store as validation beside series; expected series too.")
        return Division(whole, others, len(others) >= FEWEST_TO_DECIDE)
    if estimator.members_ > 1 and not searched:
        return Division(whole)  # every member leaves out a part of its own
    fraction = estimator.validation_fraction
    if len(whole) * fraction < 2 or (whole.units * fraction < FEWEST_TO_DECIDE and not searched):
        return Division(whole)
    options = {"groups": whole.groups, "shuffle": estimator.shuffle, "seed": seed}
    rows, held_out = divide(whole.series, whole.target, fraction=fraction, **options)
    decides = whole[held_out].units >= FEWEST_TO_DECIDE
    if not len(held_out) or not (decides or searched):
        return Division(whole)
    return Division(whole[rows], whole[held_out], decides)


def _run(
    estimator: Any,
    parts: SimpleNamespace,
    data: Division,
    again: bool,
    seed: int,
    listeners: Sequence[Listener],
    mesh: Mesh | None,
) -> Run:
    """A training that lacks only the windows. Transform and loss are fitted to the training set here."""
    training, validation = data.training, data.validation
    estimator.augmentation_ = parts.augmentation
    versions = None if parts.augmentation is None else AugmentedSamples(parts.augmentation, training, seed)
    if again:
        source = training.source.prepared(estimator.transform_)
    else:
        estimator.transform_, source = training.source.fit_and_prepare(parts.transform)
        estimator.loss_ = parts.loss.fit(training.target if versions is None else versions.targets())
    prepared = replace(
        data,
        training=replace(training, source=source),
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
    """The windows to try: those asked for, or the recommended ones. Sets the model options that depend on them."""
    if estimator.windows is None:
        wanted = estimator._recommended.windows(run.channels)
    source = run.data.training.source
    found = source.candidates(wanted)
    if (options := estimator._recommended.options) is not None:
        number = int(np.median(source.window_counts(found[0])))
        estimator.config_ = Config(estimator.config_.cls, **options(number) | estimator.config_.options)
    return found


def _settings(estimator: Any, optimizer: Any, samples: int, seed: int) -> Settings:
    steps, budget = -(-samples // estimator.batch_size), estimator.time_budget
    recommended = max(estimator._recommended.epochs, -(-estimator._recommended.steps // steps))
    return Settings(
        epochs=recommended if estimator.epochs is None else estimator.epochs,
        batch_size=estimator.batch_size,
        optimizer=optimizer,
        patience=estimator.patience,
        seed=seed,
        # Choosing the model took the other half.
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
    # The search takes half of the time, the winner the rest.
    clock = Processes(run.mesh).clock
    begun, budget = clock(), estimator.time_budget
    half = None if budget is None else budget / 2
    search = replace(run, data=replace(run.data, decides=True))
    windows, state, trials = successive_halving(tried, search, epochs=run.settings.epochs, seconds=half, clock=clock)
    estimator.trials_ += [_record(**trial) for trial in trials]
    if not run.data.decides:
        state = None  # the winner is trained from the beginning
    if everything is not None:
        run = replace(everything(), listeners=run.listeners)
    if budget is not None:
        spent, left = 0.0 if state is None else state.seconds, budget - (clock() - begun)
        run = replace(run, settings=replace(run.settings, time_budget=spent + max(1e-3, left)))
    return windows, state, run


def _record(candidate: Windows, **found: Any) -> dict[str, Any]:
    size = {"step": candidate.step} if candidate.every is None else {"every": candidate.every}
    return {"depth": candidate.depth, **size, **found}


def _learn(estimator: Any, run: Run, windows: Windows, state: TrainingState | None) -> None:
    """Keep what a training has led to; None if there was none."""
    estimator.windows_ = windows
    estimator.path_channels_ = run.channels
    estimator.label_share_ = run.labels(windows)[1]
    estimator._calibrate(None)
    if state is None:
        estimator.model_, estimator.history_, estimator.restarts_ = None, [], []
        estimator.best_epoch_, estimator.validation_loss_ = 0, 0.0
        return
    estimator.history_ = list(state.history)
    estimator.best_epoch_, estimator.validation_loss_ = state.best_epoch, state.best_loss
    # Built as loading builds it, so that a loaded model is the same in every respect.
    best = state.best.ensemble if isinstance(state.best, CrossFitted) else state.best
    estimator.model_ = with_arrays(estimator._template(), arrays_of(best))
