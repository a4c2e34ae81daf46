"""Log-signatures of a path: over one interval, over windows that follow each other or overlap, at one scale or several.

One function does the work, `log_signatures`. On NumPy arrays, and inside JAX on a CPU, it runs the compiled kernel;
elsewhere (a GPU, a machine on which the kernel could not be built) the JAX form, with the same result.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Float, Integer, Real

from .._types import Depth
from ..paths import check_finite
from ..paths.checks import check_fits
from ..paths.windows import Windows, as_scales, depths_of, starts_by_count
from . import _jax_form, _kernel, _library
from ._spans import Since, Spans, WindowSpan, plan_joins, spans_of
from ._windows import join_pieces
from .bases import Basis, basis_channels, change_bases
from .tensor import check_path, namespace


def log_signature(
    path: Real[Any, "*batch length channels"], depth: int, *, basis: Basis = "words"
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
    path: Real[Any, "*batch length channels"],
    depth: int | tuple[int, ...],
    *,
    step: int | None = None,
    cuts: Integer[np.ndarray, "*samples cuts"] | None = None,
    starts: Integer[np.ndarray, "*samples windows"] | None = None,
    ends: Integer[np.ndarray, "*samples windows"] | None = None,
    dilation: int = 1,
    scales: float | tuple[float, ...] = (1,),
    lengths: tuple[int, ...] | None = None,
    whole: int | None = None,
    basis: Basis = "words",
) -> Float[Any, "*batch windows log_signatures"]:
    r"""The log-signatures LogSig^N over windows of a path (section 3.1 of the paper).

    With `step` or `cuts`, windows follow each other: they share their end points, and the last, shorter window is kept.
    A path of `length` points has ceil((length - 1) / step) windows; a path of one point has one zero log-signature.
    With `starts` and `ends` they are any windows, which may overlap. Differentiable with respect to the path, any
    number of times, forwards and backwards (`jax.grad`, `jax.jvp`, `jax.hessian`), and usable inside `jax.jit` and
    `jax.vmap`.

    Args:
        path: points `(..., length, channels)`, NumPy or JAX, float32 or float64. It must be finite; inside `jax.jit`,
            where nothing can be raised, a NaN or infinity makes the log-signature of its window not finite.
        depth: highest order of iterated integrals kept, N in the paper. With several scales it may be a tuple, one for
            each.
        step: increments per window.
        cuts: instead of `step`, the indices of the points at which to cut, `(windows + 1,)` or one row per sample;
            `neuralrde.paths.cuts_by_time` makes them for windows of equal duration.
        starts, ends: instead of both, the indices of each window's first and last point, `(windows,)` or one row per
            sample.
        dilation: a window's points are start, start + dilation, ..., end: a thinned path. Each window's length must be
            a multiple of it.
        scales: with `scales=(1, 2, 4, 8)`, at the end of each window, the log-signatures of the last 1, 2, 4 and 8
            windows, side by side in this order. At the beginning there are fewer. For windows by `step` or `cuts`.
        lengths, whole: instead of `scales`, how many increments back each looks, and to which depth one more looks back
            on all that has been seen; as in `Windows`. For windows by `step`.
        basis: "words", "brackets" or "expanded"; see `neuralrde.signatures.bases`.

    >>> import numpy as np
    >>> path = np.random.default_rng(0).normal(size=(8, 1000, 3))
    >>> log_signatures(path, depth=3, step=32).shape
    (8, 32, 14)
    >>> log_signatures(path, depth=2, step=32, scales=(1, 2, 4, 8)).shape  # 6 channels at each scale
    (8, 32, 24)
    >>> starts = np.arange(0, 900, 10)  # windows of 100 increments that overlap
    >>> log_signatures(path, depth=2, starts=starts, ends=starts + 100).shape
    (8, 90, 6)
    >>> log_signatures(path, depth=(2, 1), step=21, lengths=(280, 55), whole=1).shape  # 6, 3 and 3
    (8, 48, 12)
    """
    path = check_path(path)
    if lengths is not None or whole is not None:
        windows = Windows(step=step, depth=depth, scales=as_scales(scales), lengths=lengths, whole=whole)
        depth, scales = windows.looks["depth"], windows.looks["scales"]
    scales = as_scales(scales)
    spans, since = spans_of(path, step, cuts, starts, ends, dilation), None
    if any(scale % 1 > 0 for scale in scales):
        if step is None or dilation > 1:
            raise ValueError(
                f"Got scales={scales}, which are no whole numbers of windows, without a step; expected windows by "
                "`step`, because others differ in length. Or give the starts and ends of all windows."
            )
        since = [starts_by_count(spans.table, step, scale) if scale % 1 > 0 else None for scale in scales]
    if scales != (1,) and (starts is not None or not spans.consecutive):
        raise ValueError(
            f"Got scales={scales} with starts and ends; expected windows that follow each other, because a scale "
            "counts them. Write `step` or `cuts`, or give the starts and ends of all windows."
        )
    return log_signatures_since(path, depth, spans, since, scales=scales, basis=basis)


def log_signatures_since(
    path: Any, depth: Depth, spans: Spans, since: Since | None, *, scales: tuple[float, ...], basis: Basis
) -> Any:
    """Log-signatures at scales that count windows, or since given points, all of them side by side."""
    channels, depths = path.shape[-1], depths_of(depth, scales)
    log_channels = basis_channels(channels, depths, basis, scales=scales)  # which checks them, too
    _check_memory(path, depths, spans.windows, log_channels)
    # A path in one dimension commutes with itself: its log-signature is the increment, at any depth.
    words = _at_scales(path, spans, scales, depths if channels > 1 else (1,) * len(depths), since)
    return change_bases(words, channels, depths, old="words", new=basis)


def _at_scales(path: Any, spans: Spans, scales: tuple[float, ...], depths: tuple[int, ...], since: Since | None) -> Any:
    words: Any = _numpy_words if isinstance(path, np.ndarray) else _words
    # Inside JAX, joining windows that lie anywhere would be gathers, whose gradients are slow: they are followed.
    gathers = isinstance(path, jax.Array) and (since is not None or not spans.consecutive)
    shared = None if gathers else plan_joins(spans, scales, depths, path.shape[-2], since)
    if shared is None:
        looks = zip(scales, since or [None] * len(scales), depths, strict=True)
        parts = [words(path, spans.looking_back(scale, starts), n) for scale, starts, n in looks]
        return parts[0] if len(parts) == 1 else namespace(parts[0]).concatenate(parts, axis=-1)
    pieces, wanted = shared
    followed = words(path, pieces, max(depths))
    if isinstance(path, jax.Array):
        return join_pieces(followed, wanted, path.shape[-1])
    joined, finite = _numpy_runs(followed, wanted, path.shape[-1])
    if not finite:
        raise _overflow(path, max(depths))
    return joined


def _numpy_runs(pieces: np.ndarray, wanted: list[WindowSpan], channels: int) -> tuple[np.ndarray, bool]:
    if _library.available() and _library.joins(wanted):
        return _library.runs_of_numpy(pieces, wanted, channels)
    with np.errstate(over="ignore", invalid="ignore"):
        joined = join_pieces(pieces, wanted, channels)
    return joined, bool(np.isfinite(joined).all())


def _words(path: jax.Array, spans: Spans, depth: int) -> jax.Array:
    if not isinstance(path, Tracer):
        check_finite(np.asarray(path))
        on_cpu = all(device.platform == "cpu" for device in path.devices())
        return (_kernel if on_cpu and _kernel.available(depth) else _jax_form).words(path, spans, depth)
    if not _kernel.available(depth):
        return _jax_form.words(path, spans, depth)
    return jax.lax.platform_dependent(
        path,
        cpu=lambda path: _kernel.words(path, spans, depth),
        default=lambda path: _jax_form.words(path, spans, depth),
    )


def _numpy_words(path: np.ndarray, spans: Spans, depth: int) -> np.ndarray:
    if not _library.available(depth):
        check_finite(path)
        with jax.enable_x64(True):
            words = np.asarray(_jax_form.words(jnp.asarray(path), spans, depth))
        finite = bool(np.isfinite(words).all())
    else:
        words, finite = _library.words_of_numpy(path, spans, depth)
    if not finite:  # the kernel notices at no cost; finding out where is left for when it matters
        check_finite(path)
        raise _overflow(path, depth)
    return words


def _overflow(path: np.ndarray, depth: int) -> OverflowError:
    return OverflowError(
        f"The path is finite but its depth-{depth} log-signature overflows {path.dtype}: its largest value is "
        f"{np.abs(path).max():.3g}, and level N grows like its N-th power. Scale the path (`neuralrde.Scale`) or "
        "use float64."
    )


def _check_memory(path, depths: tuple[int, ...], windows: int, channels: int) -> None:
    samples = int(np.prod(path.shape[:-2], dtype=np.int64))
    check_fits(
        samples * windows * channels * path.dtype.itemsize,
        f"The depth-{max(depths)} log-signatures of {samples} series of {path.shape[-1]} channels in {windows} windows "
        f"have {channels:,} channels each and",
        "Take a smaller depth, a larger step, fewer channels, or the series in parts.",
    )
