"""The protocol `ours`: conditioned log-signatures, and the settings of the data set."""

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache, wraps
from pathlib import Path
from typing import Any

import diffrax
import equinox as eqx
import jax
import numpy as np
import optax

from neuralrde.datasets import Dataset, Split
from neuralrde.models import ODERNN, FinalState, LabelScale, LinearRDE, LogNCDE, MeanState, NeuralRDE, OscillatorRDE
from neuralrde.solvers import RK4
from neuralrde.training import (
    CrossEntropy,
    Examples,
    Histogram,
    Huber,
    Listener,
    OptaxOptimizer,
    Settings,
    SquaredError,
    TimeStretch,
    TrainingState,
    WarmupCosine,
    accuracy,
    fit,
    rmse,
)

from .experiment import Experiment, Limits
from .inputs import Inputs, augmented_inputs, folded_inputs, prepared, with_features, without_copies
from .our_settings import OurSettings

READOUTS = {"mean": MeanState, "final": FinalState}
SOLVERS = {"heun": diffrax.Heun, "rk4": RK4, "euler": diffrax.Euler}
# Targets in beats or breaths per minute: a series played faster has more of them.
RATES = ("BIDMC32HR", "BIDMC32RR")
FINEST = 16  # points by which ways of cutting differ, at least: nearer ones are hardly different
LOSSES = {"squared_error": SquaredError, "huber": Huber}
Loss = CrossEntropy | SquaredError | Huber | Histogram


def our_inputs(experiment: Experiment, settings: OurSettings, data: Dataset, split: Split) -> Inputs:
    data = without_copies(data) if settings.copies else data
    data = data if settings.features is None else with_features(data, split, settings.features)
    if experiment.model == "odernn":
        series = prepared(data, split, standardise=settings.standardise)
        return folded_inputs(data, split, series, step=experiment.step)
    rate = experiment.dataset in RATES
    return augmented_inputs(
        data,
        split,
        depth=experiment.depth,
        step=experiment.step,
        basis="brackets" if experiment.model == "logncde" else "words",
        standardise=settings.standardise,
        shifts=max(1, min(settings.shifts, experiment.step // FINEST)),
        stretch=None if settings.stretch is None else TimeStretch(*settings.stretch, rate=rate),
        versions=settings.versions,
        speeds=settings.speeds,
        seed=experiment.seed,
    )


def our_loss(settings: OurSettings, inputs: Inputs, classes: int | None) -> Loss:
    """By statistics of the training set; `classes` is None for a regression."""
    if classes is not None:
        return CrossEntropy()
    if settings.loss == "histogram":
        every = [inputs.train] if inputs.versions is None else inputs.versions.versions
        return Histogram(ratios=True).fit(np.concatenate([np.asarray(version.target) for version in every]))
    spread = np.asarray(inputs.first_epoch().target).std(axis=0)
    return LOSSES[settings.loss](spread=np.where(spread > 0, spread, 1.0).astype(np.float32))


def point_predictions(outputs: np.ndarray, loss: Loss) -> np.ndarray:
    """From a model's outputs to numbers in the label's units, or one score per class."""
    return np.asarray(loss.median(outputs)) if isinstance(loss, Histogram) else outputs


def our_model(
    experiment: Experiment, settings: OurSettings, training: Examples, loss: Loss, classes: int | None
) -> Any:
    """The model, conditioned on the training set."""
    key = jax.random.key(experiment.seed)
    readout, solver = READOUTS[settings.readout](), SOLVERS[settings.solver]()
    in_units = isinstance(loss, SquaredError | Huber)
    outputs = np.asarray(training.target).shape[-1] if classes is None else classes
    outputs = loss.bins if isinstance(loss, Histogram) else outputs
    sizes: dict[str, Any] = {"state": settings.state, "width": settings.width}
    network = sizes | {"layers": settings.layers, "readout": readout, "solver": solver}
    if experiment.model == "odernn":
        inputs = training.inputs[0].shape[-1] // experiment.step
        model = ODERNN(inputs, outputs, points=experiment.step, key=key, **network)
        if in_units:
            scale = LabelScale.fit(np.asarray(training.target))
            model = eqx.tree_at(lambda model: model.decoder.labels, model, scale)
        return model
    x0, windows = training.inputs
    shape: dict[str, Any] = {"channels": x0.shape[1], "outputs": outputs, "depth": experiment.depth, "key": key}
    if experiment.model == "linear":
        model = LinearRDE(**shape, **sizes, blocks=settings.blocks, readout=readout)
    elif experiment.model == "oscillators":
        model = OscillatorRDE(**shape, **sizes, layers=settings.layers, turns=settings.turns)
    else:
        model = (LogNCDE if experiment.model == "logncde" else NeuralRDE)(**shape, **network)
    model = model.fit_scale(np.asarray(windows), windows=training.windows)
    return model.fit_labels(np.asarray(training.target)) if in_units else model


def our_training(experiment: Experiment, settings: OurSettings, limits: Limits) -> Settings:
    return Settings(
        epochs=settings.epochs if limits.epochs is None else limits.epochs,
        batch_size=settings.batch,
        patience=settings.patience,
        seed=experiment.seed,
        time_budget=limits.budget,
        optimizer=OptaxOptimizer(
            adamw(settings.clip, settings.weight_decay),
            learning_rate=settings.rate,
            schedule=WarmupCosine(warmup=settings.warmup),
        ),
    )


@lru_cache
def adamw(clip: float | None, weight_decay: float) -> optax.GradientTransformation:
    """Optax's AdamW, before the learning rate: what these numbers meant when the settings were chosen."""
    # Kept, because JAX compiles anew for a new object.
    clipping = [] if clip is None else [optax.clip_by_global_norm(clip)]
    return optax.chain(*clipping, optax.scale_by_adam(), optax.add_decayed_weights(weight_decay))


def fit_ours(
    model: Any,
    inputs: Inputs,
    *,
    loss: Loss,
    settings: OurSettings,
    training: Settings,
    checkpoint: Path | None,
    listeners: Sequence[Listener],
) -> TrainingState:
    measure = accuracy if isinstance(loss, CrossEntropy) else rmse

    @wraps(measure)
    def metric(outputs: np.ndarray, target: np.ndarray) -> float:
        return measure(point_predictions(outputs, loss), target)

    state = fit(
        model,
        inputs.train if inputs.versions is None else inputs.versions,
        loss=loss,
        validation=inputs.validation,
        metric=metric,
        settings=training,
        checkpoint=checkpoint,
        resume=True,
        listeners=listeners,
    )
    return replace(state, best=state.model, best_epoch=state.epoch) if settings.keep == "last" else state
