"""The training loop: settings, data, model, optimizer, then the loop, in the order in which they run."""

import math
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import Mesh
from jaxtyping import Array, Float

from .._types import Devices, Model, State
from ..devices import (
    check_process,
    device_mesh,
    drop_programs,
    keep_programs,
    local_copy,
    local_rows,
    replicate,
    shard_batch,
    sharded_value_and_grad,
)
from ..errors import warn
from ..frozen import weights_of
from ..models import as_model
from ..processes import Processes
from .augmentation import RandomChoice
from .checkpoint import (
    Settings,
    TrainingState,
    TrainingWarning,
    agreed_state,
    fingerprint_of,
    same_training,
    save_checkpoint,
)
from .examples import Examples, Source, batch_size, batches, check_weights, predict, prefetched
from .interrupt import interrupts_between_steps
from .listeners import Listener, Listeners
from .optimizers import total_share

# A loss that is still not finite at 1/1024 of the rate will not become finite by going slower.
_SMALLEST_FACTOR = 2.0**-10
# Examples that are looked at where a solve diverged.
_EXPLAINED = 4096


def fit(
    model: Model,
    training: Source | RandomChoice,
    *,
    loss: Callable,
    validation: Source | None = None,
    decides: bool = True,
    metric: Callable[[np.ndarray, np.ndarray], float] | None = None,
    settings: Settings = Settings(),  # noqa: B008 (immutable)
    state: TrainingState | None = None,
    until: int | None = None,
    enough: Callable[[TrainingState], bool] = lambda state: False,
    checkpoint: str | os.PathLike | None = None,
    resume: bool = False,
    listeners: Sequence[Listener] = (),
    mesh: Devices = None,
) -> TrainingState:
    """Train a model; `fit(...).best` is the model that did best on the validation set.

    The same arguments give the same weights, bit for bit, however often training was interrupted and resumed, on the
    same number of devices. Ctrl-C and SIGTERM end it between two steps, after a last checkpoint, with KeyboardInterrupt
    and its subclass `Terminated`. Several processes call it with the same arguments; if one is lost, the others raise
    `ProcessLost`.

    Args:
        model: an Equinox module that takes one example. Its floating arrays are trained, unless they are `Frozen`.
        training: examples with targets, in memory or not (`Store`); a `RandomChoice` draws them anew in every epoch.
        loss: a loss such as `CrossEntropy()`, or any function of one prediction and target.
        validation: examples that decide when to stop and which weights to keep. Without them the training loss decides.
        decides: with False, the validation set is only reported in the history.
        metric: a function of predictions and targets for the history, such as `accuracy` or `rmse`.
        settings: see `Settings`.
        state: what an earlier `fit` returned; training continues from it instead of from the model.
        until: the epoch after which to pause; the schedule still runs to `settings.epochs`.
        enough: a function of the state that tells, before every epoch, whether to end there.
        checkpoint: a file for the state, written after the first epoch, every so often, and at the end. If it cannot
            be written, there is a `TrainingWarning`, and training goes on.
        resume: whether to continue from the checkpoint, if there is one.
        listeners: `ProgressBar()`, `JSONLines()`, or a `Listener` of your own.
        mesh: the devices, a list or a mesh; None takes all, as long as each has eight examples of a batch.

    >>> from neuralrde.models import NeuralRDE
    >>> from neuralrde.training import CrossEntropy
    >>> windows = np.random.default_rng(0).normal(size=(8, 5, 3)).astype(np.float32)
    >>> examples = Examples((np.zeros((8, 2), np.float32), windows), (windows.sum((1, 2)) > 0).astype(int))
    >>> model = NeuralRDE(channels=2, outputs=2, depth=2, state=4, width=8, key=jax.random.key(0))
    >>> state = fit(model, examples, loss=CrossEntropy(), settings=Settings(epochs=5))
    >>> state.epoch, state.history[-1]["loss"] < state.history[0]["loss"]
    (5, True)
    """
    # Data: batches of one shape, shared out over the devices.
    check_process()
    drop_programs()
    keep_programs()
    declared = as_model(model)  # what it says of itself; the model itself is trained
    count = min(settings.batch_size, len(training))
    mesh = device_mesh(mesh, batch=count if declared.many_devices else 1)
    size, steps = batch_size(count, mesh), -(-len(training) // count)
    processes = Processes(mesh)
    for examples, what in ((training, "training set"), (validation, "validation set")):
        if examples is not None and not isinstance(examples, RandomChoice):
            check_weights(examples, what)

    # Model and optimizer: one state, new or as it was left.
    optimizer = settings.optimizer.transformation()
    shares = total_share(settings.optimizer.schedule, settings.epochs * steps)
    decay = settings.optimizer.weight_decay / shares if shares > 0 else 0.0
    state = TrainingState.start(_as_jax(model), optimizer) if state is None else state
    fingerprint = ""
    if checkpoint is not None and processes.is_first:
        fingerprint = fingerprint_of(settings, model, _examples(training, 0), validation, loss)
    if processes.count > 1:
        settings = same_training(processes, settings, state, training, validation)
    state = agreed_state(processes, state, checkpoint if resume else None, fingerprint)
    # On all devices from the start, as every step leaves them: else JAX would compile the second step anew.
    state = _replicated(state, mesh)
    last = settings.epochs if until is None else min(until, settings.epochs)
    heard = Listeners(listeners if processes.is_first else ())
    saved = -math.inf

    def save(state: TrainingState) -> None:
        nonlocal saved
        if checkpoint is None or not processes.is_first:
            return
        saved = time.monotonic()
        try:
            save_checkpoint(checkpoint, state, fingerprint=fingerprint)
        except OSError as error:
            _say(
                f"The checkpoint {str(checkpoint)!r} could not be written after epoch {state.epoch} ({error}). "
                "Training goes on; what was written there before is still whole.",
                heard,
            )

    # The loop.
    run = _Run(settings, loss, optimizer, decay, declared.takes_key, steps, count, size, mesh, processes)
    clock = time.monotonic()
    heard.start(epochs=settings.epochs, steps=steps, done=state.epoch)
    with interrupts_between_steps(processes.sum) as stop_here, processes.lost_explained():
        try:
            while state.epoch < last and not _finished(state, settings) and not enough(state):
                examples = _examples(training, state.epoch)
                check_weights(examples, "training set")
                new_model, new_optimizer, mean, rate = run.epoch(state, examples, heard, stop_here)
                record = {"epoch": state.epoch + 1, "loss": mean, "rate": rate}
                if validation is not None:
                    record |= evaluate(new_model, validation, loss=loss, metric=metric, batch=size, mesh=mesh)
                monitored = record["validation_loss" if validation is not None and decides else "loss"]
                now = time.monotonic()
                record |= {"monitored": monitored, "seconds": state.seconds + now - clock}

                weights_finite = all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(weights_of(new_model)))
                finite = np.isfinite(record["loss"]) and np.isfinite(monitored) and weights_finite
                record, finite = processes.agree((record, finite))
                if not finite:
                    start = agreed_state(processes, TrainingState.start(_as_jax(model), optimizer), None, "")
                    state = _slowed_down(state, _replicated(start, mesh), examples, heard)
                    continue
                state = state.after(new_model, new_optimizer, record)
                clock = now
                heard.epoch(record)
                if time.monotonic() - saved >= settings.save_every:
                    save(state)
        finally:
            # Also at an interrupt: `state` is whole at any moment, because an epoch replaces it at once.
            save(state)
            heard.close()
    return state


