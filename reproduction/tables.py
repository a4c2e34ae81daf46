"""From lines of results to what tables and pictures show: means and deviations over seeds."""

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .cells import Cell
from .published import Published, published
from .results import Line, is_finished


@dataclass(frozen=True)
class Summary:
    """All seeds of one cell with the same settings. Accuracies are in %, as the paper has them."""

    cell: Cell
    settings: dict[str, Any]
    seeds: tuple[int, ...]
    values: tuple[float, ...]
    """One for each finished seed; under `paper` as the paper's code reports it."""
    partial: tuple[str, ...]
    """Of the seeds that are not finished, why not."""
    published: Published | None
    minutes: float | None
    log_signature_share: float | None
    memory: float | None
    seconds_to_published: float | None
    floors: dict[str, float]
    epochs: float | None = None
    absolute: float | None = None
    """The mean absolute error, of a regression; and each floor's."""
    absolute_floors: dict[str, float] = field(default_factory=dict)

    @property
    def mean(self) -> float | None:
        return float(np.mean(self.values)) if self.values else None

    @property
    def deviation(self) -> float | None:
        """Of a sample: divided by one less than the number of seeds."""
        return float(np.std(self.values, ddof=1)) if len(self.values) > 1 else None


def summaries(lines: Iterable[Line]) -> list[Summary]:
    """One for each cell without its seed, and its settings: a quick try does not mix with a whole run."""
    groups: dict[str, dict[int, Line]] = defaultdict(dict)
    for line in lines:
        cell = {name: value for name, value in line["cell"].items() if name != "seed"}
        identity = json.dumps([cell, line["settings"]], sort_keys=True)
        groups[identity][line["cell"]["seed"]] = line
    found = [_summary(list(seeds.values())) for seeds in groups.values()]
    order = lambda s: (
        *(s.cell.dataset, s.cell.split, s.cell.protocol, s.cell.model, s.cell.depth, s.cell.step),
        s.settings.get("epochs", 0),
    )
    return sorted(found, key=order)


def value_of(line: Line) -> float:
    """The number that a table shows for a run."""
    test = line["test"]
    if "accuracy" in test:
        return 100 * test["accuracy"]
    return test.get("mean_over_batches", test["rmse"])


def grid_of(found: Sequence[Summary]) -> tuple[list[int], list[int], np.ndarray]:
    """Depths, steps and means of neural RDEs, NaN where there is none; the neural CDE is depth 1.

    Of a cell with several settings the one with the most epochs, which `summaries` has last.
    """
    kept = [summary for summary in found if summary.cell.model in ("nrde", "ncde") and summary.cell.sizes is None]
    depths = sorted({summary.cell.depth for summary in kept})
    steps = sorted({summary.cell.step for summary in kept})
    means = np.full((len(depths), len(steps)), np.nan)
    for summary in kept:
        if summary.mean is not None:
            means[depths.index(summary.cell.depth), steps.index(summary.cell.step)] = summary.mean
    return depths, steps, means


def _summary(lines: list[Line]) -> Summary:
    lines = sorted(lines, key=lambda line: line["cell"]["seed"])
    cell, done = Cell(**lines[0]["cell"]), [line for line in lines if is_finished(line)]
    mean = lambda values: float(np.mean(values)) if len(values) else None
    reached = [line["seconds_to_published"] for line in done if line.get("seconds_to_published") is not None]
    memory = [line["memory_mb"] for line in done if line.get("memory_mb") is not None]
    shares = [line["log_signature_seconds"] / max(60 * line["minutes"], 1e-9) for line in done]
    # Floors that all have: lines are kept when a new floor is thought of.
    names = [name for name in done[0]["floors"] if all(name in line["floors"] for line in done)] if done else []
    floor = lambda line, name: line["floors"][name]["accuracy" if accuracy else "rmse"]
    accuracy = bool(done) and "accuracy" in done[0]["test"]
    return Summary(
        cell=cell,
        settings=lines[0]["settings"],
        seeds=tuple(line["cell"]["seed"] for line in lines),
        values=tuple(value_of(line) for line in done),
        partial=tuple(line["stopped"] for line in lines if not is_finished(line)),
        # The published values are of a random split; beside other splits they would compare what is not comparable.
        published=published(cell.dataset, cell.model, cell.depth, cell.step) if cell.split == "paper" else None,
        minutes=mean([line["minutes"] for line in done]),
        log_signature_share=mean(shares),
        memory=mean(memory),
        # A mean over the seeds that got there would flatter: all or none.
        seconds_to_published=mean(reached) if done and len(reached) == len(done) else None,
        floors={
            name: (100 if accuracy else 1) * float(np.mean([floor(line, name) for line in done])) for name in names
        },
        epochs=mean([line["epochs"] for line in done if "epochs" in line]),
        absolute=mean([line["test"]["mae"] for line in done if "mae" in line["test"]]),
        absolute_floors={
            name: float(np.mean([line["floors"][name]["mae"] for line in done])) for name in names if not accuracy
        },
    )
