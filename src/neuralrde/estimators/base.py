"""What classifier and regressor share: from X and y to a trained model, and from X to its predictions."""

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Self

import diffrax
import equinox as eqx
import jax
import numpy as np
from jax.sharding import Mesh
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from ..devices import try_all_cores
from ..models import EveryState, FinalState, MeanState, NeuralRDE
from ..paths import Series, Step
from ..paths.windows import first_windows
from ..signatures import log_signature_channels
from ..training import (
    ConstantRate,
    Examples,
    Listener,
    Plateau,
    ProgressBar,
    Settings,
    WarmupCosine,
    predict,
)
from ..training.archive import arrays_of, with_arrays
from ..training.interrupt import interrupts_between_steps
from .at_points import are_known
from .collapse import restarted_if_collapsed
from .division import FEWEST_TO_DECIDE, check_groups, divide
from .file import Saved
from .inputs import as_series
from .learned import check_inputs, check_steps
from .parameters import NamedParameters, check_choice, check_flag, check_number, check_whole
from .preparation import FILLS, Windows, preparation, usual_step, windows_of
from .run import Cut, Part, Parts, Run
from .search import successive_halving
from .size import check_size

READOUTS = {"mean": MeanState, "final": FinalState}
SCHEDULES = {"cosine": WarmupCosine, "plateau": Plateau, "constant": ConstantRate}

# By rule a series is cut into about so many windows, and `step="auto"` tries these.
USUAL_WINDOWS = 32
SEARCHED_WINDOWS = (16, 32, 64, 128)
SEARCHED_DEPTHS = (1, 2, 3)
# By rule so many steps of the optimiser, whatever the number of samples, and at least so many epochs.
USUAL_STEPS, FEWEST_EPOCHS = 1000, 20
# What a model and its windows are built by: a parameter that is set afterwards counts from the next `fit` on.
_SIZES = ("state", "width", "layers", "readout")
_KEPT = (*_SIZES, "depth", "step", "every", "fill", "time_channel")
# Beyond so many log-signature channels a depth is not searched: it would cost more than all the others.
MOST_CHANNELS = 500


