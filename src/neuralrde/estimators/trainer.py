"""Trains neural models: from checked parameters and samples to a `FittedNeural`, in the order in which it happens.

choose the model ("auto") -> divide off a validation set -> prepare -> choose windows -> closed form
-> train (again, if nothing was learned) -> blend with the closed form -> calibrate
"""

import os
import sys
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.special
from jax.sharding import Mesh
from jaxtyping import Float, Int

from ..errors import setting
from ..models import MODELS, CrossFitted, Ensemble, out_of_fold
from ..models.base import model_class
from ..paths import Windows
from ..processes import Processes
from ..registry import Config
from ..training import (
    AbstractAugmentation,
    AbstractLoss,
    AdamW,
    ConstantRate,
    CrossEntropy,
    EachMember,
    Huber,
    Listener,
    ProgressBar,
    RandomChoice,
    Settings,
    SquaredError,
    TrainingState,
    TrainingWarning,
    accuracy,
    fit,
    predict,
    rmse,
)
from ..training.archive import arrays_of, with_arrays
from ..training.listeners import Listeners
from ..transforms import Transform
from .blend import class_factors, number_factors
from .closed_form import fit_closed_form
from .division import FEWEST_TO_DECIDE, AugmentedSamples, Division, Samples, divide, folds
from .fitted import (
    Blend,
    FittedClosedForm,
    FittedNeural,
    VersionOutputs,
    build_model,
    calibration_scores,
    held_out_calibration,
    model_shapes,
)
from .inputs import InputDescription
from .saving import from_parts, to_parts
from .search import check_size, successive_halving
from .targets import TargetCoding, are_known, class_weights, share_at_cuts

# A closed form whose error is at most this share of the targets' spread makes none.
_NO_ERROR = 1e-2


@dataclass(frozen=True, kw_only=True)
class TrainingPlan:
    """The parameters of a neural estimator, checked, with an object for each part."""

    model: Config | None
    """None compares families of models, and takes the best."""
    members: int | None
    closed_form: bool
    transform: Transform
    windows: Windows
    loss: AbstractLoss
    optimizer: Any
    augmentation: AbstractAugmentation | None
    epochs: int | None
    batch_size: int
    validation_fraction: float
    shuffle: bool
    patience: int | None
    time_budget: float | None
    class_weight: dict | str | None
    verbose: bool | None
    seed: int
    given: dict[str, Any]
    """The parameters that decide what is built, as a user gave them."""


