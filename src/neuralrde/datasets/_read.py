"""`read`: any file or folder of series, and targets that stand in a second file; and the registry of file formats.

A new format is a function that reads it, and one entry in `READERS`. `read`, folders, tables of labels, the command
line and its messages take everything from this list. A format of your own is entered with `register_reader`.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path

import numpy as np

from ..errors import few, setting
from .arff import read_arff
from .columns import JsonLines, ParquetTable, TableFile, TextTable
from .dataset import PARTS, Dataset, concatenate
from .files import ReadError, check_file, first_word, naming
from .npz import read_npz
from .table import (
    USUAL,
    RowOwners,
    Table,
    TableOptions,
    from_table,
    join_tables,
    labels_of_series,
    load_table,
)
from .targets import Task, describe_target
from .ts import read_ts


@dataclass(frozen=True)
class Reader:
    """A file format and what reads it: a function, if the file says itself what is what, or else a kind of table.

    Args:
        about: what the format is, in a few words.
        endings: how names of its files end, the usual ending first. Text files may also end with .gz.
        read: called as `read(path, task=..., name=...)`; it returns a `Dataset`.
        table: called with the path and `header`; it returns a `TableFile`.
        magic: the first bytes of every such file, if the format is binary.
        starts: how the first word of every such file starts, if the format is text and no other starts so.
    """

    about: str
    endings: tuple[str, ...]
    read: Callable[..., Dataset] | None = None
    table: Callable[[Path, bool | None], TableFile] | None = None
    magic: bytes = b""
    starts: tuple[str, ...] = ()

    def __post_init__(self):
        if (self.read is None) == (self.table is None):
            raise ValueError(f"Got the reader {self.about!r}; expected either `read` or `table`.")
        if wrong := [ending for ending in self.endings if ending and not ending.startswith(".")]:
            raise ValueError(f"Got the ending {wrong[0]!r}; expected it with its dot, {'.' + wrong[0]!r}.")


READERS = [
    Reader("table in text", (".csv", ".tsv", ".txt", ".dat", ""), table=TextTable),
    Reader("Parquet table", (".parquet", ".pq"), table=ParquetTable, magic=b"PAR1"),
    Reader("JSON lines", (".jsonl", ".ndjson"), table=JsonLines, starts=("{",)),
    Reader("NumPy's arrays by name", (".npz",), read_npz, magic=b"PK\x03\x04"),
    Reader("series of Weka", (".arff",), read_arff, starts=("@relation", "@attribute")),
    Reader("series of sktime and aeon", (".ts",), read_ts, starts=("@",)),
]
_OURS = tuple(READERS)


def register_reader(reader: Reader) -> Reader:
    """Enter a file format of your own, for this process: `read` and the command line then know its endings.

    >>> import numpy as np
    >>> from neuralrde.datasets import Dataset
    >>> from neuralrde.paths import Series
    >>> def read_wav(path, *, task=None, name=None):
    ...     values = np.fromfile(path, "<i2", offset=44).astype(float)
    ...     return Dataset(Series.from_arrays([values]), name=name or path.stem)
    >>> register_reader(Reader("sound", (".wav",), read_wav)).endings
    ('.wav',)
    >>> READERS.pop().about  # and out again
    'sound'
    """
    for ending in reader.endings:
        if taken := [known for known in READERS if ending in known.endings]:
            raise ValueError(f"Got the ending {ending!r}; expected a new one: {taken[0].about!r} has it.")
    READERS.append(reader)
    return reader


def endings() -> tuple[str, ...]:
    """The endings of the files that `read` can read.

    >>> endings()[:3]
    ('.csv', '.tsv', '.txt')
    """
    return tuple(ending for reader in READERS for ending in reader.endings if ending)


def reader_of(path: Path) -> Reader:
    """The reader for a file: by its content, or by its ending where the content does not tell."""
    path = check_file(path)
    with open(path, "rb") as file:
        head = file.read(max(len(reader.magic) for reader in READERS))
    for reader in READERS:
        if reader.magic and head.startswith(reader.magic):
            return reader
    ending = Path(path.name.lower().removesuffix(".gz")).suffix
    by_ending = next((reader for reader in READERS if ending in reader.endings), None)
    if by_ending is not None and (by_ending.magic or by_ending not in _OURS):
        return by_ending  # a binary reader says what is wrong; the text of another format may look like anything
    word = first_word(path)
    for reader in READERS:
        if reader.starts and word.startswith(reader.starts):
            return reader
    if by_ending is None:
        raise ReadError(path, f"Got the ending {ending!r}; expected one of {list(endings())}. Rename the file.")
    return by_ending


def read(
    path: str | Path,
    *,
    target: str | int | Sequence[str] | None = None,
    id: str | int | None = None,
    time: str | int | None = None,
    group: str | int | None = None,
    split: str | int | None = None,
    columns: Sequence[str] | None = None,
    wide: bool | None = None,
    per_time: bool | None = None,
    header: bool | None = None,
    labels: str | Path | None = None,
    labels_id: str | None = None,
    time_format: str | None = None,
    decimal: str | None = None,
    thousands: str | None = None,
    duplicates: str = "error",
    drop_unlabelled: bool = False,
    sensor: str | int | None = None,
    value: str | int | None = None,
    one_hot: Sequence[str] | bool | None = None,
    static: Sequence[str] | bool | None = None,
    task: Task | None = None,
    name: str | None = None,
) -> Dataset:
    """Read series, and what is to be predicted, from a file or a folder.

    A file is a table (`.csv`, `.tsv`, `.parquet`, ...) or says itself what is what (`.ts`, `.arff`, `.npz`, ...);
    `endings()` lists all formats, and text may be gzipped. A file that is not what its ending says is read as what
    it is. A folder has one of four layouts, tried in this order:

    1. `NAME_TRAIN.ts` and `NAME_TEST.ts` (or another format; `_VALIDATION` too): one data set with its split.
    2. Sub-folders `train`, `test` (and `validation`), each in layout 3 or 4: one data set with its split.
    3. Sub-folders of files: a sub-folder is a class.
    4. Files, each a series with the file's name as its id, or a table with a column of ids. `labels.csv` beside
       them is the table `labels`. Hidden files and SOURCE, README and LICENSE are passed over.

    A table is long (a row per point, with a column that says which series it belongs to), wide (a row per
    series, its points in numbered columns, or as lists in its cells), or melted (a row per value). Columns called
    id, time (t, timestamp), target (label, class), group (patient, subject, speaker) and split are known by their
    names; all others are channels, unless `columns` says which are. Missing values are empty, ?, -, NaN, NA, N/A,
    #N/A, null or none. `Dataset.reading` says in one sentence how a table was understood; what is ambiguous is refused.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "hearts.csv"
    >>> _ = path.write_text("patient,hour,pulse,ill\\n1,0.0,60,no\\n1,0.5,,no\\n2,0.0,90,yes\\n")
    >>> data = read(path, id="patient", time="hour", target="ill")
    >>> data  # doctest: +ELLIPSIS
    Dataset('hearts': 2 samples of 2 classes; 1 to 2 points, 1 channel: pulse; times 0 to 0.5; ...)
    >>> data.reading
    'long table, 2 series by `patient`, time from `hour` (numbers), channels pulse, target `ill` (2 classes)'

    Args:
        path: the file or folder.
        target: the column to predict (without a header, its number from 0); a list names several, of numbers.
        id: the column that says which series a row belongs to.
        time: the column of times: numbers, dates (which become seconds since 1970) or clock times.
        group: the column of patients, speakers, ...
        split: the column that says train, validation or test.
        columns: the channels; of a melted table, the sensors; None takes all other columns.
        wide: whether a row is a series; None decides: it is if there are no times, ids do not repeat, and all
            columns are numbered (0, 1, ...; x_0, x_1, ..., y_0, ...).
        per_time: whether the target of a long table may change within a series.
        header: whether the first row names the columns; None decides: it does if a cell is no number and no date.
        labels: a second table, with a row per series, that has `target` (and `group`, `split`, if there).
        labels_id: its column of ids; None takes the name that `id` has, or id.
        time_format: of the times: a format such as "%d.%m.%y %H:%M", "day-first" or "month-first" for dates such as
            1/2/2024, "clock" for clock times, or "number"; None decides, and refuses 1/2/2024.
        decimal: the sign before decimals, "," or ".".
        thousands: the sign between thousands, such as "," or ".".
        duplicates: what to do with several rows of a series at one time: "error", "mean", "first" or "last".
        drop_unlabelled: whether series without a target are left out; otherwise they are an error.
        sensor: of a melted table, the column that names the channel.
        value: of a melted table, the column with the number; None takes the one called value.
        one_hot: columns of words that become a channel per word, 0 or 1; True takes all of them, None refuses words.
        static: columns of numbers or words that say something of a series as a whole, such as age and sex: they become
            `Dataset.static`. True takes those that are constant within each series, None takes none.
        task: "classification" or "regression"; None decides: words and few whole numbers are classes, see
            `guess_task`.
        name: of the data set; None takes the file's.
    """
    options = TableOptions(
        target=target, id=id, time=time, group=group, split=split, columns=columns, wide=wide, per_time=bool(per_time),
        header=header, labels=labels, labels_id=labels_id, time_format=time_format, decimal=decimal,
        thousands=thousands, duplicates=duplicates, drop_unlabelled=drop_unlabelled, sensor=sensor, value=value,
        one_hot=one_hot, static=static,
    )  # fmt: skip
    path = Path(path).expanduser()
    options.check(path)
    if path.is_dir():
        return _read_folder(path, options, task, name)
    data = _read_file(path, options, task=task if labels is None else None, name=name)
    return data if labels is None else _with_labels(data, options, task)


def column_names(path: str | Path, header: bool | None = None) -> list[str]:
    """Of a table, or of the first file in a folder: numbers if there is no header, and none if it is no table."""
    path = Path(path).expanduser()
    file = _first_file(path) if path.is_dir() else path
    open_table = None if file is None or not file.exists() else reader_of(file).table
    return [] if file is None or open_table is None else list(open_table(file, header).names)


def _read_file(path: Path, options: TableOptions, *, task: Task | None, name: str | None = None) -> Dataset:
    """The series of one file, without the labels that a second file may hold."""
    reader = reader_of(path)
    if reader.read is None:
        return from_table(_load(path, options), task=task, name=name or path.name.split(".")[0])
    allowed = ["labels", "labels_id", "drop_unlabelled", *(("target", "group", "split") if options.labels else ())]
    allowed += ["static"] if options.static is True else []  # such files have none to be found
    for option in fields(TableOptions):
        value = getattr(options, option.name)
        if value != option.default and option.name not in allowed:
            got, kind = setting(option.name, value), reader.endings[0]
            reason = f"because a {kind} file says itself what is what"
            raise ReadError(path, f"Got {got} for a {kind} file; expected it for tables only, {reason}. Leave it out.")
    return reader.read(path, task=task, name=name)


def _load(path: Path, options: TableOptions) -> Table:
    """The table in a file. If a second file holds the targets, that may also hold groups and parts."""
    source = reader_of(path).table(path, options.header)  # type: ignore  # it is a table
    if options.labels is None:
        return load_table(source, options)
    absent = {role: None for role in ("group", "split") if str(getattr(options, role)) not in source.names}
    table = load_table(source, replace(options, target=None, **absent))
    return replace(table, roles=replace(table.roles, target=()), options=options)


# Labels in a second file.


def _with_labels(data: Dataset, options: TableOptions, task: Task | None) -> Dataset:
    """A data set with what the file `options.labels`, any table with a row per series, says of its ids."""
    path = Path(options.labels or "").expanduser()
    if data.series.ids is None:
        expected = f"ids, to find each series' label by. Write {setting('id')} to name the data's column of ids"
        raise ReadError(path, f"Got labels for series that have no ids; expected {expected}.")
    table = _load_labels(path, options)
    rows = RowOwners.of(table)
    ids = np.asarray(rows.ids).tolist()
    labels = labels_of_series(table, rows)
    # Of prefixed ids (folder of tables) the last part, and of files the name without its ending, will do.
    known = {_bare(id): row for row, id in reversed(list(enumerate(ids)))} | {id: row for row, id in enumerate(ids)}
    wanted = np.asarray(data.series.ids).astype(str)
    place = np.array([known.get(id, known.get(id.rpartition("/")[2], -1)) for id in wanted])
    if (place < 0).all():
        raise ReadError(
            path,
            f"Got no row for {wanted[:3].tolist()}, nor for any other series; expected the same ids in column "
            f"{table.roles.id!r}, where {ids[:3]} stand. Write {setting('labels_id')} to name another column.",
        )
    lacking = (place < 0) | (True if labels.labelled is None else ~labels.labelled[place])
    if lacking.all() or (lacking.any() and not options.drop_unlabelled):
        where = "no row" if (place < 0)[lacking][:5].any() else f"nothing in column {table.roles.target[0]!r}"
        raise ReadError(
            path,
            f"Got {where} for {few(wanted[lacking].tolist(), 6)}; expected a target for each series. Write "
            f"{setting('drop_unlabelled', True)} to leave such series out.",
        )
    chosen, base = place[~lacking], data[~lacking]
    with naming(path):
        targets = {name: column[chosen] for name, column in labels.targets.items()}
        target, described = describe_target(targets, np.full(len(chosen), True), task)
        notes = [f"{described} from {path.name}"]
        notes += [f"{int(lacking.sum())} series without a target left out"] if lacking.any() else []
        spare = len(ids) - len(set(place[place >= 0].tolist()))
        notes += [f"{spare} of its rows are of no series here"] if spare else []
        return Dataset(
            base.series,
            **target,
            groups=base.groups if labels.groups is None else labels.groups[chosen],
            split=base.split if labels.split is None else labels.split[chosen],
            static=base.static,
            name=data.name,
            source=data.source,
            reading="; ".join(filter(None, [data.reading, *notes])),
            time_unit=data.time_unit,
        )


def _load_labels(path: Path, options: TableOptions) -> Table:
    """The ids are in the column `labels_id`, or called as the data's; the only column beside them is the target."""
    reader = reader_of(path)
    if reader.table is None:
        raise ReadError(path, f"Got labels in a {reader.endings[0]} file; expected a table with a row per series.")
    source = reader.table(path, True)
    names = source.names
    roles = {role: getattr(options, role) for role in ("group", "split") if str(getattr(options, role)) in names}
    same = [name for name in (str(options.labels_id or ""), str(options.id)) if name in names]
    ids = [options.labels_id] if options.labels_id else [*same, *(n for n in names if n.lower() in USUAL["id"])]
    if not ids:
        expected = f"`id`, the names of the series, or {setting('labels_id')} to name it"
        raise ReadError(path, f"Got the columns {few(names)}; expected {expected}.", 1)
    targets = [name for name in options.targets if name in names]
    if len(targets) < len(options.targets):
        got = f"{setting('target', options.target)} and the columns {few(names)}"
        raise ReadError(path, f"Got {got}; expected the name of one of them.", 1)
    if not targets and not any(name.lower() in USUAL["target"] for name in names if name != ids[0]):
        usual = (*USUAL["group"], *USUAL["split"])
        targets = [name for name in names if name not in (ids[0], *roles.values()) and name.lower() not in usual]
        if len(targets) != 1:
            expected = f"`target`, or {setting('target')} to name the column to predict"
            raise ReadError(path, f"Got the columns {few(names)}; expected {expected}.", 1)
    signs = {"decimal": options.decimal, "thousands": options.thousands}
    # A series that is not in the data needs no label, so that rows may lack one: `_with_labels` checks the others.
    options = TableOptions(id=ids[0], columns=[], target=targets or None, drop_unlabelled=True, **signs, **roles)
    return load_table(source, options, channels_needed=False)


