"""At the limits of memory, threads and indices: a sentence or the right numbers, never the end of the process."""

import os
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from neuralrde import log_signature, log_signatures
from neuralrde.signatures import _kernel, _library, log_signature_channels, lyndon_words, signature_channels
from neuralrde.signatures._spans import Spans

pytestmark = pytest.mark.long

# In a process of its own: with little address space left, a thread finds no room for its stack and a table none at all.
LIMITED = """
import resource
import sys

import jax
import jax.numpy as jnp
import numpy as np

from neuralrde import log_signatures
from neuralrde.paths import checks
from neuralrde.signatures import _library

_library.cores = lambda: 8
checks.free_memory = _library.free_memory = lambda: 2**60  # what is looked for lies behind the check of sizes


def leave(megabytes):
    used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + megabytes * 2**20, resource.RLIM_INFINITY))


rng = np.random.default_rng(0)
"""


def run_limited(program):
    # A program taken from the compilation cache leaves other memory free than one compiled here.
    environment = os.environ | {"JAX_ENABLE_COMPILATION_CACHE": "false"}
    result = subprocess.run(
        [sys.executable, "-c", LIMITED + program], capture_output=True, text=True, check=False, env=environment
    )
    assert result.returncode == 0, result.stderr[-2000:]
    return result.stdout.split()


linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits of address space are Linux's")


@linux
def test_threads_that_cannot_start_are_done_without():
    """A stack takes 8 MiB of address space; of eight threads none, then some can start."""
    program = """
path = rng.normal(size=(64, 2000, 3))
_library.cores = lambda: 1  # a thread that ends leaves its stack to the next
expected = log_signatures(path, 3, step=10)
_library.cores = lambda: 8
for megabytes in (6, 20):
    leave(megabytes)
    assert (log_signatures(path, 3, step=10) == expected).all()
print("same")
"""
    assert run_limited(program)[-1] == "same"


@linux
@pytest.mark.parametrize("megabytes", [20, 40])
def test_no_memory_for_the_workspace_is_a_memory_error(megabytes):
    program = f"""
path = rng.normal(size=(2, 20))
leave({megabytes})
try:
    log_signatures(path, 5, step=1)
except MemoryError as error:
    print(error)
assert log_signatures(path[:, :3], 5, step=1).shape == (1, 80)  # and goes on
"""
    assert "Take a smaller depth" in " ".join(run_limited(program))


@linux
@pytest.mark.parametrize("what", ["values", "gradient"])
def test_no_memory_inside_jax_is_an_error_of_jax(what):
    program = f"""
values = lambda p: log_signatures(p, 5, step=1)
gradient = jax.grad(lambda p: (values(p) ** 2).sum())
path = jnp.asarray(rng.normal(size=(2, 25)), jnp.float32)
compiled = jax.jit({what}).lower(path).compile()
leave(12)
try:
    jax.block_until_ready(compiled(path))
except Exception as error:
    print(error)
"""
    printed = " ".join(run_limited(program))
    assert "RESOURCE_EXHAUSTED" in printed
    assert "not enough memory" in printed


def test_the_workspace_counts(monkeypatch):
    """What the kernel needs beside its result is counted, and said before anything is allocated."""
    monkeypatch.setattr("neuralrde.paths.checks.free_memory", lambda: 2**30)
    monkeypatch.setattr(_library, "free_memory", lambda: 2**30)
    assert 8 * log_signature_channels(100, 4) < 2**28  # the result alone would fit four times over
    with pytest.raises(MemoryError, match=r"depth-4 log-signatures of a path of 100 channels.*workspace need .* GiB"):
        log_signatures(np.zeros((2, 100)), 4, step=1)
    path = jnp.zeros((2, 70))
    enough = int(_library.workspace(70, 4, backward=True))
    monkeypatch.setattr("neuralrde.paths.checks.free_memory", lambda: enough)
    monkeypatch.setattr(_library, "free_memory", lambda: enough)
    words = lambda p: _kernel.words(p, Spans.between(np.array([0, 1])), 4)
    jax.eval_shape(words, path)  # this fits, and its gradient does not
    with pytest.raises(MemoryError, match="the gradient of depth-4 log-signatures"):
        jax.eval_shape(jax.grad(lambda p: words(p).sum()), path)


