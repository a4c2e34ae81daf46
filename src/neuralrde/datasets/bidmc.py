"""BIDMC32: heart rate, breathing rate and oxygen saturation from half a minute of pulse and ECG.

The regression sets of the TSER archive are windows of the 53 recordings of PhysioNet's BIDMC PPG and
Respiration Dataset (Pimentel et al. 2017, IEEE TBME 64:1914). They are built here from the recordings,
because so the patient behind each window is known: neighbouring windows share 29 of their 32 seconds, and
some patients were recorded several times, so only a split by patient shows what a model knows of new ones.
"""

from pathlib import Path

import numpy as np

from .._write import writing
from ..paths import Series
from ._read import read
from .cache import check_checksum, data_folder, fetch_listed, fetching, write_checksum
from .dataset import Dataset
from .files import ReadError
from .npz import load_arrays

TARGETS = {"BIDMC32HR": "HR", "BIDMC32RR": "RESP", "BIDMC32SpO2": "SpO2"}
# The patient (MIMIC II) of each of the 53 recordings.
_PATIENTS = (
    "s01182 s01241 s01795 s01840 s01995 s03386 s03386 s03386 s03386 s03516 s04641 s06914 s07432 s07784 s08452 s08915 "
    "s08936 s09483 s09968 s11342 s11342 s11342 s11342 s12531 s12589 s13314 s13927 s15646 s17236 s17497 s17735 s17756 "
    "s19981 s20471 s20486 s22348 s24455 s25323 s25323 s26845 s26868 s29093 s29125 s29503 s29622 s29866 s30026 s30243 "
    "s31106 s31141 s31400 s32195 s32628"
)
PATIENTS = _PATIENTS.split()
CHANNELS = ("RESP", "PLETH", "II")
NUMERICS = ("HR", "PULSE", "RESP", "SpO2")
SIZES = (53, 60001, 481)  # recordings, samples of signals at 125 Hz, and of numerics at 1 Hz
RATE, LENGTH, STRIDE, WINDOWS = 125, 4000, 375, 150
_TRAINING_RECORDS = 37  # the archive's split: the windows of the first 37 recordings are for training
_LIMIT = 64 * 2**20  # bytes of a file; the largest has 3 million
_ADDRESS = "https://physionet.org/files/bidmc/1.0.0"
_SOURCE = "PhysioNet, BIDMC PPG and Respiration Dataset 1.0.0, doi:10.13026/C2208R, ODC-By 1.0"


def find_bidmc() -> Path | None:
    """Where in the data folder the recordings lie; None if they do not."""
    last = f"bidmc_{SIZES[0]:02d}_Signals.csv"  # of each kind: a download that broke off has the first
    files = ("bidmc_records.npz", f"bidmc_csv/{last}", last)
    return next((path for file in files if (path := data_folder() / "bidmc" / file).exists()), None)


def load_bidmc(name: str) -> Dataset:
    """One of BIDMC32HR, BIDMC32RR and BIDMC32SpO2, in float32, with times in seconds, grouped by patient.

    Window k of a recording is the samples [375 k, 375 k + 4000) of PLETH and II at 125 Hz, and its target the
    mean over the seconds [3 k, 3 k + 32) of the monitor's number, as far as it is known. BIDMC32RR leaves
    out windows whose breathing rate is 0. The recordings are taken from `bidmc/bidmc_records.npz` in the data
    folder, or made from PhysioNet's files there (`bidmc_csv/*.csv`), or from PhysioNet itself.
    """
    signals, numerics = _records()
    starts = STRIDE * np.arange(WINDOWS)
    pair = [CHANNELS.index("PLETH"), CHANNELS.index("II")]
    windows = np.lib.stride_tricks.sliding_window_view(signals[..., pair], LENGTH, axis=1)[:, starts]
    numeric = numerics[..., NUMERICS.index(TARGETS[name])]
    seconds = np.lib.stride_tricks.sliding_window_view(numeric, 32, axis=1)[:, 3 * np.arange(WINDOWS)]
    target = np.asarray(np.nanmean(seconds, axis=2, dtype=np.float64))
    kept = target != 0 if name == "BIDMC32RR" else np.full(target.shape, True)
    record, window = np.nonzero(kept)
    values = np.ascontiguousarray(np.moveaxis(windows, 3, 2)[kept], dtype=np.float32)
    series = Series.from_array(
        values,
        times=np.arange(LENGTH) / RATE,
        channels=["PLETH", "II"],
        ids=np.array([f"{r + 1:02d}/{w:03d}" for r, w in zip(record, window, strict=True)]),
    )
    return Dataset(
        series,
        target[kept],
        groups=np.array(PATIENTS)[record],
        split=np.where(record < _TRAINING_RECORDS, "train", "test"),
        name=name,
        source=_SOURCE,
    )


def _records() -> tuple[np.ndarray, np.ndarray]:
    """Signals `(53, 60001, 3)` and numerics `(53, 481, 4)`."""
    found = find_bidmc()
    if found is not None and found.suffix == ".npz":
        check_checksum(found)
        records, points, seconds = SIZES
        shapes = {"X": (records, points, len(CHANNELS)), "numerics": (records, seconds, len(NUMERICS))}
        arrays = load_arrays(found, shapes, needed=shapes)
        for key, shape in shapes.items():
            if arrays[key].shape != shape:
                raise ReadError(found, f"Got {key} of shape {arrays[key].shape}; expected {shape}.")
        return arrays["X"], arrays["numerics"]
    if found is not None:
        return _read_records(found.parent)
    folder = data_folder() / "bidmc"
    names = "PhysioNet's bidmc_01_Signals.csv, bidmc_01_Numerics.csv and so on to 53,"
    with fetching(folder, "BIDMC", names):
        (folder / "bidmc_csv").mkdir(exist_ok=True)
        numbers = range(1, SIZES[0] + 1)
        files = [f"bidmc_csv/bidmc_{number:02d}_{kind}.csv" for number in numbers for kind in ("Numerics", "Signals")]
        fetch_listed(_ADDRESS, files, folder, limit=_LIMIT)
    signals, numerics = _read_records(folder / "bidmc_csv")
    path = folder / "bidmc_records.npz"
    with writing(path) as file:
        np.savez_compressed(file, X=signals, numerics=numerics, mimic_id=np.array(PATIENTS), channels=CHANNELS)
    write_checksum(path)
    return signals, numerics


def _read_records(folder: Path) -> tuple[np.ndarray, np.ndarray]:
    signals = np.zeros((SIZES[0], SIZES[1], len(CHANNELS)), np.float32)
    numerics = np.zeros((SIZES[0], SIZES[2], len(NUMERICS)), np.float32)
    for i in range(SIZES[0]):
        for array, names, kind in ((signals, CHANNELS, "Signals"), (numerics, NUMERICS, "Numerics")):
            path = folder / f"bidmc_{i + 1:02d}_{kind}.csv"
            values = read(path, time="Time [s]", columns=names).series.values[0]
            if values.shape != array.shape[1:]:
                raise ReadError(path, f"Got {values.shape[0]} rows; expected {array.shape[1]}.")
            array[i] = values
    return signals, numerics
