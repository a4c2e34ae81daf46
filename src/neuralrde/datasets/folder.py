"""Folders: a training and a test file, parts in sub-folders, classes in sub-folders, or a file per series."""

import re
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from .dataset import Dataset, concatenate
from .files import ReadError
from .labels import with_labels
from .readers import load_table, read_file, reader_of
from .roles import TableOptions
from .table import Table, from_table, join_tables, with_columns
from .targets import Task

_PAIR = re.compile(r"(.*?)_?(train|test|val|validation)", re.IGNORECASE)
_PARTS = {
    "train": "train",
    "training": "train",
    "val": "validation",
    "validation": "validation",
    "test": "test",
}
_LABELS = "labels.csv"
_FILE = "(file)"  # the column of ids that the files' names make


def read_folder(
    path: str | Path,
    *,
    options: TableOptions,
    task: Task | None = None,
    name: str | None = None,
) -> Dataset:
    """Read a folder of series in one of four layouts, tried in this order.

    1. `NAME_TRAIN.ts` and `NAME_TEST.ts` (or another format; `_VALIDATION` too): one data set with its split.
    2. Sub-folders `train`, `test` (and `validation`), each in layout 3 or 4: one data set with its split.
    3. Sub-folders of files: a sub-folder is a class.
    4. Files.

    A file of layouts 2 to 4 is one series, whose id is the file's name without its ending, or a table with a
    column of ids and any number of series. `labels.csv` beside the files is the table `labels`. Hidden files and
    SOURCE, README and LICENSE are passed over.

    Args:
        path: the folder.
        options: of tables, see `read`.
        task: as in `Dataset`.
        name: of the data set; None takes the folder's.
    """
    path = Path(path)
    found = _find(path)
    if not found.files:
        raise ReadError(path, "Got a folder without files; expected a file per series, or NAME_TRAIN and NAME_TEST.")
    labels = found.labels if options.labels is None else Path(options.labels).expanduser()
    found = replace(found, files=[file for file in found.files if not _same(file.path, labels)])
    if labels is not None:
        options = replace(options, labels=labels)
    if all(reader_of(file.path).load for file in found.files):
        data = _from_tables(path, found, options, task)
    else:
        data = _from_files(path, found, options, task)
    data = replace(data, name=name or found.name or path.name)
    return data if labels is None else with_labels(data, options, task)


@dataclass(frozen=True)
class _File:
    path: Path
    part: str | None = None
    label: str | None = None


@dataclass(frozen=True)
class _Found:
    files: list[_File]
    single: bool = True  # whether a file without ids is one series
    labels: Path | None = None
    name: str = ""


def _find(path: Path) -> _Found:
    """The files of a folder, with the parts and classes that their places say."""
    folders, files = _inside(path)
    pair = _pair(files)
    if pair:
        names = _names(pair)
        return _Found(
            [_File(file, part=part) for part, file in pair], single=False, name=names.pop() if len(names) == 1 else ""
        )
    if folders and all(folder.name.lower() in _PARTS for folder in folders):
        found = [(_PARTS[folder.name.lower()], _find(folder)) for folder in folders]
        marked = [replace(file, part=part) for part, one in found for file in one.files]
        labels = [file for file in files if file.name.lower() == _LABELS] + [
            one.labels for _, one in found if one.labels is not None
        ]
        return _Found(marked, labels=labels[0] if labels else None)
    if folders:
        if [file for file in files if file.name.lower() != _LABELS]:
            raise ReadError(
                path,
                f"Got the sub-folders {[f.name for f in folders][:5]} beside the files {[f.name for f in files][:5]}; "
                "expected sub-folders only (a class each), or files only (a series each).",
            )
        inside = [_File(file, label=folder.name) for folder in folders for file in _inside(folder)[1]]
        return _Found(inside)
    labels = [file for file in files if file.name.lower() == _LABELS]
    others = [_File(file) for file in files if file not in labels]
    return _Found(others, labels=labels[0] if labels else None)


def _same(file: Path, other: Path | None) -> bool:
    return other is not None and other.exists() and file.samefile(other)


def _from_tables(path: Path, found: _Found, options: TableOptions, task: Task | None) -> Dataset:
    """All rows in one table, so that they are understood in one way."""
    names = [str(file.path.relative_to(path).with_name(_stem(file.path))) for file in found.files]
    twice = [name for name in names if names.count(name) > 1]
    if twice and found.single:
        both = [file.path.name for file, name in zip(found.files, names, strict=True) if name == twice[0]]
        raise ReadError(path, f"Got the files {both}; expected different names, because a name is an id.")
    tables = []
    for file, name in zip(found.files, names, strict=True):
        table = load_table(file.path, options, reader_of(file.path))
        places, roles = {}, table.roles
        if found.single and roles.id is None:
            places[_FILE], roles = name, replace(roles, id=_FILE)
        if file.part is not None:
            places["(part)"], roles = file.part, replace(roles, split="(part)")
        if file.label is not None:
            places["(folder)"], roles = file.label, replace(roles, target=("(folder)",))
        tables.append(replace(table, frame=with_columns(table.frame, places), roles=roles))
    by_file = tables[0].roles.id == _FILE
    if not by_file:
        tables = _with_prefixes(tables, names)
    elif any(table.roles.id != _FILE for table in tables):
        raise ReadError(path, "Got tables with a column of ids beside tables without; expected all alike.")
    whole = join_tables(tables, path)
    if by_file:
        options = replace(options, wide=options.wide if options.wide is not None else False)
    if any(file.label is not None for file in found.files):
        task = task or "classification"
    data = from_table(whole, replace(options, labels=None, labels_id=None), task=task)
    if not by_file:
        return data
    stems = np.array([id.rpartition("/")[2] for id in np.asarray(data.series.ids).tolist()])
    return replace(data, series=replace(data.series, ids=stems))


def _with_prefixes(tables: list[Table], names: list[str]) -> list[Table]:
    """An id in two files may be of two series: then ids are told apart by their files."""
    if any(table.roles.id is None for table in tables):
        return tables
    seen, twice = set(), set()
    for table in tables:
        ids = set(table.frame[table.roles.id])
        twice |= seen & ids
        seen |= ids
    if not twice:
        return tables
    note = f"ids begin with the file's name, because {min(twice)} is in two files"
    return [
        table.noting(note, frame=with_columns(table.frame, {id: f"{name}/" + table.frame[id]}))
        for table, name in zip(tables, names, strict=True)
        if (id := table.roles.id) is not None
    ]


def _from_files(path: Path, found: _Found, options: TableOptions, task: Task | None) -> Dataset:
    """Files in other formats than tables: one data set each, joined."""
    parts = []
    for file in found.files:
        own = task if file.label is None and options.labels is None else None
        data = read_file(file.path, replace(options, wide=False) if reader_of(file.path).load else options, task=own)
        if found.single:
            if len(data) != 1:
                raise ReadError(
                    file.path,
                    f"Got {len(data)} series; expected one, because {path} holds a file per series. Read this file by "
                    "itself.",
                )
            data = replace(data, series=replace(data.series, ids=np.array([_stem(file.path)])))
        if file.label is not None:
            data = Dataset(data.series, [file.label], task="classification", time_unit=data.time_unit)
        elif options.labels is not None:
            data = Dataset(data.series, time_unit=data.time_unit, groups=data.groups, split=data.split)
        parts.append(data if file.part is None else replace(data, split=np.full(len(data), file.part)))
    try:
        return concatenate(parts)
    except ValueError as error:
        raise ReadError(path, str(error)) from None


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
