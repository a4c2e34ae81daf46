"""Points, as a message brings them."""

import numpy as np

from .errors import Refused


def as_points(values, times) -> tuple[np.ndarray, np.ndarray | None]:
    """Points `(count, channels)` and their times, or a refusal.

    >>> as_points([[1.0, None]], None)
    (array([[ 1., nan]]), None)
    """
    try:
        array = np.array(values, np.float64)
    except (ValueError, TypeError):
        raise Refused(
            400,
            "Got `values` whose rows differ in length; expected one list of numbers per point, all of one length.",
        ) from None
    if array.ndim != 2 or not array.size:
        raise Refused(
            400, f"Got `values` of shape {list(array.shape)}; expected (count, channels), with at least one point."
        )
    clock = None if times is None else np.array(times, np.float64)
    if clock is not None and clock.shape != array.shape[:1]:
        raise Refused(400, f"Got {clock.size} times for {len(array)} points; expected one per point.")
    return array, clock
