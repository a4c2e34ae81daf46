"""From raw series to what a model is driven by, with statistics of the training set only."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from ..paths import (
    BasePoint,
    FillForward,
    FillLinear,
    ObservationCounts,
    Scale,
    Series,
    Step,
    Steps,
    TimeChannel,
    window_counts,
    window_cuts,
)
from ..signatures.rounding import without_rounding
from ..training import LogSignatureCache

FILLS = {"forward": FillForward, "linear": FillLinear}
# One for all estimators: a search over depths, steps and folds meets the same paths again and again.
CACHE = LogSignatureCache()


def preparation(*, fill: str | None, scale: bool = True, time: bool = True, base_point: bool = False) -> Steps:
    """The usual steps: count what was observed, fill, scale, add time.

    >>> preparation(fill="forward")
    Steps(ObservationCounts(channels=None), FillForward(default=None), Scale(), TimeChannel(duration=None))
    """
    steps: list[Step] = [] if fill is None else [ObservationCounts(), FILLS[fill]()]
    steps += [Scale()] * scale + [TimeChannel()] * time + [BasePoint()] * base_point
    return Steps(*steps)


def usual_step(series: Series, windows: int) -> int:
    """The step that cuts a series of median length into about so many windows.

    >>> usual_step(Series.from_array(np.zeros((5, 1001))), windows=50)
    20
    """
    return max(1, round((float(np.median(series.lengths)) - 1) / windows))


@dataclass(frozen=True)
class Windows:
    """Log-signatures of prepared series, their first points, and where they were cut."""

    x0: Float[np.ndarray, "samples channels"]
    log_signatures: Float[np.ndarray, "samples windows log_signature"]
    cuts: Int[np.ndarray, "*samples cuts"]
    count: Int[np.ndarray, "samples"] | None
    """Each sample's own number of windows; None if all have all of them."""


def windows_of(prepared: Series, depth: int, *, dtype: Any = np.float32, **cut: Any) -> Windows:
    """Cut prepared series by `step` or `every`, and take the log-signatures.

    >>> windows_of(Series.from_array(np.zeros((5, 1001, 3))), depth=2, step=20).log_signatures.shape
    (5, 50, 6)
    """
    cuts = window_cuts(prepared, **cut)
    path = np.asarray(prepared.values, np.float64)
    windows = without_rounding(CACHE(path, depth, cuts=cuts), path, depth, cuts).astype(dtype)
    count = None if cuts.ndim == 1 else window_counts(prepared, cuts)
    return Windows(path[:, 0].astype(dtype), windows, cuts, count)