def _bare(id: str) -> str:
    for ending in (".gz", *endings()):
        id = id.removesuffix(ending)
    return id


# Folders.

_PAIR = re.compile(r"(.*?)_?(train|test|val|validation)", re.IGNORECASE)
_PARTS = {"train": "train", "training": "train", "val": "validation", "validation": "validation", "test": "test"}
_LABELS = "labels.csv"
_FILE, _PART, _FOLDER = "(file)", "(part)", "(folder)"  # columns that the places of files make


@dataclass(frozen=True)
class _File:
    path: Path
    part: str | None = None
    label: str | None = None


@dataclass(frozen=True)
class _Folder:
    """The files of a folder, with the parts and classes that their places say."""

    files: list[_File]
    single: bool = True  # whether a file without ids is one series
    labels: Path | None = None
    name: str = ""


def _read_folder(path: Path, options: TableOptions, task: Task | None, name: str | None) -> Dataset:
    found = _find(path)
    if not found.files:
        raise ReadError(path, "Got a folder without files; expected a file per series, or NAME_TRAIN and NAME_TEST.")
    labels = found.labels if options.labels is None else Path(options.labels).expanduser()
    if labels is not None:
        options = replace(options, labels=labels)
        others = [file for file in found.files if not (labels.exists() and file.path.samefile(labels))]
        found = replace(found, files=others)
    tables = all(reader_of(file.path).table for file in found.files)
    data = (_from_tables if tables else _from_files)(path, found, options, task)
    data = replace(data, name=name or found.name or path.name)
    return data if labels is None else _with_labels(data, options, task)


