"""Trains neural models, from checked parameters and samples to a `FittedNeural`; `Trainer.fit` reads in order."""

import math
import os
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import equinox as eqx
import jax
import numpy as np
import scipy.optimize
import scipy.special
from jax.sharding import Mesh
from jaxtyping import Float, Int

from .._types import Options
from ..errors import setting
from ..frozen import weights_of
from ..models import AbstractModel, CrossFitted, Ensemble, out_of_fold
from ..models.base import model_class
from ..paths import Windows
from ..processes import Processes
from ..registry import Config
from ..signatures import basis_channels
from ..training import (
    AbstractAugmentation,
    AbstractLoss,
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

# A closed form whose error is at most this share of the targets' spread makes none.
_NO_ERROR = 1e-2
# Unless a user says how long to train, an ensemble must, after this share of its epochs, have lowered the closed form's
# loss on left-out series by more than the gain's standard error: on the open sets, where a tenth of the training shows
# nothing, the rest brings nothing. Before that, a loss that is not this many errors above 0 leaves nothing to be seen.
_TRIAL, _PROMISING, _CLEAR = 0.1, 1.0, 2.0
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
    """The parameters of a neural estimator, checked, with an object for each part; and what the samples look like."""

    model: Config
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
    threshold: dict | str | None
    seed: int
    given: Options
    """The parameters that decide what is built, as a user gave them."""
    inputs: InputDescription
    targets: TargetCoding
    listeners: Sequence[Listener] = ()
    mesh: Mesh | None = None
    previous: FittedNeural | None = None
    """What an earlier `fit` learned, to continue from."""

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
        selects_weights = held_out is not None and len(held_out) >= FEWEST_TO_DECIDE
        if self._members > 1:  # every member leaves out another part
            fold = folds(training.target, self._members, groups=training.groups, shuffle=self.shuffle, seed=self.seed)
            training = replace(training, fold=fold)
        if held_out is not None:
            held_out = self._weighted(held_out, training)
        training = self._weighted(training, training)

        # Prepare, and choose windows.
        fitted, prepared, shapes = self._prepared(training)

        # Fit the closed form. Where it leaves hardly an error on series that it has not seen, there is nothing to gain.
        closed, left_out = self._closed_form(fitted, training)
        may_end = closed is not None and self.previous is None
        why = Processes(self.mesh).agree(self._nothing_to_gain(left_out, training) if may_end else "")
        if not why:
            # Train. Without a validation set that decides, to the end: its own loss cannot say when to stop.
            settings = self._settings(len(training))
            settings = settings if selects_weights else replace(settings, patience=None)
            trial = math.ceil(_TRIAL * settings.epochs) if may_end and self.epochs is None else 0

            def fails_trial(state: TrainingState, examples: Source) -> bool:
                if state.epoch != trial or not trial:
                    return False
                outputs = predict(state.model, examples, mesh=self.mesh)
                return Processes(self.mesh).agree(not self._earns(outputs, left_out, training))

            state, examples = self._trained(
                fitted,
                training,
                prepared,
                settings,
                held_out=held_out,
                enough=fails_trial,
                decides=selects_weights,
                checkpoint=checkpoint,
                resume=resume,
            )
            if fails_trial(state, examples):
                why = (
                    f"After {trial} of {settings.epochs} epochs the neural model promises no better than what the "
                    "closed form predicts for left-out series, so that training ends here. Write "
                    f"{setting('epochs', settings.epochs)} to train to the end"
                )
                fitted = replace(fitted, history=list(state.history))
        if why:
            Listeners(self.listeners).say(f"{why}. Write {setting('closed_form', False)} for a neural model alone.")
            fitted = self._calibrated(fitted, self._agreed(closed, (1.0, 0.0)), left_out, training)
        else:
            if self._members == 1:
                self._warn_if_one_class(state, examples)
            elif not selects_weights:
                # Keep the last weights: with dropout, an epoch's loss does not tell better weights from worse.
                state = replace(state, best=state.model)
            fitted = _with_state(fitted, state, shapes)

            # Blend.
            if self._members > 1 and not self.targets.per_time:
                fitted = self._blended(
                    fitted, training, predict(state.model, examples, mesh=self.mesh), closed, left_out
                )

        # Calibrate.
        if held_out is not None:
            fitted = replace(fitted, scores=fitted.calibration(held_out))
            if self.threshold is not None:
                versions = fitted.outputs(held_out.source).versions
                outputs = np.mean([version.outputs for version in versions], axis=0)
                fitted = self._with_threshold(fitted, outputs, held_out.target)
        if fitted.threshold is None and self.threshold is not None:
            chosen_threshold(self.threshold, None, training.target)  # which says what is missing
        return fitted

    def partial_fit(self, samples: Samples) -> FittedNeural:
        """Train for one pass over these series."""
        if samples.source.whole() is None:
            raise ValueError("Got a store for `partial_fit`; expected series, or `fit`, which reads a store in parts.")
        previous = self.previous
        samples = self._weighted(samples, samples)
        fitted, prepared, shapes = self._prepared(samples)
        # Nobody knows how many batches will come. So there is no schedule, no weight decay and no time budget.
        settings, earlier = self._settings(len(samples)), None if previous is None else previous.training
        optimizer = replace(settings.optimizer, schedule=ConstantRate())
        optimizer = replace(optimizer, weight_decay=0.0) if isinstance(optimizer, AdamW) else optimizer
        epochs = 1 if earlier is None else earlier.epoch + 1
        settings = replace(settings, epochs=epochs, patience=None, time_budget=None, optimizer=optimizer)
        state, _ = self._trained(fitted, samples, prepared, settings, state=earlier)
        # Keep the last weights: losses of different batches cannot be compared.
        fitted = _with_state(fitted, replace(state, best=state.model), shapes)
        history = [] if previous is None else previous.history
        history = [*history, {**state.history[-1], "epoch": len(history) + 1}]
        blend, threshold = (Blend(), None) if previous is None else (previous.blend, previous.threshold)
        if threshold is None and self.threshold is not None:
            chosen_threshold(self.threshold, None, samples.target)  # nothing is held out
        return replace(fitted, history=history, blend=blend, threshold=threshold, training=state)

    @property
    def _members(self) -> int:
        if self.previous is not None:
            return self.previous.members
        return self.members or model_class(self.model.cls).recommended.members

    def _divided(self, samples: Samples) -> tuple[Samples, Samples | None]:
        """The training and the validation set, which is None if it would be too small to decide anything."""
        fraction = self.validation_fraction
        few = len(samples) * fraction < 2 or samples.units * fraction < FEWEST_TO_DECIDE
        if self._members > 1 or few:
            return samples, None
        rows, held_out = divide(
            samples.series,
            samples.target,
            fraction=fraction,
            groups=samples.groups,
            shuffle=self.shuffle,
            seed=self.seed,
        )
        if samples[held_out].units < FEWEST_TO_DECIDE:
            return samples, None
        return samples[rows], samples[held_out]

    def _weighted(self, samples: Samples, training: Samples) -> Samples:
        """Each series counts by itself and by its class; "balanced" counts the classes of the training set."""
        weight = class_weights(self.class_weight, self.targets, samples.target, training.target)
        if weight is not None and samples.weight is not None:
            weight = weight * samples.weight
        return samples if weight is None else replace(samples, weight=weight)

    def _augmented(self, training: Samples) -> AugmentedSamples | None:
        return None if self.augmentation is None else AugmentedSamples(self.augmentation, training, self.seed)

    def _all_targets(self, training: Samples) -> np.ndarray:
        """The targets of all versions of the training set, for statistics."""
        versions = self._augmented(training)
        return training.target if versions is None else versions.targets()

    def _prepared(self, training: Samples) -> tuple[FittedNeural, Samples, AbstractModel]:
        """All that is learned before a model is trained, the prepared training set, and the shapes of the model."""
        previous, config, loss, windows = self.previous, self.model, self.loss, self.windows
        if previous is not None:
            config, transform, loss, windows = previous.config, previous.transform, previous.loss, previous.windows
            source = training.source.prepared(transform)
        else:
            transform, source = training.source.fit_and_prepare(self.transform)
            loss, recommended = loss.fit(self._all_targets(training)), model_class(config.cls).recommended
            wanted = recommended.windows(source.n_channels) if self.given["windows"] is None else windows
            windows = source.resolved(wanted)
            if recommended.options is not None:
                number = int(np.median(source.window_counts(windows)))
                config = Config(config.cls, **recommended.options(number) | config.options)
        fitted = FittedNeural(
            inputs=self.inputs,
            targets=self.targets,
            transform=transform,
            windows=windows,
            config=config,
            members=self._members,
            loss=loss,
            augmentation=self.augmentation,
            n_path_channels=source.n_channels,
            given=self.given if previous is None else previous.given,
            mesh=self.mesh,
        )
        shapes, prepared = check_size(fitted), replace(training, source=source)
        share = share_at_cuts(source.series, are_known(prepared.target), windows) if self.targets.per_time else 1.0
        cut = setting("step", windows.step) if windows.every is None else setting("every", windows.every)
        if share == 0:
            raise ValueError(
                f"Got labels none of which stands at the end of a window of {cut}; expected some, "
                f"because the model is trained on its predictions there. Write {setting('step', 1)} "
                "to use all labels."
            )
        if share < 1:
            warnings.warn(
                f"With windows of {cut}, {100 * share:.0f} % of the labels stand at a window's end "
                f"and are trained on. Write {setting('step', 1)} to use all of them.",
                stacklevel=4,
            )
        return replace(fitted, label_share=share), prepared, shapes

    # The closed form, and its place in the blend.

    def _closed_form(self, fitted: FittedNeural, training: Samples) -> tuple[FittedClosedForm | None, Any]:
        """The closed form, and its outputs for each series, had that been left out; None where it has no part."""
        suits = isinstance(fitted.loss, CrossEntropy | SquaredError | Huber) and not self.targets.per_time
        if not (self.closed_form and suits and self._members > 1) or training.source.whole() is None:
            return None, None
        return fit_closed_form(training, self.inputs, self.targets)

    def _blended(
        self,
        fitted: FittedNeural,
        training: Samples,
        outputs: Float[np.ndarray, "samples members outputs"],
        closed: FittedClosedForm | None,
        left_out: Outputs | None,
    ) -> FittedNeural:
        """Blended with the closed form, and calibrated, by predictions for series that were left out of both.

        Every member of an ensemble has left out a part of the series, and ridge regression knows in closed form what
        it would have predicted for each series without it. So there are honest predictions of both for all series, and
        none had to be held out. A part without weight is not kept.
        """
        neural, beside, known = _left_out_of_both(outputs, left_out, training)
        blend = Blend()
        if isinstance(fitted.loss, CrossEntropy) or closed is not None:
            blend = self._agreed(closed, self._factors(beside, neural, known))
        fitted = self._calibrated(fitted, blend, blend(neural, beside), known)
        return replace(fitted, model=None if blend.only_closed_form else fitted.model)

    def _factors(self, closed: Outputs, neural: Outputs, samples: Samples) -> list[float]:
        factors = class_factors if self.targets.classes is not None else number_factors
        return factors(closed, neural, samples.target, samples.weight)

    def _nothing_to_gain(self, left_out: Outputs, training: Samples) -> str:
        """Why no model could be seen to do better on left-out series than the closed form; empty if one could."""
        if training.units < FEWEST_TO_DECIDE:
            return ""
        target, wrong = training.target, 0
        if self.targets.classes is None:
            errors = np.nanmean((left_out - target) ** 2, axis=0)
            nothing = (errors <= _NO_ERROR**2 * np.nanvar(target, axis=0)).all()
        else:
            wrong = int((left_out.argmax(axis=1) != target).sum())
            nothing = not wrong or (self.epochs is None and _significance(_losses(left_out, target), training) < _CLEAR)
        if not nothing:
            return ""
        errors, luck = (wrong, " that could be told from luck") if wrong else ("no", "")
        return (
            f"The closed form makes {errors} error{'s' * (wrong > 1)} on the {len(training)} series when they are left "
            f"out: there is nothing to gain{luck}, and no neural model is trained"
        )

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
        processes = Processes(self.mesh)
        if processes.count > 1:
            parts, factors = processes.agree((None if closed is None else to_parts(closed), list(factors)))
            closed = None if parts is None else from_parts(FittedClosedForm, *parts)
        return Blend(closed if factors[0] > 0 else None, (float(factors[0]), float(factors[1])))

    def _calibrated(self, fitted: FittedNeural, blend: Blend, outputs: Outputs, left_out: Samples) -> FittedNeural:
        """With a blend, and calibrated by its outputs for series that were left out of all its parts."""
        scores = None
        if self.targets.classes is None:
            scores = calibration_scores(fitted.loss, [VersionOutputs(outputs)], left_out.target, left_out.groups)
        return self._with_threshold(replace(fitted, blend=blend, scores=scores), outputs, left_out.target)

    def _with_threshold(self, fitted: FittedNeural, outputs: Outputs, target: np.ndarray) -> FittedNeural:
        if self.threshold is None:
            return fitted
        likely = fitted.probabilities(fitted.one_per_series(outputs))[:, 1]
        return replace(fitted, threshold=chosen_threshold(self.threshold, likely, target))

    # Training.

    def _settings(self, samples: int) -> Settings:
        config = self.model if self.previous is None else self.previous.config
        recommended, steps = model_class(config.cls).recommended, -(-samples // self.batch_size)
        return Settings(
            epochs=max(recommended.epochs, -(-recommended.steps // steps)) if self.epochs is None else self.epochs,
            batch_size=self.batch_size,
            optimizer=self.optimizer,
            patience=self.patience,
            seed=self.seed,
            time_budget=self.time_budget,
        )

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
    ) -> tuple[TrainingState, Source]:
        """The state after training, and the examples of the series as they are."""
        learned = None if self.previous is None else self.previous.model
        model = fitted.built(self.seed) if learned is None else learned
        shifts, versions = fitted.windows.all_shifts(), self._augmented(training)
        examples: list[Any]
        if versions is None:
            examples = [_examples(fitted, model, prepared, shift) for shift in shifts]
        else:
            samples = (versions.prepared(number, fitted.transform) for number in range(len(versions)))
            cuts = (shifts[i % len(shifts)] for i in range(len(versions)))
            examples = [_examples(fitted, model, *one) for one in zip(samples, cuts, strict=True)]
        if self.previous is None:  # statistics of the training set
            model = prepared.source.fit_inputs(model, examples[0])
            scale = fitted.loss.label_scale(self._all_targets(training))
            model = model if scale is None else model.with_labels(scale)
        validation = None
        if held_out is not None:
            validation = _examples(fitted, model, held_out.prepared(fitted.transform))
        plain = examples[0] if versions is None else _examples(fitted, model, prepared)
        is_ensemble = isinstance(model, Ensemble)
        state = fit(
            CrossFitted(model) if is_ensemble else model,
            examples[0] if len(examples) == 1 else RandomChoice(examples, self.seed),
            loss=EachMember(fitted.loss) if is_ensemble else fitted.loss,
            validation=validation,
            metric=_metric(fitted, of_members=is_ensemble),
            settings=settings,
            listeners=self.listeners,
            mesh=self.mesh,
            enough=lambda state: enough(state, plain),
            **options,
        )
        return state, plain

    def _warn_if_one_class(self, state: TrainingState, examples: Source) -> None:
        """Warn if a classifier predicts one class for nearly all of its training set."""
        steps = state.epoch * -(-len(examples) // self.batch_size)
        if self.targets.classes is None or self.targets.per_time or not state.best_epoch or steps < _FEWEST_STEPS:
            return
        counts = np.bincount(np.asarray(examples.target), examples.weight)
        losses = [state.history[epoch - 1]["loss"] for epoch in (state.best_epoch, state.epoch)]
        if max(losses) < 0.9 * scipy.special.entr(counts / counts.sum()).sum():
            return
        predicted = np.bincount(predict(state.best, examples, mesh=self.mesh).argmax(axis=-1))
        if predicted.max() >= _ONE_CLASS * len(examples) > np.bincount(examples.target).max():
            warnings.warn(
                "The model predicts one class for nearly all series that it was trained on: it has learned nothing "
                "that tells them apart. Look at the labels, and try a smaller learning rate, less weight decay, other "
                "depths and steps, or more `epochs`.",
                TrainingWarning,
                stacklevel=4,
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


def _with_state(fitted: FittedNeural, state: TrainingState, shapes: AbstractModel) -> FittedNeural:
    """The fitted value with the model and the history that a training has led to."""
    best = state.best.ensemble if isinstance(state.best, CrossFitted) else state.best
    # Built as loading builds it, so that a loaded model is the same in every respect.
    model = with_arrays(shapes, arrays_of(best))
    history = list(state.history)
    return replace(fitted, model=model, history=history, best_epoch=state.best_epoch, validation_loss=state.best_loss)


def check_size(fitted: FittedNeural) -> AbstractModel:
    """The shapes of the model that is to be trained. Raises if it has too many weights."""
    (depth, scales), channels = fitted.windows.looks.values(), fitted.n_path_channels
    logs = basis_channels(channels, depth, scales=scales)
    # A model has at least a weight for each of them; the exact number is that of its shapes, if they can be had.
    weights = logs
    if logs <= MOST_WEIGHTS:
        shapes: Any = fitted.shapes()
        weights = sum(leaf.size for leaf in jax.tree.leaves(eqx.filter_eval_shape(weights_of, shapes)))
        if weights <= MOST_WEIGHTS:
            return shapes
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
