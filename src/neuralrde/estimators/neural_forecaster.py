"""Neural forecasts: a driven state that goes on in time corrects the closed form, by as much as it has earned.

    past of a channel -> increments over windows -> driven state -> time alone -> value and spread
    closed form's answer ------------------------------------------------------> + share x value

Members of an ensemble leave out parts of the series, as the ridge regression of the closed form does in its own way. So
there are honest forecasts of both for all series, and they decide the shares and calibrate the intervals.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, NamedTuple, Self

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from jaxtyping import Array, Float, Int

from .._types import Options, Record
from ..devices import device_mesh, keep_programs, try_all_cores
from ..errors import setting
from ..features.forecast import CONTROLS, Origins, Past, Questions, others_features, own_features
from ..models import CrossFitted, Ensemble, ForecastRDE, out_of_fold
from ..models.conditioning import LogSignatureSizes
from ..paths import Series
from ..paths.checks import check_flag, check_whole
from ..processes import Processes
from ..registry import Config
from ..training import AdamW, Examples, Listener, ProgressBar, Settings, TrainingState, fit, predict
from ..training.archive import arrays_of, with_arrays
from ..training.listeners import Listeners
from .division import folds
from .forecaster import FittedForecast, Lesson, LogSignatureForecaster, error_sizes, offsets_of, part_of, quantiles
from .forecasting import Answer
from .parameters import Learned

# Of each channel, so many pasts are trained on, with so many questions each.
_PASTS, _ASKED = 3000, 8
# Epochs and steps of a training, at least; epochs that may pass without a better one; and of how many rows one tells,
# by the member that has left it out.
_EPOCHS, _STEPS, _PATIENCE, _JUDGED = 12, 500, 4, 4
# Rows and questions of a row, to which answers are padded, so that little is compiled.
_ROWS, _QUESTIONS = (8, 64, 512), (8, 64)
# The channel's own features, and what all others tell, in units of their spreads.
_OF_OWN, _OF_OTHERS = 0.5, 0.1
# Spreads between which an answer's lies, in logarithms; how much their likelihood counts beside the squared error.
_WIDEST, _OF_SPREAD = 4.0, 0.5
# A channel's own share counts against that of all as so many questions. What all gain must be so many standard errors,
# and such a share of the closed form's squared error: less is not worth ten times the time of a forecast. After a tenth
# of the training one standard error will do.
_PRIOR, _CLEAR, _WORTH = 200.0, 2.0, 0.005
_TRIAL, _PROMISING = 0.1, 1.0


class NeuralPast(NamedTuple):
    """What is known at each origin, for the closed form and for what drives the state."""

    closed: Past
    increments: Float[np.ndarray, "origins channels windows controls"] | None


class Rows(NamedTuple):
    """Questions about one channel, those of one origin side by side."""

    channel: Int[np.ndarray, "rows"]
    origin: Int[np.ndarray, "rows"]
    place: Int[np.ndarray, "rows asked"]
    """The number of each question among the channel's; -1 for none."""

    @staticmethod
    def of(channel: int, questions: Questions, size: int, most: int | None, random: Any) -> "Rows":
        """All questions in rows of a size; or with `most`, one row of each origin, at random, and at most so many."""
        count = len(questions.origin)
        tie = np.arange(count) if most is None else random.permutation(count)
        order = np.lexsort((tie, questions.origin))
        origin = questions.origin[order]
        rank = np.arange(count) - np.searchsorted(origin, origin)
        first = np.flatnonzero(rank % size == 0 if most is None else rank == 0)
        if most is not None and len(first) > most:
            first = np.sort(random.choice(first, most, replace=False))
        place = np.minimum(first[:, None] + np.arange(size), count - 1)
        inside = (first[:, None] + np.arange(size) < count) & (origin[place] == origin[first][:, None])
        return Rows(np.full(len(first), channel), origin[first], np.where(inside, order[place], -1))


