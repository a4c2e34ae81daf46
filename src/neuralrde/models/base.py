"""The base classes of models. Those driven by log-signatures scale them, solve, and decode the state."""

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

from .._types import AnyArray, Depth, Model, Options, State
from ..paths import Windows
from ..signatures._log_signature import log_signatures as log_signatures_of
from ..signatures._spans import Since
from ..signatures.bases import Basis, basis_channels
from ..signatures.lyndon import lyndon_words
from ..signatures.rounding import driving_log_signatures
from .conditioning import ChannelScale, LabelScale, LogSignatureSizes
from .readouts import AbstractReadout, Count, Seen


class Decoder(eqx.Module):
    """Readout, then a linear map, or a small network on normalised features, then the label's units."""

    readout: AbstractReadout
    network: eqx.nn.Sequential | None
    linear: eqx.nn.Linear
    labels: LabelScale

    def __init__(
        self,
        readout: AbstractReadout,
        state: int,
        outputs: int,
        *,
        width: int | None = None,
        layers: int = 2,
        key: PRNGKeyArray,
    ):
        features = readout.features(state)
        self.readout, self.network = readout, None
        if width is not None:
            key, *keys = jax.random.split(key, layers + 1)
            sizes = [features] + [width] * (layers - 1)
            hidden = [eqx.nn.Linear(size, width, key=k) for size, k in zip(sizes, keys, strict=True)]
            relu = eqx.nn.Lambda(jax.nn.relu)
            self.network = eqx.nn.Sequential([eqx.nn.LayerNorm(features), *(m for h in hidden for m in (h, relu))])
            features = width
        self.linear = eqx.nn.Linear(features, outputs, key=key)
        self.labels = LabelScale.unit(outputs)

    def __call__(self, states: Float[Array, "*windows state"], windows: Count | None) -> Float[Array, "*out outputs"]:
        seen = self.readout(states, windows)
        return self.of_features(seen) if seen.ndim == 1 else jax.vmap(self.of_features)(seen)

    def of_features(self, features: Float[Array, " features"]) -> Float[Array, " outputs"]:
        """The prediction from what the readout chose."""
        return self.labels(self.linear(features if self.network is None else self.network(features)))


class Carried(eqx.Module):
    """The state of a model between two windows of a series that is still arriving."""

    hidden: State
    """What drives on: the hidden state, or those of several blocks."""
    seen: Seen
    """What the readout keeps of the states so far."""


@dataclass(frozen=True)
class Recommended:
    """Settings that suit a class of models. An estimator takes them where its own parameters are None."""

    members: int = 1
    """Models in an ensemble."""
    steps: int = 1000
    """Steps of the optimizer, at least."""
    epochs: int = 20
    """Passes over the training set, at least."""
    windows: Callable[[int], Windows] = lambda channels: Windows()
    """Windows for paths of this many channels, time included."""
    options: Callable[[int], Options] | None = None
    """Options of the constructor for series of this many windows, if any depend on that."""


class AbstractModel(eqx.Module):
    """A model takes one example; `jax.vmap(model)` takes a batch.

    An estimator builds it with those of `channels`, `outputs`, `depth`, `scales`, `step`, `readout` and `key` that its
    constructor takes, and calls it with its `inputs` of prepared series. Only `__call__` and `inputs` are required.
    """

    recommended: ClassVar[Recommended] = Recommended()
    takes_key: ClassVar[bool] = False
    """Whether training calls it with a random `key` per example, for dropout."""
    not_online: ClassVar[str | None] = "has no `start`, `advance` and `output`"
    """Why the model cannot follow a series that is still arriving, for the error; None if it can."""

    @abstractmethod
    def __call__(self, *inputs: Any, windows: Count | None = None) -> Float[Array, "*out outputs"]:
        """The prediction for one example. If it was padded, `windows` is its own number of windows."""

    @abstractmethod
    def inputs(
        self, path: np.ndarray, times: np.ndarray, cuts: np.ndarray, *, since: Since | None = None
    ) -> tuple[np.ndarray, ...]:
        """The arrays that the model is called with, for a batch.

        Args:
            path: prepared series, `(batch, length, channels)`; padding repeats the last point.
            times: `(batch, length)`; where no times are known, the points are numbered.
            cuts: where windows end, `(windows + 1,)` or `(batch, windows + 1)`.
            since: given to models that take `scales`, where some of these are no whole numbers of windows: where they
                start, as `Windows.starts` says.
        """

    @property
    def many_devices(self) -> bool:
        """Whether a batch can be shared out over several devices in training."""
        return True

    @property
    def ignores_padding(self) -> bool:
        """Whether empty windows at the end change no prediction, if `windows` says how many there really are."""
        return True

    @staticmethod
    def channels_seen(channels: int) -> int:
        """Number of channels the log-signatures are computed over, for paths of this many channels."""
        return channels

    def fit_inputs(self, inputs: tuple[Any, ...], *, windows: Any = None) -> Self:
        """Return the model with statistics of the training set's inputs. By default it needs none."""
        return self

    def with_labels(self, labels: LabelScale) -> Self:
        """Return the model, which now predicts in these units. By default it has no units to set."""
        return self

    def explain_divergence(self, inputs: tuple[Any, ...]) -> None:
        """Raise with the sample and window at which a solve leaves the finite numbers, if one does."""


