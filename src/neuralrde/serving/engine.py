"""The one thread that owns JAX: it takes batches of jobs, advances their streams, and has them kept."""

import gc
import itertools
import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable

import msgspec

from .jobs import Job, JobQueue, LastAnswer
from .limits import Limits, Metrics, RequestError
from .served import Live, ServedModel
from .store import (
    DROP,
    DROP_POINTS,
    ENDED,
    FORGET,
    LOG,
    OPEN,
    STATE,
    TRIM,
    TRIM_LOG,
    Change,
    Damaged,
    Kept,
    Logged,
    Store,
    Unwritten,
    packed,
)

log = logging.getLogger("neuralrde.serving")
_ENDED = 4_096  # streams of a model whose last answers are remembered


class StreamDirectory:
    """The streams of all models. Methods that change something return the changes of the store.

    Args:
        models: by name.
        store: where streams are kept.
        limits: how many there may be.
        metrics: what is counted.
    """

    def __init__(self, models: dict[str, ServedModel], *, store: Store, limits: Limits, metrics: Metrics):
        self.models, self.store, self.limits, self.metrics = models, store, limits, metrics
        self._owned: Counter = Counter()
        self._begun: Counter = Counter()  # in the batch that is being worked on
        self._numbers = itertools.count(1)
        self._unwritten, self._trimmed = Unwritten(), 0

    def know(self) -> None:
        """Learn from the store which streams there are."""
        self._owned.clear()
        for served in self.models.values():
            served.known.clear()
            served.ended.clear()
        most = 0
        for number, model, name, owner in self.store.known():
            most = max(most, number)
            if model in self.models:
                self.models[model].known[name] = (number, owner)
                self._owned[owner] += 1
        self._numbers = itertools.count(max(most, next(self._numbers)) + 1)
        for model, name, answer in self.store.ended():
            if model in self.models:
                self.models[model].ended[name] = msgspec.json.decode(answer, type=LastAnswer)

    def forget(self) -> bool:
        """After an error of the store: what was not acknowledged has not happened. Whether the store works again."""
        log.error("The store failed: %s. Streams go on from what was acknowledged.", self.store.error)
        for served in self.models.values():
            for name in served.live:
                served.streams.discard(name)
            served.live.clear()
        mended = self.store.mend()
        if mended:
            self._unwritten, self._trimmed = Unwritten(), 0
        self.know()
        return mended

    def check_room(self, served: ServedModel, name: str, owner: str) -> None:
        """Refuse a stream that would be one too many. Those of a batch count until `settle`."""
        _, before = served.known.get(name, (0, None))  # whom it replaces
        known = sum(len(each.known) for each in self.models.values()) + self._begun.total()
        if before is None and known >= self.limits.streams:
            raise RequestError(
                503, f"There are {known} streams already, as many as this service takes.", retry_after=60
            )
        owned = self._owned[owner] + self._begun[owner] - (before == owner)
        if owned >= self.limits.streams_per_client:
            raise RequestError(
                429,
                f"You have {owned} streams already, as many as one client may have. End some of them.",
                retry_after=60,
            )
        self._begun[owner] += before != owner

    def settle(self) -> None:
        """A batch is done."""
        self._begun.clear()

    def begin(self, served: ServedModel, job: Job) -> list[Change]:
        """The stream that a job has begun aside is now the one of its name."""
        changes, name = self.drop(served, job.stream), job.stream
        served.streams.rename(job.key, name)
        number = next(self._numbers)
        served.live[name] = Live(number, 0, job.outcome.points, time.monotonic())
        served.known[name] = (number, job.owner)
        self._owned[job.owner] += 1
        changes += [*self._forget_answer(served, name), (OPEN, (number, served.name, name, job.owner))]
        return changes if job.state is None else [*changes, *self.written(served, name)]

    def end(self, served: ServedModel, job: Job) -> list[Change]:
        """End a stream, and remember the answer: if it is lost, the client asks again."""
        answer = LastAnswer(job.outcome.points, job.outcome.prediction)
        changes = [*self.drop(served, job.stream), *self._forget_answer(served, job.stream)]
        served.ended[job.stream] = answer
        changes.append((ENDED, (served.name, job.stream, msgspec.json.encode(answer))))
        if len(served.ended) > _ENDED:
            changes += self._forget_answer(served, next(iter(served.ended)))
        return changes

    def _forget_answer(self, served: ServedModel, name: str) -> list[Change]:
        return [] if served.ended.pop(name, None) is None else [(FORGET, (served.name, name))]

    def drop(self, served: ServedModel, name: str) -> list[Change]:
        """There is no such stream any more."""
        if name not in served.known:
            return []
        number, owner = served.known.pop(name)
        self._owned[owner] -= 1
        if self._owned[owner] <= 0:
            del self._owned[owner]
        if served.live.pop(name, None) is not None:
            served.streams.discard(name)
        self._unwritten.written((served.name, name))
        return [(DROP, (number,)), (DROP_POINTS, (number,))]

    def written(self, served: ServedModel, name: str) -> list[Change]:
        """The state as it is now, instead of the pushes that led to it."""
        live = served.live[name]
        state = msgspec.json.encode(served.streams.state(name))
        self._unwritten.written((served.name, name))
        return [(STATE, (live.id, live.seq, state)), (TRIM, (live.id, live.seq))]

    def logged(self, served: ServedModel, pushes: dict[str, Logged]) -> list[Change]:
        """A batch of pushes, as one row; and the states of a few streams, so that the log stays short."""
        row = self._unwritten.pushed((served.name, name) for name in pushes)
        changes: list[Change] = [(LOG, (row, *packed(list(pushes.values()))))]
        for model, name in self._unwritten.due():
            changes += self.written(self.models[model], name)
        if self._unwritten.passed > self._trimmed:
            self._trimmed = self._unwritten.passed
            changes.append((TRIM_LOG, (self._trimmed,)))
        return changes

    def evict(self, served: ServedModel, name: str) -> list[Change]:
        """Keep a stream in the store instead of in memory."""
        changes = self.written(served, name)
        served.streams.discard(name)
        del served.live[name]
        return changes

    def evict_all(self) -> list[Change]:
        """Keep every stream."""
        models = [served for served in self.models.values() if served.live]
        return [change for served in models for name in list(served.live) for change in self.evict(served, name)]

    def evict_idle(self, served: ServedModel) -> list[Change]:
        """Keep streams that have not been used for long, and those that there is no room for; a batch at most."""
        oldest, changes = time.monotonic() - self.limits.idle, []
        for name, live in itertools.islice(list(served.live.items()), self.limits.batch):
            reason = "idle" if live.used < oldest else "room" if len(served.live) > self.limits.live else None
            if reason is None:
                break
            changes += self.evict(served, name)
            self.metrics.evicted.labels(served.name, reason).inc()
        return changes

    def bring_back(self, served: ServedModel, names: Iterable[str]) -> dict[str, RequestError]:
        """Those from the store into memory; errors of those that are damaged, or do not fit the model."""
        behind, errors = {}, {}
        for name, kept in self.store.read(served.name, names).items():
            try:
                behind[name] = self._open_kept(served, name, kept)
            except (RequestError, Damaged) as error:
                errors[name] = _unreadable(name, error)
        while some := {name: pushes.pop(0) for name, pushes in behind.items() if pushes}:
            for name, error in served.streams.push(some).items():  # it was accepted before
                errors[name] = _unreadable(name, error)
                served.streams.discard(name)
                del served.live[name], behind[name]
        for name in behind:
            served.live[name].points = served.points(name)
        self.metrics.restored.labels(served.name).inc(len(behind))
        return errors

    def _open_kept(self, served: ServedModel, name: str, kept: Kept | Damaged) -> list:
        if isinstance(kept, Damaged):
            raise kept
        served.open(name, None if kept.state is None else msgspec.json.decode(kept.state))
        served.live[name] = Live(kept.id, kept.seq, 0, time.monotonic())
        return list(kept.pushes)


