"""Dataset: series with what is to be predicted from them, and how they were grouped and divided."""

import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Shaped
from numpy.typing import ArrayLike

from .. import paths
from ..errors import few
from ..paths import Series
from ..paths.series import unshared
from .columns import Frame
from .targets import Task, as_target, sorted_names
from .times import time_text

PARTS = ("train", "validation", "test")
_LONGEST_NAME = 60  # letters take up to 4 bytes, and file systems allow 255


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
        task: None takes words, booleans and few whole numbers for class labels, and other numbers for a
            regression (`guess_task` counts); "regression" or "classification" says so.
        classes: the names of the classes, if `target` holds their numbers already.
        groups: who a sample comes from (patient, speaker): samples of a group are not to be divided between
            training and test set.
        split: "train", "validation" or "test" for each sample, where the source has divided them.
        static: what is known of each sample as a whole (age, sex, unit): a pandas DataFrame, or columns by name. Its
            first row belongs to the first sample, and so on, whatever its index says; gaps are NaN.
        name: of the data set.
        source: where the data come from and under which licence.
        reading: how a reader understood the file, in one sentence; "" if nothing had to be understood.
        time_unit: "seconds since 1970" or "seconds since midnight" if the times were dates or clock times;
            None if they are numbers in a unit of their own.
    """

    series: Series
    target: Shaped[np.ndarray, "samples ..."] | None
    classes: tuple[str, ...] | None
    groups: Shaped[np.ndarray, "samples"] | None
    split: Shaped[np.ndarray, "samples"] | None
    static: Frame | None
    name: str
    source: str
    reading: str
    time_unit: str | None

    def __init__(
        self,
        series: Series,
        target: ArrayLike | None = None,
        *,
        task: Task | None = None,
        classes: Sequence[str] | None = None,
        groups: ArrayLike | None = None,
        split: ArrayLike | None = None,
        static: Frame | Mapping[str, ArrayLike] | None = None,
        name: str = "data",
        source: str = "",
        reading: str = "",
        time_unit: str | None = None,
    ):
        if not isinstance(series, Series):
            raise TypeError(
                f"Got series of type {type(series).__name__}; expected a Series. Write "
                "`Dataset(Series.from_array(array), target)`."
            )
        if target is not None:
            _check_length(np.asarray(target), "target", series)
            target, classes = as_target(target, task, classes, series.values.shape)
        elif classes is not None:
            raise ValueError(f"Got classes={list(classes)} without a target; expected both or neither.")
        if groups is not None:
            groups = _one_per_sample(groups, "groups", series)
        if split is not None:
            split = _one_per_sample(split, "split", series).astype(str, copy=False)
            if strange := sorted(set(split.tolist()) - set(PARTS)):
                raise ValueError(f"Got split with {few(strange, 5)}; expected for each sample one of {list(PARTS)}.")
        if static is not None:
            static = _table_of(static, series)
        # What was checked stays checked: nobody else can write to these arrays.
        for field, array in {"target": target, "groups": groups, "split": split}.items():
            object.__setattr__(self, field, None if array is None else unshared(np.asarray(array)))
        for field, text in {"name": name, "source": source, "reading": reading}.items():
            object.__setattr__(self, field, str(text))
        for field, value in {"series": series, "classes": classes, "static": static, "time_unit": time_unit}.items():
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

    def time_text(self, time: float) -> str:
        """A time of the series as people write it: a date, a time of the day, or a number; see `time_unit`."""
        return time_text(time, self.time_unit)

    def __len__(self) -> int:
        return len(self.series)

    def __getitem__(self, samples) -> "Dataset":
        """Some of the samples, by a slice, a mask, or numbers; the classes stay all of them."""
        rows = np.atleast_1d(np.arange(len(self))[samples])
        arrays = {"target": self.target, "groups": self.groups, "split": self.split}
        picked = {name: None if array is None else array[rows] for name, array in arrays.items()}
        static = None if self.static is None else self.static.iloc[rows]
        return replace(self, series=self.series[rows], static=static, **picked)

    def summary(self) -> str:
        """Several lines for people: sizes, targets, groups, parts and where the data come from.

        >>> series = Series.from_array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
        >>> print(Dataset(series, [0.5, 1.0, 1.5], groups=["a", "a", "b"], name="lungs").summary())
        lungs
          series  3 samples, 2 points, 1 channel: x0; float64
          target  real numbers 0.5 to 1.5, mean 1, standard deviation 0.408
          groups  2, of 1 to 2 samples
        """
        lines = [self.name, f"  series  {_inside(self)}"]
        if self.target is not None:
            lines.append(f"  target  {_describe(self)}")
        if self.groups is not None:
            counts = np.unique(self.groups, return_counts=True)[1]
            lines.append(f"  groups  {len(counts)}, of {counts.min()} to {counts.max()} samples")
        if self.split is not None:
            parts = [f"{part} {np.sum(self.split == part)}" for part in PARTS if (self.split == part).any()]
            lines.append(f"  split   {', '.join(parts)}")
        if self.static is not None:
            lines.append(f"  static  {', '.join(self.static.columns)}")
        if self.source:
            lines.append(f"  source  {self.source}")
        if self.reading:
            lines.append(f"  read as {self.reading}")
        return "\n".join(lines)

    def __repr__(self) -> str:
        samples, rest = _inside(self).split(", ", 1)
        if self.classes is not None:
            samples += f" of {len(self.classes)} class{'' if len(self.classes) == 1 else 'es'}"
        elif self.target is not None:
            samples += " with real targets"
        return f"Dataset({self.name!r}: {samples}{' at each point' if self.per_time else ''}; {rest})"


def concatenate(parts: Iterable[Dataset]) -> Dataset:
    """The samples of several data sets, one after the other; classes are matched by their names.

    >>> series = Series.from_array([[1.0, 2.0]])
    >>> both = concatenate([Dataset(series, ["walk"]), Dataset(series, ["run"])])
    >>> both.target.tolist(), both.classes
    ([1, 0], ('run', 'walk'))
    """
    parts = list(parts)
    if not parts:
        raise ValueError("Got no data sets to concatenate; expected at least one.")
    if len({(part.task, part.per_time) for part in parts}) > 1:
        raise ValueError(
            f"Got data sets for {[part.task for part in parts]}; expected the same task in all of them. Say "
            'which, for example `read(path, task="regression")`.'
        )
    if parts[0].per_time and len({part.series.values.shape[1] for part in parts}) > 1:
        raise ValueError("Got targets at each point of series of different lengths; expected one length.")
    if len({part.time_unit for part in parts}) > 1:
        units = [part.time_unit or "numbers" for part in parts]
        raise ValueError(f"Got times in {units}; expected one unit, because their distance is not known otherwise.")
    targets = [part.target for part in parts if part.target is not None]
    lists = [part.classes for part in parts if part.classes is not None]
    classes = None
    if lists:
        classes = lists[0] if len(set(lists)) == 1 else sorted_names({name for names in lists for name in names})
        # -1, no class, looks up the last number: it stays -1.
        moves = [np.array([*map(classes.index, names), -1]) for names in lists]
        targets = [move[target] for move, target in zip(moves, targets, strict=True)]

    def join(arrays, stack=np.concatenate):
        return None if any(array is None for array in arrays) else stack(arrays)

    return replace(
        parts[0],
        series=paths.concatenate(part.series for part in parts),
        target=np.concatenate(targets) if targets else None,
        classes=classes,
        groups=join([part.groups for part in parts]),
        split=join([part.split for part in parts]),
        static=join([part.static for part in parts], _stack_tables),
        reading=parts[0].reading if len({part.reading for part in parts}) == 1 else "",
    )


def safe_name(name: object, otherwise: str = "data") -> str:
    """A name as one part of a path: letters, digits, `-`, `_` and `.`; never empty, hidden or a way out.

    Data files carry names of their own, and results are kept under them: what a file says must not choose
    where they go. Of a path the last part is kept, and other characters become `_`; `otherwise` is for nothing left.

    >>> safe_name("EigenWorms"), safe_name("two words"), safe_name("../../outside"), safe_name("..")
    ('EigenWorms', 'two_words', 'outside', 'data')
    """
    last = re.split(r"[/\\]", str(name).strip())[-1]
    known = sys.getfilesystemencoding()  # ASCII in the POSIX locale, where a letter beyond it is in no path
    safe = re.sub(r"[^\w.-]+", "_", last.encode(known, "replace").decode(known))
    return safe.strip("._-")[:_LONGEST_NAME].strip("._-") or otherwise


def _one_per_sample(array, name: str, series: Series) -> np.ndarray:
    array = np.asarray(array)
    _check_length(array, name, series)
    if array.ndim != 1:
        raise ValueError(f"Got {name} of shape {array.shape}; expected ({len(series)},), one for each sample.")
    return array


def _table_of(static: Frame | Mapping[str, ArrayLike], series: Series) -> Frame:
    """A DataFrame of one's own, with a row for each sample and a name for each column."""
    import pandas as pd

    table = pd.DataFrame(static).reset_index(drop=True).copy()
    _check_length(table, "static", series)
    table.columns = table.columns.map(str)
    if not table.columns.is_unique:
        names = table.columns[table.columns.duplicated()].tolist()
        raise ValueError(f"Got static with {few(names, 5)} twice; expected another name for each column.")
    return table


