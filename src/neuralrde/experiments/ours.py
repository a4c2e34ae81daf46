"""Our protocol: conditioned log-signatures, and the recipe of the data set."""

import os
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache, wraps
from typing import Any

import diffrax
import equinox as eqx
import jax
import numpy as np
import optax

from ..datasets import Dataset, Split
from ..models import ODERNN, FinalState, LabelScale, LinearRDE, LogNCDE, MeanState, NeuralRDE, OscillatorRDE
from ..solve import RK4
from ..training import (
    CrossEntropy,
    Examples,
    Histogram,
    Huber,
    Listener,
    Settings,
    SquaredError,
    TimeStretch,
    TrainingState,
    WarmupCosine,
    accuracy,
    fit,
    rmse,
)
from .cells import Cell
from .inputs import Parts, featured, folded_parts, prepared, viewed_parts, without_copies
from .recipes import Recipe

READOUTS = {"mean": MeanState, "final": FinalState}
SOLVERS = {"heun": diffrax.Heun, "rk4": RK4, "euler": diffrax.Euler}
# Targets in beats or breaths a minute: a series played faster has more of them.
RATES = ("BIDMC32HR", "BIDMC32RR")
FINEST = 16  # points by which ways of cutting differ, at least: nearer ones hardly do
LOSSES = {"squared_error": SquaredError, "huber": Huber}
Loss = CrossEntropy | SquaredError | Huber | Histogram


def our_parts(cell: Cell, data: Dataset, split: Split, recipe: Recipe) -> Parts:
    data = without_copies(data) if recipe.copies else data
    data = data if recipe.features is None else featured(data, split, recipe.features)
    if cell.model == "odernn":
        return folded_parts(data, split, prepared(data, split, standardise=recipe.standardise), step=cell.step)
    return viewed_parts(
        data,
        split,
        depth=cell.depth,
        step=cell.step,
        basis="brackets" if cell.model == "logncde" else "words",
        standardise=recipe.standardise,
        cuts=max(1, min(recipe.cuts, cell.step // FINEST)),
        stretch=None if recipe.stretch is None else TimeStretch(*recipe.stretch, rate=cell.dataset in RATES),
        versions=recipe.versions,
        speeds=recipe.speeds,
        seed=cell.seed,
    )


def our_loss(recipe: Recipe, parts: Parts, classes: int | None) -> Loss:
    """By statistics of the training set; `classes` is None for a regression."""
    if classes is not None:
        return CrossEntropy()
    if recipe.loss == "histogram":
        every = [parts.train] if parts.versions is None else parts.versions.versions
        return Histogram.fit(np.concatenate([np.asarray(version.target) for version in every]), ratios=True)
    spread = np.asarray(parts.drawn().target).std(axis=0)
    return LOSSES[recipe.loss](spread=np.where(spread > 0, spread, 1.0).astype(np.float32))


def answers_of(predictions: np.ndarray, loss: Loss) -> np.ndarray:
    """In the label's units, or for each class: what a model trained on that loss answers."""
    return np.asarray(loss.median(predictions)) if isinstance(loss, Histogram) else predictions


def our_model(cell: Cell, recipe: Recipe, training: Examples, loss: Loss, classes: int | None) -> Any:
    """The model, conditioned on the training set."""
    key, readout, solver = jax.random.key(cell.seed), READOUTS[recipe.readout](), SOLVERS[recipe.solver]()
    in_units = isinstance(loss, SquaredError | Huber)
    outputs = np.asarray(training.target).shape[-1] if classes is None else classes
    outputs = loss.bins if isinstance(loss, Histogram) else outputs
    sizes: dict[str, Any] = {"state": recipe.state, "width": recipe.width}
    network = sizes | {"layers": recipe.layers, "readout": readout, "solver": solver}
    if cell.model == "odernn":
        inputs = training.inputs[0].shape[-1] // cell.step
        model = ODERNN(inputs, outputs, step=cell.step, key=key, **network)
        if in_units:
            scale = LabelScale.fit(np.asarray(training.target))
            model = eqx.tree_at(lambda model: model.decoder.labels, model, scale)
        return model
    x0, windows = training.inputs
    shape: dict[str, Any] = {"channels": x0.shape[1], "outputs": outputs, "depth": cell.depth, "key": key}
    if cell.model == "linear":
        model = LinearRDE(**shape, **sizes, blocks=recipe.blocks, readout=readout)
    elif cell.model == "oscillators":
        model = OscillatorRDE(**shape, **sizes, layers=recipe.layers, turns=recipe.turns)
    else:
        model = (LogNCDE if cell.model == "logncde" else NeuralRDE)(**shape, **network)
    model = model.fit_scale(np.asarray(windows), windows=training.windows)
    return model.fit_labels(np.asarray(training.target)) if in_units else model


def our_settings(cell: Cell, recipe: Recipe, *, budget: float | None, epochs: int | None = None) -> Settings:
    return Settings(
        epochs=recipe.epochs if epochs is None else epochs,
        batch=recipe.batch,
        rate=recipe.rate,
        schedule=WarmupCosine(warmup=recipe.warmup),
        weight_decay=0.0,  # a recipe's is per step: see `adamw`
        clip=recipe.clip,
        patience=recipe.patience,
        seed=cell.seed,
        time_budget=budget,
    )


@lru_cache
def adamw(clip: float | None, weight_decay: float) -> optax.GradientTransformation:
    """AdamW with a decay per step, with which the results were made. Kept, because JAX compiles anew for a new one."""
    parts = [] if clip is None else [optax.clip_by_global_norm(clip)]
    return optax.chain(*parts, optax.scale_by_adam(), optax.add_decayed_weights(weight_decay))


def fit_ours(
    model: Any,
    parts: Parts,
    *,
    loss: Loss,
    recipe: Recipe,
    settings: Settings,
    checkpoint: str | os.PathLike | None,
    resume: bool,
    listeners: Sequence[Listener],
) -> TrainingState:
    measure = accuracy if isinstance(loss, CrossEntropy) else rmse

    @wraps(measure)
    def metric(predictions: np.ndarray, target: np.ndarray) -> float:
        return measure(answers_of(predictions, loss), target)

    state = fit(
        model,
        parts.train if parts.versions is None else parts.versions,
        loss=loss,
        validation=parts.validation,
        metric=metric,
        settings=settings,
        optimiser=adamw(recipe.clip, recipe.weight_decay),
        checkpoint=checkpoint,
        resume=resume,
        listeners=listeners,
    )
    return replace(state, best=state.model, best_epoch=state.epoch) if recipe.keep == "last" else state
