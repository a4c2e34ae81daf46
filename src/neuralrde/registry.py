"""Short names for classes, and classes with options that are called later.

Every family of exchangeable parts (models, transforms, losses, ...) has one `Registry`. A class that is entered there
has a short name in estimators, on the command line, in TOML files, in saved models, in benchmarks and in the docs. A
class of your own needs no entry: pass the class itself, and files name it by its module.

Three verbs lead from a parameter to an object and back: `make` what a parameter stands for, read its parameters with
`params_of`, and write it with `to_plain`.
"""

import difflib
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any, ClassVar

from ._write import Options, Part, Plain
from .errors import ParameterError, setting

# Options that the estimator supplies; `_ALWAYS` are the ones given to a class that takes any.
FROM_DATA = ("channels", "outputs", "depth", "scales", "step", "points", "static", "key")
_ALWAYS = ("channels", "outputs", "depth", "key")
# Options that may be short names in whatever class takes them.
_OPTIONS = {"readout", "solver", "gradient", "field", "activation", "schedule"}


class Registry(dict[str, Any]):
    """The classes of one family by their short names.

    Args:
        family: what one of them is called, which is also the parameter that takes it: "model", "loss", "readout".
        base: what classes of your own derive from. Those that are imported are found by module and name.
        entries: classes, or functions for families of functions, by their short names.
        coerce: makes an object of other values that the family takes, such as a number for windows.
        later: whether `make` stops at a `Config`, because sizes depend on the data.

    >>> shapes = Registry("shape", object, {"point": complex})
    >>> shapes.find("point"), shapes.name_of(complex)
    (<class 'complex'>, 'point')
    """

    families: ClassVar[dict[str, "Registry"]] = {}

    def __init__(
        self,
        family: str,
        base: type,
        entries: Options,
        *,
        coerce: Callable[[Any], Any] = lambda value: value,
        later: bool = False,
    ):
        super().__init__(entries)
        self.family, self.base, self.coerce, self.later = family, base, coerce, later
        Registry.families[family] = self

    def find(self, name: str) -> Any:
        """The class of this short name, or of this module and name among the imported subclasses of `base`."""
        if name in self:
            return self[name]
        # A notebook's cell that is run again defines its class again: the last one counts.
        own = {_full_name(cls): cls for cls in (() if self.base is object else _subclasses(self.base))}
        if name in own:
            return own[name]
        if name.startswith("__main__."):  # what a script saved may stand in a module since
            bare, ours = name.removeprefix("__main__."), ("neuralrde", "equinox", "diffrax")
            same = {full: cls for full, cls in own.items() if cls.__qualname__ == bare}
            moved = sorted(full for full in same if full.split(".")[0] not in ours)
            if len(moved) > 1:
                raise ValueError(
                    f"Got {setting(self.family, bare)}, which could be any of {moved}; expected one of these names."
                )
            if moved:
                return own[moved[0]]
        imported = f" A {self.family} of your own must be imported first." if "." in name else ""
        raise ParameterError(self.family, name, f"one of {list(self)}", remedy=f"{did_you_mean(name, self)}{imported}")

    def name_of(self, cls: object) -> str:
        """What `find` finds it by."""
        for name, entry in self.items():
            if entry is cls:
                return name
        if isinstance(cls, type) and issubclass(cls, self.base) and "<locals>" not in cls.__qualname__:
            return _full_name(cls)
        known = f"one of {list(self)}"
        if self.base is not object:
            known += f", or a subclass of {self.base.__name__} at the top of a module"
        raise TypeError(f"Got {self.family}={_called(cls)}, which a file cannot name; expected {known}.")


class Config:
    """A class and options for it, called later: by an estimator, once it knows the channels of the data.

    Options are named as in the class; those that belong to a family may be short names.

    >>> from neuralrde.models import NeuralRDE
    >>> config = Config(NeuralRDE, state=64, readout="final")
    >>> config
    Config(NeuralRDE, state=64, readout='final')
    """

    def __init__(self, cls: Callable, /, **options: Any):
        if isinstance(cls, Config):
            cls, options = cls.cls, {**cls.options, **options}
        known = accepted(cls)
        for name in options:
            if name not in known and not _takes_anything(cls):
                mine = [one for one in known if one not in FROM_DATA]
                hint = did_you_mean(name, known, cutoff=0.5)
                raise ValueError(f"Got {name}= for {_called(cls)}; expected one of {mine}.{hint}")
        self.cls, self.options = cls, {name: _plainer(name, value) for name, value in options.items()}

    def __call__(self, **available: Any) -> Any:
        """Call the class with the options, and with those of the available arguments that it takes.

        An option that is given wins over what is available.
        """
        known = [*accepted(self.cls), *(_ALWAYS if _takes_anything(self.cls) else ())]
        return self.cls(**{name: value for name, value in available.items() if name in known} | self.made_options())

    def made_options(self) -> Options:
        """The options with objects in place of short names."""
        named = lambda name, value: name in _OPTIONS and isinstance(value, str | Mapping | list)
        return {name: make(name, value) if named(name, value) else value for name, value in self.options.items()}

    def with_options(self, **options: Any) -> "Config":
        return Config(self, **options)

    def __repr__(self) -> str:
        return f"Config({', '.join([_called(self.cls), *(f'{k}={v!r}' for k, v in self.options.items())])})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Config) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple:
        # By text, because options may be anything; 8 and 8.0 are two things.
        return self.cls, tuple(sorted((name, repr(value)) for name, value in self.options.items()))


