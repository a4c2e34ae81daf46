"""The paper's training: batches in a fixed order, the root of a batch's mean squared error, a faster last layer.

It is apart from `neuralrde.training.fit`, which shuffles, averages losses over examples (a root of the mean is no such
average), and goes on after a loss that is not finite. State, checkpoints, schedules and listeners are the library's.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

from neuralrde.devices import device_mesh, pad_batch, replicate, shard_batch, sharded_value_and_grad
from neuralrde.training import (
    CrossEntropy,
    Examples,
    Listener,
    Settings,
    TrainingState,
    accuracy,
    fingerprint_of,
    interrupts_between_steps,
    load_checkpoint,
    predict,
    rmse,
    save_checkpoint,
    weights_of,
)

from .paper_bugs import Bug, mean_over_batches

LAST_LAYER = 10.0


def squared_error(prediction, target):
    return ((prediction - target) ** 2).mean()


@dataclass(frozen=True)
class Task:
    """The loss of one example, the batch's loss as a function of their mean, and the metric on the validation set."""

    loss: Callable
    batch_loss: Callable
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
    checkpoint: Path | None = None,
    listeners: Sequence[Listener] = (),
) -> TrainingState:
    """Adam, with plateaus, early stopping and rolling back by the validation loss.

    It resumes from the checkpoint if there is one. A loss that is not finite ends the training.
    """
    mesh, optimizer = device_mesh(), settings.optimizer
    count = min(settings.batch_size, len(training))
    size = -(-count // mesh.size) * mesh.size  # so that devices share it evenly
    steps = -(-len(training) // count)
    state = TrainingState.start(jax.tree.map(_as_jax, model), _optimizer())
    fingerprint = fingerprint_of(settings, model, training, validation, sorted(bug.name for bug in bugs))
    if checkpoint is not None and checkpoint.exists():
        state = load_checkpoint(checkpoint, state, fingerprint=fingerprint)
    state = replace(state, model=replicate(state.model, mesh), optimizer=replicate(state.optimizer, mesh))
    clock = saved = time.monotonic()
    for listener in listeners:
        listener.start(epochs=settings.epochs, steps=steps, done=state.epoch)
    try:
        with interrupts_between_steps() as stop_here:
            while state.epoch < settings.epochs and not is_over(state, settings):
                new_model, new_optimizer, losses = state.model, state.optimizer, []
                share = optimizer.schedule(state.epoch * steps, settings.epochs * steps, state.history)
                rate = optimizer.learning_rate * share
                shuffle = None if Bug.NO_SHUFFLING in bugs else [settings.seed, state.epoch]
                for batch in batches(training, count, shuffle):
                    placed = shard_batch(pad_batch(batch, size), mesh)
                    new_model, new_optimizer, value = _step(
                        new_model, new_optimizer, *placed, jnp.float32(rate), task=task, mesh=mesh
                    )
                    losses.append(value)
                    for listener in listeners:
                        listener.step(examples=count)
                    stop_here()
                monitored, metric = assess(new_model, validation, task=task, bugs=bugs, batch=settings.batch_size)
                loss, now = float(np.mean(losses)), time.monotonic()
                record = {"epoch": state.epoch + 1, "loss": loss, "rate": rate, "validation_loss": monitored}
                record |= {f"validation_{task.metric.__name__}": metric, "monitored": monitored}
                record |= {"seconds": state.seconds + now - clock}
                if not (np.isfinite(loss) and np.isfinite(monitored)):
                    break
                state, clock = state.after(new_model, new_optimizer, record), now
                for listener in listeners:
                    listener.epoch(record)
                if checkpoint is not None and now - saved >= settings.save_every:
                    save_checkpoint(checkpoint, state, fingerprint=fingerprint)
                    saved = now
    finally:
        if checkpoint is not None:
            save_checkpoint(checkpoint, state, fingerprint=fingerprint)
        for listener in listeners:
            listener.close()
    return state


def batches(training: Examples, count: int, shuffle: Sequence[int] | None) -> Iterator[Examples]:
    """All examples, `count` at a time, shuffled by these seeds; None keeps their order."""
    order = np.arange(len(training)) if shuffle is None else np.random.default_rng(shuffle).permutation(len(training))
    for start in range(0, len(training), count):
        yield training.take(order[start : start + count])


def assess(model: Any, examples: Examples, *, task: Task, bugs: frozenset[Bug], batch: int) -> tuple[float, float]:
    """The loss that decides about stopping, and the metric, over a whole set."""
    predictions, target = predict(model, examples, batch=batch), np.asarray(examples.target)
    if task is REGRESSION:
        metric = rmse(predictions, target)
        return (mean_over_batches(predictions, target, batch) if Bug.MEAN_OVER_BATCHES in bugs else metric), metric
    losses = jax.vmap(task.loss)(jnp.asarray(predictions), jnp.asarray(target))
    return float(losses.mean()), task.metric(predictions, target)


def is_over(state: TrainingState, settings: Settings) -> bool:
    impatient = settings.patience is not None and state.waited >= settings.patience
    return impatient or (settings.time_budget is not None and state.seconds >= settings.time_budget)


@lru_cache
def _optimizer() -> optax.GradientTransformation:
    # Kept, because JAX compiles anew for a new object.
    def faster(updates, params):
        return eqx.tree_at(lambda m: m.decoder, updates, jax.tree.map(lambda leaf: LAST_LAYER * leaf, updates.decoder))

    return optax.chain(optax.scale_by_adam(), optax.stateless(faster))


@eqx.filter_jit
def _step(model, state, batch: Examples, weights, rate, *, task: Task, mesh):
    losses = lambda model, batch: jax.vmap(task.loss)(batch.predictions(model), batch.target)
    mean, gradient = sharded_value_and_grad(losses, mesh)(model, batch, weights)
    value, slope = jax.value_and_grad(task.batch_loss)(mean)  # the chain rule, outside of the devices' shares
    gradient = jax.tree.map(lambda leaf: slope * leaf, gradient)
    updates, state = _optimizer().update(gradient, state, weights_of(model))
    return eqx.apply_updates(model, jax.tree.map(lambda update: -rate * update, updates)), state, value


def _as_jax(leaf: Any) -> Any:
    return jnp.asarray(leaf) if isinstance(leaf, np.ndarray) else leaf
