"""The league's data sets: series, labels, and which series to learn from."""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from neuralrde import Series
from neuralrde.datasets import Dataset, load

VARIABLE = "NEURALRDE_DATA"
WALKER_SETS = ("SelfRegulationSCP1", "SelfRegulationSCP2")
# With which the league began; only these are damaged too.
FIRST_SETS = (
    "ACSF1",
    "AtrialFibrillation",
    "BasicMotions",
    "CinCECGTorso",
    "EOGHorizontalSignal",
    "ERing",
    "Earthquakes",
    "Epilepsy",
    "EyesOpenShut",
    "JapaneseVowels",
    "RacketSports",
    *WALKER_SETS,
)
# Added to see what is lost where the place of a shape decides: short, aligned series.
ALIGNED_SETS = (
    "ArrowHead",
    "Beef",
    "Car",
    "Computers",
    "CricketX",
    "DiatomSizeReduction",
    "DistalPhalanxOutlineCorrect",
    "ECG200",
    "FiftyWords",
    "Fungi",
)
# Those of Pyrregular's sets that can be had as packages or from PhysioNet.
IRREGULAR_SETS = (
    "DodgerLoopDay",
    "DodgerLoopGame",
    "DodgerLoopWeekend",
    "GestureMidAirD1",
    "GestureMidAirD2",
    "GestureMidAirD3",
    "GesturePebbleZ1",
    "GesturePebbleZ2",
    "AllGestureWiimoteX",
    "AllGestureWiimoteY",
    "AllGestureWiimoteZ",
    "JapaneseVowels",
    "PLAID",
    "PhysioNet2012",
)
LEAGUES = {"regular": (*FIRST_SETS, *ALIGNED_SETS), "irregular": IRREGULAR_SETS}
# Runs of their own, and no part of a league's means: a set with what the league's form of it leaves out.
VARIANTS = {"PhysioNet2012Static": "PhysioNet2012", "PhysioNet2012Table": "PhysioNet2012"}
# Where that is a table beside the series, `static=`, and not channels.
IN_TABLE = ("PhysioNet2012Table",)
SETS = tuple(dict.fromkeys([*(name for sets in LEAGUES.values() for name in sets), *VARIANTS]))
# Pyrregular leaves descriptors out, all but a weight, which is a channel: then its first value is that at admission.
IN_CHANNELS = ("Weight",)


@dataclass(frozen=True, eq=False)
class LeagueSet:
    """Series, one label per series, and the rows of the training and the test part."""

    name: str
    series: Series
    labels: np.ndarray
    train: np.ndarray
    test: np.ndarray
    static: Any = None
    """The table beside the series, for classifiers that take one."""

    @property
    def size(self) -> dict[str, int]:
        """What a reader wants to know about a set."""
        return {
            "train": len(self.train),
            "test": len(self.test),
            "points": int(self.series.lengths.max()),
            "channels": len(self.series.channels),
            "classes": len(np.unique(self.labels)),
        }


def find_data() -> Path:
    """The folder of real data, as for the tests: `$NEURALRDE_DATA`, or `shared/data` beside the repository."""
    beside = Path(__file__).parents[3].parent / "shared" / "data"
    if not os.environ.get(VARIABLE) and beside.is_dir():
        os.environ[VARIABLE] = str(beside)  # the library's own readers look there
    return Path(os.environ.get(VARIABLE) or beside)


def load_set(name: str) -> LeagueSet:
    """A set with its official training and test part."""
    if name not in SETS:
        raise ValueError(f"Got the set {name!r}; expected one of {', '.join(SETS)}.")
    file = find_data() / "league" / f"{name}.npz"
    if not file.exists():
        data = load(VARIANTS.get(name, name))
        if data.static is not None:
            data = with_static_channels(data, None if name in VARIANTS and name not in IN_TABLE else IN_CHANNELS)
        labels = np.asarray(data.classes)[np.asarray(data.target)]
        train, test = (np.flatnonzero(np.asarray(data.split) == part) for part in ("train", "test"))
        return LeagueSet(name, data.series, labels, train, test, data.static if name in IN_TABLE else None)
    with np.load(file, allow_pickle=False) as arrays:
        # NaN behind a series' end stands for nothing, and Series repeats the last point there.
        series = Series(arrays["values"], lengths=arrays["lengths"])
        labels, n_train = arrays["target"].astype(str), int(arrays["n_train"])
    return LeagueSet(name, series, labels, np.arange(n_train), np.arange(n_train, len(labels)))


def with_static_channels(data: Dataset, names: Sequence[str] | None = None) -> Dataset:
    """What is known of each sample as a whole, all or the names, as channels with a value at the first point.

    Samples in which nothing was measured are left out, as in Pyrregular: PhysioNet 2012 has ten of them.
    """
    series, table = data.series, data.static[list(names or data.static)].astype(np.float32)
    new = [name for name in table if name not in series.channels]
    channels = [*series.channels, *new]
    values = np.full((*series.values.shape[:2], len(channels)), np.nan, np.float32)
    values[..., : len(series.channels)] = series.values
    for name in table:
        first = values[:, 0, channels.index(name)]
        first[...] = np.where(np.isnan(first), table[name], first)
    whole = replace(data, series=replace(series, values=values, channels=channels))
    return whole[~np.isnan(series.values).all(axis=(1, 2))]


def walker_split(whole: LeagueSet, seed: int, *, with_validation: bool = False) -> LeagueSet:
    """The random 70/15/15 split that Walker et al. (2024), and the papers that follow them, draw from a seed.

    They pool both parts, drop repeated series, which also sorts them by their values, and permute the rest with JAX's
    generator. The rows are therefore theirs, as far as their program tells. They use the validation part to stop and
    to choose settings; here nothing is chosen, and it is left out.

    Args:
        with_validation: learn from the validation part too.
    """
    import jax

    flat = whole.series.values.reshape(len(whole.series), -1)
    rows = np.unique(flat, axis=0, return_index=True)[1]
    with old_generator():
        datasets = jax.random.split(jax.random.PRNGKey(seed), 4)[0]
        order = rows[np.asarray(jax.random.permutation(jax.random.split(datasets)[0], len(rows)))]
    first, second = int(len(rows) * 0.7), int(len(rows) * 0.85)
    return replace(whole, train=order[: second if with_validation else first], test=order[second:])


def old_generator():
    """JAX's generator as it was by default until version 0.5, when the splits were drawn."""
    import jax

    return jax.threefry_partitionable(False)


SPLITS: dict[str, Callable[[LeagueSet, int], LeagueSet]] = {
    "official": lambda whole, seed: whole,
    "walker": walker_split,
    "walker85": lambda whole, seed: walker_split(whole, seed, with_validation=True),
}
# What a split is run with unless the options say otherwise.
SEEDS = {"official": (0, 1, 2), "walker": (2345, 3456, 4567, 5678, 6789), "walker85": (2345, 3456, 4567, 5678, 6789)}
SPLIT_SETS = {"walker": WALKER_SETS, "walker85": WALKER_SETS}
