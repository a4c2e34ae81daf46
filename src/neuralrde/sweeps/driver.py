"""The driver of a sweep: gives tasks out, writes each result down once, gives lost tasks out again.

Tasks are those of a grid, or of a search by Optuna, which decides what to try next and which runs to give up.
"""

import json
import math
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from .._write import private_folder, writing
from .page import as_page
from .pool import InProcess, RayPool, TaskResult
from .results import Line, Results, Task, short

# The page is written at most this often, in seconds: a browser reads it every few.
_PAGE_EVERY = 3.0
PRUNERS = ("median", "asha", "hyperband", "none")
SAMPLERS = ("tpe", "random")
_RANGE = ("low", "high", "log", "step")


class Search:
    """A number of trials over ranges of settings; the lowest objective is the best.

    Every trial is kept in a file as soon as it is asked for, so that a second start goes on where the first ended:
    Optuna gets trials with a result as they were, and those without one are run. With several trials at a time, what is
    tried next depends on what has ended by then, so that two searches of one seed may differ.

    Args:
        name: of the search, for its lines in the file.
        ranges: what to choose for each setting: a list of values, or `{"low": ..., "high": ...}` with `log = true` or a
            `step`. Two whole numbers are a range of whole numbers.
        trials: their number.
        make: makes the task for a choice and a trial's number.
        pruner: "median" gives up runs that are worse than the median of earlier ones at the same epoch, "asha" runs
            that are not among the best third at epochs 1, 3, 9, ..., "hyperband" several of those; "none" none.
        sampler: "tpe" learns from earlier trials, "random" does not.
        warmup: epochs that the median leaves to every run.
        seed: of the sampler.
    """

    def __init__(
        self,
        name: str,
        ranges: Mapping[str, Any],
        *,
        trials: int,
        make: Callable[[dict[str, Any], int], Task],
        pruner: str = "median",
        sampler: str = "tpe",
        warmup: int = 5,
        seed: int = 0,
    ):
        self._optuna = _import_optuna()
        self.name, self.trials = name, trials
        self._make, self._warmup, self._seed, self._sampler_name = make, warmup, seed, sampler
        self._distributions = {name: self._distribution(name, value) for name, value in ranges.items()}
        # With a name, Hyperband gives a trial the same bracket whenever it is restored.
        self._study = self._optuna.create_study(
            study_name=name, direction="minimize", sampler=self._sampler(sampler, seed), pruner=self._pruner(pruner)
        )
        self._again: list[tuple[int, dict[str, Any]]] = []
        self._live: dict[int, Any] = {}
        self._asked = 0
        self._records: Results | None = None

    def restore(self, records: Results, results: Results) -> None:
        """Go on from what is in the files: trials with a result are known, the others are run first."""
        self._records = records
        for line in records:
            if line["search"] != self.name:
                continue
            self._asked += 1
            params, found = line["params"], results.get(line["task"])
            if found is None:
                self._again.append((line["number"], params))
            else:
                self._study.add_trial(self._frozen(params, found))
        # Else the first draws of this start would be those of the last one.
        self._study.sampler = self._sampler(self._sampler_name, self._seed + self._asked)

    @property
    def left(self) -> int:
        """Trials that are still to be begun."""
        return len(self._again) + max(0, self.trials - self._asked)

    def next(self) -> Task | None:
        """The task of the next trial; None if all have been begun."""
        if self._again:
            number, params = self._again.pop(0)
            self._study.enqueue_trial(params)
            self._live[number] = self._study.ask(self._distributions)
            return self._make(params, number)
        if self._asked >= self.trials:
            return None
        number, self._asked = self._asked, self._asked + 1
        trial = self._live[number] = self._study.ask(self._distributions)
        task = self._make(dict(trial.params), number)
        if self._records is not None:
            line = {"search": self.name, "number": number, "params": dict(trial.params), "task": task.key}
            self._records.append({"key": f"{self.name}/{number}", **line})
        return task

    def on_epoch(self, number: int, record: Mapping[str, Any]) -> bool:
        """An epoch of a trial; True if the pruner gives the trial up."""
        trial, value = self._live.get(number), record.get("monitored")
        if trial is None or value is None or not math.isfinite(value):
            return False
        trial.report(float(value), int(record["epoch"]))
        return bool(trial.should_prune())

    def finish(self, number: int, line: Mapping[str, Any]) -> None:
        """The end of a trial, with its line of results."""
        if (trial := self._live.pop(number, None)) is not None:
            value, state = self._outcome(line)
            self._study.tell(trial, value, state=state)

    def _outcome(self, line: Mapping[str, Any]) -> tuple[float | None, Any]:
        """The objective and Optuna's state of a trial."""
        states, status, value = self._optuna.trial.TrialState, line.get("status"), line.get("objective")
        if status == "done" and value is not None:
            return float(value), states.COMPLETE
        return None, states.PRUNED if status == "pruned" else states.FAIL

    def _frozen(self, params: dict[str, Any], line: Mapping[str, Any]) -> Any:
        """A trial as it was, with all that pruners and samplers learn from."""
        curve = {epoch: float(value) for epoch, value in enumerate(line.get("curve") or [], 1) if value is not None}
        value, state = self._outcome(line)
        return self._optuna.trial.create_trial(
            params=params,
            distributions=self._distributions,
            intermediate_values=curve,
            value=value,
            state=state,
        )

    def _distribution(self, name: str, value: Any) -> Any:
        kinds = self._optuna.distributions
        if isinstance(value, list) and value:
            return kinds.CategoricalDistribution(value)
        if not isinstance(value, dict) or not {"low", "high"} <= set(value) <= set(_RANGE):
            raise ValueError(
                f"Got {value!r} as the range of {name}; expected a list of values, or a lowest and a highest one. "
                f'Write for example "{name}" = {{low = 1e-4, high = 1e-2, log = true}}.'
            )
        low, high, log, step = value["low"], value["high"], value.get("log"), value.get("step")
        whole = all(isinstance(end, int) and not isinstance(end, bool) for end in (low, high))
        try:
            if whole:
                return kinds.IntDistribution(low, high, log=bool(log), step=step or 1)
            return kinds.FloatDistribution(float(low), float(high), log=bool(log), step=step)
        except (ValueError, TypeError) as error:
            raise ValueError(f"Got {value!r} as the range of {name}: {error}") from None

    def _sampler(self, name: str, seed: int) -> Any:
        _check(name, SAMPLERS, "sampler")
        kinds = self._optuna.samplers
        if name == "random":
            return kinds.RandomSampler(seed=seed)
        # Several trials run at a time: those that have not ended count as bad, so that they are not tried twice.
        return kinds.TPESampler(seed=seed, constant_liar=True)

    def _pruner(self, name: str) -> Any:
        _check(name, PRUNERS, "pruner")
        kinds = self._optuna.pruners
        if name == "median":
            return kinds.MedianPruner(n_startup_trials=4, n_warmup_steps=self._warmup)
        if name == "asha":
            return kinds.SuccessiveHalvingPruner(min_resource=1, reduction_factor=3)
        return kinds.HyperbandPruner(reduction_factor=3) if name == "hyperband" else kinds.NopPruner()


