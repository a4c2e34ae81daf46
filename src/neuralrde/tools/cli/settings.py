"""Settings of a run, and the estimator that they describe.

Settings are defaults, then a TOML file, then flags. What is written into the run folder can be read again:

data = "hearts.csv"       # a path, or a data set's name
seed = 0
divide = "auto"           # or "given", "group", "class", "random", "order"
folds = 0                 # or from 2 on: that many folds instead of one test part

[table]                   # how to read a table
id = "patient"
target = "ill"

[model]                   # its short name and its options; also [transform], [loss], [optimizer], [augmentation]
name = "log-ncde"
state = 64

[windows]                 # not with the model closed-form, all of whose settings are in [model]
depth = 2
step = 16

[training]                # the estimator's other parameters
epochs = 100
patience = "none"         # TOML has no word for None
"""

import inspect
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..._write import Values
from . import flags
from .console import WRONG_USE, Refusal

if TYPE_CHECKING:
    from ...datasets import Dataset
    from ...estimators import (
        LogSignatureClassifier,
        LogSignatureRegressor,
        NeuralRDEClassifier,
        NeuralRDERegressor,
    )

    ClosedFormEstimator = LogSignatureClassifier | LogSignatureRegressor
    Estimator = NeuralRDEClassifier | NeuralRDERegressor | ClosedFormEstimator

# Parts of the estimators, each with a section of its own; other parameters are in [training].
PARTS = ("model", "transform", "windows", "loss", "optimizer", "augmentation")
# Settings of the run, not of the estimator.
TOP = ("data", "seed", "divide", "folds")
DIVIDES = ("auto", "given", "group", "class", "random", "order")
# Names no model of the registry, but the estimator that needs no training.
CLOSED_FORM = "closed-form"
# Set by the command line itself: the seed is `seed`, and a bar is shown on a terminal.
_OURS = ("random_state", "verbose", "warm_start")


@dataclass(frozen=True)
class RunSettings:
    """Everything that decides a run."""

    data: str | None = None
    seed: int = 0
    divide: str = "auto"
    folds: int = 0
    table: Values = field(default_factory=dict)
    estimator: Values = field(default_factory=dict)
    """Parameters of the estimator. A part is a short name, or a dictionary of options, with or without its name."""

    @property
    def closed_form(self) -> bool:
        """Whether the estimator is the one in closed form."""
        model = self.estimator.get("model")
        return (model.get("name") if isinstance(model, dict) else model) == CLOSED_FORM

    def __post_init__(self):
        from ...datasets import read

        if self.divide not in DIVIDES:
            raise Refusal(f"Got --divide {self.divide}; expected one of {', '.join(DIVIDES)}.", WRONG_USE)
        if isinstance(self.seed, bool) or not isinstance(self.seed, int) or not 0 <= self.seed < 2**32:
            raise Refusal(f"Got --seed {self.seed}; expected a whole number from 0 to 2^32 - 1.", WRONG_USE)
        if isinstance(self.folds, bool) or not isinstance(self.folds, int) or self.folds < 0 or self.folds == 1:
            raise Refusal(f"Got --folds {self.folds}; expected a whole number from 2, or 0 for none.", WRONG_USE)
        check_names(self.table, [*inspect.signature(read).parameters, *flags.TABLE], " in [table]")


def settings_of(
    file: Path | Values | None,
    *,
    table: Values,
    estimator: Values,
    assigned: Values | None = None,
    **top: Any,
) -> RunSettings:
    """Flags over the file over the defaults; a flag that is None was not given.

    Parameters of the estimator are named as in `--set`: "epochs", or "model.state" for those of a part. None among
    `assigned` is a value. Instead of a file, what `read_toml` has made of one.
    """
    base = {} if file is None else sections(read_toml(file), file) if isinstance(file, Path) else file
    parameters = {name: base[name] for name in PARTS if name in base} | base.get("training", {})
    return RunSettings(
        **{name: value for name, value in base.items() if name in TOP} | _given(top),
        table={**base.get("table", {}), **_given(table)},
        estimator=with_settings(parameters, _given(estimator) | (assigned or {})),
    )


