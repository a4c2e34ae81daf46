"""A result beside its baselines, and the verdict: what the numbers mean, in sentences, and what to try next.

The verdict is read at a shell, so what to try is named by its flags.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ..._write import Values
from ._baselines import CHEAP, CLOSED_FORM, Baseline
from .metrics import Predictions, accuracy_interval, bootstrap_interval, calibration_error, measures, title_of, wilson

# From here on, a gap between training and validation is worth a sentence: of accuracies, and as a ratio of errors.
_APART, _TIMES = 0.1, 1.5
# An interval of an accuracy that is wider than this, or of an error that is wider than this share of it, is wide.
_WIDE = 0.15
# Fewer samples have a calibration error above 0.1 by chance alone.
_CALIBRATED, _OFF = 100, 0.1
# A best epoch within this share of the epochs was "at once", if there were at least _SOME_EPOCHS.
_AT_ONCE, _SOME_EPOCHS = 0.15, 10


@dataclass(frozen=True)
class Assessment:
    """One metric of one part of the data, with its interval and the baselines' values.

    `metric` is "accuracy" or "rmse". The first baseline is the trivial one.
    """

    metric: str
    measures: Values
    intervals: dict[str, tuple[float, float] | None]
    units: int
    unit: str
    baselines: tuple[tuple[Baseline, Values], ...]
    same: str | None
    """What all predictions are, if all are the same class or nearly the same number."""

    @property
    def value(self) -> float:
        """The metric's value."""
        return self.measures[self.metric]

    @property
    def interval(self) -> tuple[float, float] | None:
        """The metric's interval; None where one unit is all there is."""
        return self.intervals[self.metric]

    def gain(self, over: float) -> float:
        """How much better than another value of the metric; below 0 if it is worse."""
        return self.value - over if self.metric == "accuracy" else over - self.value

    def is_clear(self, other: float) -> bool:
        """Whether another value lies outside the interval, so that the difference is hardly due to chance."""
        return self.interval is not None and not self.interval[0] <= other <= self.interval[1]

    def as_dict(self) -> Values:
        """The assessment as a JSON file has it."""
        return {
            "metric": self.metric,
            "value": self.value,
            "intervals_95": {name: None if ends is None else list(ends) for name, ends in self.intervals.items()},
            "units": {"count": self.units, "of": self.unit},
            "baselines": [{"name": each.name, "what": each.explained, **values} for each, values in self.baselines],
        } | ({"calibration_error": self.measures["calibration_error"]} if "calibration_error" in self.measures else {})


def assess(found: Predictions, baselines: Sequence[Baseline], *, seed: int = 0) -> Assessment:
    """Compare predictions with baselines.

    >>> from neuralrde.tools.assessment import TrainingTargets, trivial
    >>> true = np.array(["no", "no", "no", "yes"])
    >>> always = trivial(TrainingTargets(counts={"no": 9, "yes": 3}), len(true))
    >>> found = assess(Predictions(true, np.full(4, "no"), np.arange(4)), [always])
    >>> found.value, found.baselines[0][1]["accuracy"], found.same
    (0.75, 0.75, 'no')

    Args:
        found: the predictions for a part that was not trained on.
        baselines: theirs for the same rows, the trivial one first.
        seed: seed of the draws for intervals.
    """
    own = measures(found)
    if found.is_classes:
        right = found.true.astype(str) == found.predicted.astype(str)
        intervals = {"accuracy": accuracy_interval(right, found.units)}
        if found.probability is not None:
            own["calibration_error"] = calibration_error(found.probability, right)
    else:
        off = (np.asarray(found.predicted, float) - np.asarray(found.true, float)).reshape(len(found.true), -1)
        intervals = {
            "rmse": bootstrap_interval((off**2).mean(axis=1), found.units, seed=seed),
            "mae": bootstrap_interval(np.abs(off).mean(axis=1), found.units, of=np.asarray, seed=seed),
        }
    metric, units = "accuracy" if found.is_classes else "rmse", len(np.unique(found.units))
    beside = [(each, measures(Predictions(found.true, each.predicted, found.units, found.unit))) for each in baselines]
    return Assessment(metric, own, intervals, units, found.unit, tuple(beside), _same(found))


def _same(found: Predictions) -> str | None:
    if len(found.true) < 2:
        return None
    if found.is_classes:
        names = np.unique(found.predicted.astype(str))
        return str(names[0]) if len(names) == 1 else None
    predicted, true = np.asarray(found.predicted, float), np.asarray(found.true, float)
    # A fiftieth of the true spread: on a picture of predicted against true, a flat line.
    flat = (predicted.std(axis=0) < 0.02 * true.std(axis=0)).all()
    return f"{predicted.mean():.4g}" if flat else None


@dataclass(frozen=True)
class Training:
    """How a training went.

    Args:
        epochs: how many were run; 0 for a model in closed form, of whose training there is nothing to say.
        best: the epoch whose weights were kept.
        out_of_time: whether a time budget ended it.
        parts: `measures` of "train" and "validation".
        folds: how many folds there were; 0 for one test part.
    """

    epochs: int
    best: int
    out_of_time: bool
    parts: Mapping[str, Values]
    folds: int = 0


