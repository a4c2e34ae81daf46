"""The loop: it learns, stops, goes back, and is the same whenever it is run."""

import io
import json
import math
from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from neuralrde.models import EveryState, FinalState
from neuralrde.training import (
    AdamW,
    ConstantRate,
    CrossEntropy,
    Examples,
    Huber,
    JSONLines,
    Listener,
    OptaxOptimizer,
    Plateau,
    ProgressBar,
    Settings,
    SquaredError,
    TrainingWarning,
    WarmupCosine,
    accuracy,
    fit,
    partition_weights,
    predict,
    rmse,
    weights_of,
)
from neuralrde.training.archive import arrays_of
from neuralrde.training.loop import batches

from ..shapes import unchecked
from .examples import SETTINGS, arguments, model, task


def test_it_learns_and_keeps_the_best():
    args, options = arguments()
    state = fit(*args, **options, settings=replace(SETTINGS, epochs=40))
    losses = [record["validation_loss"] for record in state.history]
    assert state.best_loss == min(losses) == losses[state.best_epoch - 1]
    assert state.history[-1]["loss"] < 0.5 * state.history[0]["loss"]
    predictions = predict(state.best, options["validation"])
    pairs = zip(predictions, options["validation"].target, strict=True)
    again = np.mean([CrossEntropy()(*map(jnp.asarray, pair)) for pair in pairs])
    np.testing.assert_allclose(again, state.best_loss, rtol=1e-5)  # float32 sums in another order
    assert accuracy(predictions, options["validation"].target) > 0.8


def test_early_stopping():
    args, options = arguments()
    state = fit(
        *args, **options, settings=replace(SETTINGS, epochs=500, optimizer=AdamW(learning_rate=0.05), patience=5)
    )
    assert state.epoch == state.best_epoch + 5 < 500


def test_the_step_is_that_of_adamw():
    """Against Optax's own AdamW with clipping, on one device, one batch."""
    examples = task(8)
    start = model().fit_scale(examples.inputs[1])
    shares = 1 + 0.75 + 0.25  # of the cosine: 0.1 per step at a rate of 1e-2 is so much in all
    settings = Settings(
        epochs=3,
        batch_size=8,
        optimizer=AdamW(
            learning_rate=1e-2, weight_decay=0.1 * 1e-2 * shares, clip=0.5, schedule=WarmupCosine(warmup=0.0)
        ),
    )
    got = fit(start, examples, loss=CrossEntropy(), settings=settings).model
    schedule = lambda step: 1e-2 * (1 + jnp.cos(jnp.pi * step / 3)) / 2
    optimizer = optax.chain(optax.clip_by_global_norm(0.5), optax.adamw(schedule, weight_decay=0.1))
    weights, rest = partition_weights(start)

    @jax.grad
    def gradient(weights):
        return jax.vmap(CrossEntropy())(examples.predictions(eqx.combine(weights, rest)), examples.target).mean()

    @jax.jit
    def step(weights, state):
        updates, state = optimizer.update(gradient(weights), state, weights)
        return optax.apply_updates(weights, updates), state

    state = optimizer.init(weights)
    for _ in range(3):
        weights, state = step(weights, state)
    for a, b in zip(jax.tree.leaves(weights_of(got)), jax.tree.leaves(weights), strict=True):
        # float32, sums in another order; Adam divides small gradients by their size
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-5)


def test_every_example_once_an_epoch_in_an_order_of_its_own():
    examples = Examples((np.arange(10.0),), np.arange(10))
    seen = []
    for epoch in (0, 1, 0):
        parts = [batch.target[weights > 0] for batch, weights in batches(examples, 4, seed=3, epoch=epoch)]
        assert all(len(weights) == 4 for _, weights in batches(examples, 4, seed=3, epoch=epoch))
        # Cores that do not divide a batch have examples without weight to work on: the batches stay what they are.
        shared = [batch.target[weights > 0] for batch, weights in batches(examples, 4, 6, seed=3, epoch=epoch)]
        assert all((a == b).all() for a, b in zip(parts, shared, strict=True))
        seen.append(np.concatenate(parts))
    assert sorted(seen[0]) == sorted(seen[1]) == list(range(10))
    assert (seen[0] == seen[2]).all()
    assert (seen[0] != seen[1]).any()


