"""The store: what was written is there again, in order; a full disk and a second service are refused."""

import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from neuralrde.serving import Store
from neuralrde.serving.journal import STATE_EVERY, Logged, Unwritten, packed, unpacked
from neuralrde.serving.store import DROP, DROP_POINTS, LOG, OPEN, STATE, TRIM, TRIM_LOG


@given(st.lists(st.tuples(arrays(np.float64, st.tuples(st.integers(1, 4), st.integers(1, 3))), st.booleans())))
def test_pushes_come_back_bit_for_bit(given):
    pushes = [
        Logged(k, 2 * k, values, np.arange(len(values)) / 7 if timed else None)
        for k, (values, timed) in enumerate(given)
    ]
    again = list(unpacked(packed(pushes)))
    assert len(again) == len(pushes)
    for old, new in zip(pushes, again, strict=True):
        assert (new.id, new.seq, new.values.shape) == (old.id, old.seq, old.values.shape)
        assert new.values.tobytes() == old.values.tobytes()
        assert (new.times is None) == (old.times is None)
        assert old.times is None or new.times.tolist() == old.times.tolist()


@given(st.lists(st.sets(st.integers(0, 40), min_size=1), max_size=600))
def test_no_row_of_the_log_goes_that_a_stream_still_needs(batches):
    unwritten, needed = Unwritten(), {}  # the oracle: of each stream every row since its state was written
    for batch in batches:
        row = unwritten.pushed(batch)
        for name in batch:
            needed.setdefault(name, []).append(row)
        for name in unwritten.due():
            unwritten.written(name)
            del needed[name]
        assert unwritten.passed == min((rows[0] for rows in needed.values()), default=row + 1) - 1
        # Twice: a stream may wait until those before it have had their turn.
        assert row - unwritten.passed <= 2 * STATE_EVERY


def push(store: Store, number: int, seq: int) -> None:
    store.write([(LOG, (100 * number + seq, packed([Logged(number, seq, np.full((1, 1), seq), None)])))])


def test_a_stream_comes_back_from_its_state_and_the_pushes_since(tmp_path):
    store = Store(tmp_path)
    store.write([(OPEN, (1, "m", "a", "me")), (OPEN, (2, "m", "b", "me"))])
    for seq in range(1, 6):
        push(store, 1, seq)
    store.write([(STATE, (1, 3, b"{}")), (TRIM, (1, 3)), (TRIM_LOG, (102,))])  # one row that is not needed stays
    store.write([(DROP, (2,)), (DROP_POINTS, (2,))])
    store.close()
    store = Store(tmp_path)
    assert store.known() == [(1, "m", "a", "me")]
    kept = store.read("m", ["a", "b"])
    assert list(kept) == ["a"]
    assert (kept["a"].seq, kept["a"].state) == (5, b"{}")
    assert [values.item() for values, _ in kept["a"].pushes] == [4, 5]
    push(store, 1, 6)  # after a restart, and another: what comes from the log of each run joins the rest
    store.close()
    store = Store(tmp_path)
    assert [values.item() for values, _ in store.read("m", ["a"])["a"].pushes] == [4, 5, 6]
    store.write([(STATE, (1, 6, b"{}")), (TRIM, (1, 6))])
    assert store.read("m", ["a"])["a"].pushes == []
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
    big = packed([Logged(1, 2, np.zeros((10_000, 1)), None)])
    with pytest.raises(Exception, match="full"):
        store.write([(OPEN, (2, "m", "b", "")), (LOG, (102, big))])
    with pytest.raises(Exception, match="full"):  # nothing more is written until somebody has taken notice
        push(store, 1, 2)
    assert [row[2] for row in store.known()] == ["a"]
    store._call(lambda: store._database.execute("PRAGMA max_page_count = 100000"))
    assert store.mend()
    assert store.read("m", ["a"])["a"].seq == 1
    push(store, 1, 2)
    assert store.mend()
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
    with pytest.raises(ValueError, match=r"format 99; expected 2\."):
        Store(tmp_path)
