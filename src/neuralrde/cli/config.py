"""Settings of a run: defaults, then a TOML file, then flags. What is written into the run folder can be read again.

data = "hearts.csv"       # a path, or a data set's name
seed = 0
divide = "auto"           # or "given", "group", "class", "random", "order"
folds = 0                 # or from 2 on: so many folds instead of one test part

[table]                   # how to read a table
id = "patient"
target = "ill"

[model]                   # parameters of NeuralRDEClassifier or NeuralRDERegressor
depth = 2
patience = "none"         # TOML has no word for None
"""

import difflib
import inspect
import json
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from ..datasets import read
from . import flags
from .dividing import DIVIDES
from .errors import WRONG_USE, Refusal

# How to read a table: what the flags say, and what has no flag.
TABLE = tuple(dict.fromkeys([*inspect.signature(read).parameters, *flags.TABLE]))
# Set by the command line itself: the seed is `seed`, and a bar is shown on a terminal.
_OURS = ("random_state", "verbose", "warm_start")


@dataclass(frozen=True)
class Settings:
    """All that decides a run."""

    data: str | None = None
    seed: int = 0
    divide: str = "auto"
    folds: int = 0
    table: dict[str, Any] = field(default_factory=dict)
    model: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self):
        if self.divide not in DIVIDES:
            raise Refusal(f"Got --divide {self.divide}; expected one of {', '.join(DIVIDES)}.", WRONG_USE)
        if isinstance(self.seed, bool) or not isinstance(self.seed, int) or not 0 <= self.seed < 2**32:
            raise Refusal(f"Got --seed {self.seed}; expected a whole number from 0 to 2^32 - 1.", WRONG_USE)
        if isinstance(self.folds, bool) or not isinstance(self.folds, int) or self.folds < 0 or self.folds == 1:
            raise Refusal(f"Got --folds {self.folds}; expected a whole number from 2, or 0 for none.", WRONG_USE)
        _check_names(self.table, TABLE, "[table]")


def settings_of(file: Path | None, *, table: Mapping[str, Any], model: Mapping[str, Any], **top: Any) -> Settings:
    """Flags over the file over the defaults; a flag that is None was not given."""
    base = {} if file is None else _read(file)
    everything: dict[str, Any] = _merged(base, top)
    for key, told in (("table", table), ("model", model)):
        everything[key] = _merged(base.get(key, {}), told)
    return Settings(**everything)


def resolve(settings: Settings, parameters: Mapping[str, Any]) -> Settings:
    """With every parameter of the model, and a path that is right from any folder."""
    path = Path(settings.data or "").expanduser()
    return replace(
        settings,
        data=str(path.resolve()) if settings.data and path.exists() else settings.data,
        table={name: _from_anywhere(name, value) for name, value in settings.table.items()},
        model={name: value for name, value in parameters.items() if name not in _OURS},
    )


def _from_anywhere(name: str, value: Any) -> Any:
    return str(Path(value).expanduser().resolve()) if name == "labels" else value


def check_model_names(names: Iterable[str], estimator: type) -> None:
    """Parameters that the estimator does not have are found before anything is computed."""
    known = [name for name in inspect.signature(estimator).parameters if name not in _OURS]
    _check_names(names, known, "[model]")


def assignments(texts: Iterable[str]) -> dict[str, Any]:
    """`--set NAME=VALUE`, the value as in TOML; a bare word is a string.

    >>> assignments(["clip=0.5", "readout=final", "patience=none"])
    {'clip': 0.5, 'readout': 'final', 'patience': None}
    """
    found = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise Refusal(f"Got --set {text!r}; expected NAME=VALUE, for example --set clip=0.5.", WRONG_USE)
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


def as_toml(settings: Settings) -> str:
    """The settings as a file that `settings_of` reads.

    >>> print(as_toml(Settings(data="a.csv", table={"id": "patient"}, model={"depth": 2, "patience": None})), end="")
    data = "a.csv"
    seed = 0
    divide = "auto"
    folds = 0
    <BLANKLINE>
    [table]
    id = "patient"
    <BLANKLINE>
    [model]
    depth = 2
    patience = "none"
    """
    lines = [f"{name} = {_toml(getattr(settings, name))}" for name in ("data", "seed", "divide", "folds")]
    for name in ("table", "model"):
        lines += ["", f"[{name}]", *(f"{key} = {_toml(value)}" for key, value in getattr(settings, name).items())]
    return "\n".join(lines) + "\n"


def _read(file: Path) -> dict[str, Any]:
    try:
        found = tomllib.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise Refusal(f"There is no file {file}, which --config names.", WRONG_USE) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise Refusal(f"{file} is not TOML: {error}.", WRONG_USE) from None
    _check_names(found, ("data", "seed", "divide", "folds", "table", "model"), str(file))
    for section in ("table", "model"):
        if not isinstance(found.get(section, {}), dict):
            raise Refusal(f"Got {section} = {found[section]!r} in {file}; expected a section [{section}].", WRONG_USE)
    return found | {"model": _from_toml(found.get("model", {}))}


def _check_names(names: Iterable[str], known: Iterable[str], where: str) -> None:
    known = list(known)
    for name in names:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f" Did you mean {near[0]!r}?" if near else f" There are: {', '.join(known)}."
            raise Refusal(f"There is no setting {name!r} in {where}.{hint}", WRONG_USE)


def _merged(base: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    return {**base, **{name: value for name, value in given.items() if value is not None}}


def _from_toml(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _from_toml(item) for name, item in value.items()}
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