@dataclass(frozen=True)
class _Run:
    """What all epochs of a training share."""

    settings: Settings
    loss: Callable
    optimizer: optax.GradientTransformation
    decay: float
    """Weight decay per full step, so that it adds up to the setting's over the whole training."""
    takes_key: bool
    steps: int
    count: int
    """Examples in a batch."""
    size: int
    """Examples in a batch with those of weight 0, which make it divisible by the devices."""
    mesh: Mesh
    processes: Processes

    def epoch(
        self, state: TrainingState, examples: Source, heard: Listener, stop_here: Callable[[], None]
    ) -> tuple[Model, State, float, float]:
        """The model and the optimizer's state after one more epoch, the mean loss, and the last learning rate."""
        optimizer, seed = self.settings.optimizer, self.settings.seed
        total_steps = self.settings.epochs * self.steps
        # A complete optimizer of Optax gives updates to be added as they are.
        full_rate = -1.0 if optimizer.learning_rate is None else optimizer.learning_rate
        model, moments = state.model, state.optimizer
        losses, weight, rate = [], 0.0, 0.0
        own = local_rows(self.mesh, self.size)
        drawn = batches(examples, self.count, self.size, seed=seed, epoch=state.epoch, own=own)
        with prefetched(drawn, in_memory=isinstance(examples, Examples)) as drawn:
            for i, (batch, weights) in enumerate(drawn):
                share = optimizer.schedule(state.epoch * self.steps + i, total_steps, state.history)
                share *= state.rate_factor
                rate = full_rate * share
                in_batch = min(self.count, len(examples) - i * self.count)
                if batch.weight is not None:
                    (in_batch,) = self.processes.sum(weights.sum())
                keys = None
                if self.takes_key:  # for dropout: the same ones if training was interrupted and resumed
                    rng = np.random.default_rng([seed, state.epoch, i])
                    keys = rng.integers(2**32, size=(self.size, 2), dtype=np.uint32)[own]
                if in_batch:  # else it says nothing: no step
                    model, moments, value = _step(
                        model,
                        moments,
                        *shard_batch((batch, weights, keys), self.mesh),
                        rate=jnp.float32(rate),
                        # Also where it is 0, so that `partial_fit` needs no other program.
                        shrink=jnp.float32(-math.expm1(-self.decay * share)),
                        loss=self.loss,
                        optimizer=self.optimizer,
                        mesh=self.mesh,
                    )
                    losses.append((value, in_batch))  # nobody waits for the number
                    weight += in_batch
                heard.step(examples=self.count)
                stop_here()
        total = sum(float(value) * in_batch for value, in_batch in losses)
        return model, moments, float(total / weight), abs(float(rate))


