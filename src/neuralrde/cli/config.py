"""Settings of a run: defaults, then a TOML file, then flags. What is written into the run folder can be read again.

data = "hearts.csv"       # a path, or a data set's name
seed = 0
divide = "auto"           # or "given", "group", "class", "random", "order"
folds = 0                 # or from 2 on: so many folds instead of one test part

[table]                   # how to read a table
id = "patient"
target = "ill"

[model]                   # its short name and its options; also [transform], [loss], [optimizer], [augmentation]
name = "log-ncde"
state = 64

[windows]                 # not with the model closed-form, all of whose settings are in [model]
depth = 2
step = 16

[training]                # what else the estimator can be given
epochs = 100
patience = "none"         # TOML has no word for None
"""

import inspect
import json
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from ..datasets import read
from ..registry import did_you_mean, make, to_plain
from . import flags
from .dividing import DIVIDES
from .errors import WRONG_USE, Refusal

# How to read a table: what the flags say, and what has no flag.
TABLE = tuple(dict.fromkeys([*inspect.signature(read).parameters, *flags.TABLE]))
# Parts of the estimators, each with a section of its own; other parameters are in [training].
PARTS = ("model", "transform", "windows", "loss", "optimizer", "augmentation")
# What is not the estimator's.
TOP = ("data", "seed", "divide", "folds")
# Names no model of the registry, but the estimator that needs no training.
CLOSED_FORM = "closed-form"


@dataclass(frozen=True)
class RunSettings:
    """All that decides a run."""

    data: str | None = None
    seed: int = 0
    divide: str = "auto"
    folds: int = 0
    table: dict[str, Any] = field(default_factory=dict)
    estimator: dict[str, Any] = field(default_factory=dict)
    """Parameters of the estimator. A part is a short name, or a dictionary of options, with or without its name."""

    @property
    def closed_form(self) -> bool:
        """Whether the estimator is the one in closed form."""
        model = self.estimator.get("model")
        return (model.get("name") if isinstance(model, dict) else model) == CLOSED_FORM

    @property
    def compared(self) -> bool:
        """Whether several models are compared."""
        return self.estimator.get("model") in ("auto", {"name": "auto"})

    def __post_init__(self):
        if self.divide not in DIVIDES:
            raise Refusal(f"Got --divide {self.divide}; expected one of {', '.join(DIVIDES)}.", WRONG_USE)
        if isinstance(self.seed, bool) or not isinstance(self.seed, int) or not 0 <= self.seed < 2**32:
            raise Refusal(f"Got --seed {self.seed}; expected a whole number from 0 to 2^32 - 1.", WRONG_USE)
        if isinstance(self.folds, bool) or not isinstance(self.folds, int) or self.folds < 0 or self.folds == 1:
            raise Refusal(f"Got --folds {self.folds}; expected a whole number from 2, or 0 for none.", WRONG_USE)
        check_names(self.table, TABLE, "[table]")


def settings_of(
    file: Path | Mapping[str, Any] | None,
    *,
    table: Mapping[str, Any],
    estimator: Mapping[str, Any],
    assigned: Mapping[str, Any] = MappingProxyType({}),
    **top: Any,
) -> RunSettings:
    """Flags over the file over the defaults; a flag that is None was not given.

    Parameters of the estimator are named as in `--set`: "epochs", or "model.state" for those of a part. None among
    `assigned` is a value. Instead of a file, what `read_toml` has made of one.
    """
    base = {} if file is None else sections(read_toml(file), file) if isinstance(file, Path) else file
    own = {name: value for name, value in base.items() if name in TOP}
    everything: dict[str, Any] = _merged(own, top)
    everything["table"] = _merged(base.get("table", {}), table)
    given = {name: base[name] for name in PARTS if name in base} | base.get("training", {})
    new = {name: value for name, value in estimator.items() if value is not None} | dict(assigned)
    everything["estimator"] = with_settings(given, new)
    return RunSettings(**everything)


