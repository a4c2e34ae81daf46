"""Parameters of the estimators: declared once, as fields of dataclasses; nested ones as scikit-learn names them.

A part (model, transform, windows, loss, optimizer, augmentation) is an object or a short name. Its own parameters are
reached as `model__state=64`. Parts are never changed in place: setting one of their parameters puts another part in
place.
"""

import inspect
import operator
from typing import Any, ClassVar, Generic, TypeVar

from .._types import Options, Part
from ..registry import FROM_DATA, Registry, accepted, did_you_mean, make, params_of

T = TypeVar("T")


class Parameters:
    """Nested parameters of parts, and hints where a name is wrong. Comes before scikit-learn's `BaseEstimator`."""

    _parts: ClassVar[dict[str, str]] = {}
    """Parameters that are parts, and the family of each."""
    _defaults: ClassVar[Options] = {}
    """What None stands for, where it stands for a part."""

    def __new__(cls, *args, **parameters):
        check_names(cls, parameters, TypeError)
        return super().__new__(cls)

    def get_params(self, deep: bool = True) -> Options:
        """Every parameter by its name; with `deep`, those of the parts too."""
        found = {name: vars(self)[name] for name in self._get_param_names()}  # type: ignore
        if deep:
            for name in self._parts:
                try:
                    found |= {f"{name}__{own}": option for own, option in params_of(self._part(name)).items()}
                except (ValueError, TypeError):  # `fit` will say what is wrong with it
                    continue
        return found

    def set_params(self, **parameters: Any):
        """Set parameters, `model__state=64` for those of a part. Returns the estimator."""
        check_names(type(self), {name.partition("__")[0]: value for name, value in parameters.items()}, ValueError)
        nested: dict[str, Options] = {}
        for name, value in parameters.items():
            first, dots, own = name.partition("__")
            if dots:
                nested.setdefault(first, {})[own] = value
            else:
                setattr(self, name, value)
        for first, options in nested.items():
            if first not in self._parts:
                raise ValueError(f"Invalid parameter {first!r}__...: it has no parameters of its own.")
            setattr(self, first, make(self._parts[first], self._part(first), **options))
        return self

    def _part(self, name: str) -> Part:
        """The object that a parameter stands for."""
        value = vars(self)[name]
        return make(self._parts[name], self._defaults[name] if value is None and name in self._defaults else value)


class Learned(Generic[T]):
    """A read-only attribute of an estimator, `model_`, that reads one field of `fitted_`.

    Args:
        path: of the field, "targets.classes".
        optional: whether None means that there is no such attribute.
    """

    def __init__(self, path: str, *, optional: bool = False):
        self.read, self.optional = operator.attrgetter(path), optional

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, estimator: Any, owner: type | None = None) -> T:
        if estimator is None:
            return self  # type: ignore
        fitted, value = vars(estimator).get("fitted_"), None
        if fitted is not None:
            value = self.read(fitted)
        if fitted is None or (value is None and self.optional):
            raise AttributeError(f"{type(estimator).__name__} has no attribute {self.name!r} before `fit`.")
        return value  # type: ignore

    def __set__(self, estimator: Any, value: Any) -> None:
        raise AttributeError(f"{self.name!r} is learned by `fit`, and is not set.")


def check_names(cls: Any, parameters: Options, error: type[Exception]) -> None:
    known = [name for name in inspect.signature(cls.__init__).parameters if name != "self"]
    for name in parameters:
        if name not in known:
            if (inside := part_with(name, cls._parts)) is not None:
                meant = f" It is a parameter of {inside[0]}: write {inside[1]}."
            else:
                meant = did_you_mean(name, known, cutoff=0.5)
            # scikit-learn's own words first, which its tools look for.
            raise error(f"Invalid parameter {name!r} for {cls.__name__}.{meant} Valid parameters are: {known}.")


def part_with(name: str, parts: dict[str, str]) -> tuple[str, str] | None:
    """Which part has a parameter of this name, and how it is written; None if none has.

    >>> part_with("depth", {"model": "model", "windows": "windows"})
    ('windows', 'windows=Windows(depth=...)')
    """
    for parameter, family in parts.items():
        known = FROM_DATA if family == "model" else ()
        for cls in Registry.families[family].values():
            if name in accepted(cls) and name not in known:
                made = f"Config({cls.__name__}, {name}=...)" if family == "model" else f"{cls.__name__}({name}=...)"
                return parameter, f"{parameter}={made}"
    return None