class ForeignModel(AbstractModel):
    """Any Equinox module as a model, called with first points and log-signatures: `module(x0, log_signatures)`."""

    module: Callable
    depth: Depth = eqx.field(static=True)
    scales: tuple[float, ...] = eqx.field(static=True)

    @property
    def ignores_padding(self) -> bool:
        return False  # nobody knows

    def __call__(self, *inputs, **options):
        return self.module(*inputs, **options)

    def inputs(self, path, times, cuts, *, since=None):
        return path[:, 0], driving_log_signatures(path, self.depth, cuts, scales=self.scales, since=since)


def as_model(model: Model, *, depth: Depth = 2, scales: tuple[float, ...] = (1,)) -> AbstractModel:
    """A model as it is; another Equinox module as one that takes log-signatures of this depth and these scales."""
    return model if isinstance(model, AbstractModel) else ForeignModel(model, depth, scales)


def model_class(cls: Any) -> type[AbstractModel]:
    """The class whose declarations hold for the models that `cls` makes."""
    return cls if isinstance(cls, type) and issubclass(cls, AbstractModel) else ForeignModel


class AbstractDecodedModel(AbstractModel):
    """A model whose states a `Decoder` turns into predictions, in the units of the labels."""

    decoder: eqx.AbstractVar[Decoder]

    def fit_labels(self, labels: Float[AnyArray, "batch *outputs"]) -> Self:
        """Return the model, which now predicts in the units of the training set's labels. For regression."""
        fitted, outputs = LabelScale.fit(labels), self.decoder.labels.mean.size
        if fitted.mean.size != outputs:
            raise ValueError(
                f"Got labels of shape {np.shape(labels)}; expected (batch, {outputs}), or (batch, windows, {outputs}), "
                f"because this {type(self).__name__} predicts {outputs} at a time. For one number per window write "
                "`labels[..., None]`."
            )
        return self.with_labels(fitted)

    def with_labels(self, labels: LabelScale) -> Self:
        return eqx.tree_at(lambda model: model.decoder.labels, self, labels)