def _examples(training: Source | RandomChoice, epoch: int) -> Source:
    return training.epoch(epoch) if isinstance(training, RandomChoice) else training


def evaluate(
    model: Model, examples: Source, *, loss: Callable, metric: Callable | None, batch: int, mesh: Mesh
) -> dict[str, float]:
    """Loss and metric over a whole set."""
    predictions = predict(model, examples, batch=batch, mesh=mesh)
    weight = np.ones(len(examples)) if examples.weight is None else np.asarray(examples.weight)
    losses = np.asarray(_losses(loss, predictions, examples.target))
    record = {"validation_loss": float((weight * losses).sum() / weight.sum())}
    if metric is not None:
        found = float(metric(predictions, np.asarray(examples.target)))  # JSON knows no numbers of NumPy
        record[f"validation_{getattr(metric, '__name__', 'metric')}"] = found
    return record


@eqx.filter_jit
def _step(model, state, batch: Examples, weights: Float[Array, " batch"], keys, *, rate, shrink, loss, optimizer, mesh):
    losses = lambda model, batch: jax.vmap(loss)(batch[0].predictions(model, batch[1]), batch[0].target)
    value, gradient = sharded_value_and_grad(losses, mesh)(model, (batch, keys), weights)
    trained = weights_of(model)
    updates, state = optimizer.update(gradient, state, trained)
    # Decoupled, as in AdamW: w <- exp(-decay) w - rate * update
    updates = jax.tree.map(lambda update, leaf: -rate * update - shrink * leaf, updates, trained)
    return eqx.apply_updates(model, updates), state, value


@eqx.filter_jit
def _losses(loss, predictions, target):
    return jax.vmap(loss)(predictions, target)


def _replicated(state: TrainingState, mesh: Mesh) -> TrainingState:
    return replace(state, **{part: replicate(getattr(state, part), mesh) for part in ("model", "optimizer", "best")})


def _as_jax(model: Model) -> Model:
    return jax.tree.map(lambda leaf: jnp.asarray(leaf) if isinstance(leaf, np.ndarray) else leaf, model)


def _finished(state: TrainingState, settings: Settings) -> bool:
    impatient = settings.patience is not None and state.waited >= settings.patience
    return impatient or (settings.time_budget is not None and state.seconds >= settings.time_budget)


def _say(message: str, heard: Listener) -> None:
    warn(message, TrainingWarning)
    heard.say(message)


def _slowed_down(state: TrainingState, start: TrainingState, training: Source, heard: Listener) -> TrainingState:
    """A state from before the loss was not finite, to be gone on from at half the rate.

    First the end of the last epoch. If that was broken already, unseen by the validation set, the best weights;
    and if they are no better, the initial ones.
    """
    state = replace(state, rate_factor=state.rate_factor / 2, failures=state.failures + 1)
    if state.rate_factor < _SMALLEST_FACTOR:
        as_model(local_copy(start.model)).explain_divergence(training.take(slice(_EXPLAINED)).inputs)
        raise FloatingPointError(
            f"A loss was not finite in epoch {state.epoch + 1}, and going back has not helped {state.failures - 1} "
            "times, at ever smaller learning rates. Look at the data for values that are far too large, and at the "
            "loss."
        )
    back = f"the end of epoch {state.epoch}"
    if state.failures == 2 and state.best_epoch not in (0, state.epoch):
        back = f"the best weights, of epoch {state.best_epoch}"
        state = replace(state, model=state.best, optimizer=start.optimizer)
    elif state.failures > 1:
        back = "the initial weights"
        state = replace(state, model=start.model, optimizer=start.optimizer, best=start.model, best_loss=math.inf)
    _say(
        f"A loss was not finite in epoch {state.epoch + 1}: back to {back}, and on with {state.rate_factor:g} times "
        "the learning rate.",
        heard,
    )
    return state
