"""PhysioNet 2012: two days of intensive care, 37 variables that are measured when somebody measures them.

Sets a and b of the PhysioNet / Computing in Cardiology Challenge 2012 (Silva et al. 2012, CinC 39:245), of 4,000 stays
each. Who died in hospital is to be predicted. Set a is for training and set b for testing, as in the challenge.
"""

import contextlib
import gzip
import io
import re
import tarfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from .._write import writing
from ..paths import Series
from .cache import check_checksum, data_folder, fetch_listed, fetching, make_folder, write_checksum
from .dataset import Dataset
from .files import DatasetUnavailable, check_file, naming, unpacked
from .npz import load_arrays

SETS = {"a": "train", "b": "test"}
DESCRIPTORS = ("Age", "Gender", "Height", "ICUType", "Weight")  # of the stay, at admission
CLASSES = ("survived", "died")
KEYS = ("record", "minute", "value", "death", "names", "variable", "offsets")
_RECORD = "RecordID"  # the first row of a stay
_FILE = re.compile(r"(.*/)?\d+\.txt")
_LATER = 10_000  # minutes, more than the 2,880 of two days
_LIMIT = 2**28  # bytes of a file; the largest has 8 million
_ADDRESS = "https://physionet.org/files/challenge-2012/1.0.0"
_SOURCE = "PhysioNet, Predicting Mortality of ICU Patients, the Challenge 2012, 1.0.0, doi:10.13026/C2KW2J, ODC-By 1.0"


def find_physionet2012() -> Path | None:
    """Where in the data folder both sets lie; None if one is missing."""
    found = [_find(name) for name in SETS]
    return found[0] if all(found) else None


