"""Short names for classes, and classes with options that are called later.

Every family of exchangeable parts (models, transforms, losses, ...) has one `Registry`. A class that is entered there
has a short name in estimators, on the command line, in TOML files, in saved models, in benchmarks and in the docs. A
class of your own needs no entry: pass the class itself, and files name it by its module.
"""

import difflib
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any, ClassVar

# What an estimator knows, and nobody has to say.
FROM_DATA = ("channels", "outputs", "depth", "scales", "step", "points", "key")
# Options that may be short names, whatever takes them.
_NAMED = ("readout", "solver", "gradient", "field", "activation", "schedule")


class Registry(Mapping[str, Any]):
    """The classes of one family by their short names.

    Args:
        family: what one of them is called, which is also the parameter that takes it: "model", "loss", "readout".
        base: what classes of your own derive from. Those that are imported are found by module and name.
        entries: classes, or functions for families of functions, by their short names.

    >>> shapes = Registry("shape", object, {"point": complex})
    >>> shapes.find("point"), shapes.name_of(complex)
    (<class 'complex'>, 'point')
    """

    families: ClassVar[dict[str, "Registry"]] = {}

    def __init__(self, family: str, base: type, entries: dict[str, Any]):
        self.family, self.base, self._entries = family, base, entries
        Registry.families[family] = self

    def __getitem__(self, name: str) -> Any:
        return self._entries[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def find(self, name: str) -> Any:
        """The class of this short name, or of this module and name among the imported subclasses of `base`."""
        if name in self._entries:
            return self._entries[name]
        own = {}
        for cls in _subclasses(self.base) if self.base is not object else ():
            own.setdefault(f"{cls.__module__}.{cls.__qualname__}", cls)
        if name in own:
            return own[name]
        # What a script saved, `__main__.Smooth`, may stand in a module since; early files have the bare name.
        bare = name.removeprefix("__main__.")
        moved = sorted(full for full, cls in own.items() if cls.__qualname__ == bare and _is_own(cls))
        if len(moved) > 1:
            raise ValueError(f"Got {self.family}={bare!r}, which could be any of {moved}; expected one of these names.")
        if moved:
            return own[moved[0]]
        hint = did_you_mean(name, self._entries)
        imported = f" A {self.family} of your own must be imported first." if "." in name else ""
        raise ValueError(f"Got {self.family}={name!r}; expected one of {list(self._entries)}.{hint}{imported}")

    def name_of(self, cls: Any) -> str:
        """What `find` finds it by."""
        for name, entry in self._entries.items():
            if entry is cls:
                return name
        if isinstance(cls, type) and issubclass(cls, self.base) and "<locals>" not in cls.__qualname__:
            return f"{cls.__module__}.{cls.__qualname__}"
        known = f"one of {list(self)}"
        if self.base is not object:
            known += f", or a subclass of {self.base.__name__} at the top of a module"
        raise TypeError(f"Got {self.family}={_called(cls)}, which a file cannot name; expected {known}.")

    def register(self, name: str, cls: Any) -> Any:
        """Give a class of your own a short name, for this process."""
        if self._entries.get(name, cls) is not cls:
            raise ValueError(f"Got {name!r} for {cls!r}; expected another name: {self._entries[name]!r} has this one.")
        self._entries[name] = cls
        return cls


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
        known = accepted(self.cls) + (list(_ALWAYS) if _takes_anything(self.cls) else [])
        given = {name: value for name, value in available.items() if name in known}
        return self.cls(**given | self.made_options())

    def made_options(self) -> dict[str, Any]:
        """The options with objects in place of short names."""
        return {name: resolve(name, value) if name in _NAMED else value for name, value in self.options.items()}

    def with_options(self, **options: Any) -> "Config":
        return Config(self.cls, **{**self.options, **options})

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


def _takes_anything(cls: Callable) -> bool:
    """Whether it has `**options`."""
    return any(p.kind is inspect.Parameter.VAR_KEYWORD for p in inspect.signature(cls).parameters.values())


def config_of(family: str, value: Any) -> Config:
    """A `Config` from a short name, a class or a `Config`."""
    if isinstance(value, Config):
        return value
    if isinstance(value, str):
        return Config(Registry.families[family].find(value))
    if isinstance(value, Mapping):
        return from_plain(family, value, later=True)
    if is_dataclass(value) and not isinstance(value, type):
        made = type(value).__name__
        raise ValueError(
            f"Got {family}={made}(...), which is made already; expected a class, because its sizes depend on the data. "
            f"Write {family}=Config({made}, ...) with the options."
        )
    if callable(value):
        return Config(value)
    names = list(Registry.families[family])
    raise ValueError(f"Got {family}={value!r}; expected one of {names}, a class, or `Config(cls, ...)` for options.")


def resolve(family: str, value: Any) -> Any:
    """The object of a family that a short name or a plain dictionary stands for; other values as they are."""
    if family in Registry.families and isinstance(value, str | Mapping | list):
        return from_plain(family, value)
    return value


def params_of(value: Any) -> dict[str, Any]:
    """The parameters of a part: those of a `Config`, or the fields of a dataclass that are set, not learned."""
    if isinstance(value, Config):
        defaults = {
            n: p.default for n, p in inspect.signature(value.cls).parameters.items() if p.default is not p.empty
        }
        return {**defaults, **value.options}
    if is_dataclass(value) and not isinstance(value, type):
        return {f.name: getattr(value, f.name) for f in fields(value) if f.init and not f.name.endswith("_")}
    return {}


def with_params(family: str, value: Any, **options: Any) -> Any:
    """The same part with other parameters; a short name becomes an object, and None the family's first."""
    value = next(iter(Registry.families[family])) if value is None else value
    if isinstance(value, str | type | Mapping):
        value = config_of(family, value)
        if is_dataclass(value.cls) and not _made_later(family):
            value = value()
    if isinstance(value, Config):
        return value.with_options(**options)
    known = params_of(value)
    for name in options:
        if name not in known:
            raise ValueError(
                f"Invalid parameter {name!r} for {family}={type(value).__name__}."
                f"{did_you_mean(name, known, cutoff=0.5)} Valid parameters are: {list(known)}."
            )
    # Lists are what TOML and the command line have for tuples.
    plain = {
        name: tuple(option) if isinstance(option, list) and name not in Registry.families else option
        for name, option in options.items()
    }
    return replace(value, **{name: resolve(name, option) for name, option in plain.items()})


def to_plain(family: str, value: Any) -> Any:
    """A part as JSON and TOML can hold it: its short name, and what was set."""
    part: Any = from_plain(family, value) if isinstance(value, Mapping) and family in Registry.families else value
    return _to_plain(family, part)


def _to_plain(family: str, value: Any) -> Any:
    if isinstance(value, Config):
        options = {name: to_plain(name, option) for name, option in value.options.items()}
        return {"name": Registry.families[family].name_of(value.cls), **options}
    registry = Registry.families.get(family)
    if registry is not None and getattr(type(value), "several", None):
        return [to_plain(family, item) for item in getattr(value, type(value).several)]
    if registry is not None and not isinstance(value, str | int | float | None):
        if isinstance(value, type) or not is_dataclass(value):
            return registry.name_of(value)
        options = {name: to_plain(name, option) for name, option in params_of(value).items()}
        return {"name": registry.name_of(type(value)), **options}
    if isinstance(value, tuple | list):
        return [to_plain("", item) for item in value]
    if hasattr(value, "tolist"):
        return value.tolist()  # type: ignore
    if value is None or isinstance(value, str | bool | int | float):
        return value
    raise TypeError(
        f"Got {value!r} as {family!r}; expected numbers, strings, lists of them, or a registered part, which a file "
        "can hold."
    )


def from_plain(family: str, value: Any, *, later: bool = False) -> Any:
    """What `to_plain` was given, from a short name, a dictionary, or a list of several to be composed.

    With `later`, a `Config` instead of the object. Models and fields are always made later.
    """
    registry = Registry.families[family]
    if isinstance(value, list | tuple):
        if "compose" not in registry:
            raise ValueError(f"Got {family}={value!r}; expected one of {list(registry)}.")
        return registry["compose"](*(resolve(family, item) for item in value))
    given = {"name": value} if isinstance(value, str) else dict(value)
    cls = registry.find(str(given.pop("name", next(iter(registry)))))
    if not isinstance(cls, type) and not given:  # a function, such as an activation
        return cls
    options = {name: tuple(option) if isinstance(option, list) else option for name, option in given.items()}
    config = Config(cls, **options)
    return config if later or _made_later(family) else config()


# What a model that takes anything is given.
_ALWAYS = ("channels", "outputs", "depth", "key")


def _called(cls: Any) -> str:
    return getattr(cls, "__name__", None) or repr(cls)


def _plainer(family: str, value: Any) -> Any:
    """An option by its short name if it has one, and arrays as tuples: what can be compared, copied and saved."""
    for name, entry in Registry.families[family].items() if family in _NAMED and family in Registry.families else ():
        if value is entry:
            return name
    return tuple(value.tolist()) if hasattr(value, "tolist") and getattr(value, "ndim", 0) == 1 else value


def _made_later(family: str) -> bool:
    """Models and their fields need to know the channels first."""
    return family in ("model", "field")


def _is_own(cls: type) -> bool:
    """Whether a class is a user's, not a library's that has one of the same name."""
    return cls.__module__.split(".")[0] not in ("neuralrde", "equinox", "diffrax")


def _subclasses(cls: type) -> Iterator[type]:
    for one in reversed(type.__subclasses__(cls)):  # a notebook's cell that is run again defines its class again
        yield one
        yield from _subclasses(one)
