"""From raw series to a model's inputs, in pieces, so that a long data set never stands in memory in float64."""

import time
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float, Int

from neuralrde.datasets import Dataset, Split
from neuralrde.models import fold
from neuralrde.paths import Series, even_shifts, window_counts, window_cuts
from neuralrde.signatures import Basis, log_signatures, without_rounding
from neuralrde.training import Examples, RandomChoice, TimeStretch, stretch_time
from neuralrde.transforms import Compose, FillForward, ObservationCounts, Scale, ScaleEach, TimeChannel, Transform

from .paper_bugs import Bug, drop_tail, fold_with_zeros, repeat_last

_PIECE = 2**24  # numbers of a path at a time


@dataclass(frozen=True)
class TestTimeAugmentation:
    """Validation and test set once more, cut elsewhere or played at another speed; predictions are combined."""

    validation: Examples
    test: Examples
    label_factor: float = 1.0
    """What the labels are multiplied by at this speed."""


@dataclass(frozen=True)
class Inputs:
    """The examples of training, validation and test set, and the seconds that their log-signatures took."""

    train: Examples
    validation: Examples
    test: Examples
    seconds: float
    versions: RandomChoice | None = None
    """What to train on instead of `train`, where there are several versions of the series."""
    test_time: tuple[TestTimeAugmentation, ...] = ()

    def first_epoch(self) -> Examples:
        """What the first epoch is trained on: scales are fitted to it."""
        return self.train if self.versions is None else self.versions.epoch(0)


def prepared(data: Dataset, split: Split, *, standardise: str = "training", standardise_time: bool = False) -> Series:
    """Filled, standardised, with time as channel 0; by statistics of the training set.

    Args:
        standardise: "training" by the training set's mean and deviation; "sample" each series by its own.
        standardise_time: to mean 0 and deviation 1 like the other channels (from -1.7 to 1.7 where lengths are equal),
            instead of from 0 to 1.
    """
    series = _filled_and_scaled(data, split, standardise)
    transform = Compose(TimeChannel(), Scale()) if standardise_time else TimeChannel()
    return transform.fit(series[split.train])(series)


def with_features(data: Dataset, split: Split, features: Transform) -> Dataset:
    """Features instead of the points, by statistics of the training set; filled first."""
    transform = Compose(FillForward(), features).fit(data.series[split.train])
    return replace(data, series=transform(data.series))


def without_copies(data: Dataset) -> Dataset:
    """One series of one channel, where each channel is the one before it, shifted by the number of channels.

    SelfRegulationSCP1 and SCP2 are like this, in the files we have: channel c at point t is number c * channels + t of
    one sequence. It jumps after 896 or 1152 points: it seems to be one electrode, and the first 30 or 42 of the next.

    >>> sequence = np.arange(12.0)
    >>> copies = np.stack([sequence[0:6], sequence[3:9], sequence[6:12]], axis=1)[None]
    >>> without_copies(Dataset(Series.from_array(copies), [0])).series.values.ravel().tolist() == sequence.tolist()
    True
    """
    values = data.series.values
    shift = values.shape[2]
    if not np.array_equal(values[:, shift:, :-1], values[:, :-shift, 1:]):
        raise ValueError(
            f"Got {data.name}, whose channels are no shifted copies; expected shifted copies. Write copies=False."
        )
    rest = values[:, -shift:, 1:].swapaxes(1, 2).reshape(len(values), -1)
    sequence = np.concatenate([values[:, :, 0], rest], axis=1)
    return replace(data, series=Series.from_array(sequence, ids=data.series.ids))


def target_of(data: Dataset) -> np.ndarray:
    """Numbers (samples, 1) in float32, or classes."""
    if data.target is None or data.per_time:
        raise ValueError(f"Got the data set {data.name} with no target for whole series; expected one for each.")
    target = np.asarray(data.target)
    return target if data.classes is not None else target.reshape(len(data), -1).astype(np.float32)


def paper_inputs(
    data: Dataset,
    split: Split,
    series: Series,
    *,
    depth: int,
    step: int,
    bugs: frozenset[Bug] = frozenset(),
) -> Inputs:
    """First points and log-signatures, as the paper computes them."""
    begin = time.monotonic()
    cuts = window_cuts(series, step=step)
    if Bug.TAIL_DROPPED in bugs:
        if cuts.ndim > 1:
            raise ValueError(
                f"Got {data.name}, whose series differ in length; expected equal lengths under the paper's protocol. "
                "Write --protocol ours."
            )
        cuts = drop_tail(cuts, step)
    windows = _log_signatures(series, cuts, depth, "words", clean=False)
    if Bug.LAST_WINDOW_TWICE in bugs:
        windows = repeat_last(windows)
    count = None if cuts.ndim == 1 else window_counts(series, cuts)
    seconds = time.monotonic() - begin
    every = Examples((series.values[:, 0].astype(np.float32), windows), target_of(data), windows=count)
    return Inputs(*(every.take(rows) for rows in split), seconds=seconds)


