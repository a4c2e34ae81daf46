"""Checks of numbers and of memory, before a mistake can become a wrong number or an endless wait."""

import contextlib
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeGuard

import numpy as np
from jaxtyping import Bool, Float
from numpy.typing import ArrayLike

from ..errors import ParameterError, python_only


def check_finite(values: ArrayLike, *, channels: Sequence[str] | None = None) -> None:
    """Raise unless an array `(..., length, channels)` is free of NaN and infinity; name the first bad value.

    >>> import numpy as np
    >>> check_finite(np.zeros((2, 5, 3)))
    >>> check_finite(np.array([[[1.0], [np.nan]]]), channels=["heart rate"])  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ValueError: Got NaN in sample 0, channel 'heart rate', at point 1; expected finite numbers, ...
    """
    values = as_numbers(values)
    if values.ndim < 2:
        raise ValueError(f"Got values of shape {values.shape}; expected (..., length, channels).")
    check_not_infinite(values, channels=channels)
    missing = np.isnan(values)
    if missing.any():
        raise ValueError(
            f"Got NaN in {_place(missing, channels)}; expected finite numbers, because one NaN makes the "
            "log-signature of its window NaN and every state after it. If NaN means missing, fill it first: "
            "`FillForward()` looks only back, `FillLinear()` interpolates; for example "
            "`fill = FillForward().fit(training); series = fill(series)`."
        )


def check_not_infinite(values: np.ndarray, *, channels: Sequence[str] | None = None) -> None:
    infinite = np.isinf(values)
    if infinite.any():
        raise ValueError(
            f"Got infinity in {_place(infinite, channels)}; expected finite numbers, or NaN for missing "
            "values, because no path runs through infinity. Where such a value is missing, leave its cell of a table "
            f"empty{python_only(', or write `np.where(np.isinf(values), np.nan, values)` and `FillForward()`')}."
        )


def _place(bad: Bool[np.ndarray, "*batch length channels"], channels: Sequence[str] | None) -> str:
    *sample, point, channel = (int(i) for i in np.unravel_index(np.argmax(bad), bad.shape))
    number = sample[0] if len(sample) == 1 else tuple(sample)
    name = f"{channel}" if channels is None else repr(channels[channel])
    others = int(bad.sum()) - 1
    return (
        (f"sample {number}, " if sample else "")
        + f"channel {name}, at point {point}"
        + (f" (and {others} more such values)" if others else "")
    )


def as_numbers(values: Any, *, name: str = "values") -> Float[np.ndarray, "..."]:
    """A NumPy array of float32 or float64: whole numbers become float64, other things are refused."""
    if isinstance(values, np.ma.MaskedArray):
        # np.asarray would drop the mask and let the numbers under it through.
        raise TypeError(
            f"Got {name} as a masked array; expected NaN where values are missing. "
            "Write `x.astype(float).filled(np.nan)`."
        )
    try:
        array = np.asarray(values)
    except ValueError as error:
        raise ValueError(
            f"Got {name} that make no rectangular array ({error}). Series of different lengths go into "
            "`Series.from_arrays([...])`, which pads them."
        ) from None
    if array.dtype.kind in "mM":
        raise TypeError(
            f"Got {name} of type {array.dtype}; expected numbers, because only you know the unit to count "
            "in. Write, for seconds, `(x - x.min()) / np.timedelta64(1, 's')`."
        )
    if array.dtype.kind not in "fiub":
        raise TypeError(
            f"Got {name} of type {array.dtype}; expected real numbers, because a path is followed in "
            "R^channels. Convert them first, for example `np.asarray(x, dtype=np.float64)` with None "
            "written as NaN, and categories as one-hot channels."
        )
    if array.dtype in (np.float32, np.float64):
        return array
    return array.astype(np.float32 if array.dtype == np.float16 else np.float64)


def is_number(value: Any) -> TypeGuard[float]:
    """Whether it is a real number; True and False are none."""
    return isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)


def check_whole(
    name: str, value: Any, *, low: int = 1, high: float = 2**20, also: tuple = (), because: str = ""
) -> None:
    """Raise unless it is a whole number in a range, or one of a few other things."""
    if isinstance(value, str | None) and value in also:
        return
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or not low <= value <= high:
        others = "".join(f", or {other!r}" for other in also)
        span = f"of at least {low}" if high == np.inf else f"from {low} to {high}"
        raise ParameterError(name, value, f"a whole number {span}{others}", because)


def check_number(
    name: str,
    value: Any,
    *,
    low: float = 0.0,
    high: float = np.inf,
    above: bool = False,
    finite: bool = False,
    also: tuple = (),
    because: str = "",
) -> None:
    """Raise unless it is a number in a range; with `above`, larger than `low`, and not `low` itself."""
    if value is None and None in also:
        return
    inside = is_number(value) and low <= value <= high and not (above and value == low)
    if not inside or (finite and value in (np.inf, -np.inf)):
        others = "".join(f", or {other!r}" for other in also)
        span = "a finite number" if finite else "a number"
        if high != np.inf:
            span += f" from {low:g} to {high:g}"
        elif low != -np.inf:
            span += f" above {low:g}" if above else f" of at least {low:g}"
        raise ParameterError(name, value, f"{span}{others}", because)


def check_flag(name: str, value: object) -> None:
    if not isinstance(value, bool | np.bool):
        raise ParameterError(name, value, "True or False")


# Always there, and asked for so often that looking would take longer than the work.
SMALL = 2**24


def check_fits(size: float, what: str, instead: str) -> None:
    """Raise a MemoryError if `size` bytes are more than are free, because the system may kill who asks for them.

    Args:
        size: how many bytes would be taken.
        what: the subject of the sentence, in the plural.
        instead: a sentence that says what to do.
    """
    if size > SMALL and size > (free := free_memory()):
        raise MemoryError(
            f"{what} need {size / 2**30:,.1f} GiB; this machine has {free / 2**30:,.1f} GiB free. {instead}"
        )


def free_memory() -> int:
    """How many bytes this process may still take: of the machine, its container and its own limit."""
    limits = [2**63]
    with contextlib.suppress(ValueError, OSError, AttributeError):
        limits.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    with contextlib.suppress(ValueError, OSError):
        lines = Path("/proc/meminfo").read_text().splitlines()
        limits += [1024 * int(line.split()[1]) for line in lines if line.startswith("MemAvailable:")]
    for file in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        with contextlib.suppress(ValueError, OSError):  # no such file, or the word "max"
            limits.append(int(Path(file).read_text()))
    if sys.platform != "win32":
        import resource

        limit = resource.getrlimit(resource.RLIMIT_AS)[0]
        if limit != resource.RLIM_INFINITY:
            with contextlib.suppress(ValueError, OSError):
                taken = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
                limits.append(max(0, limit - taken))
    return min(limits)
