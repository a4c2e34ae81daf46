"""From prepared series to what a model is called with: windows, log-signatures in float32, targets at windows' ends."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from ..paths import Series, Windows, window_counts
from ..registry import Config, accepted
from ..signatures import log_signatures
from ..signatures.rounding import without_padding, without_rounding
from ..training import LogSignatureCache

# One for all estimators: a search over depths, steps and folds meets the same paths again and again. Only `fit` fills
# it: what is predicted once is not asked for again.
CACHE = LogSignatureCache()


@dataclass(frozen=True)
class Inputs:
    """What a model is called with, and where the series were cut."""

    arrays: tuple[Float[np.ndarray, "samples ..."], ...]
    cuts: Int[np.ndarray, "*samples cuts"]
    windows: Int[np.ndarray, "samples"] | None
    """Each sample's own number of windows; None if all have all of them."""


def inputs_of(
    model: Any, prepared: Series, windows: Windows, *, shift: int = 0, at: Any = None, keep: bool = False
) -> Inputs:
    """Cut prepared series into windows and make of them what the model takes.

    Args:
        model: with a method `inputs`, as every model of the library has; any other gets first points and
            log-signatures.
        shift, at: see `window_cuts`.
        keep: whether log-signatures will be asked for again, and are worth memory until then.

    >>> import jax
    >>> from neuralrde.models import NeuralRDE
    >>> model = NeuralRDE(channels=3, outputs=1, depth=2, key=jax.random.key(0))
    >>> [a.shape for a in inputs_of(model, Series.from_array(np.zeros((5, 1001, 3))), Windows(step=20)).arrays]
    [(5, 3), (5, 50, 6)]
    """
    cuts = windows.cuts(prepared, shift=shift, at=at)
    path = np.asarray(prepared.values, np.float64)
    compute = CACHE if keep else log_signatures
    # Beyond float32: whoever predicts from it says which series it is.
    with np.errstate(over="ignore", invalid="ignore"):
        if hasattr(model, "inputs"):
            arrays = model.inputs(path, np.asarray(prepared.clock, np.float64), cuts, compute=compute)
        else:
            arrays = path[:, 0], log_signatures_of(path, windows, cuts, compute)
        arrays = tuple(np.asarray(array).astype(np.float32) for array in arrays)
    return Inputs(arrays, cuts, None if cuts.ndim == 1 else window_counts(prepared, cuts))


def log_signatures_of(
    path: np.ndarray, windows: Windows, cuts: np.ndarray, compute: Any = log_signatures
) -> np.ndarray:
    """Log-signatures over windows, with zero where there is nothing but rounding."""
    depth: Any = windows.depth
    found = np.asarray(compute(path, depth, cuts=cuts, scales=windows.scales))
    found = without_rounding(found, path, depth, cuts, scales=windows.scales)
    return found if windows.scales == (1,) else without_padding(found, cuts)


def scales_for(config: Config, windows: Windows) -> dict[str, Any]:
    """What a model's constructor is told of the scales; an error if it knows of one only."""
    if windows.scales == (1,):
        return {}
    if "scales" not in accepted(config.cls):
        raise ValueError(
            f"Got windows={windows!r} and model={config!r}, which looks at one window at a time; expected scales=(1,), "
            "or a model whose constructor takes `scales`."
        )
    return {"scales": windows.scales}
