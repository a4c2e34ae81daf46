"""One file for a fitted estimator: its arrays in safetensors, everything else as JSON in the header.

What a file may say is fixed: the name of an estimator, its parameters, and the attributes that the estimator learns,
each with a check in `learned.py`. Names are looked up, never imported; values are plain; every number is checked, and
sizes are compared with the arrays in the file, before anything is made of them. So a file from elsewhere can be
refused, or be a bad model, and nothing else.
"""

import inspect
import os
from typing import Any

import numpy as np

from ..registry import make, to_plain
from ..training import FileRefused
from ..training.archive import arrays_of, read_archive, with_arrays, write_archive
from ..transforms import Transform
from .learned import array_of, check_finite_weights, check_learned

_KIND, _FORMAT = "model", 3
# The attribute that may hold another estimator.
_INSIDE = "closed_form_"


class Saved:
    """`save` and `load`, for an estimator that lists what it learned in `_learned`."""

    _learned: tuple[str, ...] = ()

    def save(self, path: str | os.PathLike) -> None:
        """Write the fitted estimator to one file: weights in safetensors, settings in JSON, no pickle."""
        header, arrays = self._parts_of_file("model")
        write_archive(path, _KIND, format=_FORMAT, header=header, arrays=arrays)

    def _parts_of_file(self, prefix: str) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Header and arrays; an estimator inside, `closed_form_`, has a header inside and arrays of its own prefix."""
        estimator: Any = self
        estimator._check_fitted()
        header = {
            "estimator": type(self).__name__,
            # A part that was set after `fit` has no part in what was fitted.
            "parameters": {
                name: to_json(value, name)
                for name, value in (estimator.get_params(deep=False) | getattr(self, "_kept", {})).items()
            },
            "learned": {name: to_json(getattr(self, name), name) for name in self._learned if hasattr(self, name)},
        }
        arrays = arrays_of(getattr(self, "model_", None), prefix)
        if (inside := getattr(self, _INSIDE, None)) is not None:
            header[_INSIDE], more = inside._parts_of_file(_INSIDE)
            arrays |= more
        return header, arrays

    @classmethod
    def load(cls, path: str | os.PathLike) -> Any:
        """The estimator that `save` wrote, with the same predictions. A file from elsewhere can do no harm.

        `FileRefused` says what is wrong with a file that is damaged, of another version, or makes no model.
        """
        return load_any(path, {cls.__name__: cls})


def load_any(path: str | os.PathLike, kinds: dict[str, Any]) -> Any:
    """The estimator in a file, which must be one of `kinds`."""
    header, arrays = read_archive(path, _KIND, format=_FORMAT)
    name = header.get("estimator")
    kind = kinds.get(name) if isinstance(name, str) else None
    if kind is None:
        raise FileRefused(f"Got the file {str(path)!r}, which holds a {_brief(name)}; expected one of {list(kinds)}.")
    try:
        inside, within = header.get(_INSIDE), {n: array for n, array in arrays.items() if n.startswith(_INSIDE)}
        estimator = made_of_parts(kind, header, {n: array for n, array in arrays.items() if n not in within}, "model")
        if inside is not None:
            estimator._put_inside(made_of_parts(estimator._kind_inside(), inside, within, _INSIDE))
        elif within:
            raise FileRefused(f"Got a file with the array {min(within)!r}, which these settings do not need.")
        if getattr(estimator, "model_", ...) is None and inside is None:
            raise FileRefused("Got a model without weight and no closed form beside it.")
    except FileRefused as error:
        raise FileRefused(f"Got the file {str(path)!r}, whose parts do not fit together: {_brief(error)}") from None
    except Exception as error:  # whatever strange settings make a constructor stumble over
        raise FileRefused(
            f"Got the file {str(path)!r}, whose settings make no {kind.__name__}: {_brief(error)}"
        ) from None
    return estimator


def made_of_parts(kind: Any, header: dict[str, Any], arrays: dict[str, np.ndarray], prefix: str) -> Any:
    """A fitted estimator of this kind, checked."""
    parameters = {name: from_json(value, name) for name, value in header["parameters"].items()}
    _check_truths(kind, parameters)
    estimator = kind(**parameters)
    parts = estimator._check_parameters()
    learned = {name: from_json(value, name) for name, value in header["learned"].items()}
    check_learned(learned, kind._learned)
    for name, value in learned.items():
        setattr(estimator, name, value)
    estimator._check_learned(parts, sum(array.size for array in arrays.values()))
    _put_model(estimator, arrays, prefix)
    estimator._check_fitted()
    return estimator


def _put_model(estimator: Any, arrays: dict[str, np.ndarray], prefix: str) -> None:
    """The weights, which must be all that the file holds: of the template's shapes, and finite."""
    used = {}
    if hasattr(estimator, "_template"):
        template = estimator._template()
        estimator.model_ = with_arrays(template, arrays, prefix)
        # A model without weight is left where it is, in files that still hold it.
        used = arrays if template is None else arrays_of(estimator.model_, prefix)
    if unused := sorted(set(arrays) - set(used)):
        raise FileRefused(f"Got a file with the array {unused[0]!r}, which these settings do not need.")
    check_finite_weights(arrays | used)


def _check_truths(kind: Any, parameters: dict[str, Any]) -> None:
    for name, parameter in inspect.signature(kind).parameters.items():
        if isinstance(parameter.default, bool) and not isinstance(parameters.get(name, False), bool):
            raise ValueError(f"Got {name}={parameters[name]!r}; expected True or False.")


def _brief(what: Any) -> str:
    """For a sentence, however long a thing the file says."""
    text = str(what) if isinstance(what, Exception) else repr(what)
    return text if len(text) <= 500 else f"{text[:500]} ..."


# The families of what is saved, by the names of parameters and learned attributes.
_FAMILIES = {name: name for name in ("model", "transform", "windows", "loss", "optimizer", "augmentation")}
_FAMILIES |= {"prepare": "transform", "config_": "model", "windows_": "windows", "loss_": "loss"}
_FAMILIES |= {"augmentation_": "augmentation"}


def to_json(value: Any, name: str = "") -> Any:
    """What JSON can hold, with a mark on what it must become again."""
    if name == "transform_":
        return {"transform": value.state()}
    if name in _FAMILIES and not isinstance(value, str | int | None):
        return {"part": to_plain(_FAMILIES[name], make(_FAMILIES[name], value))}
    if isinstance(value, np.ndarray):
        kind = "O" if value.dtype == object else value.dtype.str
        return {"array": [to_json(item) for item in value.tolist()], "type": kind}
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, dict):
        return {"pairs": [[to_json(key), to_json(item)] for key, item in value.items()]}
    if isinstance(value, list | tuple):
        return [to_json(item) for item in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.random.RandomState | np.random.Generator):
        return None  # it has done its work; a later `fit` draws anew
    raise TypeError(
        f"Got {value!r} among the parameters; expected numbers, strings, and lists or dictionaries of them, which "
        "a file can hold."
    )


def from_json(value: Any, name: str = "") -> Any:
    """What `to_json` was given. Nothing in it is larger than the file, whatever it says."""
    if isinstance(value, list):
        return [from_json(item) for item in value]
    if not isinstance(value, dict):
        return value
    if "transform" in value:
        return Transform.from_state(value["transform"])
    if "part" in value:
        return make(_FAMILIES[name], value["part"])
    if "array" in value:
        return array_of(value["array"], value["type"])
    return {key: from_json(item) for key, item in value["pairs"]}