def augmented_inputs(
    data: Dataset,
    split: Split,
    *,
    depth: int,
    step: int,
    basis: Basis,
    standardise: str,
    shifts: int,
    stretch: TimeStretch | None,
    versions: int,
    speeds: tuple[float, ...],
    seed: int,
) -> Inputs:
    """Series cut into windows in several ways, and for training played at several speeds.

    Args:
        shifts: how many ways of cutting; in all but the first, windows end some points earlier.
        stretch: of the versions to train on, of which there are `versions`, each cut in one of the ways; None trains on
            all ways of cutting, at the series' own speed.
        speeds: at which validation and test set are played, each cut in all ways.
    """
    begin = time.monotonic()
    raw, target, rng = _filled_and_scaled(data, split, standardise), target_of(data), np.random.default_rng(seed)
    add_time = TimeChannel().fit(raw[split.train])
    all_shifts = even_shifts(step, shifts)

    def examples(rows: np.ndarray, speeds: np.ndarray | float, shift: int) -> Examples:
        speeds = np.broadcast_to(speeds, len(rows))
        windows, counts, size = [], [], max(1, _PIECE // 8 // raw.values[0].size)
        for start in range(0, len(rows), size):  # in pieces, which stay in cache from the first transform to the last
            piece, here = raw[rows[start : start + size]], speeds[start : start + size]
            ready = add_time(piece if (here == 1.0).all() else stretch_time(piece, here))
            where = window_cuts(ready, step=step, shift=shift)
            windows.append(_log_signatures(ready, where, depth, basis, clean=True))
            counts.append(window_counts(ready, where))
        most, count = max(piece.shape[1] for piece in windows), np.concatenate(counts)
        windows = [np.pad(piece, [(0, 0), (0, most - piece.shape[1]), (0, 0)]) for piece in windows]
        x0 = np.concatenate([np.zeros((len(rows), 1)), raw.values[rows, 0]], axis=1).astype(np.float32)
        factors = speeds if stretch is not None and stretch.rate else np.ones(len(rows))
        labels = (target[rows].T * factors).T.astype(target.dtype)
        return Examples((x0, np.concatenate(windows)), labels, windows=None if (count == most).all() else count)

    def held_out(speed: float, shift: int) -> TestTimeAugmentation:
        factor = speed if stretch is not None and stretch.rate else 1.0
        validation, test = (examples(rows, speed, shift) for rows in (split.validation, split.test))
        return TestTimeAugmentation(validation, test, factor)

    plain, *others = [held_out(speed, shift) for speed in speeds for shift in all_shifts]
    if stretch is None:
        train = [examples(split.train, 1.0, shift) for shift in all_shifts]
    else:
        draw = lambda: examples(split.train, stretch.draw(len(split.train), rng), int(rng.choice(all_shifts)))
        train = [draw() for _ in range(versions)]
    several = RandomChoice(train, seed) if len(train) > 1 else None
    seconds = time.monotonic() - begin
    return Inputs(train[0], plain.validation, plain.test, seconds, several, tuple(others))


def folded_inputs(
    data: Dataset, split: Split, series: Series, *, step: int, bugs: frozenset[Bug] = frozenset()
) -> Inputs:
    """Blocks of points for the ODE-RNN, which uses no log-signatures."""
    folds = fold_with_zeros if Bug.ZERO_BLOCK in bugs else fold
    blocks = folds(series.values, step).astype(np.float32)
    count = -(-series.lengths // step) if series.ragged else None
    every = Examples((blocks,), target_of(data), windows=count)
    return Inputs(*(every.take(rows) for rows in split), seconds=0.0)


def _log_signatures(
    series: Series, cuts: Int[np.ndarray, "*samples cuts"], depth: int, basis: Basis, clean: bool
) -> Float[np.ndarray, "samples windows channels"]:
    rows = max(1, _PIECE // series.values[0].size)
    pieces = []
    for start in range(0, len(series), rows):
        path = series.values[start : start + rows].astype(np.float64)
        here = cuts if cuts.ndim == 1 else cuts[start : start + rows]
        windows = np.asarray(log_signatures(path, depth, cuts=here, basis=basis))
        windows = without_rounding(windows, path, depth, here) if clean and basis == "words" else windows
        pieces.append(windows.astype(np.float32))
    return np.concatenate(pieces)


def _filled_and_scaled(data: Dataset, split: Split, standardise: str) -> Series:
    if standardise not in ("training", "sample"):
        raise ValueError(f'Got standardise={standardise!r}; expected "training" or "sample".')
    fill = [ObservationCounts(), FillForward()] if np.isnan(data.series.values).any() else []
    transform = Compose(*fill, Scale()) if standardise == "training" else Compose(ScaleEach(), *fill)
    return transform.fit(data.series[split.train])(data.series)
