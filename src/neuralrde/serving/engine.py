"""The one thread that owns JAX: it takes batches of jobs, advances their streams, and has them kept."""

import gc
import logging
import threading
import time
from collections.abc import Callable

from .directory import StreamDirectory
from .errors import Refused
from .hosted import Hosted
from .jobs import Job, JobQueue
from .journal import Logged
from .limits import Limits
from .metrics import Metrics
from .store import Change, Store

log = logging.getLogger("neuralrde.serving")
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
        models: dict[str, Hosted],
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
            for hosted in self.models.values():
                hosted.warm_up(self.limits.batch)
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
        for hosted in self.models.values():
            if changes := self._directory.evict_idle(hosted):
                self.store.submit(changes, lambda error: None)

    def _step(self, jobs: list[Job]) -> None:
        """One batch: of one model, and of each stream one job."""
        hosted, began = self.models[jobs[0].model], time.perf_counter()
        waits = self.metrics.queue_wait.labels(hosted.name)
        for job in jobs:
            waits.observe(began - job.arrived)
        changes: list[Change] = []
        try:
            if hosted.streams is None:
                _predict_whole(hosted, jobs)
            else:
                self._advance(hosted, jobs, changes)
        except Exception:  # a bug of ours, which must not take the other batches with it
            log.exception("A batch failed.")
            for job in jobs:
                job.refuse(job.outcome.error or Refused(500, "Something went wrong that should not have."))
        self._last_size, self._last_step = len(jobs), time.perf_counter() - began
        self.metrics.batch_size.labels(hosted.name).observe(self._last_size)
        self.metrics.step_time.labels(hosted.name).observe(self._last_step)
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

    def _advance(self, hosted: Hosted, jobs: list[Job], changes: list[Change]) -> None:
        """Try everything first. Only what has come to a good end is kept."""
        try:
            self._bring_back(hosted, jobs)
            ready = [job for job in jobs if job.outcome.error is None and self._prepared(hosted, job)]
            self._push(hosted, [job for job in ready if job.values is not None])
            self._predict(hosted, [job for job in ready if job.predict and job.outcome.error is None])
        except Exception:
            for job in jobs:
                hosted.streams.undo(job.key)
            raise
        else:
            changes += self._kept(hosted, [job for job in ready if job.outcome.error is None])
        finally:
            self._directory.settle()
            for job in jobs:
                if job.fresh and job.key in hosted.streams:
                    hosted.streams.discard(job.key)

    def _bring_back(self, hosted: Hosted, jobs: list[Job]) -> None:
        """Streams that rest in the store and are asked for."""
        resting = {
            job.stream: job
            for job in jobs
            if job.stream in hosted.known and job.stream not in hosted.live and job.kind in ("push", "read")
        }
        resting = {name: job for name, job in resting.items() if not job.start}
        if resting:
            for name, error in self._directory.bring_back(hosted, resting).items():
                resting[name].refuse(error)

    def _prepared(self, hosted: Hosted, job: Job) -> bool:
        """Whether the job can go on. A stream that it begins is begun aside."""
        job.key = name = job.stream
        there = name in hosted.known
        if answer := None if there or job.start else _answered(hosted, job):
            job.outcome.points, job.outcome.prediction = answer["points"], answer["prediction"]
            return False
        try:
            if job.kind in ("whole", "write") or job.start or (job.create and not there):
                if job.kind == "push" and job.values is None:
                    raise Refused(400, f"Got no points for the start of the stream {name!r}; expected at least one.")
                if job.kind != "whole":
                    self._directory.check_room(hosted, name, job.owner)
                job.key = f"\0{name}"
                hosted.open(job.key, job.state)
                job.outcome.points = hosted.points(job.key)
                if job.kind == "write" and not job.outcome.points:
                    raise Refused(400, "Got a state without a point; expected one of a stream that has begun.")
            elif not there:
                raise _absent(hosted, job)
            elif job.kind != "drop":
                live = hosted.live[name]
                live.used, job.outcome.points = time.monotonic(), live.points
                hosted.live.move_to_end(name)
                if job.kind == "read":
                    job.outcome.state = hosted.streams.state(name)
            _align(job, job.outcome.points)
        except Refused as error:
            job.refuse(error)
        return job.outcome.error is None

    def _push(self, hosted: Hosted, jobs: list[Job]) -> None:
        if not jobs:
            return
        errors = hosted.streams.push({job.key: (job.values, job.times) for job in jobs})
        for job in jobs:
            assert job.values is not None
            if job.key in errors:
                job.refuse(Refused(400, str(errors[job.key])))
            else:
                job.outcome.points += len(job.values)

    def _predict(self, hosted: Hosted, jobs: list[Job]) -> None:
        predictions = hosted.predictions(job.key for job in jobs)
        for job in jobs:
            found = predictions[job.key]
            if isinstance(found, Refused):
                job.refuse(Refused(found.status, found.message.replace(repr(job.key), repr(job.stream))))
                hosted.streams.undo(job.key)
            else:
                job.outcome.prediction = found

    def _kept(self, hosted: Hosted, jobs: list[Job]) -> list[Change]:
        """What has happened, and what the store has to know of it."""
        changes: list[Change] = []
        logged: dict[str, Logged] = {}
        for job in jobs:
            if job.kind == "drop":
                changes += self._directory.drop(hosted, job.stream)
            elif job.end:
                changes += self._directory.end(hosted, job)
            elif job.kind != "whole":
                if job.fresh:
                    changes += self._directory.begin(hosted, job)
                if job.values is not None:
                    live = hosted.live[job.stream]
                    live.seq, live.points = live.seq + 1, job.outcome.points
                    logged[job.stream] = Logged(live.id, live.seq, job.values, job.times)
        self.metrics.points.labels(hosted.name).inc(sum(len(job.values) for job in jobs if job.values is not None))
        if logged and self.store.durable:
            changes += self._directory.logged(hosted, logged)
        return changes


