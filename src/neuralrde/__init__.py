"""Neural rough differential equations for long time series: log-signatures over windows, driving a hidden state.

Names stand in the order in which a newcomer needs them; everything else is in the subpackages. `import neuralrde` needs
JAX, Equinox, Optax, Diffrax, NumPy and SciPy. What needs more is imported when it is first asked for.
"""

from importlib import import_module as _import_module
from typing import TYPE_CHECKING as _CHECKING

from . import devices, fields, models, paths, processes, registry, signatures, solvers, training, transforms  # noqa: F401
from ._version import __version__  # noqa: F401
from .fields import AbstractField, BracketField, FreeField
from .models import LinearRDE, LogNCDE, NeuralCDE, NeuralRDE, OscillatorRDE
from .paths import Series, Windows
from .registry import Config
from .signatures import LogSignatureStream, log_signature, log_signatures, signature
from .solvers import RK4, solve
from .transforms import Compose, FillForward, Scale, TimeChannel

if _CHECKING:
    from . import assessment, datasets, estimators, online, plots, stores  # noqa: F401
    from .datasets import Dataset, read
    from .estimators import (
        LogSignatureClassifier,
        LogSignatureFeatures,
        LogSignatureRegressor,
        NeuralRDEClassifier,
        NeuralRDERegressor,
        load,
    )
    from .stores import Store, prepare

__all__ = [  # noqa: RUF022 (in the order in which a newcomer needs them)
    "read",
    "Dataset",
    "Series",
    "LogSignatureClassifier",
    "LogSignatureRegressor",
    "LogSignatureFeatures",
    "NeuralRDEClassifier",
    "NeuralRDERegressor",
    "load",
    "Store",
    "prepare",
    "Windows",
    "Config",
    "Compose",
    "FillForward",
    "Scale",
    "TimeChannel",
    "log_signature",
    "log_signatures",
    "signature",
    "LogSignatureStream",
    "NeuralRDE",
    "NeuralCDE",
    "LogNCDE",
    "LinearRDE",
    "OscillatorRDE",
    "solve",
    "RK4",
    "AbstractField",
    "FreeField",
    "BracketField",
]
_ON_FIRST_USE = {
    "assessment": (),
    "datasets": ("Dataset", "read"),
    "estimators": (
        "LogSignatureClassifier",
        "LogSignatureFeatures",
        "LogSignatureRegressor",
        "NeuralRDEClassifier",
        "NeuralRDERegressor",
        "load",
    ),
    "online": (),
    "plots": (),
    "stores": ("Store", "prepare"),
}
_HOMES = {name: part for part, names in _ON_FIRST_USE.items() for name in names}


def __getattr__(name: str):
    if name in _ON_FIRST_USE:
        return _import_module(f".{name}", __name__)
    if name in _HOMES:
        return vars(_import_module(f".{_HOMES[name]}", __name__))[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    core = (
        "devices",
        "fields",
        "models",
        "paths",
        "processes",
        "registry",
        "signatures",
        "solvers",
        "training",
        "transforms",
    )
    return [*__all__, *core, *_ON_FIRST_USE, "__version__"]
