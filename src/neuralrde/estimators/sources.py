"""Where samples come from: the protocol `SampleSource`, and series in memory, which follow it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float, Int

from .._types import Selection, TargetLike
from ..models import AbstractModel
from ..paths import Series, Windows, window_counts
from ..training import Examples, Source, targets_at_cuts
from ..transforms import Transform

# Up to so many series, compiling takes longer than computing.
_FEW = 32


@runtime_checkable
class SampleSource(Protocol):
    """Series that an estimator can be trained on and predict for: in memory, in a store, or elsewhere.

    A source is raw until a transform has `prepared` it. Methods raise where a source cannot give what is asked for.
    """

    def __len__(self) -> int: ...

    def __getitem__(self, rows: Selection) -> "SampleSource": ...

    @property
    def series(self) -> Series:
        """The series; from a store, placeholders of one point, for functions that only count them."""
        ...

    @property
    def groups(self) -> np.ndarray | None:
        """The group of each series, if the source knows it."""
        ...

    @property
    def static(self) -> Float[np.ndarray, "samples numbers"] | None:
        """What is known of each series as a whole, as numbers; None if nothing is."""
        ...

    def targets(self, y: TargetLike, task: str) -> Any:
        """The targets that were given, or the source's own; None if there are none."""
        ...

    def check_possible(self, trainer: Any) -> None:
        """Raise if a `Trainer` is asked for something that this source cannot give."""
        ...

    def whole(self) -> Series | None:
        """The raw series, for what looks at series as a whole; None if they are not at hand."""
        ...

    def fit_and_prepare(self, transform: Transform) -> tuple[Transform, "SampleSource"]:
        """The transform, fitted to these series, and the source that it prepares."""
        ...

    def prepared(self, transform: Callable[[Series], Series]) -> "SampleSource": ...

    # Of prepared series.

    @property
    def n_channels(self) -> int: ...

    def resolved(self, windows: Windows) -> Windows:
        """The windows with a number of points in place of `count`."""
        ...

    def window_counts(self, windows: Windows) -> Int[np.ndarray, "samples"]: ...

    def examples(
        self,
        model: AbstractModel,
        windows: Windows,
        target: np.ndarray | None = None,
        *,
        weight: np.ndarray | None = None,
        extra_inputs: Sequence[np.ndarray] = (),
        shift: int = 0,
        label_points: np.ndarray | None = None,
        per_time: bool = False,
    ) -> Source:
        """A model's inputs as `inputs_of` makes them, then the extra ones, one per series each; and the targets.

        Targets are one per series, or with `per_time` one at every point, of which those at windows' ends are taken.
        """
        ...

    def fit_inputs(self, model: AbstractModel, examples: Any) -> AbstractModel:
        """The model with statistics of these examples' inputs."""
        ...

    def check_finite(self, outputs: np.ndarray) -> None:
        """Raise rather than predict from NaN, which `argmax` would take for the first class."""
        ...


@runtime_checkable
class HasSource(Protocol):
    """Anything that is a source of samples, such as a `Store`."""

    @property
    def channels(self) -> tuple[str, ...]: ...

    def as_source(self) -> SampleSource: ...


def whole_series(source: SampleSource) -> Series:
    """The raw series of a source that has them."""
    series = source.whole()
    if series is None:
        raise ValueError(
            "Got a store for an estimator that looks at series as a whole, by the closed form or an augmentation; "
            "expected series. Fit with closed_form=False and no augmentation, or from a store, to predict from a store."
        )
    return series


