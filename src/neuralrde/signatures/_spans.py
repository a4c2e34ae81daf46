"""Where windows lie, and which of them share work. Plain NumPy, for JAX and PyTorch alike."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Int

from ..paths import cuts_by_count

# Where the log-signatures at each scale start; None for a scale that counts windows.
Since = Sequence[Int[np.ndarray, "*samples windows"] | None]


@dataclass(frozen=True, eq=False)
class Spans:
    """Windows by the points at which they start and end.

    Windows that follow each other need only the points at which they meet: `Spans.between(cuts)`. Any others, which may
    overlap or leave points out, have `Spans.apart(starts, ends)`.

    >>> Spans.between(np.array([0, 4, 8, 9])).starts
    array([0, 4, 8])
    """

    table: Int[np.ndarray, "*samples numbers"]
    """Cuts, (..., windows + 1), or starts and then ends, (..., 2 windows): one row for all samples, or one for each."""
    windows: int
    dilation: int = 1
    """A window's points are start, start + dilation, ..., end."""

    @staticmethod
    def between(cuts: Int[np.ndarray, "*samples cuts"], dilation: int = 1) -> "Spans":
        return Spans(cuts, cuts.shape[-1] - 1, dilation)

    @staticmethod
    def apart(
        starts: Int[np.ndarray, "*samples windows"], ends: Int[np.ndarray, "*samples windows"], dilation: int = 1
    ) -> "Spans":
        return Spans(np.concatenate([starts, ends], axis=-1), starts.shape[-1], dilation)

    @property
    def starts(self) -> Int[np.ndarray, "*samples windows"]:
        return self.table[..., : self.windows]

    @property
    def ends(self) -> Int[np.ndarray, "*samples windows"]:
        return self.table[..., self.table.shape[-1] - self.windows :]

    @property
    def consecutive(self) -> bool:
        """Whether each window starts where the one before it ends."""
        return self.table.shape[-1] == self.windows + 1

    @property
    def increments(self) -> Int[np.ndarray, "*samples windows"]:
        return (self.ends - self.starts) // self.dilation

    def looking_back(self, scale: float, starts: Int[np.ndarray, "*samples windows"] | None = None) -> "Spans":
        """The last `scale` windows at the end of each of these consecutive ones, or what there is since `starts`."""
        if starts is None and scale == 1:
            return self
        if starts is None:
            first = np.arange(self.windows) + 1 - int(min(scale, self.windows))
            starts = self.starts[..., np.maximum(first, 0)]
        return Spans.apart(np.broadcast_to(starts, self.ends.shape), self.ends, self.dilation)

    def narrow(self) -> Int[np.ndarray, "*samples numbers"]:
        """The table in 32 bits, which is what JAX indexes with unless it is told otherwise."""
        if self.table.max(initial=0) > np.iinfo(np.int32).max:
            raise ValueError(
                f"Got windows up to point {self.table.max():,}; expected at most {np.iinfo(np.int32).max:,} "
                "(2^31 - 1), because JAX counts points in 32 bits. Give the path as a NumPy array at a depth of at "
                "most 16, or in parts."
            )
        return self.table.astype(np.int32)


def spans_of(path: Any, step: Any, cuts: Any, starts: Any, ends: Any, dilation: Any) -> Spans:
    """The windows that were asked for, or an error that says what is wrong with them."""
    given = {"step": step, "cuts": cuts, "starts": starts, "ends": ends}
    check_one_given(given)
    if isinstance(dilation, bool) or not isinstance(dilation, int | np.integer) or dilation < 1:
        raise ValueError(f"Got dilation={dilation!r}; expected a whole number of points from 1 on.")
    length, batch = path.shape[-2], path.shape[:-2]
    if step is not None:
        spans = Spans.between(cuts_by_count(length, step), int(dilation))
    elif cuts is not None:
        cuts = _indices("cuts", cuts, length, batch, least=2)
        if (np.diff(cuts, axis=-1) < 0).any():
            raise ValueError(
                f"Got cuts that decrease; expected indices between 0 and {length - 1} that never decrease, because "
                "windows follow each other. Windows that overlap have `starts` and `ends`."
            )
        spans = Spans.between(cuts, int(dilation))
    else:
        starts, ends = (_indices(name, given[name], length, batch, least=1) for name in ("starts", "ends"))
        if starts.shape != ends.shape:
            raise ValueError(f"Got starts of shape {starts.shape} and ends of shape {ends.shape}; expected the same.")
        if (ends < starts).any():
            where = tuple(int(i) for i in np.unravel_index(np.argmax(ends < starts), ends.shape))
            raise ValueError(
                f"Got a window from point {starts[where]} to point {ends[where]} (window {where[-1]}); expected ends "
                "that are not before their starts."
            )
        spans = Spans.apart(starts, ends, int(dilation))
    if dilation > 1 and ((spans.ends - spans.starts) % dilation).any():
        wrong = spans.ends - spans.starts
        raise ValueError(
            f"Got dilation={dilation} and a window over {int(wrong[wrong % dilation > 0][0])} increments; expected "
            f"multiples of {dilation}, because a window's points are start, start + {dilation}, ..., end."
        )
    return spans


def check_one_given(given: dict[str, Any]) -> None:
    named = [name for name, value in given.items() if value is not None]
    if named not in (["step"], ["cuts"], ["starts", "ends"]):
        raise TypeError(
            f"Got {' and '.join(named) or 'no windows'}; expected exactly one of `step`, `cuts`, and `starts` with "
            "`ends`. Write `log_signatures(path, depth, step=32)` for windows of 32 increments."
        )


