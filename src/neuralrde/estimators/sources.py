"""Series in memory as a source of samples: what training and predicting ask for, from raw series to outputs.

`SeriesOnDisk`, in `stored.py`, answers the same questions from a store. Nobody else asks which of the two it has.
"""

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, ClassVar, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from ..paths import Series, Windows, window_counts
from ..signatures import log_signatures
from ..training import Examples, LogSignatureCache, predict, targets_at_cuts
from ..transforms import Transform
from .search import candidates

# One for all estimators: a search over depths, steps and folds meets the same paths again and again. Only `fit` fills
# it: what is predicted once is not asked for again.
CACHE = LogSignatureCache()


class VersionOutputs(NamedTuple):
    """A model's outputs for one version of new series."""

    outputs: np.ndarray
    factor: float = 1.0
    """What targets are multiplied by in this version."""


# From outputs after every window to outputs at every point.
AtPoints = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class SeriesInMemory:
    """Series as a user gives them, or prepared by a transform."""

    series: Series
    in_memory: ClassVar[bool] = True
    groups: ClassVar[None] = None

    def __len__(self) -> int:
        return len(self.series)

    def __getitem__(self, rows: Any) -> "SeriesInMemory":
        return SeriesInMemory(self.series[rows])

    # What `fit` is given.

    def targets(self, estimator: Any, y: Any) -> Any:
        """The targets that were given; series have none of their own."""
        return y

    def validation(self, given: Any) -> Sequence[Any]:
        """The arguments X, y and perhaps sample_weight of a validation set."""
        if not isinstance(given, tuple | list) or len(given) not in (2, 3):
            raise ValueError(
                f"Got validation of type {type(given).__name__}; expected (X, y), or (X, y, sample_weight)."
            )
        return given

    def check_possible(self, estimator: Any, parts: SimpleNamespace) -> None:
        """Raise if the estimator's parameters ask for something that this source cannot give."""

    # Preparing.

    def fit_and_prepare(self, transform: Transform) -> tuple[Transform, "SeriesInMemory"]:
        """The transform, fitted to these series, and what it makes of them."""
        fitted, series = transform.fit_and_call(self.series)
        return fitted, SeriesInMemory(series)

    def prepared(self, transform: Callable[[Series], Series]) -> "SeriesInMemory":
        """What a fitted transform, or another function, makes of these series."""
        return SeriesInMemory(transform(self.series))

    # Of prepared series: windows, and examples for a model.

    @property
    def channels(self) -> int:
        return self.series.values.shape[2]

    def candidates(self, windows: Windows) -> list[Windows]:
        """The windows to choose from."""
        return candidates(windows, self.series)

    def window_counts(self, windows: Windows) -> Int[np.ndarray, "samples"]:
        return window_counts(self.series, windows.cuts(self.series))

    def examples(
        self,
        model: Any,
        windows: Windows,
        target: np.ndarray | None = None,
        *,
        weight: np.ndarray | None = None,
        others: Sequence[np.ndarray] = (),
        shift: int = 0,
        at: Any = None,
        per_time: bool = False,
        keep: bool = False,
    ) -> Examples:
        """A model's inputs, with targets.

        Args:
            model, windows, shift, at, keep: see `inputs_of`.
            target: one per series, or with `per_time` one at every point.
            weight: how much each series counts.
            others: more inputs, one per series, that come after the model's own.
            per_time: whether to train on targets at the ends of windows.
        """
        inputs = inputs_of(model, self.series, windows, shift=shift, at=at, keep=keep)
        if per_time and target is not None:
            target = targets_at_cuts(target, inputs.cuts)
        return Examples((*inputs.arrays, *others), target, windows=inputs.windows, weight=weight)

    def fit_inputs(self, model: Any, examples: Examples) -> Any:
        """The model with statistics of these examples' inputs."""
        return model.fit_inputs(examples.inputs, windows=examples.windows)

    # Predicting.

    def outputs(self, estimator: Any) -> tuple[list[VersionOutputs], AtPoints]:
        """A fitted estimator's outputs: averaged over shifts, blended with the closed form.

        There are several versions if an augmentation says so. The function after them gives outputs at every point.
        """
        # The closed form never saw another version: it predicts from the series as they are, once.
        closed = functools.cache(lambda form: form._outputs(self.series))
        if estimator.model_ is None:
            return [VersionOutputs(estimator._blended(None, closed))], lambda outputs: outputs
        augmentation, versions = estimator.augmentation_, []
        for series, factor in [(self.series, 1.0)] if augmentation is None else augmentation.test_versions(self.series):
            outputs, cuts = self._outputs_of_version(estimator, estimator.transform_(series))
            versions.append(VersionOutputs(estimator._blended(outputs, closed, factor), factor))
        # Targets at points have no augmentation, so that there was one version.
        return versions, lambda outputs: _held_until_next(outputs, cuts, self.series.values.shape[1])

    def _outputs_of_version(self, estimator: Any, prepared: Series) -> tuple[np.ndarray, np.ndarray]:
        outputs = []
        for shift in estimator.windows_.all_shifts():
            inputs = inputs_of(estimator.model_, prepared, estimator.windows_, shift=shift)
            examples = Examples(inputs.arrays, windows=inputs.windows)
            outputs.append(predict(estimator.model_, examples, mesh=getattr(estimator, "_mesh", None)))
        mean = np.mean(outputs, axis=0)
        check_finite_outputs(mean, prepared)
        return mean, inputs.cuts


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
    """Cut prepared series into windows and compute what the model takes, in float32.

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
    # Numbers beyond float32 become infinite. `check_finite_outputs` then says which series they are in.
    with np.errstate(over="ignore", invalid="ignore"):
        arrays = model.inputs(path, np.asarray(prepared.clock, np.float64), cuts, compute=compute)
        arrays = tuple(np.asarray(array).astype(np.float32) for array in arrays)
    return Inputs(arrays, cuts, None if cuts.ndim == 1 else window_counts(prepared, cuts))


def check_finite_outputs(outputs: np.ndarray, prepared: Series) -> None:
    """Raise rather than predict from NaN, which `argmax` would take for the first class."""
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


def _held_until_next(outputs: np.ndarray, cuts: np.ndarray, length: int) -> np.ndarray:
    """Outputs after windows, held until the next: a point's prediction knows nothing that comes later."""
    cuts = np.broadcast_to(cuts, (len(outputs), cuts.shape[-1]))
    latest = np.stack([np.searchsorted(row, np.arange(length), side="right") - 1 for row in cuts])
    return outputs[np.arange(len(outputs))[:, None], latest]
