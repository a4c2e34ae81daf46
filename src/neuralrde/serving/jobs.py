"""What is asked of a stream, and what becomes of it."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from .errors import Refused

Kind = Literal["push", "read", "write", "drop", "whole"]


@dataclass(slots=True, eq=False)
class Outcome:
    """What a job came to: an error, or what it asked for."""

    points: int = 0
    answer: dict[str, Any] | None = None
    state: Any = None
    error: Refused | None = None


@dataclass(slots=True, eq=False)
class Job:
    """One thing that is asked of one stream.

    Args:
        model: the model's name.
        stream: the stream's name.
        kind: "push" points and predict; "read" or "write" the state; "drop" the stream; "whole" is a series that comes
            whole and leaves nothing behind.
        owner: the client.
        values, times: of a push, `(count, channels)` and `(count,)`.
        at: the number of the push's first point. Points that are there already are passed over, so that a client that
            does not know whether a push arrived may send it again.
        answer: whether to predict.
        create: whether a stream that is not there is opened; otherwise it is an error.
        start: whether the stream starts anew.
        end: whether it ends with this.
        state: what "write" puts.
        truth: what is true, if the client knows it; it is only shown.
        done: called in the event loop, with the job, when there is an outcome.
    """

    model: str
    stream: str
    kind: Kind = "push"
    owner: str = ""
    values: np.ndarray | None = None
    times: np.ndarray | None = None
    at: int | None = None
    answer: bool = True
    create: bool = True
    start: bool = False
    end: bool = False
    state: Any = None
    truth: Any = None
    done: Callable[["Job"], None] | None = None
    outcome: Outcome = field(default_factory=Outcome)
    arrived: float = field(default_factory=time.perf_counter)
    taken: float = 0.0

    def refuse(self, error: Refused) -> None:
        """Leave it at this error."""
        self.outcome.error = error


def future_of(job: Job, loop: asyncio.AbstractEventLoop) -> asyncio.Future:
    """A future with the job's outcome, or its error."""
    future: asyncio.Future = loop.create_future()

    def done(job: Job) -> None:
        if future.done():  # whoever waited has gone
            return
        if job.outcome.error is not None:
            future.set_exception(job.outcome.error)
        else:
            future.set_result(job.outcome)

    job.done = done
    return future
