"""TensorBoard's event files, written without TensorBoard: a few fields of protobuf, in records with checksums."""

import itertools
import os
import struct
import time
from pathlib import Path

from .listeners import Listener

_COUNTER = itertools.count()


class EventFile(Listener):
    """Loss, metric and rate of every epoch for `tensorboard --logdir FOLDER`.

    Args:
        folder: of this run; it is made.
    """

    def __init__(self, folder: str | os.PathLike):
        self.folder = Path(folder)

    def start(self, *, epochs, steps, done):
        self.folder.mkdir(parents=True, exist_ok=True)
        # TensorBoard finds files by ".tfevents." and reads them in the order of their names.
        name = f"events.out.tfevents.{time.time():017.6f}.{os.getpid()}.{next(_COUNTER)}"
        self.file = open(self.folder / name, "wb")  # noqa: SIM115 (closed by `close`)
        self.file.write(record(_double(1, time.time()) + _text(3, b"brain.Event:2")))

    def epoch(self, record):
        for name, value in record.items():
            if name not in ("epoch", "monitored"):
                self.file.write(scalar_event(name, value, record["epoch"], time.time()))
        self.file.flush()

    def close(self):
        self.file.close()


def scalar_event(tag: str, value: float, step: int, wall_time: float) -> bytes:
    """A record of the message Event(wall_time, step, Summary(Value(tag, simple_value)))."""
    content = _text(1, tag.encode()) + _key(2, 5) + struct.pack("<f", value)
    return record(_double(1, wall_time) + _key(2, 0) + _varint(step) + _text(5, _text(1, content)))


def record(content: bytes) -> bytes:
    """TFRecord: the length, its checksum, the content, its checksum."""
    length = struct.pack("<Q", len(content))
    return length + _masked(length) + content + _masked(content)


def crc32c(content: bytes) -> int:
    """The Castagnoli checksum.

    >>> hex(crc32c(b"123456789"))  # the check value of its definition
    '0xe3069283'
    """
    crc = 0xFFFFFFFF
    for byte in content:
        crc = _TABLE[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    return crc ^ 0xFFFFFFFF


def _table_entry(byte: int) -> int:
    for _ in range(8):
        byte = (byte >> 1) ^ (0x82F63B78 if byte & 1 else 0)
    return byte


_TABLE = [_table_entry(byte) for byte in range(256)]


def _masked(content: bytes) -> bytes:
    crc = crc32c(content)
    return struct.pack("<I", (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF)


def _key(field: int, kind: int) -> bytes:
    return _varint(field << 3 | kind)


def _varint(number: int) -> bytes:
    groups = []
    while number > 0x7F:
        groups.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*groups, number])


def _text(field: int, content: bytes) -> bytes:
    return _key(field, 2) + _varint(len(content)) + content


def _double(field: int, value: float) -> bytes:
    return _key(field, 1) + struct.pack("<d", value)
