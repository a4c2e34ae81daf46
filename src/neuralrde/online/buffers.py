"""The points of a stream as they came, for estimators that look at series as a whole."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

# Points of a stream that are kept where nothing else was said: a quarter of an hour at 125 a second.
MOST = 2**17


@dataclass(frozen=True)
class Buffer:
    """Raw points and their times, oldest first; with `last`, no more than so many.

    >>> buffer = Buffer.empty(1, last=3).plus(np.arange(5.0)[:, None], None)
    >>> buffer.values[:, 0].tolist()
    [2.0, 3.0, 4.0]
    """

    values: Float[np.ndarray, "points channels"]
    times: Float[np.ndarray, "points"] | None
    last: int | None

    @staticmethod
    def empty(channels: int, last: int | None) -> "Buffer":
        return Buffer(np.zeros((0, channels)), None, last)

    def plus(self, values: Float[np.ndarray, "points channels"], times: Float[np.ndarray, "points"] | None) -> "Buffer":
        """With new points. A buffer has times from its first point on, or never."""
        if self.last is None and len(self.values) + len(values) > MOST:
            raise ValueError(
                f"Got {len(self.values) + len(values)} points of a stream, all of which are kept, because this "
                f"estimator looks at series as a whole; expected at most {MOST}. Write `estimator.stream(last=N)` for "
                "predictions from the last N points, or fit a neural estimator with closed_form=False, which keeps "
                "none."
            )
        if not len(self.values):
            joined, clock = values, times
        else:
            joined = np.concatenate([self.values, values])
            clock = None if self.times is None or times is None else np.concatenate([self.times, times])
        if self.last is not None and len(joined) > self.last:
            # Copied, so that the points before them can go.
            joined, clock = (None if a is None else a[-self.last :].copy() for a in (joined, clock))
        assert joined is not None
        return Buffer(joined, clock, self.last)
