"""Every model: shapes, batches, padding, conditioning, training; and what each of them must equal."""

import functools

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import scipy.integrate
import scipy.interpolate

from neuralrde.fields import BoundedField, DiagonalField, FreeField, FreeLinearField, LinearField
from neuralrde.frozen import partition_weights, weights_of
from neuralrde.models import (
    ODERNN,
    AbstractDrivenModel,
    CubicCDE,
    EveryState,
    FinalState,
    LabelScale,
    LinearRDE,
    LogNCDE,
    MeanEnergy,
    MeanState,
    NeuralCDE,
    NeuralRDE,
    OscillatorRDE,
    fold,
    hermite_control,
    natural_control,
)
from neuralrde.solvers import Exponential

KEY = jax.random.key(0)
CHANNELS, OUTPUTS, LENGTH, STEP = 3, 2, 41, 8
SMALL = {"state": 6, "width": 8, "layers": 2}

# Every model driven by log-signatures, entered once.
MODELS = {
    "neural_rde": lambda **o: NeuralRDE(CHANNELS, OUTPUTS, depth=2, key=KEY, **SMALL, **o),
    "depth_3": lambda **o: NeuralRDE(CHANNELS, OUTPUTS, depth=3, solver=diffrax.Heun(), key=KEY, **SMALL, **o),
    "bounded": lambda **o: NeuralRDE(
        CHANNELS, OUTPUTS, depth=2, field=BoundedField(6, 5, width=8, layers=1, key=KEY), key=KEY, **o
    ),
    "neural_cde": lambda **o: NeuralCDE(CHANNELS, OUTPUTS, key=KEY, **SMALL, **o),
    "log_ncde": lambda **o: LogNCDE(CHANNELS, OUTPUTS, depth=2, key=KEY, **SMALL, **o),
    "dense": lambda **o: NeuralRDE(
        CHANNELS,
        OUTPUTS,
        depth=2,
        field=LinearField(CHANNELS, 4, 2, key=KEY),
        solver=Exponential(),
        key=KEY,
        **o,
    ),
    "linear_rde": lambda **o: LinearRDE(CHANNELS, OUTPUTS, depth=2, width=6, state=8, key=KEY, **o),
    # With a readout as large as the others', which tests put in its place.
    "oscillators": lambda readout=FinalState(): OscillatorRDE(  # noqa: B008
        CHANNELS, OUTPUTS, depth=2, state=8, width=6, readout=readout, key=KEY
    ),
    "diagonal_stack": lambda **o: LinearRDE(
        CHANNELS, OUTPUTS, depth=2, width=6, state=8, field=DiagonalField, key=KEY, **o
    ),
    "block_stack": lambda **o: LinearRDE(
        CHANNELS, OUTPUTS, depth=1, width=6, state=8, blocks=1, field=FreeLinearField.random, key=KEY, **o
    ),
}
READOUTS = {"final": FinalState(), "mean": MeanState(), "every": EveryState()}


def paths(batch=8, length=LENGTH):
    """Time, and two channels of very different size."""
    rng = np.random.default_rng(0)
    times = np.broadcast_to(np.linspace(0, 1, length)[:, None], (batch, length, 1))
    walk = np.cumsum(rng.normal(size=(batch, length, 2)), axis=1) * [0.01, 5.0]
    walk -= walk[:, :1]
    return np.concatenate([times, walk], axis=-1).astype(np.float32)


@functools.cache
def prepared(name):
    """A model fitted to the scale of `paths()`, their first points and their log-signatures."""
    model, path = eqx.filter_jit(MODELS[name])(), paths()
    windows = model.log_signatures(path, step=STEP)
    return model.fit_scale(windows), jnp.asarray(path[:, 0]), jnp.asarray(windows)


def reading(model, readout):
    return eqx.tree_at(lambda model: model.decoder.readout, model, readout)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("readout", READOUTS)
def test_shapes(name, readout):
    model, x0, windows = prepared(name)
    shape = jax.eval_shape(jax.vmap(reading(model, READOUTS[readout])), x0, windows).shape
    assert shape == ((8, 6, OUTPUTS) if readout == "every" else (8, OUTPUTS))
    built = eqx.filter_eval_shape(MODELS[name], readout=READOUTS[readout])
    assert built.decoder.readout == READOUTS[readout]


@pytest.mark.parametrize("name", MODELS)
def test_padding_changes_nothing(name):
    """Padded windows leave the prediction as it was; with a mean readout, given the number of windows."""
    model, x0, windows = prepared(name)
    model = reading(model, EveryState())
    short, padded = windows[0][:3], windows[0].at[3:].set(0.0)
    states = eqx.filter_jit(model)(x0[0], padded)
    assert (states[3:] == states[3]).all()  # bit for bit
    mean = reading(model, MeanState())
    got = eqx.filter_jit(mean)(x0[0], padded, windows=jnp.array(3))
    np.testing.assert_allclose(got, eqx.filter_jit(mean)(x0[0], short), rtol=1e-5, atol=1e-6)  # float32 sums


