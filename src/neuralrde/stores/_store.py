"""A store: a training set whose log-signatures are on a disk and are read when they are needed."""

import os
import threading
import zlib
from collections import OrderedDict
from collections.abc import Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from ..paths import Windows
from ..paths.checks import check_fits
from ..signatures.bases import Basis, change_bases
from ..training import Examples
from ..transforms import Transform
from .format import MANIFEST, OTHER_CHECKSUM, PLAN, SERIES, Json, Location, StoreError, shard_name
from .plan import windows_from_json

# Files of shards that are open at once.
_OPEN = 128


class Store:
    """Series that `prepare` has written to a disk. It can be used wherever a training set can, and is read as needed.

    Only a few numbers per series are in memory; the log-signatures stay on the disk. The manifest and each series have
    a checksum, which is compared whenever they are read.

    Args:
        location: the folder, or a URL.
        cache: where copies of the shards of a URL are kept; None is the user's cache folder.

    Attributes:
        target: numbers of `classes`, or `(series, outputs)` numbers; None if the data have no target.
        classes: labels by their numbers; None for a regression.
        ids, groups: one id and one group per series.
        transform: the fitted transform.
        windows: how series were cut.
        fingerprint: the checksum of the manifest, which has the checksums of all files.
    """

    def __init__(self, location: str | os.PathLike, *, cache: str | os.PathLike | None = None):
        self._location = Location.at(location)
        self._manifest = _manifest(self._location)
        self.fingerprint = self._manifest["checksum"]
        self._series = self._location.read_arrays(SERIES, self._manifest["series"]["digest"])
        self._rows = np.arange(len(self._series["windows"]))
        firsts = np.concatenate([[0], np.cumsum(self._series["windows"])])
        begins = np.array([shard["series"][0] for shard in self._manifest["shards"]])
        self._shard = np.searchsorted(begins, self._rows, side="right") - 1
        starts = np.array([shard["start"] for shard in self._manifest["shards"]])
        self._byte = starts[self._shard] + 4 * self.controls * (firsts[:-1] - firsts[begins][self._shard])
        self._files = ShardFiles(self._location, self._manifest, _cache_folder(cache) / self.fingerprint)

    # What the store holds.

    @property
    def key(self) -> str:
        """A checksum of the data and options that the store was made from."""
        return self._manifest["key"]

    @property
    def model(self) -> str:
        """The short name of the model that the store was made for."""
        return self._manifest["model"]

    @property
    def transform(self) -> Transform:
        return Transform.from_state(self._manifest["transform"])

    @property
    def windows(self) -> Windows:
        return windows_from_json(self._manifest["windows"])

    @property
    def channels(self) -> tuple[str, ...]:
        """The channels of the series before they were prepared."""
        return tuple(self._manifest["channels"])

    @property
    def path_channels(self) -> tuple[str, ...]:
        """The channels of the paths whose log-signatures are stored."""
        return tuple(self._manifest["path_channels"])

    @property
    def controls(self) -> int:
        """Numbers per window."""
        return int(self._manifest["controls"])

    @property
    def mixed(self) -> bool:
        """Whether the log-signatures are those of mixtures of channels, which `MultiScaleRDE` makes of many."""
        return bool(self._manifest["mixed"])

    @property
    def task(self) -> str | None:
        """ "classification", "regression", or None where there is no target."""
        return self._manifest["task"]

    @property
    def classes(self) -> list[Any] | None:
        return self._manifest["classes"]

    @property
    def target(self) -> Any:
        return None if "target" not in self._series else self._series["target"][self._rows]

    @property
    def labels(self) -> Any:
        """The targets as a user gives them: labels, or numbers; `(series,)` if there is one per series."""
        if self.target is None:
            return None
        if self.classes is not None:
            return np.array(self.classes)[self.target]
        return self.target[:, 0] if self.target.shape[1] == 1 else self.target

    @property
    def ids(self) -> np.ndarray:
        return self._series["ids"][self._rows]

    @property
    def groups(self) -> np.ndarray | None:
        return None if "groups" not in self._series else self._series["groups"][self._rows]

    @property
    def lengths(self) -> Int[np.ndarray, "series"]:
        """The number of points of each series."""
        return self._series["lengths"][self._rows]

    @property
    def window_counts(self) -> Int[np.ndarray, "series"]:
        """The number of windows of each series."""
        return self._series["windows"][self._rows]

    @property
    def most_windows(self) -> int:
        """The largest number of windows in the whole store, so that every part of it has arrays of the same shape."""
        return int(self._series["windows"].max())

    @property
    def ragged(self) -> bool:
        """Whether series may differ in their number of windows, which a model must then know."""
        every = self._manifest["windows"]["every"] is not None
        return every or len(np.unique(self._series["lengths"])) > 1

    def as_source(self) -> Any:
        """This store as estimators take it: a source of samples."""
        from .samples import StoreSource  # it is made of stores

        return StoreSource(self)

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, rows: Any) -> "Store":
        """Some of the series, by a slice, a mask or numbers; nothing is read."""
        part = object.__new__(Store)
        vars(part).update(vars(self))
        part._rows = np.atleast_1d(self._rows[rows])
        if len(part._rows) < len(self) or not np.array_equal(part._rows, self._rows):
            chosen = blake2b(np.ascontiguousarray(part._rows, np.int64).data, digest_size=16).hexdigest()
            part.fingerprint = blake2b(f"{self.fingerprint} {chosen}".encode(), digest_size=16).hexdigest()
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

    # A source of examples.

    weight = None
    """All series count alike; see `neuralrde.training.Examples`."""

    def take(self, rows: Any, *, basis: Basis = "words", padded: bool = True) -> Examples:
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
            logs = self._changed(logs, basis)
        return Examples(
            (self._series["first"][rows], logs),
            None if "target" not in self._series else self._series["target"][rows],
            windows=counts if self.ragged else None,
        )

    def _logs(self, rows: np.ndarray, counts: np.ndarray, most: int) -> Float[np.ndarray, "rows windows controls"]:
        shape = len(rows), most, self.controls
        check_fits(
            4.0 * np.prod(shape, dtype=np.float64),
            f"The log-signatures of {len(rows)} series, padded to {most} windows of {self.controls} numbers,",
            "Take fewer series at once: a smaller batch_size, or a part of the store.",
        )
        out = np.zeros(shape, "<f4")
        views = [own[:count].reshape(-1) for own, count in zip(out, counts.tolist(), strict=True)]
        places = [(int(self._shard[row]), int(self._byte[row])) for row in rows.tolist()]
        self._files.read([(*place, view) for place, view in zip(places, views, strict=True)])
        for row, view, place in zip(rows.tolist(), views, places, strict=True):
            if zlib.crc32(view.data) != int(self._series["sums"][row]):
                what = f"series {self._series['ids'][row]} has another checksum than when it was written"
                raise self._files.damaged(place[0], what)
        return out

    def _changed(self, logs: np.ndarray, basis: Basis) -> np.ndarray:
        if self.mixed:
            raise StoreError(f"Got basis={basis!r} for a store of mixtures; expected words. Prepare it for that model.")
        flat = change_bases(
            logs.reshape(-1, self.controls), len(self.path_channels), self.windows.depths, old="words", new=basis
        )
        return np.ascontiguousarray(flat, np.float32).reshape(*logs.shape[:2], -1)

    def verify(self) -> None:
        """Read everything and compare all checksums; an error names the first file that is damaged."""
        for number in range(len(self._manifest["shards"])):
            self._files.verify(number)

    def close(self) -> None:
        """Close the files; they are opened again if they are needed."""
        self._files.close()


