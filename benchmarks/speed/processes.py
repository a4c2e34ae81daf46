"""Processes that hold a problem ready and are timed in turn, one at a time; and how much memory each took."""

import ctypes
import gc
import math
import multiprocessing
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

Run = Callable[[], Any]
ROUNDS = 2


def peak_memory(run: Run) -> tuple[Any, int]:
    """What it returns, and how many bytes the process grew by at the most while it ran (Linux)."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)  # free memory that is kept for later would hide what is taken now
    Path("/proc/self/clear_refs").write_text("5")  # forget the peak so far, which compilation may have set
    status = lambda name: int(Path("/proc/self/status").read_text("utf-8").split(name + ":")[1].split()[0]) * 1024
    before = status("VmRSS")
    result = run()
    return result, status("VmHWM") - before


def worker(connection: Any, prepare: Callable[[], Run]) -> None:
    run = prepare()
    connection.send(run())
    while connection.recv():
        begin = time.perf_counter()
        run()
        connection.send(time.perf_counter() - begin)
    # At the end: what is set up once (threads, workspaces, the allocator's pools) is not a training step's memory.
    # XLA's own account counts where it is larger: memory that the process already held does not show as growth.
    connection.send(max(peak_memory(run)[1], getattr(run, "temporary", 0)))


def race(ways: dict[str, Callable[[], Run]], rounds: int = ROUNDS, check: Callable = lambda results: None) -> dict:
    """For each way, the best seconds of several rounds and the peak of memory. A process each; one at a time works."""
    context = multiprocessing.get_context("spawn")
    pipes, processes, results, memory = {}, [], {}, {}
    for name, prepare in ways.items():
        pipes[name], theirs = context.Pipe()
        processes.append(context.Process(target=worker, args=(theirs, prepare), daemon=True))
        processes[-1].start()
        theirs.close()
        results[name] = pipes[name].recv()
    check(results)
    best = dict.fromkeys(ways, math.inf)
    for _ in range(rounds):
        for name, pipe in pipes.items():
            pipe.send(True)
            best[name] = min(best[name], pipe.recv())
    for (name, pipe), process in zip(pipes.items(), processes, strict=True):
        pipe.send(False)
        memory[name] = pipe.recv()
        process.join()
    return {name: (best[name], memory[name]) for name in ways}
