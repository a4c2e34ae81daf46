"""Our protocol: conditioned log-signatures, and the recipe of the data set."""

import os
from collections.abc import Sequence
from typing import Any

import diffrax
import equinox as eqx
import jax
import numpy as np

from ..datasets import Dataset, Split
from ..models import ODERNN, FinalState, LabelScale, LinearRDE, LogNCDE, MeanState, NeuralRDE, OscillatorRDE
from ..solve import RK4
from ..training import (
    CrossEntropy,
    Examples,
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
from .inputs import Parts, folded_parts, prepared, viewed_parts
from .recipes import Recipe

READOUTS = {"mean": MeanState, "final": FinalState}
SOLVERS = {"heun": diffrax.Heun, "rk4": RK4, "euler": diffrax.Euler}
# Targets in beats or breaths a minute: a series played faster has more of them.
RATES = ("BIDMC32HR", "BIDMC32RR")
FINEST = 16  # points by which ways of cutting differ, at least: nearer ones hardly do
LOSSES = {"squared_error": SquaredError, "huber": Huber}


def our_parts(cell: Cell, data: Dataset, split: Split, recipe: Recipe) -> Parts:
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


def our_model(cell: Cell, recipe: Recipe, training: Examples, classes: int | None) -> Any:
    """The model, conditioned on the training set; `classes` is None for a regression."""
    key, readout, solver = jax.random.key(cell.seed), READOUTS[recipe.readout](), SOLVERS[recipe.solver]()
    outputs = np.asarray(training.target).shape[-1] if classes is None else classes
    sizes: dict[str, Any] = {"state": recipe.state, "width": recipe.width}
    network = sizes | {"layers": recipe.layers, "readout": readout, "solver": solver}
    if cell.model == "odernn":
        inputs = training.inputs[0].shape[-1] // cell.step
        model = ODERNN(inputs, outputs, step=cell.step, key=key, **network)
        if classes is None:
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
    return model if classes is not None else model.fit_labels(np.asarray(training.target))


def our_settings(cell: Cell, recipe: Recipe, *, budget: float | None, epochs: int | None = None) -> Settings:
    return Settings(
        epochs=recipe.epochs if epochs is None else epochs,
        batch=recipe.batch,
        rate=recipe.rate,
        schedule=WarmupCosine(warmup=recipe.warmup),
        weight_decay=recipe.weight_decay,
        clip=recipe.clip,
        patience=recipe.patience,
        seed=cell.seed,
        time_budget=budget,
    )


def fit_ours(
    model: Any,
    parts: Parts,
    *,
    recipe: Recipe,
    settings: Settings,
    classes: int | None,
    checkpoint: str | os.PathLike | None,
    resume: bool,
    listeners: Sequence[Listener],
) -> TrainingState:
    if classes is None:
        spread = np.asarray(parts.drawn().target).std(axis=0)
        loss, metric = LOSSES[recipe.loss](spread=np.where(spread > 0, spread, 1.0).astype(np.float32)), rmse
    else:
        loss, metric = CrossEntropy(), accuracy
    return fit(
        model,
        parts.train if parts.versions is None else parts.versions,
        loss=loss,
        validation=parts.validation,
        metric=metric,
        settings=settings,
        checkpoint=checkpoint,
        resume=resume,
        listeners=listeners,
    )