def test_example_weights():
    """An example of weight zero might as well be absent."""
    examples = task(8)
    start = model().fit_scale(examples.inputs[1])
    weighted = Examples(examples.inputs, examples.target, weight=np.r_[np.ones(6), 0, 0].astype(np.float32))
    settings = Settings(epochs=2, batch_size=8)
    with_zeros = fit(start, weighted, loss=CrossEntropy(), settings=settings)
    without = fit(start, examples.take(slice(0, 6)), loss=CrossEntropy(), settings=replace(settings, batch_size=6))
    np.testing.assert_allclose(with_zeros.history[0]["loss"], without.history[0]["loss"], rtol=1e-5)


class Weight(eqx.Module):
    """The simplest model: a number, or a number times a number."""

    weight: jax.Array

    def __call__(self, x):
        return self.weight * x


def numbers(count, weight=None):
    return Examples((np.ones((count, 1), np.float32),), np.zeros((count, 1), np.float32), weight=weight)


def ones(*shape):
    return Weight(jnp.ones(shape, jnp.float32))


def test_a_batch_without_weight_is_passed_over():
    """Half of the examples do not count, in batches of one: every other batch has nothing to say."""
    weight = np.array([1, 0, 1, 0, 1, 0], np.float32)
    settings = Settings(epochs=3, batch_size=1, optimizer=AdamW(learning_rate=0.1, weight_decay=0.0))
    state = fit(ones(1), numbers(6, weight), loss=SquaredError(), settings=settings)
    assert len(state.history) == 3
    assert all(0 < record["loss"] < 0.5 for record in state.history)
    # Adam's memory counts steps: 3 in an epoch, not 6.
    counts = [int(leaf) for leaf in jax.tree.leaves(state.optimizer) if leaf.dtype == jnp.int32]
    assert counts == [9]


@pytest.mark.parametrize("what", ["training", "validation"])
@pytest.mark.parametrize(
    ("weight", "expected"),
    [
        ([0.0, 0.0, 0.0], "all 0 for the {} set"),
        ([1.0, -1.0, 1.0], "weight -1 for example 1 of the {} set"),
        ([1.0, 1.0, np.nan], "weight nan for example 2 of the {} set"),
        ([np.inf, 1.0, 1.0], "weight inf for example 0 of the {} set"),
        ([1.0, 1.0], "one weight per example"),
        ([1e-60, 0.0, 0.0], "all 0 for the {} set"),  # as float32, in which they are used
    ],
)
def test_weights_that_mean_nothing_are_refused_at_once(tmp_path, what, weight, expected):
    sets = {"training": numbers(3), "validation": numbers(3)}
    with unchecked():  # one of them has too few
        sets[what] = numbers(3, np.array(weight))
    path = tmp_path / "run"
    with pytest.raises(ValueError, match=expected.format(what)):
        fit(ones(1), sets["training"], validation=sets["validation"], loss=SquaredError(), checkpoint=path)
    assert not path.exists()


SCHEDULES = [ConstantRate(), WarmupCosine(), WarmupCosine(warmup=0.3, floor=0.1), Plateau(patience=10**6)]


