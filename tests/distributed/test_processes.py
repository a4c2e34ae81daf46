"""Two processes train, validate and predict to the same numbers as one; and what happens when one of them is lost."""

import shutil
import signal
import time

import numpy as np
import pytest

from neuralrde.training import Settings, SquaredError, fit, predict

from .conftest import start
from .work import LONG, examples, line, results

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("processes")]

# Sums are added in another order, in float32, and training amplifies that a little in so few steps.
ROUNDING = {"rtol": 2e-3, "atol": 2e-4}


@pytest.fixture(scope="module")
def both(tmp_path_factory) -> tuple[dict, dict]:
    """What each of two processes found."""
    folder = tmp_path_factory.mktemp("two")
    fit(line(), examples(), **LONG, until=18, checkpoint=folder / "one.nrde")
    running = start("work", folder)
    for process in running:
        out, errors = process.communicate(timeout=300)
        assert process.returncode == 0, errors[-3000:]
        assert out == ""  # no greetings of gloo's, which a program that reads JSON would stumble over
    first, second = (dict(np.load(folder / f"{number}.npz")) for number in range(2))
    return first, second


@pytest.fixture(scope="module")
def one(tmp_path_factory) -> dict:
    """The same in this process alone."""
    return results(tmp_path_factory.mktemp("one"))


def test_both_have_the_same_numbers(both, one):
    first, second = both
    assert {name for name in first if not np.array_equal(first[name], second[name])} <= {
        "alone", "alone.epochs", "differing.length", "differing.data", "elsewhere"
    }  # fmt: skip
    assert set(one) <= set(first)


def test_two_are_as_one_to_rounding(both, one):
    for name, expected in one.items():
        np.testing.assert_allclose(both[0][name], expected, **ROUNDING, err_msg=name)


def test_a_resumed_training_is_the_same_to_the_bit(both):
    first, _ = both
    for what in ("weights", "best", "losses"):
        assert np.array_equal(first[f"resumed.{what}"], first[f"whole.{what}"])


def test_the_first_decides(both, one):
    first, _ = both
    assert first["budget.epochs"] == 1  # by the first process's budget: the other's would have been all epochs
    assert 1 < first["patience.epochs"] < 40
    assert first["rollback.factor"] == one["rollback.factor"] < 1


def test_agreeing(both):
    for found in both:
        assert found["sum"].tolist() == [3.0, 1.0]
        assert str(found["agree"]) == repr({"number": 0, "text": "x" * 1000})
        assert found["from_first"] == 0
        assert found["error"] == "from the first"


def test_other_data_in_a_process_are_refused_in_all(both):
    for found in both:
        assert "Got 1 of 2 processes whose arguments differ" in str(found["differing.length"])
        assert "Got 1 of 2 processes whose arguments differ" in str(found["differing.data"])
    assert "another number of training examples" in str(both[1]["differing.length"])
    assert "training examples than in the first" in str(both[1]["differing.data"])


def test_a_process_trains_alone_on_its_own_devices(both):
    for number, found in enumerate(both):
        assert found["alone.epochs"] == 2 + number
        settings = Settings(epochs=2 + number)
        state = fit(line(), examples(20 + number, seed=number), loss=SquaredError(), settings=settings)
        np.testing.assert_allclose(found["alone"], predict(state.best, examples(5)), **ROUNDING)
        assert "jax.local_devices()" in str(found["elsewhere"])


def test_a_training_of_one_process_goes_on_in_two(both, one):
    for name in ("from one.weights", "from one.losses"):
        np.testing.assert_allclose(both[0][name], one[name.replace("from one", "long")], **ROUNDING)


def test_stopped_killed_and_restarted_it_ends_as_if_nothing_had_happened(both, one, started, tmp_path):
    # A signal to the process that does not write ends both, in order.
    file, result = tmp_path / "two.nrde", tmp_path / "result.npz"
    running = started("long", file, result)
    _wait_for(running[0], "epoch 3")
    running[1].send_signal(signal.SIGTERM)
    for process in running:
        _, errors = process.communicate(timeout=60)
        assert "Terminated" in errors, errors[-2000:]
        assert process.returncode != 0
    shutil.copy(file, tmp_path / "copy.nrde")

    # One is killed: the other ends with a sentence.
    running = started("long", file, result)
    _wait_for(running[0], "epoch 8")
    running[1].kill()
    begun = time.monotonic()
    _, errors = running[0].communicate(timeout=60)
    assert time.monotonic() - begun < 60
    assert running[0].returncode == 75
    assert "Another of the 2 processes was lost" in errors
    assert "resume=True" in errors

    # A restart ends as an undisturbed training of two, to the bit on as many devices.
    running = started("long", file, result)
    out, errors = running[0].communicate(timeout=60)
    assert "epoch 24" in out, errors[-2000:]
    assert "epoch 8\n" not in out
    found = np.load(result)
    assert np.array_equal(np.concatenate([found[name].ravel() for name in found]), both[0]["long.weights"])

    # And one process goes on from what two have left.
    state = fit(line(), examples(), **LONG, checkpoint=tmp_path / "copy.nrde", resume=True)
    assert 3 <= len(state.history) == 24
    np.testing.assert_allclose([r["monitored"] for r in state.history], one["long.losses"], **ROUNDING)


def _wait_for(process, line: str) -> None:
    for said in process.stdout:
        if said.strip() == line:
            return
    raise AssertionError(process.stderr.read()[-3000:])
