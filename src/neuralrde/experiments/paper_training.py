"""The paper's training: batches in their order, the root of a batch's mean squared error, a quicker last layer.

Apart from `neuralrde.training.fit`, because that loop shuffles, and means over examples have no root. State,
checkpoints, schedules and listeners are the library's.
"""

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

from ..devices import device_mesh, replicate, shard_batch, sharded_value_and_grad
from ..training import (
    CrossEntropy,
    Examples,
    Listener,
    Settings,
    TrainingState,
    accuracy,
    load_checkpoint,
    predict,
    rmse,
)
from ..training.checkpoint import Checkpoints, fingerprint_of
from ..training.examples import padded
from ..training.interrupt import interrupts_between_steps
from ..training.listeners import Listeners
from ..training.loop import batches
from ..training.predict import batch_size
from .bugs import Bug, mean_over_batches

LAST_LAYER = 10.0


def squared_error(prediction, target):
    return ((prediction - target) ** 2).mean()


@dataclass(frozen=True)
class Task:
    """A loss of examples, what is made of its mean over a batch, and what is looked at on the validation set."""

    loss: Callable
    of_mean: Callable
    metric: Callable[[np.ndarray, np.ndarray], float]


REGRESSION = Task(squared_error, jnp.sqrt, rmse)
CLASSIFICATION = Task(CrossEntropy(), lambda mean: mean, accuracy)


def fit_as_in_the_paper(
    model: Any,
    training: Examples,
    validation: Examples,
    *,
    task: Task,
    settings: Settings,
    bugs: frozenset[Bug],
    checkpoint: str | os.PathLike | None = None,
    resume: bool = False,
    listeners: Sequence[Listener] = (),
) -> TrainingState:
    """Adam, plateaus, stopping and rolling back by the validation loss; resumable as `neuralrde.training.fit` is.

    A loss that is not finite ends the training: nothing is rescued.
    """
    mesh = device_mesh()
    count = min(settings.batch, len(training))
    size = batch_size(count, mesh)
    steps = -(-len(training) // count)
    optimiser = _optimiser()
    state = TrainingState.start(jax.tree.map(_as_jax, model), optimiser)
    names = sorted(bug.name for bug in bugs)
    fingerprint = "" if checkpoint is None else fingerprint_of(settings, model, training, validation, names)
    if checkpoint is not None and resume and Path(checkpoint).exists():
        state = load_checkpoint(checkpoint, state, fingerprint=fingerprint)
    state = replace(state, model=replicate(state.model, mesh), optimiser=replicate(state.optimiser, mesh))

    def in_order(epoch: int):
        if Bug.NO_SHUFFLING not in bugs:
            return batches(training, count, size, seed=settings.seed, epoch=epoch)
        return (padded(training.take(slice(i, i + count)), size) for i in range(0, len(training), count))

    told = Listeners(listeners)
    checkpoints = Checkpoints(checkpoint, fingerprint=fingerprint, every=settings.save_every, say=told.say)
    clock = time.monotonic()
    told.start(epochs=settings.epochs, steps=steps, done=state.epoch)
    try:
        with interrupts_between_steps() as stop_here:
            while state.epoch < settings.epochs and not is_over(state, settings):
                new_model, new_optimiser, losses = state.model, state.optimiser, []
                rate = settings.rate * settings.schedule(state.epoch * steps, settings.epochs * steps, state.history)
                for batch, weights in in_order(state.epoch):
                    placed = shard_batch((batch, weights), mesh)
                    new_model, new_optimiser, value = _step(
                        new_model, new_optimiser, *placed, jnp.float32(rate), task=task, optimiser=optimiser, mesh=mesh
                    )
                    losses.append(value)
                    told.step(examples=count)
                    stop_here()
                monitored, metric = assess(new_model, validation, task=task, bugs=bugs, batch=settings.batch)
                loss, now = float(np.mean(losses)), time.monotonic()
                record = {"epoch": state.epoch + 1, "loss": loss, "rate": rate, "validation_loss": monitored}
                record |= {f"validation_{task.metric.__name__}": metric, "monitored": monitored}
                record |= {"seconds": state.seconds + now - clock}
                if not (np.isfinite(loss) and np.isfinite(monitored)):
                    break
                state = state.after(new_model, new_optimiser, record)
                clock = now
                told.epoch(record)
                checkpoints.save_if_due(state)
    finally:
        checkpoints.save(state)
        told.close()
    return state


def assess(model: Any, examples: Examples, *, task: Task, bugs: frozenset[Bug], batch: int) -> tuple[float, float]:
    """The loss that decides, and the metric, over a whole set."""
    answers, target = predict(model, examples, batch=batch), np.asarray(examples.target)
    if task is REGRESSION:
        metric = rmse(answers, target)
        return (mean_over_batches(answers, target, batch) if Bug.MEAN_OVER_BATCHES in bugs else metric), metric
    losses = jax.vmap(task.loss)(jnp.asarray(answers), jnp.asarray(target))
    return float(losses.mean()), task.metric(answers, target)


def is_over(state: TrainingState, settings: Settings) -> bool:
    impatient = settings.patience is not None and state.waited >= settings.patience
    return impatient or (settings.time_budget is not None and state.seconds >= settings.time_budget)


@lru_cache
def _optimiser() -> optax.GradientTransformation:
    # Kept, because JAX compiles anew for a new object.
    def quicker(updates, params):
        return eqx.tree_at(lambda m: m.decoder, updates, jax.tree.map(lambda leaf: LAST_LAYER * leaf, updates.decoder))

    return optax.chain(optax.scale_by_adam(), optax.stateless(quicker))


@eqx.filter_jit
def _step(model, state, batch: Examples, weights, rate, *, task: Task, optimiser, mesh):
    losses = lambda model, batch: jax.vmap(task.loss)(batch.predictions(model), batch.target)
    mean, gradient = sharded_value_and_grad(losses, mesh)(model, batch, weights)
    value, slope = jax.value_and_grad(task.of_mean)(mean)  # the chain rule, outside of the devices' shares
    gradient = jax.tree.map(lambda leaf: slope * leaf, gradient)
    updates, state = optimiser.update(gradient, state, eqx.filter(model, eqx.is_inexact_array))
    return eqx.apply_updates(model, jax.tree.map(lambda update: -rate * update, updates)), state, value


def _as_jax(leaf: Any) -> Any:
    return jnp.asarray(leaf) if isinstance(leaf, np.ndarray) else leaf
