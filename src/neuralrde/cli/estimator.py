"""From settings to the estimator that they describe, and back to settings with every parameter."""

import inspect
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..datasets import Dataset
from ..registry import make, to_plain
from .config import CLOSED_FORM, PARTS, RunSettings, nearest
from .errors import WRONG_USE, Refusal
from .shell import in_flags

# Set by the command line itself: the seed is `seed`, and a bar is shown on a terminal.
_OURS = ("random_state", "verbose", "warm_start")


def estimator_for(settings: RunSettings, data: Dataset) -> Any:
    """The estimator that settings describe, for the targets of these data; not fitted."""
    from ..estimators import NeuralRDEClassifier, NeuralRDERegressor

    neural = NeuralRDERegressor if data.classes is None else NeuralRDEClassifier
    kind = closed_form_for(data) if settings.closed_form else neural
    return estimator_of(kind, settings, random_state=settings.seed)


def closed_form_for(data: Dataset) -> Any:
    """The class of estimators in closed form for the targets of these data."""
    from ..estimators import LogSignatureClassifier, LogSignatureRegressor

    return LogSignatureRegressor if data.classes is None else LogSignatureClassifier


def is_closed_form(estimator: Any) -> bool:
    from ..estimators import LogSignatureClassifier, LogSignatureRegressor

    return isinstance(estimator, LogSignatureClassifier | LogSignatureRegressor)


def blend_of(estimator: Any) -> tuple[float, float] | None:
    """The weights of the closed form and of the neural part in a prediction; None if nothing is blended."""
    blended = getattr(estimator, "closed_form_", None) is not None
    return (float(estimator.blend_[0]), float(estimator.blend_[1])) if blended else None


def estimator_of(kind: Any, settings: RunSettings, **others: Any) -> Any:
    """The estimator that settings describe, not fitted. Settings that it does not have are refused."""
    from ..estimators.parameters import part_with

    if settings.closed_form:
        return _closed_form_of(kind, settings, **others)
    known = [name for name in inspect.signature(kind).parameters if name not in _OURS]
    for name in settings.estimator:
        if name not in known:
            inside = part_with(name, kind._parts)
            hint = nearest(name, known) if inside is None else f" Write --set {inside[0]}.{name}=..."
            raise Refusal(f"There is no setting {name!r}.{hint}", WRONG_USE)
    estimator = kind(**others)
    try:
        for name, value in settings.estimator.items():
            if isinstance(value, dict) and name in PARTS and "name" not in value:
                estimator.set_params(**{f"{name}__{own}": option for own, option in value.items()})
            else:
                auto = name == "model" and settings.compared
                estimator.set_params(**{name: "auto" if auto else make(name, value) if name in PARTS else value})
        estimator._check_parameters()
    except (ValueError, TypeError) as error:
        raise Refusal(in_flags(str(error)), WRONG_USE) from None
    return estimator


def _closed_form_of(kind: Any, settings: RunSettings, **others: Any) -> Any:
    """All of its settings are options of the model: it has no other part."""
    for name in settings.estimator:
        if name != "model":
            raise Refusal(
                f"Got {name} with --model {CLOSED_FORM}; expected no such setting, because nothing is trained and no "
                f"windows are chosen. Leave it out; `--set model.draws=200` is an option that there is.",
                WRONG_USE,
            )
    model = settings.estimator["model"]
    options = {name: value for name, value in model.items() if name != "name"} if isinstance(model, dict) else {}
    known = [name for name in inspect.signature(kind).parameters if name not in _OURS]
    for name in options:
        if name not in known:
            raise Refusal(f"There is no setting 'model.{name}' of {CLOSED_FORM}.{nearest(name, known)}", WRONG_USE)
    estimator = kind(**options, **others)
    try:
        estimator._check_parameters()
    except (ValueError, TypeError) as error:
        raise Refusal(str(error), WRONG_USE) from None
    return estimator


def resolve(settings: RunSettings, estimator: Any, *, stored: bool = False) -> RunSettings:
    """With every parameter of the estimator, and a path that is right from any folder.

    Windows that are left to the model, or to the store, are left out; so is the transform of a store.
    """
    path = Path(settings.data or "").expanduser()
    left = (*_OURS, "transform") if stored else _OURS
    parameters = {name: value for name, value in estimator.get_params(deep=False).items() if name not in left}
    return replace(
        settings,
        data=str(path.resolve()) if settings.data and path.exists() else settings.data,
        table={name: _from_anywhere(name, value) for name, value in settings.table.items()},
        estimator={"model": {"name": CLOSED_FORM, **parameters}}
        if settings.closed_form
        else {name: _plain(name, value, estimator) for name, value in parameters.items()},
    )


def _plain(name: str, value: Any, estimator: Any) -> Any:
    """A parameter of an estimator as TOML has it."""
    if name == "windows" and value is None:
        return None
    if name == "model" and isinstance(value, str) and value == "auto":
        return {"name": "auto"}
    return to_plain(name, estimator._part(name)) if name in PARTS else value


def _from_anywhere(name: str, value: Any) -> Any:
    return str(Path(value).expanduser().resolve()) if name == "labels" else value