def _find(path: Path) -> _Folder:
    folders, files = _inside(path)
    if pair := _pair(files):
        names = {match[1] for _, file in pair if (match := _PAIR.fullmatch(_stem(file))) and match[1]}
        return _Folder([_File(file, part) for part, file in pair], False, name=names.pop() if len(names) == 1 else "")
    labels = [file for file in files if file.name.lower() == _LABELS]
    others = [file for file in files if file not in labels]
    if folders and all(folder.name.lower() in _PARTS for folder in folders):
        inside = [(_PARTS[folder.name.lower()], _find(folder)) for folder in folders]
        marked = [replace(file, part=part) for part, one in inside for file in one.files]
        return _Folder(marked, labels=next(iter([*labels, *(one.labels for _, one in inside if one.labels)]), None))
    if folders and others:
        got = f"the sub-folders {few([f.name for f in folders], 5)} beside the files {few([f.name for f in others], 5)}"
        raise ReadError(path, f"Got {got}; expected sub-folders only (a class each), or files only (a series each).")
    if folders:
        return _Folder([_File(file, label=folder.name) for folder in folders for file in _inside(folder)[1]])
    return _Folder(list(map(_File, others)), labels=next(iter(labels), None))


def _from_tables(path: Path, found: _Folder, options: TableOptions, task: Task | None) -> Dataset:
    """All rows in one table, so that they are understood in one way."""
    names = [str(file.path.relative_to(path).with_name(_stem(file.path))) for file in found.files]
    twice = [name for name in names if names.count(name) > 1]
    if twice and found.single:
        both = [file.path.name for file, name in zip(found.files, names, strict=True) if name == twice[0]]
        raise ReadError(path, f"Got the files {both}; expected different names, because a name is an id.")
    tables = []
    for file, name in zip(found.files, names, strict=True):
        table = _load(file.path, options)
        places, roles = {}, {}
        if found.single and table.roles.id is None:
            places[_FILE], roles["id"] = name, _FILE
            table = replace(table, options=replace(options, wide=bool(options.wide)))
        if file.part is not None:
            places[_PART], roles["split"] = file.part, _PART
        if file.label is not None:
            places[_FOLDER], roles["target"] = file.label, (_FOLDER,)
            task = task or "classification"
        tables.append(replace(table, frame=table.frame.assign(**places), roles=replace(table.roles, **roles)))
    ids = [table.roles.id for table in tables]
    if ids[0] != _FILE:
        return from_table(join_tables(_with_prefixes(tables, names), path), task=task)
    if set(ids) != {_FILE}:
        raise ReadError(path, "Got tables with a column of ids beside tables without; expected all alike.")
    data = from_table(join_tables(tables, path), task=task)
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
    prefixed = []
    for table, name in zip(tables, names, strict=True):
        ids = {str(table.roles.id): f"{name}/" + table.frame[table.roles.id]}
        prefixed.append(replace(table, frame=table.frame.assign(**ids), notes=(*table.notes, note)))
    return prefixed


