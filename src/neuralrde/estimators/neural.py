"""What the neural classifier and regressor share: parameters, models, saving. `fitting.py` trains them."""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, ClassVar, Self

import equinox as eqx
import jax
import numpy as np
from jax.core import Tracer
from jax.sharding import Mesh
from sklearn.utils.validation import check_is_fitted

from ..models import Ensemble, MultiScaleRDE, Recommended, as_model
from ..models.base import model_class
from ..paths import Windows
from ..registry import FROM_DATA, Config, accepted
from ..stores import Store
from ..training import (
    LOSSES,
    AbstractAugmentation,
    AbstractLoss,
    FunctionLoss,
    Listener,
    interrupts_between_steps,
)
from ..training.archive import arrays_of, with_arrays
from . import fitting
from .base import SeriesEstimator, Streaming
from .closed_form import LogSignatureClassifier, LogSignatureRegressor
from .division import Samples
from .families import is_auto
from .learned import check_file
from .parameters import Hidden, check_augmentation, check_flag, check_number, check_whole
from .sources import AtPoints, VersionOutputs
from .stored import SeriesOnDisk


class _Learned:
    """What a neural estimator learns beside its model, and saves. Fields of a dataclass would become parameters."""

    windows_: Windows
    config_: Config
    members_: int
    blend_: list[float]
    loss_: AbstractLoss
    augmentation_: AbstractAugmentation | None
    per_time_: bool
    outputs_: int
    path_channels_: int
    history_: list[dict[str, Any]]
    trials_: list[dict[str, Any]]
    best_epoch_: int
    validation_loss_: float
    label_share_: float
    restarts_: list[dict[str, Any]]


