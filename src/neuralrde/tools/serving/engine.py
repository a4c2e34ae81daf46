"""The one thread that owns JAX: it takes batches of jobs, advances their streams, and has them kept."""

import gc
import itertools
import logging
import threading
import time
from collections import Counter
from collections.abc import Callable

import msgspec

from . import store as sql
from .jobs import Job, JobQueue, Prediction
from .limits import Limits, Metrics, RequestError, wrong
from .served import LastAnswer, Live, ServedModel
from .store import Change, Damaged, Logged, Store, Unwritten, packed

log = logging.getLogger("neuralrde.tools.serving")
_ENDED = 4_096  # streams of a model whose last answers are remembered
_WAIT = 0.25  # seconds between two looks at streams that rest
_FEW = 4  # streams in a batch up to which the next one starts at once
_LONGEST_REST = 0.04  # seconds


class Engine:
    """Takes jobs from its queue, batch by batch, until it is stopped; `deliver` gets those that are done and kept."""

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
        self._changes: list[Change] = []  # what the store has to write of this batch
        self._owned: Counter = Counter()
        self._begun: Counter = Counter()  # in the batch that is being worked on
        self._numbers = itertools.count(1)
        self._unwritten, self._trimmed = Unwritten(), 0
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
            self._read_streams()
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
                if self.store.error is not None and not self._recover():
                    jobs = self._without_disk(jobs)
                if jobs:
                    self._step(jobs)
                if time.monotonic() - looked > _WAIT:
                    self._let_rest()
                    looked = time.monotonic()
            if self.store.durable:
                for served in self.models.values():
                    for name in list(served.live):
                        self._evict(served, name)
                if self._changes:
                    self.store.write(self._changes)
        except BaseException as error:  # whoever watches must see it: without this thread nothing is answered
            self.failure = error
            log.exception("The engine has stopped.")

    def _gather(self) -> None:
        """Under load, rest between steps: batches grow, and other threads have their turn.

        A step costs nearly the same for 8 streams as for 64, and Python runs one thread at a time. The more streams the
        last batch had, the longer the rest, up to eight times the last step. A single client does not wait.
        """
        if self._last_size > _FEW and not self._stop.is_set() and len(self.queue) < self.limits.batch:
            time.sleep(min(self._last_step * min(8.0, self._last_size / 8), _LONGEST_REST))

    def _without_disk(self, jobs: list[Job]) -> list[Job]:
        """Those of these jobs that change nothing; the others are refused while nothing can be kept."""
        asks = lambda job: job.kind == "push" and job.values is None and not job.start and not job.end
        refused = [job for job in jobs if not (job.kind in ("whole", "read") or asks(job))]
        for job in refused:
            job.error = _unkept(self.store.error)
        self.deliver(refused)
        if len(refused) == len(jobs):
            time.sleep(_WAIT)  # a disk that is full stays so for a while
        return [job for job in jobs if job.error is None]

    def _step(self, jobs: list[Job]) -> None:
        """One batch: of one model, and of each stream one job. What has to survive is delivered from the disk."""
        served, began = self.models[jobs[0].model], time.perf_counter()
        waits = self.metrics.queue_wait.labels(served.name)
        for job in jobs:
            waits.observe(began - job.arrived)
        try:
            (_predict_whole if served.streams is None else self._advance)(served, jobs)
        except Exception:  # a bug of ours, which must not take the other batches with it
            log.exception("A batch failed.")
            self._changes = []
            for job in jobs:
                job.error = job.error or RequestError(500, "Something went wrong that should not have.")
        self._last_size, self._last_step = len(jobs), time.perf_counter() - began
        self.metrics.batch_size.labels(served.name).observe(self._last_size)
        self.metrics.step_time.labels(served.name).observe(self._last_step)
        if not self._changes or not self.store.durable:
            self._submit()
            self.deliver(jobs)
            return

        def then(error: Exception | None) -> None:
            if error is not None:
                for job in jobs:
                    job.error = _unkept(error)
            self.deliver(jobs)

        self._submit(then)

    def _submit(self, then: Callable[[Exception | None], None] = lambda error: None) -> None:
        changes, self._changes = self._changes, []
        if changes:
            self.store.submit(changes, then)

    # A batch of a model that takes streams. Everything is tried first, and only what has come to a good end is kept.

    def _advance(self, served: ServedModel, jobs: list[Job]) -> None:
        try:
            self._bring_back(served, jobs)
            ready = [job for job in jobs if job.error is None and self._prepared(served, job)]
            self._push(served, [job for job in ready if job.values is not None])
            self._predict(served, [job for job in ready if job.predict and job.error is None])
        except Exception:
            for job in jobs:
                served.streams.undo(job.key)
            raise
        else:
            self._keep(served, [job for job in ready if job.error is None])
        finally:
            self._begun.clear()
            for job in jobs:
                if job.key != job.stream and job.key in served.streams:
                    served.streams.discard(job.key)

    def _bring_back(self, served: ServedModel, jobs: list[Job]) -> None:
        """Streams that rest in the store and are asked for: from their last states, and the pushes since."""
        resting = {
            job.stream: job
            for job in jobs
            if job.stream in served.known and job.stream not in served.live
            if job.kind in ("push", "read") and not job.start
        }
        if not resting:
            return
        behind: dict[str, list] = {}
        for name, kept in self.store.read(served.name, resting).items():
            try:
                if isinstance(kept, Damaged):
                    raise kept
                served.open(name, None if kept.state is None else msgspec.json.decode(kept.state))
                served.live[name] = Live(kept.id, kept.seq, 0, time.monotonic())
                behind[name] = list(kept.pushes)
            except (RequestError, Damaged) as error:
                resting[name].error = _unreadable(name, error)
        while some := {name: pushes.pop(0) for name, pushes in behind.items() if pushes}:
            for name, error in served.streams.push(some).items():  # it was accepted before
                resting[name].error = _unreadable(name, error)
                served.streams.discard(name)
                del served.live[name], behind[name]
        for name in behind:
            served.live[name].points = served.streams.points(name)
        self.metrics.restored.labels(served.name).inc(len(behind))

    def _prepared(self, served: ServedModel, job: Job) -> bool:
        """Whether the job can go on. A stream that it begins is begun aside."""
        job.key = name = job.stream
        there = name in served.known
        if answer := None if there or job.start else _answered(served, job):
            job.points, job.prediction = answer.points, answer.prediction
            return False
        try:
            if job.kind in ("whole", "write") or job.start or (job.create and not there):
                if job.kind == "push" and job.values is None:
                    raise wrong(f"Got no points for the start of the stream {name!r}; expected at least one.")
                if job.kind != "whole":
                    self._check_room(served, name, job.owner)
                job.key = f"\0{name}"
                served.open(job.key, job.state, job.static)
                job.points = served.streams.points(job.key)
                if job.kind == "write" and not job.points:
                    raise wrong("Got a state without a point; expected one of a stream that has begun.")
            elif not there:
                absent = f"There is no stream {name!r} of the model {served.name!r}."
                if job.kind != "push":
                    raise RequestError(404, absent)
                hint = "Send `sequence_start`, or `start` by WebSocket, with its first points."
                raise wrong(f"{absent} {hint}")
            elif job.static is not None and job.at != 0:  # an `at` of 0 may be the beginning, sent again
                raise wrong(
                    f"Got `static` for the stream {name!r}, which has begun; expected it with its first points."
                )
            elif job.kind != "drop":
                live = served.live[name]
                live.used, job.points = time.monotonic(), live.points
                served.live.move_to_end(name)
                if job.kind == "read":
                    job.state = served.streams.state(name)
            _align(job)
        except RequestError as error:
            job.error = error
        return job.error is None

    def _check_room(self, served: ServedModel, name: str, owner: str) -> None:
        """Refuse a stream that would be one too many. Those that this batch begins count, too."""
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

    def _push(self, served: ServedModel, jobs: list[Job]) -> None:
        errors = served.streams.push({job.key: (job.values, job.times) for job in jobs}) if jobs else {}
        for job in jobs:
            if job.key in errors:
                job.error = wrong(errors[job.key])
            else:
                job.points += _count(job)

    def _predict(self, served: ServedModel, jobs: list[Job]) -> None:
        predictions = served.predictions({job.key: job.ahead for job in jobs}) if jobs else {}
        for job in jobs:
            answer = predictions[job.key]
            if isinstance(answer, RequestError):
                job.error = RequestError(answer.status, answer.message.replace(repr(job.key), repr(job.stream)))
                served.streams.undo(job.key)
            else:
                job.prediction = answer
                self._explain(served, job, answer)

    def _explain(self, served: ServedModel, job: Job, answer: Prediction) -> None:
        if job.explain:
            try:
                answer.explanation = served.explanation(job.key)
            except RequestError as error:
                job.error = error
                served.streams.undo(job.key)

    def _keep(self, served: ServedModel, jobs: list[Job]) -> None:
        """What has happened, and what the store has to know of it: a batch of pushes is one row of its log."""
        logged: dict[tuple[str, str], Logged] = {}
        for job in jobs:
            if job.kind == "drop":
                self._drop(served, job.stream)
            elif job.end:
                self._end(served, job)
            elif job.kind != "whole":
                if job.key != job.stream:
                    self._begin(served, job)
                if job.values is not None:
                    live = served.live[job.stream]
                    live.seq, live.points = live.seq + 1, job.points
                    if job.key != job.stream and served.static is not None:
                        self._write(served, job.stream)  # the log holds points alone
                    else:
                        logged[served.name, job.stream] = Logged(live.id, live.seq, job.values, job.times)
        self.metrics.points.labels(served.name).inc(sum(map(_count, jobs)))
        if not (logged and self.store.durable):
            return
        self._changes.append((sql.LOG, (self._unwritten.pushed(logged), *packed(list(logged.values())))))
        for model, name in self._unwritten.due():  # so that the log stays short
            self._write(self.models[model], name)
        if self._unwritten.passed > self._trimmed:
            self._trimmed = self._unwritten.passed
            self._changes.append((sql.TRIM_LOG, (self._trimmed,)))

    # Which streams there are, in memory and in the store.

    def _begin(self, served: ServedModel, job: Job) -> None:
        """The stream that a job has begun aside is now the one of its name."""
        name, number = job.stream, next(self._numbers)
        self._drop(served, name)
        served.streams.rename(job.key, name)
        served.live[name] = Live(number, 0, job.points, time.monotonic())
        served.known[name] = (number, job.owner)
        self._owned[job.owner] += 1
        self._forget_answer(served, name)
        self._changes.append((sql.OPEN, (number, served.name, name, job.owner)))
        if job.state is not None:
            self._write(served, name)

    def _end(self, served: ServedModel, job: Job) -> None:
        """End a stream, and remember the answer: if it is lost, the client asks again."""
        self._drop(served, job.stream)
        self._forget_answer(served, job.stream)
        answer = served.ended[job.stream] = LastAnswer(job.points, job.prediction)
        self._changes.append((sql.ENDED, (served.name, job.stream, msgspec.json.encode(answer))))
        if len(served.ended) > _ENDED:
            self._forget_answer(served, next(iter(served.ended)))

    def _forget_answer(self, served: ServedModel, name: str) -> None:
        if served.ended.pop(name, None) is not None:
            self._changes.append((sql.FORGET, (served.name, name)))

    def _drop(self, served: ServedModel, name: str) -> None:
        """There is no such stream any more."""
        if name not in served.known:
            return
        number, owner = served.known.pop(name)
        self._owned[owner] -= 1
        if self._owned[owner] <= 0:
            del self._owned[owner]
        if served.live.pop(name, None) is not None:
            served.streams.discard(name)
        self._unwritten.written((served.name, name))
        self._changes += [(sql.DROP, (number,)), (sql.DROP_POINTS, (number,))]

    def _write(self, served: ServedModel, name: str) -> None:
        """The state as it is now, instead of the pushes that led to it."""
        live, state = served.live[name], msgspec.json.encode(served.streams.state(name))
        self._unwritten.written((served.name, name))
        self._changes += [(sql.STATE, (live.id, live.seq, state)), (sql.TRIM, (live.id, live.seq))]

    def _evict(self, served: ServedModel, name: str) -> None:
        """Keep a stream in the store instead of in memory."""
        self._write(served, name)
        served.streams.discard(name)
        del served.live[name]

    def _let_rest(self) -> None:
        """Evict streams that have not been used for long, and those that there is no room for; a batch at most."""
        oldest = time.monotonic() - self.limits.idle
        for served in self.models.values():
            for name, live in itertools.islice(list(served.live.items()), self.limits.batch):
                reason = "idle" if live.used < oldest else "room" if len(served.live) > self.limits.live else None
                if reason is None:
                    break
                self._evict(served, name)
                self.metrics.evicted.labels(served.name, reason).inc()
        self._submit()

    def _read_streams(self) -> None:
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

    def _recover(self) -> bool:
        """Go back to what was acknowledged, after an error of the store; whether the store works again."""
        log.error("The store failed: %s. Streams go on from what was acknowledged.", self.store.error)
        for served in self.models.values():
            for name in served.live:
                served.streams.discard(name)
            served.live.clear()
        if mended := self.store.mend():
            self._unwritten, self._trimmed = Unwritten(), 0
        self._read_streams()
        return mended


