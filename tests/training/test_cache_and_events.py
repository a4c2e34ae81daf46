"""The log-signature cache, and TensorBoard's files."""

import struct

import numpy as np
import pytest

import neuralrde.training.cache as cache_module
from neuralrde.signatures import log_signatures
from neuralrde.training import EventFile, LogSignatureCache
from neuralrde.training.events import crc32c

PATH = np.random.default_rng(0).normal(size=(3, 50, 2))


@pytest.fixture
def computed(monkeypatch):
    """How often log-signatures were computed."""
    calls = []

    def counted(*args, **options):
        calls.append(args)
        return log_signatures(*args, **options)

    monkeypatch.setattr(cache_module, "log_signatures", counted)
    return calls


def test_same_question_same_answer_computed_once(computed):
    cache = LogSignatureCache()
    first = cache(PATH, 2, step=10)
    np.testing.assert_array_equal(first, log_signatures(PATH, 2, step=10))
    assert cache(PATH.copy(), 2, cuts=np.array([0, 10, 20, 30, 40, 49])) is first
    assert len(computed) == 1
    for other in (
        lambda: cache(PATH, 3, step=10),
        lambda: cache(PATH, 2, step=11),
        lambda: cache(PATH * 2, 2, step=10),
    ):
        other()
    cache(PATH, 2, step=10, basis="brackets")
    cache(PATH.astype(np.float32), 2, step=10)
    assert len(computed) == 6
    with pytest.raises(ValueError, match="read-only"):
        first[0] = 0


def test_the_oldest_are_forgotten(computed):
    cache = LogSignatureCache(size=2 * log_signatures(PATH, 2, step=10).nbytes)
    for scale in (1, 2, 1, 3, 1, 2):
        cache(PATH * scale, 2, step=10)
    assert len(computed) == 4  # the one that was used in between was kept


def test_on_disk(tmp_path, computed):
    first = LogSignatureCache(folder=tmp_path)(PATH, 2, step=10)
    np.testing.assert_array_equal(LogSignatureCache(folder=tmp_path)(PATH, 2, step=10), first)
    assert len(computed) == 1
    (file,) = tmp_path.iterdir()
    file.write_bytes(file.read_bytes()[:-1])
    np.testing.assert_array_equal(LogSignatureCache(folder=tmp_path)(PATH, 2, step=10), first)
    assert len(computed) == 2  # a damaged file is computed again


def records(content):
    """The contents of a TFRecord file, by its definition, checksums checked."""
    rotate = lambda number: (number >> 17 | number << 15) & 0xFFFFFFFF
    unmask = lambda crc: rotate((crc - 0xA282EAD8) & 0xFFFFFFFF)
    while content:
        (size,) = struct.unpack("<Q", content[:8])
        body = content[12 : 12 + size]
        assert unmask(struct.unpack("<I", content[8:12])[0]) == crc32c(content[:8])
        assert unmask(struct.unpack("<I", content[12 + size : 16 + size])[0]) == crc32c(body)
        yield body
        content = content[16 + size :]


def test_event_files(tmp_path):
    events = EventFile(tmp_path / "run")
    events.start(epochs=300, steps=1, done=0)
    events.epoch({"epoch": 300, "loss": 0.25})
    events.close()
    (file,) = (tmp_path / "run").iterdir()
    assert "tfevents" in file.name
    version, event = records(file.read_bytes())
    assert version.endswith(b"\x1a\x0dbrain.Event:2")  # field 3, a string of 13
    # wall_time: field 1, a double. step: field 2, varint 300. summary: field 5; value: field 1; tag: field 1; float: 2.
    assert event[0] == 0x09
    assert event[9:] == b"\x10\xac\x02" + b"\x2a\x0d\x0a\x0b\x0a\x04loss\x15" + struct.pack("<f", 0.25)


def test_tensorboard_reads_them(tmp_path):
    loader = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator", reason="needs tensorboard")
    events = EventFile(tmp_path)
    events.start(epochs=2, steps=1, done=0)
    for epoch in (1, 2):
        events.epoch({"epoch": epoch, "loss": 1 / epoch})
    events.close()
    accumulator = loader.EventAccumulator(str(tmp_path))
    accumulator.Reload()
    assert [(e.step, e.value) for e in accumulator.Scalars("loss")] == [(1, 1.0), (2, 0.5)]
