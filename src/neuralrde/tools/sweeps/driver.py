"""The driver of a sweep: gives tasks out, writes each result down once, gives lost tasks out again.

Tasks are those of a grid, or of a search by Optuna, which decides what to try next.
"""

import json
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ..._write import private_folder, writing
from .page import as_page
from .pool import InProcess, RayPool, TaskResult
from .results import Line, Results, Task, short

# The page is written at most this often, in seconds: a browser reads it every few.
_PAGE_EVERY = 3.0
SAMPLERS = ("tpe", "random")


class Search:
    """A number of trials over ranges of settings; the lowest objective is the best.

    Every trial is kept in a file as soon as it is asked for, so that a second start goes on where the first ended.
    With several trials at a time, what is tried next depends on what has ended by then: two searches may differ.

    Args:
        name: of the search, for its lines in the file.
        ranges: what to choose for each setting: a list of values, or `{"low": ..., "high": ...}` with `log = true` or a
            `step`. Two whole numbers are a range of whole numbers.
        trials: their number.
        make: makes the task for a choice and a trial's number.
        sampler: "tpe" learns from earlier trials, "random" does not.
        seed: of the sampler.
    """

    def __init__(
        self,
        name: str,
        ranges: Mapping[str, Any],
        *,
        trials: int,
        make: Callable[[dict[str, Any], int], Task],
        sampler: str = "tpe",
        seed: int = 0,
    ):
        try:
            import optuna
        except ImportError:
            raise ImportError(
                "Got a search, and no Optuna to search with. Write `pip install 'neuralrde[sweep]'`, or a [grid] "
                "instead of the [search]."
            ) from None
        if sampler not in SAMPLERS:
            raise ValueError(f"Got the sampler {sampler!r}; expected one of {', '.join(SAMPLERS)}.")
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self.name, self.trials = name, trials
        self._optuna, self._make, self._sampler, self._seed = optuna, make, sampler, seed
        self._distributions = {name: _distribution(optuna, name, value) for name, value in ranges.items()}
        self._study = optuna.create_study(direction="minimize")
        self._again: list[tuple[int, dict[str, Any]]] = []
        self._live: dict[int, Any] = {}
        self._asked = 0
        self._records: Results | None = None

    def restore(self, records: Results, results: Results) -> None:
        """Go on from what is in the files: trials with a result are known, the others are run first."""
        self._records = records
        for line in [line for line in records if line["search"] == self.name]:
            self._asked += 1
            if (found := results.get(line["task"])) is None:
                self._again.append((line["number"], line["params"]))
            else:
                made = {"params": line["params"], "distributions": self._distributions}
                self._study.add_trial(self._optuna.trial.create_trial(**made, **self._outcome(found)))
        # With the seed alone, the first draws of this start would be those of the last one.
        seed, kinds = self._seed + self._asked, self._optuna.samplers
        # Trials that have not ended count as bad, so that no two at a time are alike.
        tpe = self._sampler == "tpe"
        self._study.sampler = kinds.TPESampler(seed=seed, constant_liar=True) if tpe else kinds.RandomSampler(seed)

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
        line = {"search": self.name, "number": number, "params": dict(trial.params), "task": task.key}
        assert self._records is not None
        self._records.append({"key": f"{self.name}/{number}", **line})
        return task

    def finish(self, task: Task, line: Line) -> None:
        """The end of a trial, with its line of results."""
        assert task.search is not None
        outcome = self._outcome(line)
        self._study.tell(self._live.pop(task.search[1]), outcome.get("value"), state=outcome["state"])

    def _outcome(self, line: Line) -> dict[str, Any]:
        states, value = self._optuna.trial.TrialState, line.get("objective")
        if line.get("status") != "done" or value is None:
            return {"state": states.FAIL}
        return {"state": states.COMPLETE, "value": float(value)}


