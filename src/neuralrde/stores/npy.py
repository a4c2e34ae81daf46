"""Arrays `(series, length, channels)` in .npy files, read where they are wanted and never whole."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from .files import files_at, open_file
from .rows import PIECE, Rows, SourceError


@dataclass(frozen=True)
class NpySource:
    """One or several arrays, one after the other, with labels in an array of their own.

    Reads, rather than memory maps: pages of a map that have been touched count as memory of the process.
    """

    files: list[str]
    shapes: list[tuple[int, int, int]]
    offsets: list[int]
    dtype: str
    labels: Any = None
    group_names: Any = None
    timed: bool = False

    @staticmethod
    def open(data: str | os.PathLike, *, labels: Any = None, groups: Any = None) -> "NpySource":
        files, shapes, offsets, dtypes = files_at(data, [".npy"]), [], [], set()
        for file in files:
            shape, dtype, offset = _header(file)
            shapes.append(shape)
            offsets.append(offset)
            dtypes.add(dtype)
        if len({shape[2] for shape in shapes}) > 1 or len(dtypes) > 1:
            raise SourceError(
                f"Got arrays of shapes {shapes[:4]} and types {sorted(dtypes)}; expected the same channels and one "
                "type in every file."
            )
        count = sum(shape[0] for shape in shapes)
        labels, groups = _one_each(labels, count, "labels"), _one_each(groups, count, "groups")
        return NpySource(files, shapes, offsets, dtypes.pop(), labels, groups)

    @property
    def channels(self) -> tuple[str, ...]:
        return tuple(f"x{i}" for i in range(self.shapes[0][2]))

    @property
    def target(self) -> tuple[str, ...]:
        if self.labels is None:
            return ()
        return ("target",) if self.labels.ndim == 1 else tuple(f"target_{i}" for i in range(self.labels.shape[1]))

    @property
    def group(self) -> str | None:
        return None if self.group_names is None else "group"

    def _rows_in_block(self, file: int) -> int:
        _, length, channels = self.shapes[file]
        return max(1, PIECE // (8 * length * channels))

    def _blocks_of(self, file: int) -> int:
        return -(-self.shapes[file][0] // self._rows_in_block(file))

    @property
    def blocks(self) -> int:
        return sum(self._blocks_of(file) for file in range(len(self.files)))

    def read(self, block: int, *, about_series: bool, values: bool) -> Iterator[Rows]:
        file, before = 0, 0  # the file of the block, and the series in the files before it
        while block >= self._blocks_of(file):
            block, before, file = block - self._blocks_of(file), before + self.shapes[file][0], file + 1
        count, length, channels = self.shapes[file]
        first = block * self._rows_in_block(file)
        last = min(count, first + self._rows_in_block(file))
        own = slice(before + first, before + last)
        part = max(1, min(length, PIECE // (8 * channels)))  # a long series comes in several
        size, dtype = np.dtype(self.dtype).itemsize * channels, np.dtype(self.dtype)
        with open_file(self.files[file]) as handle:
            for start in range(0, length, part):
                points = min(part, length - start)
                rows = (last - first) * points
                array = np.zeros((rows, 0), np.float32)
                if values:
                    handle.seek(self.offsets[file] + (first * length + start) * size)
                    data = handle.read(rows * size)
                    if len(data) < rows * size:
                        raise SourceError(f"{self.files[file]} ends before its last series: it has been cut short.")
                    array = _floats(np.frombuffer(data, dtype).reshape(rows, channels))
                begins = np.zeros(rows, bool)
                begins[:: points if start == 0 else rows] = True
                yield Rows(
                    array,
                    None,
                    begins,
                    np.arange(own.start, own.stop),
                    None if self.labels is None else self.labels[own],
                    None if self.group_names is None else self.group_names[own],
                )

    def described(self) -> dict[str, Any]:
        told = [None if array is None else array.tolist() for array in (self.labels, self.group_names)]
        return {"kind": "npy", "labels": told[0], "groups": told[1]}


def _header(file: str) -> tuple[tuple[int, int, int], str, int]:
    with open_file(file) as handle:
        try:
            version = np.lib.format.read_magic(handle)
            read = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}[version]
            shape, fortran, dtype = read(handle)
        except (ValueError, KeyError) as error:
            raise SourceError(f"{file} is no .npy file ({error}); expected what `numpy.save` writes.") from None
        offset = handle.tell()
    if len(shape) == 2:
        shape = (*shape, 1)
    if len(shape) != 3 or 0 in shape or fortran or dtype.kind not in "fiu":
        raise SourceError(
            f"{file} holds an array of shape {shape} and type {dtype}{' in Fortran order' if fortran else ''}; "
            "expected numbers (series, length, channels) in C order, none of the three 0. Write "
            "`numpy.save(file, numpy.ascontiguousarray(array))`."
        )
    return shape, dtype.str, offset


def _floats(array: np.ndarray) -> np.ndarray:
    """In float32 or float64 as they are; others, and other byte orders, in float64."""
    if array.dtype in (np.float32, np.float64) and array.dtype.isnative:
        return array
    return array.astype(np.float32 if array.dtype.itemsize == 4 and array.dtype.kind == "f" else np.float64)


def _one_each(given: Any, count: int, name: str) -> np.ndarray | None:
    """An array, or a .npy file of one, with an entry per series."""
    if given is None:
        return None
    if isinstance(given, str | os.PathLike):
        with open_file(str(given)) as file:
            given = np.load(file)
    array = np.asarray(given)
    if array.ndim not in (1, 2) or len(array) != count:
        raise SourceError(f"Got {name} of shape {array.shape} for {count} series; expected ({count},), one per series.")
    return array
