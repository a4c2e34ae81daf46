"""Why a prediction is what it is: the part of each channel, and of each span of time.

The closed form is linear in features of known channels and windows, so its parts are exact arithmetic
(`neuralrde.features.contributions`). Of neural models they are gradients along the first point and the log-signatures
of windows, integrated from zero, where nothing moves, to what they are (Sundararajan, Taly and Yan 2017, Axiomatic
attribution for deep networks). Both add up to the output less a baseline.
"""

from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._types import AnyArray
from ..features.contributions import binned, contributions
from ..models import AbstractDrivenModel, AbstractModel, Ensemble
from ..models.readouts import Count
from ..paths import Series
from ..paths.checks import check_whole
from ..signatures.bases import basis_channels
from ..signatures.lyndon import lyndon_words
from ..training import AbstractLoss
from .fitted import FittedClosedForm, FittedNeural
from .sources import SampleSource, inputs_of, whole_series

# Points on the way from the baseline; doubled until what is missing is this share of what the parts sum to without
# their signs, or there are so many.
_POINTS, _MISSING, _MOST_POINTS = 32, 0.01, 512
# How many of them are computed at once.
_AT_ONCE = 8
TIME = "(time)"


@dataclass(frozen=True, eq=False)
class Explanation:
    """What each channel and each span of time contributed to the outputs for some series.

    An output is a number, or the logit of a class; of two classes there is one output, the logit of the second against
    the first. `contributions` add up to `outputs - baseline`: to rounding for the closed form, and for neural models to
    about a hundredth of what they sum to without their signs. `neuralrde.plots.explanation` draws one series of it.
    """

    names: tuple[str, ...]
    """Of the outputs: a class each, or "y"."""
    channels: tuple[str, ...]
    """Those of the series, "(time)" for time itself and the duration, and the columns of a table beside the series.

    A column of a channel's name is called "Weight (static)".
    """
    times: Float[np.ndarray, "samples ends"]
    """Where spans of time begin and end; points are numbered if there are no times."""
    baseline: Float[np.ndarray, "samples outputs"]
    outputs: Float[np.ndarray, "samples outputs"]
    contributions: Float[np.ndarray, "samples channels columns outputs"]
    """The last column is of the series as a whole: its statistics have no time."""
    series: Series
    """What was explained."""

    @property
    def missing(self) -> Float[np.ndarray, "samples outputs"]:
        """What contributions lack of `outputs - baseline`."""
        return self.outputs - self.baseline - self.contributions.sum(axis=(1, 2))

    def __len__(self) -> int:
        return len(self.outputs)

    def __repr__(self) -> str:
        channels, bins = len(self.channels), self.times.shape[1] - 1
        return f"Explanation({len(self)} series of {', '.join(self.names)}: {channels} channels, {bins} spans of time)"


def explained(fitted: FittedClosedForm | FittedNeural, source: SampleSource, bins: int) -> Explanation:
    """Explain the outputs of a fitted value for raw series."""
    check_whole("bins", bins, high=4096)
    series, static = whole_series(source), source.static
    rows, columns = len(series), () if fitted.inputs.static is None else fitted.inputs.static.names
    columns = (f"{name} (static)" if name in fitted.inputs.channels else name for name in columns)
    first, last = series.clock[:, 0], series.clock[np.arange(rows), series.lengths - 1]
    channels, count = (*fitted.inputs.channels, TIME, *columns), fitted.targets.outputs
    factors = fitted.blend.factors if isinstance(fitted, FittedNeural) else (1.0, 0.0)
    weighted = []
    if fitted.closed_form is not None:
        weighted.append((factors[0], _of_closed_form(fitted.closed_form, series, static, bins)))
    if isinstance(fitted, FittedNeural) and fitted.model is not None:
        weighted.append((factors[1], _of_neural(fitted, series, static, bins)))
    parts, baseline, outputs = (
        np.sum([factor * np.broadcast_to(found[which], shape) for factor, found in weighted], axis=0)
        for which, shape in enumerate(((rows, len(channels), bins + 1, count), (rows, count), (rows, count)))
    )
    names = ("y",) if fitted.targets.classes is None else tuple(map(str, fitted.targets.classes))
    if fitted.targets.classes is None and parts.shape[-1] > 1:
        names = tuple(f"y{number}" for number in range(parts.shape[-1]))
    if len(names) == 2 and fitted.targets.classes is not None:  # the second class against the first
        names, (parts, baseline, outputs) = (
            names[1:],
            (one[..., 1:] - one[..., :1] for one in (parts, baseline, outputs)),
        )
    return Explanation(names, channels, np.linspace(first, last, bins + 1, axis=1), baseline, outputs, parts, series)