def with_settings(given: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters with others put in.

    >>> with_settings({"model": "log-ncde"}, {"model.state": 64, "epochs": 5})
    {'model': {'name': 'log-ncde', 'state': 64}, 'epochs': 5}
    """
    found = dict(given)
    # Whole parts come first, so that options find them in place.
    for name, value in sorted(new.items(), key=lambda pair: "." in pair[0]):
        first, dot, own = name.partition(".")
        if not dot:
            # Another name is another part: the options of the old one go.
            found[name] = value
        elif first not in PARTS:
            raise Refusal(f"Got --set {name}; expected one of {', '.join(PARTS)} before the dot.", WRONG_USE)
        else:
            old = found.get(first, {})
            if first == "windows" and not isinstance(old, dict):
                old = to_plain(first, make(first, old))
            if isinstance(old, list):
                raise Refusal(f"Got --set {name} with a list of transforms; expected one of them.", WRONG_USE)
            found[first] = {**({"name": old} if isinstance(old, str) else old), own: value}
    return found


def assignments(texts: Iterable[str]) -> dict[str, Any]:
    """`--set NAME=VALUE`, the value as in TOML; a bare word is a string.

    >>> assignments(["optimizer.clip=0.5", "model.readout=final", "patience=none"])
    {'optimizer.clip': 0.5, 'model.readout': 'final', 'patience': None}
    """
    found = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise Refusal(f"Got --set {text!r}; expected NAME=VALUE, for example --set model.state=64.", WRONG_USE)
        try:
            found[name.strip().replace("-", "_")] = _from_toml(tomllib.loads(f"value = {value}")["value"])
        except tomllib.TOMLDecodeError:
            found[name.strip().replace("-", "_")] = _from_toml(value.strip())
    return found


def whole_or_auto(text: str | None, flag: str) -> int | str | None:
    """
    >>> whole_or_auto("auto", "--depth"), whole_or_auto("3", "--depth")
    ('auto', 3)
    """
    if text is None or text == "auto":
        return text
    if not text.isdecimal() or int(text) < 1:
        raise Refusal(f"Got {flag} {text}; expected a whole number from 1, or auto.", WRONG_USE)
    return int(text)


def as_toml(settings: RunSettings) -> str:
    """The settings as a file that `settings_of` reads.

    >>> options = {"model": {"name": "log-ncde", "state": 64}, "patience": None}
    >>> print(as_toml(RunSettings(data="a.csv", table={"id": "patient"}, estimator=options)), end="")
    data = "a.csv"
    seed = 0
    divide = "auto"
    folds = 0
    <BLANKLINE>
    [table]
    id = "patient"
    <BLANKLINE>
    [model]
    name = "log-ncde"
    state = 64
    <BLANKLINE>
    [training]
    patience = "none"
    """
    lines = [f"{name} = {_toml(getattr(settings, name))}" for name in TOP]
    given = settings.estimator
    # A short name alone, or a list of transforms, is no section: TOML wants those before the first one.
    lines += [f"{name} = {_toml(given[name])}" for name in PARTS if isinstance(given.get(name), str | list)]
    sections = {"table": settings.table} | {name: given[name] for name in PARTS if isinstance(given.get(name), dict)}
    sections["training"] = {name: value for name, value in given.items() if name not in PARTS}
    for name, section in sections.items():
        lines += ["", f"[{name}]", *(f"{key} = {_toml(value)}" for key, value in section.items())]
    return "\n".join(lines) + "\n"


def read_toml(file: Path) -> dict[str, Any]:
    """What is in a file of settings."""
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise Refusal(f"There is no file {file}, which --config names.", WRONG_USE) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise Refusal(f"{file} is not TOML: {error}.", WRONG_USE) from None


def sections(found: dict[str, Any], file: Path, *, more: Iterable[str] = ()) -> dict[str, Any]:
    """The settings of a run, checked; `more` names sections that are not a run's."""
    check_names(found, (*TOP, "table", *PARTS, "training", *more), str(file))
    for section in ("table", "training"):
        if not isinstance(found.get(section, {}), dict):
            raise Refusal(f"Got {section} = {found[section]!r} in {file}; expected a section [{section}].", WRONG_USE)
    return found | {name: _from_toml(found[name]) for name in (*PARTS, "training") if name in found}


def check_names(names: Iterable[str], known: Iterable[str], where: str) -> None:
    """Refuse a name that there is none of, with the nearest one."""
    known = list(known)
    for name in names:
        if name not in known:
            raise Refusal(f"There is no setting {name!r} in {where}.{nearest(name, known)}", WRONG_USE)


def nearest(name: str, known: list[str]) -> str:
    """A sentence with the nearest known name, or else with all of them."""
    return did_you_mean(name, known) or f" There are: {', '.join(known)}."


def _merged(base: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    return {**base, **{name: value for name, value in given.items() if value is not None}}


def _from_toml(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _from_toml(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_from_toml(item) for item in value]
    return None if value == "none" else value


def _toml(value: Any) -> str:
    value = value.item() if isinstance(value, np.generic) else value
    if value is None:
        return '"none"'
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_text(str(name))} = {_toml(item)}" for name, item in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_toml, value)) + "]"
    if isinstance(value, float):
        return repr(value)  # also inf and nan are TOML's own words
    return _text(value) if isinstance(value, str) else json.dumps(value)


def _text(value: str) -> str:
    # TOML's strings are JSON's, but for one control character that JSON leaves as it is.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
