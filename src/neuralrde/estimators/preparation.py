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
from ..signatures import log_signatures
from ..signatures.rounding import without_rounding
from ..training import LogSignatureCache

FILLS = {"forward": FillForward, "linear": FillLinear}
# One for all estimators: a search over depths, steps and folds meets the same paths again and again. Only `fit` fills
# it: what is predicted once is not asked for again.
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


def windows_of(prepared: Series, depth: int, *, dtype: Any = np.float32, keep: bool = False, **cut: Any) -> Windows:
    """Cut prepared series by `step` or `every`, and take the log-signatures.

    Args:
        keep: whether the log-signatures will be asked for again, and are worth memory until then.
        cut: as in `window_cuts`.

    >>> windows_of(Series.from_array(np.zeros((5, 1001, 3))), depth=2, step=20).log_signatures.shape
    (5, 50, 6)
    """
    cuts = window_cuts(prepared, **cut)
    path = np.asarray(prepared.values, np.float64)
    compute = CACHE if keep else log_signatures
    with np.errstate(
        over="ignore", invalid="ignore"
    ):  # beyond float32: whoever predicts from it says which series it is
        windows = without_rounding(np.asarray(compute(path, depth, cuts=cuts)), path, depth, cuts).astype(dtype)
        x0 = path[:, 0].astype(dtype)
    count = None if cuts.ndim == 1 else window_counts(prepared, cuts)
    return Windows(x0, windows, cuts, count)
