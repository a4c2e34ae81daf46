"""How series are cut into windows: by number of points or by time, to which depth, at which scales."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from jaxtyping import Int

from ..errors import setting
from ..registry import Config, Registry
from .checks import as_positive, check_whole
from .cuts import even_shifts, window_cuts
from .series import Series


@dataclass(frozen=True)
class Windows:
    """How series are cut into windows, and to which depth each window's log-signature is taken.

    Args:
        step: points in a window; None cuts into about `count` windows; "auto" tries several and chooses by validation.
        depth: of the log-signatures; "auto" chooses by validation. With several scales it may be a tuple, one for each.
        every: instead of `step`, the time in a window, for a `Series` with times.
        count: without `step` and `every`, into how many windows a series of median length is cut. With `count=1` the
            whole of every series is one window.
        shifts: ways of cutting a series into windows of `step`. The path is the same in all of them: training draws
            one for each series and epoch, and predictions are averaged over all, which steadies them. 4 to 8 is much;
            log-signatures and predictions take as many times longer.
        scales: how many windows back each log-signature looks. With `scales=(1, 2, 4, 8)`, at the end of each window
            there are those of the last 1, 2, 4 and 8 windows, side by side; at the beginning fewer windows are there.

    >>> windows = Windows(count=4).resolved(Series.from_array(np.zeros((1, 9))))
    >>> windows
    Windows(step=2, depth=2)
    >>> windows.cuts(Series.from_array(np.zeros((1, 9))))
    array([0, 2, 4, 6, 8])
    >>> Windows(step=16, depth=(3, 2, 2), scales=(1, 2, 4)).depths
    (3, 2, 2)
    """

    step: int | str | None = None
    depth: int | str | tuple[int, ...] = 2
    every: float | None = None
    count: int = 32
    shifts: int = 1
    scales: tuple[int, ...] = (1,)

    def __post_init__(self):
        as_scales(self.scales)
        check_whole("step", self.step, high=2**31, also=("auto", None))
        for depth in self.depths:
            check_whole("depth", depth, high=12, also=() if isinstance(self.depth, tuple) else ("auto",))
        check_whole("count", self.count, high=2**24)
        check_whole("shifts", self.shifts, high=1024)
        if self.every is not None:
            as_positive(self.every, name="every", example=setting("every", 0.5), why="time runs forward")
        if self.every is not None and self.step is not None:
            raise ValueError(
                f"Got both {setting('step', self.step)} and {setting('every', self.every)}; expected at "
                "most one of them."
            )
        if self.shifts > 1 and self.every is not None:
            raise ValueError(
                f"Got {setting('shifts', self.shifts)} with {setting('every', self.every)}; expected "
                "windows by `step` for that."
            )

    @staticmethod
    def of(value: "Windows | int | str") -> "Windows":
        """From a number of points or "auto" too.

        >>> Windows.of(16), Windows.of("auto")
        (Windows(step=16, depth=2), Windows(step='auto', depth='auto'))
        """
        if isinstance(value, str) and value == "auto":
            return Windows(step="auto", depth="auto")
        return value if isinstance(value, Windows) else Windows(step=value)

    @property
    def depths(self) -> tuple[Any, ...]:
        """The depth at each scale."""
        return depths_of(self.depth, self.scales)

    @property
    def searched(self) -> bool:
        """Whether several are to be tried."""
        return "auto" in (self.step, self.depth)

    def resolved(self, series: Series) -> "Windows":
        """With a number of points in place of `count`."""
        return self.for_lengths(series.lengths, series.values.shape[1])

    def for_lengths(self, lengths: Int[np.ndarray, "samples"], longest: int | None = None) -> "Windows":
        """The same for series of these lengths.

        >>> Windows(count=4).for_lengths(np.array([9, 9, 17]))
        Windows(step=2, depth=2)
        """
        if self.every is not None or self.step is not None:
            return self
        longest = int(lengths.max()) if longest is None else longest
        return replace(self, step=_step_for(lengths, longest, self.count), count=Windows.count)

    @staticmethod
    def step_for(series: Series, count: int) -> int:
        """The step that cuts a series of median length into about so many windows, and all series into one if 1."""
        return _step_for(series.lengths, series.values.shape[1], count)

    def all_shifts(self) -> list[int]:
        """The shifts of all ways of cutting, the usual one first."""
        return [0] if self.every is not None else even_shifts(self.step, min(self.shifts, self.step))  # type: ignore

    def cuts(self, series: Series, *, shift: int = 0, at: Any = None) -> Int[np.ndarray, "*samples cuts"]:
        """Where to cut; see `window_cuts`."""
        how: Any = {"every": self.every} if self.every is not None else {"step": self.step, "shift": shift}
        return window_cuts(series, at=at, **how)

    def __repr__(self) -> str:
        given = {field.name: getattr(self, field.name) for field in fields(self)}
        usual = {"every": None, "count": Windows.count, "shifts": 1, "scales": (1,)}
        usual |= {"step": None} if self.every else {}
        return f"Windows({', '.join(f'{k}={v!r}' for k, v in given.items() if k not in usual or v != usual[k])})"


def _step_for(lengths: np.ndarray, longest: int, count: int) -> int:
    return max(1, longest - 1 if count == 1 else round((float(np.median(lengths)) - 1) / count))


def as_scales(scales: Any) -> tuple[int, ...]:
    """Scales as a tuple: how many windows each looks back over, the one that ends included.

    >>> as_scales([1, 2, 4])
    (1, 2, 4)
    """
    several: Any = (
        tuple(scales) if isinstance(scales, Sequence | np.ndarray) and not isinstance(scales, str) else (scales,)
    )
    whole = all(isinstance(one, int | np.integer) and not isinstance(one, bool) for one in several)
    if not several or not whole or min(several) < 1 or max(several) > 2**20 or len(set(several)) < len(several):
        raise ValueError(
            f"Got scales={scales!r}; expected different whole numbers from 1 on, because each counts the windows that "
            "a scale looks back over. Write for example scales=(1, 2, 4, 8)."
        )
    return tuple(int(one) for one in several)


def depths_of(depth: Any, scales: tuple[int, ...]) -> tuple[Any, ...]:
    """The depth at each scale: one for all of them, or one for each.

    >>> depths_of(2, (1, 4)), depths_of((3, 2), (1, 4))
    ((2, 2), (3, 2))
    """
    if not isinstance(depth, tuple | list):
        return (depth,) * len(scales)
    if len(depth) != len(scales):
        raise ValueError(
            f"Got {setting('depth', depth)} for scales={scales!r}; expected one depth for all scales, "
            f"or {len(scales)}, one for each."
        )
    return tuple(depth)


def _coerced(value: Any) -> Any:
    return value if isinstance(value, Mapping | type | Config) else Windows.of(value)


WINDOWS = Registry("windows", Windows, {"windows": Windows}, coerce=_coerced)