def verdict(found: Assessment, training: Training | None = None) -> list[str]:
    """Sentences, the most important first.

    >>> from neuralrde.tools.assessment import TrainingTargets, trivial
    >>> found = Predictions(np.array(["no", "no", "yes"]), np.full(3, "no"), np.arange(3))
    >>> print(verdict(assess(found, [trivial(TrainingTargets({"no": 9, "yes": 3}), 3)]))[0])
    All predictions are `no`: no better than always saying `no` (accuracy 0.6667).

    Args:
        found: predictions beside baselines.
        training: how the model was trained; None if that is not known.
    """
    sentences = [*_against_trivial(found), *_of_rare(found), *_against_others(found)]
    if training is not None and training.epochs:
        values = [values[found.metric] for _, values in found.baselines]
        perfect = found.metric == "accuracy" and found.value == 1.0
        wins = perfect or all(found.gain(value) > 0 and found.is_clear(value) for value in values)
        if not wins:
            sentences.append("Try other windows: another --step, and --depth 1 or 3.")
        sentences += _of_training(found.metric, training)
    return [*sentences, *_of_test(found, folds=0 if training is None else training.folds)]


def _against_trivial(found: Assessment) -> Iterator[str]:
    baseline, values = found.baselines[0]
    value, name = values[found.metric], baseline.name
    name = name.replace("always ", "always saying ", 1) if name.startswith("always ") else f"the {name}"
    said = f"{name} ({title_of(found.metric)} {_number(value)})"
    same = f"`{found.same}`" if found.metric == "accuracy" else f"nearly the same number, {found.same}"
    start = "" if found.same is None else f"All predictions are {same}: "
    if found.gain(value) <= 0:
        sentence = f"{start}no better than {said}."
    elif not found.is_clear(value):
        sentence = f"{start}not clearly better than {said}{_inside(found)}."
    else:
        sentence = f"{start}better than {said}."
    yield sentence[0].upper() + sentence[1:]
    balanced, chance = (each.get("balanced_accuracy", 0.0) for each in (found.measures, values))
    if found.gain(value) <= 0 and balanced > chance + _APART:
        has = f"its balanced accuracy is {_number(balanced)}, where {baseline.name} has {_number(chance)}"
        yield f"But it tells the classes apart: {has}."


def _of_rare(found: Assessment) -> Iterator[str]:
    """Accuracy is high for whoever never names the rarer class; these say how well it is told apart, and found."""
    values = found.measures
    if "auroc" not in values:
        return
    names = ("auroc", "average_precision", "brier")
    yield "The rarer class: " + ", ".join(f"{title_of(name)} {_number(values[name])}" for name in names) + "."
    if values["sensitivity"] < 0.5 and values["auroc"] > 0.7:
        yield (
            f"It is told apart, but predicted for only {values['sensitivity']:.0%} of those that have it: write "
            "--set threshold=f1, or --set class_weight=balanced."
        )


def _against_others(found: Assessment) -> Iterator[str]:
    metric = title_of(found.metric)
    for baseline, values in found.baselines[1:]:
        value, name = values[found.metric], baseline.name
        gain, clear = found.gain(value), found.is_clear(value)
        numbers = f"{metric} {_number(value)} against {_number(found.value)}"
        if baseline.kind not in (CHEAP, CLOSED_FORM):
            if gain <= 0:
                yield f"The {name} is better: {numbers} ({baseline.explained})."
        elif gain > 0:
            than = f"than the {name} ({metric} {_number(value)})"
            yield f"Better {than}." if clear else f"Not clearly better {than}{_inside(found)}."
        else:
            better = "as good" if gain == 0 else "better" if clear else "slightly better, or as good"
            advice = " It takes seconds: write --model closed-form." if baseline.kind == CLOSED_FORM else ""
            yield f"The {name} is {better}: {numbers}.{advice}"


def _of_training(metric: str, training: Training) -> Iterator[str]:
    epochs = f"{training.epochs:,} epoch{'' if training.epochs == 1 else 's'}"
    if training.out_of_time:
        yield f"The time budget ended training after {epochs}: give more with --time-budget."
    elif training.best == training.epochs:
        yield f"The best epoch is the last: train longer (--epochs {2 * training.epochs})."
    elif training.epochs >= _SOME_EPOCHS and training.best <= _AT_ONCE * training.epochs:
        advice = "try a smaller --learning-rate, or another --seed"
        yield f"Training stopped after {epochs}, and the best was epoch {training.best}: {advice}."
    train, validation = training.parts.get("train"), training.parts.get("validation")
    if not train or not validation:
        return
    one, other = train[metric], validation[metric]
    if metric == "accuracy":
        chance = wilson(other * validation["samples"], validation["samples"])[1]
        apart = one - other > _APART and one > chance
    else:
        apart = other > _TIMES * one
    if apart:
        name = title_of(metric)
        yield (
            f"Training {name} {_number(one)}, validation {name} {_number(other)}: it overfits. More data, a smaller "
            "model (--set model.width=...), or more decay (--set optimizer.weight_decay=...) may help."
        )


def _of_test(found: Assessment, *, folds: int) -> Iterator[str]:
    advice = "" if folds else "; --folds 5 tests on every series once"
    count = f"{found.units:,} {found.unit if found.units == 1 or found.unit == 'series' else found.unit + 's'}"
    if found.interval is None:
        yield f"Tested on {count} only, which says nothing about others{advice}."
        return
    low, high = found.interval
    if high - low > (_WIDE if found.metric == "accuracy" else 2 * _WIDE * found.value):
        yield f"Tested on only {count}: the interval is wide, {_number(low)} to {_number(high)}{advice}."
    off = found.measures.get("calibration_error")
    if off is not None and off > _OFF and found.units >= _CALIBRATED:
        yield f"Probabilities are off by {_number(off)} on average (expected calibration error): do not trust them."


def _inside(found: Assessment) -> str:
    return ", which lies inside the interval" if found.interval is not None else ""


def _number(value: float) -> str:
    return f"{value:#.4g}"
