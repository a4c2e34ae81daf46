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
_LONGEST_REST = 0.06  # seconds


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
                if self.store.error is not None and not self._directory.forget():
                    for job in jobs:
                        job.refuse(_unkept(self.store.error))
                    self.deliver(jobs)
                    time.sleep(_WAIT)  # a disk that is full stays so for a while
                    continue
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
            job.taken = began
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
        whole = [job for job in jobs if job.kind == "whole"]
        for job in whole:
            hosted.open(job.stream)
        try:
            self._bring_back(hosted, jobs)
            ready = [job for job in jobs if job.outcome.error is None and self._prepared(hosted, job, changes)]
            self._push(hosted, [job for job in ready if job.values is not None], changes)
            asked = [job for job in ready if job.predict and job.outcome.error is None and job.outcome.points]
            predictions = hosted.predictions(job.stream for job in asked)
        finally:
            for job in whole:
                hosted.streams.discard(job.stream)
        for job in asked:
            found = predictions[job.stream]
            if isinstance(found, Refused):
                job.refuse(found)
            else:
                job.outcome.prediction = found
        for job in ready:
            if job.kind == "drop" or (job.end and job.outcome.error is None):
                changes += self._directory.drop(hosted, job.stream)

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

    def _prepared(self, hosted: Hosted, job: Job, changes: list[Change]) -> bool:
        """Whether the job can go on; opens its stream if it has to."""
        if job.kind == "whole":
            return True
        name, there = job.stream, job.stream in hosted.known
        try:
            if job.kind == "write":
                hosted.check_state(job.state)
            elif not there and not job.create and not job.start:
                raise _absent(hosted, job)
            if there and (job.start or job.kind == "write"):
                changes += self._directory.drop(hosted, name)
                there = False
            if not there:
                changes += self._directory.open(hosted, name, job.owner, job.state)
        except Refused as error:
            job.refuse(error)
            return False
        if job.kind == "drop":
            return True
        live = hosted.live[name]
        live.used = time.monotonic()
        hosted.live.move_to_end(name)
        job.outcome.points = live.points
        if job.kind == "read":
            job.outcome.state = hosted.streams.state(name)
        return _aligned(job, live.points)

    def _push(self, hosted: Hosted, jobs: list[Job], changes: list[Change]) -> None:
        if not jobs:
            return
        errors = hosted.streams.push({job.stream: (job.values, job.times) for job in jobs})
        logged: dict[str, Logged] = {}
        lost, points = [], 0
        for job in jobs:
            assert job.values is not None
            error, live = errors.get(job.stream), hosted.live.get(job.stream)
            if error is not None:
                job.refuse(Refused(400, str(error)))
                if live is not None and not live.points:  # its first push: there is no such stream
                    lost += self._directory.drop(hosted, job.stream)
                continue
            points += len(job.values)
            if live is None:  # a whole series
                job.outcome.points = len(job.values)
                continue
            live.seq += 1
            live.points += len(job.values)
            job.outcome.points = live.points
            if self.store.durable:
                logged[job.stream] = Logged(live.id, live.seq, job.values, job.times)
        self.metrics.points.labels(hosted.name).inc(points)
        changes += lost
        if logged:
            changes += self._directory.logged(hosted, logged)


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


def _unkept(error: Exception) -> Refused:
    return Refused(503, f"It could not be kept ({error}); send it again later.", retry_after=5)


def _absent(hosted: Hosted, job: Job) -> Refused:
    absent = f"There is no stream {job.stream!r} of the model {hosted.name!r}."
    if job.kind != "push":
        return Refused(404, absent)
    return Refused(400, f"{absent} Send `sequence_start`, or `start` by WebSocket, with its first points.")


def _aligned(job: Job, points: int) -> bool:
    """Pass over what is there already; refuse what would leave a gap."""
    if job.at is None or job.values is None:
        return True
    if job.at > points:
        got = f"Got points from number {job.at} on, and {points} are there"
        job.refuse(Refused(409, f"{got}; expected number {points} next, because none may be missing."))
        return False
    past = points - job.at
    job.times = None if job.times is None else job.times[past:]
    job.values = job.values[past:] if past < len(job.values) else None
    return True