def _answered(hosted: Hosted, job: Job) -> dict | None:
    """The answer that was given to the same `end` before, if it is sent again."""
    answer = hosted.ended.get(job.stream) if job.end and job.kind == "push" else None
    if answer is None or (job.at is None and job.values is not None):
        return None
    count = 0 if job.values is None else len(job.values)
    return answer if job.at is None or job.at + count == answer["points"] else None


def _predict_whole(hosted: Hosted, jobs: list[Job]) -> None:
    """Of a model that takes no streams."""
    for job in jobs:
        if job.kind != "whole" or job.values is None:
            job.refuse(Refused(400, f"The model {hosted.name!r} takes no streams: {hosted.whole_only}"))
            continue
        try:
            job.outcome.prediction = hosted.whole(job.values, job.times)
            job.outcome.points = len(job.values)
        except (ValueError, TypeError, ArithmeticError) as error:
            job.refuse(Refused(400, str(error)))


def _only_asks(job: Job) -> bool:
    return job.kind == "push" and job.values is None and not job.start and not job.end


def _unkept(error: Exception | None) -> Refused:
    return Refused(503, f"It could not be kept ({error}); send it again later.", retry_after=5)


def _absent(hosted: Hosted, job: Job) -> Refused:
    absent = f"There is no stream {job.stream!r} of the model {hosted.name!r}."
    if job.kind != "push":
        return Refused(404, absent)
    return Refused(400, f"{absent} Send `sequence_start`, or `start` by WebSocket, with its first points.")


def _align(job: Job, points: int) -> None:
    """Pass over what is there already; refuse what would leave a gap."""
    if job.at is None or job.values is None:
        return
    if job.at > points:
        got = f"Got points of the stream {job.stream!r} from number {job.at} on, and {points} are there"
        raise Refused(409, f"{got}; expected number {points} next, because none may be missing.")
    past = points - job.at
    job.times = None if job.times is None else job.times[past:]
    job.values = job.values[past:] if past < len(job.values) else None
