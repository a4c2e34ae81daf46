"""Checks of what is pushed into a stream, before anything is made of it."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

from ..paths.checks import as_numbers
from ..signatures.streams import MOST_AT_ONCE
from ..transforms import BasePoint, Compose, Resample, TimeChannel


def fitted_with_times(estimator: Any) -> bool | None:
    """Whether the series of the training set had times; None if nothing that was learned depends on it."""
    for one in (estimator, getattr(estimator, "closed_form_", None)):
        if one is None:
            continue
        if getattr(getattr(one, "windows_", None), "every", None) is not None:
            return True
        inner = one.transform_.transforms if isinstance(one.transform_, Compose) else (one.transform_,)
        for transform in inner:
            if isinstance(transform, TimeChannel) and transform.timed_ is not None:
                return transform.timed_
            if isinstance(transform, BasePoint) and transform.gap_ is not None:
                return True
            if isinstance(transform, Resample) and transform.spacing_ is not None:
                return True
    return None


def checked(
    values: Any, times: Any, *, channels: int, timed: bool | None, points: int, time: float, every: float | None
) -> tuple[Float[np.ndarray, "points channels"], Float[np.ndarray, "points"] | None]:
    """New points `(count, channels)` and their times.

    Args:
        values, times: as they were pushed.
        channels: of the model.
        timed: whether times are expected; None if both will do.
        points: how many have been seen.
        time: of the last one.
        every: the time in a window, if windows are cut by time.
    """
    values = as_numbers(values)
    if values.ndim < 2 and (values.size == 0 or channels == 1):
        values = values.reshape(-1, channels)
    values = values[None] if values.ndim == 1 else values
    if values.ndim != 2 or values.shape[1] != channels:
        raise ValueError(
            f"Got points of shape {values.shape}; expected (count, {channels}), or ({channels},) for a single point, "
            f"because the model was fitted on series of {channels} channel{'' if channels == 1 else 's'}."
        )
    if not np.isfinite(values.sum(dtype=np.float64)) and np.isinf(values).any():
        raise ValueError(
            f"Got infinity in channel {int(np.isinf(values).any(axis=0).argmax())}; expected finite numbers, or NaN "
            "for missing values, because no path runs through infinity."
        )
    if timed is not None and timed != (times is not None):
        raise ValueError(
            f"Got points {'without' if timed else 'with'} times; expected them {'with' if timed else 'without'}, as "
            f"{'before' if points else 'in training'}. Write `push(values{', times' if timed else ''})`."
        )
    if times is None:
        return values, None
    times = np.atleast_1d(as_numbers(times, name="times").astype(np.float64, copy=False))
    if times.shape != values.shape[:1]:
        raise ValueError(f"Got times of shape {times.shape} for {len(values)} points; expected one time per point.")
    if not len(times):
        return values, times
    steps = np.concatenate([[time], times]) if points else times
    steps = steps[1:] - steps[:-1]
    # Between a finite first and last time, times that increase are finite.
    if not (steps > 0).all() or not np.isfinite(times[0]) or not np.isfinite(times[-1]):
        where = int(np.argmin(steps > 0)) + (points == 0) if len(steps) else 0
        before = times[where - 1] if where else time
        raise ValueError(
            f"Got the time {times[where]} at point {where} of this push, after {before}; expected finite times that "
            "increase, because a stream cannot go back. Sort the points, and merge those of one time."
        )
    if every is not None and len(steps) and not steps.max() / every < MOST_AT_ONCE:
        raise ValueError(
            f"Got a gap of {steps.max():g} between points, {steps.max() / every:.3g} windows of {every:g}; expected "
            f"fewer than {MOST_AT_ONCE}. Close the stream and begin another after such a gap."
        )
    return values, times


def in_order(
    arrivals: Sequence[Any], seen: Mapping[str, np.ndarray], *, channels: int, timed: bool | None, every: float | None
) -> bool:
    """Whether `checked` would let all of these pass as they are: one look at many streams, which is soon done.

    Args:
        arrivals: of each stream what was pushed.
        seen: of each stream its "points" so far, the "time" of the last, and whether it is "timed".
        channels, timed, every: as in `checked`.
    """
    for given in arrivals:
        if type(given) is not tuple or len(given) != 2 or not _plain(given[0], (None, channels)) or not len(given[0]):
            return False
        if given[1] is not None and not _plain(given[1], (len(given[0]),)):
            return False
    if np.isinf(np.concatenate([values for values, _ in arrivals])).any():
        return False
    clocks = [times for _, times in arrivals if times is not None]
    have = bool(clocks)
    expected = timed if timed is not None else np.where(seen["points"] > 0, seen["timed"], have)
    if len(clocks) not in (0, len(arrivals)) or np.any(expected != have):
        return False
    if not have:
        return True
    times, lengths = np.concatenate(clocks), np.array([len(clock) for clock in clocks])
    first = np.cumsum(lengths) - lengths
    before = np.concatenate([times[:1], times[:-1]])
    before[first] = np.where(seen["points"] > 0, seen["time"], -np.inf)
    steps = times - before
    if (
        not (steps > 0).all()
        or not np.isfinite(times[first]).all()
        or not np.isfinite(times[first + lengths - 1]).all()
    ):
        return False
    return every is None or bool((steps[np.isfinite(steps)] / every < MOST_AT_ONCE).all())


def _plain(array: Any, shape: tuple[int | None, ...]) -> bool:
    return (
        type(array) is np.ndarray
        and array.dtype == np.float64
        and array.ndim == len(shape)
        and all(size is None or size == own for size, own in zip(shape, array.shape, strict=True))
    )
