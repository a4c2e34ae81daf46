"""NumPy's `.npz`: arrays by name. Also the form in which this package keeps data sets."""

import math
import sys
import zipfile
from collections.abc import Collection
from pathlib import Path
from typing import IO

import numpy as np

from .._write import Values, writing
from ..errors import few
from ..paths import Series
from ..paths.checks import check_fits
from .columns import Column
from .dataset import Dataset, safe_name
from .files import ReadError, check_file, lengths_without_gaps, naming
from .targets import Task

KEYS = (
    "X",
    "y",
    "times",
    "lengths",
    "classes",
    "groups",
    "channels",
    "ids",
    "split",
    "is_train",
    "name",
    "source",
    "time_unit",
)
_STATIC = "static "  # before the names of columns of `Dataset.static`
_COPIES = 4  # of an array in float64, which checking and padding its series take at their peak


def read_npz(path: str | Path, *, task: Task | None = None, name: str | None = None) -> Dataset:
    """Read a data set from arrays: `X` `(samples, length, channels)` or `(samples, length)`, and others.

    `y` is the target, `times` `(length,)` or `(samples, length)`, `lengths` how many points are real,
    `classes` the names of classes that `y` numbers, `groups`, `channels` and `ids` as in `Dataset` and
    `Series`, `split` or `is_train` the parts, `static NAME` a column of `Dataset.static` (numbers, or words with
    "" for a gap). All but `X` may be absent, and others are passed over. Without
    `lengths`, missing points at the end of a series that has no times are padding. Pickled objects are never
    loaded, as they may run anything.
    """
    arrays = load_arrays(path, KEYS, needed=["X"], prefix=_STATIC)
    values, times, lengths = arrays["X"], arrays.get("times"), arrays.get("lengths")
    with naming(path):
        if values.ndim == 2:
            values = values[..., None]
        if lengths is None and times is None and values.ndim == 3 and values.dtype.kind == "f":
            lengths = lengths_without_gaps(values)
        if times is not None and times.ndim == 1:
            times = np.broadcast_to(times, values.shape[:2])
        channels, ids = _names(arrays.get("channels")), arrays.get("ids")
        series = Series(values, times=times, lengths=lengths, channels=channels, ids=ids)
        split = arrays.get("split")
        if split is None and "is_train" in arrays:
            split = np.where(arrays["is_train"].astype(bool), "train", "test")
        columns = {key.removeprefix(_STATIC): array for key, array in arrays.items() if key.startswith(_STATIC)}
        return Dataset(
            series,
            arrays.get("y"),
            task=task,
            classes=_names(arrays.get("classes")) if task != "regression" else None,
            groups=arrays.get("groups"),
            split=split,
            static={name: _with_gaps(array) for name, array in columns.items()} or None,
            name=name or safe_name(arrays.get("name", ""), safe_name(Path(path).stem)),
            source=str(arrays.get("source", "")),
            time_unit=str(arrays["time_unit"]) if "time_unit" in arrays else None,
        )


def write_npz(dataset: Dataset, path: str | Path) -> None:
    """Write a data set to a `.npz` file, which `read` reads again; the file appears when it is whole.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "mine.npz"
    >>> write_npz(Dataset(Series.from_arrays([[1.0, 2.0, 3.0], [4.0]]), ["a", "b"], name="mine"), path)
    >>> read_npz(path)
    Dataset('mine': 2 samples of 2 classes; 1 to 3 points, 1 channel: x0; float64)
    """
    series = dataset.series
    arrays = {"X": series.values, "times": series.times, "lengths": series.lengths, "channels": series.channels}
    arrays |= {"ids": series.ids, "y": dataset.target, "classes": dataset.classes, "groups": dataset.groups}
    arrays |= {"split": dataset.split, "name": dataset.name, "source": dataset.source}
    arrays["time_unit"] = dataset.time_unit
    static = {} if dataset.static is None else dataset.static
    arrays |= {_STATIC + name: _without_objects(static[name]) for name in static}
    arrays: Values = {key: np.asarray(array) for key, array in arrays.items() if array is not None}
    if objects := [key for key, array in arrays.items() if array.dtype == object]:
        raise TypeError(
            f"Got {objects} of mixed types; expected numbers or strings, because only these are stored "
            "without pickling. Write `np.array([str(x) for x in ids])`."
        )
    with writing(path) as file:
        np.savez_compressed(file, **arrays)


