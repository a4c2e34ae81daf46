"""Devices are fixed when JAX starts, so most of this runs in a process of its own, with two of them."""

import os
import subprocess
import sys
import textwrap

import jax
import numpy as np
import pytest

from neuralrde.devices import device_mesh, pad_batch, shard_batch, use_all_cores


def in_new_process(code: str) -> str:
    environment = {k: v for k, v in os.environ.items() if k not in ("XLA_FLAGS", "JAX_NUM_CPU_DEVICES")}
    environment["JAX_PLATFORMS"] = "cpu"
    run = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        capture_output=True,
        text=True,
        env=environment,
        timeout=120,
    )
    assert run.returncode == 0, run.stderr[-3000:]
    return run.stdout


def test_two_devices_give_the_result_of_one():
    out = in_new_process("""
        from neuralrde.devices import device_mesh, pad_batch, replicate, shard_batch
        from neuralrde.devices import sharded_value_and_grad, use_all_cores
        assert use_all_cores(2) == 2
        import equinox as eqx, jax, numpy as np
        from neuralrde.models import NeuralRDE

        model = NeuralRDE(3, 1, depth=2, state=5, width=8, layers=2, key=jax.random.key(0))
        rng = np.random.default_rng(0)
        batch = rng.normal(size=(7, 3)).astype("f"), rng.normal(size=(7, 6, 6)).astype("f") * 0.3
        losses = lambda model, batch: (jax.vmap(model)(*batch)[:, 0] - 1) ** 2

        expected = eqx.filter_value_and_grad(lambda m: losses(m, batch).mean())(model)
        results = []
        for devices in (jax.devices(), jax.devices()[:1]):
            mesh = device_mesh(devices)
            padded, weights = pad_batch(batch, mesh.size)
            assert len(weights) == (8 if mesh.size == 2 else 7)
            function = eqx.filter_jit(sharded_value_and_grad(losses, mesh))
            results.append(function(replicate(model, mesh), *shard_batch((padded, weights), mesh)))
        for result in results:
            leaves = zip(*map(jax.tree.leaves, (eqx.filter(expected, eqx.is_array), result)), strict=True)
            # The same sums in another order, in float32.
            print(max(float(np.abs(np.asarray(a) - b).max() / np.abs(a).max()) for a, b in leaves))
        """)
    assert all(float(line) < 1e-5 for line in out.split())
    assert len(out.split()) == 2


def test_too_late_says_what_to_do():
    out = in_new_process("""
        import jax
        jax.numpy.ones(1).block_until_ready()
        from neuralrde.devices import use_all_cores
        try:
            use_all_cores(2)
        except RuntimeError as error:
            print(error)
        """)
    assert "before any array is made" in out
    assert "JAX_NUM_CPU_DEVICES=2" in out


def test_late_but_enough_is_no_error():
    jax.numpy.ones(1).block_until_ready()
    assert use_all_cores(1) >= 1


def test_a_batch_that_does_not_divide_says_so():
    class Pair:  # a mesh of two, on a machine that may have one device
        size = 2

    with pytest.raises(ValueError, match=r"pad_batch\(batch, 2\)"):
        shard_batch(np.ones((3, 4)), Pair())  # pyright: ignore


def test_padding_repeats_the_last_example_with_weight_zero():
    (x, y), weights = pad_batch((np.arange(5), np.arange(10).reshape(5, 2)), multiple=4)
    assert x.tolist() == [0, 1, 2, 3, 4, 4, 4, 4]
    assert y[5:].tolist() == [[8, 9]] * 3
    assert weights.tolist() == [1, 1, 1, 1, 1, 0, 0, 0]
    _, weights = pad_batch(np.arange(4), multiple=4)
    assert weights.tolist() == [1, 1, 1, 1]


def test_the_mesh_holds_all_devices():
    assert device_mesh().size == jax.device_count()