@dataclass(frozen=True)
class SeriesInMemory:
    """Series as a user gives them, or prepared by a transform; see `SampleSource` for the methods."""

    series: Series
    static: Float[np.ndarray, "samples numbers"] | None = None
    groups = None

    def __len__(self) -> int:
        return len(self.series)

    def __getitem__(self, rows: Selection) -> "SeriesInMemory":
        return SeriesInMemory(self.series[rows], None if self.static is None else self.static[rows])

    def targets(self, y: TargetLike, task: str) -> Any:
        return y

    def check_possible(self, trainer: Any) -> None:
        pass

    def whole(self) -> Series:
        return self.series

    def fit_and_prepare(self, transform: Transform) -> tuple[Transform, "SeriesInMemory"]:
        fitted, series = transform.fit_and_call(self.series)
        return fitted, SeriesInMemory(series, self.static)

    def prepared(self, transform: Callable[[Series], Series]) -> "SeriesInMemory":
        return SeriesInMemory(transform(self.series), self.static)

    @property
    def n_channels(self) -> int:
        return self.series.values.shape[2]

    def resolved(self, windows: Windows) -> Windows:
        return windows.resolved(self.series)

    def window_counts(self, windows: Windows) -> Int[np.ndarray, "samples"]:
        return window_counts(self.series, windows.cuts(self.series))

    def examples(
        self,
        model: AbstractModel,
        windows: Windows,
        target: np.ndarray | None = None,
        *,
        weight: np.ndarray | None = None,
        extra_inputs: Sequence[np.ndarray] = (),
        shift: int = 0,
        label_points: np.ndarray | None = None,
        per_time: bool = False,
    ) -> Examples:
        # To predict, some room: other series will come, and should need no other program.
        room = target is None
        options = {"static": self.static, "shift": shift, "label_points": label_points, "room": room}
        inputs = inputs_of(model, self.series, windows, **options)
        if per_time and target is not None:
            target = targets_at_cuts(target, inputs.cuts)
        return Examples((*inputs.arrays, *extra_inputs), target, windows=inputs.windows, weight=weight)

    def fit_inputs(self, model: AbstractModel, examples: Examples) -> AbstractModel:
        return model.fit_inputs(examples.inputs, windows=examples.windows)

    def check_finite(self, outputs: np.ndarray) -> None:
        wrong, series = ~np.isfinite(outputs).all(axis=tuple(range(1, outputs.ndim))), self.series
        if not wrong.any():
            return
        row = int(wrong.argmax())
        name = f"{row}" if series.ids is None else f"{row} ({series.ids[row]})"
        name += f" and {wrong.sum() - 1} more" if wrong.sum() > 1 else ""
        largest = np.abs(series.values[row]).max(axis=0)
        channel = int(largest.argmax())
        raise ValueError(
            f"Got series {name}, for which the model's prediction is not a finite number: scaled as in training, "
            f"channel {series.channels[channel]!r} reaches {largest[channel]:.3g}, and the model computes in float32. "
            "Look for values that are no measurements, and write NaN for them."
        )


@dataclass(frozen=True)
class Inputs:
    """What a model is called with, and where the series were cut."""

    arrays: tuple[Float[np.ndarray, "samples ..."], ...]
    cuts: Int[np.ndarray, "*samples cuts"]
    windows: Int[np.ndarray, "samples"] | None
    """Each sample's own number of windows; None if all have all of them."""


def inputs_of(
    model: AbstractModel,
    prepared: Series,
    windows: Windows,
    *,
    static: Float[np.ndarray, "samples numbers"] | None = None,
    shift: int = 0,
    label_points: np.ndarray | None = None,
    room: bool = False,
) -> Inputs:
    """Cut prepared series into windows and compute what the model takes, in float32.

    Args:
        model: says what it takes, by its method `inputs`.
        static: what is known of each series as a whole, which goes beside its first point.
        shift: see `window_cuts`.
        label_points: where windows end, too; `at` in `window_cuts`.
        room: whether to add empty windows, up to a number that serves many lengths with one compiled program.

    >>> import jax
    >>> from neuralrde.models import NeuralRDE
    >>> model = NeuralRDE(channels=3, outputs=1, depth=2, key=jax.random.key(0))
    >>> [a.shape for a in inputs_of(model, Series.from_array(np.zeros((5, 1001, 3))), Windows(step=20)).arrays]
    [(5, 3), (5, 50, 6)]
    """
    cuts = windows.cuts(prepared, shift=shift, at=label_points)
    counts = None if cuts.ndim == 1 else window_counts(prepared, cuts)
    if room and model.ignores_padding:
        number = cuts.shape[-1] - 1
        counts = np.full(len(prepared), number) if counts is None else counts
        more = with_room(number, many=len(prepared) > _FEW) - number
        cuts = np.concatenate([cuts, np.repeat(cuts[..., -1:], more, axis=-1)], axis=-1)
    # Only asked of models that take scales: others are refused before.
    starts = windows.starts(prepared, cuts, shift=shift, at=label_points)
    since = {} if all(one is None for one in starts) else {"since": starts}
    path = np.asarray(prepared.values, np.float64)
    # Numbers beyond float32 become infinite. `check_finite` then says which series they are in.
    with np.errstate(over="ignore", invalid="ignore"):
        arrays = model.inputs(path, np.asarray(prepared.clock, np.float64), cuts, **since)
        if static is not None:
            arrays = (np.concatenate([arrays[0], static], axis=1), *arrays[1:])
        arrays = tuple(np.asarray(array).astype(np.float32) for array in arrays)
    return Inputs(arrays, cuts, counts)


def with_room(number: int, *, many: bool = False) -> int:
    """The next power of two; with many examples, whose computation takes longer than compiling, the next eighth.

    >>> [with_room(number) for number in (1, 5, 100)], [with_room(number, many=True) for number in (1, 5, 100)]
    ([1, 8, 128], [1, 5, 104])
    """
    power = 1 << (number - 1).bit_length()
    return -(-number // max(1, power // 16)) * max(1, power // 16) if many else power
