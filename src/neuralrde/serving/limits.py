"""What a service lets a client do: how much in all, and how many points per second."""

import time
from dataclasses import dataclass, fields

from ..paths.checks import as_positive
from .errors import Refused

_MANY = 50_000  # streams, after which those that have been quiet are forgotten


@dataclass(frozen=True, kw_only=True)
class Limits:
    """How much a service takes in, from one client and altogether. What goes beyond is refused or waits.

    Args:
        message_bytes: bytes of one request or message.
        points_per_second: points per second of one stream, on average; ten seconds' worth may come at once.
        streams_per_client: streams of one client, counted by its address, live or kept.
        streams: all streams, live or kept.
        live: streams in memory. With more, those that have rested longest are kept in the store instead.
        idle: seconds without a message after which a stream is kept in the store instead of in memory. It comes back
            with its next message, and loses nothing.
        queue: messages that wait for the model, altogether.
        wait: seconds that a message may wait for the model when the service is overloaded. Those that have waited
            longer are refused, so that the others are answered in time.
        per_stream: messages of one stream that wait for the model.
        in_flight: messages of one WebSocket that are not answered yet.
        batch: streams that are advanced together.

    >>> Limits(idle=60).idle
    60
    """

    message_bytes: int = 8 * 2**20
    points_per_second: float = 10_000
    streams_per_client: int = 5_000
    streams: int = 100_000
    live: int = 4_096
    idle: float = 300
    queue: int = 8_192
    wait: float = 0.15
    per_stream: int = 64
    in_flight: int = 4_096
    batch: int = 512

    def __post_init__(self):
        for field in fields(self):
            example = f"{field.name}={field.default}"
            as_positive(getattr(self, field.name), name=field.name, example=example, why="nothing could pass")

    @property
    def burst(self) -> float:
        """Points of one stream that may come at once."""
        return 10 * self.points_per_second


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
