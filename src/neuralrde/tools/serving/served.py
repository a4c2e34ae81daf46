"""A model as the service has it: its streams in memory, and what its predictions look like."""

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np

from ..._write import Values
from ...estimators.explanation import explained
from ...estimators.forecasting import FAN
from ...estimators.inputs import as_series
from ...estimators.sources import SeriesInMemory
from ...online.model import SIZES
from ...online.stream import fitted_with_times
from ...paths import Series
from .jobs import Ahead, Prediction
from .limits import RequestError, wrong

_SPANS = 12  # of time, into which contributions are divided


@dataclass(slots=True)
class Live:
    """A stream in memory."""

    id: int
    seq: int
    """How many pushes it has had."""
    points: int
    used: float
    """The time of its last use, by the monotonic clock."""


class LastAnswer(msgspec.Struct):
    """The answer to the end of a stream."""

    points: int
    prediction: Prediction | None


class ServedModel:
    """One model and its streams; see `Service`. Methods are called by the thread that owns JAX, properties by any."""

    forecasts = False
    """Whether its predictions are forecasts."""

    def __init__(self, name: str, estimator: Any, *, interval: float | None = 0.9, last: int | None = None):
        self.name, self.estimator, self.fitted = name, estimator, estimator.fitted_
        self.classes: list[str] | None = None
        self.interval = interval
        self.channels = list(self.fitted.inputs.channels)
        self.live: OrderedDict[str, Live] = OrderedDict()
        """The live streams by last use, the longest unused first."""
        self.known: dict[str, tuple[int, str]] = {}
        """Number and owner of every stream, live or kept."""
        self.ended: dict[str, LastAnswer] = {}
        """The last answers to streams that have ended, oldest first: so `end` can be sent again."""
        self.timed: bool | None = None
        """Whether its series have times; None if they may or may not."""
        self.streams: Any = None
        self.whole_only: str | None = None
        """Why this model takes no streams; None if it does."""
        self._begin(last)

    def _begin(self, last: int | None) -> None:
        """Learn from the estimator what it predicts, and open its streams."""
        classes, scores, interval = self.fitted.targets.classes, self.fitted.scores, self.interval
        self.classes = None if classes is None else [str(label) for label in classes]
        # Calibrated with enough targets, or groups of them, to promise so large a share.
        calibrated = scores is not None and interval is not None and interval <= (n := min(map(len, scores))) / (n + 1)
        self.interval = interval if classes is None and calibrated else None
        self.timed = fitted_with_times(self.fitted)
        try:
            self.streams = self.estimator.streams(last=None if self.fitted.closed_form is None else last)
        except (ValueError, TypeError, NotImplementedError) as error:
            self.whole_only = str(error)

    @property
    def window(self) -> dict[str, float] | None:
        """How long a window is, in points or in time; None if that depends on the series."""
        windows = self.fitted.windows
        if self.streams is None or windows is None:
            return None
        if windows.every is not None:
            return {"every": float(windows.every)}
        return None if windows.step is None else {"step": int(windows.step)}

    def warm_up(self, batch: int) -> None:
        """Compile for every padded size of a batch, so that nothing is compiled later."""
        if self.streams is not None:
            self.streams.warm_up((*(size for size in SIZES if size < batch), batch))

    @property
    def static(self) -> list[str] | None:
        """The columns that are to be known of a series as a whole; None if there are none."""
        coding = self.fitted.inputs.static
        return None if coding is None else list(coding.names)

    @property
    def ahead(self) -> dict[str, float] | None:
        """How far forecasts reach, and the usual time between points; None where there are none."""
        return None

    def open(self, name: str, state: Any = None, static: Any = None) -> None:
        """A stream, from the beginning or from a state; a state of another model is refused."""
        try:
            self.streams.open(name, state, static)
        except (ValueError, TypeError, KeyError) as error:
            raise wrong(
                f"Got a state that was not made by this model: {error}" if state is not None else str(error)
            ) from None

    def explanation(self, name: str) -> Values:
        """What each channel contributed to the prediction for a stream: in spans of time, and as a whole."""
        if self.fitted.closed_form is None or self.fitted.neural_model is not None:
            raise wrong(
                f"Got `explain` for the model {self.name!r}, which has a neural part; expected a closed form, because "
                "gradients would keep all streams waiting. Write `neuralrde explain` at a shell."
            )
        series, static = self.streams.kept(name)
        found = explained(self.fitted, SeriesInMemory(series, static), _SPANS)
        output = int(found.outputs[0].argmax())  # the likeliest class
        parts = found.contributions[0, ..., output]
        order = np.argsort(-np.abs(parts).sum(axis=1), kind="stable")
        return {
            "output": found.names[output],
            "value": float(found.outputs[0, output]),
            "baseline": float(found.baseline[0, output]),
            "times": found.times[0].tolist(),
            "contributions": {found.channels[row]: parts[row].tolist() for row in order if parts[row].any()},
        }

    def predictions(self, asked: Mapping[str, Ahead]) -> Mapping[str, Prediction | RequestError]:
        """A prediction for each stream. A stream whose prediction fails gets an error, the others their predictions."""
        names = list(asked)
        try:
            if self.classes is not None:
                shares = self.streams.predict_proba(names)
                return {name: self._prediction(np.asarray(shares[name], float)) for name in names}
            found = self.streams.predict(names, interval=self.interval)
            return {name: self._prediction(found[name]) for name in names}
        except (ValueError, ArithmeticError) as error:
            if len(names) == 1:
                return {names[0]: wrong(str(error))}
            return {name: self.predictions({name: asked[name]})[name] for name in names}

    def whole(self, values: np.ndarray, times: np.ndarray | None, static: Any = None) -> Prediction:
        """The prediction for one series, for a model that takes no streams."""
        series = Series(values[None], times=None if times is None else times[None])
        series = as_series(series, self.fitted.inputs)
        # At its last point, if there is a prediction at every point.
        place = (0, -1) if self.fitted.targets.per_time else 0
        if self.classes is not None:
            return self._prediction(np.asarray(self.estimator.predict_proba(series, static=static))[place])
        if self.interval is None:
            return self._prediction(np.asarray(self.estimator.predict(series, static=static))[place])
        both = self.estimator.predict(series, interval=self.interval, static=static)
        return self._prediction(tuple(np.asarray(one)[place] for one in both))

    def _prediction(self, found: Any) -> Prediction:
        """A prediction from a classifier's probabilities, a regressor's number or numbers, or these with intervals."""
        if self.classes is not None:
            shares = found.tolist()
            return Prediction(str(self.fitted.labels(found)), dict(zip(self.classes, shares, strict=True)))
        if self.interval is None:
            return Prediction(_plain(found))
        return Prediction(_plain(found[0]), interval=_plain(found[1]))


