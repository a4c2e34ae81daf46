"""Data sets by name: what there is, and `load`."""

import difflib
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from ..errors import setting
from .archive import WHEELS, find_archive_set, load_archive_set
from .bidmc import find_bidmc, load_bidmc
from .dataset import Dataset
from .files import DatasetUnavailable
from .physionet2012 import find_physionet2012, load_physionet2012
from .simulated import fractional_brownian_motion, order_of_events, spirals


@dataclass(frozen=True)
class Entry:
    """A named data set: its size as samples x length x channels, its task and where it comes from."""

    name: str
    size: str
    task: str
    origin: str
    load: Callable[..., Dataset]
    find: Callable[[], Path | None] | None = None

    @property
    def present(self) -> bool:
        """Whether it can be loaded without a network."""
        return self.find is None or self.find() is not None

    def __str__(self) -> str:
        here = "simulated" if self.find is None else "here" if self.present else "to be fetched"
        return f"{self.name:27} {self.size:19} {self.task:29} {here:14} {self.origin}"


class Listing(tuple[Entry, ...]):
    """Entries that print as a table."""

    def __repr__(self) -> str:
        return "\n".join(map(str, self))


def _bidmc(name: str, samples: int, what: str) -> Entry:
    size, task = f"{samples} x 4000 x 2", f"regression: {what}"
    return Entry(name, size, task, "PhysioNet", partial(load_bidmc, name), find_bidmc)


def _archive(name: str, shape: tuple[int, int, int], classes: int) -> Entry:
    load, find = partial(load_archive_set, name, shape=shape, classes=classes), partial(find_archive_set, name)
    origin = "UEA and UCR archives" + (", from a wheel" if name in WHEELS else "")
    return Entry(name, " x ".join(map(str, shape)), f"{classes} classes", origin, load, find)


def _simulated(load: Callable[..., Dataset], size: str, task: str, origin: str) -> Entry:
    return Entry(load.__name__, size, task, origin, load)


CATALOGUE = (
    _bidmc("BIDMC32HR", 7950, "heart rate"),
    _bidmc("BIDMC32RR", 7871, "breathing rate"),
    _bidmc("BIDMC32SpO2", 7950, "oxygen saturation"),
    Entry("PhysioNet2012", "8000 x 202 x 37", "2 classes", "PhysioNet", load_physionet2012, find_physionet2012),
    _archive("EigenWorms", (259, 17984, 6), 5),
    _archive("SelfRegulationSCP1", (561, 896, 6), 2),
    _archive("SelfRegulationSCP2", (380, 1152, 7), 2),
    _archive("FingerMovements", (416, 50, 28), 2),
    _archive("HandMovementDirection", (234, 400, 10), 4),
    _archive("BasicMotions", (80, 100, 6), 4),
    _archive("JapaneseVowels", (640, 29, 12), 9),
    _archive("EthanolConcentration", (524, 1751, 3), 4),
    _archive("Heartbeat", (409, 405, 61), 2),
    _archive("MotorImagery", (378, 3000, 64), 2),
    _archive("StandWalkJump", (27, 2500, 4), 3),
    _archive("DodgerLoopDay", (158, 288, 1), 7),
    _archive("DodgerLoopGame", (158, 288, 1), 2),
    _archive("DodgerLoopWeekend", (158, 288, 1), 2),
    *(_archive(f"GestureMidAirD{number}", (338, 360, 1), 26) for number in (1, 2, 3)),
    *(_archive(f"GesturePebbleZ{number}", (304, 455, 1), 6) for number in (1, 2)),
    *(_archive(f"AllGestureWiimote{axis}", (1000, 385, 1), 10) for axis in "XYZ"),
    _archive("PLAID", (1074, 1344, 1), 11),
    _simulated(order_of_events, "1000 x 256 x 2", "2 classes", "Levy area tells the classes"),
    _simulated(spirals, "1000 x 100 x 2", "2 classes", "irregular times"),
    _simulated(fractional_brownian_motion, "1000 x 256 x 1", "regression: Hurst exponent", "exact in distribution"),
)


def available() -> Listing:
    """The data sets that `load` knows by name, a line each: size, task, whether it is here, origin.

    >>> [entry.name for entry in available() if entry.find is None]
    ['order_of_events', 'spirals', 'fractional_brownian_motion']
    """
    return Listing(CATALOGUE)


def load(name: str, **options: object) -> Dataset:
    """Load a data set by its name; simulated ones take the options of their functions.

    Beside those that `available()` lists, the name may be that of any set in the UEA, UCR and TSER archives.
    Data are kept in the folder that `data_folder()` names, and fetched if they are not there.

    >>> load("spirals", samples=6, length=10, seed=1)
    Dataset('spirals': 6 samples of 2 classes; 10 points, 2 channels: x, y; times 0 to 1; float64)
    """
    known = {entry.name.lower(): entry for entry in CATALOGUE}
    entry = known.get(str(name).lower())
    if entry is None:
        near = difflib.get_close_matches(str(name).lower(), known, n=1, cutoff=0.75)
        hint = f" Did you mean {known[near[0]].name!r}?" if near else " `available()` lists the names."
        try:
            return load_archive_set(name)
        except DatasetUnavailable as error:
            raise DatasetUnavailable(f"{error}{hint}") from None
    allowed = list(inspect.signature(entry.load).parameters) if entry.find is None else []
    for option, value in options.items():
        if option not in allowed:
            expected = f"one of {allowed}" if allowed else "no options, because the data are as they are"
            raise TypeError(f"Got {setting(option, value)} for {entry.name}; expected {expected}.")
    return entry.load(**options)
