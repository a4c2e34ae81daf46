"""Series: many samples of a multivariate time series in one array, each with its own times and length; tables too."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int, Shaped
from numpy.typing import ArrayLike

from ..errors import python_only
from .checks import check_fits


def rows_of_table(
    table: Any, *, id: str, time: str | None, columns: Sequence[str] | None
) -> tuple[np.ndarray, np.ndarray | None, np.ndarray, Sequence[str], np.ndarray]:
    """Points in order of their samples and times, their times, the samples' lengths, channels and ids.

    `Series.from_table` describes the arguments.
    """
    names = _column_names(table)
    keys = [id] if time is None else [id, time]
    if columns is None:
        columns = [name for name in names if name not in keys]
    absent = [name for name in [*keys, *columns] if name not in names]
    if absent:
        raise ValueError(
            f"Got a table with the columns {names}; expected also {absent}. Name its columns, for "
            'example `Series.from_table(table, id="patient", time="hour", columns=["hr", "bp"])`.'
        )
    if len(columns) == 0:
        raise ValueError(f"Got a table with only the columns {names}; expected a channel beside {keys}.")
    owners = np.asarray(table[id])
    clock = None if time is None else as_numbers(seconds_of(table[time]), name=f"column {time!r}")
    data = [as_numbers(table[name], name=f"column {name!r}") for name in columns]
    shapes = {column.shape for column in [owners, *data, *([] if clock is None else [clock])]}
    if len(shapes) > 1 or owners.ndim != 1:
        raise ValueError(f"Got columns of shapes {sorted(shapes)}; expected one-dimensional ones of one length.")
    ids, owner = _number_ids(owners, id)
    order = np.argsort(owner, kind="stable") if clock is None else np.lexsort((clock, owner))
    times = None if clock is None else clock[order]
    return np.stack(data, axis=-1)[order], times, np.bincount(owner), columns, ids


def _number_ids(owners: np.ndarray, id: str) -> tuple[np.ndarray, np.ndarray]:
    """The ids in the order in which they first appear, and for each row the number of its id."""
    if len(owners) == 0:
        raise ValueError("Got a table without rows; expected at least one, because an empty series has no path.")
    try:
        ids, first, owner = np.unique(owners, return_index=True, return_inverse=True)
    except TypeError:
        raise TypeError(
            f"Got ids of mixed types in column {id!r}; expected numbers or strings only, without None. Leave "
            "rows without an id out, or write `[str(i) for i in ids]`."
        ) from None
    if (owners != owners).any():
        raise ValueError(
            f"Got NaN in the id column {id!r} at row {int(np.argmax(owners != owners))}; expected an id in "
            "every row, because a row without one belongs to no sample. Leave such rows out."
        )
    appearance = np.argsort(first)
    return ids[appearance], np.argsort(appearance)[owner]


def seconds_of(column: Any) -> Any:
    """Dates as seconds since 1970 UTC, durations as seconds, all else as it is."""
    if getattr(getattr(column, "dtype", None), "tz", None) is not None:  # pandas would make objects of them
        column = np.asarray(column, "datetime64[ns]")
    array = np.asarray(column)
    if array.dtype.kind == "M":
        array = array - np.datetime64(0, "s")
    return array / np.timedelta64(1, "s") if array.dtype.kind == "m" else column


def _column_names(table: Any) -> list:
    # Arrow's `columns` are the data; polars iterates over the data; pandas and mappings iterate over names.
    for attribute in ("column_names", "columns"):
        if hasattr(table, attribute):
            return list(getattr(table, attribute))
    if hasattr(table, "keys"):
        return list(table)
    raise TypeError(
        f"Got a table of type {type(table).__name__}; expected a mapping from column names to "
        'one-dimensional arrays, for example {"id": ids, "t": times, "hr": values}, or a DataFrame.'
    )


@dataclass(frozen=True, eq=False, init=False, repr=False)
class Series:
    """Samples of a multivariate time series; NaN is a missing value, infinity is refused.

    Samples may have different lengths. Beyond its length a sample repeats its last point, whatever was passed there. A
    path that stands still has a zero log-signature, so padding drives nothing and no mask is needed.

    >>> Series([[[1.0], [2.0], [9.0]], [[3.0], [4.0], [5.0]]], lengths=[2, 3]).values[0, :, 0]
    array([1., 2., 2.])

    Args:
        values: `(samples, length, channels)`, kept in float32 or float64 as given; whole numbers become
            float64. They are copied, so that later changes to the array do not come in unchecked, unless the array is
            already read-only (`array.flags.writeable = False`).
        times: `(samples, length)`, strictly increasing in each sample, in any unit; None if the points are
            evenly spaced or their times do not matter.
        lengths: how many points of each sample are real, at least one; None if all are.
        channels: a name for each channel; None calls them x0, x1, ...
        ids: one per sample, to find its label; None if the order is enough.
    """

    values: Float[np.ndarray, "samples length channels"]
    times: Float[np.ndarray, "samples length"] | None
    lengths: Int[np.ndarray, "samples"]
    channels: tuple[str, ...]
    ids: Shaped[np.ndarray, "samples"] | None

    def __init__(
        self,
        values: ArrayLike,
        *,
        times: ArrayLike | None = None,
        lengths: ArrayLike | None = None,
        channels: Sequence[str] | None = None,
        ids: ArrayLike | None = None,
    ):
        values = as_numbers(values)
        _check_shape(values)
        lengths = as_lengths(lengths, values.shape)
        if times is not None:
            times = as_numbers(times, name="times").astype(np.float64, copy=False)
            _check_times_shape(times, values.shape[:2], values.shape)
        if (lengths < values.shape[1]).any():
            # In the padding, the number of the last point instead of one's own.
            points = np.minimum(np.arange(values.shape[1]), lengths[:, None] - 1)
            values = frozen(np.take_along_axis(values, points[..., None], axis=1))
            times = None if times is None else frozen(np.take_along_axis(times, points, axis=1))
        # What was checked stays checked: `frozen` keeps the names in place, and nobody else can write to the numbers.
        values = unshared(values)
        times = None if times is None else unshared(times)
        names = _as_names(channels, values.shape[2])
        check_not_infinite(values, channels=names)
        if times is not None:
            _check_times_increase(times, lengths)
        ids = None if ids is None else unshared(np.asarray(ids))
        if ids is not None and ids.shape != lengths.shape:
            raise ValueError(f"Got ids of shape {ids.shape}; expected {lengths.shape}, one for each sample.")
        self._set(values=values, times=times, lengths=frozen(lengths), channels=names, ids=ids)

    def _set(self, **fields: Any) -> None:
        for name, value in fields.items():
            # A view, because whoever has the array that owns the memory can make it writeable again.
            value = value.view() if isinstance(value, np.ndarray) else value
            object.__setattr__(self, name, value)

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Pickles and deep copies forget that an array was read-only."""
        self._set(**{name: frozen(value) if isinstance(value, np.ndarray) else value for name, value in state.items()})

    @classmethod
    def from_array(
        cls,
        array: ArrayLike,
        *,
        times: ArrayLike | None = None,
        channels: Sequence[str] | None = None,
        ids: ArrayLike | None = None,
    ) -> "Series":
        """Series of one length: `(samples, length, channels)`, or `(samples, length)` of one channel.

        Args:
            times: `(length,)` for all samples, or `(samples, length)`.

        >>> Series.from_array([[1, 2, 3], [4, 5, 6]], times=[0.0, 0.5, 2.0])
        Series(2 samples, 3 points, 1 channel: x0; times 0 to 2; float64)
        """
        values = as_numbers(array, name="array")
        if values.ndim == 2:
            values = values[..., None]
        _check_shape(values)
        if times is not None:
            times = as_numbers(times, name="times")
            if times.ndim == 1:
                _check_times_shape(times, values.shape[1:2], values.shape)
                times = np.broadcast_to(unshared(times.astype(np.float64, copy=False)), values.shape[:2])
        return cls(values, times=times, channels=channels, ids=ids)

    @classmethod
    def from_arrays(
        cls,
        arrays: Iterable[ArrayLike],
        *,
        times: Iterable[ArrayLike] | None = None,
        channels: Sequence[str] | None = None,
        ids: ArrayLike | None = None,
    ) -> "Series":
        """Series of different lengths: a list of arrays `(length, channels)`, or `(length,)` of one channel.

        Args:
            times: a list of arrays `(length,)`, one for each sample.

        >>> Series.from_arrays([[1.0, 2.0, 3.0], [4.0, 5.0]])
        Series(2 samples, 2 to 3 points, 1 channel: x0; float64)
        """
        rows = [as_numbers(array, name=f"arrays[{i}]") for i, array in enumerate(arrays)]
        if not rows:
            raise ValueError("Got an empty list of arrays; expected one array (length, channels) for each sample.")
        rows = [row[:, None] if row.ndim == 1 else row for row in rows]
        for i, row in enumerate(rows):
            if row.ndim != 2 or row.shape[1] != rows[0].shape[-1]:
                raise ValueError(
                    f"Got arrays[{i}] of shape {row.shape} beside arrays[0] of shape {rows[0].shape}; "
                    "expected (length, channels) with the same channels in every sample. Fill absent "
                    "channels with NaN."
                )
        lengths = np.array([len(row) for row in rows])
        if times is not None:
            clocks = [as_numbers(clock, name=f"times[{i}]") for i, clock in enumerate(times)]
            if [clock.shape for clock in clocks] != [(length,) for length in lengths]:
                raise ValueError(
                    f"Got times of shapes {[clock.shape for clock in clocks]} for samples of lengths "
                    f"{lengths.tolist()}; expected one array (length,) for each sample."
                )
            times = np.concatenate(clocks)
        return cls._pack(np.concatenate(rows), times, lengths, channels, ids)

    @classmethod
    def from_table(
        cls, table: Any, *, id: str = "id", time: str | None = "t", columns: Sequence[str] | None = None
    ) -> "Series":
        """Series from a long table: one row for each sample and time, in any order.

        Args:
            table: a mapping from column names to one-dimensional arrays; a pandas or polars DataFrame and an
                Arrow table are such mappings.
            id: the column that says which sample a row belongs to. Samples come out in the order in which
                they first appear, and `series.ids` names them.
            time: the column by which rows are sorted within a sample; None keeps their order and gives no
                times. Dates (`datetime64`) become seconds since 1970 UTC, durations (`timedelta64`) seconds.
            columns: the channels; None takes all other columns.

        >>> table = {"id": ["b", "a", "b"], "t": [0.2, 0.0, 0.1], "hr": [61, 80, 60]}
        >>> series = Series.from_table(table)
        >>> series.ids.tolist(), series.lengths.tolist(), series.values[0, :, 0].tolist()
        (['b', 'a'], [2, 1], [60.0, 61.0])
        """
        return cls._pack(*rows_of_table(table, id=id, time=time, columns=columns))

    @classmethod
    def _pack(cls, points, times, lengths, channels, ids) -> "Series":
        """Points of all samples, one after the other, put into one padded array."""
        # Measured: at its peak, four times the padded array.
        longest = int(lengths.max())
        check_fits(
            4 * 8 * len(lengths) * longest * (points.shape[-1] + (times is not None)),
            f"{len(lengths):,} series of {lengths.min():,} to {longest:,} points of "
            f"{_plural(points.shape[-1], 'channel')}, each padded to the longest,",
            "Take those of similar length together, or cut the longest into parts.",
        )
        valid = np.arange(lengths.max()) < lengths[:, None]
        values = np.zeros((*valid.shape, points.shape[-1]), points.dtype)
        values[valid] = points
        if times is not None:
            clock = np.zeros(valid.shape)
            clock[valid] = times
            times = frozen(clock)
        return cls(frozen(values), times=times, lengths=lengths, channels=channels, ids=ids)

    @property
    def valid(self) -> Bool[np.ndarray, "samples length"]:
        """Which points are real, and not padding."""
        return np.arange(self.values.shape[1]) < self.lengths[:, None]

    @property
    def ragged(self) -> bool:
        """Whether any sample is padded."""
        return bool((self.lengths < self.values.shape[1]).any())

    @property
    def clock(self) -> Float[np.ndarray, "samples length"]:
        """The times, or where there are none the numbers of the points; padding repeats the last."""
        if self.times is not None:
            return self.times
        return np.minimum(np.arange(self.values.shape[1]), self.lengths[:, None] - 1).astype(np.float64)

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, samples) -> "Series":
        """Some of the samples, by a slice, a mask, or numbers; one number gives a series of one sample."""
        rows = np.atleast_1d(np.arange(len(self))[samples])
        some: Any = {"values": self.values, "times": self.times, "lengths": self.lengths, "ids": self.ids}
        some = {name: None if array is None else frozen(array[rows]) for name, array in some.items()}
        if not len(rows):
            _check_shape(some["values"])  # which says what is wrong
        # Samples of a series were checked with it.
        part = object.__new__(type(self))
        part._set(**some, channels=self.channels)
        return part

    def __repr__(self) -> str:
        shortest, longest = self.lengths.min(), self.lengths.max()
        points = f"{longest} point{'' if longest == 1 else 's'}"
        points = points if shortest == longest else f"{shortest} to {points}"
        names = ", ".join(self.channels if len(self.channels) <= 6 else (*self.channels[:5], "..."))
        channels = f"{_plural(len(self.channels), 'channel')}: {names}"
        times = "" if self.times is None else f"times {self.times.min():g} to {self.times.max():g}; "
        missing = np.isnan(self.values)[self.valid].mean()
        gaps = f"{missing:.2g} of the values missing; " if missing else ""
        return f"Series({_plural(len(self), 'sample')}, {points}, {channels}; {times}{gaps}{self.values.dtype})"


