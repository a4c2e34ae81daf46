"""What a model file may say that an estimator learned: a check for each attribute, before anything is made of it.

A checksum finds damage and nothing else, because whoever writes a file writes its checksum too. So nothing in a file is
believed: an attribute without a check here is refused, and so is a file that lacks one. What several attributes must
have in common, each estimator checks in `_check_learned`.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from ..models.base import model_class
from ..paths import Series, Windows
from ..paths.checks import check_whole, is_number
from ..registry import Config, params_of
from ..signatures import basis_channels
from ..training import AbstractAugmentation, AbstractLoss
from ..transforms import BasePoint, Compose, FillForward, FillLinear, ObservationCounts, Scale, TimeChannel, Transform
from ..transforms.filling import Fill
from .parameters import check_augmentation

# Labels and column names as arrays: their kinds, and the sizes of their items.
_TYPES = {"b": (1,), "i": (1, 2, 4, 8), "u": (1, 2, 4, 8), "f": (2, 4, 8)}


# What "standard" transforms are made of: of these the channels of a path are known without data.
_STANDARD = {ObservationCounts, FillForward, FillLinear, Scale, TimeChannel, BasePoint}
# Numbers of a model that make none of its arrays larger.
_FREE = {"substeps", "max_steps", "depth"}


def check_learned(values: dict[str, Any], names: tuple[str, ...]) -> None:
    """Raise unless the attributes are those that an estimator learns, each of its own kind."""
    unknown, absent = sorted(set(values) - set(names)), sorted(set(names) - set(values) - OPTIONAL)
    if unknown:
        raise ValueError(f"{unknown} is nothing that it learns")
    if absent:
        raise ValueError(f"{absent} is missing, which it must have learned")
    for name, value in values.items():
        LEARNED[name](name, value)


def array_of(items: Any, kind: Any) -> np.ndarray:
    """An array of labels or names from a file, never larger than its items: strings are as long as the longest."""
    if not isinstance(items, list) or not all(isinstance(item, bool | int | float | str) for item in items):
        raise ValueError("Got an array of something else than a list of numbers or of strings")
    given = kind.lstrip("<>=|") if isinstance(kind, str) else ""
    if given == "O" or (given[:1] == "U" and given[1:].isdecimal()):
        array = np.array(items, object if given == "O" else str)
    elif given[:1] in _TYPES and given[1:] in map(str, _TYPES[given[:1]]):
        array = np.array(items, kind)
    else:
        raise ValueError(f"Got an array of the type {kind!r}; expected numbers, strings or objects")
    if array.tolist() != items:
        raise ValueError(f"Got an array of the type {kind!r} whose items are something else")
    return array


def check_transform(transform: Any, expected: Transform) -> None:
    """The fitted transform of a file must be the expected one: what was learned is the file's, all else is not."""
    # Two transforms of the same class and the same text differ in what they learned only.
    kinds = lambda one: [type(inner) for inner in one.transforms] if isinstance(one, Compose) else [type(one)]
    if not isinstance(transform, Transform) or kinds(transform) != kinds(expected) or repr(transform) != repr(expected):
        raise ValueError(f"Got the transform {transform!r}; expected {expected!r}, which these settings make")


def prepared_channels(transform: Any, channels: int, *, timed: bool = False, names: Any = None) -> tuple[str, ...]:
    """The channels that fitted transforms make of a series of two points with so many channels.

    Args:
        transform: from a file.
        channels: of the series.
        timed: whether it must have times.
        names: of its channels; None finds them in a transform that has learned them.
    """
    inner = transform.transforms if isinstance(transform, Compose) else (transform,)
    if names is None:
        taught = next((one.channels_ for one in inner if isinstance(one, Fill | Scale)), None) or ()
        names = taught[:channels]
    if len(names) != channels:
        raise ValueError(f"Got a transform of {len(names)} channels; expected {channels}")
    timed = timed or any(_knows_times(one) for one in inner)
    with np.errstate(all="ignore"):
        series = Series(np.zeros((1, 2, channels)), times=[[0.0, 1.0]] if timed else None, channels=names)
        return transform(series).channels


def check_file(estimator: Any, expected: Transform, numbers: int) -> None:
    """Raise unless what a file says an estimator learned fits together, and needs no more numbers than its arrays hold.

    Args:
        estimator: with all that the file says.
        expected: the transform of its settings, not fitted.
        numbers: in the file's arrays.
    """
    windows, channels = estimator.windows_, check_inputs(estimator)
    if windows.searched or (windows.step is None) == (windows.every is None):
        raise ValueError(f"Got windows_={windows!r}; expected a depth and a step or a time")
    if windows.shifts > 1 and estimator.per_time_:
        raise ValueError(f"Got windows_={windows!r}; expected shifts=1, for these settings")
    check_augmentation(estimator.augmentation_, estimator._task)
    if estimator.augmentation_ is not None and estimator.per_time_:
        raise ValueError(f"Got augmentation_={estimator.augmentation_!r}; expected None, for these settings")
    check_transform(estimator.transform_, expected)
    inner = expected.transforms if isinstance(expected, Compose) else (expected,)
    if {type(one) for one in inner} <= _STANDARD and any(isinstance(one, Fill | Scale) for one in inner):
        path = prepared_channels(estimator.transform_, channels, timed=windows.every is not None)
        if len(path) != estimator.path_channels_:
            raise ValueError(f"Got path_channels_={estimator.path_channels_}; expected {len(path)}")
    if not estimator.config_.cls.__module__.startswith("neuralrde.") or estimator._only_closed_form:
        return  # of a model of one's own nothing is known before it is made, and one without weight is not made
    # A model of ours has at least as many weights as these: nothing is made that the file could not fill.
    outputs = estimator.loss_.outputs(estimator.outputs_)
    sizes = {name: value for name, value in params_of(estimator.config_).items() if _is_whole(value)}
    seen = model_class(estimator.config_.cls).channels_seen(estimator.path_channels_)
    logs = basis_channels(seen, windows.depth, scales=windows.scales)
    largest = {"path_channels_": estimator.path_channels_, "log-signature channels": logs, "outputs_": outputs}
    largest |= {name: value for name, value in sizes.items() if name not in _FREE}
    if "state" in sizes and "width" in sizes:  # the last layer of a field, or of a stack of them
        largest["weights"] = sizes["state"] * min(logs, sizes["width"])
    for name, size in largest.items():
        if size > numbers:
            raise ValueError(f"Got {numbers} weights; expected many more, for {size} {name}")
    for name in _FREE & set(sizes):
        check_whole(name, sizes[name], low=0, high=2**20)