@pytest.mark.parametrize("name", MODELS)
def test_the_first_prediction_is_of_the_order_of_the_labels_spread(name):
    model, x0, windows = prepared(name)
    labels = np.random.default_rng(1).normal(80.0, 13.0, size=(8, OUTPUTS))
    predictions = jax.jit(jax.vmap(model.fit_labels(labels)))(x0, windows)
    error = np.sqrt(((predictions - labels) ** 2).mean())
    assert error < 3 * labels.std()  # predictions of unit size, not shifted to the mean of 80, would be 6 off


@pytest.mark.long
@pytest.mark.parametrize("name", ["neural_rde", "log_ncde", "linear_rde"])
def test_training_reduces_the_loss_and_leaves_the_statistics(name):
    model, x0, windows = prepared(name)
    labels = jnp.stack([windows[:, :, 2].sum(1) / 5, windows[:, :, 1].sum(1) * 20], axis=1)
    model = model.fit_labels(np.asarray(labels))
    optimizer = optax.adamw(1e-2, weight_decay=0.1)
    state = optimizer.init(weights_of(model))

    @eqx.filter_jit
    def step(model, state):
        weights, rest = partition_weights(model)
        predictions = lambda weights: jax.vmap(eqx.combine(weights, rest))(x0, windows)
        loss = lambda weights: ((predictions(weights) - labels) ** 2 / labels.std(0) ** 2).mean()
        value, grads = jax.value_and_grad(loss)(weights)
        updates, state = optimizer.update(grads, state, weights)
        return eqx.apply_updates(model, updates), state, value

    losses, before = [], (model.scale.factors.array, model.decoder.labels.mean.array)
    for _ in range(60):
        model, state, value = step(model, state)
        losses.append(float(value))
    assert losses[-1] < 0.3 * losses[0]
    np.testing.assert_array_equal(before[0], model.scale.factors.array)
    np.testing.assert_array_equal(before[1], model.decoder.labels.mean.array)


def test_scale_is_the_root_mean_square_of_valid_windows_only():
    model, _, _ = prepared("neural_rde")
    windows = np.random.default_rng(0).normal(size=(4, 9, 6)) * [1e-3, 1, 10, 1, 1, 0]
    counts = np.array([9, 4, 1, 6])
    padded = np.where(np.arange(9)[:, None] < counts[:, None, None], windows, 0.0)
    valid = np.concatenate([w[:n] for w, n in zip(windows, counts, strict=True)])
    expected = 1 / (np.sqrt((valid**2).mean(0)[:5]) * np.sqrt(counts.mean()))
    factors = model.fit_scale(padded, windows=counts).scale.factors.value
    np.testing.assert_allclose(factors[:5], expected, rtol=1e-6)  # kept in float32
    np.testing.assert_allclose(factors[5], 1 / np.sqrt(counts.mean()), rtol=1e-6)  # a constant channel is divided by 1


def test_bracket_models_are_scaled_as_their_path_would_be():
    """Exactness survives: scaling log-signatures homogeneously is scaling the path."""
    (model, _, windows), path = prepared("log_ncde"), paths()
    factors = np.asarray(model.scale.factors.value)
    scaled = model.log_signatures((path * factors[:CHANNELS]).astype(np.float32), step=STEP)
    # float32 log-signatures of a path with values up to 30: areas lose three digits to cancellation.
    np.testing.assert_allclose(windows * factors, scaled, rtol=1e-3, atol=1e-4)


@pytest.mark.long
def test_depth_1_step_1_is_the_neural_cde_on_the_linear_path():
    """Diffrax solves dZ = f(Z) dX along the linear interpolation, with the same weights, to a tolerance."""
    with jax.enable_x64(True):
        path = jnp.asarray(paths(1, 11)[0], float) * jnp.array([1.0, 10.0, 0.05])
        model = NeuralCDE(CHANNELS, OUTPUTS, substeps=16, key=KEY, **(SMALL | {"activation": jnp.tanh}))
        assert isinstance(model.field, FreeField)
        windows = model.log_signatures(path, step=1)
        np.testing.assert_allclose(windows, jnp.diff(path, axis=0), atol=1e-12)
        times = jnp.linspace(0.0, 1.0, 11)
        control = diffrax.LinearInterpolation(times, path)
        matrix = lambda t, z, _: jax.vmap(lambda e: model.field.contract(e)(z), out_axes=1)(jnp.eye(CHANNELS))
        controller = diffrax.PIDController(rtol=1e-9, atol=1e-10)
        solution = diffrax.diffeqsolve(
            diffrax.ControlTerm(matrix, control).to_ode(),
            diffrax.Tsit5(),
            t0=0.0,
            t1=1.0,
            dt0=None,
            y0=model.encoder(path[0]),
            stepsize_controller=diffrax.ClipStepSizeController(controller, jump_ts=times[1:-1]),
        )
        got = eqx.filter_jit(model)(path[0], windows)
        np.testing.assert_allclose(got, model.decoder(solution.ys[0], None), atol=1e-7)  # Diffrax's tolerance