def load_arrays(
    path: str | Path, keys: Collection[str], *, needed: Collection[str] = (), prefix: str | None = None
) -> dict[str, np.ndarray]:
    """Arrays of a `.npz` file by their names, where they are there, and all whose names begin with the prefix.

    A ReadError says so if it is none, is damaged, holds pickled objects, or does not fit into memory: the size
    of an array is taken from its header, and compared with that of its data, before any of it is read.
    """
    path = check_file(path)
    with open(path, "rb") as file:
        if file.read(4) != b"PK\x03\x04":
            raise ReadError(path, "Got a file that is no .npz archive; expected one made by `np.savez`.")
    arrays = {}
    with naming(path, "archive"), zipfile.ZipFile(path) as archive:
        # Else an array would go missing: names must be the same in both places, and a comment, which NumPy never
        # writes, may have swallowed the entries after it.
        for member in archive.infolist():
            archive.open(member).close()
            if member.comment:
                raise ValueError(f"{member.filename} has a comment of {len(member.comment)} bytes")
        members = {m.filename.removesuffix(".npy"): m for m in archive.infolist() if m.filename.endswith(".npy")}
        if absent := [key for key in needed if key not in members]:
            got = f"Got the arrays {few(members)}"
            raise ReadError(path, f"{got}; expected also {', '.join(absent)}. Write it with `np.savez`.")
        for key, member in members.items():
            if key in keys or (prefix is not None and key.startswith(prefix)):
                with archive.open(member) as file:
                    _check_header(file, member, path)
                with archive.open(member) as file:
                    arrays[key] = _check_letters(np.lib.format.read_array(file, allow_pickle=False), member)
    return arrays


def npy_header(file: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype]:
    """The shape of an array in NumPy's `.npy` format, whether it is in Fortran order, and its type."""
    version = np.lib.format.read_magic(file)
    return (np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0)(file)


def _check_header(file: IO[bytes], member: zipfile.ZipInfo, path: str | Path) -> None:
    shape, _, dtype = npy_header(file)
    if dtype.hasobject:
        raise ReadError(
            path,
            f"Got pickled objects in {member.filename}, which may run anything; expected plain arrays. Save "
            "plain arrays: pad ragged ones and give `lengths`.",
        )
    count = math.prod(shape)
    size = count * dtype.itemsize
    if min(shape, default=0) < 0 or dtype.itemsize == 0 or size != member.file_size - file.tell():
        raise ValueError(f"{member.filename} says that it is {shape} of {dtype.str[:20]}")
    needed = _COPIES * max(size, 8 * count)
    check_fits(needed, f"The {count:,} values of {member.filename}", "Save the series in several files.")


def _check_letters(array: np.ndarray, member: zipfile.ZipInfo) -> np.ndarray:
    """Python cannot make a string of letters that Unicode does not have."""
    if array.dtype.kind == "U":
        letters = np.ascontiguousarray(array).reshape(-1).view(f"{array.dtype.byteorder}u4")
        if (letters > sys.maxunicode).any():
            raise ValueError(f"{member.filename} holds letters that do not exist")
    return array


def _names(array: np.ndarray | None) -> list[str] | None:
    return None if array is None else list(map(str, array))


def _without_objects(column: Column) -> np.ndarray:
    """A column of a table as numbers, or as words with "" for a gap."""
    if column.dtype.kind in "biuf":
        return column.to_numpy(np.float64, na_value=np.nan) if column.hasnans else column.to_numpy()
    return np.where(column.isna(), "", column.astype(str)).astype(str)


def _with_gaps(array: np.ndarray) -> np.ndarray:
    return np.where(array == "", np.nan, array.astype(object)) if array.dtype.kind == "U" else array