def did_you_mean(name: str, known: Iterable[str], *, cutoff: float = 0.6) -> str:
    """A sentence with the nearest of the known names, to be put after another; empty if none is near.

    >>> did_you_mean("log-ncd", ["neural-rde", "log-ncde"]), did_you_mean("lstm", ["neural-rde"])
    (" Did you mean 'log-ncde'?", '')
    """
    near = difflib.get_close_matches(name, list(known), n=1, cutoff=cutoff)
    return f" Did you mean {near[0]!r}?" if near else ""


def accepted(cls: Callable) -> list[str]:
    """The names of the parameters of a class or function."""
    several = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [name for name, p in inspect.signature(cls).parameters.items() if name != "self" and p.kind not in several]


def make(family: str, value: Part, /, **options: Any) -> Part:
    """The part that a parameter stands for, with these options changed.

    A part is given as an object, by its short name, as a dictionary with the name and options (as TOML has it), as a
    class or a `Config`, or as a list of several to be composed. None with options is the family's first. Models and
    fields stay a `Config`.

    >>> make("transform", {"name": "time", "duration": 2.0}), make("model", "log-ncde", state=8)
    (TimeChannel(duration=2.0), Config(LogNCDE, state=8))
    """
    registry = Registry.families.get(family)
    if registry is None:
        raise ParameterError("family", family, f"one of {list(Registry.families)}, of the packages that were imported")
    first = next(iter(registry))
    value = registry.coerce(first if value is None and options else value)
    if isinstance(value, list | tuple):
        if "compose" not in registry:
            raise ParameterError(family, value, f"one of {list(registry)}")
        value = registry["compose"](*(make(family, item) for item in value))
    elif isinstance(value, str | Mapping):
        given = {"name": value} if isinstance(value, str) else dict(value)
        value = registry.find(str(given.pop("name", first)))
        if given:
            value = Config(value, **{name: _as_tuple(option) for name, option in given.items()})
    if isinstance(value, type) or (registry.later and callable(value) and not is_dataclass(value)):
        value = Config(value)
    if not registry.later:
        value = value() if isinstance(value, Config) else value
        return _replaced(family, value, options) if options else value
    if is_dataclass(value):
        made = type(value).__name__
        raise ValueError(
            f"Got {family}={made}(...), which is made already; expected a class, because its sizes depend on the data. "
            f"Write {family}=Config({made}, ...) with the options."
        )
    if not isinstance(value, Config):
        raise ParameterError(family, value, f"one of {list(registry)}, a class, or `Config(cls, ...)` for options")
    return value.with_options(**options)


def _replaced(family: str, part: Part, options: Options) -> Part:
    known = params_of(part)
    for name in options:
        if name not in known:
            raise ValueError(
                f"Invalid parameter {name!r} for {family}={type(part).__name__}."
                f"{did_you_mean(name, known, cutoff=0.5)} Valid parameters are: {list(known)}."
            )
    return replace(part, **{n: make(n, o) if n in Registry.families else _as_tuple(o) for n, o in options.items()})


def params_of(value: Part) -> Options:
    """The parameters of a part: those of a `Config`, or the fields of a dataclass that are set, not learned."""
    if isinstance(value, Config):
        parameters = inspect.signature(value.cls).parameters.items()
        return {name: p.default for name, p in parameters if p.default is not p.empty} | value.options
    if is_dataclass(value) and not isinstance(value, type):
        settable = {f.name: getattr(value, f.name) for f in fields(value) if f.init and not f.name.endswith("_")}
        # `Compose(*transforms)` has a field that its constructor takes by no name.
        known = settable if _takes_anything(type(value)) else accepted(type(value))
        return {name: option for name, option in settable.items() if name in known}
    return {}


def to_plain(family: str, value: Part) -> Plain:
    """A part as JSON and TOML can hold it: its short name, and what was set. `make` has it back."""
    registry = Registry.families.get(family)
    if registry is not None and isinstance(value, Mapping):
        value = make(family, value)
    if registry is not None and "compose" in registry and isinstance(value, registry["compose"]):
        return [to_plain(family, item) for item in value.transforms]
    if isinstance(value, Config):
        options = {name: to_plain(name, option) for name, option in value.options.items()}
        return {"name": Registry.families[family].name_of(value.cls), **options}
    if registry is not None and not isinstance(value, str | int | float | None):
        if isinstance(value, type) or not is_dataclass(value):
            return registry.name_of(value)
        options = {name: to_plain(name, option) for name, option in params_of(value).items()}
        return {"name": registry.name_of(type(value)), **options}
    if isinstance(value, tuple | list):
        return [to_plain("", item) for item in value]
    if hasattr(value, "__array__"):  # of NumPy, or of JAX, which is not imported for this
        return value.tolist()  # type: ignore
    if value is None or isinstance(value, str | bool | int | float):
        return value
    raise TypeError(
        f"Got {value!r} as {family!r}; expected numbers, strings, lists of them, or a registered part, which a file "
        "can hold."
    )


def _takes_anything(cls: Callable) -> bool:
    """Whether it has `**options`."""
    return any(p.kind is inspect.Parameter.VAR_KEYWORD for p in inspect.signature(cls).parameters.values())


def _called(cls: object) -> str:
    return getattr(cls, "__name__", None) or repr(cls)


def _full_name(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"


def _as_tuple(option: Plain) -> Plain:
    """Lists are what TOML and the command line have for tuples."""
    return tuple(option) if isinstance(option, list) else option


def _plainer(family: str, value: Part) -> Part:
    """An option by its short name if it has one, and arrays as tuples: what can be compared, copied and saved."""
    for name, entry in Registry.families.get(family, {}).items() if family in _OPTIONS else ():
        if value is entry:
            return name
    return tuple(value.tolist()) if hasattr(value, "__array__") and value.ndim == 1 else value


def _subclasses(cls: type) -> Iterator[type]:
    for one in type.__subclasses__(cls):
        yield one
        yield from _subclasses(one)