def _distribution(optuna: Any, name: str, value: Any) -> Any:
    kinds = optuna.distributions
    if isinstance(value, list) and value:
        return kinds.CategoricalDistribution(value)
    if not isinstance(value, dict) or not {"low", "high"} <= set(value) <= {"low", "high", "log", "step"}:
        raise ValueError(
            f"Got {value!r} as the range of {name}; expected a list of values, or a lowest and a highest one. "
            f'Write for example "{name}" = {{low = 1e-4, high = 1e-2, log = true}}.'
        )
    low, high, log, step = value["low"], value["high"], bool(value.get("log")), value.get("step")
    try:
        if type(low) is type(high) is int:
            return kinds.IntDistribution(low, high, log=log, step=step or 1)
        return kinds.FloatDistribution(float(low), float(high), log=log, step=step)
    except (ValueError, TypeError) as error:
        raise ValueError(f"Got {value!r} as the range of {name}: {error}") from None


@dataclass
class Progress:
    """How far a sweep is. `running` has the tasks that run, by key."""

    total: int
    known: int
    done: int = 0
    failed: int = 0
    lost: int = 0
    running: dict[str, Task] = field(default_factory=dict)
    last: str = ""

    @property
    def finished(self) -> int:
        """Tasks with a result, from this start or an earlier one."""
        return self.known + self.done + self.failed


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
            waiting = deque(task for task in self.tasks.values() if task.key not in results)
            for search in self.searches.values():
                search.restore(trials, results)
            left = len(waiting) + sum(search.left for search in self.searches.values())
            progress = Progress(self.total, known=self.total - left)
            attempts: Counter[str] = Counter()
            page_written = 0.0

            def next_task() -> Task | None:
                if waiting:
                    return waiting.popleft()
                for search in self.searches.values():
                    while (task := search.next()) is not None:
                        line = results.get(task.key)
                        if line is None and task.key not in progress.running:
                            return task
                        search.finish(task, line or {})  # another trial has chosen alike
                        progress.known += 1
                return None

            def take(result: TaskResult) -> None:
                """Write a result down, or give a lost task out again."""
                task, status, values = result.task, result.status, result.values
                del progress.running[task.key]
                if status == "lost":
                    progress.lost += 1
                    if attempts[task.key] <= self.retries:
                        progress.last = f"{_title(task)}: {values['error']}"
                        waiting.appendleft(task)
                        return
                    why = f"Its worker died {attempts[task.key]} times. The last time: {values['error']}"
                    status, values = "failed", {"error": why}
                line = {"key": task.key, "point": task.point, "status": status, **values}
                line |= {"attempts": attempts[task.key], "ended": datetime.now(UTC).isoformat(timespec="seconds")}
                if task.search is not None:
                    line["search"] = list(task.search)
                    self.searches[task.search[0]].finish(task, line)
                results.append(line)
                progress.done += status == "done"
                progress.failed += status == "failed"
                outcome = f"failed: {line['error']}" if status == "failed" else "done"
                if line.get("value") is not None:
                    outcome = f"{line.get('metric')} {line['value']:.4g} in {line.get('seconds', 0):.1f} s"
                progress.last = f"{_title(task)}: {outcome}"

            def write_page() -> None:
                running = [task.point for task in progress.running.values()]
                lines = _current(list(results), self._plan())
                with writing(self.folder / "page.html", "w") as file:
                    file.write(as_page(lines, name=self.name, total=self.total, running=running))

            try:
                while True:
                    while len(progress.running) < pool.slots() and (task := next_task()) is not None:
                        progress.running[task.key] = task
                        attempts[task.key] += 1
                        pool.submit(task)
                    on_progress(progress)
                    if time.monotonic() - page_written >= _PAGE_EVERY:  # that of thousands of runs takes a while
                        write_page()
                        page_written = time.monotonic()
                    if not progress.running:
                        return progress
                    for result in pool.wait(0.5):
                        take(result)
                        on_progress(progress)
            except (KeyboardInterrupt, SystemExit):  # Ray makes an exit of SIGTERM
                for result in pool.interrupt():
                    take(result)
                raise
            finally:
                progress.running.clear()
                write_page()


def _title(task: Task) -> str:
    return ", ".join(
        short(value) if name in ("data", "model") else f"{name.split('.')[-1]} {short(value)}"
        for name, value in task.point.items()
    )


def _current(lines: list[Line], plan: Mapping[str, Any]) -> list[Line]:
    keys, searches = set(plan["keys"]), set(plan["searches"])
    return [line for line in lines if line["key"] in keys or (line.get("search") or [None])[0] in searches]