@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize(("channels", "depth"), [(3, 4), (2, 9), (20, 4), (5, 6)])
def test_the_estimate_of_memory_is_that_of_the_state(channels, depth, backward):
    """A state of all shorter words and the log-signature, the former twice on the way back."""
    workspace = _library.workspace(channels, depth, backward)
    vector = _library.library().neuralrde_vector_bytes()
    least = (1 + backward) * signature_channels(channels, depth - 1) + log_signature_channels(channels, depth)
    assert least <= workspace / vector <= least + 30 * channels


def test_fewer_threads_where_memory_is_short(monkeypatch):
    workspace = _library.workspace(20, 4, False)
    monkeypatch.setattr(_library, "cores", lambda: 8)
    for limit, threads in ((2.5 * workspace, 2), (100 * workspace, 8)):
        monkeypatch.setattr(_library, "free_memory", lambda limit=limit: int(limit))
        monkeypatch.setattr("neuralrde.paths.checks.free_memory", lambda limit=limit: int(limit))
        assert _library.fitting_threads(20, 4, 0) == threads


def test_calls_from_many_threads():
    """Of several shapes at once; the results are those of one thread alone."""
    from concurrent.futures import ThreadPoolExecutor

    rng = np.random.default_rng(0)
    cases = [(channels, depth) for channels in (2, 3, 4) for depth in (4, 5)]
    paths = {case: rng.normal(size=(3, 20, case[0])) for case in cases}
    expected = {case: log_signatures(paths[case], case[1], step=4) for case in cases}
    with ThreadPoolExecutor(8) as pool:
        jobs = [(case, pool.submit(log_signatures, paths[case], case[1], step=4)) for _ in range(40) for case in cases]
        for case, job in jobs:
            np.testing.assert_array_equal(job.result(), expected[case])


def test_points_beyond_32_bits(tmp_path):
    """A file with a hole in it: nothing of its 8 GiB is there but the last page."""
    length = 2**31 + 10
    path = np.memmap(tmp_path / "path", np.float32, "w+", shape=(length, 1))
    path[-10:, 0] = np.arange(10.0) ** 2
    cuts = np.array([length - 10, length - 7, length - 1])
    assert log_signatures(path, 1, cuts=cuts).tolist() == [[9.0], [72.0]]
    shape = jax.ShapeDtypeStruct((length, 1), jnp.float32)
    with pytest.raises(ValueError, match=r"2\^31 - 1"):
        jax.eval_shape(lambda p: log_signatures(p, 1, cuts=cuts), shape)


@pytest.mark.parametrize("kind", [np.uint8, np.uint32, np.uint64])
def test_unsigned_cuts_that_decrease(kind):
    path = np.random.default_rng(0).normal(size=(9, 2))
    with pytest.raises(ValueError, match="never decrease"):
        log_signatures(path, 2, cuts=np.array([0, 4, 2, 6], kind))
    increasing = np.array([0, 4, 6], kind)
    np.testing.assert_array_equal(
        log_signatures(path, 2, cuts=increasing), log_signatures(path, 2, cuts=increasing.astype(int))
    )


def test_overflow_beyond_the_kernels_depth_is_an_error(monkeypatch):
    monkeypatch.setattr(_library, "MOST_DEPTH", 3)
    path = np.array([[0.0, 0.0], [1e90, 0.0], [1e90, 1e90]])
    with pytest.raises(OverflowError, match="depth-4 log-signature overflows float64"):
        log_signature(path, 4)


def test_numpys_integers_do_not_overflow():
    assert log_signature_channels(np.int8(100), 4) == log_signature_channels(100, np.int8(4))
    assert log_signature_channels(np.int32(3000), 4) == log_signature_channels(3000, 4) > 2**40
    assert signature_channels(np.int8(100), np.int8(4)) == signature_channels(100, 4)
    assert lyndon_words(np.int8(3), np.int8(3)) == lyndon_words(3, 3)
