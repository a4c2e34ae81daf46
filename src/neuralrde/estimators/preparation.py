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
    window_cuts,
)
from ..signatures import lyndon_words
from ..training import LogSignatureCache

FILLS = {"forward": FillForward, "linear": FillLinear}
# One for all estimators: a search over depths, steps and folds meets the same paths again and again.
CACHE = LogSignatureCache()
# Series often come with seven digits (float32): an area that is a millionth of its natural size is none.
_ROUNDING = 1e-6


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
    # A sample's last window is the one that reaches its last point; what comes then is padding.
    count = None if cuts.ndim == 1 else (cuts[:, :-1] < prepared.lengths[:, None] - 1).sum(axis=1)
    return Windows(path[:, 0].astype(dtype), windows, cuts, count)


def without_rounding(
    log_signatures: Float[np.ndarray, "samples windows log_signature"],
    path: Float[np.ndarray, "samples length channels"],
    depth: int,
    cuts: Int[np.ndarray, "*samples cuts"],
) -> Float[np.ndarray, "samples windows log_signature"]:
    """Log-signatures with zero where there is nothing but rounding.

    A straight piece of path has no area, yet comes out with one of 1e-17; divided by the size of its channel, such
    noise would drive a model as strongly as the data. The bound is relative: a word's coefficient is at most about
    the product of how far its channels have travelled in the window.

    >>> path = np.array([[[0.0, 0.0], [0.1, 0.3], [0.7, 0.1]]])
    >>> straight = np.array([[[0.1, 0.3, 1e-17], [0.6, -0.2, 0.0]]])
    >>> without_rounding(straight, path, 2, np.array([0, 1, 2]))[0, :, 2]
    array([0., 0.])
    """
    channels = path.shape[2]
    words = lyndon_words(channels, depth)
    travelled = np.cumsum(np.abs(np.diff(path, axis=1, prepend=path[:, :1])), axis=1)
    cuts = np.broadcast_to(cuts, (len(path), cuts.shape[-1]))
    travelled = np.diff(np.take_along_axis(travelled, cuts[..., None], axis=1), axis=1)
    cleaned = np.array(log_signatures)
    for number, word in enumerate(words[channels:], channels):
        size = travelled[..., list(word)].prod(axis=-1)
        cleaned[..., number][np.abs(cleaned[..., number]) < _ROUNDING * size] = 0.0
    return cleaned