def _unreadable(name: str, error: Exception) -> RequestError:
    log.error("The stream %r cannot be brought back: %s", name, error)
    return RequestError(
        409,
        f"The stream {name!r} was kept, and cannot be brought back: {error}. Begin it anew with its first points, or "
        "DELETE it.",
    )


_WAIT = 0.25  # seconds between two looks at streams that rest
_FEW = 4  # streams in a batch up to which the next one starts at once
_LONGEST_REST = 0.04  # seconds


class Engine:
    """Takes jobs from its queue, batch by batch, until it is stopped.

    Args:
        models: by name.
        store: where streams are kept.
        limits: how many streams there may be.
        metrics: what is counted.
        deliver: called with the jobs of a batch that are done and kept, from another thread.
    """

    def __init__(
        self,
        models: dict[str, ServedModel],
        *,
        store: Store,
        limits: Limits,
        metrics: Metrics,
        deliver: Callable[[list[Job]], None],
    ):
        self.models, self.store, self.limits, self.metrics, self.deliver = models, store, limits, metrics, deliver
        self.queue = JobQueue(limits)
        self.ready = threading.Event()
        self.failure: BaseException | None = None
        """Why the thread has ended, if it has."""
        self._directory = StreamDirectory(models, store=store, limits=limits, metrics=metrics)
        self._last_size, self._last_step = 0, 0.0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="neuralrde engine", daemon=True)

    def start(self) -> None:
        """Begin: compile, and then take jobs."""
        self._thread.start()

    def stop(self) -> None:
        """Finish what waits, keep all streams, and end."""
        self._stop.set()
        self.queue.wake()
        self._thread.join()

    def _run(self) -> None:
        try:
            self._directory.know()
            for served in self.models.values():
                served.warm_up(self.limits.batch)
            # Models and compiled programs stay: looking through them for garbage took a third of the time of a push.
            gc.collect()
            gc.freeze()
            self.ready.set()
            looked = time.monotonic()
            while not (self._stop.is_set() and not len(self.queue)):
                self._gather()
                jobs = self.queue.take(self.limits.batch, timeout=_WAIT)
                if self.queue.shed:
                    self.deliver(self.queue.shed)
                    self.queue.shed = []
                if self.store.error is not None and not self._directory.forget():
                    jobs = self._without_disk(jobs)
                if jobs:
                    self._step(jobs)
                if time.monotonic() - looked > _WAIT:
                    self._let_rest()
                    looked = time.monotonic()
            if self.store.durable and (changes := self._directory.evict_all()):
                self.store.write(changes)
        except BaseException as error:  # whoever watches must see it: without this thread nothing is answered
            self.failure = error
            log.exception("The engine has stopped.")

    def _without_disk(self, jobs: list[Job]) -> list[Job]:
        """Of these jobs those that change nothing; the others are refused while nothing can be kept."""
        refused = [job for job in jobs if not (job.kind in ("whole", "read") or _only_asks(job))]
        for job in refused:
            job.refuse(_unkept(self.store.error))
        self.deliver(refused)
        if len(refused) == len(jobs):
            time.sleep(_WAIT)  # a disk that is full stays so for a while
        return [job for job in jobs if job.outcome.error is None]

    def _gather(self) -> None:
        """Under load, rest between steps: batches grow, and other threads have their turn.

        A step costs nearly the same for 8 streams as for 64, and Python runs one thread at a time. The more streams the
        last batch had, the longer the rest, up to eight times the last step. A single client does not wait.
        """
        if self._last_size > _FEW and not self._stop.is_set() and len(self.queue) < self.limits.batch:
            time.sleep(min(self._last_step * min(8.0, self._last_size / 8), _LONGEST_REST))

    def _let_rest(self) -> None:
        for served in self.models.values():
            if changes := self._directory.evict_idle(served):
                self.store.submit(changes, lambda error: None)

    def _step(self, jobs: list[Job]) -> None:
        """One batch: of one model, and of each stream one job."""
        served, began = self.models[jobs[0].model], time.perf_counter()
        waits = self.metrics.queue_wait.labels(served.name)
        for job in jobs:
            waits.observe(began - job.arrived)
        changes: list[Change] = []
        try:
            if served.streams is None:
                _predict_whole(served, jobs)
            else:
                self._advance(served, jobs, changes)
        except Exception:  # a bug of ours, which must not take the other batches with it
            log.exception("A batch failed.")
            for job in jobs:
                job.refuse(job.outcome.error or RequestError(500, "Something went wrong that should not have."))
        self._last_size, self._last_step = len(jobs), time.perf_counter() - began
        self.metrics.batch_size.labels(served.name).observe(self._last_size)
        self.metrics.step_time.labels(served.name).observe(self._last_step)
        self._finish(jobs, changes)

    def _finish(self, jobs: list[Job], changes: list[Change]) -> None:
        """Deliver; what has to survive, when it is on the disk."""
        if not changes or not self.store.durable:
            if changes:
                self.store.submit(changes, lambda error: None)
            self.deliver(jobs)
            return

        def then(error: Exception | None) -> None:
            if error is not None:
                for job in jobs:
                    job.refuse(_unkept(error))
            self.deliver(jobs)

        self.store.submit(changes, then)

    def _advance(self, served: ServedModel, jobs: list[Job], changes: list[Change]) -> None:
        """Try everything first. Only what has come to a good end is kept."""
        try:
            self._bring_back(served, jobs)
            ready = [job for job in jobs if job.outcome.error is None and self._prepared(served, job)]
            self._push(served, [job for job in ready if job.values is not None])
            self._predict(served, [job for job in ready if job.predict and job.outcome.error is None])
        except Exception:
            for job in jobs:
                served.streams.undo(job.key)
            raise
        else:
            changes += self._kept(served, [job for job in ready if job.outcome.error is None])
        finally:
            self._directory.settle()
            for job in jobs:
                if job.fresh and job.key in served.streams:
                    served.streams.discard(job.key)

    def _bring_back(self, served: ServedModel, jobs: list[Job]) -> None:
        """Streams that rest in the store and are asked for."""
        resting = {
            job.stream: job
            for job in jobs
            if job.stream in served.known and job.stream not in served.live and job.kind in ("push", "read")
        }
        resting = {name: job for name, job in resting.items() if not job.start}
        if resting:
            for name, error in self._directory.bring_back(served, resting).items():
                resting[name].refuse(error)

    def _prepared(self, served: ServedModel, job: Job) -> bool:
        """Whether the job can go on. A stream that it begins is begun aside."""
        job.key = name = job.stream
        there = name in served.known
        if answer := None if there or job.start else _answered(served, job):
            job.outcome.points, job.outcome.prediction = answer.points, answer.prediction
            return False
        try:
            if job.kind in ("whole", "write") or job.start or (job.create and not there):
                if job.kind == "push" and job.values is None:
                    raise RequestError(
                        400, f"Got no points for the start of the stream {name!r}; expected at least one."
                    )
                if job.kind != "whole":
                    self._directory.check_room(served, name, job.owner)
                job.key = f"\0{name}"
                served.open(job.key, job.state)
                job.outcome.points = served.points(job.key)
                if job.kind == "write" and not job.outcome.points:
                    raise RequestError(400, "Got a state without a point; expected one of a stream that has begun.")
            elif not there:
                raise _absent(served, job)
            elif job.kind != "drop":
                live = served.live[name]
                live.used, job.outcome.points = time.monotonic(), live.points
                served.live.move_to_end(name)
                if job.kind == "read":
                    job.outcome.state = served.streams.state(name)
            _align(job, job.outcome.points)
        except RequestError as error:
            job.refuse(error)
        return job.outcome.error is None

    def _push(self, served: ServedModel, jobs: list[Job]) -> None:
        if not jobs:
            return
        errors = served.streams.push({job.key: (job.values, job.times) for job in jobs})
        for job in jobs:
            assert job.values is not None
            if job.key in errors:
                job.refuse(RequestError(400, str(errors[job.key])))
            else:
                job.outcome.points += len(job.values)

    def _predict(self, served: ServedModel, jobs: list[Job]) -> None:
        predictions = served.predictions(job.key for job in jobs)
        for job in jobs:
            answer = predictions[job.key]
            if isinstance(answer, RequestError):
                job.refuse(RequestError(answer.status, answer.message.replace(repr(job.key), repr(job.stream))))
                served.streams.undo(job.key)
            else:
                job.outcome.prediction = answer

    def _kept(self, served: ServedModel, jobs: list[Job]) -> list[Change]:
        """What has happened, and what the store has to know of it."""
        changes: list[Change] = []
        logged: dict[str, Logged] = {}
        for job in jobs:
            if job.kind == "drop":
                changes += self._directory.drop(served, job.stream)
            elif job.end:
                changes += self._directory.end(served, job)
            elif job.kind != "whole":
                if job.fresh:
                    changes += self._directory.begin(served, job)
                if job.values is not None:
                    live = served.live[job.stream]
                    live.seq, live.points = live.seq + 1, job.outcome.points
                    logged[job.stream] = Logged(live.id, live.seq, job.values, job.times)
        self.metrics.points.labels(served.name).inc(sum(len(job.values) for job in jobs if job.values is not None))
        if logged and self.store.durable:
            changes += self._directory.logged(served, logged)
        return changes


