"""Targets, groups and parts in a second file, with a row per series."""

from dataclasses import replace
from pathlib import Path

import numpy as np

from ..errors import setting
from .dataset import Dataset
from .files import ReadError
from .readers import endings, reader_of
from .roles import USUAL, TableOptions, few
from .table import Table, labels_of_series, owners
from .targets import Task, describe_target


def with_labels(data: Dataset, options: TableOptions, task: Task | None = None) -> Dataset:
    """A data set with what the file `options.labels` says of its ids.

    The file is any table with a row per series: `labels_id` names the column of ids, or it is called as the
    data's `id` is, or id. `target`, `group` and `split` are columns of it, given or by their usual names;
    the only column beside the ids is the target.
    """
    path = Path(options.labels or "").expanduser()
    if data.series.ids is None:
        raise ReadError(
            path,
            "Got labels for series that have no ids; expected ids, to find each series' label by. "
            f"Write {setting('id')} to name the data's column of ids.",
        )
    table = _load(path, options)
    owner, ids = owners(table, row_is_series=False)
    assert ids is not None
    # A series that is not in the data needs no label: what is said of the others is checked below.
    labels = labels_of_series(table, replace(options, drop_unlabelled=True, per_time=False), owner, ids)
    # Of prefixed ids (folder of tables) the last part, and of files the name without its ending, will do.
    known = {_bare(id): row for row, id in reversed(list(enumerate(ids)))} | {id: row for row, id in enumerate(ids)}
    wanted = np.asarray(data.series.ids).astype(str)
    place = np.array([known.get(id, known.get(id.rpartition("/")[2], -1)) for id in wanted])
    if (place < 0).all():
        raise ReadError(
            path,
            f"Got no row for {few(wanted[:3].tolist())}, nor for any other series; expected the same "
            f"ids in column {table.roles.id!r}, where {few(ids[:3].tolist())} stand. Write "
            f"{setting('labels_id')} to name another column.",
        )
    lacking = (place < 0) | (True if labels.labelled is None else ~labels.labelled[place])
    if lacking.all() or (lacking.any() and not options.drop_unlabelled):
        names, more = wanted[lacking][:5].tolist(), int(lacking.sum()) - 5
        where = "no row" if (place < 0)[lacking][:5].any() else f"nothing in column {table.roles.target[0]!r}"
        raise ReadError(
            path,
            f"Got {where} for {names}{f' and {more} more' if more > 0 else ''}; expected a target for "
            f"each series. Write {setting('drop_unlabelled', True)} to leave such series out.",
        )
    kept = np.flatnonzero(~lacking)
    chosen = place[kept]
    targets = {name: column[chosen] for name, column in labels.targets.items()}
    fields, described = describe_target(targets, np.full(len(kept), True), task)
    notes = [f"{described} from {path.name}"]
    if lacking.any():
        notes.append(f"{int(lacking.sum())} series without a target left out")
    spare = len(ids) - len(set(place[place >= 0].tolist()))
    if spare:
        notes.append(f"{spare} of its rows are of no series here")
    base = data[kept]
    try:
        return Dataset(
            base.series,
            **fields,
            groups=base.groups if labels.groups is None else labels.groups[chosen],
            split=base.split if labels.split is None else labels.split[chosen],
            name=data.name,
            source=data.source,
            reading="; ".join(filter(None, [data.reading, *notes])),
            time_unit=data.time_unit,
        )
    except ValueError as error:
        raise ReadError(path, str(error)) from None


def _load(path: Path, options: TableOptions) -> Table:
    ask = TableOptions(header=True, decimal=options.decimal, thousands=options.thousands)
    reader = reader_of(path)
    if reader.load is None or reader.names is None:
        raise ReadError(path, f"Got labels in a {reader.endings[0]} file; expected a table with a row per series.")
    names = reader.names(path, True)
    roles = {role: getattr(options, role) for role in ("group", "split") if str(getattr(options, role)) in names}
    id = options.labels_id
    if id is None:
        usual = [name for name in names if name.lower() in USUAL["id"]]
        same = [str(options.id)] if options.id is not None and str(options.id) in names else []
        if not usual + same:
            raise ReadError(
                path,
                f"Got the columns {few(names)}; expected `id`, the names of the series, or "
                f"{setting('labels_id')} to name it.",
                1,
            )
        id = (same + usual)[0]
    targets = [name for name in options.targets if name in names]
    if options.targets and len(targets) < len(options.targets):
        raise ReadError(
            path,
            f"Got {setting('target', options.target)} and the columns {few(names)}; expected the name of one of them.",
            1,
        )
    if not targets and not any(name.lower() in USUAL["target"] for name in names if name != id):
        usual = {word for role, words in USUAL.items() if role in ("group", "split") for word in words}
        others = [name for name in names if name not in (id, *roles.values()) and name.lower() not in usual]
        if len(others) != 1:
            raise ReadError(
                path,
                f"Got the columns {few(names)}; expected `target`, or {setting('target')} to name "
                "the column to predict.",
                1,
            )
        targets = others
    return reader.load(path, replace(ask, id=id, target=targets or None, columns=[], **roles), channels_needed=False)


def _bare(id: str) -> str:
    for ending in (".gz", *endings()):
        id = id.removesuffix(ending)
    return id
