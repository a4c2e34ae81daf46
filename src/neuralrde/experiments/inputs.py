"""From raw series to a model's inputs, in pieces, so that a long data set never stands in memory in float64."""

import time
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float, Int

from ..datasets import Dataset, Split
from ..estimators.preparation import preparation, without_rounding
from ..models import fold
from ..paths import Series, window_cuts
from ..signatures import Basis, log_signatures
from ..training import Examples
from .bugs import Bug, drop_tail, fold_with_zeros, repeat_last

_PIECE = 2**24  # numbers of a path at a time


@dataclass(frozen=True)
class Parts:
    """The examples of a training, validation and test set, and the seconds that log-signatures took."""

    train: Examples
    validation: Examples
    test: Examples
    seconds: float


def prepared(data: Dataset, split: Split, *, standardise: str = "training") -> Series:
    """Filled, standardised, with time as channel 0 from 0 to 1; by statistics of the training set."""
    series = data.series
    if standardise == "sample":
        series = _each_by_itself(series)
    elif standardise != "training":
        raise ValueError(f'Got standardise={standardise!r}; expected "training" or "sample".')
    steps = preparation(fill="forward" if np.isnan(series.values).any() else None)
    return steps.fit(series[split.train])(series)


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


def _each_by_itself(series: Series) -> Series:
    values = series.values.astype(np.float64)
    seen = np.where(series.valid[..., None], values, np.nan)
    mean, spread = np.nanmean(seen, axis=1, keepdims=True), np.nanstd(seen, axis=1, keepdims=True)
    scaled = (values - mean) / np.where(spread > 0, spread, 1.0)
    return replace(series, values=scaled.astype(series.values.dtype))