def test_cubic_controls():
    with jax.enable_x64(True):
        rng = np.random.default_rng(0)
        times, values = np.sort(rng.uniform(0, 5, 9)), rng.normal(size=(9, 2))
        fine = np.linspace(times[0], times[-1], 50)
        natural = natural_control(jnp.asarray(times), jnp.asarray(values))
        spline = scipy.interpolate.CubicSpline(times, values, bc_type="natural")
        np.testing.assert_allclose(jax.vmap(natural.evaluate)(fine), spline(fine), atol=1e-12)
        np.testing.assert_allclose(jax.vmap(natural.derivative)(fine), spline(fine, 1), atol=1e-11)


@pytest.mark.long
@pytest.mark.parametrize("control", [hermite_control, natural_control])
def test_cubic_cde(control):
    """Against SciPy, along the same spline."""
    with jax.enable_x64(True):
        times, path = jnp.linspace(0.0, 1.0, 9), jnp.asarray(paths(1, 9)[0], float) * jnp.array([1, 10, 0.05])
        model = CubicCDE(
            CHANNELS,
            1,
            control=control,
            controller=diffrax.PIDController(rtol=1e-8, atol=1e-9),
            key=KEY,
            **SMALL,
        )
        spline = control(times, path)
        slope = jax.jit(lambda t, z: model.field.contract(spline.derivative(t))(z))
        exact = scipy.integrate.solve_ivp(slope, (0, 1), model.encoder(path[0]), rtol=1e-10, atol=1e-11).y[:, -1]
        got = eqx.filter_jit(model)(times, path)
        np.testing.assert_allclose(got, model.decoder(jnp.asarray(exact), None), atol=1e-7)  # its tolerance
        assert eqx.filter_eval_shape(reading(model, EveryState()), times, path).shape == (9, 1)


@pytest.mark.long
def test_a_cubic_cde_stops_where_its_series_does():
    times, path = jnp.linspace(0.0, 1.0, 9), jnp.asarray(paths(1, 9)[0])
    model = CubicCDE(CHANNELS, 1, key=KEY, **SMALL)
    padded = path.at[6:].set(path[5])
    alone = eqx.filter_jit(model)(times[:6], path[:6])
    run = eqx.filter_jit(lambda windows: model(times, padded, windows=windows))
    np.testing.assert_allclose(run(jnp.array(5)), alone, rtol=1e-6)  # steps of another length
    assert abs(run(jnp.array(8)) - alone) > 1e-5  # the spline overshoots in the first padded interval


def test_a_constant_label_has_unit_spread():
    assert LabelScale.fit(np.full(7, 0.1)).spread.value.tolist() == [1.0]


def test_ode_rnn_folds_everything_and_stops_at_padding():
    path = paths()
    blocks = fold(path, STEP)
    assert blocks.shape == (8, 6, STEP * CHANNELS)
    assert fold(path[:, :40], STEP).shape == (8, 5, STEP * CHANNELS)  # no block of filling alone
    np.testing.assert_array_equal(blocks.reshape(8, 48, CHANNELS)[:, :LENGTH], path)
    model = ODERNN(CHANNELS, OUTPUTS, points=STEP, state=6, width=8, readout=EveryState(), key=KEY)
    states = eqx.filter_jit(model)(jnp.asarray(blocks[0]), windows=jnp.array(4))
    alone = eqx.filter_jit(model)(jnp.asarray(blocks[0, :4]))
    assert (states[4:] == states[4]).all()
    np.testing.assert_allclose(states[:5], alone, rtol=1e-6)


def test_causal_outputs():
    """A prediction after window k does not know what comes later."""
    for name in ("neural_rde", "linear_rde"):
        model, x0, windows = prepared(name)
        run = eqx.filter_jit(reading(model, EveryState()))
        changed = run(x0[0], windows[0].at[4:].set(9.0))
        np.testing.assert_array_equal(run(x0[0], windows[0])[:5], changed[:5])


def test_save_and_load(tmp_path):
    model, _, windows = prepared("neural_rde")
    eqx.tree_serialise_leaves(tmp_path / "model.eqx", model)
    unfitted = model.fit_scale(2 * windows)
    loaded = eqx.tree_deserialise_leaves(tmp_path / "model.eqx", unfitted)
    for a, b in zip(*map(jax.tree.leaves, map(eqx.filter, (loaded, model), [eqx.is_array] * 2)), strict=True):
        np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(loaded.scale.factors.value, model.scale.factors.value)