def _answered(served: ServedModel, job: Job) -> LastAnswer | None:
    """The answer that was given to the same `end` before, if it is sent again."""
    answer = served.ended.get(job.stream) if job.end and job.kind == "push" else None
    if answer is None or (job.at is None and job.values is not None):
        return None
    count = 0 if job.values is None else len(job.values)
    return answer if job.at is None or job.at + count == answer.points else None


def _predict_whole(served: ServedModel, jobs: list[Job]) -> None:
    """Of a model that takes no streams."""
    for job in jobs:
        if job.kind != "whole" or job.values is None:
            job.refuse(RequestError(400, f"The model {served.name!r} takes no streams: {served.whole_only}"))
            continue
        try:
            job.outcome.prediction = served.whole(job.values, job.times)
            job.outcome.points = len(job.values)
        except (ValueError, TypeError, ArithmeticError) as error:
            job.refuse(RequestError(400, str(error)))


def _only_asks(job: Job) -> bool:
    return job.kind == "push" and job.values is None and not job.start and not job.end


def _unkept(error: Exception | None) -> RequestError:
    return RequestError(503, f"It could not be kept ({error}); send it again later.", retry_after=5)


def _absent(served: ServedModel, job: Job) -> RequestError:
    absent = f"There is no stream {job.stream!r} of the model {served.name!r}."
    if job.kind != "push":
        return RequestError(404, absent)
    return RequestError(400, f"{absent} Send `sequence_start`, or `start` by WebSocket, with its first points.")


def _align(job: Job, points: int) -> None:
    """Pass over what is there already; refuse what would leave a gap."""
    if job.at is None or job.values is None:
        return
    if job.at > points:
        got = f"Got points of the stream {job.stream!r} from number {job.at} on, and {points} are there"
        raise RequestError(409, f"{got}; expected number {points} next, because none may be missing.")
    past = points - job.at
    job.times = None if job.times is None else job.times[past:]
    job.values = job.values[past:] if past < len(job.values) else None
