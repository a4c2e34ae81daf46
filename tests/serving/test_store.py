"""The store: what was written is there again, in order; a full disk and a second service are refused."""

import os
import shutil
import sqlite3
import stat
import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from neuralrde.tools.serving import Store
from neuralrde.tools.serving.store import (
    DROP,
    DROP_POINTS,
    LOG,
    OPEN,
    STATE,
    STATE_EVERY,
    TRIM,
    TRIM_LOG,
    Damaged,
    Logged,
    Unwritten,
    packed,
    records,
    unpacked,
)


@given(st.lists(st.tuples(arrays(np.float64, st.tuples(st.integers(1, 4), st.integers(1, 3))), st.booleans())))
def test_pushes_come_back_bit_for_bit(given):
    pushes = [
        Logged(k, 2 * k, values, np.arange(len(values)) / 7 if timed else None)
        for k, (values, timed) in enumerate(given)
    ]
    index, data = packed(pushes)
    again = [unpacked(record, crc) for _, _, record, crc in records(b"damaged", index, data)]
    assert len(again) == len(pushes)
    for old, new in zip(pushes, again, strict=True):
        assert (new.id, new.seq, new.values.shape) == (old.id, old.seq, old.values.shape)
        assert new.values.tobytes() == old.values.tobytes()
        assert (new.times is None) == (old.times is None)
        assert old.times is None or new.times.tolist() == old.times.tolist()


@given(st.lists(st.sets(st.tuples(st.just("m"), st.text("ab", max_size=4)), min_size=1), max_size=600))
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
    store.write([(LOG, (100 * number + seq, *packed([Logged(number, seq, np.full((1, 1), seq), None)])))])


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
        store.write([(OPEN, (2, "m", "b", "")), (LOG, (102, *big))])
    with pytest.raises(Exception, match="full"):  # nothing more is written until somebody has taken notice
        push(store, 1, 2)
    assert [row[2] for row in store.known()] == ["a"]
    assert store.read("m", ["a"])["a"].seq == 1  # what was acknowledged can be read, also while nothing can be written
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
    with pytest.raises(ValueError, match=r"format 99; expected 3\."):
        Store(tmp_path)


def test_nobody_else_may_read_the_files(tmp_path):
    old = os.umask(0o022)
    try:
        store = Store(tmp_path / "state")
        store.write([(OPEN, (1, "m", "a", "me"))])
        modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in (tmp_path / "state").iterdir()}
        assert set(modes) >= {"streams.sqlite", "streams.sqlite-wal"}
        assert set(modes.values()) == {0o600}
        assert stat.S_IMODE((tmp_path / "state").stat().st_mode) == 0o700
        store.close()
        (tmp_path / "state" / "streams.sqlite").chmod(0o644)  # as an earlier version left it
        Store(tmp_path / "state").close()
        assert stat.S_IMODE((tmp_path / "state" / "streams.sqlite").stat().st_mode) == 0o600
    finally:
        os.umask(old)


def test_an_acknowledgement_means_that_the_disk_has_it(tmp_path):
    """What a kill cannot show: SQLite waits for the disk in every transaction, which is 2, FULL."""
    store = Store(tmp_path)
    pragma = lambda name: store._call(lambda: store._database.execute(f"PRAGMA {name}").fetchone()[0])
    assert (pragma("synchronous"), pragma("journal_mode")) == (2, "wal")
    store.close()


STREAMS = [f"patient {k}" for k in range(12)]


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """A folder with states, points of an earlier log, and a log; and what is in it."""
    folder = tmp_path_factory.mktemp("kept")
    rng = np.random.default_rng(0)

    def batch(store: Store, seq: int) -> None:
        pushes = [Logged(k + 1, seq, rng.normal(size=(5, 2)), None) for k in range(len(STREAMS))]
        store.write([(LOG, (seq, *packed(pushes)))])

    store = Store(folder)
    store.write([(OPEN, (k + 1, "m", name, "me")) for k, name in enumerate(STREAMS)])
    batch(store, 1)
    store.write([(STATE, (k + 1, 1, rng.bytes(300))) for k in range(len(STREAMS))])
    batch(store, 2)
    store.close()
    store = Store(folder)
    batch(store, 3)
    store.close()
    shutil.copytree(folder, folder / "again")
    store = Store(folder / "again")
    found = plain(store.read("m", STREAMS))
    store.close()
    return folder, found


def plain(found: dict) -> dict:
    return {
        name: None
        if isinstance(one, Damaged)
        else (one.seq, one.state, [(values.tobytes(), times) for values, times in one.pushes])
        for name, one in found.items()
    }


def test_flipped_bits_are_refused_by_name_and_never_believed(kept, tmp_path):
    folder, good = kept
    sound = (folder / "streams.sqlite").read_bytes()
    rng, refused, told = np.random.default_rng(1), 0, 0
    for number in range(60):
        data = bytearray(sound)
        data[int(rng.integers(100, len(data)))] ^= 1 << int(rng.integers(8))
        place = tmp_path / str(number)
        place.mkdir()
        (place / "streams.sqlite").write_bytes(data)
        try:
            store = Store(place)
        except ValueError:
            refused += 1
            continue
        found = plain(store.read("m", STREAMS))
        store.close()
        assert set(found) == set(good)
        told += sum(one is None for one in found.values())
        assert all(one in (None, good[name]) for name, one in found.items())
    assert told >= 5  # some flips hit a stream, and cost it alone
    assert refused < 30


def test_a_damaged_push_costs_its_own_stream(kept, tmp_path):
    """A flip in the log: in a record, in one of its indexes, in both."""
    folder, good = kept
    flips = {"data = zeroed(data)": {"patient 0"}, "part = zeroed(part)": set(), "copy = zeroed(copy)": set()}
    for number, (change, lost) in enumerate([*flips.items(), ("part = zeroed(part), copy = part", None)]):
        place = tmp_path / str(number)
        place.mkdir()
        shutil.copy(folder / "streams.sqlite", place)
        with sqlite3.connect(place / "streams.sqlite", isolation_level=None) as database:
            database.create_function("zeroed", 1, lambda blob: bytes([blob[0] ^ 1]) + blob[1:])
            database.execute(f"UPDATE log SET {change}")
            database.execute("UPDATE log SET copy = part" if lost is None else "SELECT 1")
        database.close()
        if lost is None:
            with pytest.raises(ValueError, match="damaged in both of its indexes"):
                Store(place)
            continue
        store = Store(place)
        found = plain(store.read("m", STREAMS))
        assert {name for name, one in found.items() if one is None} == lost
        assert all(one == good[name] for name, one in found.items() if one is not None)
        store.close()