@dataclass(frozen=True)
class Trainer:
    """Fits a plan to samples."""

    plan: TrainingPlan
    inputs: InputDescription
    targets: TargetCoding
    listeners: Sequence[Listener] = ()
    mesh: Mesh | None = None

    def fit(
        self,
        samples: Samples,
        validation: Samples | None = None,
        *,
        previous: FittedNeural | None = None,
        checkpoint: str | os.PathLike | None = None,
        resume: bool = False,
    ) -> FittedNeural:
        """Train from the beginning, or from the weights of an earlier fit.

        Args:
            samples: the training set, or what is divided into training and validation set.
            validation: a validation set that a user gave.
            previous: what an earlier `fit` learned, to continue from.
            checkpoint, resume: see `neuralrde.training.fit`.
        """
        plan, trials = self.plan, []

        # Choose the model.
        config = plan.model if previous is None else previous.config
        if config is None:
            if checkpoint is not None:
                raise ValueError(
                    f"Got {setting('model', 'auto')} with a checkpoint; expected a model then, "
                    "because a comparison has many states. Write for example "
                    f"{setting('model', 'multi-scale-rde')}."
                )
            config, trials = self.choose_model(samples)
        members = self._members(config, previous)

        # Divide off a validation set. The transform sees the training set only.
        wanted = plan.windows if previous is None else previous.windows
        data = self._divided(samples, validation, members, wanted.searched)
        training = self._prepared(config, members, data, previous)

        # Choose the windows. Each candidate has its own model.
        if previous is not None:
            candidates = [wanted]
        else:
            candidates, config = self._candidates(training)
            training = replace(training, config=config)
        shapes = {(training.channels, windows): training.check_size(windows) for windows in candidates}
        windows, state = candidates[0], None
        if len(candidates) > 1:
            if data.validation is None or checkpoint is not None:
                what = "without a validation set" if data.validation is None else "with a checkpoint"
                raise ValueError(
                    f"Got {setting('windows', plan.given['windows'])} {what}; expected numbers then, "
                    "because a search compares validation losses and has many states. Write for "
                    "example windows=Windows(step=32, depth=2)."
                )
            windows, state, training, tried = self._searched(candidates, training, samples, validation)
            trials += tried

        # Where the closed form makes no error on series that it has not seen, there is nothing to train for.
        label_share = training.check_label_share(windows)
        raw = samples if len(samples) == len(training.data.training) else data.training
        closed = self._fit_closed_form(training, raw)
        fitted = self._common(training, windows, previous) | {"label_share": label_share, "trials": trials}
        if Processes(self.mesh).agree(previous is None and closed is not None and closed.leaves_nothing_to_gain(raw)):
            assert closed is not None
            Listeners(training.listeners).say(
                f"The closed form makes no error on any of the {len(raw)} series when they are left "
                "out: there is nothing to gain, and no neural model is trained. Write "
                f"{setting('closed_form', False)} to train one."
            )
            fitted |= {"history": [], "restarts": [], "best_epoch": 0, "validation_loss": 0.0, "model": None}
            fitted["scores"] = self._scores(training, closed.outputs, raw.target, raw.groups)
            fitted["blend"] = self._agreed(closed.fitted, (1.0, 0.0))
        else:
            # Train, and train again if nothing was learned.
            state, restarts = training(windows, state, checkpoint=checkpoint, resume=resume), []
            if members == 1:
                state, restarts = restarted_if_collapsed(training, windows, state)
            elif not training.data.selects_weights:
                # Keep the last weights: with dropout, an epoch's loss does not tell better weights from worse.
                state = replace(state, best=state.model)
            template = shapes.get((training.channels, windows)) or training.shapes(windows)
            fitted |= _trained(state, template) | {"restarts": restarts}
            fitted["blend"], fitted["scores"] = self._blended(training, windows, state, raw, closed)
            if fitted["blend"].only_closed_form:
                fitted["model"] = None
        value = FittedNeural(**fitted)
        if training.data.validation is not None and data.validation is not None:
            value = replace(value, scores=held_out_calibration(value, data.validation))
        return value

    def partial_fit(self, samples: Samples, previous: FittedNeural | None = None) -> FittedNeural:
        """Train for one pass over these series."""
        plan, config = self.plan, self.plan.model if previous is None else previous.config
        if samples.source.whole() is None:
            raise ValueError("Got a store for `partial_fit`; expected series, or `fit`, which reads a store in parts.")
        if config is None:
            raise ValueError(
                f"Got {setting('model', 'auto')} for `partial_fit`; expected a model, because a "
                "comparison needs all series at once. Write for example "
                f"{setting('model', 'multi-scale-rde')}."
            )
        if previous is None and plan.windows.searched:
            raise ValueError(
                f"Got {setting('windows', plan.given['windows'])} for `partial_fit`; expected "
                "numbers, because a search needs all series at once. Write for example "
                "windows=Windows(step=32, depth=2)."
            )
        members = self._members(config, previous)
        training = replace(self._prepared(config, members, Division(samples), previous), folds=None)
        if previous is None:
            (windows, *_), config = self._candidates(training)
            training = replace(training, config=config)
        else:
            windows = previous.windows
        shapes = training.check_size(windows)
        state = None if previous is None else previous.training
        # Nobody knows how many batches will come. So there is no schedule, no weight decay and no time budget.
        optimizer = replace(training.settings.optimizer, schedule=ConstantRate())
        optimizer = replace(optimizer, weight_decay=0.0) if isinstance(optimizer, AdamW) else optimizer
        epochs = 1 if state is None else state.epoch + 1
        settings = replace(training.settings, epochs=epochs, patience=None, time_budget=None, optimizer=optimizer)
        state = replace(training, settings=settings)(windows, state)
        # Keep the last weights: losses of different batches cannot be compared.
        trained, earlier = (
            _trained(replace(state, best=state.model), shapes),
            [] if previous is None else previous.history,
        )
        fitted = self._common(training, windows, previous) | {"label_share": training.labels(windows)[1], "trials": []}
        fitted |= trained | {"history": [*earlier, {**state.history[-1], "epoch": len(earlier) + 1}]}
        blend = Blend() if previous is None else previous.blend
        return FittedNeural(**fitted, restarts=[], blend=blend, training=state)

    def _common(self, training: "Training", windows: Windows, previous: FittedNeural | None) -> dict[str, Any]:
        """The fields of what is learned that do not depend on how the training went."""
        return {
            "inputs": self.inputs,
            "targets": self.targets,
            "transform": training.transform,
            "windows": windows,
            "config": training.config,
            "members": training.members,
            "loss": training.loss,
            "augmentation": self.plan.augmentation,
            "path_channels": training.channels,
            "given": self.plan.given if previous is None else previous.given,
            "mesh": self.mesh,
        }

    def _members(self, config: Config, previous: FittedNeural | None) -> int:
        if previous is not None:
            return previous.members
        return self.plan.members or model_class(config.cls).recommended.members

    # Divide and prepare.

    def _divided(self, samples: Samples, validation: Samples | None, members: int, searched: bool) -> Division:
        """The training and the validation set. A validation set too small to decide is held out only for a search."""
        if validation is not None:
            return Division(samples, validation, len(validation) >= FEWEST_TO_DECIDE)
        if members > 1 and not searched:
            return Division(samples)  # every member leaves out another part
        plan, fraction = self.plan, self.plan.validation_fraction
        if len(samples) * fraction < 2 or (samples.units * fraction < FEWEST_TO_DECIDE and not searched):
            return Division(samples)
        options = {"groups": samples.groups, "shuffle": plan.shuffle, "seed": plan.seed}
        rows, held_out = divide(samples.series, samples.target, fraction=fraction, **options)
        selects_weights = samples[held_out].units >= FEWEST_TO_DECIDE
        if not len(held_out) or not (selects_weights or searched):
            return Division(samples)
        return Division(samples[rows], samples[held_out], selects_weights)

    def _prepared(
        self, config: Config, members: int, data: Division, previous: FittedNeural | None = None
    ) -> "Training":
        """A training that lacks only the windows. Transform and loss are fitted to the training set here."""
        plan, training, validation = self.plan, data.training, data.validation
        versions = None if plan.augmentation is None else AugmentedSamples(plan.augmentation, training, plan.seed)
        if previous is not None:
            transform, loss = previous.transform, previous.loss
            source = training.source.prepared(transform)
        else:
            transform, source = training.source.fit_and_prepare(plan.transform)
            loss = plan.loss.fit(training.target if versions is None else versions.targets())
        prepared = replace(
            data,
            training=replace(training, source=source),
            validation=None if validation is None else validation.prepared(transform),
        )
        bar = [] if plan.verbose is False else [ProgressBar(always=plan.verbose is True)]
        fold = None
        if members > 1:
            how = {"groups": training.groups, "shuffle": plan.shuffle, "seed": plan.seed}
            fold = folds(training.target, members, **how)
        return Training(
            plan=plan,
            targets=self.targets,
            config=config,
            members=members,
            transform=transform,
            loss=loss,
            data=prepared,
            settings=self._settings(config, len(training)),
            seed=plan.seed,
            listeners=[*self.listeners, *bar],
            mesh=self.mesh,
            model=None if previous is None else previous.model,
            folds=fold,
            augmented=versions,
        )

    def _settings(self, config: Config, samples: int) -> Settings:
        plan, steps, budget = self.plan, -(-samples // self.plan.batch_size), self.plan.time_budget
        recommended = model_class(config.cls).recommended
        return Settings(
            epochs=max(recommended.epochs, -(-recommended.steps // steps)) if plan.epochs is None else plan.epochs,
            batch_size=plan.batch_size,
            optimizer=plan.optimizer,
            patience=plan.patience,
            seed=plan.seed,
            # Choosing the model took the other half.
            time_budget=budget / 2 if budget is not None and plan.model is None else budget,
        )

    # Choose the windows.

    def _candidates(self, training: "Training") -> tuple[list[Windows], Config]:
        """The windows to try, those asked for or recommended; and the model with the options that depend on them."""
        wanted, config, source = self.plan.windows, training.config, training.data.training.source
        recommended = model_class(config.cls).recommended
        if self.plan.given["windows"] is None:
            wanted = recommended.windows(training.channels)
        found = source.candidates(wanted)
        if recommended.options is not None:
            number = int(np.median(source.window_counts(found[0])))
            config = Config(config.cls, **recommended.options(number) | config.options)
        return found, config

    def _searched(
        self, candidates: list[Windows], training: "Training", samples: Samples, validation: Samples | None
    ) -> tuple[Windows, TrainingState | None, "Training", list[dict[str, Any]]]:
        """The best of several windows, how far it was trained, the training to go on with, and a record per trial."""
        # The search takes half of the time, the winner the rest.
        clock = Processes(self.mesh).clock
        begun, budget = clock(), self.plan.time_budget
        half = None if budget is None else budget / 2
        search = replace(training, data=replace(training.data, selects_weights=True))
        epochs = training.settings.epochs
        windows, state, trials = successive_halving(candidates, search, epochs=epochs, seconds=half, clock=clock)
        if not training.data.selects_weights:
            state = None  # the winner is trained from the beginning
            if validation is None:
                # A validation set too small to decide is needed for training: the winner is trained with all series.
                training = self._prepared(training.config, training.members, Division(samples))
        if budget is not None:
            spent, left = 0.0 if state is None else state.seconds, budget - (clock() - begun)
            settings = replace(training.settings, time_budget=spent + max(1e-3, left))
            training = replace(training, settings=settings)
        return windows, state, training, [_record(**trial) for trial in trials]

    # Blend with the closed form.

    def _fit_closed_form(self, training: "Training", samples: Samples) -> "_LeftOut | None":
        """The closed form of the same series; None where it has no weight."""
        whole = samples.source.whole() is not None
        if training.folds is None or self.targets.per_time or not whole or not self.plan.closed_form:
            return None
        if not isinstance(training.loss, CrossEntropy | SquaredError | Huber):
            return None
        weighted = replace(samples, weight=training.weights(training.data.training))
        return _LeftOut(*fit_closed_form(weighted, self.inputs, self.targets))

    def _blended(
        self, training: "Training", windows: Windows, state: TrainingState, samples: Samples, closed: "_LeftOut | None"
    ) -> tuple[Blend, list[list[float]] | None]:
        """The blend with the closed form, and the scores of predictions for series that were left out of both.

        Every member of an ensemble has left out a part of the series, and ridge regression knows in closed form what
        it would have predicted for each series without it. So there are honest predictions of both for all series, and
        none had to be held out. A part without weight is not kept.
        """
        fold = training.folds
        if not isinstance(state.model, CrossFitted) or fold is None or self.targets.per_time:
            return Blend(), None
        examples = training.examples(state.model.ensemble, training.data.training, windows)
        neural = out_of_fold(predict(state.model, examples, mesh=self.mesh), fold).astype(np.float64)
        beside = np.zeros_like(neural) if closed is None else closed.outputs
        known, blend = fold >= 0, Blend()
        target, weight = samples.target[known], None if examples.weight is None else np.asarray(examples.weight)[known]
        if isinstance(training.loss, CrossEntropy) or closed is not None:
            factors = class_factors if self.targets.classes is not None else number_factors
            found = factors(beside[known], neural[known], target, weight)
            blend = self._agreed(None if closed is None else closed.fitted, found)
        outputs, groups = blend(neural, beside)[known], samples.groups
        return blend, self._scores(training, outputs, target, None if groups is None else groups[known])

    def _agreed(self, closed: FittedClosedForm | None, factors: Sequence[float]) -> Blend:
        """The blend of the first process: linear algebra may round differently on another machine."""
        processes = Processes(self.mesh)
        if processes.count > 1:
            parts, factors = processes.agree((None if closed is None else to_parts(closed), list(factors)))
            closed = None if parts is None else from_parts(FittedClosedForm, *parts)
        return Blend(closed if factors[0] > 0 else None, (float(factors[0]), float(factors[1])))

    def _scores(self, training: "Training", outputs: np.ndarray, target: np.ndarray, groups: Any) -> Any:
        if self.targets.classes is not None:
            return None
        return calibration_scores(training.loss, [VersionOutputs(outputs)], target, groups)

    # Choose the model: several families compared by cross-validation, under a time budget.

    def choose_model(self, samples: Samples) -> tuple[Config, list[dict[str, Any]]]:
        """The model with the smallest loss on series that were left out, and a record of each that was tried.

        The loss is the log loss, or the squared error in units of the targets' variance. Half of a time budget is spent
        here, in equal parts. The closed form is compared too, as the floor: it cannot be chosen, but has a weight in
        the default.
        """
        plan, targets = self.plan, self.targets
        if targets.per_time:
            raise ValueError(
                f"Got {setting('model', 'auto')} and a target at every point; expected one target per "
                "series, because families are compared by their predictions for whole series. Write "
                f"one of {list(COMPARED)}."
            )
        processes = Processes(self.mesh)
        begun, budget = processes.clock(), plan.time_budget
        fold = folds(samples.target, FOLDS, groups=samples.groups, shuffle=plan.shuffle, seed=plan.seed)
        floor = []
        if plan.closed_form:
            started, losses = time.monotonic(), []
            if targets.classes is not None or not np.isnan(samples.target).any():
                losses = [self._left_out_loss(None, samples, fold, number) for number in range(FOLDS)]
            mean, seconds = float(np.mean(losses)) if losses else float("nan"), round(time.monotonic() - started, 2)
            floor = [{"model": "closed-form", "loss": mean, "folds": len(losses), "seconds": seconds}]
        trials: dict[str, dict[str, Any]] = {}
        alive: list[str] = list(COMPARED)
        for number in range(FOLDS):
            for place, name in enumerate(alive):
                spent = processes.clock() - begun
                if budget is not None and spent > budget / 2 and trials:
                    break
                fits = len(alive) - place + (FOLDS - 1 - number) * min(len(alive), _FINALISTS)
                seconds = None if budget is None else max(1e-3, (budget / 2 - spent) / fits)
                candidate = replace(plan, model=Config(MODELS[name]), time_budget=seconds, verbose=False)
                loss = processes.agree(self._left_out_loss(candidate, samples, fold, number))
                old = trials.get(name, {"loss": 0.0, "folds": 0, "seconds": 0.0})
                trials[name] = {
                    "model": name,
                    "loss": (old["loss"] * old["folds"] + loss) / (old["folds"] + 1),
                    "folds": old["folds"] + 1,
                    "seconds": round(old["seconds"] + processes.clock() - begun - spent, 2),
                }
            alive = sorted(trials, key=lambda name: trials[name]["loss"])[:_FINALISTS]
        # Those that were tried on all folds first.
        tried = [*sorted(trials.values(), key=lambda one: (-one["folds"], one["loss"])), *floor]
        if plan.verbose or (plan.verbose is None and sys.stderr.isatty()):
            for trial in tried:
                loss, number, seconds = trial["loss"], trial["folds"], trial["seconds"]
                print(
                    f"{trial['model']}: loss {loss:.3f} on {number} of {FOLDS} folds, {seconds:.0f} s", file=sys.stderr
                )
        return Config(MODELS[tried[0]["model"]]), tried

    def _left_out_loss(self, plan: TrainingPlan | None, samples: Samples, fold: np.ndarray, number: int) -> float:
        """The loss on one fold of what is fitted to the others; without a plan, of the closed form."""
        known, new = samples[fold != number], samples[fold == number]
        if plan is None:
            fitted, _ = fit_closed_form(known, self.inputs, self.targets)
        else:
            fitted = replace(self, plan=plan, listeners=()).fit(known)
        outputs = fitted.outputs(new.source)
        weight = None if new.weight is None else np.asarray(new.weight, np.float64)
        if self.targets.classes is not None:
            chosen = fitted.probabilities(outputs)[np.arange(len(new)), new.target]
            return float(np.average(-np.log(np.maximum(chosen, _LEAST)), weights=weight))
        target = np.asarray(new.target, np.float64)
        missed = target - np.asarray(fitted.predictions(outputs)).reshape(target.shape)
        spread = np.nanvar(np.asarray(samples.target, np.float64), axis=0)
        return float(np.average(np.nanmean(missed**2 / np.where(spread > 0, spread, 1.0), axis=1), weights=weight))


FOLDS = 3
# What is compared: one of each kind, the default first. The others are special cases of these, or peers of the paper.
COMPARED = ("multi-scale-rde", "neural-rde", "log-ncde", "linear-rde", "oscillator-rde")
# After the first fold only the best go on: what is far behind on a third of the series does not win on all.
_FINALISTS = 2
# The smallest probability that counts, because one wrong series must not decide alone.
_LEAST = 1e-3


def _record(candidate: Windows, **found: Any) -> dict[str, Any]:
    size = {"step": candidate.step} if candidate.every is None else {"every": candidate.every}
    return {"depth": candidate.depth, **size, **found}


def _trained(state: TrainingState, shapes: Any) -> dict[str, Any]:
    """What a training has led to."""
    # Built as loading builds it, so that a loaded model is the same in every respect.
    best = state.best.ensemble if isinstance(state.best, CrossFitted) else state.best
    return {
        "history": list(state.history),
        "best_epoch": state.best_epoch,
        "validation_loss": state.best_loss,
        "model": with_arrays(shapes, arrays_of(best)),
    }


@dataclass(frozen=True)
class _LeftOut:
    """The closed form, and its values for each series of the training set, had that series been left out."""

    fitted: FittedClosedForm
    values: Float[np.ndarray, "samples outputs"]

    @property
    def outputs(self) -> Float[np.ndarray, "samples outputs"]:
        return self.values * float(self.fitted.model.sharpness)

    def leaves_nothing_to_gain(self, samples: Samples) -> bool:
        """Whether it is right about all series when they are left out, and there are enough to tell."""
        if samples.units < FEWEST_TO_DECIDE:
            return False
        values, target = self.values, samples.target
        if target.dtype.kind == "i":
            return bool((values.argmax(axis=1) == target).all())
        return bool((np.nanmean((values - target) ** 2, axis=0) <= _NO_ERROR**2 * np.nanvar(target, axis=0)).all())


@dataclass(frozen=True, kw_only=True)
class Training:
    """One training that is called with windows. Everything else is fixed, so that a search can try several."""

    plan: TrainingPlan
    targets: TargetCoding
    config: Config
    members: int
    transform: Transform
    loss: AbstractLoss
    data: Division
    """Prepared, so that the model can be trained on it."""
    settings: Settings
    seed: int
    listeners: Sequence[Listener]
    mesh: Mesh | None = None
    model: Any = None
    """The model to continue with, if there is one."""
    folds: np.ndarray | None = None
    """The fold of each training sample, for an ensemble: every member leaves out one fold."""
    augmented: AugmentedSamples | None = None
    """Versions of the training samples, to train on instead of them."""

    @property
    def channels(self) -> int:
        """How many channels the prepared series have."""
        return self.data.training.source.channels

    @property
    def _sizes(self) -> dict[str, Any]:
        return {"channels": self.channels, "targets": self.targets, "loss": self.loss, "members": self.members}

    def shapes(self, windows: Windows) -> Any:
        return model_shapes(self.config, windows, **self._sizes)

    def check_size(self, windows: Windows) -> Any:
        """The shapes of the model for these windows. Raises if it would have too many weights."""
        return check_size(lambda: self.shapes(windows), self.channels, windows)

    def __call__(
        self,
        windows: Windows,
        state: TrainingState | None = None,
        until: int | None = None,
        *,
        checkpoint: str | os.PathLike | None = None,
        resume: bool = False,
    ) -> TrainingState:
        model = build_model(self.config, windows, **self._sizes, seed=self.seed) if self.model is None else self.model
        versions = self.versions(model, windows)
        if self.model is None:
            model = self._conditioned(model, versions[0])
        others: dict[str, Any] = {}
        if self.data.validation is not None:
            others["validation"] = self.examples(model, self.data.validation, windows)
            others["decides"] = self.data.selects_weights
        loss: Any = self.loss
        metric: Any = accuracy if self.targets.classes is not None else _RMSE(self.loss)
        if isinstance(model, Ensemble):
            model, loss, metric = CrossFitted(model), EachMember(loss), _OfMean(metric)
        if self.mesh is not None:
            others["mesh"] = self.mesh
        return fit(
            model,
            versions[0] if len(versions) == 1 else RandomChoice(versions, self.seed),
            loss=loss,
            metric=metric,
            # Without a validation set that decides, training runs to its end: its own loss cannot say when to stop.
            settings=self.settings if self.data.selects_weights else replace(self.settings, patience=None),
            state=state,
            until=until,
            checkpoint=checkpoint,
            resume=resume,
            listeners=self.listeners,
            **others,
        )

    def _conditioned(self, model: Any, training: Any) -> Any:
        """The model with statistics of the training set."""
        model = self.data.training.source.fit_inputs(model, training)
        target = self.data.training.target if self.augmented is None else self.augmented.targets()
        scale = self.loss.label_scale(target)
        return model if scale is None else model.with_labels(scale)

    def versions(self, model: Any, windows: Windows) -> list[Any]:
        """The training set, in one version or several."""
        shifts, augmented = windows.all_shifts(), self.augmented
        if augmented is None:
            return [self.examples(model, self.data.training, windows, shift) for shift in shifts]
        prepared = (augmented.prepared(number, self.transform) for number in range(len(augmented)))
        return [self.examples(model, one, windows, shifts[i % len(shifts)]) for i, one in enumerate(prepared)]

    def examples(self, model: Any, samples: Samples, windows: Windows, shift: int = 0) -> Any:
        """A model's inputs and targets. Where labels at points are sparse, windows end at them too."""
        per_time, target = self.targets.per_time, samples.target
        cut_at_labels = per_time and self.labels(windows)[0]
        extra = []
        if isinstance(model, Ensemble):
            fold = None if samples is self.data.validation else self.folds
            extra.append(np.full(len(samples), -1, np.int32) if fold is None else fold)
        return samples.source.examples(
            model,
            windows,
            target,
            weight=self.weights(samples),
            extra_inputs=extra,
            shift=shift,
            label_points=are_known(target) if cut_at_labels else None,
            per_time=per_time,
            # Not for one of many versions.
            cache=samples is self.data.training or samples is self.data.validation,
        )

    def weights(self, samples: Samples) -> np.ndarray | None:
        """How much each sample counts, by itself and by its class."""
        weight = class_weights(self.plan.class_weight, self.targets, samples.target, self.data.training.target)
        if weight is None or samples.weight is None:
            return samples.weight if weight is None else weight
        return weight * samples.weight

    def labels(self, windows: Windows) -> tuple[bool, float]:
        """Whether windows end at labels too, and the share of the training labels that are used."""
        if not self.targets.per_time:
            return False, 1.0
        samples = self.data.training
        return share_at_cuts(samples.series, are_known(samples.target), windows)

    def check_label_share(self, windows: Windows) -> float:
        """The share of labels at windows' ends: a warning if some stand elsewhere, an error if all do."""
        _, share = self.labels(windows)
        how = setting("step", windows.step) if windows.every is None else setting("every", windows.every)
        if share == 0:
            raise ValueError(
                f"Got labels none of which stands at the end of a window of {how}; expected some, "
                f"because the model is trained on its predictions there. Write {setting('step', 1)} "
                "to use all labels."
            )
        if share < 1:
            warnings.warn(
                f"With windows of {how}, {100 * share:.0f} % of the labels stand at a window's end "
                f"and are trained on. Write {setting('step', 1)} to use all of them.",
                stacklevel=4,
            )
        return share


class _OfMean:
    """Applies a metric to the mean of the members' outputs."""

    def __init__(self, metric: Any):
        self.metric, self.__name__ = metric, getattr(metric, "__name__", "metric")

    def __call__(self, outputs: np.ndarray, target: np.ndarray) -> float:
        return self.metric(outputs.mean(axis=1), target)


class _RMSE:
    """The root mean squared error of the predictions that a model's outputs stand for."""

    __name__ = "rmse"

    def __init__(self, loss: AbstractLoss):
        self.loss = loss

    def __call__(self, outputs: np.ndarray, target: np.ndarray) -> float:
        return rmse(self.loss.predict(outputs), target)


# A classifier that predicts one class for everything has collapsed, and is trained again.

# A model that predicts one class this often, and whose loss is above this share of a constant prediction's.
_ONE_CLASS, _NO_BETTER = 0.98, 0.95
_RESTARTS = 2
# Of the optimizer: a shorter training has not had the time to learn.
_FEWEST_STEPS = 50


def restarted_if_collapsed(
    training: Training, windows: Windows, state: TrainingState
) -> tuple[TrainingState, list[dict[str, Any]]]:
    """The state, or that of another training if it has collapsed; and a record for each of several trainings.

    Another training begins from other weights, without weight decay, at half the rate. The one with the best monitored
    loss is kept.
    """
    tries, collapsed = [(training, state)], [_is_collapsed(training, windows, state)]
    while collapsed[-1] and len(tries) <= _RESTARTS and training.model is None and _can_be_gentler(training):
        last, budget = tries[-1][0].settings, training.settings.time_budget
        left = None if budget is None else budget - sum(one.seconds for _, one in tries)
        if left is not None and left <= 0:
            break
        settings = replace(last, optimizer=_gentler(last.optimizer), time_budget=left)
        warnings.warn(
            "The model predicts one class for nearly all series that it was trained on, and its loss is no better than "
            "that of a constant prediction. It is trained again from other weights, without weight decay, at a "
            f"learning rate of {settings.optimizer.learning_rate:g}.",
            TrainingWarning,
            stacklevel=4,
        )
        another = replace(training, settings=settings, seed=training.seed + len(tries))
        tries.append((another, another(windows)))
        collapsed.append(_is_collapsed(another, windows, tries[-1][1]))
    best = min(range(len(tries)), key=lambda i: tries[i][1].best_loss)
    if collapsed[best]:
        warnings.warn(
            "The model predicts one class for nearly all series that it was trained on: it has learned nothing that "
            "tells them apart. Look at the labels, try other depths and steps, or more `epochs`.",
            TrainingWarning,
            stacklevel=4,
        )
    if len(tries) == 1:  # whose optimizer may keep its learning rate to itself
        return state, []
    records = [
        {
            "learning_rate": float(one.settings.optimizer.learning_rate),
            "weight_decay": float(one.settings.optimizer.weight_decay),
            "epochs": state.epoch,
            "monitored": float(state.best_loss),
            "collapsed": collapsed[i],
            "kept": i == best,
        }
        for i, (one, state) in enumerate(tries)
    ]
    return tries[best][1], records


def _is_collapsed(training: Training, windows: Windows, state: TrainingState) -> bool:
    steps = state.epoch * -(-len(training.data.training) // training.settings.batch_size)
    if training.data.training.target.dtype.kind != "i" or not state.best_epoch or steps < _FEWEST_STEPS:
        return False
    examples = training.examples(state.best, training.data.training, windows)
    target, weight = np.asarray(examples.target), examples.weight
    weight = None if weight is None else np.asarray(weight)
    # Spares most trainings the predictions. An epoch's loss is that of weights on the move: the best epoch's alone may
    # be from before the collapse.
    losses = [state.history[epoch - 1]["loss"] for epoch in (state.best_epoch, state.epoch)]
    if max(losses) < 0.9 * constant_loss(target, weight):
        return False
    found = has_collapsed(predict(state.best, examples, mesh=training.mesh), target, weight)
    return Processes(training.mesh).agree(found)


def _can_be_gentler(training: Training) -> bool:
    return training.settings.optimizer.learning_rate is not None  # else it is inside an optimizer of Optax


def _gentler(optimizer: Any) -> Any:
    """Half the rate, and no weight decay."""
    changes = {"learning_rate": optimizer.learning_rate / 2}
    return replace(optimizer, **changes | ({"weight_decay": 0.0} if isinstance(optimizer, AdamW) else {}))


def has_collapsed(
    logits: Float[np.ndarray, "samples *cuts classes"],
    target: Int[np.ndarray, "samples *cuts"],
    weight: Float[np.ndarray, "samples"] | None = None,
) -> bool:
    """Whether predictions on the training set are nearly all one class, though the targets are not, and no better than
    a constant.

    >>> target = np.array([0, 1, 0, 1])
    >>> has_collapsed(np.zeros((4, 2)), target), has_collapsed(np.eye(2)[target], target)
    (True, False)
    """
    known = target >= 0
    predicted, classes = logits.argmax(-1)[known], target[known]
    share = np.bincount(predicted).max() / len(predicted)
    if share < _ONE_CLASS or share <= np.bincount(classes).max() / len(classes):
        return False
    losses = -np.take_along_axis(
        scipy.special.log_softmax(logits.astype(np.float64), axis=-1), np.maximum(target, 0)[..., None], axis=-1
    )[..., 0]
    weights = example_weights(target, weight)
    return bool((weights * losses)[known].sum() >= _NO_BETTER * constant_loss(target, weight))


def constant_loss(
    target: Int[np.ndarray, "samples *cuts"], weight: Float[np.ndarray, "samples"] | None = None
) -> float:
    """The cross-entropy of predicting the frequencies of the classes, whatever the series.

    >>> round(constant_loss(np.array([0, 0, 0, 1])), 3)
    0.562
    """
    known = target >= 0
    weights = example_weights(target, weight)[known]
    return float(scipy.special.entr(np.bincount(target[known], weights)).sum())


def example_weights(target: np.ndarray, weight: np.ndarray | None) -> np.ndarray:
    """How much each target counts in the loss, in all 1: examples by their weight, their known targets alike."""
    known = target >= 0
    own = np.ones(len(target)) if weight is None else np.asarray(weight, np.float64)
    own = own.reshape(-1, *[1] * (target.ndim - 1))
    counts = known.reshape(len(target), -1).sum(1).reshape(own.shape)
    weights = np.where(known, own / np.maximum(counts, 1), 0.0)
    return weights / weights.sum()