class NeuralForecastModel(eqx.Module):
    """An ensemble, how much of its corrections each channel takes, and quantiles of what is missed then."""

    ensemble: Ensemble
    shares: Float[Any, "channels"]
    missed: Float[Any, "channels parts levels"]
    """In the spreads that the ensemble says."""
    counts: Float[Any, "channels parts"]


class ForecastLoss(eqx.Module):
    """Squared error of corrections in standard units; and the likelihood of their spreads, which leaves values alone.

    Behind a row's targets stand the member that leaves it out, and whether that one alone is judged, as in validation;
    in training it is all others.
    """

    def __call__(self, found: Float[Array, "members asked 2"], target: Float[Array, " more"]) -> Float[Array, ""]:
        target, (fold, judged) = target[:-2], target[-2:]
        known, left_out = ~jnp.isnan(target), jnp.arange(len(found)) == fold
        error = jnp.where(known, target, 0.0) - found[..., 0]
        spread = jnp.clip(found[..., 1], -_WIDEST, _WIDEST)
        likelihood = 0.5 * jax.lax.stop_gradient(error) ** 2 * jnp.exp(-2 * spread) + spread
        each = jnp.where(known, 0.5 * error**2 + _OF_SPREAD * likelihood, 0.0).sum(axis=1) / len(target)
        return jnp.where(judged > 0, jnp.where(left_out, each, 0.0).sum(), jnp.where(left_out, 0.0, each).mean())


