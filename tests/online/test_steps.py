"""`start`, `advance`, `output`: window by window, every model predicts what it predicts for whole series."""

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from neuralrde.models import MODELS, READOUTS, AbstractDrivenModel, EveryState, NeuralRDE
from neuralrde.models.readouts import Sum
from neuralrde.registry import Config, accepted

CHANNELS, OUTPUTS, STEP, LENGTH, SAMPLES = 3, 2, 4, 59, 3
DRIVEN = [name for name in MODELS if issubclass(MODELS[name], AbstractDrivenModel)]
# Readouts are shared by all models but the multi-scale one.
CASES = [("neural-rde", {"readout": readout}) for readout in READOUTS]
CASES += [(name, {}) for name in DRIVEN if name not in ("neural-rde", "multi-scale-rde")]
CASES += [("multi-scale-rde", options) for options in (
    {"readout": "every"}, {"readout": "mean-energy", "stride": 4}, {"blocks": 0, "stride": 3},
    {"readout": "final", "scales": (4, 1), "stride": 8},
)]  # fmt: skip

# Most of the time goes into compiling, and these programs are too small to gain from optimisation.
quick = functools.partial(eqx.filter_jit, compiler_options={"xla_backend_optimization_level": 0})


def inputs_of(model, channels=CHANNELS):
    steps = np.random.default_rng(0).normal(size=(SAMPLES, LENGTH, channels)) / np.sqrt(LENGTH)
    path, cuts = steps.cumsum(axis=1), np.append(np.arange(0, LENGTH - 1, STEP), LENGTH - 1)
    x0, logs = model.inputs(path, np.tile(np.arange(LENGTH, dtype=np.float64), (SAMPLES, 1)), cuts)
    return jnp.asarray(x0, jnp.float32), jnp.asarray(logs, jnp.float32)


def build(name, options, channels=CHANNELS):
    options = {key: value for key, value in options.items() if key in accepted(MODELS[name])}
    small = {"width": 8, "state": 8, "units": 8, "layers": 2}
    sizes = {key: value for key, value in small.items() if key in accepted(MODELS[name])} | options
    model = Config(MODELS[name], **sizes)(channels=channels, outputs=OUTPUTS, depth=2, key=jax.random.key(0))
    return model.fit_inputs(inputs_of(model, channels))


def followed(model, x0, logs):
    """The prediction before the first window and after each."""

    def step(state, log):
        state = model.advance(state, log)
        return state, model.output(state)

    return jax.lax.scan(step, model.start(x0), logs)[1]


def is_every(model):
    return isinstance(getattr(model, "readout", model.decoder.readout), EveryState)


@pytest.mark.parametrize(("name", "options"), CASES, ids=str)
def test_window_by_window_is_the_whole_series(name, options):
    model = build(name, options)
    x0, logs = inputs_of(model)
    # Series that end in the middle too, because the running group of a stride differs there.
    ends = jnp.array([1, 2, 5, logs.shape[1]])

    def both(x0, logs):
        def whole(windows):
            found = model(x0, jnp.where(jnp.arange(logs.shape[0])[:, None] < windows, logs, 0.0), windows=windows)
            return found[windows] if is_every(model) else found

        return followed(model, x0, logs), jax.vmap(whole)(ends)

    after, whole = quick(lambda: jax.vmap(both)(x0, logs))()
    # float32, in another order: some 15 windows of sums of numbers around 1.
    np.testing.assert_allclose(after[:, ends - 1], whole, rtol=1e-5, atol=1e-5)
    assert np.abs(np.diff(after, axis=1)).max() > 1e-3  # predictions do change on the way


def test_the_state_does_not_grow():
    model = build("neural-rde", {"readout": "pools"})
    x0, logs = inputs_of(model)
    first, later = (eqx.filter_eval_shape(function) for function in (
        lambda: model.start(x0[0]), lambda: model.advance(model.advance(model.start(x0[0]), logs[0, 0]), logs[0, 1])
    ))  # fmt: skip
    assert eqx.tree_equal(first, later)


def test_sums_of_millions_lose_nothing():
    """A plain float32 sum of ones stops at 2^24; that of 0.1 is off by 1 % after a million."""
    add = lambda total, _: (total.plus(jnp.float32(0.1)), None)
    total = jax.jit(lambda: jax.lax.scan(add, Sum.of(jnp.float32(0.0)), length=10**6)[0])()
    assert abs(float(total.value) / (10**6 * float(np.float32(0.1))) - 1) < 1e-6  # half a unit of the last place


class OwnModel(NeuralRDE):
    first_state = AbstractDrivenModel.first_state


def test_a_model_without_steps_says_what_it_lacks():
    model = OwnModel(channels=2, outputs=1, depth=2, key=jax.random.key(0))
    with pytest.raises(NotImplementedError, match="OwnModel, which has no `first_state` and `next_state`; expected"):
        model.start(np.zeros(2, np.float32))