def concatenate(parts: Iterable[Series]) -> Series:
    """The samples of several series, one after the other; shorter ones are padded.

    >>> concatenate([Series.from_array([[1.0, 2.0]]), Series.from_array([[1.0, 2.0, 3.0]])])
    Series(2 samples, 2 to 3 points, 1 channel: x0; float64)
    """
    parts = list(parts)
    if not parts:
        raise ValueError("Got no series to concatenate; expected at least one.")
    if len({part.channels for part in parts}) > 1:
        raise ValueError(
            f"Got series with the channels {[list(part.channels) for part in parts]}; expected the same "
            "channels in the same order. Name them with `Series(..., channels=[...])`."
        )
    timed = [part.times is not None for part in parts]
    if any(timed) != all(timed):
        raise ValueError("Got series with times and series without; expected all or none of them to have times.")
    times = np.concatenate([part.clock[part.valid] for part in parts]) if all(timed) else None
    ids = [part.ids for part in parts if part.ids is not None]
    ids = frozen(np.concatenate(ids)) if len(ids) == len(parts) else None
    points, lengths = ([part.values[part.valid] for part in parts], [part.lengths for part in parts])
    return Series._pack(np.concatenate(points), times, np.concatenate(lengths), parts[0].channels, ids)


def _check_shape(values: np.ndarray) -> None:
    if values.ndim != 3:
        raise ValueError(
            f"Got values of shape {values.shape}; expected (samples, length, channels). Write `values[None]` "
            "for one sample (length, channels), `values[..., None]` for samples (samples, length) of one "
            "channel."
        )
    for size, what in zip(values.shape, ("samples", "points", "channels"), strict=True):
        if size == 0:
            raise ValueError(
                f"Got an empty series, values of shape {values.shape} with no {what}; expected at least one "
                "sample, one point and one channel, because an empty series has no path. Leave it out."
            )


