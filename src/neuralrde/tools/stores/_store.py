"""A store: a training set whose log-signatures are on a disk and are read when they are needed.

They were transformed and cut into windows when the store was prepared. So whatever needs whole series is refused: an
augmentation, and the closed form beside an ensemble.
"""

import os
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from hashlib import blake2b
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import ArrayLike

from ..._types import Selection
from ..._write import digest_of
from ...errors import setting
from ...models import AbstractDrivenModel, AbstractModel, Ensemble, LogSignatureSizes
from ...models.base import ForeignModel
from ...paths import Series, Windows
from ...paths.checks import check_fits
from ...registry import make
from ...signatures.bases import Basis, change_bases
from ...training import Examples
from ...training.examples import prefetched
from ...transforms import Transform
from .files import MANIFEST, OTHER_CHECKSUM, PLAN, SERIES, Classes, StoreError, StoreFolder, Values, shard_name

# Files of shards that are open at once.
_OPEN = 128


class Store:
    """Series that `prepare` has written to a disk. It can be used wherever a training set can, and is read as needed.

    Only a few numbers per series are in memory; the log-signatures stay on the disk. The manifest and each series have
    a checksum, which is compared whenever they are read.

    Args:
        folder: where it is.

    Attributes:
        key: a checksum of the data and options that the store was made from.
        model: the short name of the model that the store was made for.
        windows: how series were cut.
        channels: the channels of the series before they were prepared.
        path_channels: the channels of the paths whose log-signatures are stored.
        controls: numbers per window.
        mixed: whether log-signatures are those of mixtures of channels, which `MultiScaleRDE` makes of many.
        task: "classification", "regression", or None where there is no target.
        classes: labels by their numbers; None for a regression.
        target: numbers of `classes`, or `(series, outputs)` numbers; None if the data have no target.
        ids, groups: one id and one group per series.
        lengths, window_counts: the numbers of points and of windows of each series.
        most_windows: the largest number of windows in the whole store, so that every part has arrays of one shape.
        ragged: whether series may differ in their number of windows, which a model must then know.
        fingerprint: the checksum of the manifest, which has the checksums of all files.
    """

    weight = None
    """All series count alike; see `neuralrde.training.Examples`."""

    def __init__(self, folder: str | os.PathLike):
        files = StoreFolder.at(folder)
        self._manifest = manifest = _manifest(files)
        self._series = series = files.read_arrays(SERIES, manifest["series"]["digest"])
        self.fingerprint: str = manifest["checksum"]
        self.key: str = manifest["key"]
        self.model: str = manifest["model"]
        self.windows: Windows = make("windows", manifest["windows"])
        self.channels, self.path_channels = tuple(manifest["channels"]), tuple(manifest["path_channels"])
        self.controls, self.mixed = int(manifest["controls"]), bool(manifest["mixed"])
        self.task: str | None = manifest["task"]
        self.classes: Classes | None = manifest["classes"]
        self.most_windows = int(series["windows"].max())
        self.ragged = self.windows.every is not None or len(np.unique(series["lengths"])) > 1
        self._rows = np.arange(len(series["windows"]))
        firsts = np.concatenate([[0], np.cumsum(series["windows"])])
        begins = np.array([shard["series"][0] for shard in manifest["shards"]])
        self._shard = np.searchsorted(begins, self._rows, side="right") - 1
        starts = np.array([shard["start"] for shard in manifest["shards"]])
        self._byte = starts[self._shard] + 4 * self.controls * (firsts[:-1] - firsts[begins][self._shard])
        self._shards = Shards(files, manifest["shards"])

    @property
    def transform(self) -> Transform:
        """The fitted transform."""
        return Transform.from_state(self._manifest["transform"])

    def _of_series(self, name: str) -> Any:
        return self._series[name][self._rows] if name in self._series else None

    target: Any = property(lambda self: self._of_series("target"))
    ids: np.ndarray = property(lambda self: self._of_series("ids"))  # type: ignore
    groups: np.ndarray | None = property(lambda self: self._of_series("groups"))  # type: ignore
    lengths: Int[np.ndarray, "series"] = property(lambda self: self._of_series("lengths"))  # type: ignore
    window_counts: Int[np.ndarray, "series"] = property(lambda self: self._of_series("windows"))  # type: ignore

    @property
    def labels(self) -> np.ndarray | None:
        """The targets as a user gives them: labels, or numbers; `(series,)` if there is one per series."""
        if self.target is None:
            return None
        if self.classes is not None:
            return np.array(self.classes)[self.target]
        return self.target[:, 0] if self.target.shape[1] == 1 else self.target

    def as_source(self) -> "StoreSource":
        """This store as estimators take it: a source of samples."""
        return StoreSource(self)

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, rows: Selection) -> "Store":
        """Some of the series, by a slice, a mask or numbers; nothing is read."""
        part = object.__new__(Store)
        vars(part).update(vars(self))
        part._rows = np.atleast_1d(self._rows[rows])
        if len(part._rows) < len(self) or not np.array_equal(part._rows, self._rows):
            part.fingerprint = digest_of(self.fingerprint, part._rows)
        return part

    def __repr__(self) -> str:
        counts = self.window_counts
        windows = f"{counts.min()}" if counts.min() == counts.max() else f"{counts.min()} to {counts.max()}"
        what = "; no target"
        if self.classes is not None:
            shown = ", ".join(map(str, self.classes[:5])) + (", ..." if len(self.classes) > 5 else "")
            what = f"; classes {shown}"
        elif self.task is not None:
            what = f"; {self.target.shape[1]} target{'' if self.target.shape[1] == 1 else 's'}"
        return f"Store({len(self)} series, {windows} windows of {self.controls} numbers{what})"

    def take(self, rows: Selection, *, basis: Basis = "words", padded: bool = True) -> Examples:
        """Some of the series as a model takes them: first points and log-signatures, with targets.

        Args:
            rows: numbers, a slice or a mask.
            basis: of the log-signatures; they are stored as "words".
            padded: whether all have as many windows as the longest series of the store, rather than of these.
        """
        rows = np.atleast_1d(self._rows[rows])
        counts = self._series["windows"][rows]
        logs = self._logs(rows, counts, self.most_windows if padded else int(counts.max(initial=1)))
        if basis != "words":
            if self.mixed:
                raise StoreError(
                    f"Got basis={basis!r} for a store of mixtures; expected words. Prepare it for that model."
                )
            flat, channels = logs.reshape(-1, self.controls), len(self.path_channels)
            changed = change_bases(flat, channels, self.windows.depths, old="words", new=basis)
            logs = np.ascontiguousarray(changed, np.float32).reshape(*logs.shape[:2], -1)
        target = None if "target" not in self._series else self._series["target"][rows]
        return Examples((self._series["first"][rows], logs), target, windows=counts if self.ragged else None)

    def _logs(self, rows: np.ndarray, counts: np.ndarray, most: int) -> Float[np.ndarray, "rows windows controls"]:
        shape = len(rows), most, self.controls
        check_fits(
            4.0 * np.prod(shape, dtype=np.float64),
            f"The log-signatures of {len(rows)} series, padded to {most} windows of {self.controls} numbers,",
            "Take fewer series at once: a smaller batch_size, or a part of the store.",
        )
        out = np.zeros(shape, "<f4")
        views = [logs[:count].reshape(-1) for logs, count in zip(out, counts.tolist(), strict=True)]
        shards = self._shard[rows].tolist()
        self._shards.read(list(zip(shards, self._byte[rows].tolist(), views, strict=True)))
        for row, view, shard in zip(rows.tolist(), views, shards, strict=True):
            if zlib.crc32(view.data) != int(self._series["sums"][row]):
                what = f"series {self._series['ids'][row]} has another checksum than when it was written"
                raise self._shards.damaged(shard, what)
        return out

    def verify(self) -> None:
        """Read everything and compare all checksums; an error names the first file that is damaged."""
        self._shards.verify()

    def close(self) -> None:
        """Close the files; they are opened again if they are needed."""
        self._shards.open.cache_clear()


