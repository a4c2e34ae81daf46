"""Points, as a message brings them: as lists of numbers, or as bytes."""

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


def from_bytes(
    data: bytes, place: int, shape: tuple[int, int], *, small: bool, timed: bool
) -> tuple[np.ndarray, np.ndarray | None, int]:
    """Points and times that lie in `data` from `place` on, and where they end.

    Args:
        data, place: where they lie.
        shape: (count, channels).
        small: whether values are float32; times are always float64.
        timed: whether there are times.

    >>> from_bytes(np.arange(4, dtype=np.float32).tobytes(), 0, (2, 2), small=True, timed=False)
    (array([[0., 1.],
           [2., 3.]]), None, 16)
    """
    count = shape[0] * shape[1]
    size = count * (4 if small else 8)
    end = place + size + 8 * shape[0] * timed
    if end > len(data):
        raise Refused(
            400,
            f"Got {len(data) - place} bytes for {shape[0]} points of {shape[1]} channels"
            f"{' with times' if timed else ''}; expected {end - place} or more.",
        )
    values = np.frombuffer(data, "<f4" if small else "<f8", count, place).reshape(shape).astype(np.float64)
    return values, np.frombuffer(data, "<f8", shape[0], place + size) if timed else None, end