def as_lengths(lengths, shape: tuple[int, ...]) -> np.ndarray:
    if lengths is None:
        return np.full(shape[0], shape[1], dtype=np.int64)
    lengths = np.asarray(lengths)
    if lengths.dtype.kind not in "iu":
        raise TypeError(f"Got lengths of type {lengths.dtype}; expected whole numbers, the points of each sample.")
    if lengths.shape != shape[:1]:
        raise ValueError(f"Got lengths of shape {lengths.shape}; expected ({shape[0]},), one for each sample.")
    wrong = (lengths < 1) | (lengths > shape[1])
    if wrong.any():
        i = int(np.argmax(wrong))
        raise ValueError(
            f"Got length {lengths[i]} for sample {i}; expected 1 to {shape[1]}, because an empty series has "
            "no path and the array holds no more points. Leave empty samples out."
        )
    return lengths.astype(np.int64)


def _check_times_shape(times: np.ndarray, expected: tuple[int, ...], values: tuple[int, ...]) -> None:
    if times.shape != expected:
        raise ValueError(
            f"Got times of shape {times.shape} for values of shape {values}; expected {expected}. Times "
            "(length,) that all samples share go into `Series.from_array(array, times=times)`."
        )


def _check_times_increase(times: np.ndarray, lengths: np.ndarray) -> None:
    finite = np.isfinite(times)
    if not finite.all():
        i, j = (int(k) for k in np.unravel_index(np.argmin(finite), times.shape))
        raise ValueError(
            f"Got the time {times[i, j]} in sample {i} at point {j}; expected finite times, because a point "
            "without a time has no place on the path. Leave such points out."
        )
    real = np.arange(1, times.shape[1]) < lengths[:, None]
    wrong = (np.diff(times) <= 0) & real
    if wrong.any():
        i, j = (int(k) for k in np.unravel_index(np.argmax(wrong), wrong.shape))
        raise ValueError(
            f"Got times that do not increase in sample {i}: {times[i, j]!s} at point {j}, then "
            f"{times[i, j + 1]!s} (and {int(wrong.sum()) - 1} more such places); expected strictly "
            "increasing times, because a path has one value at a time. `Series.from_table` sorts rows; merge "
            "points of the same time, for example by their mean."
        )


