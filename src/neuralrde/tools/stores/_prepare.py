"""`prepare`: from series that do not fit in memory to a store of log-signatures, on all cores, and resumable."""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict
from functools import partial
from threading import Event
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from ..._cores import cores
from ...errors import ParameterError, setting
from ...models import MODELS
from ...paths import Windows
from ...registry import make
from ...transforms import Transform
from ._store import Store
from .files import INDEX, MANIFEST, PLAN, SERIES, SourceError, StoreFolder, checksum, packed, record_name
from .plan import Plan, StoreSpec, as_labels, is_done, make_plan, make_shard
from .rows import PIECE, open_source
from .scan import joined, scan_block

Progress = Callable[[str, int, int], None]
_GIB = 2**30
T = TypeVar("T")


def prepare(
    data: str | os.PathLike,
    store: str | os.PathLike,
    *,
    windows: Windows | int | None = None,
    model: str = "multi-scale-rde",
    transform: str | Transform | Sequence[Transform] = "standard",
    like: Store | None = None,
    target: str | Sequence[str] | None = None,
    id: str | None = None,
    time: str | None = None,
    group: str | None = None,
    columns: Sequence[str] | None = None,
    labels: ArrayLike | str | os.PathLike | None = None,
    groups: ArrayLike | str | os.PathLike | None = None,
    task: str | None = None,
    memory: float = 1.0,
    workers: int | None = None,
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
            Or an .npy file `(series, length, channels)`.
        store: the folder to write.
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
        progress: called with the stage, how much of it is done, and of how much.

    >>> import tempfile
    >>> from pathlib import Path
    >>> folder = Path(tempfile.mkdtemp())
    >>> np.save(folder / "x.npy", np.random.default_rng(0).normal(size=(20, 101, 2)))
    >>> store = prepare(folder / "x.npy", folder / "store", windows=Windows(step=10, depth=2), labels=[0, 1] * 10)
    >>> store
    Store(20 series, 10 windows of 6 numbers; classes 0, 1)
    """
    if not 0.0 < memory < 2**20:
        raise ValueError(f"Got memory={memory!r}; expected GiB above 0. Write for example memory=1.0.")
    named = {"target": target, "id": id, "time": time, "group": group, "columns": columns}
    source = open_source(data, named, labels=labels, groups=groups)
    windows, classes = None if windows is None else Windows.of(windows), None
    if like is not None:
        if windows is not None:
            raise ValueError(
                f"Got both {setting('windows')} and like=; expected one of them, because `like` has its own windows."
            )
        windows, model, transform, classes = like.windows, like.model, like.transform, like.classes
        task = task or like.task
    if model not in MODELS:
        raise ParameterError("model", model, f"one of {list(MODELS)}")
    spec = StoreSpec(source, windows, model, make("transform", transform).expanded(), task, classes)
    key, folder = spec.key, StoreFolder.at(store)
    another = SourceError(
        f"Got the store {store}, which was made from other data or with other options; expected the same to go on with "
        "it. Give another folder, or remove it."
    )
    if folder.size(MANIFEST) is not None:
        whole = Store(store)
        if whole.key != key:
            raise another
        folder.remove_work()
        return whole
    if folder.holds_something_else():
        raise FileExistsError(
            f"Got the folder {store}, which holds something else than a store; expected a new or empty one, because "
            "nothing is overwritten."
        )
    report = progress or (lambda stage, done, of: None)
    run = partial(_in_threads, workers, memory * _GIB)
    if folder.size(PLAN) is not None and folder.size(INDEX) is not None:
        plan = Plan.read(folder)
    else:
        tasks = ((source, block, not spec.transform.is_fitted) for block in range(len(source.blocks)))
        scanned = run(scan_block, tasks, len(source.blocks), 8 * PIECE)
        series = joined(source, _reported(scanned, "first look", 0, len(source.blocks), report))
        found = None if series.target is None else as_labels(series.target, task, classes)
        arrays = {"lengths": series.lengths, "ids": series.ids}
        arrays |= {} if found is None else {"target": found[0]}
        index = packed(arrays | ({} if series.groups is None else {"groups": series.groups}))
        plan = make_plan(spec, series, found, checksum(index), int(memory * _GIB))
        folder.write(INDEX, index)
        folder.write_json(PLAN, asdict(plan))  # last: where it is, the index is whole
    if plan.key != key:
        raise another
    index = folder.read_arrays(INDEX, plan.index)
    left = [number for number in range(len(plan.shards)) if not is_done(folder, number)]
    done = len(plan.shards) - len(left)
    report("log-signatures", done, len(plan.shards))
    tasks = ((source, plan, i, index["lengths"][slice(*plan.shards[i])], folder) for i in left)
    made = run(make_shard, tasks, len(left), plan.most * plan.per_point)
    deque(_reported(made, "log-signatures", done, len(plan.shards), report), maxlen=0)
    _finish(folder, plan, index)
    return Store(store)


def _reported(results: Iterator[T], stage: str, done: int, of: int, report: Progress) -> Iterator[T]:
    for number, result in enumerate(results, done + 1):
        yield result
        report(stage, number, of)


def _finish(folder: StoreFolder, plan: Plan, index: dict[str, np.ndarray]) -> None:
    """Write one file about all series, and the manifest, which is the last: a store that has one is whole."""
    records = [folder.read_arrays(record_name(number)) for number in range(len(plan.shards))]
    data = packed(index | {name: np.concatenate([r[name] for r in records]) for name in ("first", "windows", "sums")})
    folder.write(SERIES, data)
    shards = [
        {"series": list(series), "start": int(r["start"]), "size": int(r["size"]), "digest": str(r["digest"])}
        for series, r in zip(plan.shards, records, strict=True)
    ]
    work = ("index", "most", "per_point", "places")
    said = {name: value for name, value in asdict(plan).items() if name not in work}
    folder.write_json(MANIFEST, said | {"series": {"digest": checksum(data)}, "shards": shards})
    folder.remove_work()


def _in_threads(
    workers: int | None,
    memory: float,
    function: Callable[..., T],
    tasks: Iterable[tuple[object, ...]],
    count: int,
    needs: float,
) -> Iterator[T]:
    """Run tasks on all cores, as many at a time as fit into the memory; results in order. The first error ends all.

    The kernel, pyarrow and NumPy release the interpreter's lock where they work.
    """
    from joblib import Parallel, delayed

    workers = min(workers or cores(), max(1, int(0.75 * memory / max(needs, 1))), max(1, count))
    stopped = Event()
    how: Any = {"pre_dispatch": workers + 1, "batch_size": 1, "return_as": "generator"}
    run = Parallel(workers, backend="threading", **how)
    try:
        yield from run(delayed(function)(*task, stopped.is_set) for task in tasks)  # type: ignore
    finally:
        stopped.set()