def _indices(name: str, given: Any, length: int, batch: tuple[int, ...], *, least: int) -> np.ndarray:
    """Numbers of points, in 64 bits: differences of unsigned numbers are never negative."""
    try:
        array = np.asarray(given)
    except TypeError as error:  # as JAX raises for what it traces
        raise TypeError(
            f"Got {name} that are traced by JAX; expected a NumPy array, because the number of points in a window "
            f"shapes the computation. Make the {name} outside `jax.jit`."
        ) from error
    more = "windows + 1" if least == 2 else "windows"
    if not np.issubdtype(array.dtype, np.integer) or array.ndim < 1 or array.shape[-1] < least:
        what = "at which windows meet" if least == 2 else f"with which windows {name.removesuffix('s')}"
        raise ValueError(
            f"Got {name} of shape {array.shape} and type {array.dtype}; expected whole numbers ({more},) or "
            f"(..., {more}): the indices of the points {what}."
        )
    if array.ndim > 1 and array.shape[:-1] != batch:
        raise ValueError(
            f"Got {name} of shape {array.shape} for a path of shape {(*batch, length)} and its channels; expected one "
            f"row for all samples, ({array.shape[-1]},), or one for each, {(*batch, array.shape[-1])}."
        )
    array = array.astype(np.int64)
    if array.size and (array.min() < 0 or array.max() >= length):
        raise ValueError(
            f"Got {name} from {array.min()} to {array.max()} on a path of {length} points; expected indices between 0 "
            f"and {length - 1}."
        )
    return array


class WindowSpan(NamedTuple):
    """Windows that are runs of consecutive pieces: the last piece of each, and how many pieces it has.

    A run that would begin before the first piece begins there.
    """

    last: Int[np.ndarray, "*samples windows"]
    count: Int[np.ndarray, "*samples windows"]
    depth: int

    def joins(self) -> int:
        """How many joins each window takes beside those that double the pieces."""
        return max(0, int(np.bitwise_or.reduce(self.count, axis=None)).bit_count() - 1)


def doublings(wanted: list[WindowSpan]) -> int:
    """How often the length of pieces is doubled."""
    return max(int(one.count.max(initial=1)).bit_length() - 1 for one in wanted)


# What a join costs, in increments that could be followed in that time, at depth 1, 2, 3 and beyond; and what each
# window costs that is joined at all. Measured with 4 channels: both kinds of work grow alike with their number.
_JOIN, _EACH = (4, 4, 4, 2000), 30


def plan_joins(
    spans: Spans, scales: tuple[float, ...], depths: tuple[int, ...], length: int, since: Since | None = None
) -> tuple[Spans, list[WindowSpan]] | None:
    """Consecutive pieces, and the windows of each scale as runs of them; None if no work is saved by that."""
    anywhere = not spans.consecutive or (since is not None and any(starts is not None for starts in since))
    looks = [spans.looking_back(*one) for one in zip(scales, since or [None] * len(scales), strict=True)]
    direct = sum(map(_increments, looks))
    if scales == (1,) and (not anywhere or spans.dilation > 1 or direct <= length):
        return None
    if anywhere:
        starts = np.concatenate([look.starts for look in looks], axis=-1)
        pieces, last, count = _pieces(Spans.apart(starts, np.concatenate([spans.ends] * len(looks), axis=-1)), length)
        runs = zip(*(np.split(numbers, len(looks), axis=-1) for numbers in (last, count)), strict=True)
    else:
        pieces, last = spans, np.arange(spans.windows)
        runs = ((last, np.full(spans.windows, int(min(scale, spans.windows)))) for scale in scales)
    wanted = [WindowSpan(*run, depth) for run, depth in zip(runs, depths, strict=True)]
    joins = doublings(wanted) * pieces.windows + sum(one.joins() * one.last.shape[-1] for one in wanted)
    cost = _increments(pieces) + _JOIN[min(max(depths), len(_JOIN)) - 1] * joins
    cost += _EACH * sum(one.last.shape[-1] for one in wanted)
    return (pieces, wanted) if cost < direct else None


def _increments(spans: Spans) -> float:
    """The increments of all windows of a sample together, on average."""
    return float(spans.increments.sum(axis=-1).mean()) if spans.table.size else 0.0


def _pieces(
    spans: Spans, length: int
) -> tuple[Spans, Int[np.ndarray, "*samples windows"], Int[np.ndarray, "*samples windows"]]:
    """The pieces between neighbouring boundaries of windows; each window's last piece, and how many it has."""
    boundary = np.zeros((*spans.table.shape[:-1], length), bool)
    np.put_along_axis(boundary, spans.table, True, axis=-1)
    number = boundary.cumsum(axis=-1) - 1
    starts, ends = (np.take_along_axis(number, points, axis=-1) for points in (spans.starts, spans.ends))
    # Samples with fewer boundaries than others repeat their last: empty pieces.
    size = max(2, int(number[..., -1].max(initial=0)) + 1)
    cuts = np.repeat(spans.ends.max(axis=-1, keepdims=True), size, axis=-1)
    np.put_along_axis(
        cuts, np.where(boundary, number, size - 1), np.where(boundary, np.arange(length), cuts[..., -1:]), -1
    )
    return Spans.between(cuts), ends - 1, ends - starts