def _of_closed_form(
    fitted: FittedClosedForm, series: Series, static: np.ndarray | None, bins: int
) -> tuple[np.ndarray, ...]:
    """Parts, baseline and outputs."""
    model = fitted.model
    assert model is not None
    sharpness = float(model.sharpness)
    coefficients = np.asarray(model.coefficients, np.float64) * sharpness
    baseline = np.asarray(model.intercept, np.float64) * sharpness
    owners = None if fitted.inputs.static is None else fitted.inputs.static.owners
    found = contributions(model.features, series, fitted.transform(series), coefficients, bins, static, owners)
    return found, baseline, fitted.whole_outputs(series, static)


def _of_neural(fitted: FittedNeural, series: Series, static: np.ndarray | None, bins: int) -> tuple[np.ndarray, ...]:
    """The same, on average over the shifts of windows."""
    model, loss = fitted.model, fitted.loss
    first: Any = model.first if isinstance(model, Ensemble) else model
    wrong = None
    if not isinstance(first, AbstractDrivenModel):
        wrong = f"the model {type(first).__name__}", "one that is driven by log-signatures"
    elif first.basis == "expanded":
        wrong = "a model that takes log-signatures in the expanded basis", "another, such as MultiScaleRDE"
    elif fitted.targets.per_time:
        wrong = "a model with a prediction at every point", "one prediction per series"
    elif fitted.augmentation is not None:
        wrong = f"the augmentation {fitted.augmentation!r}", "none, because predictions combine several versions"
    elif fitted.targets.classes is None and type(loss).predict is not AbstractLoss.predict:
        wrong = f"the loss {type(loss).__name__}", "a loss of predictions themselves, such as squared-error"
    if wrong is not None:
        raise ValueError(
            f"Got {wrong[0]} to explain; expected {wrong[1]}. LogSignatureClassifier and LogSignatureRegressor explain "
            "all that they predict."
        )
    prepared, shifts = fitted.transform(series), fitted.windows.all_shifts()
    each = [_shifted(fitted, first, prepared, static, bins, shift) for shift in shifts]
    return tuple(np.mean(one, axis=0) for one in zip(*each, strict=True))


def _shifted(
    fitted: FittedNeural, first: AbstractDrivenModel, prepared: Series, static: np.ndarray | None, bins: int, shift: int
) -> tuple[np.ndarray, ...]:
    model, found, coding = fitted.model, [], fitted.inputs.static
    assert model is not None
    inputs = inputs_of(model, prepared, fitted.windows, static=static, shift=shift)
    owners, channels = _owners(fitted, prepared), len(prepared.channels)
    letters = _letters(first, timed=bool(owners[0] == len(fitted.inputs.channels)))
    for row in range(len(prepared)):
        x0, logs = (array[row] for array in inputs.arrays)
        count = None if inputs.windows is None else inputs.windows[row]
        of_start, of_logs, (baseline, output) = _integrated(model, x0, logs, count)
        cuts = np.atleast_2d(inputs.cuts)[min(row, len(np.atleast_2d(inputs.cuts)) - 1)]
        path = np.asarray(prepared.values[row], np.float64)
        divided = np.zeros((path.shape[1], len(cuts) - 1, len(output)))
        moves = np.abs(np.diff(path, axis=0))
        moved = np.concatenate([np.zeros((1, path.shape[1])), np.cumsum(moves, axis=0)])
        moved = np.diff(moved[cuts], axis=0)  # windows, channels
        skipped = 0
        if first.takes_increments:  # these belong to their channel and window
            skipped = path.shape[1]
            divided += np.swapaxes(of_logs[:, :skipped], 0, 1)
        for scale, shares, mixture in letters:
            some = of_logs[:, skipped : skipped + len(shares)]
            skipped += len(shares)
            divided += _looked_back(np.einsum("wco,cl->wlo", some, shares), moved, mixture, scale)
        parts = np.concatenate([of_start[:channels, None], divided], axis=1)  # the first point is a span of no length
        by_row = np.zeros((len(fitted.inputs.channels) + 1, *parts.shape[1:]))
        np.add.at(by_row, owners, parts)
        clock = prepared.clock[row]
        in_bins = binned(by_row, np.concatenate([clock[:1], clock[cuts]]), bins)
        whole = np.concatenate([in_bins, np.zeros_like(in_bins[:, :1])], axis=1)
        if coding is not None:
            of_columns = np.zeros((coding.size, *whole.shape[1:]))
            np.add.at(of_columns[:, bins], coding.owners, of_start[channels:])
            whole = np.concatenate([whole, of_columns])
        found.append((whole, baseline, output))
    return tuple(np.stack(one) for one in zip(*found, strict=True))


def _owners(fitted: FittedNeural, prepared: Series) -> np.ndarray:
    """The raw channel that each prepared one was made of; the one after the last for time and all others."""
    place = {name: number for number, name in enumerate(fitted.inputs.channels)}
    place |= {f"{name} count": number for name, number in place.items() if f"{name} count" not in place}
    return np.array([place.get(name, len(fitted.inputs.channels)) for name in prepared.channels])