@dataclass(kw_only=True, eq=False, repr=False)
class BaseNeuralRDE(_Learned, Streaming, SeriesEstimator):
    """A neural differential equation with scikit-learn's interface. Subclasses define the targets.

    Args:
        model: a short name such as "log-ncde" (`neuralrde.models.MODELS` has all), a class, or a class with options,
            `Config(NeuralRDE, state=64)`. Any Equinox module will do. "auto" compares families by cross-validation,
            in half of `time_budget`, and takes the best; `trials_` holds the results.
        members: how many models are trained side by side. Each leaves out a part of the series, and their outputs are
            averaged. None trains 4 of `MultiScaleRDE` and one of any other model.
        closed_form: whether to blend the closed form (`LogSignatureClassifier`, `LogSignatureRegressor`) into an
            ensemble's predictions. Series that were left out decide its weight. If it makes no error on any of 30 or
            more, no neural model is trained. False trains one in any case.
        transform: prepares the series: "standard", or a transform of your own, `Compose(...)`.
        windows: `Windows(step=..., depth=...)`, a number of points, or "auto" to choose step and depth by validation;
            None takes the model's usual ones: about 32 windows and depth 2, or short windows of several scales.
        loss: a short name, a loss, or a function of one prediction and one target; None takes the usual one.
        optimizer: `AdamW(learning_rate=..., weight_decay=...)`, or any of Optax's.
        augmentation: `TimeStretch(rate=True, ...)`, its short name, or one of your own. Training then sees changed
            versions of the series and targets, and predictions may combine several versions. None changes nothing.
        epochs: the largest number of passes over the training set; None takes the model's usual number of steps.
        batch_size: examples per step.
        validation_fraction: the share of the series that is held out. They decide when to stop, which weights to keep,
            and "auto". Fewer than 30 series, or 30 groups, are too few to tell epochs apart, so none are held out then:
            training runs to its end and keeps the weights with the best training loss. "auto" holds out what it can,
            and then trains with all series. Ensembles hold out nothing, because every member leaves out a part.
        shuffle: whether the held-out series are drawn at random, in proportion to the classes. False takes the last
            ones, for series in order of time. `fit(..., groups=...)` keeps groups together.
        patience: epochs without a better validation loss after which training stops; None never stops early.
        time_budget: seconds after which training stops; a search takes half of them. None sets no limit. Runs stopped
            by a time budget are not reproducible.
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
        trials_: one record per trial of a search.
        best_epoch_, validation_loss_: the epoch and the monitored loss of the weights that were kept.
        label_share_: with labels at points, the share of labels that stand at windows' ends and are trained on.
        restarts_: one record per training, if the first one predicted a single class and others followed.
    """

    model: Any = Config(MultiScaleRDE)  # noqa: RUF009 (immutable)
    members: int | None = None
    closed_form: bool = True
    transform: Any = "standard"
    windows: Any = None
    loss: Any = None
    optimizer: Any = "adamw"
    augmentation: Any = None
    epochs: int | None = None
    batch_size: int = 32
    validation_fraction: float = 0.15
    shuffle: bool = True
    patience: int | None = 20
    time_budget: float | None = None
    warm_start: bool = False
    random_state: Any = None
    verbose: bool | None = None

    _parts: ClassVar = {name: name for name in ("model", "transform", "windows", "loss", "optimizer", "augmentation")}
    _defaults: ClassVar[dict[str, Any]] = {"windows": Windows()}
    members_, blend_, closed_form_, augmentation_ = 1, [0.0, 1.0], None, None
    _learned = (*SeriesEstimator._learned, *_Learned.__annotations__)
    _task: ClassVar[str]

    def __init_subclass__(cls, **options: Any):
        """`help` shows the parameters of both, too."""
        super().__init_subclass__(**options)
        shared = (BaseNeuralRDE.__doc__ or "").partition("    Args:\n")[2]
        parameters, _, learned = shared.partition("    Attributes:\n")
        own = (cls.__doc__ or "").replace("    Args:\n", f"    Args:\n{parameters.rstrip()}\n", 1)
        cls.__doc__ = own.replace("    Attributes:\n", f"    Attributes:\n{learned.rstrip()}\n", 1)

    # Defined by subclasses.

    def _metric(self) -> Callable:
        raise NotImplementedError

    def _weights(self, target: np.ndarray, training: np.ndarray) -> np.ndarray | None:
        """How much each example counts; may depend on the training targets."""
        return None

    def _calibrate(self, held_out: Samples | None) -> None:
        """Learn from held-out series how wide intervals must be; None forgets what was learned."""

    def _calibrate_with(
        self, versions: Sequence[VersionOutputs], target: np.ndarray, groups: np.ndarray | None = None
    ) -> None:
        """Learn the same from outputs for series that were left out of training."""

    # Fitting.

    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        *,
        groups: Any = None,
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
            validation: another `(X, y)`, or another store, to decide about stopping; None takes `validation_fraction`
                of X. Fewer than 30 series decide nothing: none of X are held out then, and given ones are only
                reported in `history_`.
            checkpoint: a file for the state of training; with `resume=True` training goes on from it.
            resume: whether to go on from the checkpoint, if there is one.
            listeners: told of every epoch; see `neuralrde.training`.
            mesh: the devices to train and predict on, as `neuralrde.devices.device_mesh` makes it; None takes all.
        """
        with interrupts_between_steps():
            fitting.fit(
                self,
                X,
                y,
                sample_weight,
                groups=groups,
                validation=validation,
                checkpoint=checkpoint,
                resume=resume,
                listeners=listeners,
                mesh=mesh,
            )
        return self

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None, *, listeners: Sequence[Listener] = ()) -> Self:
        """Continue training with one pass over these series, at a constant learning rate, without weight decay.

        The first call learns the transform's statistics, the windows and the classes: let it see series of every kind,
        or call `fit` first. Nothing is held out.
        """
        with interrupts_between_steps():
            fitting.partial_fit(self, X, y, sample_weight, listeners=listeners)
        return self

    @property
    def n_iter_(self) -> int:
        check_is_fitted(self, "model_")
        return len(self.history_)

    # Predicting.

    def _outputs(self, X: Any) -> tuple[list[VersionOutputs], AtPoints]:
        """The model's outputs, for each series or after every window; several, if an augmentation says so."""
        self._check_fitted()
        return self._source(X, reset=False).outputs(self)

    def _source(self, X: Any, *, reset: bool) -> Any:
        if not isinstance(X, Store):
            return super()._source(X, reset=reset)
        if reset:
            channels = len(X.channels)
            self.flat_, self.n_channels_in_, self.n_features_in_ = False, channels, channels
        return SeriesOnDisk(X)

    def _blended(self, outputs: Any, closed: Callable[[Any], np.ndarray], factor: float = 1.0) -> np.ndarray:
        """The model's outputs, if there is one, blended with those that `closed` computes by the closed form."""
        if self.members_ == 1:
            return outputs
        beside: Any = 0.0
        outputs = 0.0 if self.model_ is None else outputs
        if self.closed_form_ is not None and self.blend_[0] != 0:
            beside = closed(self.closed_form_) * (factor * float(self.closed_form_.model_.sharpness))
        return self.blend_[0] * beside + self.blend_[1] * outputs

    # Models and losses, from the parameters.

    def _as_loss(self, loss: Any) -> AbstractLoss:
        if not callable(loss):
            raise ValueError(
                f"Got loss={loss!r}; expected one of {list(LOSSES)}, a loss such as Huber(), or a function."
            )
        loss = loss if isinstance(loss, AbstractLoss) else FunctionLoss(loss)
        if loss.task not in (None, self._task):
            fitting = [name for name, cls in LOSSES.items() if cls.task == self._task]
            raise ValueError(
                f"Got loss={self.loss!r} for {self._task}; expected one of {fitting}, or a loss of your own for it."
            )
        return loss

    @property
    def _recommended(self) -> Recommended:
        return model_class(self.config_.cls).recommended

    def _build(self, channels: int, windows: Windows, seed: int) -> Any:
        config, step = self.config_, windows.step
        if self.per_time_:
            if "readout" not in accepted(config.cls):
                raise ValueError(
                    f"Got a target at every point and model={config!r}, which has no `readout`; expected a model that "
                    'takes readout="every" and predicts after every window.'
                )
            config = config.with_options(readout="every")
        if windows.every is not None and {"step", "points"} & set(accepted(config.cls)):
            raise ValueError(f"Got every={windows.every} and model={config!r}; expected windows by `step` for it.")
        sizes = {"channels": channels, "outputs": self.loss_.outputs(self.outputs_), "depth": windows.depth}
        sizes |= {} if step is None else {"step": step, "points": step + 1}  # type: ignore
        sizes |= _scales_for(config, windows)
        key = jax.random.key(seed)
        make = _make if isinstance(key, Tracer) else _made  # only its shapes, or its numbers
        return make(key, config, self.members_, sizes)

    def _part(self, name: str) -> Any:
        # Until "auto" has chosen a model, the default stands in for it.
        return Config(MultiScaleRDE) if name == "model" and is_auto(self.model) else super()._part(name)

    def _check_parameters(self) -> SimpleNamespace:
        parts = super()._check_parameters()
        config = parts.model
        config.made_options()  # a short name that there is none of is found here
        given = set(config.options) & set(FROM_DATA)
        if given:
            raise ValueError(
                f"Got model={self.model!r}; expected it without {sorted(given)}, which the estimator knows from "
                "the data and from windows. Write for example windows=Windows(step=16, depth=3)."
            )
        parts.loss = self._as_loss(parts.loss)
        check_augmentation(parts.augmentation, self._task)
        check_whole("members", self.members, high=1000, also=(None,))
        check_flag("closed_form", self.closed_form)
        check_whole("batch_size", self.batch_size)
        check_whole("epochs", self.epochs, also=(None,))
        check_number("validation_fraction", self.validation_fraction, high=0.9)
        check_flag("shuffle", self.shuffle)
        check_flag("warm_start", self.warm_start)
        check_number("time_budget", self.time_budget, above=True, also=(None,))
        check_whole("patience", self.patience, also=(None,))
        return parts

    # Saving. A JAX function in a model cannot be pickled, but arrays can. So the model is built again around them.

    def _check_fitted(self) -> None:
        check_is_fitted(self, "model_")

    def _check_learned(self, parts: SimpleNamespace, numbers: int) -> None:
        check_file(self, parts.transform, numbers)
        self._kept = {name: vars(self)[name] for name in fitting.KEPT}

    def _kind_inside(self) -> Any:
        """The class of `closed_form_`."""
        return {"classification": LogSignatureClassifier, "regression": LogSignatureRegressor}[self._task]

    def _put_inside(self, closed_form: Any) -> None:
        """Take the closed form that a file holds."""
        shared = ("n_channels_in_", "outputs_", "per_time_")
        if any(getattr(self, name) != getattr(closed_form, name) for name in shared) or self.members_ == 1:
            raise ValueError("Got an estimator in closed form inside, which is one of other series")
        self.closed_form_ = closed_form

    @property
    def _only_closed_form(self) -> bool:
        """Whether the closed form alone has a weight in predictions."""
        return self.blend_[0] > 0 == self.blend_[1]

    def _template(self) -> Any:
        """The model's shapes, without its numbers; None if it has no weight."""
        if self._only_closed_form:
            return None
        return eqx.filter_eval_shape(lambda: self._build(self.path_channels_, self.windows_, 0))

    def __getstate__(self):
        state: dict[str, Any] = dict(super().__getstate__())  # type: ignore
        for name in ("_mesh", "_state"):  # devices are those of a process
            state.pop(name, None)
        return state | {"model_": arrays_of(state["model_"])} if "model_" in state else state

    def __setstate__(self, state):
        super().__setstate__(state)
        if isinstance(getattr(self, "model_", None), dict):
            self.model_ = with_arrays(self._template(), self.model_)


BaseNeuralRDE.transform = Hidden("transform")  # the dataclass has taken its default from there


def _make(key, config: Config, members: int, sizes: dict[str, Any]) -> Any:
    if members > 1:
        return Ensemble.of(config, members, key=key, **sizes)
    return as_model(config(key=key, **sizes), **{name: sizes[name] for name in ("depth", "scales") if name in sizes})


# One compilation instead of one for every little array, and a quick one, because it runs once.
_made: Any = eqx.filter_jit(_make, compiler_options={"xla_backend_optimization_level": 0})  # type: ignore


def _scales_for(config: Config, windows: Windows) -> dict[str, Any]:
    """The scales as an option of the model's constructor; an error if it takes none."""
    if windows.scales == (1,):
        return {}
    if "scales" not in accepted(config.cls):
        raise ValueError(
            f"Got windows={windows!r} and model={config!r}, which looks at one window at a time; expected scales=(1,), "
            "or a model whose constructor takes `scales`."
        )
    return {"scales": windows.scales}
