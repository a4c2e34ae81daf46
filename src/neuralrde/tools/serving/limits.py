"""How much a service takes in, the error of those who ask for more, and what it counts."""

import time
from dataclasses import dataclass, fields
from functools import partial

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from ..._write import Values
from ...paths.checks import check_number

_BURST = 10  # seconds' worth of a stream's points that may come at once
_MANY = 50_000  # streams, after which those that have been quiet are forgotten
_SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10)
_SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256)


class RequestError(Exception):
    """What a client asked for and does not get: HTTP's status, a sentence, and seconds after which it may work.

    >>> RequestError(429, "Too many points.", retry_after=2).headers
    {'Retry-After': '2'}
    """

    def __init__(self, status: int, message: str, *, retry_after: float | None = None):
        super().__init__(message)
        self.status, self.message, self.retry_after = status, message, retry_after

    @property
    def headers(self) -> dict[str, str]:
        return {} if self.retry_after is None else {"Retry-After": str(max(1, round(self.retry_after)))}


def wrong(message: str) -> RequestError:
    """The error of a request that is wrong in itself."""
    return RequestError(400, message)


@dataclass(frozen=True, kw_only=True)
class Limits:
    """How much a service takes in, from one client and altogether. What goes beyond is refused or waits.

    Args:
        message_bytes: bytes of one request or message.
        points_per_second: points per second of one stream, on average; ten seconds' worth may come at once.
        streams_per_client: streams of one client, counted by its address, live or kept.
        streams: all streams, live or kept.
        live: streams in memory. With more, those that have rested longest are kept in the store instead.
        idle: seconds without a message after which a stream is kept in the store instead of in memory.
        queue: messages that wait for the model, altogether.
        wait: seconds that a message may wait for the model when the service is overloaded; later ones are refused.
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
            check_number(field.name, getattr(self, field.name), above=True, finite=True, because="nothing could pass")


class Rates:
    """A bucket per stream, which fills at the allowed rate and from which its points are taken.

    >>> rates = Rates(Limits(points_per_second=10))
    >>> rates.take("a", 100)
    >>> rates.take("a", 50)
    Traceback (most recent call last):
    ...
    neuralrde.tools.serving.limits.RequestError: Got 50 more points of this stream too soon; expected at most 10 per second.
    """  # noqa: E501

    def __init__(self, limits: Limits):
        self.rate = limits.points_per_second
        self._full: dict = {}  # when each bucket is full again

    def take(self, key, points: int) -> None:
        if points > (most := _BURST * self.rate):
            raise RequestError(
                413, f"Got {points} points at once; expected at most {most:g} of a stream. Send them in parts."
            )
        now = time.monotonic()
        full = max(self._full.get(key, now), now) + points / self.rate
        if full - now > _BURST * (1 + 1e-9):
            raise RequestError(
                429,
                f"Got {points} more points of this stream too soon; expected at most {self.rate:g} per second.",
                retry_after=full - now - _BURST,
            )
        self._full[key] = full
        if len(self._full) > _MANY:
            self._full = {key: full for key, full in self._full.items() if full > now}


class Metrics:
    """One service's metrics, for Prometheus, each with the model's name as its label."""

    def __init__(self):
        registry = self.registry = CollectorRegistry()
        of_model: Values = {"labelnames": ["model"], "registry": registry}
        seconds: partial[Histogram] = partial(Histogram, buckets=_SECONDS, **of_model)
        self.queue_wait = seconds("neuralrde_queue_wait_seconds", "From a message's arrival to the start of its batch.")
        self.step_time = seconds("neuralrde_step_seconds", "Time to advance one batch and predict.")
        self.answer_age = seconds("neuralrde_answer_age_seconds", "From a message's arrival to its answer.")
        self.batch_size = Histogram("neuralrde_batch_size", "Streams advanced together.", buckets=_SIZES, **of_model)
        self.points = Counter("neuralrde_points", "Points taken in.", **of_model)
        self.restored = Counter("neuralrde_restored", "Streams that came back from the store.", **of_model)
        about = "Streams moved from memory to the store."
        self.evicted = Counter("neuralrde_evicted", about, ["model", "reason"], registry=registry)
        about = "Messages refused, by HTTP's status."
        self.refused = Counter("neuralrde_refused", about, ["model", "status"], registry=registry)
        self.live = Gauge("neuralrde_live", "Streams in memory.", **of_model)
        self.kept = Gauge("neuralrde_kept", "Streams in the store that are not in memory.", **of_model)
        self.queue = Gauge("neuralrde_queue", "Messages that wait for the model.", registry=registry)
        self.commits = Gauge("neuralrde_commits", "Transactions of the store.", registry=registry)
