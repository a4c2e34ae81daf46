"""What a store holds of each window: log-signatures of the path, or of mixtures of its channels."""

from dataclasses import dataclass
from typing import ClassVar

import jax
import numpy as np
from jaxtyping import Float, Int

from ..models import AbstractModel, MultiScaleRDE
from ..paths import Windows
from ..signatures import basis_channels
from ..signatures.bases import Basis
from ..signatures.rounding import driving_log_signatures


@dataclass(frozen=True, eq=False)
class ControlLayout:
    """What drives a model in each window, in the words basis. `LogSignatureStreams` takes it in place of a model.

    Args:
        channels: of the prepared series, time included.
        windows: with a depth and scales.
        projection: where the path has many channels, the mixtures that `MultiScaleRDE` takes; then the increments of
            all channels come first.

    >>> layout = ControlLayout(3, Windows(step=4, depth=2))
    >>> layout.controls, layout.inputs(np.zeros((5, 9, 3)), np.array([0, 4, 8]))[1].shape
    (6, (5, 2, 6))
    """

    channels: int
    windows: Windows
    projection: np.ndarray | None = None
    basis: ClassVar[Basis] = "words"

    @staticmethod
    def for_model(model: type[AbstractModel], channels: int, windows: Windows) -> "ControlLayout":
        projection = None
        if issubclass(model, MultiScaleRDE):
            frozen = model(channels, 1, depth=1, key=jax.random.key(0)).projection
            projection = None if frozen is None else np.asarray(frozen.array)
        return ControlLayout(channels, windows, projection)

    @property
    def depth(self) -> int | tuple[int, ...]:
        return self.windows.depth  # type: ignore  # resolved: a number

    @property
    def scales(self) -> tuple[int, ...]:
        return self.windows.scales

    @property
    def takes_increments(self) -> bool:
        return self.projection is not None

    @property
    def controls(self) -> int:
        """Numbers per window."""
        mixtures = self.channels if self.projection is None else 1 + self.projection.shape[1]
        return basis_channels(mixtures, self.depth, scales=self.scales) + self.channels * self.takes_increments

    def mixed(self, path: Float[np.ndarray, "*batch length channels"]) -> Float[np.ndarray, "*batch length mixtures"]:
        if self.projection is None:
            return path
        return np.concatenate([path[..., :1], path[..., 1:] @ self.projection.astype(path.dtype)], axis=-1)

    def inputs(
        self, path: Float[np.ndarray, "batch length channels"], cuts: Int[np.ndarray, "*batch cuts"]
    ) -> tuple[np.ndarray, np.ndarray]:
        """First points and what drives a model, as the model's own `inputs` computes it."""
        mixed = self.mixed(path)
        logs = driving_log_signatures(mixed, self.depth, cuts, scales=self.scales)
        if self.takes_increments:
            rows = np.arange(len(path))[:, None]
            ends = path[rows, np.broadcast_to(cuts, (len(path), np.shape(cuts)[-1]))]
            logs = np.concatenate([np.diff(ends, axis=1), logs], axis=-1)
        return path[:, 0], logs
