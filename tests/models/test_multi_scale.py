"""The model of several scales, its pools, its field, and ensembles."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from neuralrde import Config
from neuralrde.fields import RotationField, SelectiveField
from neuralrde.models import (
    CrossFitted,
    Ensemble,
    EveryState,
    FinalState,
    MeanState,
    MultiScaleRDE,
    NeuralRDE,
    Pools,
    out_of_fold,
)
from neuralrde.models.multi_scale import _grouped
from neuralrde.models.readouts import pools, running_pools, share
from neuralrde.solvers import RK4, solve
from neuralrde.solvers.exponential import solve_parallel, states_of

KEY = jax.random.key(0)
RNG = np.random.default_rng(0)
SMALL = {"units": 8, "width": 6, "state": 4, "stride": 3}
PATH = RNG.normal(size=(4, 41, 3)).cumsum(axis=1) / 10
TIMES = np.tile(np.arange(41.0), (4, 1))
CUTS = np.arange(0, 41, 2)


def made(channels=3, **options):
    given = {"depth": 2, "scales": (1, 4), "key": KEY} | SMALL | options
    return MultiScaleRDE(channels, 2, **given)


@eqx.filter_jit
def run(model, x0, logs, windows=None):
    return jax.vmap(lambda x0, logs: model(x0, logs, windows=windows))(x0, logs)


def test_pools_are_those_of_numpy_and_do_not_see_padding():
    states = RNG.normal(size=(7, 3)).astype(np.float32)
    seen = states[:5]
    above = 1 / (1 + np.exp(-4 * seen))
    expected = np.concatenate([seen.mean(0), seen.max(0), above.mean(0), seen[-1]])
    np.testing.assert_allclose(pools(jnp.asarray(states), 5), expected, rtol=1e-5, atol=1e-6)  # float32
    np.testing.assert_allclose(running_pools(jnp.asarray(states))[4], expected, rtol=1e-5, atol=1e-6)
    first = np.full((1, 3), 100.0, np.float32)  # the initial state is not after a window
    np.testing.assert_allclose(Pools()(jnp.asarray(np.concatenate([first, states])), 5), expected, rtol=1e-5, atol=1e-6)
    assert Pools().features(3) == len(expected)
    assert np.isfinite(Pools()(jnp.asarray(states[:1]), 0)).all()
    assert float(share(jnp.zeros(1))[0]) == 0.5


def test_the_selective_field_is_solved_exactly_and_stays_bounded():
    field = SelectiveField(controls=3, state=6, key=KEY)
    inputs, start = jnp.asarray(RNG.normal(size=(12, 3)), jnp.float32), jnp.ones(6)
    states = eqx.filter_jit(states_of)(field, start, inputs)
    parallel = eqx.filter_jit(solve_parallel)(field, start, inputs)
    np.testing.assert_allclose(states, parallel, rtol=1e-4, atol=1e-5)  # float32, 12 steps
    numbers = eqx.filter_jit(solve)(field, start, inputs, solver=RK4(), substeps=20, every_window=True)
    # The constant drive that stands in for the offset makes the same flow; RK4 has steps of 1/20.
    np.testing.assert_allclose(states, numbers[1:], rtol=1e-3, atol=1e-4)
    far = eqx.filter_jit(states_of)(field, start, jnp.full((2000, 3), 30.0))
    assert np.abs(far).max() < 1e4  # and no NaN
    with pytest.raises(ValueError, match="Write state=6"):
        SelectiveField(controls=3, state=5, key=KEY)


@pytest.mark.long
@pytest.mark.parametrize("channels", [3, 12], ids=["all channels", "mixtures"])
@pytest.mark.parametrize("blocks", [0, 2])
def test_predictions_do_not_depend_on_padding(channels, blocks):
    path = RNG.normal(size=(4, 41, channels)).cumsum(axis=1) / 10
    model = made(channels, blocks=blocks)
    x0, logs = model.inputs(path, TIMES, CUTS)
    assert logs.shape[2] == model.controls == model.scale.factors.size
    model = model.fit_inputs((x0, logs))
    assert np.ptp(run(model, x0, logs, jnp.array(20)), axis=0).min() > 1e-4  # they depend on the series
    half = path[:, :21]
    padded = np.concatenate([half, np.repeat(half[:, -1:], 20, axis=1)], axis=1)
    x0, logs = model.inputs(padded, TIMES, np.minimum(CUTS, 20))
    alone = run(model, *model.inputs(half, TIMES[:, :21], CUTS[:11]))
    every = run(model, x0, logs, jnp.array(10))
    np.testing.assert_allclose(every, alone, rtol=1e-4, atol=1e-5)  # float32, in another order
    junk = logs.copy()
    junk[:, 10:] = RNG.normal(size=junk[:, 10:].shape)
    np.testing.assert_allclose(run(model, x0, junk, jnp.array(10)), every, rtol=1e-5, atol=1e-6)


def test_every_readout_predicts_from_the_past_only():
    every = made(readout=EveryState())
    x0, logs = every.inputs(PATH, TIMES, CUTS)
    run = eqx.filter_jit(every)
    before = run(x0[0], logs[0])
    assert before.shape == (21, 2)
    changed = logs[0].copy()
    changed[12:] += 1.0
    after = run(x0[0], changed)
    np.testing.assert_array_equal(before[:13], after[:13])
    assert np.abs(before[13:] - after[13:]).min(axis=0).max() > 0


@pytest.mark.long
def test_levels_are_seen():
    """Two series that differ by a constant have the same log-signatures."""
    model = made()
    x0, logs = model.inputs(PATH, TIMES, CUTS)
    assert np.abs(model(x0[0], logs[0]) - model(x0[0] + 1.0, logs[0])).max() > 1e-3
    values = model._values(jnp.asarray(x0[0]), jnp.asarray(logs[0]))
    np.testing.assert_allclose(values, PATH[0, CUTS], rtol=0, atol=1e-5)
    swapped = made(scales=(4, 1))
    _, logs = swapped.inputs(PATH, TIMES, CUTS)
    values = swapped._values(jnp.asarray(x0[0]), jnp.asarray(logs[0]))
    np.testing.assert_allclose(values, PATH[0, CUTS], rtol=0, atol=1e-5)


@pytest.mark.parametrize("depth", [2, (1, 2, 2)])
def test_values_are_sums_of_increments_wherever_scale_one_stands(depth):
    model = made(scales=(4, 1, 2), depth=depth)
    x0, logs = model.inputs(PATH, TIMES, CUTS)
    values = model._values(jnp.asarray(x0[0]), jnp.asarray(logs[0]))
    np.testing.assert_allclose(values, PATH[0, CUTS], rtol=0, atol=1e-5)  # float32


def test_a_group_that_is_cut_off_has_the_mean_of_what_it_has():
    """Seven tokens in groups of three, of which five are real: the second group has two, the third none."""
    tokens = RNG.normal(size=(7, 2)).astype(np.float32)
    longer, count = _grouped(jnp.asarray(tokens), jnp.array(5), 3)
    parts = tokens[:3], tokens[3:5]
    expected = [np.concatenate([part.mean(0), part.max(0)]) for part in parts]
    np.testing.assert_allclose(longer, [*expected, np.zeros(4)], rtol=1e-5, atol=1e-6)  # float32
    assert int(count) == 2


def test_dropout_is_for_training_only():
    model = made(dropout=0.5)
    x0, logs = model.inputs(PATH, TIMES, CUTS)
    one, two = (model(x0[0], logs[0], key=jax.random.key(i)) for i in range(2))
    assert not np.allclose(one, two)
    np.testing.assert_array_equal(model(x0[0], logs[0]), model(x0[0], logs[0]))
    for factors in jax.vmap(model._dropout)(jax.random.split(KEY, 4000)):
        np.testing.assert_allclose(factors.mean(axis=0), 1.0, rtol=0, atol=0.1)  # a standard error of 0.016


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"scales": (2, 4)}, "expected 1 among them"),
        ({"dropout": 1.0}, "Write dropout=0.3"),
        ({"units": 0}, "units=0"),
    ],
)
def test_wrong_options(options, message):
    with pytest.raises(ValueError, match=message):
        made(**options)


def test_other_fields_drive_the_blocks():
    assert made(field=RotationField)(PATH[0, 0], np.ones((20, 12), np.float32)).shape == (2,)


def test_recommended_windows_are_fewer_where_they_are_wide():
    counts = [MultiScaleRDE.recommended.windows(channels).count for channels in (2, 4, 7, 65, 1346)]
    assert counts == sorted(counts, reverse=True)
    assert (counts[0], counts[-1]) == (256, 64)


@pytest.mark.long
def test_members_are_those_that_a_config_makes_and_share_statistics():
    config = Config(MultiScaleRDE, **SMALL)
    ensemble = Ensemble.of(config, 3, channels=3, outputs=2, depth=2, scales=(1, 4), key=KEY)
    x0, logs = ensemble.inputs(PATH, TIMES, CUTS)
    ensemble = ensemble.fit_inputs((x0, logs))
    keys = jax.random.split(KEY, 3)
    alone = [run(made(key=key).fit_inputs((x0, logs)), x0[:1], logs[:1])[0] for key in keys]
    np.testing.assert_allclose(eqx.filter_jit(ensemble.each)(x0[0], logs[0]), alone, rtol=1e-4, atol=1e-5)  # float32
    np.testing.assert_allclose(run(ensemble, x0[:1], logs[:1])[0], np.mean(alone, axis=0), rtol=1e-4, atol=1e-5)


@pytest.mark.long
def test_a_member_does_not_learn_from_its_own_fold():
    ensemble = Ensemble.of(Config(NeuralRDE, state=4, width=5), 3, channels=2, outputs=1, depth=1, key=KEY)
    model, x0, logs = CrossFitted(ensemble), jnp.ones(2), jnp.asarray(RNG.normal(size=(5, 2)), jnp.float32)

    @eqx.filter_jit
    @eqx.filter_grad
    def gradient(model, fold):
        return model(x0, logs, fold).sum()

    for fold in (-1, 0, 2):
        found = gradient(model, jnp.asarray(fold)).ensemble.members.decoder.linear.weight
        sizes = np.abs(found).sum(axis=(1, 2))
        np.testing.assert_array_equal(sizes == 0, np.arange(3) == fold)
    outputs = np.arange(12.0).reshape(2, 3, 2)
    np.testing.assert_array_equal(out_of_fold(outputs, np.array([2, 0])), [[4, 5], [6, 7]])


@pytest.mark.parametrize("readout", [MeanState(), FinalState()])
def test_other_readouts(readout):
    model = made(readout=readout)
    x0, logs = model.inputs(PATH, TIMES, CUTS)
    assert model(x0[0], logs[0]).shape == (2,)
    assert model.decoder.linear.in_features == 6 + 2 * 8
