"""What the service counts and times, for Prometheus."""

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

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
