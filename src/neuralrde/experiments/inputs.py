"""From raw series to a model's inputs, in pieces, so that a long data set never stands in memory in float64."""

import time
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float, Int

from ..datasets import Dataset, Split
from ..estimators.preparation import preparation, without_rounding
from ..models import fold
from ..paths import FillForward, ScaleEach, Series, Step, Steps, window_cuts
from ..signatures import Basis, log_signatures
from ..training import Augmented, Examples, TimeStretch
from .bugs import Bug, drop_tail, fold_with_zeros, repeat_last

_PIECE = 2**24  # numbers of a path at a time


@dataclass(frozen=True)
class Parts:
    """The examples of a training, validation and test set, and the seconds that log-signatures took."""

    train: Examples
    validation: Examples
    test: Examples
    seconds: float
    augmented: Augmented | None = None
    """What to train on instead of `train`, where the recipe augments."""


def prepared(data: Dataset, split: Split, *, standardise: str = "training", features: Step | None = None) -> Series:
    """Filled, as features, standardised, with time as channel 0 from 0 to 1; by statistics of the training set."""
    gaps = bool(np.isnan(data.series.values).any())
    return _steps(standardise, gaps=gaps, features=features).fit(data.series[split.train])(data.series)


def without_copies(data: Dataset) -> Dataset:
    """One series of one channel, where each channel is the one before it, shifted by the number of channels.

    So the archive's SelfRegulationSCP1 and SCP2 are: channel c at point t is number c * channels + t of one sequence,
    which holds all of one electrode (896 or 1152 points) and the first 30 or 42 of the next.

    >>> sequence = np.arange(12.0)
    >>> copies = np.stack([sequence[0:6], sequence[3:9], sequence[6:12]], axis=1)[None]
    >>> without_copies(Dataset(Series.from_array(copies), [0])).series.values.ravel().tolist() == sequence.tolist()
    True
    """
    values = data.series.values
    shift = values.shape[2]
    if not np.array_equal(values[:, shift:, :-1], values[:, :-shift, 1:]):
        raise ValueError(f"Got {data.name}, whose channels are no shifted copies; expected such. Write copies=False.")
    rest = values[:, -shift:, 1:].swapaxes(1, 2).reshape(len(values), -1)
    sequence = np.concatenate([values[:, :, 0], rest], axis=1)
    return replace(data, series=Series.from_array(sequence, ids=data.series.ids))


def target_of(data: Dataset) -> np.ndarray:
    """Numbers (samples, 1) in float32, or classes."""
    if data.target is None or data.per_time:
        raise ValueError(f"Got the data set {data.name} with no target for whole series; expected one for each.")
    target = np.asarray(data.target)
    return target if data.classes is not None else target.reshape(len(data), -1).astype(np.float32)


def driven_parts(
    data: Dataset,
    split: Split,
    series: Series,
    *,
    depth: int,
    step: int,
    basis: Basis = "words",
    bugs: frozenset[Bug] = frozenset(),
    clean: bool = False,
) -> Parts:
    """First points and log-signatures. `clean` sets to zero what is only rounding, as the estimators do."""
    begin = time.monotonic()
    cuts = window_cuts(series, step=step)
    if Bug.TAIL_DROPPED in bugs:
        if cuts.ndim > 1:
            raise ValueError(
                f"Got {data.name}, whose series differ in length; expected equal lengths under the paper's protocol. "
                "Write --protocol ours."
            )
        cuts = drop_tail(cuts, step)
    windows = _log_signatures(series, cuts, depth, basis, clean)
    if Bug.LAST_WINDOW_TWICE in bugs:
        windows = repeat_last(windows)
    count = None if cuts.ndim == 1 else (cuts[:, :-1] < series.lengths[:, None] - 1).sum(axis=1)
    seconds = time.monotonic() - begin
    every = Examples((series.values[:, 0].astype(np.float32), windows), target_of(data), windows=count)
    return Parts(*(every.take(rows) for rows in split), seconds=seconds)


def stretched_parts(
    data: Dataset,
    split: Split,
    stretch: TimeStretch,
    *,
    depth: int,
    step: int,
    basis: Basis,
    standardise: str,
    seed: int,
) -> Parts:
    """Pieces of the series at their own speed, and for training at other speeds too, drawn anew in every epoch."""
    plain = replace(data, series=stretch.plain(data.series))
    steps = _steps(standardise).fit(plain.series[split.train])
    parts = driven_parts(plain, split, steps(plain.series), depth=depth, step=step, basis=basis, clean=True)

    def examples(series: Series, target: np.ndarray) -> Examples:
        ready = steps(series)
        windows = _log_signatures(ready, window_cuts(ready, step=step), depth, basis, clean=True)
        return Examples((ready.values[:, 0].astype(np.float32), windows), target)

    target = target_of(data)[split.train]
    return replace(parts, augmented=Augmented(data.series[split.train], target, [stretch], examples, seed=seed))


def folded_parts(
    data: Dataset, split: Split, series: Series, *, step: int, bugs: frozenset[Bug] = frozenset()
) -> Parts:
    """Blocks of points for the ODE-RNN, which has no log-signatures."""
    folds = fold_with_zeros if Bug.ZERO_BLOCK in bugs else fold
    blocks = folds(series.values, step).astype(np.float32)
    count = -(-series.lengths // step) if series.ragged else None
    every = Examples((blocks,), target_of(data), windows=count)
    return Parts(*(every.take(rows) for rows in split), seconds=0.0)


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


def _steps(standardise: str, *, gaps: bool = False, features: Step | None = None) -> Step:
    fill = "forward" if gaps and features is None else None
    first = () if features is None else (FillForward(), features)
    if standardise == "training":
        return Steps(*first, *preparation(fill=fill).steps)
    if standardise == "sample":
        return Steps(*first, ScaleEach(), *preparation(fill=fill, scale=False).steps)
    raise ValueError(f'Got standardise={standardise!r}; expected "training" or "sample".')
