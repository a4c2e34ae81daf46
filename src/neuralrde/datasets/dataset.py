"""Dataset: series with what is to be predicted from them, and how they were grouped and divided."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from jaxtyping import Shaped
from numpy.typing import ArrayLike

from neuralrde.paths import Series, concatenate

Task = Literal["classification", "regression"]
PARTS = ("train", "validation", "test")


@dataclass(frozen=True, eq=False, init=False, repr=False)
class Dataset:
    """Series and their targets; the first axis of all arrays are the samples.

    >>> data = Dataset(Series.from_array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]), ["run", "walk", "run"])
    >>> data.target.tolist(), data.classes
    ([0, 1, 0], ('run', 'walk'))
    >>> data[1:]
    Dataset('data': 2 samples of 2 classes; 2 points, 1 channel: x0; float64)

    Args:
        series: the samples.
        target: what to predict; None if it is not known. Class labels, `(samples,)`, or `(samples, length)`
            for one at each point (-1 where there is none); or real numbers, `(samples,)`,
            `(samples, outputs)`, or `(samples, length, outputs)` at each point (NaN where there is none).
        task: None takes strings, booleans and whole numbers for class labels, and other numbers for a
            regression; "regression" or "classification" says so.
        classes: the names of the classes, if `target` holds their numbers already.
        groups: who a sample comes from (patient, speaker): samples of a group are not to be divided between
            training and test set.
        split: "train", "validation" or "test" for each sample, where the source has divided them.
        name: of the data set.
        source: where the data come from and under which licence.
    """

    series: Series
    target: Shaped[np.ndarray, "samples ..."] | None
    classes: tuple[str, ...] | None
    groups: Shaped[np.ndarray, "samples"] | None
    split: Shaped[np.ndarray, "samples"] | None
    name: str
    source: str

    def __init__(
        self,
        series: Series,
        target: ArrayLike | None = None,
        *,
        task: Task | None = None,
        classes: Sequence[str] | None = None,
        groups: ArrayLike | None = None,
        split: ArrayLike | None = None,
        name: str = "data",
        source: str = "",
    ):
        if not isinstance(series, Series):
            raise TypeError(
                f"Got series of type {type(series).__name__}; expected a Series. Write "
                "`Dataset(Series.from_array(array), target)`."
            )
        if target is not None:
            target, classes = _as_target(target, task, classes, series)
        elif classes is not None:
            raise ValueError(f"Got classes={list(classes)} without a target; expected both or neither.")
        if groups is not None:
            groups = _one_a_sample(groups, "groups", series)
        if split is not None:
            split = _as_split(split, series)
        for field, value in (
            ("series", series),
            ("target", target),
            ("classes", classes),
            ("groups", groups),
            ("split", split),
            ("name", str(name)),
            ("source", str(source)),
        ):
            object.__setattr__(self, field, value)

    @property
    def task(self) -> Task | None:
        """What the target asks for; None without a target."""
        if self.target is None:
            return None
        return "regression" if self.classes is None else "classification"

    @property
    def per_time(self) -> bool:
        """Whether there is a target at every point, and not one for a sample."""
        return self.target is not None and self.target.ndim == (3 if self.classes is None else 2)

    def __len__(self) -> int:
        return len(self.series)

    def __getitem__(self, samples) -> "Dataset":
        """Some of the samples, by a slice, a mask, or numbers; the classes stay all of them."""
        rows = np.atleast_1d(np.arange(len(self))[samples])

        def pick(array):
            return None if array is None else array[rows]

        return replace(
            self,
            series=self.series[rows],
            target=pick(self.target),
            groups=pick(self.groups),
            split=pick(self.split),
        )

    def summary(self) -> str:
        """Several lines for people: sizes, targets, groups, parts and where the data come from.

        >>> series = Series.from_array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
        >>> print(Dataset(series, [0.5, 1.0, 1.5], groups=["a", "a", "b"], name="lungs").summary())
        lungs
          series  3 samples, 2 points, 1 channel: x0; float64
          target  real numbers 0.5 to 1.5, mean 1, standard deviation 0.408
          groups  2, of 1 to 2 samples
        """
        lines = [self.name, f"  series  {_inside(self.series)}"]
        if self.target is not None:
            lines.append(f"  target  {_describe(self)}")
        if self.groups is not None:
            counts = np.unique(self.groups, return_counts=True)[1]
            lines.append(f"  groups  {len(counts)}, of {counts.min()} to {counts.max()} samples")
        if self.split is not None:
            parts = [f"{part} {np.sum(self.split == part)}" for part in PARTS if (self.split == part).any()]
            lines.append(f"  split   {', '.join(parts)}")
        if self.source:
            lines.append(f"  source  {self.source}")
        return "\n".join(lines)

    def __repr__(self) -> str:
        samples, rest = _inside(self.series).split(", ", 1)
        if self.classes is not None:
            samples += f" of {len(self.classes)} class{'' if len(self.classes) == 1 else 'es'}"
        elif self.target is not None:
            samples += " with real targets"
        return f"Dataset({self.name!r}: {samples}{' at each point' if self.per_time else ''}; {rest})"


def pool(parts: Iterable[Dataset]) -> Dataset:
    """The samples of several data sets, one after the other; classes are matched by their names.

    >>> series = Series.from_array([[1.0, 2.0]])
    >>> both = pool([Dataset(series, ["walk"]), Dataset(series, ["run"])])
    >>> both.target.tolist(), both.classes
    ([1, 0], ('run', 'walk'))
    """
    parts = list(parts)
    if not parts:
        raise ValueError("Got no data sets to pool; expected at least one.")
    if len({(part.task, part.per_time) for part in parts}) > 1:
        raise ValueError(
            f"Got data sets for {[part.task for part in parts]}; expected the same task in all of them. Say "
            'which, for example `read(path, task="regression")`.'
        )
    if parts[0].per_time and len({part.series.values.shape[1] for part in parts}) > 1:
        raise ValueError("Got targets at each point of series of different lengths; expected one length.")
    target, classes = None, parts[0].classes
    if parts[0].target is not None:
        targets = [part.target for part in parts]
        if classes is not None:
            named = {part.classes for part in parts}
            classes = classes if len(named) == 1 else _sorted_names({name for names in named for name in names})
            place = {name: number for number, name in enumerate(classes)}
            # -1, no class, looks up the last number: it stays -1.
            moves = [np.array([*(place[name] for name in part.classes), -1]) for part in parts]
            targets = [move[target] for move, target in zip(moves, targets, strict=True)]
        target = np.concatenate(targets)

    def join(arrays):
        return None if any(array is None for array in arrays) else np.concatenate(arrays)

    return replace(
        parts[0],
        series=concatenate(part.series for part in parts),
        target=target,
        classes=classes,
        groups=join([part.groups for part in parts]),
        split=join([part.split for part in parts]),
    )


def _as_target(target, task, classes, series: Series) -> tuple[np.ndarray, tuple[str, ...] | None]:
    if task not in (None, "classification", "regression"):
        raise ValueError(f'Got task={task!r}; expected "classification", "regression" or None, to decide.')
    target = np.asarray(target)
    _check_length(target, "target", series)
    if classes is not None:
        classes = tuple(str(name) for name in classes)
        numbered = target.dtype.kind in "iu" and ((target >= -1) & (target < len(classes))).all()
        if not numbered or task == "regression":
            raise ValueError(
                f"Got a target that does not number the {len(classes)} classes {list(classes)[:10]}; expected "
                "whole numbers from 0. Leave `classes` out to have labels numbered."
            )
        target = target.astype(np.int64)
    elif is_classes(target, task):
        target, classes = number_classes(target)
    else:
        target = _as_real(target)
    shapes = "(samples,) or (samples, length)" if classes else "(samples,), (samples, outputs) or (samples, length, outputs)"
    wrong = target.ndim > (2 if classes else 3)
    if wrong or (target.ndim == (2 if classes else 3) and target.shape[1] != series.values.shape[1]):
        raise ValueError(
            f"Got a target of shape {target.shape} for series of shape {series.values.shape}; expected {shapes}."
        )
    absent = (target < 0) if classes else np.isnan(target)
    if target.ndim < (2 if classes else 3) and absent.any():
        raise ValueError(
            f"Got no target (NaN or -1) for sample {int(np.argwhere(absent)[0][0])} (and {int(absent.sum()) - 1} "
            "more); expected one for each sample, because nothing can be learned without. Leave such samples out."
        )
    return target, classes


def is_classes(target: np.ndarray, task: Task | None) -> bool:
    if task is not None:
        return task == "classification"
    if target.dtype.kind in "biu":
        return True
    if target.dtype.kind == "f":
        return False
    return not _are(float, target) or _are(int, target)


def _are(kind: type, target: np.ndarray) -> bool:
    try:
        for label in target.ravel():
            kind(label)
    except (TypeError, ValueError):
        return False
    return True


def number_classes(target: np.ndarray) -> tuple[np.ndarray, tuple[str, ...]]:
    labels = target
    if target.dtype.kind == "f" and not (target % 1).any():
        labels = target.astype(np.int64)  # 1.0 and 2.0 are the classes 1 and 2
    names = np.array([str(label) for label in labels.ravel()], dtype=object)
    classes = _sorted_names(set(names))
    place = {name: number for number, name in enumerate(classes)}
    return np.array([place[name] for name in names], dtype=np.int64).reshape(target.shape), classes


def _sorted_names(names: Iterable[str]) -> tuple[str, ...]:
    """Numbers by size, other names by the alphabet."""
    try:
        return tuple(sorted(names, key=lambda name: (float(name), name)))
    except ValueError:
        return tuple(sorted(names))


def _as_real(target: np.ndarray) -> np.ndarray:
    try:
        real = target.astype(np.float64)
    except (TypeError, ValueError):
        wrong = next(label for label in target.ravel() if not _are(float, np.array([label])))
        raise ValueError(
            f'Got the target {wrong!r} in a regression; expected numbers. Write task="classification" if the '
            "targets are names of classes."
        ) from None
    if np.isinf(real).any():
        raise ValueError("Got an infinite target; expected finite numbers, because no loss is finite there.")
    return real


def _as_split(split, series: Series) -> np.ndarray:
    split = _one_a_sample(split, "split", series).astype(str)
    strange = sorted(set(split.tolist()) - set(PARTS))
    if strange:
        raise ValueError(f"Got split with {strange[:5]}; expected for each sample one of {list(PARTS)}.")
    return split


def _one_a_sample(array, name: str, series: Series) -> np.ndarray:
    array = np.asarray(array)
    _check_length(array, name, series)
    if array.ndim != 1:
        raise ValueError(f"Got {name} of shape {array.shape}; expected ({len(series)},), one for each sample.")
    return array


def _check_length(array: np.ndarray, name: str, series: Series) -> None:
    if array.ndim == 0 or len(array) != len(series):
        count = "a single one" if array.ndim == 0 else f"{len(array)}"
        raise ValueError(f"Got {count} in {name} for {len(series)} samples; expected one for each sample.")


def _inside(series: Series) -> str:
    return repr(series)[len("Series(") : -1]


def _describe(data: Dataset) -> str:
    target = np.asarray(data.target)
    where = " at each point" if data.per_time else ""
    if data.classes is None:
        real = target[~np.isnan(target)]
        spread = f"{real.min():.3g} to {real.max():.3g}, mean {real.mean():.3g}, standard deviation {real.std():.3g}"
        return f"real numbers {spread}{where}" if len(real) else "unknown at every point"
    counts = np.bincount(target[target >= 0], minlength=len(data.classes))
    named = [f"{name} ({count})" for name, count in zip(data.classes, counts, strict=True)]
    shown = named if len(named) <= 10 else [*named[:9], "..."]
    return f"{len(named)} classes{where}: {', '.join(shown)}"
