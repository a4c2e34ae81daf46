"""Regression on series, or at every point of them."""

import warnings
from typing import Any

import equinox as eqx
import numpy as np
from sklearn.base import RegressorMixin
from sklearn.metrics import r2_score
from sklearn.utils.validation import assert_all_finite, check_array

from ..models import LabelScale, NeuralRDE
from ..models.conditioning import Constant
from ..paths import Series
from ..training import Huber, SquaredError, rmse
from .at_points import numbers_at_points, point_weights
from .base import BaseNeuralRDE
from .inputs import as_series, check_as_many, dimensions
from .parameters import check_choice

LOSSES = {"squared_error": SquaredError, "huber": Huber}


class NeuralRDERegressor(RegressorMixin, BaseNeuralRDE):
    """Predicts numbers from time series by a neural RDE, with scikit-learn's interface.

    X is `(n, length, channels)`, `(n, length)` of one channel, a list of arrays or DataFrames `(length, channels)`, or
    a `neuralrde.Series`; NaN is a missing value. y is `(n,)` or `(n, outputs)`, with NaN for outputs that are not
    known. With targets `(n, length, outputs)`, for each point, it predicts for each point, from the past only.
    Windows then end at points with a target as well, so that all are trained on; where targets are too dense for that,
    those at the windows' ends are, and a warning says their share.

    >>> X = np.cumsum(np.random.default_rng(0).normal(size=(60, 65)), axis=1)
    >>> model = NeuralRDERegressor(step=8, state=8, width=16, epochs=40, random_state=0)
    >>> model.fit(X, X[:, -1]).score(X, X[:, -1]) > 0.8
    True

    Args:
        depth: of the log-signatures; "auto" chooses by validation.
        step: points in a window; None cuts into about 32 windows; "auto" chooses by validation.
        every: instead of `step`, the time in a window, for a `Series` with times.
        cuts: ways of cutting a series into windows of `step`. The path is the same in all of them: training draws
            one for each series and epoch, and predictions are averaged over all, which steadies them. 4 to 8 is much;
            log-signatures and predictions take as many times longer.
        fill: how missing values are filled: "forward" with the last observation, which looks only back, or
            "linear"; None expects none. With filling, channels that had missing values in training get a
            channel that counts their observations.
        time_channel: whether time is a channel of the path.
        state: channels of the hidden state.
        width, layers: of the network.
        readout: "mean" over the states after all windows, or "final".
        epochs: passes over the training set, at most; None takes about 1000 steps, and at least 20 epochs.
        batch_size: examples in a step.
        learning_rate: AdamW's peak learning rate.
        schedule: "cosine" (with warm-up), "plateau" or "constant".
        weight_decay: how much a whole training shrinks weights that the loss leaves alone, by exp(-weight_decay),
            however many steps it takes; 0 shrinks none.
        clip: the largest norm of a gradient; None does not clip.
        validation_fraction: the part of the series that is held out to decide when to stop, which weights to keep,
            and "auto". Where it would be fewer than 30 series, too few to tell epochs apart, none are held out:
            training runs to its end and keeps the weights with the best training loss. "auto" holds out what it can,
            and then trains with all series.
        shuffle: whether these are drawn at random, in proportion to the classes; False takes the last ones, for series
            in order of time. `fit(..., groups=...)` keeps groups together.
        patience: epochs without a better validation loss after which training stops; None never stops early.
        time_budget: seconds after which training stops; half of them for the search, if there is one. None
            for no limit. Runs stopped by a time budget are not reproducible.
        warm_start: whether `fit` goes on from the weights of the last `fit`, with its preparation and windows.
        random_state: a number fixes everything: validation set, initial weights, order of examples. Results are then
            the same to the bit on the same number of cores; on another number sums are rounded differently, and the
            differences grow with training.
        verbose: False shows no progress bar; None shows one on a terminal.
        loss: "squared_error" or "huber".

    Attributes:
        depth_: as chosen.
        step_: as chosen; None with windows by time.
        history_: a record for each epoch.
        trials_: those of the search.
        label_share_: with labels at points, the share of them that stand at windows' ends and are trained on.
        steps_: the fitted preparation.
        model_: the `NeuralRDE`.
    """

    _learned = (*BaseNeuralRDE._learned, "one_dimensional_")

    def __init__(
        self,
        *,
        depth: int | str = 2,
        step: int | str | None = None,
        every: float | None = None,
        cuts: int = 1,
        fill: str | None = "forward",
        time_channel: bool = True,
        state: int = 32,
        width: int = 64,
        layers: int = 2,
        readout: str = "mean",
        epochs: int | None = None,
        batch_size: int = 32,
        learning_rate: float = 3e-3,
        schedule: str = "cosine",
        weight_decay: float = 0.2,
        clip: float | None = 1.0,
        validation_fraction: float = 0.15,
        shuffle: bool = True,
        patience: int | None = 20,
        time_budget: float | None = None,
        warm_start: bool = False,
        random_state: Any = None,
        verbose: bool | None = None,
        loss: str = "squared_error",
    ):
        super().__init__(
            depth=depth,
            step=step,
            every=every,
            cuts=cuts,
            fill=fill,
            time_channel=time_channel,
            state=state,
            width=width,
            layers=layers,
            readout=readout,
            epochs=epochs,
            batch_size=batch_size,
            learning_rate=learning_rate,
            schedule=schedule,
            weight_decay=weight_decay,
            clip=clip,
            validation_fraction=validation_fraction,
            shuffle=shuffle,
            patience=patience,
            time_budget=time_budget,
            warm_start=warm_start,
            random_state=random_state,
            verbose=verbose,
        )
        self.loss = loss

    def predict(self, X: Any) -> np.ndarray:
        """A number, or one for each output, of each series; or of each point of it."""
        outputs, series, windows = self._outputs(X)
        outputs = outputs.astype(np.float64)
        if self.per_time_:
            return self._at_points(outputs, series, windows)
        return outputs[:, 0] if self.one_dimensional_ else outputs

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The coefficient of determination, R squared, where targets are known; the mean over outputs."""
        series = as_series(self, X, reset=False)
        predicted, y = self.predict(series), np.asarray(numbers_at_points(y, series, expected=self.per_time_))
        if not self.per_time_:
            y = y.reshape(predicted.shape) if y.size == predicted.size else y
        if y.shape != predicted.shape:
            raise ValueError(
                f"Got targets of shape {y.shape}; expected {predicted.shape}, "
                f"{'one at every point' if self.per_time_ else 'one per series'}, as in `fit`."
            )
        if self.per_time_:
            real, weights = series.valid, point_weights(sample_weight, series)
        else:
            real = np.ones(len(series), bool)
            weights = real.astype(np.float64) if sample_weight is None else np.asarray(sample_weight, np.float64)
        y, predicted, weights = (array[real].reshape(real.sum(), -1) for array in (y, predicted, weights))
        scores = []
        for target, output in zip(y.T, predicted.T, strict=True):
            if (known := ~np.isnan(target)).any():
                scores.append(r2_score(target[known], output[known], sample_weight=weights[known, 0]))
        return float(np.mean(scores))

    def _check_targets(self, y: Any, series: Series, *, reset: bool) -> np.ndarray:
        if y is None:
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None.")
        y = numbers_at_points(y, series, expected=not reset and self.per_time_)
        per_time = dimensions(y) == 3
        check_as_many(series, y)
        checks: dict[str, Any] = {"dtype": np.float64, "ensure_all_finite": "allow-nan"}
        target = check_array(y, ensure_2d=False, allow_nd=True, input_name="y", **checks)
        if not per_time and target.size == len(target):  # of several outputs some may be unknown
            assert_all_finite(target, input_name="y")
        if not per_time and (unknown := np.isnan(target).reshape(len(target), -1).all(axis=1)).any():
            raise ValueError(
                f"Got no target for series {int(unknown.argmax())}; expected at least one known output per series. "
                "Leave series without a target out."
            )
        if per_time and target.shape[1] != series.values.shape[1]:
            raise ValueError(
                f"Got targets of shape {target.shape} for series of up to {series.values.shape[1]} points; expected "
                "(n, length, outputs), one for each point (NaN where there is none)."
            )
        if reset and target.ndim == 2 and target.shape[1] > 1 and target.shape == series.values.shape[:2]:
            warnings.warn(
                f"Got targets of shape {target.shape} for series of {target.shape[1]} points, and takes them for "
                f"{target.shape[1]} outputs of the whole series. For a target at every point, predicted from the past "
                "alone, write `y[..., None]`.",
                stacklevel=4,
            )
        if reset:
            self.per_time_, self.one_dimensional_ = per_time, target.ndim == 1
            self.outputs_ = 1 if target.ndim == 1 else target.shape[-1]
        target = target.reshape(len(target), -1) if target.ndim < 3 else target
        if per_time != self.per_time_ or target.shape[-1] != self.outputs_:
            raise ValueError(f"Got targets of shape {np.shape(y)}; expected them as in the first `fit`.")
        if per_time:
            target = np.where(series.valid[..., None], target, np.nan)
        if reset:
            label_scale(target)  # before float32 would round away what they differ by
        return target.astype(np.float32)

    def _check_learned(self, numbers: int) -> None:
        super()._check_learned(numbers)
        if self.one_dimensional_ and (self.per_time_ or self.outputs_ != 1):
            raise ValueError(f"Got one_dimensional_=True with {self.outputs_} outputs; expected one, of whole series")

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_choice("loss", self.loss, LOSSES)

    def _loss_and_metric(self, target):
        return LOSSES[self.loss](spread=np.asarray(label_scale(target).spread.value)), rmse

    def _conditioned(self, model: NeuralRDE, target: np.ndarray) -> NeuralRDE:
        return eqx.tree_at(lambda model: model.decoder.labels, model, label_scale(target))

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags


def label_scale(target: np.ndarray) -> LabelScale:
    """Mean and spread of each output, over where that output is known.

    >>> label_scale(np.array([[1.0, np.nan], [3.0, np.nan], [np.nan, 7.0]])).mean.value.tolist()
    [2.0, 7.0]
    """
    columns = target.reshape(-1, target.shape[-1]).T
    unknown = np.isnan(columns).all(axis=1)
    if unknown.any():
        raise ValueError(
            f"Got no known target of output {int(unknown.argmax())} to train on; expected some of each output, because "
            "its mean and spread are measured. Leave the output out."
        )
    fitted = [LabelScale.fit(column[~np.isnan(column)]) for column in columns]
    mean, spread = (
        np.concatenate([np.asarray(c.value) for c in part])
        for part in zip(*((f.mean, f.spread) for f in fitted), strict=True)
    )
    return LabelScale(Constant(mean), Constant(spread))
