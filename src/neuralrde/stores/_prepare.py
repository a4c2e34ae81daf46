"""`prepare`: from series that do not fit in memory to a store of log-signatures, on all cores, and resumable."""

import os
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from ..models import MODELS
from ..paths import Windows
from ..registry import make
from ..transforms import Transform
from ._store import Store
from .files import is_url
from .index import Index, look_at
from .npy import NpySource
from .place import Place
from .plan import INDEX, MANIFEST, PLAN, SERIES, Asked, Plan, checksum, index_file, make_plan, packed, sealed, unpacked
from .pool import pool_of
from .rows import RowSource, SourceError
from .shard import is_done, make_shard, record_name
from .statistics import is_fitted
from .tables import NAMED, kinds

Progress = Callable[[str, int, int], None]
_GIB = 2**30


def prepare(
    data: str | os.PathLike,
    store: str | os.PathLike,
    *,
    windows: Windows | int | None = None,
    model: str = "multi-scale-rde",
    transform: Any = "standard",
    like: Store | None = None,
    target: str | Sequence[str] | None = None,
    id: str | None = None,
    time: str | None = None,
    group: str | None = None,
    columns: Sequence[str] | None = None,
    labels: Any = None,
    groups: Any = None,
    task: str | None = None,
    memory: float = 1.0,
    workers: int | None = None,
    ray: str | bool | None = None,
    progress: Progress | None = None,
) -> Store:
    """Write the log-signatures of series that need not fit in memory into a store, from which models are trained.

    The data are read twice. The first look finds where series begin and learns the transform's statistics, as `fit`
    would from all of them. The second computes log-signatures, in shards. With `like`, or a fitted transform, the first
    look at a Parquet file reads ids and times only.

    Interrupted at any moment, the same call goes on where it stopped, and ends with the same files, byte for byte. A
    store that is whole is given back as it is.

    Args:
        data: a Parquet or CSV file, or a folder of them: a long table, a row per point, sorted by id and then by time.
            Or an .npy file `(series, length, channels)`. A URL (`s3://...`) is read through fsspec.
        store: the folder to write, or a URL.
        windows: where to cut and how deep; None takes what is usual for the model.
        model: the short name of the model that the store is for. It decides about the usual windows, and whether paths
            of many channels are mixed; models that agree in that can be trained from the same store.
        transform: as for estimators: "standard", a transform, or a fitted one.
        like: another store, whose transform, windows and classes are taken: for a test set.
        target, id, time, group, columns: which column of a table is what, as in `neuralrde.read`.
        labels, groups: for .npy data, arrays or .npy files with one entry per series.
        task: "classification" or "regression"; None decides as `neuralrde.read` does.
        memory: GiB to work with, beside what the libraries take (about 0.3 GiB). A series that needs more is cut in
            time, and its log-signatures are joined exactly.
        workers: threads; None takes as many as there are cores and memory.
        ray: instead of threads, tasks on a Ray cluster: its address, or True for one on this machine. All nodes must
            reach the data and the store.
        progress: told the stage, how much of it is done, and of how much.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> np.save(folder / "x.npy", np.random.default_rng(0).normal(size=(20, 101, 2)))
    >>> store = prepare(folder / "x.npy", folder / "store", windows=Windows(step=10, depth=2), labels=[0, 1] * 10)
    >>> store
    Store(20 series, 10 windows of 6 numbers; classes 0, 1)
    """
    if not 0.0 < memory < 2**20:
        raise ValueError(f"Got memory={memory!r}; expected GiB above 0. Write for example memory=1.0.")
    named = {"target": target, "id": id, "time": time, "group": group, "columns": columns}
    source = open_source(data, labels=labels, groups=groups, **named)
    if like is not None:
        if windows is not None:
            raise ValueError("Got both windows= and like=; expected one of them, because `like` has its own windows.")
        windows, model, transform, classes = like.windows, like.model, like.transform, like.classes
        task = task or like.task
    else:
        windows, classes = None if windows is None else Windows.of(windows), None
    if model not in MODELS:
        raise ValueError(f"Got model={model!r}; expected one of {list(MODELS)}.")
    transform = make("transform", transform).expanded()
    asked, place = Asked.of(source, windows, model, transform, task, classes), Place.at(store)
    if place.size(MANIFEST) is not None:
        found = Store(store)
        if found.key != asked.key:
            raise _another(store)
        place.tidy("work")
        return found
    if place.occupied() and place.size(PLAN) is None and not _only_partial(place):
        raise FileExistsError(
            f"Got the folder {store}, which holds something else than a store; expected a new or empty one, because "
            "nothing is overwritten."
        )
    told = progress or (lambda stage, done, of: None)
    with pool_of(ray, workers, memory) as pool:
        plan = _planned(pool, source, asked, windows, transform, place, int(memory * _GIB), told)
        if plan.key != asked.key:
            raise _another(store)
        index = unpacked(place, INDEX, plan.index)
        left = [number for number in range(len(plan.shards)) if not is_done(place, plan, number)]
        done = len(plan.shards) - len(left)
        told("log-signatures", done, len(plan.shards))
        tasks = ((source, plan, i, index["lengths"][slice(*plan.shards[i])], place) for i in left)
        for _ in pool.each(make_shard, tasks, len(left), plan.most * plan.per_point):
            done += 1
            told("log-signatures", done, len(plan.shards))
    _finish(place, plan, index)
    return Store(store)


