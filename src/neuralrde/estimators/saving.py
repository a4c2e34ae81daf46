"""One file for a fitted estimator: its arrays in safetensors, everything else as JSON in the header.

The types of a fitted value's fields say what a file may hold, and its constructors check the rest. Names are looked
up, never imported; values are plain; and nothing is built that has more numbers than the arrays in the file: a fitted
value says the `least_sizes` of its model, and the model's shapes, made without its numbers, must be those of the
arrays. So a file from elsewhere can be refused, or be a bad model, and nothing else. (A checksum finds damage only,
because whoever writes a file writes its checksum too.)
"""

import dataclasses
import hashlib
import json
import os
import types
from typing import Any, Union, get_args, get_origin, get_type_hints

import numpy as np

from .._types import Options, Plain
from ..paths import Windows
from ..paths.checks import is_number
from ..registry import Config, make, to_plain
from ..training import AbstractAugmentation, AbstractLoss, FileRefused
from ..training.archive import arrays_of, read_archive, with_arrays, write_archive
from ..transforms import Transform

KIND, FORMAT = "model", 8
# Fields that are not plain: a model is arrays, and the others belong to a process or are parameters.
_NOT_PLAIN = {"model", "given", "training", "mesh"}
# Types that a registry writes and reads, and their families.
_FAMILIES: dict[type, str] = {
    Config: "model",
    Windows: "windows",
    AbstractLoss: "loss",
    AbstractAugmentation: "augmentation",
}
# Labels and column names as arrays: the types they may have, beside objects and text.
_ARRAYS = {"b1", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8"}


def save_estimator(path: str | os.PathLike, estimator: Any, parameters: Options) -> None:
    """Write an estimator's name, its parameters and what it has learned."""
    given = {}
    for name, value in parameters.items():
        family = estimator._parts.get(name)
        if family is not None and not isinstance(value, str | int | None):
            given[name] = {"part": to_plain(family, make(family, value))}
        elif isinstance(value, dict):
            given[name] = {"pairs": [to_parts(pair)[0] for pair in value.items()]}
        elif isinstance(value, np.random.RandomState | np.random.Generator):
            given[name] = None  # it has done its work; a later `fit` draws anew
        else:
            given[name] = to_parts(value)[0]
    plain, arrays = to_parts(estimator.fitted_)
    header = {"estimator": type(estimator).__name__, "parameters": given, "fitted": plain}
    write_archive(path, KIND, format=FORMAT, header=header, arrays=arrays)


def load_estimator(path: str | os.PathLike, kinds: Options) -> Any:
    """The estimator in a file, which must be one of `kinds`."""
    header, arrays = read_archive(path, KIND, format=FORMAT)
    name = header.get("estimator")
    kind = kinds.get(name) if isinstance(name, str) else None
    if kind is None:
        raise FileRefused(f"Got the file {str(path)!r}, which holds a {_brief(name)}; expected one of {list(kinds)}.")
    try:
        parameters = {**header["parameters"]}
        for name, value in parameters.items():
            if isinstance(value, dict):
                is_part = name in kind._parts
                parameters[name] = make(kind._parts[name], value["part"]) if is_part else dict(value["pairs"])
        return kind._of(from_parts(kind._kind, header["fitted"], arrays), parameters)
    except FileRefused as error:
        raise FileRefused(f"Got the file {str(path)!r}, whose parts do not fit together: {_brief(error)}") from None
    except Exception as error:  # whatever strange settings make a constructor stumble over
        raise FileRefused(
            f"Got the file {str(path)!r}, whose settings make no {kind.__name__}: {_brief(error)}"
        ) from None


def to_parts(value: Any) -> tuple[Plain, dict[str, np.ndarray]]:
    """A fitted value, or a parameter, as JSON can hold it; and the arrays of its models."""
    arrays: dict[str, np.ndarray] = {}

    def plain(value: Any, prefix: str) -> Plain:
        if isinstance(value, Transform):
            return value.state()
        for cls, family in _FAMILIES.items():
            if isinstance(value, cls):
                return to_plain(family, value)
        if dataclasses.is_dataclass(value):
            fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
            if "model" in fields:
                arrays.update(arrays_of(fields["model"], f"{prefix}model"))
            return {name: plain(v, f"{prefix}{name}.") for name, v in fields.items() if name not in _NOT_PLAIN}
        if isinstance(value, np.ndarray):
            return {"array": value.tolist(), "type": "O" if value.dtype == object else value.dtype.str}
        if isinstance(value, list | tuple):
            return [plain(item, prefix) for item in value]
        value = value.item() if isinstance(value, np.generic) else value
        if value is None or isinstance(value, bool | int | float | str | dict):
            return value
        raise TypeError(
            f"Got {value!r} among the parameters; expected numbers, strings, and lists or dictionaries of them, which "
            "a file can hold."
        )

    return plain(value, ""), arrays


def digest_of(fitted: Any) -> str:
    """A checksum of a fitted value: the same wherever it was loaded."""
    plain, arrays = to_parts(fitted)
    digest = hashlib.sha256(json.dumps(plain, sort_keys=True).encode())
    for name, array in sorted(arrays.items()):
        digest.update(f"{name} {array.dtype.str} {array.shape}".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()[:32]


def from_parts(cls: type, plain: Plain, arrays: dict[str, np.ndarray]) -> Any:
    """The fitted value that `to_parts` was given, checked: all arrays must be used, and all numbers be finite."""
    used: dict[str, np.ndarray] = {}

    def made(plain: Plain, declared: Any, where: str, prefix: str) -> Any:
        """A value of the declared type."""
        origin, inner = get_origin(declared), get_args(declared)
        if origin in (Union, types.UnionType):
            return None if plain is None else made(plain, inner[0], where, prefix)
        if origin in (list, tuple) and isinstance(plain, list):
            return origin(made(item, inner[0], where, prefix) for item in plain)
        if origin is dict and isinstance(plain, dict) and all(map(_is_plain, plain.values())):
            return plain
        if declared is Transform and isinstance(plain, dict):
            return Transform.from_state(plain)
        if declared is np.ndarray and isinstance(plain, dict):
            return _array_of(plain)
        if declared in _FAMILIES and isinstance(plain, dict):
            return make(_FAMILIES[declared], plain)
        if declared is float and isinstance(plain, int | float) and not isinstance(plain, bool):
            return float(plain)
        if declared in (bool, int, str) and type(plain) is declared:
            return plain
        if not dataclasses.is_dataclass(declared) or not isinstance(plain, dict):
            raise ValueError(f"Got {where}={_brief(plain)}; expected {getattr(declared, '__name__', declared)}.")
        fields, hints = {field.name for field in dataclasses.fields(declared)}, get_type_hints(declared)
        names = fields - _NOT_PLAIN
        if wrong := sorted(set(plain) ^ names):
            raise ValueError(
                f"Got {wrong[0]!r}, which is {'missing' if wrong[0] in names else 'nothing that it learns'}"
            )
        values = {name: made(plain[name], hints[name], name, f"{prefix}{name}.") for name in plain}
        return model_in(declared, values, f"{prefix}model") if "model" in fields else declared(**values)

    def model_in(declared: Any, values: Options, prefix: str) -> Any:
        """Everything but the numbers of the model, whose sizes are checked before anything is built of them."""
        fitted = declared(**values, model=None)
        mine = {name: array for name, array in arrays.items() if name.startswith(prefix)}
        numbers = sum(array.size for array in mine.values())
        for name, size in fitted.least_sizes().items():
            if size > numbers:
                raise ValueError(f"Got {numbers} weights; expected many more, for {size} {name}")
        model = with_arrays(fitted.shapes(), mine, prefix)
        used.update(arrays_of(model, prefix))
        object.__setattr__(fitted, "model", model)  # all else has been checked
        return fitted

    fitted = made(plain, cls, "fitted", "")
    if unused := sorted(set(arrays) - set(used)):
        raise FileRefused(f"Got a file with the array {unused[0]!r}, which these settings do not need.")
    for name, array in (*arrays.items(), *used.items()):
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise FileRefused(f"Got the weights {name!r} with numbers that are not finite")
    return fitted


def _array_of(plain: Options) -> np.ndarray:
    """An array of labels or names, never larger than its items: strings are as long as the longest."""
    items, kind = plain["array"], plain["type"]
    if not isinstance(items, list) or not all(isinstance(item, bool | int | float | str) for item in items):
        raise ValueError("Got an array of something else than a list of numbers or of strings")
    given = kind.lstrip("<>=|") if isinstance(kind, str) else ""
    if given == "O" or (given[:1] == "U" and given[1:].isdecimal()):
        array = np.array(items, object if given == "O" else str)
    elif given in _ARRAYS:
        array = np.array(items, kind)
    else:
        raise ValueError(f"Got an array of the type {kind!r}; expected numbers, strings or objects")
    if array.tolist() != items:
        raise ValueError(f"Got an array of the type {kind!r} whose items are something else")
    return array


def _is_plain(value: object) -> bool:
    if isinstance(value, list):
        return all(is_number(item) for item in value)
    return value is None or isinstance(value, bool | int | float | str)


def _brief(what: object) -> str:
    """A short text for a sentence, however long a thing the file says."""
    text = str(what) if isinstance(what, Exception) else repr(what)
    return text if len(text) <= 500 else f"{text[:500]} ..."