@dataclass(frozen=True, kw_only=True, eq=False)
class FittedNeuralForecast:
    """What `NeuralRDEForecaster` has learned."""

    closed_form: FittedForecast
    windows: int
    members: int
    state: int
    width: int
    weighted: bool = False
    """Whether the neural model has a part in forecasts; otherwise they are the closed form's."""
    history: list[Record] = field(default_factory=list)
    model: NeuralForecastModel | None = None

    def __post_init__(self):
        for name, most in (("windows", 2**16), ("members", 1000), ("state", 2**16), ("width", 2**16)):
            check_whole(name, getattr(self, name), high=most)

    inputs = property(lambda self: self.closed_form.inputs)
    horizon = property(lambda self: self.closed_form.horizon)
    lookback = property(lambda self: self.closed_form.lookback)
    period = property(lambda self: self.closed_form.period)
    step = property(lambda self: self.closed_form.step)

    def spread(self, channel: int) -> float:
        return self.closed_form.spread(channel)

    def past(self, series: Series, origins: Origins) -> NeuralPast:
        closed = self.closed_form.past(series, origins)
        return NeuralPast(closed, self.increments(series, origins) if self.weighted else None)

    def increments(self, series: Series, origins: Origins) -> Float[np.ndarray, "origins channels windows controls"]:
        assert self.closed_form.model is not None
        return self.closed_form.model.features.increments(series, origins, self.lookback, self.windows)

    def naive(self, past: NeuralPast, questions: Questions, channel: int) -> dict[str, np.ndarray]:
        return self.closed_form.naive(past.closed, questions, channel)

    def answers(self, past: NeuralPast, asked: dict[int, Questions]) -> dict[int, Answer]:
        answers = self.closed_form.answers(past.closed, asked)
        if self.model is None or not asked:
            return answers
        before = {channel: self.standard(answers[channel].value, channel) for channel in asked}
        counts = np.concatenate([np.bincount(one.origin) for one in asked.values()])
        # A row drives the state through all windows once, whatever it asks.
        size = min(_QUESTIONS, key=lambda size: (self.windows + size) * int((-(-counts // size)).sum()))
        rows = _joined([Rows.of(channel, one, size, None, None) for channel, one in asked.items()])
        batch = next((size for size in _ROWS if len(rows.origin) <= size), _ROWS[-1])
        examples = Examples(self.inputs_of(past, rows, asked, before))
        found = predict(self.model.ensemble, examples, batch=batch).astype(np.float64)
        for channel in asked:
            value, spread = _unpacked(found, rows, channel, len(asked[channel].origin))
            answers[channel] = self.corrected(channel, before[channel], value, spread, self.model.shares[channel])
        return answers

    def standard(self, value: np.ndarray, channel: int) -> np.ndarray:
        assert self.closed_form.model is not None
        features = self.closed_form.model.features
        return (value - features.level[channel]) / features.spread[channel]

    def corrected(
        self, channel: int, before: np.ndarray, value: np.ndarray, spread: np.ndarray, share: float
    ) -> Answer:
        """The closed form's answer in standard units and what the ensemble says, as one answer in the channel's own."""
        closed = self.closed_form.model
        assert closed is not None
        level, unit = closed.features.level[channel], closed.features.spread[channel]
        found = np.clip(before + share * value, closed.lowest[channel], closed.highest[channel])
        return Answer(level + unit * found, unit * np.exp(np.clip(spread, -_WIDEST, _WIDEST)))

    def inputs_of(
        self, past: NeuralPast, rows: Rows, asked: dict[int, Questions], before: dict[int, np.ndarray]
    ) -> tuple[np.ndarray, ...]:
        """What the model is called with: the channel, its past, how far ahead, and what is to be corrected."""
        assert past.increments is not None
        assert self.closed_form.model is not None
        features = self.closed_form.model.features
        channel, origin, place = rows
        own, others = features.own(past.closed, origin, channel), features.others(past.closed)[origin]
        about = np.concatenate([_OF_OWN * own, _OF_OTHERS * others, np.eye(len(features.level))[channel]], axis=1)
        ahead, value = np.zeros(place.shape), np.zeros(place.shape)
        for number in np.unique(channel):
            mine = channel == number
            ahead[mine], value[mine] = asked[number].ahead[place[mine]], before[number][place[mine]]
        # The time that drives is counted in look-backs.
        arrays = about, past.increments[origin, channel], ahead / self.lookback, value
        return tuple(array.astype(np.float32) for array in arrays)

    def offsets(self, ahead: np.ndarray, channel: int, levels: Any) -> Float[np.ndarray, "questions levels"]:
        if self.model is None:
            return self.closed_form.offsets(ahead, channel, levels)
        part = part_of(ahead, self.horizon)
        return offsets_of(self.model.missed[channel], self.model.counts[channel], part, levels)

    def built(self, seed: int) -> Ensemble:
        channels = self.inputs.n_channels
        about = own_features(None) + others_features(channels) + channels
        config = Config(ForecastRDE, state=self.state, width=self.width, hidden=2 * self.width)
        return Ensemble.of(config, self.members, about=about, controls=CONTROLS, key=jax.random.key(seed))

    def least_sizes(self) -> dict[str, int]:
        """Numbers that a model has at least."""
        if not self.weighted:
            return {}
        return {"members": self.members, "weights": self.members * self.width * (self.width + self.state)}

    def shapes(self) -> NeuralForecastModel | None:
        """The model's shapes, without its numbers; None if it has no weight."""
        if not self.weighted:
            return None
        channels = self.inputs.n_channels
        arrays = [np.zeros(size) for size in ((channels,), *error_sizes(channels))]
        return NeuralForecastModel(eqx.filter_eval_shape(lambda: self.built(0)), *arrays)


@dataclass(kw_only=True, eq=False, repr=False)
class NeuralRDEForecaster(LogSignatureForecaster):
    """Forecasts every channel at any later time, by a driven state that goes on, from an irregular past with gaps.

    The log-signatures of a channel's past drive a state, with what all channels tell at its start; beyond the present
    time alone drives it, and it is decoded at any moment into a correction of what `LogSignatureForecaster` says, and
    into how far off that may be. Series that were left out decide how much of its correction each channel takes. If
    that gains too little, which a tenth of the training shows, forecasts are the closed form's, and `fit` says so.

    X, `predict`, `evaluate` and `stream` are those of `LogSignatureForecaster`.

    >>> times = np.arange(600)
    >>> X = np.sin(times / 8) ** 3 + 0.1 * np.random.default_rng(0).normal(size=600)
    >>> model = NeuralRDEForecaster(horizon=12, windows=4, members=2, epochs=1).fit(X[:500])
    >>> model.predict(X[:500], horizon=12).shape
    (1, 12, 1)

    Args:
        horizon, lookback, period, examples, random_state: as for `LogSignatureForecaster`.
        windows: how many windows of the look-back drive the state.
        members: models that are trained side by side, each without a part of the series.
        state, width: of the model, see `ForecastRDE`.
        optimizer: `AdamW(learning_rate=..., weight_decay=...)`, or any of Optax's; None is AdamW at 0.003.
        epochs: passes over what is learned from; None takes at least 12, and 500 steps, but ends after a tenth of them
            if these promise too little beyond the closed form.
        batch_size: pasts of a channel per step.
        verbose: False shows no progress bar; None shows one on a terminal and in a notebook.

    Attributes:
        horizon_, lookback_, period_: in the unit of the series' times.
        shares_: how much of its correction each channel takes; None if the closed form alone makes the forecasts.
        history_: one record per epoch.
    """

    windows: int = 32
    members: int = 3
    state: int = 32
    width: int = 32
    optimizer: Any = None
    epochs: int | None = None
    batch_size: int = 256
    verbose: bool | None = None

    _kind = FittedNeuralForecast
    _parts: ClassVar = {"optimizer": "optimizer"}
    _defaults: ClassVar[Options] = {"optimizer": AdamW(learning_rate=3e-3)}
    history_ = Learned[list[Record]]("history")

    @property
    def shares_(self) -> np.ndarray | None:
        return None if self.fitted_.model is None else np.asarray(self.fitted_.model.shares)

    def fit(
        self,
        X: Any,
        y: None = None,
        *,
        cuts: Any = None,
        groups: Any = None,
        checkpoint: str | os.PathLike | None = None,
        resume: bool = False,
        listeners: Sequence[Listener] = (),
        mesh: Mesh | None = None,
    ) -> Self:
        """Learn from what came after moments in the series.

        Args:
            X, y, cuts, groups: as for `LogSignatureForecaster`.
            checkpoint: a file for the state of training; with `resume=True` training goes on from it.
            resume: whether to go on from the checkpoint, if there is one.
            listeners: told of every epoch; see `neuralrde.training`.
            mesh: the devices to train on, as `neuralrde.devices.device_mesh` makes it; None takes all.
        """
        vars(self).pop("fitted_", None)
        if mesh is None:
            try_all_cores()
        keep_programs()
        lesson, optimizer = self._lesson(X, cuts, groups), self._part("optimizer")
        fitted = FittedNeuralForecast(
            closed_form=lesson.fitted,
            windows=self.windows,
            members=max(2, min(self.members, len(np.unique(lesson.owner)))),
            state=self.state,
            width=self.width,
        )
        rows, inputs, target = self._examples(fitted, lesson)
        fold = self._folds(lesson, fitted.members)[rows.origin]
        known = np.bincount(rows.channel, (~np.isnan(target)).sum(axis=1), fitted.inputs.n_channels)
        # Neither every question alike, which would be those about what is often observed, nor every channel.
        weight = 1 / np.sqrt(np.maximum(known, 20.0))[rows.channel]
        marked = lambda judged: np.column_stack([target, fold, np.full(len(fold), judged)]).astype(np.float32)
        examples = Examples((*inputs, fold), marked(0), weight=(weight / weight.mean()).astype(np.float32))
        judged = eqx.tree_at(lambda one: one.target, examples, marked(1)).take(slice(None, None, _JUDGED))
        steps = -(-len(fold) // self.batch_size)
        epochs = max(_EPOCHS, -(-_STEPS // steps)) if self.epochs is None else self.epochs
        heard = [*listeners, *([] if self.verbose is False else [ProgressBar(always=self.verbose is True)])]
        owner = np.unique(lesson.owner[rows.origin], return_inverse=True)[1]
        trial = max(1, round(_TRIAL * epochs)) if self.epochs is None else 0

        def corrections(model: CrossFitted, some: slice) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
            """For some rows what members say of what they left out, shares, what is missed then, and the gain."""
            found = out_of_fold(predict(model, examples.take(some), batch=512, mesh=mesh), fold[some]).astype(float)
            wanted, channel = target[some], rows.channel[some]
            known = np.bincount(channel, (~np.isnan(wanted)).sum(axis=1), fitted.inputs.n_channels)
            shares = shares_of(found[..., 0], wanted, channel, known)
            rest = wanted - shares[channel][:, None] * found[..., 0]
            return found, shares, rest, _clearness(wanted, rest, known[channel], owner[some])

        def fails_trial(state: TrainingState) -> bool:
            if not trial or state.epoch != trial:
                return False
            failed = corrections(state.best, slice(None, None, _JUDGED))[-1] <= _PROMISING
            return Processes(device_mesh(mesh)).agree(failed)

        state = fit(
            CrossFitted(_scaled(fitted.built(int(self.random_state) % 2**31), inputs[1])),
            examples,
            loss=ForecastLoss(),
            validation=judged,
            settings=Settings(
                epochs=epochs,
                batch_size=self.batch_size,
                optimizer=optimizer,
                patience=_PATIENCE,
                seed=int(self.random_state),
            ),
            enough=fails_trial,
            checkpoint=checkpoint,
            resume=resume,
            listeners=heard,
            mesh=mesh,
        )
        fitted = replace(fitted, history=list(state.history))
        found, shares, rest, clear = corrections(state.best, slice(None))
        if fails_trial(state) or clear <= _CLEAR:
            Listeners(heard).say(
                f"After {state.epoch} of {epochs} epochs the neural model brings too little beyond what the closed "
                f"form forecasts of left-out series (expected: {_WORTH:.1%} of its error, and more than chance), "
                "so that forecasts are the closed form's. "
                f"{setting('epochs', epochs if state.epoch < epochs else 2 * epochs)} trains for longer."
            )
            self.fitted_ = fitted
            return self
        fitted = replace(fitted, weighted=True)
        shapes: Any = fitted.shapes()
        # Built as loading builds it, so that a loaded model is the same in every respect.
        ensemble = with_arrays(shapes.ensemble, arrays_of(state.best.ensemble))
        missed, counts = shapes.missed, shapes.counts
        for channel in np.flatnonzero(known):
            mine = (rows.channel == channel)[:, None] & ~np.isnan(target)
            off = rest[mine] / np.exp(np.clip(found[..., 1][mine], -_WIDEST, _WIDEST))
            place = rows.place[mine]
            held = lesson.owner[np.broadcast_to(rows.origin[:, None], mine.shape)[mine]] if lesson.grouped else None
            part = part_of(lesson.targets[channel].questions.ahead[place], fitted.horizon)
            missed[channel], counts[channel] = quantiles(off, part, held)
        self.fitted_ = replace(fitted, model=NeuralForecastModel(ensemble, shares, missed, counts))
        return self

    def _folds(self, lesson: Lesson, members: int) -> Int[np.ndarray, "origins"]:
        """The member that leaves out each origin: one for all of a group, or of a block of time."""
        owners, owner = np.unique(lesson.owner, return_inverse=True)
        return folds(np.zeros(len(owners)), members, seed=int(self.random_state))[owner]

    def _examples(self, fitted: FittedNeuralForecast, lesson: Lesson) -> tuple[Rows, tuple, np.ndarray]:
        """Rows of questions, the model's inputs, and by how much the closed form missed them when left out."""
        random = np.random.default_rng([int(self.random_state), 1])
        past = NeuralPast(lesson.past, fitted.increments(lesson.series, lesson.origins))
        asked, before, missed, each = {}, {}, {}, []
        for channel, (targets, left_out) in enumerate(zip(lesson.targets, lesson.left_out, strict=True)):
            if np.isnan(left_out).all():
                continue
            own = Rows.of(channel, targets.questions, _ASKED, _PASTS, random)
            # To the others the regression was not fitted, though it may have been to some of the same series.
            open_ = np.setdiff1d(own.place[own.place >= 0], np.flatnonzero(~np.isnan(left_out)))
            if len(open_):
                questions = {channel: targets.questions.take(open_)}
                left_out[open_] = fitted.standard(lesson.fitted.answers(lesson.past, questions)[channel].value, channel)
            each.append(own)
            asked[channel], before[channel] = targets.questions, left_out
            missed[channel] = fitted.standard(targets.value, channel) - left_out
        if not each:
            raise ValueError(
                "Got series of a single group; expected several, because the neural model corrects what the closed "
                "form misses in groups that it has not seen. Leave `groups` out, or use LogSignatureForecaster."
            )
        rows = _joined(each)
        target = np.full(rows.place.shape, np.nan, np.float32)
        for channel in asked:
            mine = rows.channel == channel
            target[mine] = np.where(rows.place[mine] >= 0, missed[channel][rows.place[mine]], np.nan)
        return rows, fitted.inputs_of(past, rows, asked, before), target

    def _check_parameters(self) -> Self:
        for name in ("windows", "members", "state", "width", "batch_size"):
            check_whole(name, getattr(self, name))
        check_whole("epochs", self.epochs, also=(None,))
        if self.verbose is not None:
            check_flag("verbose", self.verbose)
        return super()._check_parameters()


def shares_of(
    found: Float[np.ndarray, "rows asked"],
    target: Float[np.ndarray, "rows asked"],
    channel: Int[np.ndarray, "rows"],
    known: Float[np.ndarray, "channels"],
) -> Float[np.ndarray, "channels"]:
    """How much of a correction each channel takes for the smallest squared error; with few questions, as much as all.

    >>> missed = np.random.default_rng(0).normal(size=(2000, 1))
    >>> channel = np.repeat([0, 1], 1000)
    >>> shares_of(missed * (channel == 0)[:, None] * 2, missed, channel, np.array([1000.0, 1000.0])).round(1).tolist()
    [0.5, 0.5]
    """
    channels, count = len(known), np.maximum(known, 1)
    found, target = np.where(np.isnan(target), 0.0, found), np.nan_to_num(target)
    both, square = (np.bincount(channel, (found * one).sum(axis=1), channels) for one in (target, found))
    mean = max(float((square / count)[known > 0].mean()), 1e-300)
    of_all = np.clip((both / count)[known > 0].mean() / mean, 0.0, 1.0)
    return np.clip((both + _PRIOR * of_all * mean) / (square + _PRIOR * mean), 0.0, 1.0)


def _clearness(
    target: Float[np.ndarray, "rows asked"],
    rest: Float[np.ndarray, "rows asked"],
    known: Float[np.ndarray, "rows"],
    owner: Int[np.ndarray, "rows"],
) -> float:
    """By how many standard errors corrections gain; 0 if that is not worth it."""
    before, gain = (np.nansum(one, axis=1) / np.maximum(known, 1) for one in (target**2, target**2 - rest**2))
    if gain.sum() <= _WORTH * before.sum():
        return 0.0
    of_each = np.bincount(owner, gain)
    return float(of_each.sum() / max(np.sqrt(len(of_each)) * of_each.std(), 1e-300))


def _joined(rows: list[Rows]) -> Rows:
    return Rows(*(np.concatenate(arrays) for arrays in zip(*rows, strict=True)))


def _unpacked(found: np.ndarray, rows: Rows, channel: int, count: int) -> np.ndarray:
    """Of a channel's questions in their order, what the model says: values and logarithms of spreads."""
    mine = rows.channel == channel
    inside, values = rows.place[mine] >= 0, np.empty((2, count))
    values[:, rows.place[mine][inside]] = found[mine][inside].T
    return values


def _scaled(ensemble: Ensemble, driving: Float[np.ndarray, "rows windows controls"]) -> Ensemble:
    """The ensemble, which drives its states with increments of unit size."""
    sizes = LogSignatureSizes.fit(driving)
    factors = np.broadcast_to((1 / (sizes.size * np.sqrt(sizes.count))).astype(np.float32), (ensemble.number, CONTROLS))
    return eqx.tree_at(lambda ensemble: ensemble.members.scale.factors.array, ensemble, factors)
