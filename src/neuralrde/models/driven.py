"""What models driven by log-signatures share: scale, solve, decode; the right log-signatures; the checks."""

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, Self

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

from ..signatures.bases import BASES, Basis, basis_channels
from ..signatures.log_signature import log_signatures as log_signatures_of
from .conditioning import ChannelScale, LabelScale, Statistics
from .readouts import AbstractReadout, Count


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
        answer: Callable = self._answer if seen.ndim == 1 else jax.vmap(self._answer)
        return self.labels(answer(seen))

    def _answer(self, features: Float[Array, " features"]) -> Float[Array, " outputs"]:
        return self.linear(features if self.network is None else self.network(features))


class AbstractDrivenModel(eqx.Module):
    """A model of one example, `model(x0, log_signatures)`; `jax.vmap(model)` for a batch.

    A leaf says what it is made of and how log-signatures, scaled, become `states`; the rest is here.
    """

    decoder: eqx.AbstractVar[Decoder]
    scale: eqx.AbstractVar[ChannelScale]
    channels: eqx.AbstractVar[int]
    """Number of channels of the path, time included."""
    depth: eqx.AbstractVar[int]
    basis: eqx.AbstractVar[Basis]
    """The basis of the log-signatures that the model takes."""

    @abstractmethod
    def states(
        self, x0: Float[Array, " channels"], logs: Float[Array, "windows controls"]
    ) -> Float[Array, "*windows state"]:
        """The final state, or all of them where the readout asks for every window."""

    def __call__(
        self,
        x0: Float[Array, " channels"],
        log_signatures: Float[Array, "windows controls"],
        *,
        windows: Count | None = None,
    ) -> Float[Array, "*out outputs"]:
        """The prediction for one example: (outputs,), or (windows + 1, outputs) with `EveryState()`.

        Args:
            x0: the first point of the path: log-signatures know increments only.
            log_signatures: one a window, of the model's depth and basis; `model.log_signatures` makes them.
            windows: the example's own number of windows where it was padded. Only readouts of many states
                need it.
        """
        self.check_shapes(x0, log_signatures)
        return self.decoder(self.states(x0, log_signatures), windows)

    def log_signatures(
        self, path: Float[Statistics, "*batch length channels"], *, step: int | None = None, cuts: Any = None
    ) -> Float[Statistics, "*batch windows controls"]:
        """The log-signatures that this model takes, of its depth and in its basis."""
        compute: Any = log_signatures_of  # NumPy or JAX
        return compute(path, self.depth, step=step, cuts=cuts, basis=self.basis)

    def fit_scale(
        self,
        log_signatures: Float[Statistics, "batch windows controls"],
        *,
        windows: Int[Statistics, " batch"] | None = None,
    ) -> Self:
        """The same model, conditioned on the training set's log-signatures; `windows` leaves padding out.

        Without it the first predictions can be hundreds of times the label's spread, and training starts by
        undoing that.
        """
        if log_signatures.ndim == 3:  # else `fit` says so
            self.check_shapes(np.zeros(self.channels), log_signatures[0])
        if self.basis == "brackets":
            new = ChannelScale.fit_homogeneous(log_signatures, windows, channels=self.channels, depth=self.depth)
        else:
            new = ChannelScale.fit(log_signatures, windows)
        return eqx.tree_at(lambda model: model.scale, self, new)

    def fit_labels(self, labels: Float[Statistics, "batch *outputs"]) -> Self:
        """The same model, predicting in the units of the training set's labels. For regression."""
        fitted, outputs = LabelScale.fit(labels), self.decoder.labels.mean.bits.size
        if fitted.mean.bits.size != outputs:
            raise ValueError(
                f"Got labels of shape {np.shape(labels)}; expected (batch, {outputs}), or (batch, windows, {outputs}), "
                f"because this {type(self).__name__} predicts {outputs} at a time. For one number a window write "
                "`labels[..., None]`."
            )
        return eqx.tree_at(lambda model: model.decoder.labels, self, fitted)

    def check_shapes(self, x0: Any, log_signatures: Any) -> None:
        name, controls = type(self).__name__, basis_channels(self.channels, self.depth, self.basis)
        if x0.ndim != 1 or log_signatures.ndim != 2:
            raise ValueError(
                f"Got x0 of shape {x0.shape} and log-signatures of shape {log_signatures.shape}; expected "
                f"(channels,) and (windows, {controls}), one example. For a batch write `jax.vmap(model)(x0, "
                "log_signatures)`."
            )
        if x0.shape[0] != self.channels:
            raise ValueError(
                f"Got a first point of {x0.shape[0]} channels; expected {self.channels}, the channels of the "
                f"path that this {name} was built for (time included). Write `x0 = path[0]`."
            )
        if log_signatures.shape[1] != controls:
            raise ValueError(
                f"Got log-signatures of {log_signatures.shape[1]} channels; expected {controls}: "
                f"{self.channels} channels at depth {self.depth}, {self.basis} "
                f"basis.{self._guess(log_signatures.shape[1])} Write `model.log_signatures(path, step=...)`, "
                "which always fits."
            )

    def _guess(self, got: int) -> str:
        for depth in range(1, 8):
            for basis in BASES:
                if basis_channels(self.channels, depth, basis) == got:
                    return f" They look like depth {depth}{', expanded' if basis == 'expanded' else ''}."
        return ""
