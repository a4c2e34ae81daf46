"""The folded ODE-RNN, the paper's baseline: a recurrent cell over blocks of points, an ODE in between."""

from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from .._types import AnyArray
from ..errors import ParameterError
from ..fields.free import Trunk
from ..solvers import RK4
from ..solvers.runge_kutta import advance
from .base import AbstractDecodedModel, Decoder
from .readouts import AbstractReadout, Count, FinalState


def fold(path: Float[Array | np.ndarray, "*batch length channels"], step: int) -> AnyArray:
    """Blocks of `step` points, side by side as channels: (..., blocks, step · channels).

    If the last block is not full, its last point is repeated. No block consists of repeated points alone.

    >>> fold(np.arange(5.0)[:, None], step=2).tolist()
    [[0.0, 1.0], [2.0, 3.0], [4.0, 4.0]]
    """
    if step < 1:
        raise ParameterError("step", step, "at least 1 point a block")
    numpy = jnp if isinstance(path, jax.Array) else np
    missing = -path.shape[-2] % step
    filled = numpy.concatenate([path, numpy.repeat(path[..., -1:, :], missing, axis=-2)], axis=-2)
    return filled.reshape(*path.shape[:-2], filled.shape[-2] // step, step * path.shape[-1])


class ODERNN(AbstractDecodedModel):
    """h' = f(h) for unit time, then a GRU cell takes in a block, and so on (Rubanova et al., 2019).

    Args:
        channels: channels of the path.
        outputs: channels of the prediction.
        points: points per block. All of them enter the cell at once, so nothing is lost, but the cell's input grows.
        state: channels of the hidden state.
        width, layers: shape of the ODE's network.
        readout: `FinalState()`, `MeanState()` or `EveryState()`.
        solver, substeps: how the ODE between blocks is solved.
        key: random key for the initial weights.

    >>> import jax, jax.numpy as jnp
    >>> model = ODERNN(channels=2, outputs=1, points=4, key=jax.random.key(0))
    >>> model(fold(jnp.ones((10, 2)), step=4)).shape
    (1,)
    """

    cell: eqx.nn.GRUCell
    network: Trunk
    last: eqx.nn.Linear
    decoder: Decoder
    solver: eqx.Module
    points: int = eqx.field(static=True)
    substeps: int = eqx.field(static=True)
    not_online: ClassVar[str | None] = "reads all points of a window at once"

    def __init__(
        self,
        channels: int,
        outputs: int,
        *,
        points: int,
        state: int = 32,
        width: int = 64,
        layers: int = 2,
        readout: AbstractReadout = FinalState(),  # noqa: B008 (immutable objects)
        solver: eqx.Module = RK4(),  # noqa: B008
        substeps: int = 1,
        key: PRNGKeyArray,
    ):
        cell_key, network_key, last_key, decoder_key = jax.random.split(key, 4)
        self.cell = eqx.nn.GRUCell(points * channels, state, key=cell_key)
        self.network = Trunk(state, width, layers, key=network_key)
        self.last = eqx.nn.Linear(width, state, key=last_key)
        self.decoder = Decoder(readout, state, outputs, key=decoder_key)
        self.solver, self.points, self.substeps = solver, points, substeps

    def inputs(self, path, times, cuts):
        """One block per window, with all its points, including the first."""
        ends = np.broadcast_to(cuts, (len(path), np.shape(cuts)[-1]))
        if (np.diff(ends) >= self.points).any():
            raise ValueError(f"Got windows of more than {self.points} points; expected at most those of a block.")
        # A window that is not full repeats its last point.
        points = np.minimum(ends[:, :-1, None] + np.arange(self.points), ends[:, 1:, None])
        blocks = path[np.arange(len(path))[:, None, None], points]
        return (blocks.reshape(len(path), ends.shape[1] - 1, -1),)

    def __call__(
        self, blocks: Float[Array, "windows block"], *, windows: Count | None = None
    ) -> Float[Array, "*out outputs"]:
        """The prediction. `windows` is the example's own number of windows, because a cell does not stop at padding."""
        if blocks.ndim != 2 or blocks.shape[1] != self.cell.input_size:
            raise ValueError(
                f"Got blocks of shape {blocks.shape}; expected (windows, {self.cell.input_size}), points times "
                "channels, one example. Write `fold(path, step)`, and `jax.vmap(model)` for a batch."
            )
        count = blocks.shape[0] if windows is None else windows

        @jax.checkpoint
        def window(h, inputs):
            index, block = inputs
            evolved = advance(self.solver, lambda h: self.last(self.network(h)), h, self.substeps)
            h = jnp.where(index < count, self.cell(block, evolved), h)
            return h, h

        start = jnp.zeros(self.cell.hidden_size, jnp.result_type(blocks, self.cell.weight_ih))
        final, states = jax.lax.scan(window, start, (jnp.arange(blocks.shape[0]), blocks))
        every = self.decoder.readout.every_window
        return self.decoder(jnp.concatenate([start[None], states]) if every else final, windows)
