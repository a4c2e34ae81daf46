"""Folders: a training and a test file, parts in sub-folders, classes in sub-folders, or a file a series."""

import csv
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from neuralrde.paths import concatenate

from .dataset import Dataset, pool
from .errors import ReadError
from .table import find_roles
from .targets import Task
from .text import is_no_label, open_text

_PAIR = re.compile(r"(.*?)_?(train|test|val|validation)", re.IGNORECASE)
_PARTS = {
    "train": "train",
    "training": "train",
    "val": "validation",
    "validation": "validation",
    "test": "test",
}
_LABELS = "labels.csv"


def read_folder(
    path: str | Path,
    *,
    reader: Callable[..., Dataset],
    task: Task | None = None,
    name: str | None = None,
    **options: Any,
) -> Dataset:
    """Read a folder of series in one of four layouts, tried in this order.

    1. `NAME_TRAIN.ts` and `NAME_TEST.ts` (or another format; `_VALIDATION` too): one data set with its split.
    2. Sub-folders `train`, `test` (and `validation`), each in layout 3 or 4: one data set with its split.
    3. Sub-folders of files, a file a series: a sub-folder is a class.
    4. Files, a file a series. `labels.csv` beside them, if there, has a column `id` with the files' names
       (without their endings), and `target`, and perhaps `group` and `split`.

    A file's name, without its ending, is the id of its series; hidden files and SOURCE, README and LICENSE
    are passed over.

    Args:
        path: the folder.
        reader: reads one file.
        task: as in `Dataset`.
        name: of the data set; None takes the folder's.
        options: for the reader of the files.
    """
    path = Path(path)
    folders, files = _inside(path)
    name = name or path.name
    pair = _pair(files)
    if pair:
        parts = [_marked(reader(file, task=task, **options), part) for part, file in pair]
        return replace(_pooled(parts, path), name=name if len(_names(pair)) != 1 else _names(pair).pop())
    if folders and all(folder.name.lower() in _PARTS for folder in folders):
        parts = [
            _marked(read_folder(folder, reader=reader, task=task, **options), _PARTS[folder.name.lower()])
            for folder in folders
        ]
        return replace(_pooled(parts, path), name=name)
    if folders:
        if files:
            raise ReadError(
                path,
                f"Got the sub-folders {[f.name for f in folders][:5]} beside the files "
                f"{[f.name for f in files][:5]}; expected sub-folders only (a class each), or files only (a "
                "series each).",
            )
        # A sub-folder is the class, whatever else a file may hold.
        parts = [(folder.name, _a_file_a_series(_inside(folder)[1], folder, reader, options)) for folder in folders]
        series = concatenate([part.series for _, part in parts])
        target = [label for label, part in parts for _ in range(len(part))]
        return Dataset(series, target, task=task or "classification", name=name)
    labels = [file for file in files if file.name.lower() == _LABELS]
    own = options if labels else options | {"task": task}
    data = _a_file_a_series([file for file in files if file not in labels], path, reader, own)
    return replace(_labelled(data, labels[0], task) if labels else data, name=name)


def _inside(path: Path) -> tuple[list[Path], list[Path]]:
    things = sorted(thing for thing in path.iterdir() if not thing.name.startswith((".", "_")))
    notes = ("source", "readme", "license")
    files = [thing for thing in things if thing.is_file() and not thing.name.lower().startswith(notes)]
    return [thing for thing in things if thing.is_dir()], files


def first_file(path: Path) -> Path | None:
    """The first file of series in a folder of any layout; None in an empty one."""
    folders, files = _inside(path)
    pair = [file for _, file in _pair(files)]  # beside which anything may lie
    found = pair or [file for file in files if file.name.lower() != _LABELS]
    return found[0] if found else next(filter(None, map(first_file, folders)), None)


def _stem(file: Path) -> str:
    return file.name.removesuffix(".gz").rsplit(".", 1)[0]


def _pair(files: list[Path]) -> list[tuple[str, Path]]:
    """Files that are parts of one data set, training first; the first format of which there is a pair."""
    found: dict[str, dict[str, Path]] = {}
    for file in files:
        match = _PAIR.fullmatch(_stem(file))
        if match:
            kind = file.name.removesuffix(".gz").rsplit(".", 1)[-1].lower()
            found.setdefault(f"{match[1]}.{kind}", {})[_PARTS[match[2].lower()]] = file
    pairs = [parts for parts in found.values() if len(parts) > 1]
    # Archives hold a set in several formats and versions (NAME_eq_TRAIN.ts): the shortest name, .ts first.
    pairs.sort(
        key=lambda parts: min(
            (not file.name.lower().endswith((".ts", ".ts.gz")), len(file.name)) for file in parts.values()
        )
    )
    return [(part, pairs[0][part]) for part in ("train", "validation", "test") if part in pairs[0]] if pairs else []


def _names(pair: list[tuple[str, Path]]) -> set[str]:
    matches = (_PAIR.fullmatch(_stem(file)) for _, file in pair)
    return {match[1] for match in matches if match and match[1]}


def _marked(data: Dataset, part: str) -> Dataset:
    return replace(data, split=np.full(len(data), part))


def _pooled(parts: list[Dataset], path: Path) -> Dataset:
    try:
        return pool(parts)
    except ValueError as error:
        raise ReadError(path, str(error)) from None


def _a_file_a_series(files: list[Path], path: Path, reader: Callable[..., Dataset], options) -> Dataset:
    if not files:
        raise ReadError(path, "Got a folder without files; expected a file a series, or NAME_TRAIN and NAME_TEST.")
    parts = []
    for file in files:
        data = reader(file, one=True, **options)
        if len(data) != 1:
            raise ReadError(
                file,
                f"Got {len(data)} series; expected one, because {path} holds a file a series. Read this file "
                "by itself.",
            )
        ids = np.array([_stem(file)])
        parts.append(replace(data, series=replace(data.series, ids=ids)))
    return _pooled(parts, path)


def _labelled(data: Dataset, labels: Path, task: Task | None) -> Dataset:
    with open_text(labels) as file:
        rows = list(csv.DictReader(file, skipinitialspace=True))
    names = list(rows[0]) if rows else []
    roles = find_roles([*names, "\0"], labels)  # no channel is needed here
    if roles.id is None or roles.target is None:
        raise ReadError(labels, f"Got the columns {names}; expected `id`, the files' names, and `target`.", line=1)
    ids = {row[roles.id].strip(): i for i, row in enumerate(rows)}
    wanted = np.asarray(data.series.ids).tolist()
    absent = [id for id in wanted if id not in ids]
    if absent:
        raise ReadError(labels, f"Got no row for {absent[:5]}; expected one for each file, without its ending.")

    def pick(column: str | None):
        if column is None:
            return None
        cells = [(rows[ids[id]][column] or "").strip() for id in wanted]
        empty = [id for id, cell in zip(wanted, cells, strict=True) if is_no_label(cell)]
        if empty:
            raise ReadError(labels, f"Got nothing for {empty[:5]} in column {column!r}; expected a value for each.")
        return np.array(cells)

    try:
        return Dataset(data.series, pick(roles.target), task=task, groups=pick(roles.group), split=pick(roles.split))
    except ValueError as error:
        raise ReadError(labels, str(error)) from None
