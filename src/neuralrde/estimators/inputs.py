"""What the estimators take: arrays, lists of arrays or of tables, or a Series; and tables beside them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from jaxtyping import Float
from sklearn.base import BaseEstimator
from sklearn.utils import check_array
from sklearn.utils.validation import validate_data

from .._types import Options, SeriesLike, TableLike, TargetLike
from ..paths import Series, concatenate

_FORMS = "X is (n, length, channels), (n, length) of one channel, or a list of arrays (length, channels)."
# More words than this are names, or notes, and no categories.
_MOST_WORDS = 100
# Standard deviations beyond which a number counts no more: it was mistyped.
_FARTHEST = np.float32(8.0)


@dataclass(frozen=True)
class StaticCoding:
    """What is known of series as a whole (age, sex, unit), as numbers without gaps; `fit` learns how.

    A number becomes its distance from the mean in standard deviations, and a gap the mean. A word becomes a number for
    each word of its column, 1 for the right one; one that `fit` has not seen is a gap. A column that had gaps in `fit`
    has one more number, 1 for a gap.

    >>> table = {"age": [40.0, 60.0, np.nan], "sex": ["f", "m", "f"]}
    >>> coding = StaticCoding.fit(table, 3)
    >>> coding(table, 3).tolist()
    [[-1.0, 0.0, 1.0, 0.0], [1.0, 0.0, 0.0, 1.0], [0.0, 1.0, 1.0, 0.0]]
    >>> coding({"sex": "m"}, 1).tolist()
    [[0.0, 1.0, 0.0, 1.0]]
    """

    names: tuple[str, ...]
    words: tuple[tuple[str, ...], ...]
    """Those of each column; none of a column of numbers."""
    centre: tuple[float, ...]
    width: tuple[float, ...]
    gaps: tuple[bool, ...]
    """Whether a column had gaps."""

    def __post_init__(self):
        if not self.names or len({len(one) for one in vars(self).values()}) > 1 or len(set(self.names)) < self.size:
            raise ValueError(f"Got the columns {self.names}; expected one of each, with all that is learned of it")
        if min(self.width) <= 0:
            raise ValueError(f"Got widths {self.width}; expected numbers above 0")

    @classmethod
    def fit(cls, table: TableLike, count: int) -> Self:
        """Learn from the table of the training set, with a row for each of `count` series."""
        columns = _static_columns(table, count)
        if not columns:
            raise ValueError("Got static without a column; expected some in `fit`. Leave `static` out.")
        words, centre, width, gaps = [], [], [], []
        for name, column in columns.items():
            if column.dtype == object:
                words.append(tuple(sorted({word for word in column if word is not None})))
                if len(words[-1]) > _MOST_WORDS:
                    raise ValueError(
                        f"Got {len(words[-1])} different words in the static column {name!r}; expected at most "
                        f"{_MOST_WORDS}, because each becomes a number. Leave out names and notes."
                    )
                missing, known = np.array([word is None for word in column]), np.zeros(1)
            else:
                words.append(())
                missing = np.isnan(column)
                known = column[~missing] if not missing.all() else np.zeros(1)
            centre.append(float(known.mean()))
            width.append(float(known.std()) or 1.0)
            gaps.append(bool(missing.any()))
        return cls(tuple(columns), tuple(words), tuple(centre), tuple(width), tuple(gaps))

    @property
    def size(self) -> int:
        return len(self.names)

    @property
    def owners(self) -> np.ndarray:
        """The column that each of the numbers belongs to."""
        sizes = [max(1, len(words)) + gaps for words, gaps in zip(self.words, self.gaps, strict=True)]
        return np.repeat(np.arange(self.size), sizes)

    def __call__(self, table: TableLike, count: int) -> Float[np.ndarray, "samples numbers"]:
        """The numbers of a table with `count` rows, or of `{name: value}` for one. A column that it lacks is a gap."""
        columns = _static_columns(table, count)
        if unknown := sorted({*columns} - {*self.names}):
            raise ValueError(f"Got the static column {unknown[0]!r}; expected those of `fit`: {list(self.names)}.")
        parts, nothing = [], np.full(count, None)
        for name, words, centre, width, gaps in zip(*vars(self).values(), strict=True):
            column = columns.get(name, nothing)
            wrong = [cell for cell in column.tolist() if isinstance(cell, float if words else str) and cell == cell]
            if wrong:
                raise ValueError(
                    f"Got {wrong[0]!r} in the static column {name!r}; expected {'words' if words else 'numbers'}, as "
                    "in `fit`."
                )
            if words:
                own = np.stack([column == word for word in words], axis=1)
                missing = np.asarray(~own.any(axis=1))
            else:
                numbers = column.astype(np.float64)  # None becomes NaN
                missing = np.asarray(np.isnan(numbers))
                own = np.where(missing, 0.0, (numbers - centre) / width)[:, None]
            parts += [own, missing[:, None]] if gaps else [own]
        with np.errstate(over="ignore"):
            coded = np.concatenate(parts, axis=1).astype(np.float32)
        return np.clip(coded, -_FARTHEST, _FARTHEST)


def _static_columns(table: TableLike, count: int) -> dict[str, np.ndarray]:
    """Each column as numbers with NaN, or as words with None."""
    if not isinstance(table, Mapping) and not is_table(table):
        raise ValueError(
            f"Got static of type {type(table).__name__}; expected a DataFrame, or columns by their names: "
            'static={"age": [64, 71], "sex": ["f", "m"]}.'
        )
    found = {}
    for name in table if isinstance(table, Mapping) else table.columns:
        column = np.asarray(table[name])
        column = column[None] if column.ndim == 0 and count == 1 else column
        if column.shape != (count,):
            raise ValueError(
                f"Got the static column {str(name)!r} of shape {column.shape}; expected ({count},): a value per series."
            )
        if column.dtype.kind not in "fiub":
            cells = [None if _is_gap(cell) else cell for cell in column.tolist()]
            numbers = all(isinstance(cell, int | float | None) for cell in cells)
            column = np.array(cells if numbers else [None if cell is None else str(cell) for cell in cells], object)
            column = column.astype(np.float64) if numbers and any(cell is not None for cell in cells) else column
        if column.dtype.kind in "fiub" and np.isinf(column := column.astype(np.float64)).any():
            raise ValueError(f"Got infinity in the static column {str(name)!r}; expected numbers, or NaN for a gap.")
        found[str(name)] = column
    return found


def _is_gap(cell: Any) -> bool:
    """Whether a cell is empty; pandas has a value of its own for that, which equals nothing, and not even itself."""
    return cell is None or type(cell).__name__ in ("NAType", "NaTType") or cell in ("", b"") or cell != cell


@dataclass(frozen=True)
class InputDescription:
    """The series that an estimator was fitted on, as far as later ones must be like them."""

    channels: tuple[str, ...]
    columns: int
    """Columns of a table `(n, length)`; for series in any other form, their channels."""
    flat: bool = False
    """Whether X was such a table, of one channel."""
    column_names: tuple[str, ...] | None = None
    static: StaticCoding | None = None
    """The table beside the series, if there was one."""

    def __post_init__(self):
        if not self.channels or self.n_channels != (1 if self.flat else self.columns):
            raise ValueError(f"Got flat={self.flat} with {self.n_channels} channels and {self.columns} columns")
        if self.column_names is not None and (not self.flat or len(self.column_names) != self.columns):
            raise ValueError(f"Got {len(self.column_names)} names of columns for {self.columns} columns")

    @property
    def n_channels(self) -> int:
        return len(self.channels)

    @property
    def static_numbers(self) -> int:
        """How many numbers the table beside the series becomes."""
        return 0 if self.static is None else len(self.static.owners)

    def coded(self, static: TableLike, count: int) -> Float[np.ndarray, "samples numbers"] | None:
        """The table beside some series as numbers, if that of `fit` had one."""
        if self.static is None and static is not None:
            raise ValueError(
                "Got static for an estimator that was fitted without; expected None. Give it to `fit` too."
            )
        if self.static is not None and static is None:
            raise ValueError(
                f"Got no static for an estimator that was fitted with {list(self.static.names)}; expected these "
                "columns, NaN for gaps. Write static={} where none of them is known."
            )
        return None if self.static is None else self.static(static, count)

    @property
    def feature_names(self) -> np.ndarray | None:
        """The names of columns as scikit-learn has them."""
        return None if self.column_names is None else np.array(self.column_names, object)


def as_series(X: SeriesLike, described: InputDescription | None = None, *, estimator: str = "") -> Series:
    """A Series from `(n, length, channels)`, from `(n, length)` of one channel, or from a list of arrays or DataFrames.

    Args:
        X: series in any of these forms.
        described: the series of `fit`; these must have the same channels or columns. None in `fit` itself.
        estimator: the name of the estimator, for messages.
    """
    return described_series(X, described, estimator=estimator)[0]


def described_series(
    X: SeriesLike, described: InputDescription | None = None, *, estimator: str = ""
) -> tuple[Series, InputDescription]:
    """A Series, and its description, which in `fit` is new and later the given one.

    A table `(n, length)` is checked as scikit-learn checks its tables: the same columns as in `fit`. In the
    other forms the channels must be the same, and lengths may be any.
    """
    checks: Options = {"dtype": (np.float64, np.float32), "ensure_all_finite": "allow-nan"}
    if isinstance(X, Series):
        series = X
    elif _is_list(X, Series):
        series = concatenate(X)  # what scikit-learn makes of a Series when it takes rows of it
    elif isinstance(X, list | tuple) and len(X) > 0 and all(is_table(sample) for sample in X):
        series = _from_tables(X)
    elif is_list_of_series(X):
        arrays = [np.asarray(sample) for sample in X]
        if described is None:
            _check_list_not_transposed(arrays)
        series = Series.from_arrays(arrays)
    elif dimensions(X) > 2:
        array = check_array(X, allow_nd=True, **checks)
        if described is None and looks_transposed(array.shape[1:]):
            _, points, channels = array.shape
            raise ValueError(
                f"Got X of shape {array.shape}, which would be {points} points of {channels} channels; expected (n, "
                "length, channels). For (n, channels, length), as aeon has it, write X.transpose(0, 2, 1). If it is "
                f"{points} points of {channels} channels indeed, write Series.from_array(X)."
            )
        series = Series.from_array(array)
    elif described is None or described.flat:
        array, columns, names = _checked_table(X, described, estimator, **checks)
        series = Series.from_array(array)
        return series, described or InputDescription(series.channels, columns, flat=True, column_names=names)
    else:
        series = Series.from_array(check_array(X, **checks))
    channels = series.values.shape[2]
    if described is None:
        return series, InputDescription(series.channels, channels)
    if channels != (expected := len(described.channels)):
        hint = ""
        shape = getattr(X, "shape", ())
        if len(shape) == 2 and shape[1] == expected:
            hint = f" For one series of {shape[0]} points and {expected} channels write X[None]."
        elif series.values.shape[1] == expected:
            hint = " If it is (n, channels, length), write X.transpose(0, 2, 1)."
        raise ValueError(f"Got series of {channels} channels; expected {expected}, as in `fit`. {_FORMS}{hint}")
    return series, described


def looks_transposed(shape: tuple[int, ...]) -> bool:
    """Whether (points, channels) are almost surely (channels, points): few points, and many more channels.

    Hardly any series has 100 channels or more, so 100 points or more are believed (DuckDuckGeese has 270 points of
    1,345 channels). Shorter series with three times as many channels as points are rare (InsectWingbeat).

    >>> looks_transposed((6, 100)), looks_transposed((12, 29)), looks_transposed((270, 1345)), looks_transposed((1, 5))
    (True, False, False, False)
    """
    points, channels = shape
    return points < 100 and channels >= 20 and channels > 3 * points


def check_as_many(series: Series, y: TargetLike) -> None:
    """Raise unless there are as many targets as series; say what X was taken for, and how one series is written."""
    targets = len(y) if hasattr(y, "__len__") and getattr(y, "ndim", 1) else np.atleast_1d(np.asarray(y)).shape[0]
    if targets == len(series):
        return
    hint, points = "", series.values.shape[1]
    if series.values.shape[2] == 1:
        hint = (
            f" X was taken for {len(series)} series of {points} points and one channel. For one series of "
            f"{len(series)} points and {points} channels write X[None]; for a long table, with a row per time, "
            "Series.from_table(table, id=..., time=...)."
        )
    raise ValueError(f"Got {len(series)} series and {targets} targets; expected one target per series.{hint}")


def dimensions(X: SeriesLike) -> int:
    """The number of dimensions of what can be made an array (a sparse matrix cannot, and is refused later)."""
    try:
        return X.ndim if hasattr(X, "ndim") else np.asarray(X).ndim
    except ValueError:
        raise ValueError(
            "Got nested lists of different lengths; expected arrays for series of different lengths. Write "
            "`[np.asarray(sample) for sample in X]`."
        ) from None


def is_list_of_series(X: SeriesLike) -> bool:
    """Whether X is a list of arrays. A list of lists is a table, as in scikit-learn."""
    if isinstance(X, np.ndarray):
        return X.dtype == object and X.ndim == 1 and len(X) > 0 and isinstance(X[0], np.ndarray)
    return _is_list(X, np.ndarray)


def is_table(X: SeriesLike) -> bool:
    """Whether X is a DataFrame, of pandas or polars: neither is imported for that."""
    return hasattr(X, "columns") and hasattr(X, "to_numpy")


def _is_list(X: object, kind: type) -> bool:
    return isinstance(X, list | tuple) and len(X) > 0 and all(isinstance(sample, kind) for sample in X)


def _from_tables(tables: Any) -> Series:
    """A series from each table: its rows are points, its columns channels."""
    names = [str(name) for name in tables[0].columns]
    arrays = []
    for i, table in enumerate(tables):
        own = [str(name) for name in table.columns]
        if own != names:
            raise ValueError(
                f"Got table {i} with the columns {own} beside table 0 with {names}; expected the same columns in the "
                "same order, one per channel."
            )
        columns = [_as_numbers(table[name], f"column {str(name)!r} of table {i}") for name in table.columns]
        arrays.append(np.stack(columns, axis=-1))
    return Series.from_arrays(arrays, channels=names)


def _as_numbers(column: Any, where: str) -> np.ndarray:
    kind = getattr(getattr(column, "dtype", None), "kind", None)
    try:
        if kind in ("M", "m"):
            raise ValueError
        return np.asarray(column, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(
            f"Got {where} that does not hold numbers only; expected a number per point, NaN where it is missing. Leave "
            f"the column out, or make it numbers; times go into `Series.from_arrays(arrays, times=times)`."
        ) from None


def _check_list_not_transposed(arrays: list[np.ndarray]) -> None:
    if any(array.ndim != 2 for array in arrays):
        return
    shapes = {array.shape for array in arrays}
    points, channels = ({shape[axis] for shape in shapes} for axis in (0, 1))
    if (len(points) == 1 and len(channels) > 1) or (len(points) == 1 and all(map(looks_transposed, shapes))):
        raise ValueError(
            f"Got arrays of shapes {sorted(shapes)[:3]}{' and others' if len(shapes) > 3 else ''}; expected (length, "
            "channels), the same channels in each. They look like (channels, length): write [x.T for x in X]. If "
            "they are (length, channels) indeed, write Series.from_arrays(X)."
        )


def _checked_table(
    X: SeriesLike, described: InputDescription | None, estimator: str, **checks: Any
) -> tuple[np.ndarray, int, tuple[str, ...] | None]:
    """The table, its number of columns and their names. scikit-learn compares them with those of `fit`."""
    remembered: Any = type(estimator or "The estimator", (BaseEstimator,), {})()
    if described is not None:
        remembered.n_features_in_ = described.columns
        if described.column_names is not None:
            remembered.feature_names_in_ = np.array(described.column_names, object)
    try:
        array = np.asarray(validate_data(remembered, X, reset=described is None, **checks))
    except ValueError as error:
        if not (is_table(X) and "could not convert" in str(error)):
            raise
        text = [str(name) for name in X.columns if getattr(X[name].dtype, "kind", "O") not in "fiub"]
        name = text[0] if text else str(X.columns[0])
        raise ValueError(
            f"Got a table whose column {name!r} holds text; expected numbers: a row per series, a column per point. A "
            f"long table, with a row per time, becomes series by `Series.from_table(table, id={name!r}, time=...)`."
        ) from None
    names = getattr(remembered, "feature_names_in_", None)
    return array, remembered.n_features_in_, None if names is None else tuple(names.tolist())
