"""Log-signatures as features, for any scikit-learn estimator that comes after."""

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from ..paths import Step, window_cuts
from ..signatures import log_signature_channels, lyndon_words
from .file import Saved
from .inputs import as_series
from .learned import check_inputs, check_steps, most_windows
from .parameters import NamedParameters, check_choice, check_number, check_whole
from .preparation import FILLS, preparation, windows_of


class LogSignatureTransformer(NamedParameters, Saved, TransformerMixin, BaseEstimator):
    """Turns each series into its log-signatures over windows, side by side as features.

    >>> X = np.random.default_rng(0).normal(size=(8, 100, 3))
    >>> LogSignatureTransformer(depth=2).fit_transform(X).shape  # time and 3 channels: 4 + 6
    (8, 10)
    >>> LogSignatureTransformer(depth=2, step=25, flatten=False).fit_transform(X).shape
    (8, 4, 10)

    Args:
        depth: of the log-signatures.
        step: points in a window; None takes the whole series as one window.
        every: instead of `step`, the time in a window, for a `Series` with times.
        fill: how missing values are filled: "forward" with the last observation, which looks only back, or
            "linear"; None expects none.
        scale: whether channels are standardised, as measured in `fit`.
        time_channel: whether time is a channel of the path.
        base_point: whether paths start from the origin, so that the features know where a series begins.
        flatten: `(n, features)` for estimators that come after; False keeps `(n, windows, channels)`.

    Attributes:
        steps_: the fitted preparation.
        windows_: of the longest series in `fit`. A shorter series has zeros at its end, as nothing happens there.
    """

    _learned = (
        "steps_",
        "windows_",
        "path_channels_",
        "flat_",
        "n_channels_in_",
        "n_features_in_",
        "feature_names_in_",
    )

    def __init__(
        self,
        *,
        depth: int = 2,
        step: int | None = None,
        every: float | None = None,
        fill: str | None = "forward",
        scale: bool = True,
        time_channel: bool = True,
        base_point: bool = True,
        flatten: bool = True,
    ):
        self.depth = depth
        self.step = step
        self.every = every
        self.fill = fill
        self.scale = scale
        self.time_channel = time_channel
        self.base_point = base_point
        self.flatten = flatten

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn how to fill and scale, and the number of windows."""
        self._check_parameters()
        series = as_series(self, X, reset=True)
        steps = preparation(fill=self.fill, scale=self.scale, time=self.time_channel, base_point=self.base_point)
        self.steps_: Step = steps.fit(series)
        prepared = self.steps_(series[:1])
        self.path_channels_ = list(prepared.channels)
        longest = self.steps_(series[[int(series.lengths.argmax())]] if self.every is None else series)
        self.windows_ = window_cuts(longest, **self._cut(longest)).shape[-1] - 1
        return self

    def transform(self, X: Any) -> np.ndarray:
        """The features of each series."""
        self._check_fitted()
        prepared = self.steps_(as_series(self, X, reset=False))
        features = windows_of(prepared, self.depth, dtype=prepared.values.dtype, **self._cut(prepared)).log_signatures
        missing = self.windows_ - features.shape[1]
        if missing < 0:
            raise ValueError(
                f"Got series of {features.shape[1]} windows; expected at most {self.windows_}, those of the longest "
                "series in `fit`, because every window has its own features. Fit on the longest series, or use "
                "step=None."
            )
        features = np.pad(features, [(0, 0), (0, missing), (0, 0)])
        return features.reshape(len(features), -1) if self.flatten else features

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Names such as "[time, x0]", the Lyndon word; with several windows "window 3: [time, x0]".

        >>> LogSignatureTransformer(depth=2).fit(np.zeros((2, 9))).get_feature_names_out().tolist()
        ['time', 'x0', '[time, x0]']
        """
        self._check_fitted()
        words = lyndon_words(len(self.path_channels_), self.depth)
        letters = [", ".join(self.path_channels_[letter] for letter in word) for word in words]
        names = [f"[{name}]" if len(word) > 1 else name for name, word in zip(letters, words, strict=True)]
        if self.windows_ > 1:
            names = [f"window {k}: {name}" for k in range(self.windows_) for name in names]
        return np.array(names, dtype=object)

    def _cut(self, prepared) -> dict[str, Any]:
        if self.every is not None:
            return {"every": self.every}
        return {"step": max(1, prepared.values.shape[1] - 1) if self.step is None else self.step}

    def _check_parameters(self) -> None:
        check_whole("depth", self.depth, high=12)
        check_whole("step", self.step, also=(None,))
        check_number("every", self.every, also=(None,))
        check_choice("fill", self.fill, [*FILLS, None])

    def _check_learned(self, numbers: int) -> None:
        """Raise unless what a file says fits together."""
        channels = check_inputs(self)
        steps = preparation(fill=self.fill, scale=self.scale, time=self.time_channel, base_point=self.base_point)
        names = self.path_channels_[self.time_channel :][:channels]
        path = check_steps(self.steps_, steps, channels, timed=self.every is not None, names=names)
        if list(path.channels) != self.path_channels_:
            raise ValueError(f"Got path_channels_={self.path_channels_}; expected {list(path.channels)}")
        most = most_windows(self.steps_, self.step, self.every)
        if self.windows_ > most:
            raise ValueError(f"Got windows_={self.windows_}; expected at most {most:g}, by the preparation")
        features = self.windows_ * log_signature_channels(len(path.channels), self.depth)
        if features > 2**24:
            raise ValueError(f"Got windows_={self.windows_} and so {features} features; expected at most {2**24}")

    def _check_fitted(self) -> None:
        check_is_fitted(self, "steps_")

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.three_d_array = True
        return tags
