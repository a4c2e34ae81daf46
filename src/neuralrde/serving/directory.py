"""Which streams there are: in memory, or kept in the store."""

import itertools
import logging
import time
from collections import Counter
from collections.abc import Iterable
from typing import Any

import msgspec

from .errors import Refused
from .hosted import Hosted, Live
from .jobs import Job
from .journal import Damaged, Logged, Unwritten, packed
from .limits import Limits
from .metrics import Metrics
from .store import DROP, DROP_POINTS, ENDED, FORGET, LOG, OPEN, STATE, TRIM, TRIM_LOG, Change, Kept, Store

log = logging.getLogger("neuralrde.serving")
_ENDED = 4_096  # streams of a model whose last answers are remembered


class StreamDirectory:
    """The streams of all models. Methods that change something return what the store has to be told.

    Args:
        models: by name.
        store: where streams are kept.
        limits: how many there may be.
        metrics: what is counted.
    """

    def __init__(self, models: dict[str, Hosted], *, store: Store, limits: Limits, metrics: Metrics):
        self.models, self.store, self.limits, self.metrics = models, store, limits, metrics
        self._owned: Counter = Counter()
        self._begun: Counter = Counter()  # in the batch that is being worked on
        self._numbers = itertools.count(1)
        self._unwritten, self._trimmed = Unwritten(), 0

    def know(self) -> None:
        """Learn from the store which streams there are."""
        self._owned.clear()
        for hosted in self.models.values():
            hosted.known.clear()
            hosted.ended.clear()
        most = 0
        for number, model, name, owner in self.store.known():
            most = max(most, number)
            if model in self.models:
                self.models[model].known[name] = (number, owner)
                self._owned[owner] += 1
        self._numbers = itertools.count(max(most, next(self._numbers)) + 1)
        for model, name, answer in self.store.ended():
            if model in self.models:
                self.models[model].ended[name] = msgspec.json.decode(answer)

    def forget(self) -> bool:
        """After an error of the store: what was not acknowledged has not happened. Whether the store works again."""
        log.error("The store failed: %s. Streams go on from what was acknowledged.", self.store.error)
        for hosted in self.models.values():
            for name in hosted.live:
                hosted.streams.discard(name)
            hosted.live.clear()
        mended = self.store.mend()
        if mended:
            self._unwritten, self._trimmed = Unwritten(), 0
        self.know()
        return mended

    def check_room(self, hosted: Hosted, name: str, owner: str) -> None:
        """Refuse a stream that would be one too many. Those of a batch count until `settle`."""
        _, before = hosted.known.get(name, (0, None))  # whom it replaces
        known = sum(len(each.known) for each in self.models.values()) + self._begun.total()
        if before is None and known >= self.limits.streams:
            raise Refused(503, f"There are {known} streams already, as many as this service takes.", retry_after=60)
        owned = self._owned[owner] + self._begun[owner] - (before == owner)
        if owned >= self.limits.streams_per_client:
            raise Refused(
                429,
                f"You have {owned} streams already, as many as one client may have. End some of them.",
                retry_after=60,
            )
        self._begun[owner] += before != owner

    def settle(self) -> None:
        """A batch is done."""
        self._begun.clear()

    def begin(self, hosted: Hosted, job: Job) -> list[Change]:
        """The stream that a job has begun aside is now the one of its name."""
        changes, name = self.drop(hosted, job.stream), job.stream
        hosted.streams.rename(job.key, name)
        number = next(self._numbers)
        hosted.live[name] = Live(number, 0, job.outcome.points, time.monotonic())
        hosted.known[name] = (number, job.owner)
        self._owned[job.owner] += 1
        changes += [*self._forget_answer(hosted, name), (OPEN, (number, hosted.name, name, job.owner))]
        return changes if job.state is None else [*changes, *self.written(hosted, name)]

    def end(self, hosted: Hosted, job: Job) -> list[Change]:
        """End a stream, and remember the answer: if it is lost, the client asks again."""
        answer = {"points": job.outcome.points, "prediction": job.outcome.prediction}
        changes = [*self.drop(hosted, job.stream), *self._forget_answer(hosted, job.stream)]
        hosted.ended[job.stream] = answer
        changes.append((ENDED, (hosted.name, job.stream, msgspec.json.encode(answer))))
        if len(hosted.ended) > _ENDED:
            changes += self._forget_answer(hosted, next(iter(hosted.ended)))
        return changes

    def _forget_answer(self, hosted: Hosted, name: str) -> list[Change]:
        return [] if hosted.ended.pop(name, None) is None else [(FORGET, (hosted.name, name))]

    def drop(self, hosted: Hosted, name: str) -> list[Change]:
        """There is no such stream any more."""
        if name not in hosted.known:
            return []
        number, owner = hosted.known.pop(name)
        self._owned[owner] -= 1
        if self._owned[owner] <= 0:
            del self._owned[owner]
        if hosted.live.pop(name, None) is not None:
            hosted.streams.discard(name)
        self._unwritten.written((hosted.name, name))
        return [(DROP, (number,)), (DROP_POINTS, (number,))]

    def written(self, hosted: Hosted, name: str) -> list[Change]:
        """The state as it is now, instead of the pushes that led to it."""
        live = hosted.live[name]
        state = msgspec.json.encode(hosted.streams.state(name))
        self._unwritten.written((hosted.name, name))
        return [(STATE, (live.id, live.seq, state)), (TRIM, (live.id, live.seq))]

    def logged(self, hosted: Hosted, pushes: dict[str, Logged]) -> list[Change]:
        """A batch of pushes, as one row; and the states of a few streams, so that the log stays short."""
        row = self._unwritten.pushed((hosted.name, name) for name in pushes)
        changes: list[Change] = [(LOG, (row, *packed(list(pushes.values()))))]
        for model, name in self._unwritten.due():
            changes += self.written(self.models[model], name)
        if self._unwritten.passed > self._trimmed:
            self._trimmed = self._unwritten.passed
            changes.append((TRIM_LOG, (self._trimmed,)))
        return changes

    def evict(self, hosted: Hosted, name: str) -> list[Change]:
        """Keep a stream in the store instead of in memory."""
        changes = self.written(hosted, name)
        hosted.streams.discard(name)
        del hosted.live[name]
        return changes

    def evict_all(self) -> list[Change]:
        """Keep every stream."""
        models = [hosted for hosted in self.models.values() if hosted.live]
        return [change for hosted in models for name in list(hosted.live) for change in self.evict(hosted, name)]

    def evict_idle(self, hosted: Hosted) -> list[Change]:
        """Keep streams that have not been used for long, and those that there is no room for; a batch at most."""
        oldest, changes = time.monotonic() - self.limits.idle, []
        for name, live in itertools.islice(list(hosted.live.items()), self.limits.batch):
            reason = "idle" if live.used < oldest else "room" if len(hosted.live) > self.limits.live else None
            if reason is None:
                break
            changes += self.evict(hosted, name)
            self.metrics.evicted.labels(hosted.name, reason).inc()
        return changes

    def bring_back(self, hosted: Hosted, names: Iterable[str]) -> dict[str, Refused]:
        """Those from the store into memory; errors of those that are damaged, or do not fit the model."""
        found, behind, errors = self.store.read(hosted.name, names), {}, {}
        for name, kept in found.items():
            try:
                behind[name] = self._open_kept(hosted, name, kept)
            except (Refused, Damaged) as error:
                errors[name] = _unreadable(name, error)
        while some := {name: pushes.pop(0) for name, pushes in behind.items() if pushes}:
            for name, error in hosted.streams.push(some).items():  # it was accepted before
                errors[name] = _unreadable(name, error)
                hosted.streams.discard(name)
                del hosted.live[name], behind[name]
        for name in behind:
            hosted.live[name].points = hosted.points(name)
        self.metrics.restored.labels(hosted.name).inc(len(behind))
        return errors

    def _open_kept(self, hosted: Hosted, name: str, kept: Kept | Damaged) -> list:
        if isinstance(kept, Damaged):
            raise kept
        hosted.open(name, None if kept.state is None else msgspec.json.decode(kept.state))
        hosted.live[name] = Live(kept.id, kept.seq, 0, time.monotonic())
        return list(kept.pushes)


def _unreadable(name: str, error: Any) -> Refused:
    log.error("The stream %r cannot be brought back: %s", name, error)
    return Refused(
        409,
        f"The stream {name!r} was kept, and cannot be brought back: {error}. Begin it anew with its first points, or "
        "DELETE it.",
    )