def _predict_whole(served: ServedModel, jobs: list[Job]) -> None:
    """Predict for whole series, of a model that takes no streams."""
    for job in jobs:
        if job.kind != "whole" or job.values is None:
            job.error = wrong(f"The model {served.name!r} takes no streams: {served.whole_only}")
            continue
        if job.explain:
            job.error = wrong(f"Got `explain` for the model {served.name!r}, which takes no streams; expected none.")
            continue
        try:
            job.prediction, job.points = served.whole(job.values, job.times, job.static), len(job.values)
        except (ValueError, TypeError, ArithmeticError) as error:
            job.error = wrong(str(error))


def _answered(served: ServedModel, job: Job) -> LastAnswer | None:
    """The answer that was given to the same `end` before, if it is sent again."""
    answer = served.ended.get(job.stream) if job.end and job.kind == "push" else None
    if answer is None or (job.at is None and job.values is not None):
        return None
    return answer if job.at is None or job.at + _count(job) == answer.points else None


def _align(job: Job) -> None:
    """Pass over points that are there already; refuse those that would leave a gap."""
    if job.at is None or job.values is None:
        return
    if job.at > job.points:
        got = f"Got points of the stream {job.stream!r} from number {job.at} on, and {job.points} are there"
        raise RequestError(409, f"{got}; expected number {job.points} next, because none may be missing.")
    past = job.points - job.at
    job.times = None if job.times is None else job.times[past:]
    job.values = job.values[past:] if past < len(job.values) else None


def _count(job: Job) -> int:
    return 0 if job.values is None else len(job.values)


def _unkept(error: Exception | None) -> RequestError:
    return RequestError(503, f"It could not be kept ({error}); send it again later.", retry_after=5)


def _unreadable(name: str, error: Exception) -> RequestError:
    log.error("The stream %r cannot be brought back: %s", name, error)
    return RequestError(
        409,
        f"The stream {name!r} was kept, and cannot be brought back: {error}. Begin it anew with its first points, or "
        "DELETE it.",
    )