def _letters(model: AbstractDrivenModel, *, timed: bool) -> list[tuple[float, np.ndarray, np.ndarray]]:
    """For each scale: how many windows it looks back, the shares of letters in words, and of channels in letters.

    Time, the first letter if the path has it, has no share in a word with other letters: that says how these move.
    """
    seen = model.mixed(np.eye(model.channels))  # the letters, as mixtures of channels
    count, found = seen.shape[1], []
    scales = model.scales
    depths = model.depth if isinstance(model.depth, tuple) else (model.depth,) * len(scales)
    for scale, depth in zip(scales, depths, strict=True):
        words = lyndon_words(count, depth)
        assert len(words) == basis_channels(count, depth, model.basis)
        shares = np.stack([np.bincount(word, minlength=count) for word in words]).astype(float)
        shares[timed & shares[:, 1:].any(axis=1), 0] = 0.0
        found.append((scale, shares / shares.sum(axis=1, keepdims=True), np.abs(seen)))
    return found


def _looked_back(parts: np.ndarray, moved: np.ndarray, mixture: np.ndarray, scale: float) -> np.ndarray:
    """Parts of letters, in log-signatures of the last `scale` windows, as parts of channels and windows.

    They go to where channels moved, in proportion to how much, and how much of them a letter has.
    """
    windows = len(moved)
    scale = int(np.ceil(min(scale, windows)))  # a window that is seen in part has its part of what is seen
    begins = np.maximum(np.arange(windows) - scale + 1, 0)
    sizes = moved @ mixture  # windows, letters
    sizes = sizes + 1e-9 * max(1e-30, sizes.max())
    before = np.concatenate([np.zeros((1, sizes.shape[1])), np.cumsum(sizes, axis=0)])
    rates = parts / (before[1:] - before[begins])[:, :, None]
    # A window has its part of all that look back on it.
    sums = np.concatenate([np.zeros((1, *rates.shape[1:])), np.cumsum(rates, axis=0)])
    own = (sums[np.minimum(np.arange(windows) + scale, windows)] - sums[:-1]) * sizes[:, :, None]
    weights = moved[:, :, None] * mixture + 1e-9 * mixture
    weights /= np.maximum(weights.sum(axis=1, keepdims=True), 1e-30)
    return np.einsum("wlo,wcl->cwo", own, weights)


def _integrated(
    model: AbstractModel, x0: np.ndarray, logs: np.ndarray, windows: AnyArray | np.integer | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Gradients along a straight line from zero, times the way; and both ends' outputs."""
    points, windows = _POINTS, None if windows is None else jnp.asarray(windows)
    ends = np.stack([np.asarray(_output(model, share * x0, share * logs, windows), np.float64) for share in (0.0, 1.0)])
    while True:
        places = ((np.arange(points) + 0.5) / points).astype(x0.dtype).reshape(-1, _AT_ONCE)
        found = [[np.asarray(one, np.float64) for one in _slopes(model, x0, logs, windows, some)] for some in places]
        # jacrev's first axis is the output.
        ways = [np.moveaxis(np.sum(one, axis=0) / points, 0, -1) for one in zip(*found, strict=True)]
        ways = [one * way[..., None] for one, way in zip(ways, (x0, logs), strict=True)]
        missing = np.abs(ends[1] - ends[0] - ways[0].sum(axis=0) - ways[1].sum(axis=(0, 1)))
        size = np.abs(ways[0]).sum(axis=0) + np.abs(ways[1]).sum(axis=(0, 1))
        if not np.isfinite(size).all():
            raise ValueError("Got a model whose gradients are not finite numbers; expected one that can be explained.")
        if (missing <= _MISSING * size).all() or points >= _MOST_POINTS:
            return *ways, ends
        points *= 2


@eqx.filter_jit
def _output(model: AbstractModel, x0: AnyArray, logs: AnyArray, windows: Count | None) -> Array:
    return model(x0, logs, **({} if windows is None else {"windows": windows}))


def _sum_of_slopes(
    model: AbstractModel, x0: Array, logs: Array, windows: Count | None, places: Array
) -> tuple[Array, Array]:
    """The sums of gradients at some shares of the way."""
    slopes = jax.jacrev(lambda x0, logs: _output(model, x0, logs, windows), argnums=(0, 1))
    found = jax.vmap(lambda share: slopes(share * x0, share * logs))(places)
    return jax.tree.map(lambda part: part.sum(axis=0), found)


# Without optimisations XLA makes NaN of some of these gradients, whatever else asks for a quick compilation.
_slopes: Any = eqx.filter_jit(_sum_of_slopes, compiler_options={"xla_backend_optimization_level": 1})  # type: ignore
