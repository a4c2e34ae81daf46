"""The published values: the paper's tables of all results, and later ones on the same archives.

Morrill, Salvi, Kidger, Foster (2021), Neural Rough Differential Equations for Long Time Series, appendix D.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Published:
    """A mean and standard deviation over repeats, hours on a GPU, and MB of memory; None where it could not be run."""

    mean: float | None
    deviation: float | None = None
    hours: float | None = None
    memory: float | None = None


# model depth step, mean and deviation for RR, HR and SpO2, hours for each, MB
_BIDMC = """
odernn 0 1 - - 13.06 0.0 - - - 10.4 - 3654.0
odernn 0 2 - - 13.06 0.0 - - - 5.5 - 1840.4
odernn 0 4 2.76 0.14 13.06 0.0 3.3 0.0 3.0 2.7 2.1 1809.0
odernn 0 8 2.47 0.35 13.06 0.0 3.3 0.0 1.5 1.2 0.9 917.2
odernn 0 16 2.21 0.75 13.06 0.0 3.3 0.0 2.2 0.7 0.4 471.9
odernn 0 32 1.82 0.64 13.06 0.0 3.3 0.0 0.7 0.3 0.2 249.4
odernn 0 64 1.6 0.22 13.06 0.0 3.3 0.0 0.5 0.1 0.1 137.0
odernn 0 128 1.62 0.07 13.06 0.0 3.3 0.0 0.2 0.1 0.1 81.9
odernn 0 256 1.57 0.04 7.04 1.04 1.43 0.11 0.1 0.1 0.1 53.8
odernn 0 512 1.66 0.06 6.75 0.9 1.98 0.31 0.0 0.1 0.1 40.4
odernn 0 1024 1.69 0.02 8.4 0.28 2.05 0.14 0.0 0.0 0.0 36.2
odernn 0 2048 1.75 0.03 9.2 0.27 2.24 0.11 0.0 0.0 0.0 39.6
ncde 1 1 2.79 0.04 9.82 0.34 2.83 0.27 23.8 22.1 28.1 56.5
ncde 1 2 2.87 0.03 11.69 0.38 3.36 0.2 19.3 9.6 8.8 32.6
ncde 1 4 2.92 0.08 11.15 0.49 3.69 0.06 5.3 5.7 3.2 20.2
ncde 1 8 2.8 0.06 10.72 0.24 3.43 0.17 3.0 2.6 4.8 14.3
ncde 1 16 2.22 0.07 7.98 0.61 2.9 0.11 1.7 1.4 1.8 11.8
ncde 1 32 2.53 0.23 12.23 0.43 2.68 0.12 1.9 0.9 2.2 9.8
ncde 1 64 2.63 0.11 12.02 0.09 2.88 0.06 0.2 0.3 0.4 9.1
ncde 1 128 2.64 0.18 11.98 0.37 2.86 0.04 0.2 0.2 0.3 8.7
ncde 1 256 2.53 0.04 12.29 0.1 3.08 0.1 0.1 0.1 0.1 8.3
ncde 1 512 2.53 0.03 12.22 0.11 2.98 0.04 0.1 0.0 0.1 8.4
ncde 1 1024 2.67 0.12 11.55 0.03 2.91 0.12 0.1 0.1 0.1 8.4
ncde 1 2048 2.48 0.03 12.03 0.2 3.25 0.01 0.0 0.1 0.0 8.2
nrde 2 2 2.91 0.1 11.11 0.23 3.89 0.44 12.7 9.3 8.2 58.3
nrde 2 4 2.92 0.04 11.14 0.2 4.23 0.57 18.1 5.0 3.4 34.0
nrde 2 8 2.63 0.12 8.63 0.24 2.88 0.15 2.1 3.4 3.3 21.8
nrde 2 16 1.8 0.07 5.73 0.45 1.98 0.21 2.2 1.4 2.5 16.0
nrde 2 32 1.9 0.02 7.9 1.0 1.69 0.2 1.2 1.1 2.0 13.1
nrde 2 64 1.89 0.04 5.54 0.45 2.04 0.07 0.3 0.3 1.7 11.6
nrde 2 128 1.86 0.03 6.77 0.42 1.95 0.18 0.3 0.4 0.7 10.9
nrde 2 256 1.86 0.09 5.64 0.19 2.1 0.19 0.1 0.1 0.5 10.5
nrde 2 512 1.81 0.02 5.05 0.23 2.17 0.18 0.1 0.2 0.4 10.3
nrde 2 1024 1.93 0.11 6.0 0.19 2.41 0.07 0.1 0.1 0.2 10.2
nrde 2 2048 2.03 0.03 7.7 1.46 2.55 0.03 0.1 0.1 0.1 10.2
nrde 3 2 2.82 0.08 11.01 0.28 4.1 0.72 8.8 9.4 6.9 125.2
nrde 3 4 2.97 0.23 10.13 0.62 3.56 0.44 3.2 4.1 2.6 71.6
nrde 3 8 2.42 0.19 7.67 0.4 2.55 0.13 2.9 3.2 3.1 43.3
nrde 3 16 1.74 0.05 4.11 0.61 1.4 0.06 1.4 1.4 6.5 29.1
nrde 3 32 1.67 0.01 4.5 0.7 1.61 0.05 1.3 1.8 7.3 20.5
nrde 3 64 1.53 0.08 3.05 0.36 1.48 0.14 0.4 1.9 3.3 17.9
nrde 3 128 1.51 0.08 2.97 0.45 1.37 0.22 0.5 1.7 1.7 17.3
nrde 3 256 1.51 0.06 3.4 0.74 1.47 0.07 0.3 0.7 0.6 16.6
nrde 3 512 1.49 0.08 3.46 0.13 1.29 0.15 0.3 0.4 0.4 15.4
nrde 3 1024 1.83 0.33 5.58 2.5 1.72 0.31 0.2 0.1 0.1 15.7
nrde 3 2048 2.31 0.27 9.77 1.53 2.45 0.18 0.1 0.1 0.1 15.6
"""
# model depth step, mean and deviation in %, hours, MB
_WORMS = """
odernn 0 1 - - - -
odernn 0 2 36.8 1.5 1.6 7170.1
odernn 0 4 35.0 1.5 0.8 3629.3
odernn 0 6 36.8 1.5 0.5 2448.6
odernn 0 8 36.8 1.5 0.4 1858.8
odernn 0 16 32.5 3.0 0.2 973.5
odernn 0 32 32.5 1.5 0.1 532.2
odernn 0 64 41.0 4.4 0.1 311.2
odernn 0 128 47.9 5.3 0.0 200.8
odernn 0 256 46.2 0.0 0.0 147.0
odernn 0 512 47.9 10.4 0.0 124.5
odernn 0 1024 44.4 7.4 0.0 122.4
odernn 0 2048 48.7 6.8 0.0 137.2
ncde 1 1 62.4 12.1 22.0 176.5
ncde 1 2 69.2 4.4 14.6 90.6
ncde 1 4 66.7 11.8 5.5 46.6
ncde 1 6 65.8 12.9 2.6 31.5
ncde 1 8 64.1 13.3 3.1 24.3
ncde 1 16 64.1 16.8 1.5 13.4
ncde 1 32 64.1 14.3 0.5 8.0
ncde 1 64 56.4 6.8 0.4 5.2
ncde 1 128 48.7 2.6 0.1 3.9
ncde 1 256 42.7 3.0 0.1 3.2
ncde 1 512 44.4 5.3 0.0 2.9
ncde 1 1024 41.9 14.6 0.0 2.7
ncde 1 2048 38.5 5.1 0.0 2.6
nrde 2 2 76.1 13.2 9.8 354.3
nrde 2 4 83.8 3.0 2.4 180.0
nrde 2 6 76.9 6.8 2.0 82.2
nrde 2 8 77.8 5.9 2.1 94.2
nrde 2 16 78.6 3.9 1.3 50.2
nrde 2 32 67.5 12.1 0.7 28.1
nrde 2 64 73.5 7.8 0.4 17.2
nrde 2 128 76.1 5.9 0.2 7.8
nrde 2 256 72.6 12.1 0.1 8.9
nrde 2 512 69.2 11.8 0.0 7.6
nrde 2 1024 65.0 7.4 0.0 6.9
nrde 2 2048 67.5 3.9 0.0 6.5
nrde 3 2 66.7 4.4 7.4 1766.2
nrde 3 4 76.9 9.2 2.8 856.8
nrde 3 6 70.9 1.5 1.4 606.1
nrde 3 8 70.1 6.5 1.3 460.7
nrde 3 16 73.5 3.0 1.4 243.7
nrde 3 32 75.2 3.0 0.6 134.7
nrde 3 64 74.4 11.8 0.3 81.0
nrde 3 128 68.4 8.2 0.1 53.3
nrde 3 256 60.7 8.2 0.1 40.2
nrde 3 512 62.4 10.4 0.0 33.1
nrde 3 1024 59.8 3.9 0.0 29.6
nrde 3 2048 61.5 4.4 0.0 27.7
"""
# Five random splits 70/15/15, accuracy in %: Walker et al. (2024), Log neural controlled differential equations;
# Rusch and Rus (2025), Oscillatory state-space models. Each model has settings of its own, so there is no step.
PUBLISHED_LATER = {
    "SelfRegulationSCP1": {
        "NCDE": (79.8, 5.6),
        "NRDE": (80.9, 2.5),
        "Log-NCDE": (83.1, 2.8),
        "S5": (89.9, 4.6),
        "LinOSS": (87.8, 2.6),
    },
    "SelfRegulationSCP2": {
        "NCDE": (53.0, 2.8),
        "NRDE": (53.7, 6.9),
        "Log-NCDE": (53.7, 4.1),
        "S5": (50.5, 2.6),
        "LinOSS": (59.0, 8.1),
    },
}


def _number(word: str) -> float | None:
    return None if word == "-" else float(word)


def _tables() -> dict[tuple[str, str, int, int], Published]:
    found = {}
    for line in _BIDMC.split("\n")[1:-1]:
        model, depth, step, *words = line.split()
        numbers = [_number(word) for word in words]
        for i, name in enumerate(("BIDMC32RR", "BIDMC32HR", "BIDMC32SpO2")):
            values = Published(numbers[2 * i], numbers[2 * i + 1], numbers[6 + i], numbers[9])
            found[name, model, int(depth), int(step)] = values
    for line in _WORMS.split("\n")[1:-1]:
        model, depth, step, *words = line.split()
        found["EigenWorms", model, int(depth), int(step)] = Published(*map(_number, words))
    return found


TABLES = _tables()


def published(dataset: str, model: str, depth: int, step: int) -> Published | None:
    """The paper's value for an experiment, if it has one.

    >>> published("BIDMC32HR", "nrde", 3, 128)
    Published(mean=2.97, deviation=0.45, hours=1.7, memory=17.3)
    """
    return TABLES.get((dataset, model, depth, step))


def best_published(dataset: str) -> float | None:
    """The paper's best error (or accuracy, in %) on a data set, over all its experiments.

    >>> best_published("BIDMC32HR"), best_published("EigenWorms")
    (2.97, 83.8)
    """
    means = [value.mean for (name, *_), value in TABLES.items() if name == dataset and value.mean is not None]
    return (min(means) if dataset.startswith("BIDMC") else max(means)) if means else None
