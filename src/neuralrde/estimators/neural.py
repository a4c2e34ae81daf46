"""The neural classifier and regressor: parameters, `fit`, and what is read from `fitted_`. `trainer.py` trains them."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from jax.sharding import Mesh
from sklearn.utils import check_random_state

from .._types import OnePerSeries, Options, Part, Record, Seed, SeriesLike, TableLike, TargetLike
from ..devices import device_mesh, keep_programs, try_all_cores
from ..errors import ParameterError, setting
from ..models import MultiScaleRDE
from ..paths import Windows
from ..paths.checks import check_flag, check_number, check_whole
from ..processes import Processes
from ..registry import FROM_DATA, Config
from ..training import (
    LOSSES,
    AbstractAugmentation,
    AbstractLoss,
    FunctionLoss,
    Listener,
    ProgressBar,
    interrupts_between_steps,
)
from .base import Predicting, SeriesEstimator
from .closed_form import LogSignatureClassifier, LogSignatureRegressor
from .division import Samples, check_several_groups
from .fitted import FittedNeural
from .parameters import Learned
from .sources import HasSource
from .targets import ClassTargets, NumberTargets, check_threshold_suits, class_weights
from .trainer import Trainer

# A fitted estimator was built from these parameters. `warm_start` and `partial_fit` refuse to continue with others.
ARCHITECTURE_PARAMETERS = ("model", "members", "transform", "windows", "loss")


@dataclass(kw_only=True, eq=False, repr=False)
class BaseNeuralRDE(Predicting, SeriesEstimator):
    """A neural differential equation with scikit-learn's interface. Subclasses define the targets.

    Args:
        model: a short name such as "log-ncde" (`neuralrde.models.MODELS` has all), a class, or a class with options,
            `Config(NeuralRDE, state=64)`. Any Equinox module will do.
        members: how many models are trained side by side. Each leaves out a part of the series, and their outputs are
            averaged. None trains 4 of `MultiScaleRDE` and one of any other model.
        closed_form: whether to blend the closed form (`LogSignatureClassifier`, `LogSignatureRegressor`) into an
            ensemble's predictions. Series that were left out decide its weight. If it leaves nothing to be gained,
            no neural model is trained, or training ends early, and `fit` says so. False trains one in any case.
        transform: prepares the series: "standard", or a transform of your own, `Compose(...)`.
        windows: `Windows(step=..., depth=...)`, or a number of points; None takes the model's usual ones: about 32
            windows and depth 2, or short windows of several scales.
        loss: a short name, a loss, or a function of one prediction and one target; None takes the usual one.
        optimizer: `AdamW(learning_rate=..., weight_decay=...)`, or any of Optax's.
        augmentation: `TimeStretch(rate=True, ...)`, its short name, or one of your own. Training then sees changed
            versions of the series and targets, and predictions may combine several versions. None changes nothing.
        epochs: the largest number of passes over the training set; None takes the model's usual number of steps, and
            ends after a tenth of them if the model promises no better than the closed form. The default model is not
            trained on fewer than 500 series with classes, unless epochs or members are given.
        batch_size: examples per step.
        validation_fraction: the share of the series that is held out, to decide when to stop and which weights to keep.
            Fewer than 30 series, or 30 groups, are too few to tell epochs apart, so none are held out then: training
            runs to its end and keeps the weights with the best training loss. Ensembles hold out nothing, because
            every member leaves out a part.
        shuffle: whether the held-out series are drawn at random, in proportion to the classes. False takes the last
            ones, for series in order of time. `fit(..., groups=...)` keeps groups together.
        patience: epochs without a better validation loss after which training stops; None never stops early.
        time_budget: seconds after which training stops; None sets no limit. Runs stopped by a time budget are not
            reproducible.
        warm_start: whether `fit` continues from the weights of the last `fit`, with its transform and windows.
        random_state: a number fixes everything: validation set, initial weights, order of examples. Results are then
            the same to the bit on the same number of cores; on another number sums are rounded differently, and the
            differences grow with training.
        verbose: False shows no progress bar; None shows one on a terminal and in a notebook.

    Attributes:
        model_: the trained model; None if it has no weight in predictions, which are then the closed form's.
        transform_: the fitted transform.
        windows_: the windows that were chosen.
        members_: the number of models that `model_` averages.
        closed_form_: the fitted estimator in closed form, if predictions are blended with one.
        blend_: the factors of the closed form's and the model's outputs in a prediction.
        loss_: the fitted loss.
        augmentation_: the augmentation that `fit` used.
        n_iter_: the number of epochs trained.
        history_: one record per epoch.
        best_epoch_, validation_loss_: the epoch and the monitored loss of the weights that were kept.
        label_share_: with labels at points, the share of labels that stand at windows' ends and are trained on.
    """

    model: Part = Config(MultiScaleRDE)  # noqa: RUF009 (immutable)
    members: int | None = None
    closed_form: bool = True
    transform: Part = "standard"
    windows: Part = None
    loss: Part = None
    optimizer: Part = "adamw"
    augmentation: Part = None
    epochs: int | None = None
    batch_size: int = 32
    validation_fraction: float = 0.15
    shuffle: bool = True
    patience: int | None = 20
    time_budget: float | None = None
    warm_start: bool = False
    random_state: Seed = None
    verbose: bool | None = None

    _parts: ClassVar = {name: name for name in ("model", "transform", "windows", "loss", "optimizer", "augmentation")}
    _defaults: ClassVar[Options] = {"windows": Windows()}
    _kind = FittedNeural
    _closed_form: ClassVar[type[LogSignatureClassifier | LogSignatureRegressor]]
    """The class of `closed_form_`."""
    class_weight: ClassVar[dict | str | None] = None
    threshold: ClassVar[dict | str | None] = None

    model_ = Learned[Any]("model")
    windows_ = Learned[Windows]("windows")
    config_ = Learned[Config]("config")
    members_ = Learned[int]("members")
    blend_ = Learned[tuple[float, float]]("blend.factors")
    loss_ = Learned[AbstractLoss]("loss")
    augmentation_ = Learned[AbstractAugmentation | None]("augmentation")
    n_path_channels_ = Learned[int]("n_path_channels")
    history_ = Learned[list[Record]]("history")
    n_iter_ = Learned[int]("epochs")
    best_epoch_ = Learned[int]("best_epoch")
    validation_loss_ = Learned[float]("validation_loss")
    label_share_ = Learned[float]("label_share")

    @property
    def closed_form_(self) -> Any:
        closed = self.fitted_.blend.closed_form
        return None if closed is None else self._closed_form._of(closed)

    def fit(
        self,
        X: SeriesLike,
        y: TargetLike = None,
        sample_weight: OnePerSeries = None,
        *,
        groups: OnePerSeries = None,
        static: TableLike = None,
        validation: Any = None,
        checkpoint: str | os.PathLike | None = None,
        resume: bool = False,
        listeners: Sequence[Listener] = (),
        mesh: Mesh | None = None,
    ) -> Self:
        """Train on series X and targets y.

        Args:
            X: `(n, length, channels)`, `(n, length)` of one channel, a list of arrays or DataFrames `(length,
                channels)`, or a `neuralrde.Series`. NaN is a missing value. Or a `neuralrde.Store`, whose transform
                and windows are taken; the closed form has no weight then.
            y: one target per series, or one at every point (see the class). None takes those of a store.
            sample_weight: how much each series counts; None counts all alike.
            groups: one per series, such as its patient. All series of a group are trained on, or none; the same holds
                for every member of an ensemble.
            static: what is known of each series as a whole, such as age and sex: a DataFrame, or columns by their
                names, of numbers or words, with gaps. Predictions then take such a table, too.
            validation: another `(X, y)`, `(X, y, sample_weight)` or `(X, y, sample_weight, static)`, or another store,
                to decide about stopping; None takes `validation_fraction`
                of X. Fewer than 30 series decide nothing: none of X are held out then, and given ones are only
                reported in `history_`.
            checkpoint: a file for the state of training; with `resume=True` training goes on from it.
            resume: whether to go on from the checkpoint, if there is one.
            listeners: told of every epoch; see `neuralrde.training`.
            mesh: the devices to train and predict on, as `neuralrde.devices.device_mesh` makes it; None takes all.
        """
        previous = getattr(self, "fitted_", None) if self.warm_start else None
        previous = None if previous is None or previous.model is None else previous
        beside: Options = {"sample_weight": sample_weight, "groups": groups, "static": static}
        with interrupts_between_steps():
            trainer, samples = self._trainer(X, y, previous, listeners, mesh, **beside)
            others = None
            if validation is not None:
                arguments = (validation, None) if isinstance(validation, HasSource) else validation
                if not isinstance(arguments, tuple | list) or len(arguments) not in (2, 3, 4):
                    raise ValueError(
                        f"Got validation of type {type(validation).__name__}; expected (X, y), (X, y, sample_weight), "
                        "(X, y, sample_weight, static), or a store."
                    )
                if isinstance(arguments[0], HasSource) != isinstance(X, HasSource):
                    kind = "a store" if isinstance(X, HasSource) else "series"
                    raise ValueError(
                        f"Got a validation set of another kind than the training set; expected {kind} too."
                    )
                beside = dict(zip(("sample_weight", "static"), arguments[2:], strict=False))
                others = self._samples(*arguments[:2], described=trainer.inputs, coding=trainer.targets, **beside)[0]
            self.fitted_ = trainer.fit(samples, others, checkpoint=checkpoint, resume=resume)
        return self

    def partial_fit(
        self,
        X: SeriesLike,
        y: TargetLike,
        sample_weight: OnePerSeries = None,
        *,
        classes: TargetLike = None,
        static: TableLike = None,
        listeners: Sequence[Listener] = (),
    ) -> Self:
        """Continue training with one pass over these series, at a constant learning rate, without weight decay.

        The first call learns the transform's statistics and the windows: let it see series of every kind, or call `fit`
        first. Of a classifier it learns the classes too, unless `classes` lists all of them. Nothing is held out.
        """
        previous: FittedNeural | None = getattr(self, "fitted_", None)
        if previous is not None and previous.model is None:
            raise ValueError(
                "Got `partial_fit` after a `fit` in which the closed form alone decides, so that there is no neural "
                "model to go on with; expected one. Write `clone(model).set_params(closed_form=False)` and fit that "
                "first."
            )
        with interrupts_between_steps():
            beside: Options = {"sample_weight": sample_weight, "classes": classes, "static": static}
            trainer, samples = self._trainer(X, y, previous, listeners, **beside)
            self.fitted_ = trainer.partial_fit(samples)
        return self

    def _trainer(
        self,
        X: SeriesLike,
        y: TargetLike,
        previous: FittedNeural | None,
        listeners: Sequence[Listener],
        mesh: Mesh | None = None,
        **beside: Any,
    ) -> tuple[Trainer, Samples]:
        """A trainer, and the samples to fit to. Everything is checked here, before anything is computed."""
        if mesh is None:
            try_all_cores()
        keep_programs()
        parameters = self._check_parameters()
        like: Options = {} if previous is None else {"described": previous.inputs, "coding": previous.targets}
        samples, inputs, targets = self._samples(X, y, **beside, **like)
        # Classes without weight are left out here; the others are weighted later, by what is trained on.
        weight = class_weights(self.class_weight, targets, samples.target, samples.target)
        samples = samples.weighted_by(None if weight is None else (weight > 0).astype(np.float32))
        check_several_groups(samples)
        check_threshold_suits(self.threshold, targets)
        given, processes = {name: vars(self)[name] for name in ARCHITECTURE_PARAMETERS}, Processes(device_mesh(mesh))
        trainer = Trainer(
            parameters=parameters,
            transform=vars(parameters)["transform"].expanded(),
            # Without `agree`, every process would draw another seed.
            seed=processes.agree(int(check_random_state(self.random_state).randint(2**31 - 1))),
            given=given,
            inputs=inputs,
            targets=targets,
            listeners=[*listeners, *([] if self.verbose is False else [ProgressBar(always=self.verbose is True)])],
            mesh=mesh,
            processes=processes,
            previous=previous,
        )
        samples.source.check_possible(trainer)
        if previous is None:
            vars(self).pop("fitted_", None)  # so that an interrupted `fit` leaves nothing behind
        for name, first in ((previous and previous.given) or {}).items():
            if given[name] is not first and given[name] != first:
                raise ParameterError(
                    name,
                    given[name],
                    f"{first!r} as in the first `fit`",
                    because="training continues from its weights",
                    remedy="Write warm_start=False, or `clone(model)` before `partial_fit`, for a new model.",
                )
        return trainer, samples

    # Parameters.

    def _check_parameters(self) -> Self:
        checked = super()._check_parameters()
        config, loss = checked.model, checked.loss
        config.made_options()  # a short name that there is none of is found here
        if given := set(config.options) & set(FROM_DATA):
            raise ParameterError(
                "model",
                self.model,
                f"it without {sorted(given)}, which the estimator knows from the data and from windows",
                remedy="Write for example windows=Windows(step=16, depth=3).",
            )
        if not callable(loss):
            raise ParameterError("loss", loss, f"one of {list(LOSSES)}, a loss such as Huber(), or a function")
        checked.loss = loss if isinstance(loss, AbstractLoss) else FunctionLoss(loss)
        if checked.loss.task not in (None, self._task):
            fitting = [name for name, cls in LOSSES.items() if cls.task == self._task]
            raise ValueError(
                f"Got {setting('loss', self.loss)} for {self._task}; expected one of {fitting}, or a loss of your own "
                "for it."
            )
        _check_augmentation(checked.augmentation, self._task)
        check_number("validation_fraction", self.validation_fraction, high=0.9)
        check_number("time_budget", self.time_budget, above=True, also=(None,))
        check_whole("members", self.members, high=1000, also=(None,))
        for name in ("epochs", "patience"):
            check_whole(name, getattr(self, name), also=(None,))
        check_whole("batch_size", self.batch_size)
        for name in ("closed_form", "shuffle", "warm_start"):
            check_flag(name, getattr(self, name))
        return checked

    def _fitted_parameters(self) -> Options:
        # A part that was set after `fit` has no part in what was fitted.
        return super()._fitted_parameters() | (self.fitted_.given or {})

    @classmethod
    def _of(cls, fitted: FittedNeural, parameters: Options | None = None) -> Self:
        estimator = super()._of(fitted, parameters)
        given = {name: vars(estimator)[name] for name in ARCHITECTURE_PARAMETERS}
        estimator.fitted_ = fitted if fitted.given is not None else replace(fitted, given=given)
        return estimator


def _check_augmentation(augmentation: object, task: str) -> None:
    """Raise unless it is None, or an augmentation that suits the task."""
    if augmentation is None:
        return
    if not isinstance(augmentation, AbstractAugmentation):
        raise ParameterError(
            "augmentation",
            augmentation,
            "None, an augmentation such as TimeStretch(), or one of your own, a subclass of AbstractAugmentation",
        )
    if augmentation.scales_targets and task == "classification":
        raise ValueError(
            f"Got {setting('augmentation', augmentation)} for classification; expected one that "
            "leaves targets alone, because classes cannot be multiplied. Write for example "
            "TimeStretch(rate=False)."
        )


def _no_attribute(estimator: BaseNeuralRDE) -> Any:
    raise AttributeError(
        f"{type(estimator).__name__} has no attribute 'transform', because it would look like a method. Its parameter "
        "is `get_params()['transform']`, and the fitted one `transform_`."
    )


# For scikit-learn, what has an attribute `transform` is a transformer. (The dataclass has taken its default already.)
BaseNeuralRDE.transform = property(_no_attribute, lambda self, value: vars(self).update(transform=value))


@dataclass(kw_only=True, eq=False, repr=False)
class NeuralRDEClassifier(ClassTargets, BaseNeuralRDE):
    """Classifies time series by a neural RDE, with scikit-learn's interface.

    X is `(n, length, channels)`, `(n, length)` of one channel, a list of arrays or DataFrames `(length, channels)`, or
    a `neuralrde.Series`; NaN is a missing value. y is one label per series. With labels `(n, length)`, or an array for
    each series, one label per point (NaN, None or "" where there is none), it predicts one for each point, from the
    past only. Windows then end at labels as well, so that all are trained on; where labels are too dense for
    that, those at the windows' ends are, and a warning says their share.

    >>> from neuralrde import Config, NeuralRDE
    >>> from neuralrde.datasets import order_of_events
    >>> data = order_of_events(samples=60, length=64)
    >>> model = NeuralRDEClassifier(windows=8, model=Config(NeuralRDE, state=8, width=16), epochs=20, random_state=0)
    >>> model.fit(data.series.values, data.target).score(data.series.values, data.target) > 0.9
    True

    All other parameters and attributes are those of `BaseNeuralRDE`.

    Args:
        class_weight: None, "balanced", or a dictionary from labels to weights, 0 for a class that should not count.
        threshold: a goal by which to choose the probability from which on the second of two classes is predicted:
            "f1", "balanced_accuracy", {"sensitivity": 0.9} or {"specificity": 0.9}. It is chosen on series that were
            held out, or that members of an ensemble have left out. None predicts the likelier class.

    Attributes:
        classes_: the labels.
        threshold_: as chosen.
    """

    class_weight: dict | str | None = None
    threshold: dict | str | None = None

    _closed_form = LogSignatureClassifier
    _defaults: ClassVar = {**BaseNeuralRDE._defaults, "loss": "cross-entropy"}


@dataclass(kw_only=True, eq=False, repr=False)
class NeuralRDERegressor(NumberTargets, BaseNeuralRDE):
    """Predicts numbers from time series by a neural RDE, with scikit-learn's interface.

    X is `(n, length, channels)`, `(n, length)` of one channel, a list of arrays or DataFrames `(length, channels)`, or
    a `neuralrde.Series`; NaN is a missing value. y is `(n,)` or `(n, outputs)`, with NaN for outputs that are not
    known. With targets `(n, length, outputs)`, for each point, it predicts for each point, from the past only.
    Windows then end at points with a target as well, so that all are trained on; where targets are too dense for that,
    those at the windows' ends are, and a warning says their share.

    The loss is "squared-error", "huber", "quantiles" or "histogram". `predict(X, interval=0.9)` gives intervals that
    held-out series have calibrated; with quantiles or a histogram they are wide where the model is unsure, with the
    others equally wide everywhere.

    >>> from neuralrde import Config, NeuralRDE
    >>> X = np.cumsum(np.random.default_rng(0).normal(size=(60, 65)), axis=1)
    >>> model = NeuralRDERegressor(windows=8, model=Config(NeuralRDE, state=8, width=16), epochs=40, random_state=0)
    >>> model.fit(X, X[:, -1]).score(X, X[:, -1]) > 0.8
    True

    All parameters and other attributes are those of `BaseNeuralRDE`.

    Attributes:
        scores_: how far held-out targets were from predictions, for each output; None before anything calibrated it.
    """

    scores_ = Learned[list[list[float]] | None]("scores")
    _closed_form = LogSignatureRegressor
    _defaults: ClassVar = {**BaseNeuralRDE._defaults, "loss": "squared-error"}

    def calibrate(
        self, X: SeriesLike, y: TargetLike, *, groups: OnePerSeries = None, static: TableLike = None
    ) -> "NeuralRDERegressor":
        """Learn from series that were not trained on how wide intervals must be. Returns the estimator.

        `fit` does so with its validation set, if it has one. Series must be drawn as those to come: where they come
        from patients or machines, take others of them here, and say in `groups` which series belong to which.
        """
        self._check_fitted()
        fitted: FittedNeural = self.fitted_
        like = {"described": fitted.inputs, "coding": fitted.targets}
        samples, _, _ = self._samples(X, y, groups=groups, static=static, **like)
        self.fitted_ = replace(fitted, scores=fitted.calibration(samples))
        return self
