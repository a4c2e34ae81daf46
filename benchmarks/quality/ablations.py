"""`python -m benchmarks ablations`: what each choice behind the defaults is worth, by cross-validation.

Folds are of the training parts of the league's sets; test parts are never looked at. A variant differs from the
defaults in one choice; its folds and seeds are those of the defaults, so that differences are paired. Every (variant,
set) is a line of results/league/ablations.jsonl; what has a line is not run again.
"""

import argparse
import contextlib
import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any
from unittest.mock import patch

import numpy as np
from sklearn.model_selection import StratifiedKFold

from ..timing import table
from .league.data import FIRST_SETS, SETS, SPLITS, load_set
from .league.lines import ROOT, append_line, code_tag

RESULTS = ROOT / "results" / "league" / "ablations.jsonl"
FOLDS = 5
LEAST = 1e-12  # a probability that rounds to zero would make the mean infinite


@dataclass(frozen=True)
class Variant:
    """A choice that is made differently: other parameters of the estimator, or another constant of the library."""

    meaning: str
    options: dict[str, Any] = field(default_factory=dict)
    constants: dict[str, Any] = field(default_factory=dict)
    seeds: tuple[int, ...] = (0, 1)
    folds: int = FOLDS
    judged: int | None = None
    """How many of the folds are predicted; None predicts all."""
    estimator: str = "LogSignatureClassifier"

    @contextlib.contextmanager
    def constants_set(self) -> Iterator[None]:
        with contextlib.ExitStack() as stack:
            for name, value in self.constants.items():
                stack.enter_context(patch(f"neuralrde.{name}", value() if isinstance(value, Callable) else value))
            yield


def without_statistics() -> Any:
    from neuralrde.features import features

    plain = features.plain_statistics
    return lambda series: 0.0 * plain(series)


def squared_error() -> Any:
    from neuralrde.features import Ridge

    fit = Ridge.fit
    return staticmethod(lambda *given, loss=None, **options: fit(*given, **options))


FEATURES = "features.random_windows"
CLOSED = {
    "default": Variant("the defaults"),
    "windows-256": Variant("at most 256 windows per series and draw instead of 2,048", {"windows": 256}),
    "windows-1024": Variant("at most 1,024 windows", {"windows": 1024}),
    "draws-42": Variant("half of the draws", {"draws": 42}),
    "draws-168": Variant("twice the draws", {"draws": 168}),
    "draws-336": Variant("four times the draws", {"draws": 336}),
    "one-competition": Variant("one competition per draw instead of four", {"competitions": 1}),
    "one-map": Variant("one random map per draw instead of 24", {"maps": 1}),
    "one-threshold": Variant("one threshold per map instead of two", {"thresholds": 1}),
    "scaled-only": Variant("series scaled as a whole only: neither each by itself nor changes", constants={
        f"{FEATURES}._CYCLE": (0,)}),
    "whole-only": Variant("one scale: windows that span whole series", constants={f"{FEATURES}._WHOLE": 1}),
    "no-statistics": Variant("no plain statistics beside the shares", constants={
        "features.features.plain_statistics": without_statistics}),
    "squared-error": Variant("the penalty by the squared error instead of the log loss", constants={
        "features.ridge.Ridge.fit": squared_error}),
}  # fmt: skip
NEURAL = {
    name: Variant(meaning, options, seeds=(0,), folds=3, judged=1, estimator="NeuralRDEClassifier")
    for name, meaning, options in (
        ("neural", "the defaults", {}),
        ("neural-alone", "no closed form beside the ensemble", {"closed_form": False}),
        ("neural-one-member", "one member, a validation part and early stopping", {"members": 1}),
        ("neural-one-scale", "one scale instead of four", {"windows": "one-scale"}),
        ("neural-mean-readout", "the mean of the states as readout", {"model__readout": "mean"}),
    )
}
NEURAL["neural-even"] = replace(
    NEURAL["neural"],
    meaning="before series speak, closed form and ensemble count alike, instead of the closed form alone",
    constants={"estimators.trainer._BEFORE": (0.5, 0.5)},
)
VARIANTS = CLOSED | NEURAL


