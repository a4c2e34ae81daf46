"""How many points per second a stream may send."""

import time

from .errors import Refused
from .limits import Limits

_MANY = 50_000  # streams, after which those that have been quiet are forgotten


class Rates:
    """A bucket per stream, which fills at the allowed rate and from which its points are taken.

    >>> rates = Rates(Limits(points_per_second=10))
    >>> rates.take("a", 100)
    >>> rates.take("a", 50)
    Traceback (most recent call last):
    ...
    neuralrde.serving.errors.Refused: Got 50 more points of this stream too soon; expected at most 10 per second.
    """

    def __init__(self, limits: Limits):
        self.limits = limits
        self._empty_until: dict = {}  # the time at which a bucket is full again

    def take(self, key, points: int) -> None:
        """Take the points, or refuse them with the time to wait."""
        rate, burst = self.limits.points_per_second, self.limits.burst
        if points > burst:
            raise Refused(
                413, f"Got {points} points at once; expected at most {burst:g} of a stream. Send them in parts."
            )
        now = time.monotonic()
        full = max(self._empty_until.get(key, now), now) + points / rate
        if full - now > burst / rate * (1 + 1e-9):
            raise Refused(
                429,
                f"Got {points} more points of this stream too soon; expected at most {rate:g} per second.",
                retry_after=full - now - burst / rate,
            )
        self._empty_until[key] = full
        if len(self._empty_until) > _MANY:
            self._empty_until = {key: full for key, full in self._empty_until.items() if full > now}
