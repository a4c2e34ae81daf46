"""The store: what was written is there again, in order; a full disk and a second service are refused."""

import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from neuralrde.serving import Store
from neuralrde.serving.store import DROP, DROP_POINTS, OPEN, POINTS, STATE, TRIM, packed, unpacked


@given(arrays(np.float64, st.tuples(st.integers(1, 4), st.integers(1, 3))), st.booleans())
def test_points_come_back_bit_for_bit(values, timed):
    times = np.arange(len(values)) / 7 if timed else None
    again, clock = unpacked(packed(values, times))
    assert again.tobytes() == values.tobytes()
    assert (None if clock is None else clock.tolist()) == (None if times is None else times.tolist())


def push(store: Store, number: int, seq: int) -> None:
    store.write([(POINTS, (number, seq, packed(np.full((1, 1), seq), None)))])


def test_a_stream_comes_back_from_its_state_and_the_pushes_since(tmp_path):
    store = Store(tmp_path)
    store.write([(OPEN, (1, "m", "a", "me")), (OPEN, (2, "m", "b", "me"))])
    for seq in range(1, 6):
        push(store, 1, seq)
    store.write([(STATE, (1, 3, b"{}")), (TRIM, (1, 3))])
    store.write([(DROP, (2,)), (DROP_POINTS, (2,))])
    store.close()
    store = Store(tmp_path)
    assert store.known() == [(1, "m", "a", "me")]
    kept = store.read("m", ["a", "b"])
    assert list(kept) == ["a"]
    assert (kept["a"].seq, kept["a"].state) == (5, b"{}")
    assert [values.item() for values, _ in kept["a"].pushes] == [4, 5]
    store.close()


def test_what_waits_together_is_one_transaction(tmp_path):
    store, done = Store(tmp_path), threading.Barrier(2)
    store.submit([], lambda error: done.wait(10))  # the store's thread waits here, while others queue
    told: list = []
    for number in range(1, 51):
        store.submit([(OPEN, (number, "m", str(number), ""))], told.append)
    before = store.commits
    done.wait(10)
    assert len(store.known()) == 50
    assert told == [None] * 50
    # Two at most: the first of them may have been alone in the queue when the thread looked.
    assert store.commits - before <= 2
    store.close()


def test_a_full_disk_is_told_and_nothing_is_half_written(tmp_path):
    store = Store(tmp_path)
    store.write([(OPEN, (1, "m", "a", ""))])
    push(store, 1, 1)
    store._call(lambda: store._database.execute("PRAGMA max_page_count = 12"))
    big = packed(np.zeros((10_000, 1)), None)
    with pytest.raises(Exception, match="full"):
        store.write([(OPEN, (2, "m", "b", "")), (POINTS, (1, 2, big))])
    with pytest.raises(Exception, match="full"):  # nothing more is written until somebody has taken notice
        push(store, 1, 2)
    assert [row[2] for row in store.known()] == ["a"]
    store.mend()
    store._call(lambda: store._database.execute("PRAGMA max_page_count = 100000"))
    push(store, 1, 2)
    assert store.read("m", ["a"])["a"].seq == 2
    store.close()


def test_two_services_cannot_share_a_folder(tmp_path):
    store = Store(tmp_path)
    with pytest.raises(ValueError, match="another service is using"):
        Store(tmp_path)
    store.close()
    Store(tmp_path).close()


@pytest.mark.parametrize("content", [b"no database at all, but long enough" * 50, b"SQLite format 3\0" + b"\1" * 2000])
def test_a_file_that_is_none_is_refused(tmp_path, content):
    (tmp_path / "streams.sqlite").write_bytes(content)
    with pytest.raises(ValueError, match="no file of streams"):
        Store(tmp_path)


def test_a_newer_format_is_refused(tmp_path):
    store = Store(tmp_path)
    store._call(lambda: store._database.execute("PRAGMA user_version = 99"))
    store.close()
    with pytest.raises(ValueError, match=r"format 99; expected 1\."):
        Store(tmp_path)
