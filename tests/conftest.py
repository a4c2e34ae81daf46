"""Shared by all tests."""

import contextlib
import gc
import itertools
import os
from pathlib import Path

# Most of the tests' time goes into compiling, and small programs gain nothing from optimisation. Processes that tests
# start inherit this; a variable that is already set stays as it is. See also compiling.py. Compiled programs are kept
# by the tests that are about that: the others would find those of an earlier run.
os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")
os.environ.setdefault("NEURALRDE_PROGRAMS", "off")
# Each worker has one core. Otherwise it would have as many devices as its first test happened to ask for, and programs
# for several devices take longer to compile. tests/test_devices.py runs on several.
os.environ.setdefault("JAX_NUM_CPU_DEVICES", "1")

import hypothesis
import jax
import jaxtyping
import pytest

from . import compiling, shapes

compiling.quickly()
# Tracing makes many objects and little garbage: at the usual rate, looking for it took 8 % of the time.
gc.set_threshold(20_000, 20, 20)

# Before the first import of the library: every signature's types and shapes are checked in every test.
jaxtyping.install_import_hook("neuralrde", f"{shapes.__name__}.checked")
_raises = pytest.raises


@contextlib.contextmanager
def raises(*args, **kwargs):
    """`pytest.raises`, in which a wrong call meets the library's own check instead of beartype's."""
    with shapes.unchecked(), _raises(*args, **kwargs) as caught:
        yield caught


pytest.raises = raises

# Examples compile JAX functions, which takes as long as it takes; and a failure must come back the next time.
hypothesis.settings.register_profile("neuralrde", deadline=None, derandomize=True, max_examples=30)
hypothesis.settings.load_profile("neuralrde")

# Folders whose programs convert no type and add no axis unless it is written.
STRICT = ("fields", "solvers")


@pytest.fixture(autouse=True)
def strict(request):
    if Path(request.path).parent.name not in STRICT:
        yield
        return
    with jax.numpy_dtype_promotion("strict"), jax.numpy_rank_promotion("raise"):
        yield


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Of the long tests, one worker runs all of a file: they share trained models and compiled programs."""
    for item in items:
        if item.get_closest_marker("long") and not item.get_closest_marker("xdist_group"):
            item.add_marker(pytest.mark.xdist_group(str(item.path)))


def pytest_collection_finish():
    gc.collect()
    gc.freeze()  # what was imported stays


def pytest_sessionfinish():
    gc.freeze()  # pytest looks for garbage five times before it ends, which took two seconds


# Tests of models compile so much that a worker would come near the number of memory maps that Linux allows. With twice
# as many, clearing them once took 9 s of CPU. Counting takes milliseconds, so it is done after every tenth test.
_MOST_MAPS = 20_000
_tests_done = itertools.count(1)


@pytest.fixture(autouse=True)
def few_memory_maps():
    yield
    if next(_tests_done) % 10 == 0:
        from neuralrde.devices import drop_programs

        drop_programs(_MOST_MAPS)


# Where the real data lie: as the variable says, or beside the repository. Read once, before a test sets the variable.
REAL = Path(os.environ.get("NEURALRDE_DATA") or Path(__file__).parents[1].parent / "shared" / "data")


@pytest.fixture
def real_data(monkeypatch) -> Path:
    if not REAL.is_dir():
        pytest.skip(f"no real data in {REAL}: set NEURALRDE_DATA to the folder that holds them")
    monkeypatch.setenv("NEURALRDE_DATA", str(REAL))
    return REAL


@pytest.fixture
def root() -> Path:
    return Path(__file__).parent.parent