def test_errors_say_what_to_write():
    model, _, _ = prepared("neural_rde")
    with pytest.raises(ValueError, match=r"depth 2 and scales"):
        model(jnp.ones(3), jnp.ones((5, 14)))
    with pytest.raises(ValueError, match=r"x0 = path\[0\]"):
        model(jnp.ones(2), jnp.ones((5, 6)))
    with pytest.raises(ValueError, match=r"jax.vmap\(model\)"):
        model(jnp.ones((8, 3)), jnp.ones((8, 5, 6)))
    with pytest.raises(ValueError, match=r"expected 14"):
        eqx.filter_eval_shape(lambda: NeuralRDE(3, 1, depth=2, field=FreeField(14, 4, key=KEY), key=KEY))
    with pytest.raises(ValueError, match=r"log_signatures\[None\]"):
        model.fit_scale(jnp.ones((5, 6)))
    with pytest.raises(ValueError, match=r"Scale\(\).fit"):
        model.fit_scale(np.full((2, 5, 6), 1e-42))
    with pytest.raises(ValueError, match=r"labels\[..., None\]"):
        model.fit_labels(np.zeros((8, OUTPUTS + 1)))
    with pytest.raises(ValueError, match="not finite"):
        model.fit_labels(np.full((8, OUTPUTS), np.nan))
    with pytest.raises(ValueError, match="fold"):
        eqx.filter_eval_shape(lambda: ODERNN(3, 1, points=4, key=KEY)(jnp.ones((5, 3))))


def test_each_oscillator_is_pushed_by_the_increments_of_its_own_channel():
    """Beside small random pushes, which are the same of the untuned field: one for the channel, none for the others."""
    model = OscillatorRDE(3, 1, depth=1, state=8, key=KEY)
    tuned = model.fit_scale(np.random.default_rng(0).normal(size=(5, 4, 3)))
    pushes = np.asarray(tuned.field.offsets - 0.1 * model.field.offsets).reshape(3, 2, 4)
    np.testing.assert_allclose(pushes[:, 0], [[0] * 4, [1, 0, 1, 0], [0, 1, 0, 1]], atol=1e-6)  # float32
    np.testing.assert_allclose(pushes[:, 1], 0.0, atol=1e-6)


@pytest.mark.long
def test_an_oscillator_answers_to_its_own_rate_and_a_faster_series_moves_the_pattern_along():
    """Sines of f and 2 f turns a window: the energies of the second are those of the first, an octave further on."""
    rates = np.geomspace(0.02, 0.32, 33)  # eight oscillators an octave
    model = OscillatorRDE(2, 1, depth=2, state=66, turns=(0.02, 0.32), key=KEY)
    energies = []
    for turns in (rates[12], rates[20]):
        phase = 2 * np.pi * turns * np.arange(4001) / 10
        path = np.stack([np.arange(4001) / 4000, np.sin(phase)], axis=1)
        windows = model.log_signatures(path[None], step=10)
        tuned = model.fit_scale(np.asarray(windows))
        push = jnp.zeros((3, 66)).at[1].set(1.0)  # all oscillators alike, by the signal's increments alone
        tuned = eqx.tree_at(lambda m: m.field.offsets, tuned, push)
        states = tuned.states(jnp.zeros(2), jnp.asarray(windows[0], jnp.float32))
        energies.append(np.asarray(MeanEnergy()(states)))
    padded = jnp.concatenate([states, jnp.repeat(states[-1:], 5, axis=0)])
    np.testing.assert_allclose(MeanEnergy()(padded, len(states) - 1), energies[1], rtol=1e-5)  # float32 sums
    assert energies[0].argmax() in (11, 12, 13)
    assert energies[1].argmax() == energies[0].argmax() + 8
    # Not exactly equal: the sine's first turns, before the oscillators swing, and windows of another share of a turn.
    first, second = energies[0][4:21], energies[1][12:29]
    np.testing.assert_allclose(first - first.max(), second - second.max(), atol=0.3)


@pytest.mark.parametrize("readout", [FinalState(), EveryState()])
@pytest.mark.parametrize("name", ["neural_rde", "linear_rde"])
def test_states_one_after_the_other_are_those_of_all_windows_at_once(name, readout):
    model = MODELS[name](readout=readout)
    logs = jnp.asarray(np.random.default_rng(0).normal(size=(5, model.controls)), jnp.float32)
    x0 = jnp.ones(CHANNELS)
    found, expected = AbstractDrivenModel.states(model, x0, logs), model.states(x0, logs)
    # The same sums in another order, in float32.
    np.testing.assert_allclose(found, expected, rtol=2e-4, atol=2e-5)
