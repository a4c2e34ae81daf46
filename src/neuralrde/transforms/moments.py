"""Moments: channels whose increments over a window are its means and mean products."""

from dataclasses import dataclass, replace

import numpy as np

from ..paths.series import Series, frozen
from .transform import Carried, Transform


@dataclass(frozen=True)
class Products(Transform):
    """Replace the channels by all products of two of them, including squares.

    Their integrals (`Integral`) give variances and correlations. A log-signature with time contains these too, but only
    at depth 3 and among many others. With few samples it is better to provide them directly. Causal.

    >>> series = Series([[[2.0, 3.0], [2.0, 1.0]]], channels=["a", "b"])
    >>> Products()(series).channels, Products()(series).values[0].tolist()
    (('a * a', 'a * b', 'b * b'), [[4.0, 6.0, 9.0], [4.0, 2.0, 1.0]])

    Args:
        changes: whether to add the absolute change of each channel since the previous point, which says how restless it
            is.
    """

    changes: bool = False

    def begin(self, streams: int, channels: int) -> Carried:
        return _last_point(streams, channels)

    def step(self, carried: Carried, series: Series) -> tuple[Carried, Series]:
        carried, before, _ = _with_last_point(carried, series)
        values, names = series.values, series.channels
        first, second = np.triu_indices(len(names))
        new = [values[..., first] * values[..., second]] + [np.abs(np.diff(before, axis=1))] * self.changes
        products = [f"{names[i]} * {names[j]}" for i, j in zip(first, second, strict=True)]
        changes = [f"{name} change" for name in names] * self.changes
        return carried, replace(series, values=frozen(np.concatenate(new, axis=2)), channels=(*products, *changes))

    def channels_after(self, channels: int) -> int:
        return channels * (channels + 1) // 2 + channels * self.changes


@dataclass(frozen=True)
class Integral(Transform):
    """Replace each channel by its running integral over time, from 0 at the first point, by the trapezoidal rule.

    Log-signatures see a path by its increments. For a rough channel these show where a window begins and ends; for its
    integral, the mean level in the window. Put `Scale` before it: unless the mean is about zero, what all samples share
    hides how they differ. Without given times, points are one unit apart. Causal.

    >>> Integral()(Series.from_array([[1.0, 3.0, 3.0]])).values[0, :, 0].tolist()
    [0.0, 2.0, 5.0]
    """

    def begin(self, streams: int, channels: int) -> Carried:
        return _last_point(streams, channels) | {"integral": np.zeros((streams, channels))}

    def step(self, carried: Carried, series: Series) -> tuple[Carried, Series]:
        if np.isnan(series.values).any():
            raise ValueError(
                "Got missing values; expected none, because an integral would be missing from there on. Fill them "
                "first: `Compose(FillForward(), Integral())`."
            )
        after, values, clock = _with_last_point(carried, series)
        values = values.astype(np.float64, copy=False)
        pieces = (values[:, 1:] + values[:, :-1]) / 2 * np.diff(clock, axis=1)[..., None]  # no time passes on padding
        integral = carried["integral"][:, None] + np.cumsum(pieces, axis=1)
        made = replace(series, values=frozen(integral.astype(series.values.dtype, copy=False)))
        return after | {"integral": integral[:, -1]}, made


def _last_point(streams: int, channels: int) -> Carried:
    """What a transform carries that looks at two neighbouring points: the last one and its time."""
    return {"begun": np.zeros(streams, bool), "last": np.zeros((streams, channels)), "time": np.zeros(streams)}


def _with_last_point(carried: Carried, series: Series) -> tuple[Carried, np.ndarray, np.ndarray]:
    """What is carried on; values and times with those of the point before, which for the first point is itself."""
    begun, clock = carried["begun"], series.clock
    last = np.where(begun[:, None], carried["last"].astype(series.values.dtype), series.values[:, 0])
    time = np.where(begun, carried["time"], clock[:, 0])
    after = {
        "begun": np.ones(len(series), bool),
        "last": series.values[:, -1].astype(np.float64),  # padding repeats the last point
        "time": clock[:, -1],
    }
    return after, np.concatenate([last[:, None], series.values], axis=1), np.concatenate([time[:, None], clock], axis=1)
