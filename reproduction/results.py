"""Results: one JSON line per run in `results/DATASET.jsonl`, and their means and deviations over seeds.

What identifies a run stands in a line under `cell`: the experiment's `key`, a cell of the paper's tables.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from .experiment import Experiment
from .published import Published, published

Line = dict[str, Any]
FOLDER = Path("results")
# What ends a run that is finished.
FINISHED = ("epochs", "patience")


def read_results(folder: Path = FOLDER) -> list[Line]:
    """All lines of a folder; where a run has several lines with the same settings, the last."""
    lines: dict[str, Line] = {}
    for file in sorted(folder.glob("*.jsonl")):
        for number, text in enumerate(file.read_text("utf-8").splitlines(), 1):
            if not text.strip():
                continue
            try:
                line = json.loads(text)
                identity = json.dumps([line["cell"], line["settings"]], sort_keys=True)
            except (ValueError, KeyError, TypeError) as error:
                raise ValueError(
                    f"{file}, line {number}: got {text[:60]!r} ({error}); expected a JSON object with `cell` and "
                    "`settings`, as `python -m reproduction run` writes it. Take the line out."
                ) from None
            lines.pop(identity, None)
            lines[identity] = line
    return list(lines.values())


def find(lines: Iterable[Line], experiment: Experiment, settings: dict[str, Any]) -> Line | None:
    """The line of this experiment with exactly these settings: another setting is another run."""
    same = [line for line in lines if line["cell"] == experiment.key and line["settings"] == settings]
    return same[-1] if same else None


def is_finished(line: Line) -> bool:
    return line["stopped"] in FINISHED


def append(line: Line, folder: Path = FOLDER) -> Path:
    """Add a line; written at once, so that two runs at the same time do not mix theirs."""
    file = folder / f"{line['cell']['dataset']}.jsonl"
    file.parent.mkdir(parents=True, exist_ok=True)
    with open(file, "a") as stream:
        stream.write(json.dumps(line) + "\n")
    return file


@dataclass(frozen=True)
class Summary:
    """All seeds of one experiment with the same settings. Accuracies are in %, as in the paper."""

    experiment: Experiment
    settings: dict[str, Any]
    seeds: tuple[int, ...]
    values: tuple[float, ...]
    """One per finished seed; under `paper` as the paper's code reports it."""
    unfinished: tuple[str, ...]
    """Why the other seeds are not finished."""
    published: Published | None
    minutes: float | None
    log_signature_share: float | None
    memory: float | None
    seconds_to_published: float | None
    floors: dict[str, float]
    epochs: float | None = None
    absolute_error: float | None = None
    """The mean absolute error of a regression, and below it each floor's."""
    absolute_floors: dict[str, float] = field(default_factory=dict)

    @property
    def mean(self) -> float | None:
        return float(np.mean(self.values)) if self.values else None

    @property
    def deviation(self) -> float | None:
        """The sample's, divided by the number of seeds less one."""
        return float(np.std(self.values, ddof=1)) if len(self.values) > 1 else None


def summaries(lines: Iterable[Line]) -> list[Summary]:
    """One per experiment without its seed, and settings: a quick try does not mix with a whole run."""
    groups: dict[str, dict[int, Line]] = defaultdict(dict)
    for line in lines:
        but_seed = {name: value for name, value in line["cell"].items() if name != "seed"}
        identity = json.dumps([but_seed, line["settings"]], sort_keys=True)
        groups[identity][line["cell"]["seed"]] = line
    found = [_summary(list(seeds.values())) for seeds in groups.values()]
    names = ("dataset", "split", "protocol", "model", "depth", "step")
    return sorted(found, key=lambda s: (*(getattr(s.experiment, n) for n in names), s.settings.get("epochs", 0)))


def value_of(line: Line) -> float:
    """The number that a table shows for a run."""
    test = line["test"]
    if "accuracy" in test:
        return 100 * test["accuracy"]
    return test.get("mean_over_batches", test["rmse"])


def grid_of(found: Sequence[Summary]) -> tuple[list[int], list[int], np.ndarray]:
    """Depths, steps and means of neural RDEs, NaN where there is none; the neural CDE is depth 1.

    Where an experiment was run with several settings, the one with the most epochs counts: `summaries` has it last.
    """
    kept = [
        summary
        for summary in found
        if summary.experiment.model in ("nrde", "ncde") and summary.experiment.sizes is None
    ]
    depths = sorted({summary.experiment.depth for summary in kept})
    steps = sorted({summary.experiment.step for summary in kept})
    means = np.full((len(depths), len(steps)), np.nan)
    for summary in kept:
        if summary.mean is not None:
            means[depths.index(summary.experiment.depth), steps.index(summary.experiment.step)] = summary.mean
    return depths, steps, means


def _summary(lines: list[Line]) -> Summary:
    lines = sorted(lines, key=lambda line: line["cell"]["seed"])
    experiment, done = Experiment(**lines[0]["cell"]), [line for line in lines if is_finished(line)]
    mean = lambda values: float(np.mean(values)) if len(values) else None
    reached = [line["seconds_to_published"] for line in done if line.get("seconds_to_published") is not None]
    memory = [line["memory_mb"] for line in done if line.get("memory_mb") is not None]
    shares = [line["log_signature_seconds"] / max(60 * line["minutes"], 1e-9) for line in done]
    # Only floors that all lines have: older lines lack the newer floors.
    names = [name for name in done[0]["floors"] if all(name in line["floors"] for line in done)] if done else []
    floor = lambda line, name: line["floors"][name]["accuracy" if accuracy else "rmse"]
    accuracy = bool(done) and "accuracy" in done[0]["test"]
    return Summary(
        experiment=experiment,
        settings=lines[0]["settings"],
        seeds=tuple(line["cell"]["seed"] for line in lines),
        values=tuple(value_of(line) for line in done),
        unfinished=tuple(line["stopped"] for line in lines if not is_finished(line)),
        # The published values are of a random split: beside other splits they would not be comparable.
        published=_published(experiment) if experiment.split == "paper" else None,
        minutes=mean([line["minutes"] for line in done]),
        log_signature_share=mean(shares),
        memory=mean(memory),
        # A mean over the seeds that got there would flatter: all of them, or none.
        seconds_to_published=mean(reached) if done and len(reached) == len(done) else None,
        floors={
            name: (100 if accuracy else 1) * float(np.mean([floor(line, name) for line in done])) for name in names
        },
        epochs=mean([line["epochs"] for line in done if "epochs" in line]),
        absolute_error=mean([line["test"]["mae"] for line in done if "mae" in line["test"]]),
        absolute_floors={
            name: float(np.mean([line["floors"][name]["mae"] for line in done])) for name in names if not accuracy
        },
    )


def _published(experiment: Experiment) -> Published | None:
    return published(experiment.dataset, experiment.model, experiment.depth, experiment.step)