def is_store(path: str | os.PathLike) -> bool:
    """Whether there is a store at a path or URL, whole or begun."""
    location = Location.at(path)
    return any(location.size(name) is not None for name in (MANIFEST, PLAN))


def _manifest(location: Location) -> Json:
    if location.size(MANIFEST) is None:
        if location.size(PLAN) is not None:
            raise StoreError(
                f"Got {location.root}, whose preparation has not ended; expected a whole store. Run the same "
                "`neuralrde prepare` again: it goes on where it stopped."
            )
        raise StoreError(f"Got {location.root}, which is no store; expected what `neuralrde prepare` makes.")
    return location.read_json(MANIFEST)


def _cache_folder(cache: str | os.PathLike | None) -> Path:
    if cache is not None:
        return Path(cache).expanduser()
    from platformdirs import user_cache_dir

    return Path(user_cache_dir("neuralrde")) / "stores"


class ShardFiles:
    """Shards that are open, the least recently used of which is closed. Threads share them."""

    def __init__(self, location: Location, manifest: Json, cache: Path):
        self.location, self.manifest, self.cache = location, manifest, cache
        self._open: OrderedDict[int, int] = OrderedDict()
        self._lock = threading.Lock()

    def descriptor(self, number: int) -> int:
        """Of a shard; see `read`, which holds the lock."""
        if number not in self._open:
            shard = self.manifest["shards"][number]
            try:
                self._open[number] = os.open(self.location.local(shard_name(number), self.cache), os.O_RDONLY)
            except FileNotFoundError:
                raise self.damaged(number, "it is not there") from None
            if os.fstat(self._open[number]).st_size != shard["size"]:
                os.close(self._open.pop(number))
                raise self.damaged(number, "it has another size than when it was written")
            if len(self._open) > _OPEN:
                os.close(self._open.popitem(last=False)[1])
        self._open.move_to_end(number)
        return self._open[number]

    def read(self, places: Sequence[tuple[int, int, np.ndarray]]) -> None:
        """Fill arrays from places in shards: of each its number and the first byte.

        Reads, and not a memory map: pages of a map that have been touched would count as memory of the process, and a
        file that is cut short would end it.
        """
        with self._lock:
            for number, start, array in places:
                if hasattr(os, "posix_fadvise"):  # the disk can begin with all of them
                    os.posix_fadvise(self.descriptor(number), start, array.nbytes, os.POSIX_FADV_WILLNEED)
            for number, start, array in places:
                if array.nbytes and os.preadv(self.descriptor(number), [array], start) != array.nbytes:  # type: ignore
                    raise self.damaged(number, "it ends before its last series")

    def verify(self, number: int) -> None:
        """Read a whole shard and compare its checksum."""
        shard, digest = self.manifest["shards"][number], blake2b(digest_size=16)
        start = shard["start"]
        with self._lock:
            while data := os.pread(self.descriptor(number), 2**22, start):
                digest.update(data)
                start += len(data)
        if digest.hexdigest() != shard["digest"]:
            raise self.damaged(number, OTHER_CHECKSUM)

    def damaged(self, number: int, what: str) -> StoreError:
        """What is said of a shard; a copy of it is removed, so that the next to ask gets it from where it is whole."""
        if self.location.remote:
            (self.cache / shard_name(number)).unlink(missing_ok=True)
        return self.location.damaged(shard_name(number), what)

    def close(self) -> None:
        with self._lock:
            while self._open:
                os.close(self._open.popitem()[1])

    def __del__(self):
        self.close()

    def __reduce__(self):
        return ShardFiles, (self.location, self.manifest, self.cache)
