"""A model as the service has it: its streams in memory, and what its predictions look like."""

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..estimators.inputs import as_series
from ..online.model import SIZES
from ..online.stream import fitted_with_times
from ..paths import Series
from .jobs import LastAnswer, Prediction
from .limits import RequestError


@dataclass(slots=True)
class Live:
    """A stream in memory."""

    id: int
    seq: int
    """How many pushes it has had."""
    points: int
    used: float
    """When it was last used, by the monotonic clock."""


class ServedModel:
    """One model and its streams. All methods are called by the thread that owns JAX, the properties by any.

    Args:
        name: what clients call it.
        estimator: a fitted classifier or regressor.
        interval: the share of truths that an interval should hold; None for no intervals.
        last: how many points to keep, if the model looks at series as a whole; None for all.
    """

    def __init__(self, name: str, estimator: Any, *, interval: float | None = 0.9, last: int | None = None):
        self.name, self.estimator = name, estimator
        self.classes = (
            None if (labels := estimator.fitted_.targets.classes) is None else [str(label) for label in labels]
        )
        self.interval = interval if self.classes is None and _has_intervals(estimator, interval) else None
        self.live: OrderedDict[str, Live] = OrderedDict()
        """By last use, the longest unused first."""
        self.known: dict[str, tuple[int, str]] = {}
        """Number and owner of every stream, live or kept."""
        self.ended: dict[str, LastAnswer] = {}
        """The last answers to streams that have ended, oldest first: so `end` can be sent again."""
        self.timed = fitted_with_times(estimator.fitted_)
        """Whether its series have times; None if they may or may not."""
        self.whole_only: str | None = None
        """Why this model takes no streams; None if it does."""
        try:
            self.streams: Any = estimator.streams(last=None if estimator.fitted_.closed_form is None else last)
        except (ValueError, TypeError, NotImplementedError) as error:
            self.streams, self.whole_only = None, str(error)

    @property
    def channels(self) -> list[str]:
        """The names of the channels that it was trained on."""
        return list(self.estimator.fitted_.inputs.channels)

    @property
    def window(self) -> dict[str, float] | None:
        """How long a window is, in points or in time; None if that depends on the series."""
        windows = getattr(self.estimator.fitted_, "windows", None)
        if self.streams is None or windows is None:
            return None
        if windows.every is not None:
            return {"every": float(windows.every)}
        return None if windows.step is None else {"step": int(windows.step)}

    def warm_up(self, batch: int) -> None:
        """Compile for every padded size of a batch, so that nothing is compiled later."""
        if self.streams is not None:
            self.streams.warm_up((*(size for size in SIZES if size < batch), batch))

    def open(self, name: str, state: Any = None) -> None:
        """A stream, from the beginning or from a state; a state of another model is refused."""
        try:
            self.streams.open(name, state)
        except (ValueError, TypeError, KeyError) as error:
            raise RequestError(400, f"Got a state that is none of this model's: {error}") from None

    def points(self, name: str) -> int:
        """How many points a stream has had."""
        return self.streams.points(name)

    def predictions(self, names: Iterable[str]) -> Mapping[str, Prediction | RequestError]:
        """A prediction for each stream. A stream whose prediction fails gets an error, the others their predictions."""
        names = list(names)
        if not names:
            return {}
        try:
            return self._predictions(names)
        except (ValueError, ArithmeticError) as error:
            if len(names) == 1:
                return {names[0]: RequestError(400, str(error))}
            return {name: self.predictions([name])[name] for name in names}

    def _predictions(self, names: list[str]) -> dict[str, Prediction]:
        if self.classes is not None:
            shares = self.streams.predict_proba(names)
            return {name: self.classified(np.asarray(shares[name], float)) for name in names}
        if self.interval is None:
            values = self.streams.predict(names)
            return {name: Prediction(plain(values[name])) for name in names}
        intervals = self.streams.predict(names, interval=self.interval)
        return {name: self.measured(*intervals[name]) for name in names}

    def whole(self, values: np.ndarray, times: np.ndarray | None) -> Prediction:
        """The prediction for one series, for a model that takes no streams."""
        series = as_series(
            Series(values[None], times=None if times is None else times[None]), self.estimator.fitted_.inputs
        )
        if self.classes is not None:
            return self.classified(self._last(self.estimator.predict_proba(series)))
        if self.interval is None:
            return Prediction(plain(self._last(self.estimator.predict(series))))
        return self.measured(*(self._last(array) for array in self.estimator.predict(series, interval=self.interval)))

    def _last(self, predicted: Any) -> Any:
        """Of the one series; at its last point, if there is a prediction at every point."""
        return np.asarray(predicted)[0, -1] if self.estimator.fitted_.targets.per_time else np.asarray(predicted)[0]

    def classified(self, shares: np.ndarray) -> Prediction:
        """The most probable class, and the probability of each."""
        assert self.classes is not None
        probabilities = dict(zip(self.classes, shares.tolist(), strict=True))
        return Prediction(self.classes[int(shares.argmax())], probabilities)

    def measured(self, value: Any, ends: Any) -> Prediction:
        """A number and its interval."""
        return Prediction(plain(value), interval=plain(ends))


def _has_intervals(estimator: Any, share: float | None) -> bool:
    """Whether it was calibrated with enough targets, or groups of them, to promise so large a share."""
    scores = estimator.fitted_.scores
    return scores is not None and share is not None and share <= (n := min(map(len, scores))) / (n + 1)


def plain(value: Any) -> Any:
    """Numbers and lists, as JSON has them.

    >>> plain(np.array([1.0, 2.0])), plain(np.float32(0.5)), plain("ill")
    ([1.0, 2.0], 0.5, 'ill')
    """
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else value