def _given(values: Values) -> Values:
    return {name: value for name, value in values.items() if value is not None}


def with_settings(given: Values, new: Values) -> Values:
    """Parameters with others put in.

    >>> with_settings({"model": "log-ncde"}, {"model.state": 64, "epochs": 5})
    {'model': {'name': 'log-ncde', 'state': 64}, 'epochs': 5}
    """
    parameters = dict(given)
    # Whole parts come first, so that options find them in place.
    for name, value in sorted(new.items(), key=lambda pair: "." in pair[0]):
        part, dot, option = name.partition(".")
        if not dot:
            # Another name is another part: the options of the old one go.
            parameters[name] = value
        elif part not in PARTS:
            raise Refusal(f"Got --set {name}; expected one of {', '.join(PARTS)} before the dot.", WRONG_USE)
        else:
            old = parameters.get(part, {})
            if part == "windows" and not isinstance(old, dict):
                from ...paths import Windows
                from ...registry import to_plain

                old = to_plain(part, Windows.of(old))
            if isinstance(old, list):
                raise Refusal(f"Got --set {name} with a list of transforms; expected one of them.", WRONG_USE)
            parameters[part] = {**({"name": old} if isinstance(old, str) else old), option: value}
    return parameters


def assignments(texts: Iterable[str]) -> Values:
    """`--set NAME=VALUE`, the value as in TOML; a bare word is a string.

    >>> assignments(["optimizer.clip=0.5", "model.readout=final", "patience=none"])
    {'optimizer.clip': 0.5, 'model.readout': 'final', 'patience': None}
    """
    values = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise Refusal(f"Got --set {text!r}; expected NAME=VALUE, for example --set model.state=64.", WRONG_USE)
        try:
            plain = tomllib.loads(f"value = {value}")["value"]
        except tomllib.TOMLDecodeError:
            plain = value.strip()
        values[name.strip().replace("-", "_")] = _from_toml(plain)
    return values


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
    import tomli_w

    given = settings.estimator
    values = {name: getattr(settings, name) for name in (*TOP, "table")}
    values |= {name: given[name] for name in PARTS if given.get(name) is not None}
    values["training"] = {name: value for name, value in given.items() if name not in PARTS}
    return tomli_w.dumps(_to_toml(values))


