"""What a file holds, by its content and then by its ending, and which reader takes it."""

from collections.abc import Callable
from pathlib import Path

from .arff import read_arff
from .csv import csv_header, load_csv
from .dataset import Dataset
from .errors import ReadError
from .npz import read_npz
from .parquet import load_parquet, parquet_names
from .table import Table
from .text import check_file, open_text
from .ts import read_ts

READERS: dict[str, Callable[..., Dataset]] = {".ts": read_ts, ".arff": read_arff, ".npz": read_npz}
TABLES: dict[str, Callable[..., Table]] = {".csv": load_csv, ".parquet": load_parquet}
_ENDINGS = {".tsv": ".csv", ".txt": ".csv", ".dat": ".csv", "": ".csv", ".pq": ".parquet"}


def kind_of(path: Path) -> str:
    """The ending that the file should have: one of READERS or TABLES."""
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
    if ending not in READERS and ending not in TABLES:
        known = [*READERS, *TABLES]
        raise ReadError(path, f"Got the ending {ending!r}; expected one of {known}. Rename the file.")
    return ending


def names_in(path: Path, header: bool | None = None) -> list[str]:
    """The names of a table's columns; none if the file is no table."""
    kind = kind_of(path)
    if kind == ".csv":
        return [name for name in csv_header(path, header)[2] if name]
    return parquet_names(path) if kind == ".parquet" else []