@dataclass
class Progress:
    """How far a sweep is. `running` has the last epoch's record of each task, by key."""

    total: int
    known: int
    done: int = 0
    failed: int = 0
    pruned: int = 0
    lost: int = 0
    running: dict[str, tuple[Task, dict[str, Any]]] = field(default_factory=dict)
    last: str = ""

    @property
    def finished(self) -> int:
        """Tasks with a result, from this start or an earlier one."""
        return self.known + self.done + self.failed + self.pruned


class Sweep:
    """All tasks of a sweep, and the folder of its results.

    `results.jsonl` has a line per finished task, `page.html` shows them, `plan.json` says which tasks are the sweep's,
    `trials.jsonl` is the memory of searches, and `runs/` holds the tasks' folders.

    Args:
        folder: of the sweep.
        tasks: of a grid. Tasks of the same key are run once.
        searches: which ask for tasks of their own.
        retries: how often a task is given out again after its worker or node died.
        name: for the page's title.
    """

    def __init__(
        self,
        folder: Path,
        tasks: Sequence[Task],
        searches: Sequence[Search] = (),
        *,
        retries: int = 5,
        name: str = "sweep",
    ):
        self.folder, self.retries, self.name = folder, retries, name
        self.tasks = {task.key: task for task in tasks}
        self.searches = {search.name: search for search in searches}
        self.total = len(self.tasks) + sum(search.trials for search in searches)
        # The folder of the tasks' folders, the file of results, and that of searches.
        self.runs, self.results, self._trials = (folder / name for name in ("runs", "results.jsonl", "trials.jsonl"))

    def remember(self) -> None:
        """Write down which tasks and searches are the sweep's now, so that its folder alone tells."""
        private_folder(self.folder)
        with writing(self.folder / "plan.json", "w") as file:
            json.dump({"name": self.name, "total": self.total, **self._plan()}, file)

    def _plan(self) -> dict[str, list[str]]:
        return {"keys": list(self.tasks), "searches": list(self.searches)}

    @staticmethod
    def lines_of(folder: Path) -> list[Line]:
        """The results in a folder that are the sweep's still: its file may have changed since they came."""
        plan, lines = folder / "plan.json", Results.read(folder / "results.jsonl")
        return _current(lines, json.loads(plan.read_text())) if plan.exists() else lines

    def finished(self) -> bool:
        """Whether there is nothing left to run."""
        known = {line["key"] for line in Results.read(self.results)}
        trials = [line for line in Results.read(self._trials) if line["search"] in self.searches]
        wanted = {*self.tasks, *(line["task"] for line in trials)}
        return wanted <= known and len(self.tasks) + len(trials) >= self.total

    def run(
        self, pool: InProcess | RayPool, on_progress: Callable[[Progress], None] = lambda progress: None
    ) -> Progress:
        """Run what has no result yet. An interrupt stops it; a second start goes on.

        Args:
            pool: where tasks run.
            on_progress: called after every change, for a line of progress.
        """
        self.remember()
        with Results(self.results) as results, Results(self._trials) as trials:
            running = _RunningSweep(self, results, trials, on_progress)
            try:
                running.run(pool)
            except (KeyboardInterrupt, SystemExit):  # Ray makes an exit of SIGTERM
                for result in pool.interrupt():
                    running.take(result)
                raise
            finally:
                running.progress.running.clear()
                running.write_page()
        return running.progress


