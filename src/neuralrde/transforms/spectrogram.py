"""Spectrogram: turns a long rough series into a short smooth one, the levels and powers of its frames."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import ClassVar

import numpy as np
from jaxtyping import Float, Int

from ..paths.checks import check_whole
from ..paths.series import Series, frozen
from .transform import Statistics, Transform, check_channels, check_one_each

_PIECE = 2**22  # numbers of frames at a time
_LONGEST = 2**20  # points in a frame, each of which takes memory however short the series


@dataclass(frozen=True)
class Spectrogram(Transform):
    """Replace the points by frames, with each channel's mean in the frame and its log power in bands.

    Log-signatures hold increments, areas and higher terms. In a rough series the level is lost in noise, and the power
    of a fast oscillation needs depth and windows of its own size. As channels, both are visible at depth 1. Frame k
    begins `hop` points after frame k - 1; the last one ends at the sample's last point, so that no tail is lost. A
    sample shorter than a frame becomes one frame, with its last point repeated. A point's time is that of its frame's
    last point, so frames are causal.

    >>> tone = np.sin(2 * np.pi * 0.25 * np.arange(96)) + 5
    >>> frames = Spectrogram(frame=32, bands=[0.05, 0.2, 0.3]).fit(Series.from_array([tone]))(Series.from_array([tone]))
    >>> frames
    Series(1 sample, 3 points, 3 channels: x0 mean, x0 0.05-0.2, x0 0.2-0.3; times 31 to 95; float64)
    >>> frames.values[0, 0].round(1) + 0.0  # all of the tone's power, 1/2, is in the second band
    array([ 5. , -9.4, -0.7])

    Args:
        frame: points in a frame.
        hop: points from frame to frame; None is `frame`, without overlap.
        bands: edges of the bands, in cycles per point, from 0 to 0.5 (half the sampling rate). Four numbers make three
            bands, and an empty tuple leaves only the means.
        mean: whether the mean of each frame is a channel. Powers are computed after it is subtracted.
        floor: added to powers before the logarithm, because a silent frame has no logarithm. Its unit is the channel's
            mean power in the training set, learned by `fit`.
    """

    looks_ahead: ClassVar[str] = (
        "Its last frame begins before the end of the series, wherever that is. Fit on the points themselves: depth 2 "
        "or 3 and windows of a frame's length see rhythms too."
    )

    frame: int
    hop: int | None = None
    bands: Sequence[float] = (0.0, 0.5)
    mean: bool = True
    floor: float = 1e-4
    floors_: tuple[float, ...] | None = field(default=None, kw_only=True, repr=False)
    channels_: tuple[str, ...] | None = field(default=None, kw_only=True, repr=False)

    def __post_init__(self):
        object.__setattr__(self, "bands", tuple(float(edge) for edge in self.bands))
        for name, absent in (("frame", ()), ("hop", (None,))):
            check_whole(name, getattr(self, name), high=_LONGEST, also=absent)
            object.__setattr__(self, name, getattr(self, name) and int(getattr(self, name)))
        edges = np.asarray(self.bands)
        if len(edges) == 1 or (np.diff(edges) <= 0).any() or (edges < 0).any() or (edges > 0.5).any():
            raise ValueError(
                f"Got bands={self.bands}; expected increasing edges in cycles a point, from 0 to 0.5. Divide hertz by "
                "the sampling rate, for example bands=[8 / 256, 12 / 256, 30 / 256]."
            )
        lower, upper = np.array(self._edges).reshape(-1, 2).T
        frequencies = self._frequencies
        inside = np.searchsorted(frequencies, lower) < np.searchsorted(frequencies, upper)
        if not inside.all():
            raise ValueError(
                f"Got bands={self.bands} of which band {inside.argmin()} holds none of the frequencies of a frame "
                f"of {self.frame} points, which are 1/{self.frame} apart. Write wider bands or a longer frame."
            )
        if not self.mean and not len(inside):
            raise ValueError("Got mean=False and no bands; expected at least one of them.")
        check_one_each(self.channels_, floors_=self.floors_)
        if not self.floor > 0:
            raise ValueError(f"Got floor={self.floor}; expected a number above 0, for example floor=1e-4.")

    def channels_after(self, channels: int) -> int:
        return channels * (self.mean + len(self._edges))

    @property
    def _frequencies(self) -> np.ndarray:
        return np.fft.rfftfreq(self.frame)

    @property
    def _edges(self) -> list[tuple[float, float]]:
        last = len(self.bands) - 2
        return [(a, 1.0 if i == last and b == 0.5 else b) for i, (a, b) in enumerate(pairwise(self.bands))]

    def fit_statistics(self, statistics: Statistics) -> "Spectrogram":
        sums = statistics.observed_sums()
        power = sums.squares / sums.count
        floors = self.floor * np.where((sums.high > sums.low) & (power > 0), power, 1.0)
        return replace(self, floors_=tuple(floors.tolist()), channels_=statistics.channels)

    def __call__(self, series: Series) -> Series:
        check_channels(self, self.channels_, series)
        if np.isnan(series.values).any():
            raise ValueError(
                "Got missing values; expected none, because a frame with a hole has no spectrum. Fill them first: "
                "`Compose(FillForward(), Spectrogram(...))`."
            )
        hop = self.hop or self.frame
        lengths = 1 + np.maximum(-(-(series.lengths - self.frame) // hop), 0)
        ends = np.minimum(np.arange(lengths.max()) * hop + self.frame, series.lengths[:, None]) - 1
        rows = max(1, _PIECE // (lengths.max() * self.frame * len(series.channels)))
        values = np.concatenate(
            [self._frames(series.values[i : i + rows], ends[i : i + rows]) for i in range(0, len(series), rows)]
        )
        bands = [f"{a:g}-{b:g}" for a, b in pairwise(self.bands)]
        kinds = ["mean"] * self.mean + bands
        return Series(
            frozen(values.astype(series.values.dtype)),
            times=frozen(np.take_along_axis(series.clock, ends, axis=1)),
            lengths=lengths,
            channels=[f"{name} {kind}" for name in series.channels for kind in kinds],
            ids=series.ids,
        )

    def _frames(
        self, values: Float[np.ndarray, "samples length channels"], ends: Int[np.ndarray, "samples frames"]
    ) -> Float[np.ndarray, "samples frames features"]:
        starts = np.maximum(ends - self.frame + 1, 0)
        points = np.minimum(starts[..., None] + np.arange(self.frame), ends[..., None])
        frames = values.astype(np.float64)[np.arange(len(values))[:, None, None], points].swapaxes(2, 3)
        means = frames.mean(axis=3, keepdims=True)
        taper = np.hanning(self.frame + 2)[1:-1]
        power = np.abs(np.fft.rfft((frames - means) * taper)) ** 2
        # Scaled so that all bands together have the frame's variance; zero and half the sampling rate occur once.
        power *= np.where(np.isin(self._frequencies, (0.0, 0.5)), 1.0, 2.0) / (self.frame * (taper**2).sum())
        of_bands = [power[..., (self._frequencies >= a) & (self._frequencies < b)].sum(axis=3) for a, b in self._edges]
        floors = np.asarray(self.floors_)
        features = [means[..., 0]] * self.mean + [np.log(p + floors) for p in of_bands]
        return np.stack(features, axis=3).reshape(*ends.shape, -1)
