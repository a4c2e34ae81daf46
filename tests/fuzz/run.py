"""Workers are fed, watched and replaced; outcomes are counted, and inputs that failed are kept."""

import json
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .targets import chosen, models_in_place, targets
from .worker import choose

ENDS = ("accepted", "refused", "unnamed", "raw", "wrong", "memory", "hang", "crash")
FAILURES = ENDS[3:]
# By the clock, for an input that waits instead of computing: the worker's own limit is of processor time.
LONGEST_WAIT = 300
ROOT = Path(__file__).parents[2]
WORKER = [sys.executable, "-m", "tests.fuzz.worker"]


@dataclass
class Results:
    counts: dict[str, Counter] = field(default_factory=dict)
    failures: list[dict] = field(default_factory=list)

    def add(self, record: dict) -> None:
        self.counts.setdefault(record["target"], Counter())[record["outcome"]] += 1
        if record["outcome"] in FAILURES:
            self.failures.append(record)

    @property
    def inputs(self) -> int:
        return sum(sum(count.values()) for count in self.counts.values())

    def table(self) -> str:
        rows = [("target", "inputs", *ENDS)]
        total: Counter = Counter()
        for name, count in sorted(self.counts.items()):
            rows.append((name, str(sum(count.values())), *(str(count[end]) for end in ENDS)))
            total += count
        rows.append(("all", str(sum(total.values())), *(str(total[end]) for end in ENDS)))
        widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
        lines = ["  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]
        return "\n".join([*lines, f"{len(self.failures)} failures"])

    def list_of_failures(self) -> str:
        return "\n".join(f"{count:6}  {kind}  (--only {record['number']})" for kind, count, record in self.kinds())

    def kinds(self) -> list[tuple[str, int, dict]]:
        """Failures that end alike, at the same place: how many, and the first of each."""
        alike: dict[str, list[dict]] = {}
        for record in self.failures:
            lines = [line.strip() for line in record["why"].strip().splitlines() if line.strip()]
            places = [line for line in lines if line.startswith("File ")]
            last = lines[-1].partition(":")[0] if lines else ""
            alike.setdefault(
                f"{record['target']}: {record['outcome']} {last} {places[-1] if places else ''}", []
            ).append(record)
        return sorted(((kind, len(found), found[0]) for kind, found in alike.items()), key=lambda kind: -kind[1])


def fuzz(
    inputs: int,
    seed: int,
    *,
    workers: int = 1,
    only: Sequence[str] = (),
    seconds: float | None = None,
    out: Path | None = None,
) -> Results:
    """Run inputs 0, 1, 2, ... and count how they end.

    Args:
        inputs: how many.
        seed: of all of them.
        workers: processes.
        only: names of targets; all by default.
        seconds: after which no more are begun.
        out: a folder, for the first input of each kind of failure.
    """
    names = list(only) or list(targets())
    results, numbers, lock = Results(), iter(range(inputs)), threading.Lock()
    end = None if seconds is None else time.monotonic() + seconds
    broken: list[Exception] = []

    def next_number() -> int | None:
        with lock:
            return None if end is not None and time.monotonic() > end else next(numbers, None)

    def serve() -> None:
        try:
            while (number := next_number()) is not None:
                _serve_one(seed, names, number, next_number, results, lock)
        except Exception as error:
            broken.append(error)

    with models_in_place(names):
        threads = [threading.Thread(target=serve) for _ in range(workers)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if out is not None:
            _keep(results, seed, names, out)
    if broken:
        raise broken[0]
    return results


def _serve_one(seed, names, number, next_number, results: Results, lock) -> None:
    """One worker's life: until inputs run out, or one ends it."""
    command = [*WORKER, str(seed), ",".join(names)]
    environment = os.environ | {"JAX_PLATFORMS": "cpu", "PYTHONPATH": os.pathsep.join(map(os.path.abspath, sys.path))}
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "cwd": ROOT}
    with (
        tempfile.TemporaryFile("w+") as errors,
        subprocess.Popen(command, **pipes, stderr=errors, env=environment) as worker,
    ):
        lines: queue.Queue = queue.Queue()

        def listen() -> None:
            for line in worker.stdout:
                lines.put(line)
            lines.put("")

        threading.Thread(target=listen, daemon=True).start()

        def told() -> dict | None:
            """What the worker says next; None if it has ended, as one that says nothing any more is made to."""
            try:
                line = lines.get(timeout=LONGEST_WAIT)
            except queue.Empty:
                worker.send_signal(signal.SIGPROF)
                line = ""
            return json.loads(line) if line else None

        def last_words() -> str:
            errors.seek(0)
            return errors.read()[-4000:]

        def expected() -> dict:
            """What the worker says outside of inputs, where only the fuzzer itself can be wrong."""
            if (record := told()) is None:
                worker.kill()
                raise RuntimeError(f"A worker ended outside of an input:\n{last_words()}")
            return record

        expected()
        while number is not None:
            worker.stdin.write(f"{number}\n")
            worker.stdin.flush()
            begun, record = expected(), told()
            if record is None:
                code = worker.wait()
                end = "hang" if code == -signal.SIGPROF else "crash"
                why = f"exit code {code}\n{last_words()}"
                record = {"number": number, "target": begun["target"], "outcome": end, "why": why}
                with lock:
                    results.add(record)
                return
            with lock:
                results.add(record)
            number = next_number()
        worker.stdin.close()


def _keep(results: Results, seed: int, names: list[str], out: Path) -> None:
    """Write the first input of each kind of failure, with its traceback."""
    for _, _, record in results.kinds():
        name, given = choose(seed, record["number"], chosen(names))
        place = out / f"{name}-{record['number']}"
        given.write(place)
        about = {"seed": seed, **record, "options": given.options}
        (place / "about.json").write_text(json.dumps(about, indent=2, default=str))
