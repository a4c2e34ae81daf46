"""NumPy's `.npz`: arrays by name. Also the form in which this package keeps data sets."""

import os
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from neuralrde.paths import Series

from .dataset import Dataset
from .errors import ReadError
from .targets import Task
from .text import check_file, lengths_without_gaps


def read_npz(path: str | Path, *, task: Task | None = None, name: str | None = None) -> Dataset:
    """Read a data set from arrays: `X` `(samples, length, channels)` or `(samples, length)`, and others.

    `y` is the target, `times` `(length,)` or `(samples, length)`, `lengths` how many points are real,
    `classes` the names of classes that `y` numbers, `groups`, `channels` and `ids` as in `Dataset` and
    `Series`, `split` or `is_train` the parts. All but `X` may be absent, and others are passed over. Without
    `lengths`, missing points at the end of a series that has no times are padding. Pickled objects are never
    loaded, as they may run anything.
    """
    arrays = load_arrays(path)
    if "X" not in arrays:
        raise ReadError(
            path,
            f"Got the arrays {list(arrays)[:12]}; expected one called X, (samples, length, channels). Write "
            "`np.savez(path, X=values, y=targets)`.",
        )
    values, times, lengths = arrays["X"], arrays.get("times"), arrays.get("lengths")
    try:
        if values.ndim == 2:
            values = values[..., None]
        if lengths is None and times is None and values.ndim == 3 and values.dtype.kind == "f":
            lengths = lengths_without_gaps(values)
        if times is not None and times.ndim == 1:
            times = np.broadcast_to(times, values.shape[:2])
        series = Series(
            values,
            times=times,
            lengths=lengths,
            channels=_names(arrays.get("channels")),
            ids=arrays.get("ids"),
        )
        split = arrays.get("split")
        if split is None and "is_train" in arrays:
            split = np.where(arrays["is_train"].astype(bool), "train", "test")
        return Dataset(
            series,
            arrays.get("y"),
            task=task,
            classes=_names(arrays.get("classes")) if task != "regression" else None,
            groups=arrays.get("groups"),
            split=split,
            name=name or str(arrays.get("name", Path(path).stem)),
            source=str(arrays.get("source", "")),
        )
    except (TypeError, ValueError) as error:
        raise ReadError(path, str(error)) from None


def write_npz(dataset: Dataset, path: str | Path) -> None:
    """Write a data set to a `.npz` file, which `read` reads again; the file appears when it is whole.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "mine.npz"
    >>> write_npz(Dataset(Series.from_arrays([[1.0, 2.0, 3.0], [4.0]]), ["a", "b"], name="mine"), path)
    >>> read_npz(path)
    Dataset('mine': 2 samples of 2 classes; 1 to 3 points, 1 channel: x0; float64)
    """
    series = dataset.series
    arrays: dict[str, Any] = {
        "X": series.values,
        "y": dataset.target,
        "times": series.times,
        "lengths": series.lengths,
        "channels": np.array(series.channels),
        "ids": series.ids,
        "classes": None if dataset.classes is None else np.array(dataset.classes),
        "groups": dataset.groups,
        "split": dataset.split,
        "name": np.array(dataset.name),
        "source": np.array(dataset.source),
    }
    objects = [key for key, array in arrays.items() if array is not None and array.dtype == object]
    if objects:
        raise TypeError(
            f"Got {objects} of mixed types; expected numbers or strings, because only these are stored "
            "without pickling. Write `np.array([str(x) for x in ids])`."
        )
    save_arrays(path, {key: array for key, array in arrays.items() if array is not None})


def load_arrays(path: str | Path) -> dict[str, np.ndarray]:
    """All arrays of a `.npz` file; a sentence if it is none, is damaged, or holds pickled objects."""
    path = check_file(path)
    with open(path, "rb") as file:
        magic = file.read(4)
    if magic != b"PK\x03\x04":
        raise ReadError(path, "Got a file that is no .npz archive; expected one made by `np.savez`.")
    arrays = {}
    try:
        with np.load(path, allow_pickle=False) as archive:
            for key in archive.files:
                arrays[key] = archive[key]
    except (ValueError, OSError, EOFError, KeyError, NotImplementedError, zipfile.BadZipFile) as error:
        pickled = "pickle" in str(error)
        why = "pickled objects, which may run anything" if pickled else f"a damaged archive ({str(error)[:100]})"
        advice = "Save plain arrays: pad ragged ones and give `lengths`." if pickled else "Make or fetch it again."
        raise ReadError(path, f"Got {why}; expected plain arrays. {advice}") from None
    strange = [key for key, array in arrays.items() if not isinstance(array, np.ndarray)]
    if strange:
        raise ReadError(path, f"Got {strange[:5]}, which are no arrays; expected a file made by `np.savez`.")
    return arrays


def save_arrays(path: str | Path, arrays: dict[str, Any]) -> None:
    """Write arrays to a temporary file beside `path`, then rename it: nobody sees half a file."""
    path = Path(path)
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with open(part, "wb") as file:
            np.savez_compressed(file, **arrays)
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


def _names(array: np.ndarray | None) -> list[str] | None:
    return None if array is None else [str(name) for name in array]
