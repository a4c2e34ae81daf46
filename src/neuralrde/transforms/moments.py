"""Moments: channels whose increments over a window are its means and mean products."""

from dataclasses import dataclass, replace

import numpy as np

from ..paths.series import Series, frozen
from .online import OnlineIntegral, OnlineProducts
from .transform import Transform


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

    def __call__(self, series: Series) -> Series:
        values, names = series.values, series.channels
        first, second = np.triu_indices(len(names))
        new = [values[..., first] * values[..., second]]
        new += [np.abs(np.diff(values, axis=1, prepend=values[:, :1]))] * self.changes
        products = [f"{names[i]} * {names[j]}" for i, j in zip(first, second, strict=True)]
        changes = [f"{name} change" for name in names] * self.changes
        return replace(series, values=frozen(np.concatenate(new, axis=2)), channels=(*products, *changes))

    def online(self) -> OnlineProducts:
        return OnlineProducts(self)


@dataclass(frozen=True)
class Integral(Transform):
    """Replace each channel by its running integral over time, from 0 at the first point, by the trapezoidal rule.

    Log-signatures see a path by its increments. For a rough channel these show where a window begins and ends; for its
    integral, the mean level in the window. Put `Scale` before it: unless the mean is about zero, what all samples share
    hides how they differ. Without given times, points are one unit apart. Causal.

    >>> Integral()(Series.from_array([[1.0, 3.0, 3.0]])).values[0, :, 0].tolist()
    [0.0, 2.0, 5.0]
    """

    def __call__(self, series: Series) -> Series:
        if np.isnan(series.values).any():
            raise ValueError(
                "Got missing values; expected none, because an integral would be missing from there on. Fill them "
                "first: `Compose(FillForward(), Integral())`."
            )
        values = series.values.astype(np.float64, copy=False)
        means = (values[:, 1:] + values[:, :-1]) / 2
        pieces = means * np.diff(series.clock, axis=1)[..., None]  # no time passes on padding
        integral = np.concatenate([np.zeros_like(values[:, :1]), np.cumsum(pieces, axis=1)], axis=1)
        return replace(series, values=frozen(integral.astype(series.values.dtype, copy=False)))

    def online(self) -> OnlineIntegral:
        return OnlineIntegral()
