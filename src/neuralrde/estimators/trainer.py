"""Trains neural models, from checked parameters and samples to a `FittedNeural`; `Trainer.fit` reads in order."""

import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import numpy as np
import scipy.optimize
import scipy.special
from jax.sharding import Mesh
from jaxtyping import Float, Int

from .._types import Options
from ..errors import setting, warn
from ..frozen import weights_of
from ..models import AbstractModel, CrossFitted, Ensemble, out_of_fold
from ..models.base import Recommended, model_class
from ..paths import Windows
from ..processes import Processes
from ..registry import Config
from ..signatures import basis_channels
from ..training import (
    AdamW,
    ConstantRate,
    CrossEntropy,
    EachMember,
    Huber,
    Listener,
    RandomChoice,
    Settings,
    Source,
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
from .closed_form import fit_closed_form
from .division import FEWEST_TO_DECIDE, AugmentedSamples, Samples, divide, folds
from .fitted import Blend, FittedClosedForm, FittedNeural, VersionOutputs, calibration_scores
from .inputs import InputDescription
from .saving import from_parts, to_parts
from .targets import TargetCoding, are_known, chosen_threshold, class_weights, share_at_cuts

if TYPE_CHECKING:
    from .neural import BaseNeuralRDE

# A closed form whose error is at most this share of the targets' spread makes none.
_NO_ERROR = 1e-2
# Unless a user says how long to train, an ensemble must, after this share of its epochs, have lowered the closed form's
# loss on left-out series by more than the gain's standard error: on the open sets, where a tenth of the training shows
# nothing, the rest brings nothing. Before that, a loss that is not this many errors above 0 leaves nothing to be seen.
_TRIAL, _PROMISING, _CLEAR = 0.1, 1.0, 2.0
# There is no trial of fewer series with classes: on the league's thirteen first sets, all smaller, ensembles had 78.3 %
# right on average and the closed form 78.7, and a trial takes several times as long as the closed form.
_FEWEST_FOR_CLASSES = 500
# A training of more weights takes gigabytes and hours on most machines, and is a mistaken depth more often than a wish.
MOST_WEIGHTS = 50_000_000
# Measured for a training of large models: weights, the best of them, Adam's moments, gradients and what lies between.
_BYTES_PER_WEIGHT = 108
# A classifier has learned nothing if it predicts one class this often after so many steps.
_ONE_CLASS, _FEWEST_STEPS = 0.98, 50
# What is believed about the factors of a blend before any series has been seen counts as much as this many series.
_PRIOR = 2.0
# For classes: the closed form as it is, because its logits are calibrated already, and of the ensemble what it earns.
_BEFORE = (1.0, 0.0)

Outputs = Float[np.ndarray, "samples outputs"]


@dataclass(frozen=True, kw_only=True)
class Trainer:
    """What a training needs to know: the parameters, checked, and what the samples look like."""

    parameters: "BaseNeuralRDE"
    """With an object for each part."""
    transform: Transform
    """Apart, because scikit-learn takes whatever has an attribute of this name for a transformer."""
    given: Options
    """The parameters that decide what is built, as a user gave them."""
    seed: int
    inputs: InputDescription
    targets: TargetCoding
    listeners: Sequence[Listener]
    mesh: Mesh | None
    processes: Processes
    """Those of the mesh."""
    previous: FittedNeural | None
    """What an earlier `fit` learned, to continue from."""

    @property
    def config(self) -> Config:
        return self.parameters.model if self.previous is None else self.previous.config

    @cached_property
    def recommended(self) -> Recommended:
        return model_class(self.config.cls).recommended

    @property
    def members(self) -> int:
        if self.previous is not None:
            return self.previous.members
        return self.parameters.members or self.recommended.members

    def fit(
        self,
        samples: Samples,
        validation: Samples | None = None,
        *,
        checkpoint: str | os.PathLike | None = None,
        resume: bool = False,
    ) -> FittedNeural:
        """Divide, prepare, cut into windows, fit the closed form, train, blend, calibrate.

        Args:
            samples: the training set, or what is divided into training and validation set.
            validation: a validation set that a user gave.
            checkpoint, resume: see `neuralrde.training.fit`.
        """
        # Divide. From here on everything is learned from the training set alone.
        training, held_out = self._divided(samples) if validation is None else (samples, validation)
        if self.members > 1:  # every member leaves out another part
            how: Options = {"groups": training.groups, "shuffle": self.parameters.shuffle, "seed": self.seed}
            training = replace(training, fold=folds(training.target, self.members, **how))
        held_out = None if held_out is None else self._weighted(held_out, training)
        training = self._weighted(training, training)

        # Prepare, choose windows, and fit the closed form.
        fitted, prepared = self._prepared(training)
        closed, left_out = self._closed_form(fitted, training)

        # Train and blend, unless nothing can be gained.
        nothing = None
        if closed is not None and self.previous is None:
            nothing = self.processes.agree(self._nothing_to_gain(left_out, training))
        if nothing is not None:
            fitted = self._closed_form_alone(fitted, closed, left_out, training, nothing)
        else:
            saved: Options = {"checkpoint": checkpoint, "resume": resume}
            fitted = self._trained_and_blended(fitted, training, prepared, held_out, closed, left_out, **saved)

        # Calibrate.
        if held_out is not None:
            threshold = fitted.threshold
            if self.parameters.threshold is not None:
                versions = fitted.outputs(held_out.source).versions
                outputs = np.mean([version.outputs for version in versions], axis=0)
                threshold = self._threshold(fitted, outputs, held_out.target)
            fitted = replace(fitted, scores=fitted.calibration(held_out), threshold=threshold)
        if fitted.threshold is None and self.parameters.threshold is not None:
            chosen_threshold(self.parameters.threshold, None, training.target)  # which says what is missing
        return fitted

    def partial_fit(self, samples: Samples) -> FittedNeural:
        """Train for one pass over these series."""
        if samples.source.whole() is None:
            raise ValueError("Got a store for `partial_fit`; expected series, or `fit`, which reads a store in parts.")
        samples = self._weighted(samples, samples)
        fitted, prepared = self._prepared(samples)
        # Nobody knows how many batches will come. So there is no schedule, no weight decay and no time budget.
        earlier = None if self.previous is None else self.previous.training
        optimizer = replace(self.parameters.optimizer, schedule=ConstantRate())
        optimizer = replace(optimizer, weight_decay=0.0) if isinstance(optimizer, AdamW) else optimizer
        changes: Options = {"patience": None, "time_budget": None, "optimizer": optimizer}
        settings = self._settings(len(samples), epochs=1 if earlier is None else earlier.epoch + 1, **changes)
        state, _, built = self._trained(fitted, samples, prepared, settings, state=earlier)
        # Keep the last weights: losses of different batches cannot be compared.
        fitted = _with_state(fitted, replace(state, best=state.model), built)
        history, blend, threshold = [], Blend(), None
        if self.previous is not None:
            history, blend, threshold = self.previous.history, self.previous.blend, self.previous.threshold
        if threshold is None and self.parameters.threshold is not None:
            chosen_threshold(self.parameters.threshold, None, samples.target)  # nothing is held out
        history = [*history, {**state.history[-1], "epoch": len(history) + 1}]
        return replace(fitted, history=history, blend=blend, threshold=threshold, training=state)

    def _divided(self, samples: Samples) -> tuple[Samples, Samples | None]:
        """The training and the validation set, which is None if it would be too small to decide anything."""
        fraction = self.parameters.validation_fraction
        few = len(samples) * fraction < 2 or samples.units * fraction < FEWEST_TO_DECIDE
        if self.members > 1 or few:
            return samples, None
        rows, held_out = divide(
            samples.series,
            samples.target,
            fraction=fraction,
            groups=samples.groups,
            shuffle=self.parameters.shuffle,
            seed=self.seed,
        )
        if samples[held_out].units < FEWEST_TO_DECIDE:
            return samples, None
        return samples[rows], samples[held_out]

    def _weighted(self, samples: Samples, training: Samples) -> Samples:
        """Each series counts by itself and by its class; "balanced" counts the classes of the training set."""
        weight = class_weights(self.parameters.class_weight, self.targets, samples.target, training.target)
        if weight is not None and samples.weight is not None:
            weight = weight * samples.weight
        return samples if weight is None else replace(samples, weight=weight)

    def _augmented(self, training: Samples) -> AugmentedSamples | None:
        augmentation = self.parameters.augmentation
        return None if augmentation is None else AugmentedSamples(augmentation, training, self.seed)

    def _all_targets(self, training: Samples) -> np.ndarray:
        """The targets of all versions of the training set, for statistics."""
        versions = self._augmented(training)
        return training.target if versions is None else versions.targets()

    def _prepared(self, training: Samples) -> tuple[FittedNeural, Samples]:
        """All that is learned before a model is trained, and the prepared training set."""
        previous, config = self.previous, self.config
        if previous is not None:
            transform, loss, windows = previous.transform, previous.loss, previous.windows
            source = training.source.prepared(transform)
        else:
            transform, source = training.source.fit_and_prepare(self.transform)
            loss = self.parameters.loss.fit(self._all_targets(training))
            usual = self.given["windows"] is None
            wanted = self.recommended.windows(source.n_channels) if usual else self.parameters.windows
            windows = source.resolved(wanted)
            if self.recommended.options is not None:
                number = int(np.median(source.window_counts(windows)))
                config = Config(config.cls, **self.recommended.options(number) | config.options)
        prepared, share = replace(training, source=source), 1.0
        if self.targets.per_time:
            share = share_at_cuts(source.series, are_known(prepared.target), windows)
            _check_share(share, windows)
        fitted = FittedNeural(
            inputs=self.inputs,
            targets=self.targets,
            transform=transform,
            windows=windows,
            config=config,
            members=self.members,
            loss=loss,
            augmentation=self.parameters.augmentation,
            n_path_channels=source.n_channels,
            label_share=share,
            given=self.given if previous is None else previous.given,
            mesh=self.mesh,
        )
        check_size(fitted)
        return fitted, prepared

    # The closed form, and its place in the blend.

    def _closed_form(self, fitted: FittedNeural, training: Samples) -> tuple[FittedClosedForm | None, Any]:
        """The closed form, and its outputs for each series, had that been left out; None where it has no part."""
        suits = isinstance(fitted.loss, CrossEntropy | SquaredError | Huber) and not self.targets.per_time
        wanted = self.parameters.closed_form and self.members > 1
        if not (wanted and suits) or training.source.whole() is None:
            return None, None
        return fit_closed_form(training, self.inputs, self.targets)

    def _nothing_to_gain(self, left_out: Outputs, training: Samples) -> str | None:
        """Why no model could be seen to do better on left-out series than the closed form; None if one could."""
        if training.units < FEWEST_TO_DECIDE:
            return None
        untouched = self.parameters.epochs is None and self.parameters.members is None and not self.config.options
        if self.targets.classes is not None and len(training) < _FEWEST_FOR_CLASSES and untouched:
            return (
                f"Of {len(training)} series, fewer than {_FEWEST_FOR_CLASSES}, a neural ensemble tells classes apart "
                "no better than the closed form on average, by all that we have measured: none is trained. Write "
                f"{setting('epochs', self._settings(len(training)).epochs)} to train one"
            )
        target, wrong = training.target, 0
        if self.targets.classes is None:
            errors = np.nanmean((left_out - target) ** 2, axis=0)
            nothing = (errors <= _NO_ERROR**2 * np.nanvar(target, axis=0)).all()
        else:
            wrong, searched = int((left_out.argmax(axis=1) != target).sum()), self.parameters.epochs is None
            nothing = not wrong or (searched and _significance(_losses(left_out, target), training) < _CLEAR)
        if not nothing:
            return None
        errors, luck = (wrong, " that could be told from luck") if wrong else ("no", "")
        return (
            f"The closed form makes {errors} error{'s' * (wrong > 1)} on the {len(training)} series when they are left "
            f"out: there is nothing to gain{luck}, and no neural model is trained"
        )

    def _closed_form_alone(
        self, fitted: FittedNeural, closed: FittedClosedForm | None, left_out: Outputs, training: Samples, why: str
    ) -> FittedNeural:
        """With the closed form alone, whose predictions for left-out series calibrate it."""
        Listeners(self.listeners).say(f"{why}. Write {setting('closed_form', False)} for a neural model alone.")
        return self._decided(fitted, self._agreed(closed, (1.0, 0.0)), left_out, training)

    def _trained_and_blended(
        self,
        fitted: FittedNeural,
        training: Samples,
        prepared: Samples,
        held_out: Samples | None,
        closed: FittedClosedForm | None,
        left_out: Outputs | None,
        **saved: Any,
    ) -> FittedNeural:
        """With a trained model; of an ensemble blended with the closed form, unless that promises to be as good alone.

        Every member of an ensemble has left out a part of the series, and ridge regression knows in closed form what
        it would have predicted for each series without it. So there are honest predictions of both for all series, and
        none had to be held out. A part without weight is not kept.
        """
        # Without a validation set that decides, train to the end: its own loss cannot say when to stop.
        decides = held_out is not None and len(held_out) >= FEWEST_TO_DECIDE
        settings = self._settings(len(training), **({} if decides else {"patience": None}))
        on_trial = closed is not None and self.previous is None and self.parameters.epochs is None
        trial, failed = math.ceil(_TRIAL * settings.epochs) if on_trial else None, False

        def fails_trial(state: TrainingState, examples: Source) -> bool:
            nonlocal failed
            if state.epoch == trial and left_out is not None:
                outputs = predict(state.model, examples, mesh=self.mesh)
                failed = self.processes.agree(not self._earns(outputs, left_out, training))
            return failed

        options: Options = {"held_out": held_out, "enough": fails_trial, "decides": decides, **saved}
        state, examples, built = self._trained(fitted, training, prepared, settings, **options)
        if failed and left_out is not None:
            why = (
                f"After {trial} of {settings.epochs} epochs the neural model promises no better than what the closed "
                f"form predicts for left-out series, so that training ends here. Write "
                f"{setting('epochs', settings.epochs)} to train to the end"
            )
            fitted = replace(fitted, history=list(state.history))
            return self._closed_form_alone(fitted, closed, left_out, training, why)
        if self.members == 1:
            self._warn_if_one_class(state, examples)
        elif not decides:
            # Keep the last weights: with dropout, an epoch's loss does not tell better weights from worse.
            state = replace(state, best=state.model)
        fitted = _with_state(fitted, state, built)
        if self.members == 1 or self.targets.per_time:
            return fitted
        outputs = predict(state.model, examples, mesh=self.mesh)
        neural, beside, known = _left_out_of_both(outputs, left_out, training)
        blend = Blend()
        if isinstance(fitted.loss, CrossEntropy) or closed is not None:
            blend = self._agreed(closed, self._factors(beside, neural, known))
        return self._decided(fitted, blend, blend(neural, beside), known)

    def _factors(self, closed: Outputs, neural: Outputs, samples: Samples) -> list[float]:
        factors = class_factors if self.targets.classes is not None else number_factors
        return factors(closed, neural, samples.target, samples.weight)

    def _earns(
        self, outputs: Float[np.ndarray, "samples members outputs"], left_out: Outputs, training: Samples
    ) -> bool:
        """Whether the ensemble promises to better the closed form's predictions for left-out series."""
        neural, closed, known = _left_out_of_both(outputs, left_out, training)
        of_closed, of_neural = self._factors(closed, neural, known)
        blended = Blend(factors=(of_closed, of_neural))(neural, closed)
        return _significance(_losses(closed, known.target) - _losses(blended, known.target), known) > _PROMISING

    def _agreed(self, closed: FittedClosedForm | None, factors: Sequence[float]) -> Blend:
        """The blend of the first process: linear algebra may round differently on another machine."""
        if self.processes.count > 1:
            parts, factors = self.processes.agree((None if closed is None else to_parts(closed), list(factors)))
            closed = None if parts is None else from_parts(FittedClosedForm, *parts)
        return Blend(closed if factors[0] > 0 else None, (float(factors[0]), float(factors[1])))

    def _decided(self, fitted: FittedNeural, blend: Blend, outputs: Outputs, left_out: Samples) -> FittedNeural:
        """With a blend, and calibrated by its outputs for series that were left out of all its parts."""
        scores, model = None, None if blend.only_closed_form else fitted.model
        if self.targets.classes is None:
            scores = calibration_scores(fitted.loss, [VersionOutputs(outputs)], left_out.target, left_out.groups)
        threshold = self._threshold(fitted, outputs, left_out.target)
        return replace(fitted, model=model, blend=blend, scores=scores, threshold=threshold)

    def _threshold(self, fitted: FittedNeural, outputs: Outputs, target: np.ndarray) -> float | None:
        if self.parameters.threshold is None:
            return None
        likely = fitted.probabilities(fitted.one_per_series(outputs))[:, 1]
        return chosen_threshold(self.parameters.threshold, likely, target)

    # Training.

    def _settings(self, samples: int, **changes: Any) -> Settings:
        batch_size, epochs = self.parameters.batch_size, self.parameters.epochs
        if epochs is None:
            epochs = max(self.recommended.epochs, -(-self.recommended.steps // -(-samples // batch_size)))
        usual: Options = {"epochs": epochs, "batch_size": batch_size, "seed": self.seed}
        usual |= {name: getattr(self.parameters, name) for name in ("optimizer", "patience", "time_budget")}
        return Settings(**usual | changes)

    def _trained(
        self,
        fitted: FittedNeural,
        training: Samples,
        prepared: Samples,
        settings: Settings,
        *,
        held_out: Samples | None = None,
        enough: Callable[[TrainingState, Source], bool] = lambda state, examples: False,
        **options: Any,
    ) -> tuple[TrainingState, Source, AbstractModel]:
        """The state after training, the examples of the series as they are, and the model before training."""
        learned = None if self.previous is None else self.previous.model
        model = built = fitted.built(self.seed) if learned is None else learned
        shifts, versions = fitted.windows.all_shifts(), self._augmented(training)
        if versions is None:
            examples = [_examples(fitted, model, prepared, shift) for shift in shifts]
            plain = examples[0]
        else:
            examples = [
                _examples(fitted, model, versions.prepared(number, fitted.transform), shifts[number % len(shifts)])
                for number in range(len(versions))
            ]
            plain = _examples(fitted, model, prepared)
        if self.previous is None:  # statistics of the training set
            model = prepared.source.fit_inputs(model, examples[0])
            scale = fitted.loss.label_scale(self._all_targets(training))
            model = model if scale is None else model.with_labels(scale)
        validation = None
        if held_out is not None:
            validation = _examples(fitted, model, held_out.prepared(fitted.transform))
        is_ensemble = isinstance(model, Ensemble)
        state = fit(
            CrossFitted(model) if is_ensemble else model,
            examples[0] if len(examples) == 1 else RandomChoice(examples, self.seed),  # type: ignore (in memory)
            loss=EachMember(fitted.loss) if is_ensemble else fitted.loss,
            validation=validation,
            metric=_metric(fitted, of_members=is_ensemble),
            settings=settings,
            listeners=self.listeners,
            mesh=self.mesh,
            enough=lambda state: enough(state, plain),
            **options,
        )
        return state, plain, built

    def _warn_if_one_class(self, state: TrainingState, examples: Source) -> None:
        """Warn if a classifier predicts one class for nearly all of its training set."""
        steps = state.epoch * -(-len(examples) // self.parameters.batch_size)
        if self.targets.classes is None or self.targets.per_time or not state.best_epoch or steps < _FEWEST_STEPS:
            return
        counts = np.bincount(np.asarray(examples.target), examples.weight)
        losses = [state.history[epoch - 1]["loss"] for epoch in (state.best_epoch, state.epoch)]
        if max(losses) < 0.9 * scipy.special.entr(counts / counts.sum()).sum():
            return
        predicted = np.bincount(predict(state.best, examples, mesh=self.mesh).argmax(axis=-1))
        if predicted.max() >= _ONE_CLASS * len(examples) > np.bincount(examples.target).max():
            warn(
                "The model predicts one class for nearly all series that it was trained on: it has learned nothing "
                "that tells them apart. Look at the labels, and try a smaller learning rate, less weight decay, other "
                "depths and steps, or more `epochs`.",
                TrainingWarning,
            )


def _check_share(share: float, windows: Windows) -> None:
    """An error if no label stands at the end of a window, and a warning if not all do."""
    cut = setting("step", windows.step) if windows.every is None else setting("every", windows.every)
    if share == 0:
        raise ValueError(
            f"Got labels none of which stands at the end of a window of {cut}; expected some, because the model is "
            f"trained on its predictions there. Write {setting('step', 1)} to use all labels."
        )
    if share < 1:
        warn(
            f"With windows of {cut}, {100 * share:.0f} % of the labels stand at a window's end and are trained on. "
            f"Write {setting('step', 1)} to use all of them.",
        )


def _examples(fitted: FittedNeural, model: AbstractModel, samples: Samples, shift: int = 0) -> Source:
    """A model's inputs and targets, from prepared samples. Windows end at labels too, where these are sparse."""
    per_time, extra = fitted.targets.per_time, []
    if isinstance(model, Ensemble):
        extra = [np.full(len(samples), -1, np.int32) if samples.fold is None else samples.fold]
    return samples.source.examples(
        model,
        fitted.windows,
        samples.target,
        weight=samples.weight,
        extra_inputs=extra,
        shift=shift,
        label_points=are_known(samples.target) if per_time and fitted.label_share == 1 else None,
        per_time=per_time,
    )


def _metric(fitted: FittedNeural, *, of_members: bool) -> Callable[[np.ndarray, np.ndarray], float]:
    """The share of right classes, or the error of numbers; of an ensemble, that of the members' mean."""

    def metric(outputs: np.ndarray, target: np.ndarray) -> float:
        outputs = outputs.mean(axis=1) if of_members else outputs
        return accuracy(outputs, target) if is_class else rmse(fitted.loss.predict(outputs), target)

    is_class = fitted.targets.classes is not None
    metric.__name__ = "accuracy" if is_class else "rmse"
    return metric


def _with_state(fitted: FittedNeural, state: TrainingState, built: AbstractModel) -> FittedNeural:
    """The fitted value with the model and the history that a training has led to."""
    best = state.best.ensemble if isinstance(state.best, CrossFitted) else state.best
    # Built as loading builds it, so that a loaded model is the same in every respect.
    model = with_arrays(built, arrays_of(best))
    history = list(state.history)
    return replace(fitted, model=model, history=history, best_epoch=state.best_epoch, validation_loss=state.best_loss)


def check_size(fitted: FittedNeural) -> None:
    """Raise if the model that is to be trained has too many weights."""
    (depth, scales), channels = fitted.windows.looks.values(), fitted.n_path_channels
    logs = basis_channels(channels, depth, scales=scales)
    # A model has at least a weight for each of them; the exact number is that of its shapes, if they can be had.
    weights = logs
    if logs <= MOST_WEIGHTS:
        weights = sum(leaf.size for leaf in jax.tree.leaves(eqx.filter_eval_shape(weights_of, fitted.shapes())))
        if weights <= MOST_WEIGHTS:
            return
    lower = ""
    if max(fitted.windows.depths) > 1:
        less = tuple(max(1, n - 1) for n in depth) if isinstance(depth, tuple) else depth - 1
        lower = f"depth={less} ({basis_channels(channels, less, scales=scales):,} log-signature channels), "
    raise ValueError(
        f"Got depth {depth} of {channels} channels, time included, which has {logs:,} log-signature channels: a model "
        f"of {weights / 1e6:,.0f} million weights, some {weights * _BYTES_PER_WEIGHT / 1e9:,.0f} GB in training; "
        f"expected at most {MOST_WEIGHTS / 1e6:.0f} million. Write {lower}fewer channels, or a smaller state or width."
    )


def _left_out_of_both(
    outputs: Float[np.ndarray, "samples members outputs"], left_out: Outputs | None, training: Samples
) -> tuple[Outputs, Outputs, Samples]:
    """What an ensemble and the closed form say of series that they have not seen, and these series."""
    assert training.fold is not None
    known = training.fold >= 0
    neural = out_of_fold(outputs, training.fold).astype(np.float64)[known]
    return neural, np.zeros_like(neural) if left_out is None else left_out[known], training[known]


def _losses(outputs: Outputs, target: np.ndarray) -> Float[np.ndarray, "samples"]:
    """The log loss of each series; of numbers, the squared error in units of each output's spread."""
    if target.dtype.kind == "f":
        spread = np.nanstd(target, axis=0)
        return np.nansum(((outputs - target) / np.where(spread > 0, spread, 1.0)) ** 2, axis=1)
    return scipy.special.logsumexp(outputs, axis=1) - outputs[np.arange(len(target)), target]


def _significance(gains: Float[np.ndarray, "samples"], samples: Samples) -> float:
    """The sum of what all series gain, in its standard errors; a group of series counts as one."""
    gains = gains if samples.weight is None else gains * samples.weight
    if samples.groups is not None:
        gains = np.bincount(np.unique(samples.groups, return_inverse=True)[1], gains)
    return float(gains.sum() / max(np.sqrt(len(gains)) * gains.std(), 1e-300))


# The factors of the closed form's and an ensemble's outputs in a prediction, as both earn them on left-out series. Two
# numbers are chosen, which even a few series can decide.


def class_factors(
    closed: Outputs, neural: Outputs, target: Int[np.ndarray, "samples"], weight: np.ndarray | None = None
) -> list[float]:
    """The factors of both logits with the smallest log loss, none below zero; of few series, near (1, 0).

    >>> right, noise = np.eye(2)[[0, 1, 0, 1] * 25] * 4, np.random.default_rng(0).normal(size=(100, 2)) * 4
    >>> closed, neural = class_factors(right, noise, np.array([0, 1, 0, 1] * 25))
    >>> closed > 1 and neural < 0.2
    True
    """
    rows, total = np.arange(len(target)), len(target)
    used = closed.any()
    before = np.array(_BEFORE if used else (0.0, 1.0))

    def loss(factors: np.ndarray) -> float:
        logits = factors[0] * closed + factors[1] * neural
        losses = scipy.special.logsumexp(logits, axis=1) - logits[rows, target]
        prior = _PRIOR / total * ((factors - before) ** 2).sum()
        return float(np.average(losses, weights=weight) + prior)

    bounds = [(0.0, 4.0 if used else 0.0), (0.0, 4.0)]
    return [float(one) for one in scipy.optimize.minimize(loss, before, bounds=bounds).x]


def number_factors(closed: Outputs, neural: Outputs, target: Outputs, weight: np.ndarray | None = None) -> list[float]:
    """The shares of both predictions, in all 1, with the smallest squared error, in units of each output's spread.

    >>> target = np.arange(100.0)[:, None]
    >>> [round(share, 1) for share in number_factors(target, target + 50.0 * (-1.0) ** target, target)]
    [1.0, 0.0]
    """
    spread, known = np.nanstd(target, axis=0), ~np.isnan(target)
    spread = np.where(spread > 0, spread, 1.0)
    apart, missed = (np.where(known, one / spread, 0.0) for one in (neural - closed, target - closed))
    weight = np.ones(len(target)) if weight is None else np.asarray(weight, np.float64) / np.mean(weight)
    # Least squares in one number, between 0 and 1, drawn towards one half by as much as a few series would.
    size = _PRIOR * float((apart**2).mean(axis=0).sum())
    sums = float((weight[:, None] * apart * missed).sum()), float((weight[:, None] * apart**2).sum())
    share = float(np.clip((sums[0] + size / 2) / (sums[1] + size), 0.0, 1.0)) if size > 0 else 0.5
    return [1.0 - share, share]