class ServedForecaster(ServedModel):
    """A forecaster: its predictions say what the channels of a stream will be."""

    forecasts = True

    def _begin(self, last: int | None) -> None:
        self.streams = self.estimator.streams()

    @property
    def window(self) -> None:
        return None

    @property
    def ahead(self) -> dict[str, float]:
        return {"horizon": self.fitted.horizon, "step": self.fitted.step}

    def explanation(self, name: str) -> Values:
        raise wrong(f"Got `explain` for the forecaster {self.name!r}; expected it for a classifier or a regressor.")

    def predictions(self, asked: Mapping[str, Ahead]) -> Mapping[str, Prediction | RequestError]:
        found: dict[str, Prediction | RequestError] = {}
        for name, ahead in asked.items():
            try:
                found[name] = self._forecast(name, ahead)
            except (ValueError, ArithmeticError) as error:
                found[name] = wrong(str(error))
        return found

    def _forecast(self, name: str, ahead: Ahead) -> Prediction:
        now, times = self.streams.now(name), ahead.times
        if times is None:
            span = self.fitted.horizon if ahead.horizon is None else ahead.horizon
            count = min(FAN, max(1, round(span / self.fitted.step)))
            times = (now + span * np.arange(1, count + 1) / count).tolist()
        elif ahead.horizon is not None:
            raise ValueError(f"Got both times and horizon={ahead.horizon:g}; expected one of them.")
        found = self.streams.forecast(name, times, interval=self.interval)
        values, ends = (found, None) if self.interval is None else found
        return Prediction(forecast=values.tolist(), interval=_plain(ends), times=times, now=now)


def _plain(value: Any) -> Any:
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else value