def _to_toml(value: Any) -> Any:
    """Plain values, and "none" in place of None: TOML has no word for it."""
    if isinstance(value, Mapping):
        return {str(name): _to_toml(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_to_toml(item) for item in value]
    return "none" if value is None else value.item() if hasattr(value, "dtype") else value


def _from_toml(value: object) -> object:
    if isinstance(value, dict):
        return {name: _from_toml(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_from_toml(item) for item in value]
    return None if value == "none" else value


def read_toml(file: Path) -> Values:
    """The content of a file of settings."""
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise Refusal(f"There is no file {file}, which --config names.", WRONG_USE) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise Refusal(f"{file} is not TOML: {error}.", WRONG_USE) from None


def sections(content: Values, file: Path, *, more: Iterable[str] = ()) -> Values:
    """The settings of a run, checked; `more` names sections that are not a run's."""
    check_names(content, (*TOP, "table", *PARTS, "training", *more), f" in {file}")
    for section in ("table", "training"):
        if not isinstance(content.get(section, {}), dict):
            raise Refusal(f"Got {section} = {content[section]!r} in {file}; expected a section [{section}].", WRONG_USE)
    return content | {name: _from_toml(content[name]) for name in (*PARTS, "training") if name in content}


def check_names(names: Iterable[str], known: Iterable[str], where: str) -> None:
    """Raise for an unknown name, and suggest the nearest or all."""
    from ...registry import did_you_mean

    known = list(known)
    for name in names:
        if name not in known:
            hint = did_you_mean(name, known) or f" There are: {', '.join(known)}."
            raise Refusal(f"There is no setting {name!r}{where}.{hint}", WRONG_USE)


def estimator_for(settings: RunSettings, data: "Dataset") -> "Estimator":
    """The estimator that settings describe, for the targets of these data; not fitted."""
    from ...estimators import NeuralRDEClassifier, NeuralRDERegressor

    neural = NeuralRDERegressor if data.classes is None else NeuralRDEClassifier
    kind = closed_form_for(data) if settings.closed_form else neural
    return estimator_of(kind, settings, random_state=settings.seed)


def closed_form_for(data: "Dataset") -> "type[ClosedFormEstimator]":
    """The class of estimators in closed form for the targets of these data."""
    from ...estimators import LogSignatureClassifier, LogSignatureRegressor

    return LogSignatureRegressor if data.classes is None else LogSignatureClassifier


def blend_of(estimator: "Estimator") -> tuple[float, float] | None:
    """The weights of the closed form and of the neural part in a prediction; None if nothing is blended."""
    blend = estimator.fitted_.blend
    return None if blend is None or blend.closed_form is None else blend.factors


def estimator_of(kind: "type[Estimator]", settings: RunSettings, **others: Any) -> "Estimator":
    """The estimator that settings describe, not fitted. Settings that it does not have are refused."""
    from ...estimators.parameters import part_with
    from ...registry import make

    known = [name for name in inspect.signature(kind).parameters if name not in _OURS]
    given = settings.estimator
    if settings.closed_form:  # it has no parts: all of its settings are options of the model
        model = given["model"]
        if more := [name for name in given if name != "model"]:
            raise Refusal(
                f"Got {more[0]} with --model {CLOSED_FORM}; expected no such setting, because nothing is trained and "
                "no windows are chosen. Leave it out; `--set model.draws=200` is an option that there is.",
                WRONG_USE,
            )
        given = {name: value for name, value in model.items() if name != "name"} if isinstance(model, dict) else {}
        check_names(given, known, f" among those of the model {CLOSED_FORM}")
    for name in given:
        if name not in known and (inside := part_with(name, kind._parts)) is not None:
            raise Refusal(f"There is no setting {name!r}. Write --set {inside[0]}.{name}=...", WRONG_USE)
    check_names(given, known, "")
    estimator = kind(**others)
    try:
        for name, value in given.items():
            part = name in PARTS and not settings.closed_form
            if part and isinstance(value, dict) and "name" not in value:
                estimator.set_params(**{f"{name}__{option}": item for option, item in value.items()})
            else:
                estimator.set_params(**{name: make(name, value) if part else value})
        estimator._check_parameters()
    except (ValueError, TypeError) as error:
        raise Refusal(str(error), WRONG_USE) from None
    return estimator


def resolve(settings: RunSettings, estimator: "Estimator", *, stored: bool = False) -> RunSettings:
    """The settings with every parameter of the estimator, and a path that is right from any folder.

    Windows that are left to the model, or to the store, are left out; so is the transform of a store.
    """
    from ...registry import to_plain

    left_out = (*_OURS, "transform") if stored else _OURS
    resolved = {name: value for name, value in estimator.get_params(deep=False).items() if name not in left_out}
    if settings.closed_form:
        resolved = {"model": {"name": CLOSED_FORM, **resolved}}
    else:
        for name in PARTS:
            if name in resolved and (name != "windows" or resolved[name] is not None):
                resolved[name] = to_plain(name, estimator._part(name))
    table, path = dict(settings.table), Path(settings.data or "").expanduser()
    if "labels" in table:
        table["labels"] = str(Path(table["labels"]).expanduser().resolve())
    data = str(path.resolve()) if settings.data and path.exists() else settings.data
    return replace(settings, data=data, table=table, estimator=resolved)
