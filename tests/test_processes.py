"""What processes tell each other is data, whoever sends it; real processes are in tests/distributed."""

import os
import pickle

import jax
import ml_dtypes
import numpy as np
import pytest

from neuralrde.processes import Processes, _without_greetings, join_processes


class Two(Processes):
    """The first of two processes, or the second with what the first is made to say."""

    def __init__(self, said: bytes | None = None):
        super().__init__()
        self.count, self.is_first, self._said = 2, said is None, said

    def _total(self, numbers):
        if self._said is None:
            return numbers
        if len(numbers) == 1:
            return np.array([len(self._said)], np.uint32)
        words = numbers.copy()
        words.view(np.uint8)[: len(self._said)] = np.frombuffer(self._said, np.uint8)
        return words


@pytest.mark.parametrize(
    "value",
    [
        None, True, 3, 2**70, 0.1, float("inf"), "é", (1, (2.0, None)), [1, [], ()], {"a": (1,), "list": [2]}, {},
        {1: 2}, {"array": 0}, {"tuple": [1]},
    ],
)  # fmt: skip
def test_plain_values_arrive_as_they_are(value):
    found = Two().agree(value)
    assert repr(found) == repr(value)


def test_arrays_arrive_as_they_are():
    arrays = [
        np.arange(6.0).reshape(2, 3).T, np.array(3, np.int8), np.zeros((0, 4)), np.array(["a", "öö"]),
        np.array([1.5, -2.0], ml_dtypes.bfloat16), np.array([np.nan, -0.0], np.float32), np.array([True]),
    ]  # fmt: skip
    for array, found in zip(arrays, Two().agree(arrays), strict=True):
        assert (found.dtype, found.shape, found.tobytes()) == (array.dtype, array.shape, array.tobytes())
    assert Two().agree(jax.numpy.ones(2)).tolist() == [1.0, 1.0]
    assert Two().agree((np.float32(0.5), np.bool_(True))) == (0.5, True)


class _Bomb:
    def __init__(self, place):
        self.place = place

    def __reduce__(self):
        return os.mkdir, (str(self.place),)


def test_what_another_process_says_is_not_run(tmp_path):
    with pytest.raises(ValueError, match=r"expected what `Processes\.agree` sends"):
        Two(pickle.dumps(_Bomb(tmp_path / "made"))).agree(None)
    assert not os.listdir(tmp_path)


@pytest.mark.parametrize("value", [_Bomb("x"), {"a": [object()]}, np.array([None, {}]), np.zeros(1, "i4,f4")])
def test_what_cannot_be_sent_is_refused(value):
    with pytest.raises(TypeError, match="expected numbers, text, arrays"):
        Two().agree(value)


def test_only_what_is_said_while_processes_meet_is_not_heard(capfd):
    print("before", end=" ")
    with _without_greetings():
        os.write(1, b"[Gloo] connected ")  # as C++ does
    os.write(1, b"after")
    assert capfd.readouterr().out == "before after"


@pytest.mark.parametrize("raised", [ValueError("no"), FileNotFoundError(2, "No such file", "x.csv")])
def test_an_error_of_the_first_is_raised_in_all(raised):
    sent = []

    class Listening(Two):
        def agree(self, value):
            sent.append(super().agree(value))
            return sent[-1]

    def make():
        raise raised

    with pytest.raises(type(raised)) as caught:
        Listening().from_first(make)
    assert caught.value is raised  # in the first itself
    second = Two()
    second.is_first, second.agree = False, lambda _: sent[0]  # type: ignore
    with pytest.raises(ValueError) as caught:  # noqa: PT011 (the text is compared)
        second.from_first(make)
    assert str(caught.value) == str(raised)


@pytest.mark.parametrize(
    ("coordinator", "bound"),
    [("10.1.2.3:9000", "10.1.2.3:9000"), ("127.0.0.1:9000", "127.0.0.1:9000"), ("localhost:9000", "localhost:9000"),
     ("[fd00::1]:9000", "[fd00::1]:9000"), ("debian:9000", None), ("node1:9000", "node1:9000"), (None, None)],
)  # fmt: skip
def test_process_0_listens_on_the_address_that_was_asked_for(monkeypatch, coordinator, bound):
    """Not on one that others cannot reach, though: Debian gives its own name a loopback address."""
    found = {}
    monkeypatch.setattr(jax.distributed, "initialize", lambda *_, **options: found.update(options))
    monkeypatch.setattr(jax.config, "update", lambda *_: None)
    monkeypatch.setattr(
        "socket.gethostbyname", lambda name: {"debian": "127.0.1.1", "node1": "10.0.0.7"}.get(name, name)
    )
    join_processes(coordinator, 2, 0)
    assert found["coordinator_bind_address"] == bound


def test_one_device_of_a_process_gives_its_numbers(monkeypatch):
    """A process with several devices counts once."""
    processes, given = Processes(), []
    processes._own = 3
    monkeypatch.setattr("neuralrde.processes.shard_batch", lambda rows, mesh: given.append(rows) or rows)
    monkeypatch.setattr("neuralrde.processes._summed", lambda rows, mesh: rows.sum(axis=0, keepdims=True))
    assert processes._total(np.array([1.5, 2.0], np.float32)).tolist() == [1.5, 2.0]
    assert given[0].shape == (3, 2)
