"""The driver of a sweep: gives tasks out, writes each result down once, gives lost tasks out again."""

import json
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from .._write import private_folder, writing
from .page import as_page
from .pool import Ended, Pool
from .results import Results
from .search import Search
from .summary import short
from .task import Task

# The page is written so often at most, in seconds: a browser reads it every few.
_PAGE_EVERY = 3.0


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
        self._tasks = {task.key: task for task in tasks}
        self._searches = {search.name: search for search in searches}

    @property
    def runs(self) -> Path:
        """The folder of the tasks' folders."""
        return self.folder / "runs"

    @property
    def results(self) -> Path:
        """The file of results."""
        return self.folder / "results.jsonl"

    @property
    def _trials(self) -> Path:
        return self.folder / "trials.jsonl"

    def remember(self) -> None:
        """Write down which tasks and searches are the sweep's now, so that its folder alone tells."""
        private_folder(self.folder)
        total = len(self._tasks) + sum(search.trials for search in self._searches.values())
        plan = {"name": self.name, "total": total, "keys": list(self._tasks), "searches": list(self._searches)}
        with writing(self.folder / "plan.json", "w") as file:
            json.dump(plan, file)

    @staticmethod
    def lines_of(folder: Path) -> list[dict[str, Any]]:
        """The results in a folder that are the sweep's still: its file may have changed since they came."""
        plan, lines = folder / "plan.json", Results.read(folder / "results.jsonl")
        return _current(lines, json.loads(plan.read_text())) if plan.exists() else lines

    def run(self, pool: Pool, tell: Callable[[Progress], None] = lambda progress: None) -> Progress:
        """Run what has no result yet. An interrupt stops it; a second start goes on.

        Args:
            pool: where tasks run: `RayPool` or `InProcess`.
            tell: called after every change, for a line of progress.
        """
        self.remember()
        with Results(self.results) as results, Results(self._trials) as trials:
            begun = _Begun(self, results, trials, tell)
            try:
                begun.go(pool)
            except (KeyboardInterrupt, SystemExit):  # Ray makes an exit of SIGTERM
                for ended in pool.interrupt():
                    begun.take(ended)
                raise
            finally:
                begun.progress.running.clear()
                begun.write_page(ended=True)
        return begun.progress

    def finished(self) -> bool:
        """Whether there is nothing left to run."""
        known = {line["key"] for line in Results.read(self.results)}
        asked = [line for line in Results.read(self._trials) if line["search"] in self._searches]
        wanted = sum(search.trials for search in self._searches.values())
        return (
            all(key in known for key in self._tasks)
            and len(asked) >= wanted
            and all(line["task"] in known for line in asked)
        )


class _Begun:
    """A sweep while it runs."""

    def __init__(self, sweep: Sweep, results: Results, trials: Results, tell: Callable[[Progress], None]):
        self.sweep, self.results, self._tell = sweep, results, tell
        self._waiting = deque(task for task in sweep._tasks.values() if task.key not in results)
        self._attempts: Counter[str] = Counter()
        self._same: dict[str, list[Task]] = {}
        self._written = 0.0
        for search in sweep._searches.values():
            search.restore(trials, results)
        left = len(self._waiting) + sum(search.left for search in sweep._searches.values())
        total = len(sweep._tasks) + sum(search.trials for search in sweep._searches.values())
        self.progress = Progress(total, known=total - left)

    def go(self, pool: Pool) -> None:
        self._changed()
        while True:
            while len(self.progress.running) < pool.slots() and (task := self._next()) is not None:
                self.progress.running[task.key] = task, {}
                self._attempts[task.key] += 1
                pool.submit(task)
                self._changed()
            if not self.progress.running:
                return
            for ended in pool.wait(0.5, self.hear):
                self.take(ended)
            self._changed()

    def _next(self) -> Task | None:
        if self._waiting:
            return self._waiting.popleft()
        for search in self.sweep._searches.values():
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

    def hear(self, key: str, record: dict[str, Any]) -> bool:
        """An epoch of a task; True if it is to be given up."""
        if key not in self.progress.running:
            return False
        task, _ = self.progress.running[key]
        self.progress.running[key] = task, record
        search = None if task.search is None else self.sweep._searches.get(task.search[0])
        return search is not None and task.search is not None and search.hear(task.search[1], record)

    def take(self, ended: Ended) -> None:
        """Write a result down, or give a lost task out again."""
        task, status, found, attempts = ended.task, ended.status, ended.found, self._attempts[ended.task.key]
        if status == "lost":
            self.progress.lost += 1
            self.progress.last = f"{_title(task)}: {found.get('error', 'its worker died')}"
            if attempts <= self.sweep.retries:
                del self.progress.running[task.key]
                self._waiting.appendleft(task)
                return
            status, found = "failed", {"error": f"Its worker died {attempts} times. The last time: {found['error']}"}
        line = {
            "key": task.key,
            "point": task.point,
            "status": status,
            **found,
            "attempts": attempts,
            "ended": datetime.now(UTC).isoformat(timespec="seconds"),
        }
        if task.search is not None:
            line["search"] = list(task.search)
        if self.results.append(line):
            setattr(self.progress, status, getattr(self.progress, status) + 1)
        self.progress.last = f"{_title(task)}: {_outcome(line)}"
        self._finish(task, line)
        for other in self._same.pop(task.key, []):
            self._finish(other, line)
            self.progress.known += 1
        self.progress.running.pop(task.key, None)

    def _finish(self, task: Task, line: dict[str, Any]) -> None:
        if task.search is not None and task.search[0] in self.sweep._searches:
            self.sweep._searches[task.search[0]].finish(task.search[1], line)

    def _changed(self) -> None:
        self._tell(self.progress)
        self.write_page()

    def write_page(self, *, ended: bool = False) -> None:
        """Not at every change: a page of thousands of runs takes a while."""
        if not ended and time.monotonic() - self._written < _PAGE_EVERY:
            return
        self._written, state = time.monotonic(), self.progress
        running = [
            {"point": task.point, "epoch": record.get("epoch"), "loss": record.get("monitored")}
            for task, record in state.running.values()
        ]
        plan = {"keys": list(self.sweep._tasks), "searches": list(self.sweep._searches)}
        lines = _current(list(self.results), plan)
        with writing(self.sweep.folder / "page.html", "w") as file:
            file.write(as_page(lines, name=self.sweep.name, total=state.total, running=running))


def _current(lines: list[dict[str, Any]], plan: dict[str, Any]) -> list[dict[str, Any]]:
    keys, searches = set(plan["keys"]), set(plan["searches"])
    return [line for line in lines if line["key"] in keys or (line.get("search") or [None])[0] in searches]


def _title(task: Task) -> str:
    return ", ".join(
        short(value) if name in ("data", "model") else f"{name.split('.')[-1]} {short(value)}"
        for name, value in task.point.items()
    )


def _outcome(line: dict[str, Any]) -> str:
    if line["status"] == "done" and line.get("value") is not None:
        return f"{line.get('metric')} {line['value']:.4g} in {line.get('seconds', 0):.1f} s"
    return line["status"] + (f": {line['error']}" if "error" in line else "")
