"""Devices are fixed when JAX starts, so most of this runs in a process of its own, with two of them."""

import os
import subprocess
import sys
import textwrap

import jax
import numpy as np
import pytest

from neuralrde.devices import device_mesh, pad_batch, shard_batch, sharded_value_and_grad, use_all_cores

pytestmark = pytest.mark.long


def in_new_process(code: str, **variables: str) -> str:
    chosen = lambda name, value: name == "JAX_NUM_CPU_DEVICES" or "device_count" in value
    environment = {name: value for name, value in os.environ.items() if not chosen(name, value)}
    environment |= {"JAX_PLATFORMS": "cpu"} | variables
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
        from neuralrde.frozen import partition_weights
        from neuralrde.models import NeuralRDE

        model = NeuralRDE(3, 1, depth=2, state=5, width=8, layers=2, key=jax.random.key(0))
        rng = np.random.default_rng(0)
        batch = rng.normal(size=(7, 3)).astype("f"), rng.normal(size=(7, 6, 6)).astype("f") * 0.3
        losses = lambda model, batch: (jax.vmap(model)(*batch)[:, 0] - 1) ** 2

        trained, rest = partition_weights(model)
        expected = jax.jit(jax.value_and_grad(lambda w: losses(eqx.combine(w, rest), batch).mean()))(trained)
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

        from neuralrde import Config, NeuralRDERegressor
        X, small = rng.normal(size=(40, 17, 2)), Config(NeuralRDE, state=4, width=4, layers=1)
        estimator = NeuralRDERegressor(model=small, windows=8, epochs=1, batch_size=16, verbose=False)
        assert np.isfinite(estimator.fit(X, X[:, -1, 0]).predict(X)).all()
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
        size, devices = 2, np.array(jax.local_devices()[:1] * 2)

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


CHOSEN = {
    "XLA_FLAGS": ("", {"XLA_FLAGS": "--xla_force_host_platform_device_count=4"}),
    "JAX_NUM_CPU_DEVICES": ("", {"JAX_NUM_CPU_DEVICES": "4"}),
    "jax.config": ("jax.config.update('jax_num_cpu_devices', 4)", {}),
}


@pytest.mark.parametrize("how", CHOSEN)
def test_the_users_number_of_devices_is_left_alone(how):
    first, variables = CHOSEN[how]
    code = f"import jax; {first}\nfrom neuralrde.devices import try_all_cores\nprint(try_all_cores())"
    assert in_new_process(code, **variables).split() == ["4"]


def test_a_batch_is_shared_over_no_more_devices_than_it_keeps_busy():
    out = in_new_process(
        """
        import jax
        from neuralrde.devices import device_mesh
        print([device_mesh(batch=batch).size for batch in (1, 8, 15, 16, 32, 1000)], device_mesh().size)
        assert device_mesh(jax.devices()[1:3], batch=1).devices.tolist() == jax.devices()[1:3]  # as one was told
        square = jax.sharding.Mesh(__import__("numpy").array(jax.devices()[:4]).reshape(2, 2), ("a", "b"))
        assert device_mesh(square).axis_names == ("batch",) and device_mesh(square).size == 4
        """,
        JAX_NUM_CPU_DEVICES="8",
    )
    assert out.strip() == "[1, 1, 1, 2, 4, 8] 8"


def test_no_devices_are_refused():
    with pytest.raises(ValueError, match=r"jax.devices\(\)\[:1\]"):
        device_mesh([])


def test_fit_and_predict_on_devices_of_ones_choice():
    in_new_process(
        """
        import equinox as eqx, jax, numpy as np
        from neuralrde.training import Examples, Settings, SquaredError, fit, predict
        examples = Examples((np.ones((40, 1), np.float32),), np.zeros((40, 1), np.float32))
        model = eqx.nn.Linear(1, 1, key=jax.random.key(0))
        last = jax.devices()[3:]
        options = {"loss": SquaredError(), "validation": examples, "settings": Settings(epochs=2)}
        state = fit(model, examples, **options, mesh=last)
        assert jax.tree.leaves(state.model)[0].devices() == set(last)
        spread = fit(model, examples, **options)
        assert jax.tree.leaves(spread.model)[0].devices() == set(jax.devices())  # 32 examples: 8 for each of the four
        # Weights that are on one device predict on others, and go on training there.
        answers = [predict(state.best, examples, mesh=mesh) for mesh in (None, last, jax.devices()[:2])]
        assert all(np.allclose(answer, answers[0], rtol=1e-6) for answer in answers)
        again = fit(model, examples, **options | {"settings": Settings(epochs=3)}, state=state, mesh=jax.devices()[:1])
        assert again.epoch == 3
        """,
        JAX_NUM_CPU_DEVICES="4",
    )


def test_a_batch_without_weight_has_no_loss_and_no_gradient():
    mesh = device_mesh(jax.devices()[:1])
    function = sharded_value_and_grad(lambda slope, x: slope * x, mesh)
    value, gradient = function(jax.numpy.array(2.0), jax.numpy.ones(4), jax.numpy.zeros(4))
    assert (float(value), float(gradient)) == (0.0, 0.0)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_forked_child_is_told_instead_of_hanging():
    out = in_new_process(
        """
        import multiprocessing, os, signal, warnings
        import equinox as eqx, jax, numpy as np
        from neuralrde.training import Examples, Settings, SquaredError, fit, predict
        warnings.simplefilter("ignore")  # JAX's own, at the fork
        examples = Examples((np.ones((4, 1), np.float32),), np.zeros((4, 1), np.float32))
        class Weight(eqx.Module):
            weight: np.ndarray
            def __call__(self, x):
                return self.weight * x
        model = Weight(np.ones(1, np.float32))
        calls = [lambda: predict(model, examples), lambda: fit(model, examples, loss=SquaredError())]

        def child(call):
            pid = os.fork()
            if pid == 0:
                signal.alarm(60)  # SIGALRM ends what hangs
                try:
                    call()
                    print("it worked", flush=True)
                except RuntimeError as error:
                    print(error, flush=True)
                os._exit(0)
            assert os.waitpid(pid, 0)[1] == 0, "it hung"

        child(calls[0])  # JAX has not started yet: nothing to refuse
        calls[0]()
        for call in calls:
            child(call)
        calls[0]()  # the parent is as it was
        """
    )
    first, *others = out.splitlines()
    assert first == "it worked"
    assert len(others) == 2
    assert all("forkserver" in line and "load the model in each" in line for line in others)