class BaseNeuralRDE(NamedParameters, Saved, BaseEstimator):
    """A neural RDE with scikit-learn's face. Leaves say what the targets are and what to do with outputs."""

    per_time_: bool
    outputs_: int

    def __init__(
        self,
        *,
        depth: int | str = 2,
        step: int | str | None = None,
        every: float | None = None,
        cuts: int = 1,
        fill: str | None = "forward",
        time_channel: bool = True,
        state: int = 32,
        width: int = 64,
        layers: int = 2,
        readout: str = "mean",
        epochs: int | None = None,
        batch_size: int = 32,
        learning_rate: float = 3e-3,
        schedule: str = "cosine",
        weight_decay: float = 0.2,
        clip: float | None = 1.0,
        validation_fraction: float = 0.15,
        shuffle: bool = True,
        patience: int | None = 20,
        time_budget: float | None = None,
        warm_start: bool = False,
        random_state: Any = None,
        verbose: bool | None = None,
    ):
        self.depth = depth
        self.step = step
        self.every = every
        self.cuts = cuts
        self.fill = fill
        self.time_channel = time_channel
        self.state = state
        self.width = width
        self.layers = layers
        self.readout = readout
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.schedule = schedule
        self.weight_decay = weight_decay
        self.clip = clip
        self.validation_fraction = validation_fraction
        self.shuffle = shuffle
        self.patience = patience
        self.time_budget = time_budget
        self.warm_start = warm_start
        self.random_state = random_state
        self.verbose = verbose

    # What a leaf says.

    def _check_targets(self, y: Any, series: Series, *, reset: bool) -> np.ndarray:
        """Targets as the loss takes them; learns the classes, or how many outputs there are."""
        raise NotImplementedError

    def _loss_and_metric(self, target: np.ndarray) -> tuple[Callable, Callable]:
        raise NotImplementedError

    def _weights(self, target: np.ndarray, training: np.ndarray) -> np.ndarray | None:
        """How much each example counts, by statistics of the training targets."""
        return None

    def _conditioned(self, model: NeuralRDE, target: np.ndarray) -> NeuralRDE:
        return model

    # Fitting.

    def fit(
        self,
        X: Any,
        y: Any,
        *,
        groups: Any = None,
        validation: tuple[Any, Any] | None = None,
        checkpoint: str | os.PathLike | None = None,
        resume: bool = False,
        listeners: Sequence[Listener] = (),
        mesh: Mesh | None = None,
    ) -> Self:
        """Train on series X and targets y.

        Args:
            X: `(n, length, channels)`, `(n, length)` of one channel, a list of arrays or DataFrames `(length,
                channels)`, or a `neuralrde.Series`. NaN is a missing value.
            y: one target per series, or one at every point (see the class).
            groups: one per series, such as its patient: series of a group are not divided between training and
                validation.
            validation: another `(X, y)` to decide about stopping; None takes `validation_fraction` of X. Fewer than 30
                series decide nothing: of X none are held out then, and those given are only reported in `history_`.
            checkpoint: a file for the state of training; with `resume=True` training goes on from it.
            resume: whether to go on from the checkpoint, if there is one.
            listeners: told of every epoch; see `neuralrde.training`.
            mesh: the devices to train and predict on, as `neuralrde.device_mesh` makes it; None takes all.
        """
        with interrupts_between_steps():
            return self._fit(X, y, groups, validation, checkpoint, resume, listeners, mesh)

    def _fit(self, X, y, groups, validation, checkpoint, resume, listeners, mesh) -> Self:
        if mesh is None:
            try_all_cores()
        self._mesh = mesh
        self._check_parameters()
        again = self.warm_start and hasattr(self, "model_")
        series = as_series(self, X, reset=not again)
        target = self._check_targets(y, series, reset=not again)
        if self.cuts > 1 and self.per_time_:
            raise ValueError(
                f"Got cuts={self.cuts} with a target at every point; expected cuts=1, because predictions come at the "
                "windows' ends, which differ from cut to cut."
            )
        if not again:
            self.kept_ = {name: getattr(self, name) for name in _KEPT}
        for name, first in self.kept_.items():
            if (now := getattr(self, name)) != first:
                raise ValueError(
                    f"Got warm_start=True and {name}={now!r}; expected {first!r} as in the first `fit`, because its "
                    "weights are gone on from. Write warm_start=False for a new model."
                )
        self.cuts_ = self.cuts
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))

        # Data: a validation set, and a preparation that has seen the training set only.
        whole = self._labelled(Part(series, target), check_groups(groups, len(series)))
        searched = not again and "auto" in (self.depth, self.step)
        parts = self._divided(*whole, validation, seed, searched)
        run = self._run(parts, again, seed, listeners, mesh)

        # Candidates for (depth, step), each with a model of its own.
        candidates = [(self.depth_, self.cut_)] if again else self._candidates(run.parts.training.series)
        cut, state, self.trials_ = candidates[0], None, []
        if len(candidates) > 1:
            if parts.validation is None or checkpoint is not None:
                what = "without a validation set" if parts.validation is None else "with a checkpoint"
                raise ValueError(
                    f"Got depth={self.depth!r} and step={self.step!r} {what}; expected numbers then, because a search "
                    "compares validation losses and has many states. Write for example depth=2, step=32."
                )
            # Half of the time for the search, the rest for the winner.
            begun, budget = time.monotonic(), self.time_budget
            half = None if budget is None else budget / 2
            search = replace(run, parts=replace(run.parts, decides=True))
            cut, state, self.trials_ = successive_halving(candidates, search, epochs=run.settings.epochs, seconds=half)
            if not parts.decides:
                # Too few to stop by, and too precious to leave out: the winner begins anew, with all series.
                state = None
                if validation is None:
                    run = self._run(Parts(whole[0], None, False), again, seed, listeners, mesh)
            if budget is not None:
                spent, left = 0.0 if state is None else state.seconds, budget - (time.monotonic() - begun)
                run = replace(run, settings=replace(run.settings, time_budget=spent + max(1e-3, left)))

        # Training; and again, if nothing was learned.
        run.say_share(cut)
        state = run(cut, state, checkpoint=checkpoint, resume=resume)
        state, self.restarts_ = restarted_if_collapsed(run, cut, state)

        # What was learned.
        self.depth_, self.cut_ = cut
        self.step_ = self.cut_ if self.kept_["every"] is None else None
        self.path_channels_ = run.parts.training.series.values.shape[2]
        self.label_share_ = run.labels(cut)[1]
        self.history_ = list(state.history)
        self.best_epoch_, self.validation_loss_ = state.best_epoch, state.best_loss
        # As loading makes it, so that a loaded model is the same in every respect.
        self.model_ = with_arrays(self._template(), arrays_of(state.best))
        return self

    def _labelled(self, part: Part, groups: np.ndarray | None) -> tuple[Part, np.ndarray | None]:
        """Without the series that have no target at any point: nothing can be learned from them."""
        if not self.per_time_ or (rows := are_known(part.target).any(axis=1)).all():
            return part, groups
        if not rows.any():
            raise ValueError("Got validation=(X, y) without any label that is known; expected some to compare with.")
        return part[rows], None if groups is None else groups[rows]

    def _divided(self, whole: Part, groups, validation, seed: int, searched: bool) -> Parts:
        """Training and validation set. Too few series to decide anything are held out only for a search."""
        if validation is not None:
            series = as_series(self, validation[0], reset=False)
            others, _ = self._labelled(Part(series, self._check_targets(validation[1], series, reset=False)), None)
            return Parts(whole, others, len(others) >= FEWEST_TO_DECIDE)
        wanted = len(whole) * self.validation_fraction
        if wanted < (2 if searched else FEWEST_TO_DECIDE):
            return Parts(whole, None, False)
        rows, held_out = divide(
            whole.series,
            whole.target,
            fraction=self.validation_fraction,
            groups=groups,
            shuffle=self.shuffle,
            seed=seed,
        )
        decides = len(held_out) >= FEWEST_TO_DECIDE
        if not len(held_out) or not (decides or searched):
            return Parts(whole, None, False)
        return Parts(whole[rows], whole[held_out], decides)

    def _run(self, parts: Parts, again: bool, seed: int, listeners: Sequence[Listener], mesh: Mesh | None) -> Run:
        if not again:
            self.steps_: Step = preparation(fill=self.fill, time=self.time_channel).fit(parts.training.series)
        listeners = [*listeners, *([ProgressBar()] if self.verbose is not False else [])]
        settings, model = self._settings(len(parts.training), seed), self.model_ if again else None
        return Run(self, parts.prepared(self.steps_), settings, seed, listeners, mesh, model)

    def _outputs(self, X: Any) -> tuple[np.ndarray, Series, Windows]:
        """The model's outputs, for each series or after every window."""
        self._check_fitted()
        series = as_series(self, X, reset=False)
        prepared, cut, outputs = self.steps_(series), (self.depth_, self.cut_), []
        for first in self._firsts(cut):
            windows = self._windows(prepared, cut, first)
            examples = Examples((windows.x0, windows.log_signatures), windows=windows.count)
            outputs.append(predict(self.model_, examples, mesh=getattr(self, "_mesh", None)))
        mean = np.mean(outputs, axis=0)
        _check_finite_outputs(mean, prepared)
        return mean, series, windows

    def _at_points(self, outputs: np.ndarray, series: Series, windows: Windows) -> np.ndarray:
        """Predictions after windows, held until the next: a point's prediction knows nothing that comes later."""
        points = np.arange(series.values.shape[1])
        cuts = np.broadcast_to(windows.cuts, (len(series), windows.cuts.shape[-1]))
        latest = np.stack([np.searchsorted(row, points, side="right") - 1 for row in cuts])
        return outputs[np.arange(len(series))[:, None], latest]

    def _windows(self, prepared: Series, cut: Cut, first: int | None = None, **options: Any) -> Windows:
        return windows_of(prepared, cut[0], **self._how(cut, first), **options)

    def _how(self, cut: Cut, first: int | None = None) -> dict[str, Any]:
        """By what to cut into windows."""
        if self.kept_["every"] is not None:
            return {"every": cut[1]}
        return {"step": cut[1]} | ({} if first is None else {"first": first})

    def _firsts(self, cut: Cut) -> list[int] | list[None]:
        """The first windows of all ways of cutting, the usual one first."""
        return [None] if self.kept_["every"] is not None else first_windows(cut[1], min(self.cuts_, cut[1]))

    def _candidates(self, prepared: Series) -> list[Cut]:
        """Depths and steps to choose from, the cheapest first."""
        steps: list[Any] = [self.every if self.every is not None else self.step]
        if steps[0] is None:
            steps = [usual_step(prepared, USUAL_WINDOWS)]
        elif steps[0] == "auto":
            steps = sorted({usual_step(prepared, windows) for windows in SEARCHED_WINDOWS})
        channels = prepared.values.shape[2]
        depths: list[Any] = [self.depth]
        if self.depth == "auto":
            depths = [n for n in SEARCHED_DEPTHS if n == 1 or log_signature_channels(channels, n) <= MOST_CHANNELS]
        for depth in depths:
            check_size(channels, depth, state=self.state, width=self.width)
        cost = lambda cut: log_signature_channels(channels, cut[0]) / cut[1]
        return sorted(((depth, step) for depth in depths for step in steps), key=cost)

    def _model(self, training: Examples, target: np.ndarray, depth: int, seed: int) -> NeuralRDE:
        x0, windows = training.inputs
        model = self._build(x0.shape[1], depth, seed)
        model = model.fit_scale(np.asarray(windows), windows=training.windows)
        return self._conditioned(model, target)

    def _build(self, channels: int, depth: int, seed: int) -> NeuralRDE:
        own = self.kept_
        readout = EveryState() if self.per_time_ else READOUTS[own["readout"]]()
        sizes = (channels, self.outputs_, depth, own["state"], own["width"], own["layers"])
        return _initial_model(jax.random.key(seed), *sizes, readout)

    def _settings(self, samples: int, seed: int) -> Settings:
        steps = -(-samples // self.batch_size)
        return Settings(
            epochs=max(FEWEST_EPOCHS, -(-USUAL_STEPS // steps)) if self.epochs is None else self.epochs,
            batch=self.batch_size,
            rate=self.learning_rate,
            schedule=SCHEDULES[self.schedule](),
            weight_decay=self.weight_decay,
            clip=self.clip,
            patience=self.patience,
            seed=seed,
            time_budget=self.time_budget,
        )

    def _check_parameters(self) -> None:
        check_whole("depth", self.depth, high=12, also=("auto",))
        check_whole("step", self.step, also=("auto", None))
        check_number("every", self.every, above=True, also=(None,))
        if self.every is not None and self.step is not None:
            raise ValueError(f"Got both step={self.step!r} and every={self.every!r}; expected at most one of them.")
        check_whole("cuts", self.cuts, high=1024)
        if self.cuts > 1 and self.every is not None:
            raise ValueError(f"Got cuts={self.cuts} with every={self.every!r}; expected windows by `step` for that.")
        check_choice("fill", self.fill, [*FILLS, None])
        check_choice("schedule", self.schedule, SCHEDULES)
        self._check_sizes(**{name: getattr(self, name) for name in _SIZES})
        check_whole("batch_size", self.batch_size)
        check_whole("epochs", self.epochs, also=(None,))
        check_number("learning_rate", self.learning_rate, above=True)
        check_number("weight_decay", self.weight_decay)
        check_number("clip", self.clip, above=True, also=(None,))
        check_number("validation_fraction", self.validation_fraction, high=0.9)
        check_flag("shuffle", self.shuffle)
        check_number("time_budget", self.time_budget, above=True, also=(None,))
        check_whole("patience", self.patience, also=(None,))

    def _check_sizes(self, *, state: Any, width: Any, layers: Any, readout: Any) -> None:
        check_whole("state", state)
        check_whole("width", width)
        check_whole("layers", layers, high=100)
        check_choice("readout", readout, READOUTS)

    # Saving. A JAX function in the model cannot be pickled, its arrays can: the model is built again around them.

    _learned = (
        "steps_",
        "kept_",
        "cuts_",
        "depth_",
        "step_",
        "cut_",
        "per_time_",
        "outputs_",
        "path_channels_",
        "history_",
        "trials_",
        "best_epoch_",
        "validation_loss_",
        "label_share_",
        "restarts_",
        "flat_",
        "n_channels_in_",
        "n_features_in_",
        "feature_names_in_",
    )

    def _check_fitted(self) -> None:
        check_is_fitted(self, "model_")

    def _check_learned(self, numbers: int) -> None:
        """Raise unless what a file says fits together, and needs no more numbers than its arrays hold."""
        kept = self.kept_
        if set(kept) != set(_KEPT) or not isinstance(kept["time_channel"], bool):
            raise ValueError(f"Got kept_={kept}; expected the parameters {list(_KEPT)}, as `fit` found them")
        type(self)(**kept)._check_parameters()
        size = kept["step"] if kept["every"] is None else kept["every"]
        for name, got, expected in [
            ("cut_", self.cut_, self.cut_ if size in (None, "auto") else size),
            ("depth_", self.depth_, self.depth_ if kept["depth"] == "auto" else kept["depth"]),
            ("step_", self.step_, self.cut_ if kept["every"] is None else None),
        ]:
            if repr(got) != repr(expected):  # 4.0 is no number of points, and neither is True
                raise ValueError(f"Got {name}={got!r}; expected {expected!r}, for these settings")
        if self.cuts_ > 1 and (self.per_time_ or kept["every"] is not None):
            raise ValueError(f"Got cuts_={self.cuts_}; expected 1, for these settings")
        channels, steps = check_inputs(self), preparation(fill=kept["fill"], time=kept["time_channel"])
        path = check_steps(self.steps_, steps, channels, timed=kept["every"] is not None)
        if len(path.channels) != self.path_channels_:
            raise ValueError(f"Got path_channels_={self.path_channels_}; expected {len(path.channels)}")
        largest = log_signature_channels(self.path_channels_, self.depth_) * kept["state"] * kept["width"]
        if max(largest, self.outputs_ * kept["state"], kept["layers"] * kept["width"]) > numbers:
            raise ValueError(
                f"Got {numbers} weights; expected many more, for {self.path_channels_} channels at depth "
                f"{self.depth_}, {self.outputs_} outputs, and state, width and layers of {kept['state']}, "
                f"{kept['width']} and {kept['layers']}"
            )

    def _template(self) -> NeuralRDE:
        """The model's shapes, without its numbers."""
        return eqx.filter_eval_shape(lambda: self._build(self.path_channels_, self.depth_, 0))

    def __getstate__(self):
        state: dict[str, Any] = dict(super().__getstate__())  # type: ignore
        state.pop("_mesh", None)  # devices are those of a process
        return state | {"model_": arrays_of(state["model_"])} if "model_" in state else state

    def __setstate__(self, state):
        super().__setstate__(state)
        if isinstance(getattr(self, "model_", None), dict):
            self.model_ = with_arrays(self._template(), self.model_)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.three_d_array = True
        return tags


def _check_finite_outputs(outputs: np.ndarray, prepared: Series) -> None:
    """No prediction is better than one made of NaN, which `argmax` would take for the first class."""
    wrong = ~np.isfinite(outputs).all(axis=tuple(range(1, outputs.ndim)))
    if not wrong.any():
        return
    row = int(wrong.argmax())
    name = f"{row}" if prepared.ids is None else f"{row} ({prepared.ids[row]})"
    name += f" and {wrong.sum() - 1} more" if wrong.sum() > 1 else ""
    largest = np.abs(prepared.values[row]).max(axis=0)
    channel = int(largest.argmax())
    raise ValueError(
        f"Got series {name}, for which the model's prediction is not a finite number: scaled as in training, "
        f"channel {prepared.channels[channel]!r} reaches {largest[channel]:.3g}, and the model computes in float32. "
        "Look for values that are no measurements, and write NaN for them."
    )


@eqx.filter_jit  # one compilation instead of one for every little array
def _initial_model(key, channels, outputs, depth, state, width, layers, readout) -> NeuralRDE:
    return NeuralRDE(
        channels,
        outputs,
        depth=depth,
        state=state,
        width=width,
        layers=layers,
        readout=readout,
        solver=diffrax.Heun(),
        key=key,
    )