def _planned(
    pool: Any, source: RowSource, asked: Asked, windows: Any, transform: Transform, place: Place, memory: int, told: Any
) -> Plan:
    """What an earlier call has decided, or a first look at all data."""
    if place.size(PLAN) is not None and place.size(INDEX) is not None:
        return Plan.read(place)
    index, values = Index(source), not is_fitted(transform)
    looks = pool.each(_look, ((source, block, values) for block in range(source.blocks)), source.blocks, 8 * 2**24)
    for block, found in enumerate(looks):
        index.add(block, found)
        told("first look", block + 1, source.blocks)
    index.check()
    file = index_file(index, asked)
    plan = replace(make_plan(asked, index, windows, transform, memory), index=checksum(file))
    place.write(INDEX, file)
    place.write(PLAN, sealed(asdict(plan)))  # last: where it is, the index is whole
    return plan


def _look(source: RowSource, block: int, values: bool, stop: Any = None) -> Any:
    return look_at(source, block, values=values)


def _finish(place: Place, plan: Plan, index: dict[str, np.ndarray]) -> None:
    """One file about all series, and the manifest, which is written last: a store that has one is whole."""
    records = [unpacked(place, record_name(number)) for number in range(len(plan.shards))]
    series = index | {name: np.concatenate([one[name] for one in records]) for name in ("first", "windows", "sums")}
    data = packed(series)
    place.write(SERIES, data)
    shards = [
        {
            "series": list(plan.shards[number]),
            "start": int(one["start"]),
            "size": int(one["size"]),
            "digest": str(one["digest"]),
        }
        for number, one in enumerate(records)
    ]
    manifest = {
        "key": plan.key,
        "model": plan.model,
        "channels": list(plan.channels),
        "path_channels": list(plan.path_channels),
        "timed": plan.timed,
        "transform": plan.transform,
        "windows": plan.windows,
        "mixed": plan.projection is not None,
        "controls": plan.driver.controls,
        "task": plan.task,
        "classes": plan.classes,
        "series": {"digest": checksum(data)},
        "shards": shards,
    }
    place.write(MANIFEST, sealed(manifest))
    place.tidy("work")


def open_source(data: str | os.PathLike, *, labels: Any = None, groups: Any = None, **named: Any) -> RowSource:
    """A source by the ending of its files."""
    given = {name: value for name, value in named.items() if value is not None and name in NAMED}
    for endings, kind in kinds().items():
        if not _has_ending(data, endings):
            continue
        if kind is NpySource:
            if given:
                raise ValueError(f"Got {sorted(given)} for .npy data, which have no columns; expected labels= instead.")
            return NpySource.open(data, labels=labels, groups=groups)  # type: ignore  # its class is a dataclass
        if labels is not None or groups is not None:
            raise ValueError("Got labels= or groups= for a table; expected target= and group=, the names of columns.")
        return kind.open(data, **given)
    every = [ending for endings in kinds() for ending in endings]
    raise SourceError(f"Got {str(data)!r}; expected a file, or a folder of files, that end in {', '.join(every)}.")


def _has_ending(data: str | os.PathLike, endings: Sequence[str]) -> bool:
    if str(data).lower().endswith(tuple(endings)):
        return True
    if is_url(data):
        return False
    path = Path(data).expanduser()
    return path.is_dir() and any(one.name.lower().endswith(tuple(endings)) for one in path.rglob("*"))


def _another(store: Any) -> SourceError:
    return SourceError(
        f"Got the store {store}, which was made from other data or with other options; expected the same to go on with "
        "it. Give another folder, or remove it."
    )


def _only_partial(place: Place) -> bool:
    """Whether nothing is there but what an interruption may leave behind before there is a plan."""
    return not place.remote and all(one.name in ("work", "shards") for one in Path(place.root).iterdir())
