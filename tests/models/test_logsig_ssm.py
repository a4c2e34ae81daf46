"""LogSig-SSM: its layer by the published formulas, one window after the other, padding, dropout."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from neuralrde import Windows, log_signatures
from neuralrde.models import EveryState, FinalState, LogSigSSM, MeanState, Pools
from neuralrde.models import logsig_ssm as module
from neuralrde.models.logsig_ssm import Selective
from neuralrde.signatures.streams import LogSignatureStreams

KEY = jax.random.key(0)
# float64; the same sums in another order.
CLOSE = {"rtol": 1e-10, "atol": 1e-12}


@pytest.fixture
def wide():
    with jax.enable_x64(True):
        yield


def by_the_paper(layer: Selective, tokens: np.ndarray) -> np.ndarray:
    """Algorithm 2 of Gu and Dao (2023), one number after the other."""
    p = jax.tree.map(lambda one: np.asarray(one, np.float64), layer)
    channels, state, conv = len(p.skip), p.log_rates.shape[1], len(p.kernel)
    rank, A = p.to_step.weight.shape[1], -np.exp(p.log_rates)
    silu = lambda x: x / (1 + np.exp(-x))
    h, inputs, out = np.zeros((channels, state)), [], []
    for token in tokens:
        xz = p.into.weight @ token
        x, z = xz[:channels], xz[channels:]
        inputs.append(x)
        u = np.array(p.bias)
        for back in range(conv):  # the last row of the kernel is that of the newest token
            if back < len(inputs):
                u += p.kernel[conv - 1 - back] * inputs[-1 - back]
        u = silu(u)
        chosen = p.chosen.weight @ u
        delta, B, C = chosen[:rank], chosen[rank : rank + state], chosen[rank + state :]
        step = np.log1p(np.exp(p.to_step.weight @ delta + p.to_step.bias))
        y = np.zeros(channels)
        for e in range(channels):
            for n in range(state):
                h[e, n] = np.exp(step[e] * A[e, n]) * h[e, n] + step[e] * B[n] * u[e]
                y[e] += C[n] * h[e, n]
        out.append(p.out.weight @ ((y + p.skip * u) * silu(z)))
    return np.array(out)


@pytest.mark.usefixtures("wide")
@pytest.mark.parametrize(("conv", "expand", "chunk"), [(2, 1, 32), (4, 2, 5), (1, 3, 4)])
def test_the_layer_is_the_papers(monkeypatch, conv, expand, chunk):
    monkeypatch.setattr(module, "_CHUNK", chunk)
    layer = jax.tree.map(lambda one: one.astype(jnp.float64), Selective(6, 3, conv, expand, key=KEY))
    tokens = np.random.default_rng(0).normal(size=(11, 6))
    whole, carried = layer(jnp.asarray(tokens), layer.start())
    np.testing.assert_allclose(whole, by_the_paper(layer, tokens), **CLOSE)
    # One token after the other, or in two parts.
    first, state = layer(jnp.asarray(tokens[:4]), layer.start())
    rest, end = layer(jnp.asarray(tokens[4:]), state)
    np.testing.assert_allclose(np.concatenate([first, rest]), whole, **CLOSE)
    jax.tree.map(lambda one, other: np.testing.assert_allclose(one, other, **CLOSE), end, carried)


def test_the_layer_is_the_one_in_torch():
    torch = pytest.importorskip("torch")
    functional = torch.nn.functional
    layer = Selective(8, 5, 3, 2, key=KEY)
    p = jax.tree.map(lambda one: torch.tensor(np.array(one)), layer)
    tokens = np.random.default_rng(0).normal(size=(2, 9, 8)).astype(np.float32)
    x, z = (torch.tensor(tokens) @ p.into.weight.T).chunk(2, dim=-1)
    conv = functional.conv1d(x.mT, p.kernel.T[:, None], p.bias, padding=2, groups=16)[..., :9]
    u = functional.silu(conv).mT
    delta, B, C = torch.split(u @ p.chosen.weight.T, [1, 5, 5], dim=-1)
    step, A = functional.softplus(functional.linear(delta, p.to_step.weight, p.to_step.bias)), -p.log_rates.exp()
    h, found = torch.zeros(2, 16, 5), []
    for t in range(9):
        h = torch.exp(step[:, t, :, None] * A) * h + (step[:, t] * u[:, t])[..., None] * B[:, t, None]
        found.append((h * C[:, t, None]).sum(-1) + p.skip * u[:, t])
    expected = (torch.stack(found, 1) * functional.silu(z)) @ p.out.weight.T
    ours = jax.vmap(lambda one: layer(one, layer.start())[0])(jnp.asarray(tokens))
    np.testing.assert_allclose(ours, expected.numpy(), rtol=2e-5, atol=2e-6)  # float32


def test_it_begins_as_published():
    layer = Selective(32, 7, 4, 2, key=KEY)
    np.testing.assert_allclose(-np.exp(layer.log_rates)[5], -np.arange(1.0, 8.0), rtol=1e-6)
    steps = jax.nn.softplus(layer.to_step.bias)
    assert 9e-4 < steps.min() < 3e-3
    assert 3e-2 < steps.max() < 0.11
    assert layer.to_step.weight.shape == (64, 2)  # rank 32 / 16


@pytest.mark.parametrize(
    ("settings", "channels", "classes", "scales", "depth", "weights"),
    [
        ({"width": 64, "state": 64, "conv": 2, "expand": 1}, 6, 5, (1,), 2, 52_933),  # EigenWorms
        ({"width": 128, "state": 64, "conv": 3, "expand": 2}, 6, 2, (11, np.inf), (2, 1), 310_786),  # SCP1
        ({"width": 128, "state": 16, "conv": 2, "expand": 3}, 7, 2, (1,), 2, 352_642),  # SCP2
        ({"width": 16, "state": 256, "blocks": 6, "expand": 2}, 3, 4, (1, 2), (2, 2), 158_516),  # Ethanol
        ({"width": 128, "state": 64, "conv": 4, "expand": 1}, 61, 2, (1,), 2, 396_546),  # Heartbeat
    ],
)
def test_weights_are_as_many_as_theirs(settings, channels, classes, scales, depth, weights):
    model = eqx.filter_eval_shape(lambda: LogSigSSM(channels, classes, depth=depth, scales=scales, key=KEY, **settings))
    from neuralrde.frozen import weights_of

    assert sum(leaf.size for leaf in jax.tree.leaves(eqx.filter_eval_shape(weights_of, model))) == weights


@pytest.mark.parametrize("readout", [MeanState(), FinalState(), EveryState(), Pools()], ids=str)
def test_one_window_after_the_other(readout):
    """And with static numbers; every prediction on the way is that of the series so far."""
    model = LogSigSSM(2, 3, depth=2, static=2, width=8, state=4, conv=3, readout=readout, key=KEY)
    x0, logs = jax.random.normal(KEY, (4,)), jax.random.normal(KEY, (7, 3))
    state = model.start(x0)
    for number in range(8):
        whole = model(x0, logs[:number])
        expected = whole[-1] if isinstance(readout, EveryState) else whole
        np.testing.assert_allclose(model.output(state), expected, rtol=2e-5, atol=2e-6)
        if number < 7:
            state = model.advance(state, logs[number])


@pytest.mark.parametrize("readout", [MeanState(), FinalState(), EveryState(), Pools()], ids=str)
def test_padding_changes_nothing(readout):
    """A token in which nothing happens moves the state, so that padding has to be left out."""
    model = LogSigSSM(2, 3, depth=2, width=8, state=4, readout=readout, key=KEY)
    x0, logs = jnp.zeros(2), jax.random.normal(KEY, (5, 3))
    padded = model(x0, jnp.concatenate([logs, jnp.zeros((4, 3))]), windows=5)
    found = padded[:6] if isinstance(readout, EveryState) else padded
    np.testing.assert_allclose(found, model(x0, logs), rtol=1e-5, atol=1e-6)
    if not isinstance(readout, EveryState):
        assert np.abs(model(x0, jnp.concatenate([logs, jnp.zeros((4, 3))])) - padded).max() > 1e-3


def test_dropout_is_drawn_by_the_key_only():
    model = LogSigSSM(2, 3, depth=2, width=8, state=4, key=KEY)
    x0, logs = jnp.zeros(2), jax.random.normal(KEY, (5, 3))
    several = jax.vmap(lambda key: model(x0, logs, key=key))(jax.random.split(KEY, 64))
    assert np.ptp(several, axis=0).min() > 1e-2
    np.testing.assert_array_equal(model(x0, logs), model(x0, logs))
    none = LogSigSSM(2, 3, depth=2, width=8, state=4, dropout=0.0, key=KEY)
    np.testing.assert_array_equal(none(x0, logs, key=KEY), none(x0, logs))


def test_its_own_windows_in_a_stream():
    """Tokens that look back 13 and 7 points every 5, and over all: as a stream makes them."""
    windows = Windows(step=5, lengths=(13, 7), depth=(2, 1), whole=1)
    model = LogSigSSM(2, 3, **windows.looks, width=8, state=4, key=KEY)
    path = np.random.default_rng(0).normal(size=(1, 43, 2)).cumsum(axis=1)
    streams = LogSignatureStreams(model, step=5)
    _, logs, _ = streams.push(streams.start(1), path, np.arange(43.0)[None], np.array([43]))
    expected = log_signatures(path, (2, 1), step=5, lengths=(13, 7), whole=1)
    np.testing.assert_allclose(logs, expected[:, :8], rtol=1e-9, atol=1e-9)
    assert model(path[0, 0], expected[0]).shape == (3,)