def is_store(path: str | os.PathLike) -> bool:
    """Whether there is a store in a folder, whole or begun."""
    folder = StoreFolder.at(path)
    return any(folder.size(name) is not None for name in (MANIFEST, PLAN))


def _manifest(folder: StoreFolder) -> Values:
    if folder.size(MANIFEST) is not None:
        return folder.read_json(MANIFEST)
    if folder.size(PLAN) is not None:
        raise StoreError(
            f"Got {folder.root}, whose preparation has not ended; expected a whole store. Run the same "
            "`neuralrde prepare` again: it goes on where it stopped."
        )
    raise StoreError(f"Got {folder.root}, which is no store; expected what `neuralrde prepare` makes.")


class Shards:
    """The shards of a store, of which those that were used last stay open. Threads share them."""

    def __init__(self, folder: StoreFolder, shards: list[Values]):
        self.folder, self.shards = folder, shards
        self.open = lru_cache(_OPEN)(partial(_OpenShard, folder, shards))

    def __reduce__(self):
        return Shards, (self.folder, self.shards)

    def read(self, places: Sequence[tuple[int, int, np.ndarray]]) -> None:
        """Fill arrays from places in shards: of each its number and the first byte.

        Reads, and not a memory map: pages of a map that have been touched would count as memory of the process, and a
        file that is cut short would end it.
        """
        for number, start, array in places:
            if hasattr(os, "posix_fadvise"):  # the disk can begin with all of them
                os.posix_fadvise(self.open(number).descriptor, start, array.nbytes, os.POSIX_FADV_WILLNEED)
        for number, start, array in places:
            shard = self.open(number)  # evicted by another thread, it stays open while it has a name here
            if array.nbytes and os.preadv(shard.descriptor, [array], start) != array.nbytes:  # type: ignore
                raise self.damaged(number, "it ends before its last series")

    def verify(self) -> None:
        """Read all shards and compare their checksums."""
        for number, shard in enumerate(self.shards):
            start, file, digest = shard["start"], self.open(number), blake2b(digest_size=16)
            while data := os.pread(file.descriptor, 2**22, start):
                digest.update(data)
                start += len(data)
            if digest.hexdigest() != shard["digest"]:
                raise self.damaged(number, OTHER_CHECKSUM)

    def damaged(self, number: int, what: str) -> StoreError:
        return self.folder.damaged(shard_name(number), what)


