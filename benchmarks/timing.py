"""Time several ways to do the same work fairly: in turn, in one process, the best of several rounds each."""

import time
from collections.abc import Callable


def race(runners: dict[str, Callable[[], object]], *, seconds: float = 1.0, most: int = 15) -> dict[str, float]:
    """Seconds for each runner. They take turns, so that a busy moment of the machine hits all of them alike."""
    best = {}
    for name, run in runners.items():  # the first call compiles, allocates, fills caches
        run()
        best[name] = float("inf")
    start, rounds = time.perf_counter(), 0
    while rounds < 2 or (time.perf_counter() - start < seconds * len(runners) and rounds < most):
        for name, run in runners.items():
            begin = time.perf_counter()
            run()
            best[name] = min(best[name], time.perf_counter() - begin)
        rounds += 1
    return best


def milliseconds(seconds: float | None) -> str:
    if seconds is None:
        return "-"
    value = seconds * 1e3
    return f"{value:.1f}" if value < 100 else f"{value:.0f}"


def table(header: list[str], rows: list[list[str]]) -> str:
    """A Markdown table that also reads well in a terminal."""
    widths = [max(len(row[i]) for row in [header, *rows]) for i in range(len(header))]
    lines = [header, ["-" * width for width in widths], *rows]
    return "\n".join(
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) + " |" for line in lines
    )
