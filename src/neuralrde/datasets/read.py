"""One door for files of series: the reader is chosen by what the file holds, and then by its ending."""

import inspect
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from .arff import read_arff
from .csv import csv_header, read_csv
from .dataset import Dataset
from .errors import ReadError
from .folder import first_file, read_folder
from .npz import read_npz
from .parquet import parquet_names, read_parquet
from .targets import Task
from .text import check_file, open_text
from .ts import read_ts

READERS: dict[str, Callable[..., Dataset]] = {
    ".ts": read_ts,
    ".arff": read_arff,
    ".csv": read_csv,
    ".parquet": read_parquet,
    ".npz": read_npz,
}
_ENDINGS = {".tsv": ".csv", ".txt": ".csv", ".dat": ".csv", "": ".csv", ".pq": ".parquet"}


def read(
    path: str | Path,
    *,
    target: str | int | None = None,
    id: str | int | None = None,
    time: str | int | None = None,
    group: str | int | None = None,
    split: str | int | None = None,
    columns: Sequence[str] | None = None,
    wide: bool | None = None,
    per_time: bool | None = None,
    header: bool | None = None,
    task: Task | None = None,
    name: str | None = None,
) -> Dataset:
    """Read series, and what is to be predicted, from a file or a folder.

    Understood are `.ts` (sktime, aeon) and `.arff` (Weka), plain or gzipped; `.csv`, `.tsv` and Parquet
    tables, long or wide; `.npz`; and folders of them, see `read_folder`. A file that is not what its ending
    says is read as what it is.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "hearts.csv"
    >>> _ = path.write_text("patient,hour,pulse,ill\\n1,0.0,60,no\\n1,0.5,,no\\n2,0.0,90,yes\\n")
    >>> read(path, id="patient", time="hour", target="ill")  # doctest: +ELLIPSIS
    Dataset('hearts': 2 samples of 2 classes; 1 to 2 points, 1 channel: pulse; times 0 to 0.5; ...)

    Args:
        path: the file or folder.
        target, id, time, group, split, columns, wide, per_time, header: of tables, see `read_csv`.
        task: "classification" or "regression"; None decides, see `Dataset`.
        name: of the data set; None takes the file's.
    """
    table = {
        "target": target,
        "id": id,
        "time": time,
        "group": group,
        "split": split,
        "columns": columns,
        "wide": wide,
        "per_time": per_time,
        "header": header,
    }
    options = {key: value for key, value in table.items() if value is not None}
    path = Path(path).expanduser()
    reader = partial(read_folder, reader=_read_file) if path.is_dir() else _read_file
    return reader(path, task=task, name=name, **options)


def column_names(path: str | Path, header: bool | None = None) -> list[str]:
    """Of a table, or of the first file in a folder: numbers if there is no header, and none if it is no table."""
    path = Path(path).expanduser()
    file = first_file(path) if path.is_dir() else path
    if file is None or not file.exists():
        return []
    kind = _kind(file)
    return csv_header(file, header)[2] if kind == ".csv" else parquet_names(file) if kind == ".parquet" else []


def _read_file(path: Path, *, one: bool = False, **options) -> Dataset:
    kind = _kind(path)
    reader = READERS[kind]
    known = inspect.signature(reader).parameters
    if one and "wide" in known:
        options.setdefault("wide", False)
    unknown = [key for key in options if key not in known]
    if unknown:
        raise ReadError(
            path,
            f"Got {unknown[0]}={options[unknown[0]]!r} for a {kind} file; expected it for tables only, "
            f"because a {kind} file says itself what is what. Leave it out.",
        )
    return reader(path, **options)


def _kind(path: Path) -> str:
    path = check_file(path)
    with open(path, "rb") as file:
        magic = file.read(4)
    if magic == b"PK\x03\x04":
        return ".npz"
    if magic == b"PAR1":
        return ".parquet"
    ending = Path(path.name.lower().removesuffix(".gz")).suffix
    ending = _ENDINGS.get(ending, ending)
    if ending in (".npz", ".parquet"):
        return ending  # whose reader says that it is not
    with open_text(path) as file:
        for line in file:
            word = line.split()[0].lower() if line.strip() else ""
            if word.startswith("@"):
                return ".arff" if word in ("@relation", "@attribute") else ".ts"
            if word and word[0] not in "#%":
                break
    if ending not in READERS:
        raise ReadError(path, f"Got the ending {ending!r}; expected one of {list(READERS)}. Rename the file.")
    return ending