def _as_names(channels: Sequence[str] | None, count: int) -> tuple[str, ...]:
    if channels is None:
        return tuple(f"x{i}" for i in range(count))
    if isinstance(channels, str):
        raise TypeError(f"Got channels={channels!r}; expected a list of names. Write channels=[{channels!r}].")
    names = tuple(str(name) for name in channels)
    if len(names) != count:
        raise ValueError(f"Got {len(names)} channel names for {count} channels; expected one for each.")
    if len(set(names)) != count:
        twice = sorted({name for name in names if names.count(name) > 1})
        raise ValueError(f"Got the channel names {twice} more than once; expected different names, to tell them apart.")
    return names


def frozen(array: np.ndarray) -> np.ndarray:
    """The array, made read-only where it is: for one that was just made, so that a `Series` need not copy it."""
    array.flags.writeable = False
    return array


def unshared(array: np.ndarray) -> np.ndarray:
    """The array if neither it nor an array whose memory it shows can be written to, and else a copy."""
    owner: Any = array
    while isinstance(owner, np.ndarray) and not owner.flags.writeable:
        if owner.base is None:
            return array
        owner = owner.base
    return frozen(array.copy())


def _plural(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def check_finite(values: ArrayLike, *, channels: Sequence[str] | None = None) -> None:
    """Raise unless an array `(..., length, channels)` is free of NaN and infinity; name the first bad value.

    >>> import numpy as np
    >>> check_finite(np.zeros((2, 5, 3)))
    >>> check_finite(np.array([[[1.0], [np.nan]]]), channels=["heart rate"])  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ValueError: Got NaN in sample 0, channel 'heart rate', at point 1; expected finite numbers, ...
    """
    values = as_numbers(values)
    if values.ndim < 2:
        raise ValueError(f"Got values of shape {values.shape}; expected (..., length, channels).")
    check_not_infinite(values, channels=channels)
    missing = np.isnan(values)
    if missing.any():
        raise ValueError(
            f"Got NaN in {_place(missing, channels)}; expected finite numbers, because one NaN makes the "
            "log-signature of its window NaN and every state after it. If NaN means missing, fill it first: "
            "`FillForward()` looks only back, `FillLinear()` interpolates; for example "
            "`fill = FillForward().fit(training); series = fill(series)`."
        )


def check_not_infinite(values: np.ndarray, *, channels: Sequence[str] | None = None) -> None:
    infinite = np.isinf(values)
    if infinite.any():
        raise ValueError(
            f"Got infinity in {_place(infinite, channels)}; expected finite numbers, or NaN for missing "
            "values, because no path runs through infinity. Where such a value is missing, leave its cell of a table "
            f"empty{python_only(', or write `np.where(np.isinf(values), np.nan, values)` and `FillForward()`')}."
        )


def _place(bad: Bool[np.ndarray, "*batch length channels"], channels: Sequence[str] | None) -> str:
    *sample, point, channel = (int(i) for i in np.unravel_index(np.argmax(bad), bad.shape))
    number = sample[0] if len(sample) == 1 else tuple(sample)
    name = f"{channel}" if channels is None else repr(channels[channel])
    others = int(bad.sum()) - 1
    return (
        (f"sample {number}, " if sample else "")
        + f"channel {name}, at point {point}"
        + (f" (and {others} more such values)" if others else "")
    )


def as_numbers(values: Any, *, name: str = "values") -> Float[np.ndarray, "..."]:
    """A NumPy array of float32 or float64: whole numbers become float64, other things are refused."""
    if isinstance(values, np.ma.MaskedArray):
        # np.asarray would drop the mask and let the numbers under it through.
        raise TypeError(
            f"Got {name} as a masked array; expected NaN where values are missing. "
            "Write `x.astype(float).filled(np.nan)`."
        )
    try:
        array = np.asarray(values)
    except ValueError as error:
        raise ValueError(
            f"Got {name} that make no rectangular array ({error}). Series of different lengths go into "
            "`Series.from_arrays([...])`, which pads them."
        ) from None
    if array.dtype.kind in "mM":
        raise TypeError(
            f"Got {name} of type {array.dtype}; expected numbers, because only you know the unit to count "
            "in. Write, for seconds, `(x - x.min()) / np.timedelta64(1, 's')`."
        )
    if array.dtype.kind not in "fiub":
        raise TypeError(
            f"Got {name} of type {array.dtype}; expected real numbers, because a path is followed in "
            "R^channels. Convert them first, for example `np.asarray(x, dtype=np.float64)` with None "
            "written as NaN, and categories as one-hot channels."
        )
    if array.dtype in (np.float32, np.float64):
        return array
    return array.astype(np.float32 if array.dtype == np.float16 else np.float64)