def _from_files(path: Path, found: _Folder, options: TableOptions, task: Task | None) -> Dataset:
    """Files in other formats than tables: one data set each, joined."""
    parts = []
    for file in found.files:
        own = task if file.label is None and options.labels is None else None
        wide = False if reader_of(file.path).table else options.wide
        data = _read_file(file.path, replace(options, wide=wide), task=own)
        if found.single:
            if len(data) != 1:
                got = f"{len(data)} series; expected one, because {path} holds a file per series"
                raise ReadError(file.path, f"Got {got}. Read this file by itself.")
            data = replace(data, series=replace(data.series, ids=np.array([_stem(file.path)])))
        if file.label is not None:
            data = Dataset(data.series, [file.label], task="classification", time_unit=data.time_unit)
        elif options.labels is not None:
            data = Dataset(data.series, time_unit=data.time_unit, groups=data.groups, split=data.split)
        parts.append(data if file.part is None else replace(data, split=np.full(len(data), file.part)))
    with naming(path):
        return concatenate(parts)


def _inside(path: Path) -> tuple[list[Path], list[Path]]:
    things = sorted(thing for thing in path.iterdir() if not thing.name.startswith((".", "_")))
    notes = ("source", "readme", "license")
    files = [thing for thing in things if thing.is_file() and not thing.name.lower().startswith(notes)]
    return [thing for thing in things if thing.is_dir()], files