class _RunningSweep:
    def __init__(self, sweep: Sweep, results: Results, trials: Results, on_progress: Callable[[Progress], None]):
        self.sweep, self.results, self._on_progress = sweep, results, on_progress
        self._waiting = deque(task for task in sweep.tasks.values() if task.key not in results)
        self._attempts: Counter[str] = Counter()
        self._same: dict[str, list[Task]] = {}
        self._page_written = 0.0
        for search in sweep.searches.values():
            search.restore(trials, results)
        left = len(self._waiting) + sum(search.left for search in sweep.searches.values())
        self.progress = Progress(sweep.total, known=sweep.total - left)

    def run(self, pool: InProcess | RayPool) -> None:
        self._changed()
        while True:
            while len(self.progress.running) < pool.slots() and (task := self._next()) is not None:
                self.progress.running[task.key] = task, {}
                self._attempts[task.key] += 1
                pool.submit(task)
                self._changed()
            if not self.progress.running:
                return
            for result in pool.wait(0.5, self.on_epoch):
                self.take(result)
            self._changed()

    def _next(self) -> Task | None:
        if self._waiting:
            return self._waiting.popleft()
        for search in self.sweep.searches.values():
            while (task := search.next()) is not None:
                # Trials that choose alike are one task.
                if (line := self.results.get(task.key)) is not None:
                    self._finish(task, line)
                    self.progress.known += 1
                elif task.key in self.progress.running:
                    self._same.setdefault(task.key, []).append(task)
                else:
                    return task
        return None

    def on_epoch(self, key: str, record: dict[str, Any]) -> bool:
        """Take note of a task's epoch; True if the task is to be given up."""
        if key not in self.progress.running:
            return False
        task, _ = self.progress.running[key]
        self.progress.running[key] = task, record
        return task.search is not None and self.sweep.searches[task.search[0]].on_epoch(task.search[1], record)

    def take(self, result: TaskResult) -> None:
        """Write a result down, or give a lost task out again."""
        task, status, values, attempts = result.task, result.status, result.values, self._attempts[result.task.key]
        title = ", ".join(
            short(value) if name in ("data", "model") else f"{name.split('.')[-1]} {short(value)}"
            for name, value in task.point.items()
        )
        if status == "lost":
            self.progress.lost += 1
            self.progress.last = f"{title}: {values['error']}"
            if attempts <= self.sweep.retries:
                del self.progress.running[task.key]
                self._waiting.appendleft(task)
                return
            status, values = "failed", {"error": f"Its worker died {attempts} times. The last time: {values['error']}"}
        ended = datetime.now(UTC).isoformat(timespec="seconds")
        line = {"key": task.key, "point": task.point, "status": status, **values, "attempts": attempts, "ended": ended}
        if task.search is not None:
            line["search"] = list(task.search)
        if self.results.append(line):
            setattr(self.progress, status, getattr(self.progress, status) + 1)
        if status == "done" and line.get("value") is not None:
            outcome = f"{line.get('metric')} {line['value']:.4g} in {line.get('seconds', 0):.1f} s"
        else:
            outcome = status + (f": {line['error']}" if "error" in line else "")
        self.progress.last = f"{title}: {outcome}"
        same = self._same.pop(task.key, [])
        for trial in (task, *same):
            self._finish(trial, line)
        self.progress.known += len(same)
        self.progress.running.pop(task.key, None)

    def _finish(self, task: Task, line: Line) -> None:
        if task.search is not None:
            self.sweep.searches[task.search[0]].finish(task.search[1], line)

    def _changed(self) -> None:
        self._on_progress(self.progress)
        if time.monotonic() - self._page_written >= _PAGE_EVERY:  # a page of thousands of runs takes a while
            self.write_page()

    def write_page(self) -> None:
        self._page_written = time.monotonic()
        running = [
            {"point": task.point, "epoch": record.get("epoch"), "loss": record.get("monitored")}
            for task, record in self.progress.running.values()
        ]
        lines = _current(list(self.results), self.sweep._plan())
        with writing(self.sweep.folder / "page.html", "w") as file:
            file.write(as_page(lines, name=self.sweep.name, total=self.progress.total, running=running))


def _current(lines: list[Line], plan: Mapping[str, Any]) -> list[Line]:
    keys, searches = set(plan["keys"]), set(plan["searches"])
    return [line for line in lines if line["key"] in keys or (line.get("search") or [None])[0] in searches]


def _check(name: str, known: tuple[str, ...], what: str) -> None:
    if name not in known:
        raise ValueError(f"Got the {what} {name!r}; expected one of {', '.join(known)}.")


def _import_optuna() -> Any:
    try:
        import optuna
    except ImportError:
        raise ImportError(
            "Got a search, and no Optuna to search with. Write `pip install 'neuralrde[sweep]'`, or a [grid] instead "
            "of the [search]."
        ) from None
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna
