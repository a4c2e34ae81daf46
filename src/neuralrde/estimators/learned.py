"""What a model file may say that an estimator learned: a check for each attribute, before anything is made of it.

A checksum finds damage and nothing else, because whoever writes a file writes its checksum too. So nothing in a file is
believed: an attribute without a check here is refused, and so is a file that lacks one. What several attributes must
have in common, each estimator checks in `_check_learned`.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from ..paths import BasePoint, Scale, Series, Step, Steps, TimeChannel
from ..paths.filling import Fill
from .parameters import check_whole

# Labels and column names as arrays: their kinds, and the sizes of their items.
_TYPES = {"b": (1,), "i": (1, 2, 4, 8), "u": (1, 2, 4, 8), "f": (2, 4, 8)}


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


def check_steps(steps: Any, expected: Steps, channels: int, *, timed: bool = False, names: Any = None) -> Series:
    """What fitted steps make of a series of two points; they must be the expected ones, fitted on so many channels.

    Args:
        steps: from a file.
        expected: the same steps before they were fitted: what was learned is the file's, all else is not.
        channels: of the series.
        timed: whether it must have times.
        names: of its channels; None finds them in a step that has learned them.
    """
    kinds = lambda steps: [type(step) for step in steps.steps]
    # Two steps of the same class and the same text differ in what they learned only.
    if not isinstance(steps, Steps) or kinds(steps) != kinds(expected) or repr(steps) != repr(expected):
        raise ValueError(f"Got the preparation {steps!r}; expected {expected!r}, which these settings make")
    if names is None:
        taught = next((step.channels_ for step in steps.steps if isinstance(step, Fill | Scale)), None) or ()
        names = taught[:channels]
    if len(names) != channels:
        raise ValueError(f"Got a preparation of {len(names)} channels; expected {channels}")
    timed = timed or any(_knows_times(step) for step in steps.steps)
    with np.errstate(all="ignore"):
        return steps(Series(np.zeros((1, 2, channels)), times=[[0.0, 1.0]] if timed else None, channels=names))


def check_inputs(estimator: Any) -> int:
    """The channels of X in `fit`. Columns of a table are one channel, and names are one for each column."""
    channels, features = estimator.n_channels_in_, estimator.n_features_in_
    names = getattr(estimator, "feature_names_in_", None)
    if (channels != 1) if estimator.flat_ else (channels != features):
        raise ValueError(f"Got flat_={estimator.flat_} with {channels} channels and {features} features")
    if names is not None and estimator.flat_ and len(names) != features:
        raise ValueError(f"Got {len(names)} names of columns for {features} columns")
    return channels


def most_windows(steps: Any, step: int | None, every: float | None) -> float:
    """Windows of the longest series that steps were fitted on, as far as a channel of time tells its length."""
    if step is None and every is None:
        return 1
    durations = [one.duration_ or 0.0 for one in steps.steps if isinstance(one, TimeChannel)]
    gaps = [one.gap_ or 1.0 for one in steps.steps if isinstance(one, BasePoint)]
    # One more, for the part of a window at the end.
    return (sum(durations) + sum(gaps)) // (every or step or 1) + 1 if durations else np.inf


def check_finite_weights(arrays: dict[str, np.ndarray]) -> None:
    for name, array in arrays.items():
        # Constants of the training set are floats held as whole numbers of the same bits.
        floats = array.view(f"f{array.itemsize}") if name.endswith(".bits") and array.dtype.kind == "i" else array
        if floats.dtype.kind == "f" and not np.isfinite(floats).all():
            raise ValueError(f"Got the weights {name!r} with numbers that are not finite")


def _knows_times(step: Step) -> bool:
    return bool(getattr(step, "timed_", None)) or getattr(step, "gap_", None) is not None


def _whole(low: int = 1, high: int = 2**31, also: tuple = ()) -> Callable[[str, Any], None]:
    return lambda name, value: check_whole(name, value, low=low, high=high, also=also)


def _kind(what: str, test: Callable[[Any], bool]) -> Callable[[str, Any], None]:
    def check(name: str, value: Any) -> None:
        if not test(value):
            raise ValueError(f"Got {name}={value!r}; expected {what}.")

    return check


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_plain(value: Any) -> bool:
    return value is None or isinstance(value, bool | int | float | str) or _is_list(value, _is_number)


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
    "steps_": _kind("steps", lambda value: isinstance(value, Steps)),
    "kept_": _kind("parameters", _is_record),
    "cuts_": _whole(high=1024),
    "depth_": _whole(high=12),
    "step_": _whole(also=(None,)),
    "cut_": _kind("a number above 0", lambda value: _is_number(value) and 0 < value < np.inf),
    "per_time_": _truth,
    "outputs_": _whole(),
    "path_channels_": _kind(
        "a number of channels, or their names",
        lambda value: (type(value) is int and 0 < value < 2**31) or _is_list(value, _is_name),
    ),
    "history_": _records,
    "trials_": _records,
    "best_epoch_": _whole(low=0),
    "validation_loss_": _kind("a number", _is_number),
    "label_share_": _kind("a share, or None", lambda value: value is None or (_is_number(value) and 0 <= value <= 1)),
    "restarts_": _records,
    "flat_": _truth,
    "n_channels_in_": _whole(),
    "n_features_in_": _whole(),
    "feature_names_in_": _kind(
        "names", lambda value: isinstance(value, np.ndarray) and _is_list(value.tolist(), _is_name)
    ),
    "classes_": _kind("at least two different labels, in order", _are_labels),
    "one_dimensional_": _truth,
    "windows_": _whole(high=2**24),
}
# Names are learned from tables with named columns only; the others were not in the first files of this format.
OPTIONAL = {"feature_names_in_", "label_share_", "restarts_"}
