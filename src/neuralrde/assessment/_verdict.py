"""The verdict: what the numbers mean, in sentences, and what to try next.

It is read at a shell, so what to try is named by its flags.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ._assess import Assessment
from ._baselines import CHEAP, FLOOR
from .intervals import wilson
from .metrics import title_of

# From here on, training and validation are so far apart that it is worth a sentence: a difference of accuracies, and a
# ratio of errors.
_APART, _TIMES = 0.1, 1.5
# An interval of an accuracy that is wider than this, or of an error that is wider than this share of it, is wide.
_WIDE = 0.15
# Fewer samples have a calibration error above 0.1 by chance alone.
_CALIBRATED, _OFF = 100, 0.1
# A best epoch within this share of the epochs was "at once", if there were at least so many.
_AT_ONCE, _SOME_EPOCHS = 0.15, 10


@dataclass(frozen=True)
class Training:
    """How a training went.

    Args:
        epochs: how many were run; 0 for a model in closed form, of whose training there is nothing to say.
        best: the epoch whose weights were kept.
        searched: whether depth and step were chosen by a search.
        out_of_time: whether a time budget ended it.
        parts: `measures` of "train" and "validation".
        folds: how many folds there were; 0 for one test part.
    """

    epochs: int
    best: int
    searched: bool
    out_of_time: bool
    parts: Mapping[str, Mapping[str, Any]]
    folds: int = 0


def verdict(found: Assessment, training: Training | None = None) -> list[str]:
    """Sentences, the most important first.

    >>> import numpy as np
    >>> from neuralrde.assessment import Predictions, TrainingTargets, assess, trivial
    >>> true = np.array(["no"] * 55 + ["yes"] * 14)
    >>> always = trivial(TrainingTargets({"no": 9, "yes": 3}), len(true))
    >>> found = assess(Predictions(true, np.full(69, "no"), np.arange(69)), [always])
    >>> print(verdict(found)[0])
    All predictions are `no`: no better than always saying `no` (accuracy 0.7971).

    Args:
        found: predictions beside baselines.
        training: how the model was trained; None if that is not known.
    """
    sentences = [*_against_trivial(found), *_against_others(found)]
    if training is not None and training.epochs:
        if training.searched is False and not _wins(found):
            sentences.append("Try --depth auto --step auto, which searches for better windows.")
        sentences += _of_training(found.metric, training)
    return [*sentences, *_of_test(found, folds=0 if training is None else training.folds)]


def _against_trivial(found: Assessment) -> Iterator[str]:
    baseline, values = found.baselines[0]
    value = values[found.metric]
    said = f"{_doing(baseline.name)} ({title_of(found.metric)} {_number(value)})"
    if found.metric == "accuracy":
        start = f"All predictions are `{found.same}`: " if found.same is not None else ""
    else:
        start = f"All predictions are nearly the same number, {found.same}: " if found.same is not None else ""
    if found.gain(value) <= 0:
        sentence = f"{start}no better than {said}."
    elif not found.is_clear(value):
        sentence = f"{start}not clearly better than {said}{_inside(found)}."
    else:
        sentence = f"{start}better than {said}."
    yield sentence[0].upper() + sentence[1:]
    balanced, chance = (each.get("balanced_accuracy", 0.0) for each in (found.measures, values))
    if found.gain(value) <= 0 and balanced > chance + _APART:
        yield (
            f"But it tells the classes apart: its balanced accuracy is {_number(balanced)}, where {baseline.name} has "
            f"{_number(chance)}."
        )


def _against_others(found: Assessment) -> Iterator[str]:
    metric = title_of(found.metric)
    for baseline, values in found.baselines[1:]:
        value, gain = values[found.metric], found.gain(values[found.metric])
        numbers = f"{metric} {_number(value)} against {_number(found.value)}"
        name = f"the {baseline.name}"
        if baseline.kind in (CHEAP, FLOOR) and gain > 0:
            clear = "Better" if found.is_clear(value) else "Not clearly better"
            yield f"{clear} than {name} ({metric} {_number(value)}){'' if clear == 'Better' else _inside(found)}."
        elif baseline.kind in (CHEAP, FLOOR):
            clear = "as good" if gain == 0 else "better" if found.is_clear(value) else "slightly better, or as good"
            advice = " It takes seconds: write --model closed-form." if baseline.kind == FLOOR else ""
            yield f"{name[0].upper()}{name[1:]} is {clear}: {numbers}.{advice}"
        elif gain <= 0:
            yield f"{name[0].upper()}{name[1:]} is better: {numbers} ({baseline.explained})."


def _wins(found: Assessment) -> bool:
    """Perfect, or clearly better than every baseline."""
    values = [values[found.metric] for _, values in found.baselines]
    perfect = found.metric == "accuracy" and found.value == 1.0
    return perfect or all(found.gain(value) > 0 and found.is_clear(value) for value in values)


def _of_training(metric: str, training: Training) -> Iterator[str]:
    if training.out_of_time:
        yield f"The time budget ended training after {_epochs(training.epochs)}: give more with --time-budget."
    elif training.best == training.epochs:
        yield f"The best epoch is the last: train longer (--epochs {2 * training.epochs})."
    elif training.epochs >= _SOME_EPOCHS and training.best <= _AT_ONCE * training.epochs:
        yield (
            f"Training stopped after {_epochs(training.epochs)}, and the best was epoch {training.best}: try a smaller "
            "--learning-rate, or another --seed."
        )
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


def _doing(name: str) -> str:
    return name.replace("always ", "always saying ", 1) if name.startswith("always ") else f"the {name}"


def _inside(found: Assessment) -> str:
    return ", which lies inside the interval" if found.interval is not None else ""


def _epochs(count: int) -> str:
    return f"{count:,} epoch{'' if count == 1 else 's'}"


def _number(value: float) -> str:
    return f"{value:#.4g}"