def main(arguments: Sequence[str] = ()) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks ablations", description=__doc__)
    several = {"metavar": "A,B,...", "type": lambda text: text.split(",")}
    parser.add_argument("--variants", **several, default=list(CLOSED), help=f"of {', '.join(VARIANTS)}")
    parser.add_argument("--sets", **several, default=list(FIRST_SETS))
    parser.add_argument("--table", action="store_true", help="run nothing, only print the table")
    options = parser.parse_args(list(arguments))
    for name in [] if options.table else options.variants:
        for one in options.sets:
            if (name, one) not in {(line["variant"], line["set"]) for line in read()}:
                line = {"variant": name, "set": one, **measured(VARIANTS[name], one), "code": code_tag()}
                append_line(line, RESULTS)
                print(f"{name}, {one}: {line['accuracy']:.1%}, log loss {line['log_loss']:.3f}", flush=True)
    print(ablations_table())


def read() -> list[dict[str, Any]]:
    return [json.loads(text) for text in RESULTS.read_text("utf-8").splitlines()] if RESULTS.exists() else []


def measured(variant: Variant, name: str) -> dict[str, Any]:
    """Accuracy and log loss over all folds of the training part, and seconds."""
    from neuralrde import Windows, estimators

    data = SPLITS["official"](load_set(name), 0)
    series, labels = data.series[data.train], data.labels[data.train]
    folds = min(variant.folds, int(np.unique(labels, return_counts=True)[1].min()))
    right, losses, begin = [], [], time.perf_counter()
    options = dict(variant.options)
    if options.get("windows") == "one-scale":
        options["windows"] = Windows(count=256, depth=2)
    verbose = {"verbose": False} if variant.estimator.startswith("Neural") else {}
    with variant.constants_set():
        for seed in variant.seeds:
            splits = StratifiedKFold(folds, shuffle=True, random_state=seed).split(labels, labels)
            for known, new in islice(splits, variant.judged):
                model: Any = getattr(estimators, variant.estimator)(random_state=seed, **verbose)
                model.set_params(**options).fit(series[known], labels[known])
                probability = model.predict_proba(series[new])
                true = np.searchsorted(model.classes_, labels[new])
                right += (probability.argmax(axis=1) == true).tolist()
                losses += (-np.log(np.maximum(probability[np.arange(len(new)), true], LEAST))).tolist()
    seconds = round(time.perf_counter() - begin, 1)
    return {"accuracy": float(np.mean(right)), "log_loss": float(np.mean(losses)), "seconds": seconds}


def ablations_table() -> str:
    """A row per variant: means over the sets that it and its family's defaults have, and the differences."""
    found = {(line["variant"], line["set"]): line for line in read()}
    rows = []
    for family, first in ((CLOSED, "default"), (NEURAL, "neural")):
        for name, variant in family.items():
            sets = [one for one in SETS if (name, one) in found and (first, one) in found]
            if not sets:
                continue
            mean = lambda who, what, sets=sets: float(np.mean([found[who, one][what] for one in sets]))
            accuracy, loss = mean(name, "accuracy"), mean(name, "log_loss")
            change = [
                f"{100 * (accuracy - mean(first, 'accuracy')):+.1f}",
                f"{loss - mean(first, 'log_loss'):+.3f}",
            ]
            cells = [f"{100 * accuracy:.1f}", f"{loss:.3f}", *(["", ""] if name == first else change)]
            rows.append([name, variant.meaning, *cells, str(len(sets))])
    header = ["variant", "what differs", "accuracy", "log loss", "points", "log loss", "sets"]
    return table(header, rows) if rows else "No results yet."
