"""What a service lets clients do, the error of those who ask for more, and what it counts."""

import time
from collections.abc import Callable
from dataclasses import dataclass, fields

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from ..paths.checks import as_positive


class RequestError(Exception):
    """What a client asked for and does not get, in a sentence.

    Args:
        status: HTTP's number for it.
        message: got, expected, why, what to write instead.
        retry_after: seconds after which it may work, if time is what it takes.

    >>> RequestError(429, "Too many points.", retry_after=2).headers
    {'Retry-After': '2'}
    """

    def __init__(self, status: int, message: str, *, retry_after: float | None = None):
        super().__init__(message)
        self.status, self.message, self.retry_after = status, message, retry_after

    @property
    def headers(self) -> dict[str, str]:
        """Of an HTTP response."""
        return {} if self.retry_after is None else {"Retry-After": str(max(1, round(self.retry_after)))}

    @property
    def body(self) -> dict[str, str]:
        """As the Open Inference Protocol has it."""
        return {"error": self.message}


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
    neuralrde.serving.limits.RequestError: Got 50 more points of this stream too soon; expected at most 10 per second.
    """

    def __init__(self, limits: Limits):
        self.limits = limits
        self._empty_until: dict = {}  # the time at which a bucket is full again

    def take(self, key, points: int) -> None:
        """Take the points, or refuse them with the time to wait."""
        rate, burst = self.limits.points_per_second, self.limits.burst
        if points > burst:
            raise RequestError(
                413, f"Got {points} points at once; expected at most {burst:g} of a stream. Send them in parts."
            )
        now = time.monotonic()
        full = max(self._empty_until.get(key, now), now) + points / rate
        if full - now > burst / rate * (1 + 1e-9):
            raise RequestError(
                429,
                f"Got {points} more points of this stream too soon; expected at most {rate:g} per second.",
                retry_after=full - now - burst / rate,
            )
        self._empty_until[key] = full
        if len(self._empty_until) > _MANY:
            self._empty_until = {key: full for key, full in self._empty_until.items() if full > now}


_SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10)
_SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256)


class Metrics:
    """One service's metrics, each with the model's name as its label."""

    def __init__(self):
        self.registry = CollectorRegistry()
        self.queue_wait = self._histogram("queue_wait_seconds", "From a message's arrival to the start of its batch.")
        self.batch_size = self._histogram("batch_size", "Streams advanced together.", _SIZES)
        self.step_time = self._histogram("step_seconds", "Time to advance one batch and predict.")
        self.answer_age = self._histogram("answer_age_seconds", "From a message's arrival to its answer.")
        self.points = self._counter("points", "Points taken in.")
        self.evicted = self._counter("evicted", "Streams moved from memory to the store.", "reason")
        self.restored = self._counter("restored", "Streams that came back from the store.")
        self.refused = self._counter("refused", "Messages refused, by HTTP's status.", "status")

    def _histogram(self, name: str, about: str, buckets: tuple = _SECONDS) -> Histogram:
        return Histogram(f"neuralrde_{name}", about, ["model"], buckets=buckets, registry=self.registry)

    def _counter(self, name: str, about: str, *labels: str) -> Counter:
        return Counter(f"neuralrde_{name}", about, ["model", *labels], registry=self.registry)

    def gauge(self, name: str, about: str, value: Callable[[], float]) -> None:
        """A number that is asked for when somebody looks."""
        Gauge(f"neuralrde_{name}", about, registry=self.registry).set_function(value)

    def gauges(self, name: str, about: str, values: Callable[[], dict[str, float]]) -> None:
        """One number per model, asked for when somebody looks."""
        self.registry.register(_PerModel(f"neuralrde_{name}", about, values))

    def text(self) -> bytes:
        """As Prometheus reads it.

        >>> b"neuralrde_batch_size" in Metrics().text()
        True
        """
        return generate_latest(self.registry)


class _PerModel(Collector):
    def __init__(self, name: str, about: str, values: Callable[[], dict[str, float]]):
        self.name, self.about, self.values = name, about, values

    def collect(self):
        family = GaugeMetricFamily(self.name, self.about, labels=["model"])
        for model, value in self.values().items():
            family.add_metric([model], value)
        yield family
