"""`stream` and `streams`: a fitted estimator's way to predict while data arrive."""

import importlib
from typing import Any


class Streaming:
    """For estimators that the part `online` can follow.

    That part builds on estimators, so that they may not import it. They find it by its name when they are asked.
    """

    def stream(self, state: Any = None, *, last: int | None = None) -> Any:
        """A series that is still arriving: push points, and predict at any moment what the whole series would get.

        See `neuralrde.online.Stream`.

        Args:
            state: that of a stream to go on with, as `stream.state()` returned it.
            last: for estimators that look at series as a whole (those in closed form, and neural ones in which the
                closed form has a say): predict from the last so many points, as if they were the whole series.
                None keeps all points, up to 131,072.
        """
        return _online().Stream(self, state, last=last)

    def streams(self, *, last: int | None = None) -> Any:
        """Many streams by name, which are advanced as one batch; see `neuralrde.online.StreamBatch`."""
        return _online().StreamBatch(self, last=last)


def _online() -> Any:
    return importlib.import_module("neuralrde.online")