def _stack_tables(tables: Sequence[Frame]) -> Frame:
    import pandas as pd

    return pd.concat(tables)


def _check_length(array: np.ndarray | Frame, name: str, series: Series) -> None:
    if array.ndim == 0 or len(array) != len(series):
        count = "a single one" if array.ndim == 0 else f"{len(array)}"
        raise ValueError(f"Got {count} in {name} for {len(series)} samples; expected one for each sample.")


def _inside(data: Dataset) -> str:
    """What the series say of themselves, with dates as dates."""
    text, times = repr(data.series)[len("Series(") : -1], data.series.times
    if times is None or data.time_unit is None:
        return text
    low, high = times.min(), times.max()
    return text.replace(f"times {low:g} to {high:g}", f"times {data.time_text(low)} to {data.time_text(high)}")


def _describe(data: Dataset) -> str:
    target = np.asarray(data.target)
    where = " at each point" if data.per_time else ""
    if data.classes is None:
        real = target[~np.isnan(target)]
        if len(real) == 0:
            return "unknown at every point"
        spread = f"mean {real.mean():.3g}, standard deviation {real.std():.3g}"
        return f"real numbers {real.min():.3g} to {real.max():.3g}, {spread}{where}"
    counts = np.bincount(target[target >= 0], minlength=len(data.classes))
    named = [f"{name} ({count})" for name, count in zip(data.classes, counts, strict=True)]
    shown = named if len(named) <= 10 else [*named[:9], "..."]
    return f"{len(named)} class{'' if len(named) == 1 else 'es'}{where}: {', '.join(shown)}"
