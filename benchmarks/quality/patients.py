"""`python -m benchmarks patients`: heart and breathing rates of patients never seen, by one call of an estimator.

Ten splits by patient, the same as those of `reproduction/`. The settings are those that were chosen there on validation
patients; nothing is chosen here. Every split is a line of `results/patients/lines.jsonl`; one that has its line is not
run again. A split takes some minutes on one core.
"""

import argparse
import json
import os
import platform
import sys
import time
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

import neuralrde as nrde
from neuralrde.datasets import Dataset, by_group, load
from neuralrde.training import AdamW, Histogram, TimeStretch
from neuralrde.transforms import ScaleEach, TimeChannel
from reproduction.floors import errors, floors

from ..timing import table

RESULTS = Path("results/patients/lines.jsonl")
TARGETS = ("BIDMC32HR", "BIDMC32RR")
SPLITS = 10


def regressor(target: str, *, seed: int, **others: Any) -> nrde.NeuralRDERegressor:
    """The estimator of the documentation's page on heart rates."""
    stretch = TimeStretch(0.6, 1.6, rate=True, speeds=(0.8, 0.9, 1.0, 1.1, 1.25))
    return nrde.NeuralRDERegressor(
        model="oscillator-rde",
        transform=nrde.Compose(ScaleEach(), TimeChannel()),
        windows=32 if target == "BIDMC32HR" else 64,  # breaths are slower
        # Some breathing rates are near zero, where ratios mean nothing.
        loss=Histogram(ratios=True) if target == "BIDMC32HR" else "huber",
        # The decay over the whole training, which is 0.05 per step as Optax counts it.
        optimizer=AdamW(weight_decay=0.08),
        augmentation=stretch,
        epochs=12,
        batch_size=64,
        patience=None,
        random_state=seed,
        **others,
    )


def measured(data: Dataset, seed: int) -> dict[str, Any]:
    """The line of one split: errors for the test patients, and what is reached without learning."""
    split = by_group(data, seed=seed)
    target, patients = np.asarray(data.target, np.float64).ravel(), np.asarray(data.groups)
    known = np.concatenate([split.train, split.validation])
    begin = time.monotonic()
    model = regressor(data.name, seed=seed).fit(data.series[known], target[known], groups=patients[known])
    fitted = time.monotonic()
    predicted = model.predict(data.series[split.test])
    done = time.monotonic()
    off, own = predicted - target[split.test], patients[split.test]
    return {
        "data": data.name,
        "seed": seed,
        "test": errors(predicted, target[split.test]),
        "patients": {str(one): round(float(np.sqrt(np.mean(off[own == one] ** 2))), 3) for one in np.unique(own)},
        "floors": floors(data, split, "group"),
        "best_epoch": model.best_epoch_,
        "series": {"fit": len(known), "test": len(split.test)},
        "seconds": {"fit": round(fitted - begin, 1), "predict": round(done - fitted, 1)},
        "versions": versions(),
    }


def versions() -> dict[str, str]:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    libraries = {library: metadata.version(library) for library in ("jax", "jaxlib", "equinox", "optax", "numpy")}
    return {"neuralrde": nrde.__version__, "python": platform.python_version(), **libraries, "cores": str(cores)}


def lines(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text("utf-8").splitlines()] if file.exists() else []


def summary(found: list[dict[str, Any]]) -> str:
    """Errors of every split, and their means, as a table.

    >>> line = {"data": "BIDMC32HR", "seed": 0, "test": {"rmse": 2.0, "mae": 1.0}}
    >>> print(summary([line | {"floors": {"training mean": {"rmse": 9.0}}}]))
    | target    | split     | RMSE | absolute | training mean |
    | --------- | --------- | ---- | -------- | ------------- |
    | BIDMC32HR | 0         | 2.00 | 1.00     | 9.00          |
    | BIDMC32HR | mean of 1 | 2.00 | 1.00     | 9.00          |
    """
    names, rows = list(dict.fromkeys(name for line in found for name in line["floors"])), []
    for data in dict.fromkeys(line["data"] for line in found):
        own = sorted((line for line in found if line["data"] == data), key=lambda line: line["seed"])
        floors_of = lambda line: [line["floors"].get(name, {}).get("rmse", np.nan) for name in names]
        numbers = np.array([[line["test"]["rmse"], line["test"]["mae"], *floors_of(line)] for line in own])
        rows += [[data, str(line["seed"]), *map(_shown, row)] for line, row in zip(own, numbers, strict=True)]
        rows.append([data, f"mean of {len(own)}", *map(_shown, numbers.mean(axis=0))])
    return table(["target", "split", "RMSE", "absolute", *names], rows)


def _shown(number: float) -> str:
    return "" if np.isnan(number) else f"{number:.2f}"


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks patients", description=__doc__)
    parser.add_argument("--data", choices=TARGETS, action="append", help="only this target; repeatable")
    parser.add_argument("--splits", type=int, default=SPLITS, help="so many of the ten")
    parser.add_argument("--results", type=Path, default=RESULTS, help="the file of lines")
    options = parser.parse_args([] if arguments is None else arguments)
    for name in options.data or TARGETS:
        done = {(line["data"], line["seed"]) for line in lines(options.results)}
        wanted = [seed for seed in range(options.splits) if (name, seed) not in done]
        if not wanted:
            continue
        data = load(name)
        for seed in wanted:
            line = measured(data, seed)
            options.results.parent.mkdir(parents=True, exist_ok=True)
            with options.results.open("a") as file:
                file.write(json.dumps(line) + "\n")
            print(f"{name}, split {seed}: {line['test']['rmse']:.2f}", file=sys.stderr, flush=True)
    print(summary(lines(options.results)))
