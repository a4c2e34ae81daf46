"""One series that is still arriving."""

from typing import Any

from .batch import StreamBatch

_NAME = "stream"


class Stream:
    """A series that is still arriving: its predictions are those that the whole series so far would get.

    `estimator.stream()` makes one. A neural model keeps one point, the log-signature of the running window, its hidden
    state and what its readout needs: some hundred numbers, or some thousand with several members and scales, however
    long the series is. Estimators that look at series as a whole keep the points: the last so many, `last=`, or all of
    them, up to 131,072.

    >>> import numpy as np
    >>> from neuralrde import Config, NeuralRDE, NeuralRDERegressor
    >>> X = np.cumsum(np.random.default_rng(0).normal(size=(40, 33)), axis=1)
    >>> small = {"model": Config(NeuralRDE, state=4, width=8), "windows": 8, "epochs": 1, "verbose": False}
    >>> estimator = NeuralRDERegressor(**small, random_state=0).fit(X, X[:, -1])
    >>> stream = estimator.stream()
    >>> for value in X[0]:
    ...     stream.push(value)
    >>> stream.points, bool(np.isclose(stream.predict(), estimator.predict(X[:1])[0], rtol=1e-4))
    (33, True)
    >>> again = estimator.stream(stream.state())  # in another process, if you like
    >>> again.predict() == stream.predict()
    True

    Args:
        estimator: fitted: a classifier or regressor, neural or in closed form.
        state: of a stream to go on with.
        last: how many points to look back over, for estimators that look at series as a whole.
    """

    def __init__(self, estimator: Any, state: Any = None, *, last: int | None = None):
        if state is not None and last is None and isinstance(state, dict):
            last = _last_of(state)
        self._streams = StreamBatch(estimator, last=last)
        self._streams.open(_NAME, state)

    def push(self, values: Any, times: Any = None) -> None:
        """Take in points `(count, channels)`, or one point `(channels,)`; NaN is a missing value.

        Args:
            values: any number of points, as raw as in `fit`.
            times: one per point, increasing, if the estimator was fitted on series with times.

        Points that are refused leave the stream as it was.
        """
        errors = self._streams.push({_NAME: (values, times)})
        if errors:
            raise ValueError(errors[_NAME])

    def predict(self, interval: float | None = None) -> Any:
        """For the series so far, the running window included: a number, a label, or a list for several outputs.

        With targets at every point it is the prediction at the last point. With `interval=0.9`, regressors give a pair:
        the prediction, and the interval's lower and upper end.
        """
        return self._streams.predict([_NAME], interval)[_NAME]

    def predict_proba(self) -> list[float]:
        """The probability of each class, in the order of the estimator's `classes_`."""
        return self._streams.predict_proba([_NAME])[_NAME]

    @property
    def points(self) -> int:
        """How many points have been seen."""
        return self._streams.points(_NAME)

    def state(self) -> dict[str, Any]:
        """The whole state as plain numbers, lists and strings, which `json.dumps` keeps exactly.

        `estimator.stream(state)` goes on from there. A state holds the fingerprint of its model, and no other takes it.
        """
        return self._streams.state(_NAME)


def _last_of(state: dict[str, Any]) -> int | None:
    """What a state says; whether it may say so is checked later."""
    last = state.get("last")
    return last if isinstance(last, int) and not isinstance(last, bool) else None
