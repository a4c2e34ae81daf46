"""Two processes train, validate and predict to the same numbers as one; and what happens when one of them is lost."""

import signal
import time

import numpy as np
import pytest

from .conftest import start
from .work import examples, line, results

# Sums are added in another order, in float32, and training amplifies that a little in so few steps.
ROUNDING = {"rtol": 2e-3, "atol": 2e-4}


@pytest.fixture(scope="module")
def both(tmp_path_factory) -> tuple[dict, dict]:
    """What each of two processes found."""
    folder = tmp_path_factory.mktemp("two")
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
    from neuralrde.training import Settings, SquaredError, fit, predict

    for number, found in enumerate(both):
        assert found["alone.epochs"] == 2 + number
        settings = Settings(epochs=2 + number)
        state = fit(line(), examples(20 + number, seed=number), loss=SquaredError(), settings=settings)
        np.testing.assert_allclose(found["alone"], predict(state.best, examples(5)), **ROUNDING)
        assert "jax.local_devices()" in str(found["elsewhere"])


def test_a_checkpoint_of_two_is_read_by_one_and_the_reverse(started, tmp_path):
    from neuralrde.training import Settings, SquaredError, fit

    settings = Settings(epochs=40, batch_size=8, save_every=0.0)
    options = {"loss": SquaredError(), "settings": settings, "validation": examples(9, 1)}
    whole = fit(line(), examples(), **options)
    # Two until they are stopped, by a signal to the one that does not write; then one.
    running = started("long", tmp_path / "two.nrde", tmp_path / "unused.npz")
    _wait_for(running[0], "epoch 3")
    running[1].send_signal(signal.SIGTERM)
    for process in running:
        _, errors = process.communicate(timeout=60)
        assert "Terminated" in errors, errors[-2000:]
        assert process.returncode != 0
    state = fit(line(), examples(), **options, checkpoint=tmp_path / "two.nrde", resume=True)
    assert state.epoch == 40
    assert len(state.history) == 40
    np.testing.assert_allclose(state.model.linear.weight, whole.model.linear.weight, **ROUNDING)
    # One until epoch 30, then two.
    fit(line(), examples(), **options, checkpoint=tmp_path / "one.nrde", until=30)
    running = started("long", tmp_path / "one.nrde", tmp_path / "result.npz")
    out, errors = running[0].communicate(timeout=60)
    assert "epoch 31" in out, errors[-2000:]
    assert "epoch 30\n" not in out
    weight = np.load(tmp_path / "result.npz")["arr_0"]
    np.testing.assert_allclose(weight, whole.model.linear.weight, **ROUNDING)


def test_one_is_killed_the_other_ends_with_a_sentence_and_a_restart_agrees(started, tmp_path):
    running = started("long", tmp_path / "killed.nrde", tmp_path / "unused.npz")
    _wait_for(running[0], "epoch 5")
    running[1].kill()
    begun = time.monotonic()
    _, errors = running[0].communicate(timeout=60)
    assert time.monotonic() - begun < 60
    assert running[0].returncode == 75
    assert "Another of the 2 processes was lost" in errors
    assert "resume=True" in errors
    again = started("long", tmp_path / "killed.nrde", tmp_path / "again.npz")
    whole = started("long", tmp_path / "whole.nrde", tmp_path / "whole.npz")
    out = [process.communicate(timeout=60)[0] for process in (*again, *whole)]
    assert "epoch 40" in out[0]
    assert "epoch 1\n" not in out[0]
    assert "epoch 1\n" in out[2]
    found, expected = (np.load(tmp_path / f"{name}.npz") for name in ("again", "whole"))
    for name in expected:  # on the same number of devices: to the bit
        assert np.array_equal(found[name], expected[name])


def _wait_for(process, line: str) -> None:
    for said in process.stdout:
        if said.strip() == line:
            return
    raise AssertionError(process.stderr.read()[-3000:])