class AbstractDrivenModel(AbstractDecodedModel):
    """A model driven by log-signatures, `model(x0, log_signatures)` for one example; `jax.vmap` adds the batch.

    A subclass defines its parts, and `first_state` and `next_state`; an empty window must leave a state as it is. One
    that is faster at all windows at once than at one after the other defines `states`, too. This class does the rest.

    A series that is still arriving is followed window by window, with the same prediction:

        state = model.start(x0)
        for log_signature in log_signatures:
            state = model.advance(state, log_signature)
        model.output(state)  # = model(x0, log_signatures), after every window if you like

    A state is a tree of arrays that does not grow. All three can be compiled, and `jax.vmap` advances many series at
    once.
    """

    scale: eqx.AbstractVar[ChannelScale]
    channels: eqx.AbstractVar[int]
    """Number of channels of the path, time included."""
    depth: eqx.AbstractVar[Depth]
    basis: eqx.AbstractVar[Basis]
    """The basis of the log-signatures that the model takes."""
    scales: ClassVar[tuple[float, ...]] = (1,)
    """How many windows back they look; see `log_signatures`. A model that takes several has a field of this name."""
    static: ClassVar[int] = 0
    """Numbers that are known of a series as a whole, after its first point. A model that takes them has this field."""
    not_online: ClassVar[str | None] = None

    @property
    def controls(self) -> int:
        """Numbers that the model sees of each window."""
        return basis_channels(self.channels, self.depth, self.basis, scales=self.scales)

    def states(
        self, x0: Float[Array, " channels"], logs: Float[Array, "windows controls"]
    ) -> Float[Array, "*windows state"]:
        """The final state, or all states if the readout asks for every window."""
        hidden, first = self.first_state(x0)
        _, after = jax.lax.scan(lambda hidden, log_signature: self.next_state(hidden, log_signature), hidden, logs)
        states = jnp.concatenate([first[None], after])
        return states if self.decoder.readout.every_window else states[-1]

    def __call__(
        self,
        x0: Float[np.ndarray | Array, " channels"],
        log_signatures: Float[np.ndarray | Array, "windows controls"],
        *,
        windows: Count | None = None,
    ) -> Float[Array, "*out outputs"]:
        """The prediction for one example: (outputs,), or (windows + 1, outputs) with `EveryState()`.

        Args:
            x0: the first point of the path, because log-signatures know increments only; and after it what is known of
                the series as a whole, if the model was made for that.
            log_signatures: one per window, at the model's depth and in its basis; `model.log_signatures` computes them.
            windows: if the example was padded, its own number of windows. Only readouts of many states need it.
        """
        self.check_shapes(x0, log_signatures)
        return self.decoder(self.states(jnp.asarray(x0), jnp.asarray(log_signatures)), windows)

    def start(self, x0: Float[np.ndarray | Array, " channels"]) -> State:
        """The state before the first window of a series that begins at this point."""
        hidden, seen = self.first_state(jnp.asarray(x0))
        return Carried(hidden, self.decoder.readout.start(seen))

    def advance(self, state: State, log_signature: Float[np.ndarray | Array, " controls"]) -> State:
        """The state after one more window."""
        hidden, seen = self.next_state(state.hidden, jnp.asarray(log_signature))
        return Carried(hidden, self.decoder.readout.advance(state.seen, seen))

    def output(self, state: State) -> Float[Array, " outputs"]:
        """The prediction for the series so far. With `EveryState()`, the one after the last window."""
        return self.decoder.of_features(self.decoder.readout.output(state.seen))

    def first_state(self, x0: Float[Array, " channels"]) -> tuple[State, Float[Array, " state"]]:
        """What is carried on from the first point, and the initial state as readouts see it."""
        raise NotImplementedError(
            f"Got {type(self).__name__}, which has no `first_state` and `next_state`; expected both, because a series "
            "that is still arriving is followed window by window."
        )

    def next_state(
        self, hidden: State, log_signature: Float[Array, " controls"]
    ) -> tuple[State, Float[Array, " state"]]:
        """The hidden state after one more window, and the state as readouts see it."""
        raise NotImplementedError(f"Got {type(self).__name__}, which has no `next_state`.")

    def mixed(self, path: Float[np.ndarray, "*batch length channels"]) -> Float[np.ndarray, "*batch length mixed"]:
        """The path whose log-signatures drive the model: by default, the path itself."""
        return path

    @property
    def takes_increments(self) -> bool:
        """Whether what drives the model begins with the increments of all channels, before log-signatures."""
        return False

    def inputs(self, path, times, cuts, *, since=None):
        how: Any = {"scales": self.scales, "since": since, "basis": self.basis}
        return path[:, 0], driving_log_signatures(path, self.depth, cuts, **how)

    def fit_inputs(self, inputs, *, windows=None):
        return self.fit_scale(inputs[1], windows=windows)

    def log_signatures(
        self, path: Float[AnyArray, "*batch length channels"], *, step: int | None = None, cuts: Any = None
    ) -> Float[AnyArray, "*batch windows controls"]:
        """The log-signatures that this model takes, at its depth and scales and in its basis."""
        compute: Any = log_signatures_of  # NumPy or JAX
        return compute(path, self.depth, step=step, cuts=cuts, scales=self.scales, basis=self.basis)

    def fit_scale(
        self,
        log_signatures: Float[AnyArray, "batch windows controls"] | LogSignatureSizes,
        *,
        windows: Int[AnyArray, " batch"] | None = None,
    ) -> Self:
        """Scale the model by the training set's log-signatures or their sizes; `windows` leaves out padding."""
        if not isinstance(log_signatures, LogSignatureSizes) and log_signatures.ndim == 3:  # else `fit` says so
            self.check_shapes(np.zeros(self.channels + self.static), log_signatures[0])
        return eqx.tree_at(
            lambda model: model.scale, self, self.scale_for(LogSignatureSizes.fit(log_signatures, windows))
        )

    def scale_for(self, sizes: LogSignatureSizes) -> ChannelScale:
        """The scale for a training set with log-signatures of these sizes."""
        factors = 1 / (sizes.size * np.sqrt(sizes.count))
        if self.basis == "brackets" and isinstance(self.depth, int) and self.scales == (1,):
            # Exact brackets are those of a CDE: of a path each of whose channels has one factor.
            words = lyndon_words(self.channels, self.depth)
            factors = np.array([np.prod(factors[: self.channels][list(word)]) for word in words])
        return ChannelScale.of(factors)

    def check_shapes(self, x0: Any, log_signatures: Any) -> None:
        controls, start = self.controls, self.channels + self.static
        if x0.shape != (start,) or log_signatures.ndim != 2 or log_signatures.shape[1] != controls:
            raise ValueError(
                f"Got x0 of shape {x0.shape} and log-signatures of shape {log_signatures.shape}; expected "
                f"({start},) and (windows, {controls}): one example of {self.channels} channels, time included, and "
                f"{self.static} static numbers, at depth {self.depth} and scales {self.scales} in the {self.basis} "
                "basis. Write `x0 = path[0]` and `model.log_signatures(path, step=...)`, or `model.inputs(path, times, "
                "cuts)`, and `jax.vmap(model)` for a batch."
            )