def check_inputs(estimator: Any) -> int:
    """The channels of X in `fit`. Columns of a table are one channel, and names are one for each column."""
    channels, features = estimator.n_channels_in_, estimator.n_features_in_
    names = getattr(estimator, "feature_names_in_", None)
    if (channels != 1) if estimator.flat_ else (channels != features):
        raise ValueError(f"Got flat_={estimator.flat_} with {channels} channels and {features} features")
    if names is not None and estimator.flat_ and len(names) != features:
        raise ValueError(f"Got {len(names)} names of columns for {features} columns")
    return channels


def most_windows(transform: Any, step: int | None, every: float | None) -> float:
    """Windows of the longest series that transforms were fitted on, as far as a channel of time tells its length."""
    if step is None and every is None:
        return 1
    inner = transform.transforms if isinstance(transform, Compose) else (transform,)
    durations = [one.duration_ or 0.0 for one in inner if isinstance(one, TimeChannel)]
    gaps = [one.gap_ or 1.0 for one in inner if isinstance(one, BasePoint)]
    # One more, for the part of a window at the end.
    return (sum(durations) + sum(gaps)) // (every or step or 1) + 1 if durations else np.inf


def check_finite_weights(arrays: dict[str, np.ndarray]) -> None:
    for name, array in arrays.items():
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise ValueError(f"Got the weights {name!r} with numbers that are not finite")


def _knows_times(transform: Transform) -> bool:
    return bool(getattr(transform, "timed_", None)) or getattr(transform, "gap_", None) is not None


def _whole(low: int = 1, high: int = 2**31, also: tuple = ()) -> Callable[[str, Any], None]:
    return lambda name, value: check_whole(name, value, low=low, high=high, also=also)


def _kind(what: str, test: Callable[[Any], bool]) -> Callable[[str, Any], None]:
    def check(name: str, value: Any) -> None:
        if not test(value):
            raise ValueError(f"Got {name}={value!r}; expected {what}.")

    return check


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_plain(value: Any) -> bool:
    return value is None or isinstance(value, bool | int | float | str) or _is_list(value, is_number)


def _is_list(value: Any, test: Callable[[Any], bool]) -> bool:
    return isinstance(value, list) and all(test(item) for item in value)


def _is_record(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(k, str) and _is_plain(v) for k, v in value.items())


def _is_name(value: Any) -> bool:
    return isinstance(value, str)


def _are_labels(value: Any) -> bool:
    """At least two different ones, in order, as `np.unique` gives them."""
    return isinstance(value, np.ndarray) and len(value) > 1 and np.array_equal(np.unique(value), value)


_truth = _kind("True or False", lambda value: isinstance(value, bool))
_records = _kind("a list of records", lambda value: _is_list(value, _is_record))

LEARNED: dict[str, Callable[[str, Any], None]] = {
    "transform_": _kind("a transform", lambda value: isinstance(value, Transform)),
    "windows_": _kind("windows", lambda value: isinstance(value, Windows)),
    "config_": _kind("a model and its options", lambda value: isinstance(value, Config)),
    "augmentation_": _kind(
        "an augmentation, or None", lambda value: value is None or isinstance(value, AbstractAugmentation)
    ),
    "loss_": _kind("a loss", lambda value: isinstance(value, AbstractLoss)),
    "scores_": _kind(
        "lists of numbers, or None",
        lambda value: value is None or _is_list(value, lambda one: _is_list(one, is_number) and one == sorted(one)),
    ),
    "per_time_": _truth,
    "outputs_": _whole(),
    "path_channels_": _kind(
        "a number of channels, or their names",
        lambda value: (type(value) is int and 0 < value < 2**31) or _is_list(value, _is_name),
    ),
    "history_": _records,
    "trials_": _records,
    "best_epoch_": _whole(low=0),
    "validation_loss_": _kind("a number", is_number),
    "label_share_": _kind("a share, or None", lambda value: value is None or (is_number(value) and 0 <= value <= 1)),
    "restarts_": _records,
    "flat_": _truth,
    "n_channels_in_": _whole(),
    "n_features_in_": _whole(),
    "feature_names_in_": _kind(
        "names", lambda value: isinstance(value, np.ndarray) and _is_list(value.tolist(), _is_name)
    ),
    "classes_": _kind("at least two different labels, in order", _are_labels),
    "one_dimensional_": _truth,
    "windows_per_series_": _whole(high=2**24),
    "features_": _whole(),
    "members_": _whole(high=1000),
    "blend_": _kind(
        "two numbers of 0 or more",
        lambda value: _is_list(value, is_number) and len(value) == 2 and all(0 <= one < np.inf for one in value),
    ),
    "penalty_": _kind("a positive number", lambda value: is_number(value) and value > 0),
}
OPTIONAL = {"feature_names_in_"}  # learned from tables with named columns only
