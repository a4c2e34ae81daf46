"""Log-signatures as features, for any scikit-learn estimator that comes after."""

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import TransformerMixin

from ..paths import Windows
from ..paths.checks import check_flag, check_whole
from ..signatures import basis_channels, lyndon_words
from ..signatures.rounding import driving_log_signatures
from ..transforms import Standard, Transform
from .base import SeriesEstimator
from .inputs import InputDescription
from .parameters import Learned
from .saving import check_transform
from .sources import whole_series


@dataclass(frozen=True, kw_only=True, eq=False)
class FittedTransformer:
    """A fitted transform, and how many windows its features are of."""

    inputs: InputDescription
    transform: Transform
    path_channels: list[str]
    windows_per_series: int

    def __post_init__(self):
        check_whole("windows_per_series", self.windows_per_series, high=2**24)


@dataclass(kw_only=True, eq=False, repr=False)
class LogSignatureTransformer(TransformerMixin, SeriesEstimator):
    """Turns each series into its log-signatures over windows, side by side as features.

    Take it for a few features that have names, of series that line up in time. `LogSignatureFeatures` has thousands of
    random features at many scales, which predict better and have no names.

    >>> X = np.random.default_rng(0).normal(size=(8, 100, 3))
    >>> LogSignatureTransformer().fit_transform(X).shape  # time and 3 channels: 4 + 6
    (8, 10)
    >>> LogSignatureTransformer(windows=25, flatten=False).fit_transform(X).shape
    (8, 4, 10)

    Args:
        windows: `Windows(step=..., depth=...)` or a number of points; None takes each series as one window.
        prepare: a transform of the series, before anything else; None takes `Standard(base_point=True)`: paths start
            from the origin, so that the features know where a series begins.
        flatten: `(n, features)` for estimators that come after; False keeps `(n, windows, channels)`.

    Attributes:
        transform_: the fitted transform.
        windows_per_series_: of the longest series in `fit`. A shorter series has zeros at its end, as nothing happens
            there.
    """

    windows: Any = None
    prepare: Any = None
    flatten: bool = True

    _parts: ClassVar = {"windows": "windows", "prepare": "transform"}
    _defaults: ClassVar = {"windows": Windows(count=1), "prepare": Standard(base_point=True)}
    _kind = FittedTransformer
    windows_per_series_ = Learned[int]("windows_per_series")
    path_channels_ = Learned[list[str]]("path_channels")

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn how to fill and scale, and the number of windows."""
        parts = self._check_parameters()
        source, inputs = self._source(X)
        series = whole_series(source)
        transform = parts.prepare.fit(series)
        longest = transform(series[[int(series.lengths.argmax())]] if parts.windows.every is None else series)
        self.fitted_ = FittedTransformer(
            inputs=inputs,
            transform=transform,
            path_channels=list(transform(series[:1]).channels),
            windows_per_series=parts.windows.resolved(longest).cuts(longest).shape[-1] - 1,
        )
        return self

    def transform(self, X: Any) -> np.ndarray:
        """The features of each series."""
        self._check_fitted()
        prepared = self.transform_(whole_series(self._source(X, self.fitted_.inputs)[0]))
        windows, path = self._part("windows").resolved(prepared), np.asarray(prepared.values, np.float64)
        cuts = windows.cuts(prepared)
        features = driving_log_signatures(path, cuts=cuts, since=windows.starts(prepared, cuts), **windows.looks)
        features = features.astype(prepared.values.dtype)
        missing = self.windows_per_series_ - features.shape[1]
        if missing < 0:
            raise ValueError(
                f"Got series of {features.shape[1]} windows; expected at most {self.windows_per_series_}, those of the "
                "longest series in `fit`, because every window has its own features. Fit on the longest series, or use "
                "windows=Windows(count=1)."
            )
        features = np.pad(features, [(0, 0), (0, missing), (0, 0)])
        return features.reshape(len(features), -1) if self.flatten else features

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Names such as "[time, x0]", the Lyndon word; with several windows "window 3: [time, x0]".

        >>> LogSignatureTransformer().fit(np.zeros((2, 9))).get_feature_names_out().tolist()
        ['time', 'x0', '[time, x0]']
        """
        self._check_fitted()
        windows, names = self._part("windows"), []
        backs = [f"last {one} windows: " if one > 1 else "" for one in windows.scales]
        if windows.lengths is not None:
            backs = [f"last {one:g}: " for one in windows.lengths]
        backs += [] if windows.whole is None else ["so far: "]
        for back, depth in zip(backs, windows.depths, strict=True):
            words = lyndon_words(len(self.path_channels_), depth)
            letters = [", ".join(self.path_channels_[letter] for letter in word) for word in words]
            names += [back + (f"[{one}]" if len(word) > 1 else one) for one, word in zip(letters, words, strict=True)]
        if self.windows_per_series_ > 1:
            names = [f"window {k}: {name}" for k in range(self.windows_per_series_) for name in names]
        return np.array(names, dtype=object)

    def _check_parameters(self) -> SimpleNamespace:
        parts = super()._check_parameters()
        check_flag("flatten", self.flatten)
        if parts.windows.shifts > 1:
            raise ValueError(f"Got windows={parts.windows!r}; expected shifts=1, because nothing is trained here.")
        return parts

    def _check_loaded(self, fitted: FittedTransformer, parts: SimpleNamespace) -> FittedTransformer:
        channels = check_transform(fitted.transform, parts.prepare, fitted.inputs)
        if channels is not None and list(channels) != fitted.path_channels:
            raise ValueError(
                f"Got path_channels={fitted.path_channels}; expected {list(channels)}, those of the transform"
            )
        windows = parts.windows
        if windows.count == 1 and fitted.windows_per_series > 1:
            raise ValueError(f"Got windows_per_series={fitted.windows_per_series}; expected at most 1")
        features = fitted.windows_per_series * sum(
            basis_channels(len(fitted.path_channels), depth) for depth in windows.depths
        )
        if features > 2**24:
            raise ValueError(f"Got {features} features; expected at most {2**24}")
        return fitted
