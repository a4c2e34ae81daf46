"""Log-signatures of a path: over one interval, or over consecutive windows.

One function does the work, `log_signatures`. On NumPy arrays, and inside JAX on a CPU, it runs the compiled kernel;
elsewhere (a GPU, a machine on which the kernel could not be built) the JAX form, with the same result.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Float, Int

from ..paths import check_finite, cuts_by_count
from ..paths.memory import check_fits
from . import _jax_form, _kernel
from ._arrays import check_path
from .bases import Basis, basis_channels, change_basis, check_basis
from .lyndon import check_channels_and_depth


def log_signature(
    path: Float[Any, "*batch length channels"], depth: int, *, basis: Basis = "words"
) -> Float[Any, "*batch log_signature"]:
    """The depth-N log-signature of a piecewise-linear path over its whole length.

    Args:
        path: points `(..., length, channels)`, NumPy or JAX, float32 or float64.
        depth: highest order of iterated integrals kept, N in the paper.
        basis: "words", "brackets" or "expanded"; see `neuralrde.signatures.bases`.

    >>> import numpy as np
    >>> log_signature(np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0]]), depth=2)  # two increments and the Levy area
    array([1. , 1. , 0.5])
    """
    path = check_path(path)
    return log_signatures(path, depth, step=max(path.shape[-2] - 1, 1), basis=basis)[..., 0, :]


def log_signatures(
    path: Float[Any, "*batch length channels"],
    depth: int,
    *,
    step: int | None = None,
    cuts: Int[np.ndarray, "*samples cuts"] | None = None,
    basis: Basis = "words",
) -> Float[Any, "*batch windows log_signature"]:
    r"""The log-signatures LogSig^N over consecutive windows of a path (section 3.1 of the paper).

    Consecutive windows share their end point, and the last, shorter window is kept: a path of `length` points has
    ceil((length - 1) / step) windows, and a path of one point a single zero log-signature. Differentiable with respect
    to the path in reverse mode (`jax.grad`, `jax.vjp`, `jax.jacrev`, one inside the other too), and usable inside
    `jax.jit` and `jax.vmap`.

    Args:
        path: points `(..., length, channels)`, NumPy or JAX, float32 or float64. It must be finite; inside `jax.jit`,
            where nothing can be raised, a NaN or infinity makes the log-signature of its window not finite.
        depth: highest order of iterated integrals kept, N in the paper.
        step: increments in a window.
        cuts: instead of `step`, the indices of the points at which to cut, `(windows + 1,)` or one row a sample;
            `neuralrde.cuts_by_time` makes them for windows of equal duration.
        basis: "words", "brackets" or "expanded"; see `neuralrde.signatures.bases`.

    >>> import numpy as np
    >>> path = np.random.default_rng(0).normal(size=(8, 1000, 3))
    >>> log_signatures(path, depth=3, step=32).shape
    (8, 32, 14)
    """
    path = check_path(path)
    check_basis(basis)
    check_channels_and_depth(path.shape[-1], depth)
    cuts = _check_cuts(path, step, cuts)
    _check_memory(path, depth, cuts.shape[-1] - 1, basis)
    # A path in one dimension commutes with itself: its log-signature is the increment, at any depth.
    effective = depth if path.shape[-1] > 1 else 1
    words = _words(path, cuts, effective) if isinstance(path, jax.Array) else _numpy_words(path, cuts, effective)
    return change_basis(words, path.shape[-1], depth, old="words", new=basis)


def _words(path: jax.Array, cuts: np.ndarray, depth: int) -> jax.Array:
    if not isinstance(path, Tracer):
        check_finite(np.asarray(path))
        on_cpu = all(device.platform == "cpu" for device in path.devices())
        return (_kernel if on_cpu and _kernel.available(depth) else _jax_form).words(path, cuts, depth)
    if not _kernel.available(depth):
        return _jax_form.words(path, cuts, depth)
    return jax.lax.platform_dependent(
        path,
        cpu=lambda path: _kernel.words(path, cuts, depth),
        default=lambda path: _jax_form.words(path, cuts, depth),
    )


def _numpy_words(path: np.ndarray, cuts: np.ndarray, depth: int) -> np.ndarray:
    if not _kernel.available(depth):
        check_finite(path)
        with jax.enable_x64(True):
            words = np.asarray(_jax_form.words(jnp.asarray(path), cuts, depth))
        finite = bool(np.isfinite(words).all())
    else:
        words, finite = _kernel.words_of_numpy(path, cuts, depth)
    if not finite:  # the kernel notices at no cost; finding out where is left for when it matters
        check_finite(path)
        raise OverflowError(
            f"The path is finite but its depth-{depth} log-signature overflows {path.dtype}: its largest value is "
            f"{np.abs(path).max():.3g}, and level N grows like its N-th power. Scale the path (`neuralrde.Scale`) or "
            "use float64."
        )
    return words


def _check_cuts(path, step: int | None, cuts: Any) -> np.ndarray:
    length, batch = path.shape[-2], path.shape[:-2]
    if (step is None) == (cuts is None):
        raise TypeError(
            f"Got step={step} and cuts={'None' if cuts is None else '...'}; expected exactly one of them. Write "
            "`log_signatures(path, depth, step=32)` for windows of 32 increments."
        )
    if step is not None:
        return cuts_by_count(length, step)
    if isinstance(cuts, Tracer):
        raise TypeError(
            "Got cuts that are traced by JAX; expected a NumPy array, because the number of points in a window shapes "
            "the computation. Make the cuts outside `jax.jit`."
        )
    cuts = np.asarray(cuts)
    if not np.issubdtype(cuts.dtype, np.integer) or cuts.ndim < 1 or cuts.shape[-1] < 2:
        raise ValueError(
            f"Got cuts of shape {cuts.shape} and type {cuts.dtype}; expected whole numbers (windows + 1,) or "
            "(..., windows + 1): the indices of the points at which windows meet."
        )
    if cuts.ndim > 1 and cuts.shape[:-1] != batch:
        raise ValueError(
            f"Got cuts of shape {cuts.shape} for a path of shape {path.shape}; expected one row of cuts for all "
            f"samples, ({cuts.shape[-1]},), or one for each, {(*batch, cuts.shape[-1])}."
        )
    cuts = cuts.astype(np.int64)  # before differences are taken: those of unsigned numbers are never negative
    if (np.diff(cuts, axis=-1) < 0).any() or cuts.min() < 0 or cuts.max() >= length:
        raise ValueError(
            f"Got cuts from {cuts.min()} to {cuts.max()} on a path of {length} points; expected indices between 0 and "
            f"{length - 1} that never decrease, because windows follow each other."
        )
    return cuts


def _check_memory(path, depth: int, windows: int, basis: Basis) -> None:
    channels = basis_channels(path.shape[-1], depth, basis)
    samples = int(np.prod(path.shape[:-2], dtype=np.int64))
    check_fits(
        samples * windows * channels * path.dtype.itemsize,
        f"The depth-{depth} log-signatures of {samples} series of {path.shape[-1]} channels in {windows} windows have "
        f"{channels:,} channels each and",
        "Take a smaller depth, a larger step, fewer channels, or the series in parts.",
    )