@pytest.mark.parametrize("schedule", SCHEDULES, ids=str)
@pytest.mark.parametrize("steps", [50, 500])
def test_weight_decay_is_that_of_the_whole_training(schedule, steps):
    """Weights that no gradient touches shrink by exp(-weight_decay), in however many steps."""
    indifferent = lambda prediction, target: 0.0 * prediction.sum()
    settings = Settings(epochs=5, batch_size=1, optimizer=AdamW(learning_rate=0.1, schedule=schedule, weight_decay=1.5))
    state = fit(ones(3), numbers(steps // 5), loss=indifferent, settings=settings)
    # 500 products of float32, each rounded by up to 6e-8.
    np.testing.assert_allclose(state.model.weight, math.exp(-1.5), rtol=3e-5)


def test_a_plateau_and_an_early_end_decay_less():
    """What is not trained is not shrunk either: decay goes with the rate."""
    indifferent = lambda prediction, target: 0.0 * prediction.sum()
    settings = Settings(
        epochs=10,
        batch_size=1,
        optimizer=AdamW(learning_rate=0.1, weight_decay=1.0, schedule=Plateau(patience=1, factor=0.0, floor=0.0)),
    )
    state = fit(ones(1), numbers(1), loss=indifferent, settings=settings)
    # The loss never improves on the first epoch's, so the rate is 0 from the third epoch on.
    np.testing.assert_allclose(state.model.weight, math.exp(-0.2), rtol=1e-6)
    constant = replace(settings, optimizer=AdamW(learning_rate=0.1, weight_decay=1.0, schedule=ConstantRate()))
    half = fit(ones(1), numbers(1), loss=indifferent, settings=constant, until=5)
    np.testing.assert_allclose(half.model.weight, math.exp(-0.5), rtol=1e-6)


def test_ones_own_optimizer_decays_as_it_likes():
    indifferent = lambda prediction, target: 0.0 * prediction.sum()
    for own in (
        OptaxOptimizer(optax.add_decayed_weights(0.5), learning_rate=0.1),
        optax.chain(optax.add_decayed_weights(0.5), optax.scale(-0.1)),  # complete with its rate
    ):
        settings = Settings(epochs=4, batch_size=1, optimizer=own)
        state = fit(ones(1), numbers(1), loss=indifferent, settings=settings)
        np.testing.assert_allclose(state.model.weight, (1 - 0.1 * 0.5) ** 4, rtol=1e-6)  # float32


def test_a_reader_who_goes_away_does_not_end_the_training():
    class Closed(io.StringIO):
        def write(self, text):
            raise BrokenPipeError

    class Counts(Listener):
        epochs = 0

        def epoch(self, record):
            self.epochs += 1

    stays = Counts()
    listeners = [JSONLines(Closed()), stays]
    state = fit(ones(1), numbers(2), loss=SquaredError(), settings=Settings(epochs=3), listeners=listeners)
    assert state.epoch == stays.epochs == 3


def test_a_loss_that_is_not_finite_is_undone_and_said():
    (start, training), options = arguments()

    class Breaks(eqx.Module):
        """Not finite where a weight has gone far, as it does at a large rate."""

        def __call__(self, prediction, target):
            value = CrossEntropy()(prediction, target)
            return jnp.where(jnp.abs(prediction).max() > 2.5, jnp.nan, value)

    heard = io.StringIO()
    options["loss"] = Breaks()
    settings = replace(SETTINGS, optimizer=AdamW(learning_rate=1.0), epochs=8)
    with pytest.warns(TrainingWarning) as warned:
        state = fit(start, training, **options, settings=settings, listeners=[JSONLines(heard)])
    assert "back to the end of epoch" in str(warned[0].message)
    assert state.rate_factor < 1
    assert state.epoch == 8
    assert all(math.isfinite(record["loss"]) for record in state.history)
    assert any("message" in json.loads(line) for line in heard.getvalue().splitlines())


@pytest.mark.filterwarnings("ignore::neuralrde.training.TrainingWarning")
def test_hopeless_data_end_with_an_error_that_names_them():
    (start, training), options = arguments()
    x0, windows = training.inputs
    windows = windows.copy()
    windows[5, 2] = np.inf
    with pytest.raises(FloatingPointError, match="sample 5 is not finite after window 2"):
        fit(start, Examples((x0, windows), training.target), **options, settings=SETTINGS)


@pytest.mark.long
def test_sequence_targets():
    """At each window the sign of the area so far; unknown targets are left out."""
    examples = task(64)
    x0, windows = examples.inputs
    target = np.concatenate([np.full((64, 1), -1), (np.cumsum(windows[..., 2], 1) > 0)], axis=1).astype(np.int32)
    target[::2, 2] = -1
    start = model(readout=EveryState()).fit_scale(windows)
    state = fit(
        start,
        Examples((x0, windows), target),
        loss=CrossEntropy(),
        settings=Settings(epochs=40, batch_size=16, optimizer=AdamW(learning_rate=2e-2)),
    )
    predictions = predict(state.best, Examples((x0, windows)))
    assert predictions.shape == (64, 5, 2)
    assert accuracy(predictions, target) > 0.9
    # What stands where no target is known makes no difference.
    changed = np.where(target < 0, -7, target)
    np.testing.assert_array_equal(*(jax.vmap(CrossEntropy())(predictions, t) for t in (target, changed)))


def test_unknown_numbers_make_no_nan():
    for loss in (SquaredError(2.0), Huber(2.0)):
        target = jnp.array([[1.0], [jnp.nan]])
        value, gradient = jax.value_and_grad(lambda p, loss=loss, target=target: loss(p, target))(jnp.ones((2, 1)) * 2)
        assert jnp.isfinite(value)
        assert jnp.isfinite(gradient).all()
        assert gradient[1, 0] == 0


def test_regression():
    examples = task(64)
    x0, windows = examples.inputs
    target = (80 + 30 * windows[..., 2].sum(1, keepdims=True)).astype(np.float32)
    start = model(outputs=1, readout=FinalState()).fit_scale(windows).fit_labels(target)
    data = Examples((x0, windows), target)
    state = fit(
        start, data, loss=SquaredError(target.std()), settings=Settings(epochs=60, optimizer=AdamW(learning_rate=2e-2))
    )
    assert rmse(predict(state.best, data), target) < 0.5 * target.std()


def test_plateau():
    schedule = Plateau(patience=2, factor=0.5, floor=0.2)
    history = lambda *losses: [{"monitored": loss} for loss in losses]
    assert schedule(0, 1, history(3, 2, 1)) == 1
    assert schedule(0, 1, history(1, 2, 2)) == 0.5
    assert schedule(0, 1, history(1, 2, 2, 2, 2)) == 0.25
    assert schedule(0, 1, history(*[1.0] * 20)) == 0.2


def test_the_bar_is_quiet_without_a_terminal_and_tells_on_one():
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    args, options = arguments()
    quiet, loud = io.StringIO(), Terminal()
    fit(*args, **options, settings=replace(SETTINGS, epochs=2), listeners=[ProgressBar(quiet), ProgressBar(loud)])
    assert quiet.getvalue() == ""
    assert "validation_accuracy" in loud.getvalue()


def test_settings_refuse_nonsense():
    for wrong in ({"epochs": 0}, {"batch_size": 0}, {"patience": 0}, {"time_budget": -1.0}, {"optimizer": "sgd"}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            Settings(**wrong)
    for wrong in ({"learning_rate": -1.0}, {"weight_decay": -0.1}, {"clip": 0.0}, {"schedule": "cosine"}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            AdamW(**wrong)


def test_predictions_do_not_depend_on_company():
    examples = task(20)
    start = model().fit_scale(examples.inputs[1])
    together = predict(start, examples)
    alone = np.concatenate([predict(start, examples.take([i])) for i in range(20)])
    # Float32: a batch of one is computed by another program, whose sums come in another order.
    np.testing.assert_allclose(together, alone, rtol=1e-5, atol=1e-6)
    assert arrays_of(start)  # and the model was left as it was
