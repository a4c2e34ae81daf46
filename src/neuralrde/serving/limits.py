"""What a service lets a client do."""

from dataclasses import dataclass, fields

from ..paths.checks import as_positive


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
    per_stream: int = 64
    in_flight: int = 1_024
    batch: int = 512

    def __post_init__(self):
        for field in fields(self):
            example = f"{field.name}={field.default}"
            as_positive(getattr(self, field.name), name=field.name, example=example, why="nothing could pass")

    @property
    def burst(self) -> float:
        """Points of one stream that may come at once."""
        return 10 * self.points_per_second