def load_physionet2012() -> Dataset:
    """8,000 stays with their times in hours, and as `static` what was known at admission; NaN is not measured.

    A point is a minute at which something was measured. Of several values of a variable at one minute the last counts.
    `static` has age, gender (1 is male), height (cm), type of unit and weight (kg); the channel Weight has the later
    weights. The ten stays in which nothing was measured have a single point.

    The folder `physionet2012` in the data folder may hold PhysioNet's `set-a.tar.gz` and `set-b.tar.gz`, or what is in
    them, beside `Outcomes-a.txt` and `Outcomes-b.txt`; otherwise they are fetched. What was read is kept there as
    `physionet2012_a.npz` and `physionet2012_b.npz`.
    """
    folder = data_folder() / "physionet2012"
    sets = [_arrays(name, _find(name) or _fetch(name, folder)) for name in SETS]
    record, minute, value, death = (np.concatenate([part[key] for part in sets]) for key in KEYS[:4])
    names = np.unique(np.concatenate([DESCRIPTORS, *(part["names"] for part in sets)]))
    variable = np.concatenate([np.searchsorted(names, part["names"])[part["variable"]] for part in sets])
    stay = np.repeat(np.arange(len(record)), np.concatenate([np.diff(part["offsets"]) for part in sets]))

    described = np.isin(names, DESCRIPTORS)[variable] & (minute == 0)
    static = np.full((len(record), len(names)), np.nan)
    static[stay[described], variable[described]] = value[described]
    static[static < 0] = np.nan  # -1 is unknown

    is_channel = ~np.isin(names, DESCRIPTORS[:-1])
    channel, measured = np.cumsum(is_channel)[variable] - 1, is_channel[variable] & ~described
    stay, minute, channel, value = (array[measured] for array in (stay, minute.astype(int), channel, value))
    moments, place = np.unique(stay * _LATER + minute, return_inverse=True)
    lengths = np.bincount(moments // _LATER, minlength=len(record))
    ends = np.cumsum(lengths)
    values = np.full((len(record), lengths.max(), is_channel.sum()), np.nan, np.float32)
    values[stay, place - (ends - lengths)[stay], channel] = value
    times = np.zeros(values.shape[:2])
    times[np.arange(lengths.max()) < lengths[:, None]] = moments % _LATER / 60
    ids, lengths = record.astype(str), np.maximum(lengths, 1)
    return Dataset(
        Series(values, times=times, lengths=lengths, channels=names[is_channel].tolist(), ids=ids),
        death.astype(int),
        classes=CLASSES,
        split=np.repeat(list(SETS.values()), [len(part["record"]) for part in sets]),
        static={name: static[:, np.searchsorted(names, name)] for name in DESCRIPTORS},
        name="PhysioNet2012",
        source=_SOURCE,
    )


def _find(name: str) -> Path | None:
    """What there is of a set: read before, packed, or the folder of its files."""
    folder = data_folder() / "physionet2012"
    files = (folder / f"physionet2012_{name}.npz", folder / f"set-{name}.tar.gz", folder / f"set-{name}")
    return next((file for file in files if file.exists()), None)


def _fetch(name: str, folder: Path) -> Path:
    files = [f"set-{name}.tar.gz", f"Outcomes-{name}.txt"]
    names = "PhysioNet's set-a.tar.gz, Outcomes-a.txt, set-b.tar.gz and Outcomes-b.txt"
    with fetching(folder, "PhysioNet 2012", names):
        fetch_listed(_ADDRESS, files, folder, limit=_LIMIT)
    return folder / files[0]


def _arrays(name: str, found: Path) -> dict[str, np.ndarray]:
    """A set as a row per value: those from offsets[i] to offsets[i + 1] belong to stay i."""
    if found.suffix == ".npz":
        check_checksum(found)
        return load_arrays(found, KEYS, needed=KEYS)
    arrays = _read_texts(found, found.parent / f"Outcomes-{name}.txt")
    kept = found.parent / f"physionet2012_{name}.npz"
    with contextlib.suppress(DatasetUnavailable):  # a folder that cannot be written to can be read again
        make_folder(kept.parent, "what was read is kept there")
        with writing(kept) as file:
            np.savez_compressed(file, **arrays)  # type: ignore
        write_checksum(kept)
    return arrays


def _read_texts(found: Path, outcomes: Path) -> dict[str, np.ndarray]:
    """A text file per stay, each row with a time (hours:minutes), a parameter and a value."""
    import pandas as pd

    texts = dict(_texts(found))
    with naming(found, "set of text files"):
        # One table of all files is read in a second; a table per file would take half a minute.
        rows = b"".join(texts[name].partition(b"\n")[2].strip() + b"\n" for name in sorted(texts))
        columns = {"time": "category", "name": "category", "value": float}
        table = pd.read_csv(io.BytesIO(rows), names=list(columns), dtype=columns).dropna()  # type: ignore
        moments = [hours_minutes.split(":") for hours_minutes in table["time"].cat.categories]
        minute = np.array([60 * int(hours) + int(minutes) for hours, minutes in moments])[table["time"].cat.codes]
        first = np.asarray(table["name"] == _RECORD)
        record = np.asarray(table["value"][first], int)
        stay = np.cumsum(first)[~first] - 1
        names, variable = np.unique(np.asarray(table["name"][~first], str), return_inverse=True)
        value = np.asarray(table["value"][~first], np.float32)
    with naming(check_file(outcomes), "table of outcomes"):
        death = pd.read_csv(outcomes, index_col=_RECORD)["In-hospital_death"].loc[record].to_numpy(np.int8)
    offsets = np.concatenate([[0], np.cumsum(np.bincount(stay, minlength=len(record)))])
    arrays = record, minute[~first].astype(np.int16), value, death, names, variable.astype(np.uint8), offsets
    return dict(zip(KEYS, arrays, strict=True))


def _texts(found: Path) -> Iterator[tuple[str, bytes]]:
    """Names and contents of a set's files, in a folder or packed."""
    if found.is_dir():
        yield from ((file.name, file.read_bytes()) for file in found.glob("*.txt"))
        return
    with naming(found, "tar file"), open(found, "rb") as packed:
        stream = unpacked(gzip.GzipFile(fileobj=packed), found, "gzip file", found.stat().st_size)
        with tarfile.open(fileobj=stream, mode="r|") as archive:
            for member in archive:
                content = archive.extractfile(member) if _FILE.fullmatch(member.name) else None
                if content is not None:
                    yield member.name, content.read()