class _OpenShard:
    """An open file, closed when nobody holds it any more."""

    def __init__(self, folder: StoreFolder, shards: list[Values], number: int):
        self.descriptor = -1
        try:
            self.descriptor = os.open(folder.root / shard_name(number), os.O_RDONLY)
        except FileNotFoundError:
            raise folder.damaged(shard_name(number), "it is not there") from None
        if os.fstat(self.descriptor).st_size != shards[number]["size"]:
            raise folder.damaged(shard_name(number), "it has another size than when it was written")

    def __del__(self):
        if self.descriptor >= 0:
            os.close(self.descriptor)


# Numbers that are read at once for statistics.
_NUMBERS = 2**23


@dataclass(frozen=True)
class StoredExamples:
    """A source of examples, like `Examples`, whose log-signatures stay on the disk.

    Args:
        store: the series.
        basis: of the log-signatures.
        target: one per series, as the loss takes it.
        weight: how much each series counts.
        extra_inputs: one per series each, which come after the store's own.
    """

    store: Store
    basis: Basis = "words"
    target: np.ndarray | None = None
    weight: np.ndarray | None = None
    extra_inputs: Sequence[np.ndarray] = ()

    def __len__(self) -> int:
        return len(self.store)

    def take(self, rows: Selection) -> Examples:
        rows = np.arange(len(self))[rows]
        examples = self.store.take(rows, basis=self.basis)
        chosen = lambda array: None if array is None else array[rows]
        extra = tuple(array[rows] for array in self.extra_inputs)
        return Examples((*examples.inputs, *extra), chosen(self.target), examples.windows, chosen(self.weight))

    @property
    def fingerprint(self) -> str:
        """A checksum of the store, and of the arrays that came with it."""
        return digest_of(self.store.fingerprint, self.basis, self.target, self.weight, *self.extra_inputs)

    def sizes(self) -> LogSignatureSizes:
        """The statistics that a model's scale is fitted to, from one pass over the store in its order."""
        most = max(1, _NUMBERS // (self.store.most_windows * self.store.controls))
        rows = (slice(start, start + most) for start in range(0, len(self), most))
        counts, take = self.store.window_counts, self.store.take
        with prefetched((take(part, basis=self.basis, padded=False).inputs[1], counts[part]) for part in rows) as parts:
            return LogSignatureSizes.of(parts)


def _basis_of(store: Store, model: AbstractModel) -> Basis:
    """The basis in which a model takes log-signatures; an error if it takes something else than the store holds."""
    model = model.first if isinstance(model, Ensemble) else model
    if isinstance(model, ForeignModel):
        return "words"
    if not isinstance(model, AbstractDrivenModel):
        raise StoreError(
            f"Got the model {type(model).__name__}, which is not driven by log-signatures; expected one that is, "
            "because a store holds nothing else. Train it on series in memory."
        )
    if model.takes_increments != store.mixed or (store.mixed and model.basis != "words"):
        raise StoreError(
            f"Got the model {type(model).__name__} and a store that was prepared for {store.model!r}; expected one "
            f"that was prepared for it, because a path of {len(store.path_channels)} channels is mixed for one of "
            "them and not for the other. Prepare the data again with the model's name: `neuralrde prepare --model ...`."
        )
    return model.basis


@dataclass(frozen=True)
class StoreSource:
    """The series of a store, whose log-signatures stay on the disk."""

    store: Store
    static = None

    def __len__(self) -> int:
        return len(self.store)

    def __getitem__(self, rows: Selection) -> "StoreSource":
        return StoreSource(self.store[rows])

    @property
    def series(self) -> Series:
        return Series.from_array(np.arange(float(len(self)))[:, None])  # all different: equal ones are not divided

    @property
    def groups(self) -> np.ndarray | None:
        return self.store.groups

    def targets(self, y: ArrayLike | None, task: str) -> ArrayLike | None:
        if y is not None:
            return y
        task_of_store = self.store.task
        if task_of_store is None:
            raise StoreError(f"Got a store without a target; expected y=..., or one prepared with {setting('target')}.")
        if task_of_store != task:
            names = {"classification": "NeuralRDEClassifier", "regression": "NeuralRDERegressor"}
            raise StoreError(
                f"Got a store of a {task_of_store} for {names[task]}; expected a {task}. Write "
                f"`{names[task_of_store]}()`, or prepare it with {setting('task', task)}."
            )
        return self.store.labels

    def check_possible(self, trainer: Any) -> None:
        windows, given, augmentation = self.store.windows, trainer.given, trainer.parameters.augmentation
        other_windows = given["windows"] is not None and trainer.parameters.windows != windows
        warm, per_time = trainer.parameters.warm_start and trainer.previous is not None, trainer.targets.per_time
        for refused, got, expected, why in (
            (other_windows, setting("windows", given["windows"]), "None", f"the store was cut into {windows!r}"),
            (augmentation is not None, setting("augmentation", augmentation), "None", "its series are as they are"),
            (warm, "warm_start=True", "False", "a store has its own transform; go on by checkpoint= and resume=True"),
            (
                given["transform"] != "standard",
                setting("transform", given["transform"]),
                '"standard"',
                "`prepare` has applied the store's own transform",
            ),
            (per_time, "a target at every point", "one per series", "it holds nothing between the ends of windows"),
        ):
            if refused:
                raise StoreError(f"Got {got} for a store; expected {expected}, because {why}.")

    def whole(self) -> None:
        return None

    def fit_and_prepare(self, transform: Transform) -> tuple[Transform, "StoreSource"]:
        return self.store.transform, self

    def prepared(self, transform: Callable[[Series], Series]) -> "StoreSource":
        if transform != self.store.transform:
            raise self._prepared_otherwise()
        return self

    @property
    def n_channels(self) -> int:
        return len(self.store.path_channels)

    def resolved(self, windows: Windows) -> Windows:
        return self.store.windows

    def window_counts(self, windows: Windows) -> Int[np.ndarray, "samples"]:
        return self.store.window_counts

    def examples(
        self,
        model: Any,
        windows: Windows,
        target: np.ndarray | None = None,
        *,
        weight: np.ndarray | None = None,
        extra_inputs: Sequence[np.ndarray] = (),
        per_time: bool = False,
        **_: object,
    ) -> StoredExamples:
        if windows != self.store.windows:
            raise self._prepared_otherwise()
        if per_time:
            raise StoreError("Got a store for an estimator that predicts at every point; expected series.")
        return StoredExamples(self.store, _basis_of(self.store, model), target, weight, extra_inputs)

    def fit_inputs(self, model: Any, examples: "StoredExamples") -> Any:
        return model.fit_inputs((None, examples.sizes()))

    def check_finite(self, outputs: np.ndarray) -> None:
        wrong = ~np.isfinite(outputs).all(axis=tuple(range(1, outputs.ndim)))
        if wrong.any():
            raise StoreError(
                f"Got series {self.store.ids[int(wrong.argmax())]}, for which the model's prediction is not a finite "
                "number. Look for values in it that are no measurements, and write NaN for them."
            )

    def _prepared_otherwise(self) -> StoreError:
        return StoreError(
            f"Got a store with the windows {self.store.windows!r} and statistics of its own; expected the windows and "
            "the statistics of the training set. Prepare it like the store that was trained from: `neuralrde prepare "
            "DATA STORE --like TRAINED`, or `prepare(..., like=Store(...))`."
        )