def _first_file(path: Path) -> Path | None:
    """The first file of series in a folder of any layout; None in an empty one."""
    folders, files = _inside(path)
    pair = [file for _, file in _pair(files)]  # beside which anything may lie
    found = pair or [file for file in files if file.name.lower() != _LABELS]
    return found[0] if found else next(filter(None, map(_first_file, folders)), None)


def _stem(file: Path) -> str:
    return file.name.removesuffix(".gz").rsplit(".", 1)[0]


def _pair(files: list[Path]) -> list[tuple[str, Path]]:
    """Files that are parts of one data set, training first; the first format of which there is a pair."""
    found: dict[str, dict[str, Path]] = {}
    for file in files:
        if match := _PAIR.fullmatch(_stem(file)):
            kind = file.name.removesuffix(".gz").rsplit(".", 1)[-1].lower()
            found.setdefault(f"{match[1]}.{kind}", {})[_PARTS[match[2].lower()]] = file

    def rank(parts: dict[str, Path]) -> tuple[bool, int]:
        """Archives hold a set in several formats and versions (NAME_eq_TRAIN.ts): the shortest name, .ts first."""
        return min((not file.name.lower().endswith((".ts", ".ts.gz")), len(file.name)) for file in parts.values())

    best = min((parts for parts in found.values() if len(parts) > 1), key=rank, default={})
    return [(part, best[part]) for part in PARTS if part in best]
