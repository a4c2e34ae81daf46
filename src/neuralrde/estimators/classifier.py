"""Classification of series, or of every point of them."""

from typing import Any

import numpy as np
import scipy.special
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from ..paths import Series
from ..training import CrossEntropy, accuracy
from .at_points import are_at_points, labels_at_points, point_weights
from .base import BaseNeuralRDE
from .inputs import as_series, check_as_many
from .parameters import check_choice, check_number


class NeuralRDEClassifier(ClassifierMixin, BaseNeuralRDE):
    """Classifies time series by a neural RDE, with scikit-learn's interface.

    X is `(n, length, channels)`, `(n, length)` of one channel, a list of arrays or DataFrames `(length, channels)`, or
    a `neuralrde.Series`; NaN is a missing value. y is one label per series. With labels `(n, length)`, or an array for
    each series, one label per point (NaN, None or "" where there is none), it predicts one for each point, from the
    past only. Windows then end at labels as well, so that all are trained on; where labels are too dense for
    that, those at the windows' ends are, and a warning says their share.

    >>> from neuralrde.datasets import order_of_events
    >>> data = order_of_events(samples=60, length=64)
    >>> model = NeuralRDEClassifier(step=8, state=8, width=16, epochs=20, random_state=0)
    >>> model.fit(data.series.values, data.target).score(data.series.values, data.target) > 0.9
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
        class_weight: None, "balanced", or a dictionary from labels to weights.

    Attributes:
        classes_: the labels.
        depth_: as chosen.
        step_: as chosen; None with windows by time.
        history_: a record for each epoch.
        trials_: those of the search.
        label_share_: with labels at points, the share of them that stand at windows' ends and are trained on.
        restarts_: a record for each training, if the first predicted one class only and was followed by others.
        steps_: the fitted preparation.
        model_: the `NeuralRDE`.
    """

    _learned = (*BaseNeuralRDE._learned, "classes_")

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
        class_weight: dict | str | None = None,
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
        self.class_weight = class_weight

    def predict(self, X: Any) -> np.ndarray:
        """The most likely label of each series, or of each point."""
        likely = self.predict_proba(X).argmax(axis=-1)
        return self.classes_[likely]

    def predict_proba(self, X: Any) -> np.ndarray:
        """The probability of each class, `(n, classes)`, or `(n, length, classes)` for labels at each point."""
        outputs, series, windows = self._outputs(X)
        proba = scipy.special.softmax(outputs.astype(np.float64), axis=-1)
        return self._at_points(proba, series, windows) if self.per_time_ else proba

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The share of series, or of points, whose label is right."""
        predicted = self.predict(X)
        if not self.per_time_:
            return float(np.average(predicted == np.asarray(y).reshape(predicted.shape), weights=sample_weight))
        series = as_series(self, X, reset=False)
        if not are_at_points(y, series, expected=True):
            raise ValueError(f"Got labels of shape {np.shape(y)}; expected one at every point, as in `fit`.")
        labels, known = labels_at_points(y, series)
        weights = point_weights(sample_weight, series)
        return float(np.average((predicted == labels)[known], weights=weights[known]))

    def _check_targets(self, y: Any, series: Series, *, reset: bool) -> np.ndarray:
        if y is None:
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None.")
        per_time = are_at_points(y, series, expected=not reset and self.per_time_)
        if per_time:
            labels, known = labels_at_points(y, series)
        else:
            check_as_many(series, y)
            labels = column_or_1d(y, warn=True)
            _check_one_type(labels)
            check_classification_targets(labels)
            known = np.ones(len(labels), bool)
        if reset:
            self.per_time_ = per_time
            self.classes_ = np.unique(labels[known])
            self.outputs_ = len(self.classes_)
            if self.outputs_ < 2:
                raise ValueError(
                    f"Got only one class, {self.classes_.tolist()[0]!r}; expected at least two classes to tell apart."
                )
        elif per_time != self.per_time_:
            raise ValueError(f"Got labels of shape {labels.shape}; expected them as in the first `fit`.")
        target = np.searchsorted(self.classes_, labels)
        unknown = self.classes_[np.minimum(target, self.outputs_ - 1)] != labels
        if unknown.any() and not per_time:
            raise ValueError(
                f"Got the label {str(labels[unknown][0])!r}; expected one of {self.classes_.tolist()}, the classes of "
                "the training set. Leave its samples out, or divide the data in another way."
            )
        return np.where(unknown | ~known, -1, target).astype(np.int32)

    def _loss_and_metric(self, target):
        return CrossEntropy(), accuracy

    def _weights(self, target, training):
        if self.class_weight is None:
            return None
        if self.per_time_:
            raise ValueError("Got class_weight with labels at each point; expected None there.")
        if isinstance(self.class_weight, dict):
            unknown = set(self.class_weight) - set(self.classes_.tolist())
            if unknown:
                raise ValueError(
                    f"Got class_weight for {sorted(unknown, key=str)}; expected labels among {self.classes_.tolist()}."
                )
            for label, value in self.class_weight.items():
                check_number(f"class_weight[{label!r}]", value, high=float(np.finfo(np.float32).max), above=True)
            weights = np.array([self.class_weight.get(label, 1.0) for label in self.classes_.tolist()], np.float32)
        else:
            counts = np.bincount(training, minlength=self.outputs_)
            weights = (len(training) / (self.outputs_ * np.maximum(counts, 1))).astype(np.float32)
        return weights[target]

    def _check_learned(self, numbers: int) -> None:
        super()._check_learned(numbers)
        if len(self.classes_) != self.outputs_:
            raise ValueError(f"Got {len(self.classes_)} classes and {self.outputs_} outputs; expected one for each")

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if not isinstance(self.class_weight, dict):
            check_choice("class_weight", self.class_weight, ["balanced", None])


def _check_one_type(labels: np.ndarray) -> None:
    kinds = sorted({type(label).__name__ for label in labels.tolist()}) if labels.dtype == object else []
    if len(kinds) > 1:
        raise ValueError(
            f"Got labels of the types {kinds}; expected one type, because classes are sorted. Write for example "
            "`[str(label) for label in y]`, and leave series without a label out."
        )
