"""Neural rough differential equations for long time series: log-signatures over windows, driving a hidden state.

Names stand in the order in which a newcomer needs them; everything else is in the subpackages. Each part is imported
when it is first asked for, so that the command line can show its help without JAX.
"""

from importlib import import_module as _import_module
from typing import TYPE_CHECKING as _CHECKING

from ._version import __version__  # noqa: F401

if _CHECKING:
    from . import (  # noqa: F401
        datasets,
        devices,
        estimators,
        fields,
        models,
        online,
        paths,
        plots,
        processes,
        registry,
        signatures,
        solvers,
        tools,
        training,
        transforms,
    )
    from .datasets import Dataset, read
    from .estimators import (
        LogSignatureClassifier,
        LogSignatureFeatures,
        LogSignatureForecaster,
        LogSignatureRegressor,
        NeuralRDEClassifier,
        NeuralRDEForecaster,
        NeuralRDERegressor,
        load,
    )
    from .fields import AbstractField, BracketField, FreeField
    from .models import LinearRDE, LogNCDE, NeuralCDE, NeuralRDE, OscillatorRDE
    from .paths import Series, Windows
    from .registry import Config
    from .signatures import LogSignatureStream, log_signature, log_signatures, signature
    from .solvers import RK4, solve
    from .tools.stores import Store, prepare
    from .transforms import Compose, FillForward, Scale, TimeChannel

__all__ = [  # noqa: RUF022 (in the order in which a newcomer needs them)
    "read",
    "Dataset",
    "Series",
    "LogSignatureClassifier",
    "LogSignatureRegressor",
    "LogSignatureFeatures",
    "LogSignatureForecaster",
    "NeuralRDEClassifier",
    "NeuralRDEForecaster",
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
_PARTS = {
    "datasets": "Dataset read",
    "devices": "",
    "estimators": "LogSignatureClassifier LogSignatureFeatures LogSignatureForecaster LogSignatureRegressor "
    "NeuralRDEClassifier NeuralRDEForecaster NeuralRDERegressor load",
    "fields": "AbstractField BracketField FreeField",
    "models": "LinearRDE LogNCDE NeuralCDE NeuralRDE OscillatorRDE",
    "online": "",
    "paths": "Series Windows",
    "plots": "",
    "processes": "",
    "registry": "Config",
    "signatures": "LogSignatureStream log_signature log_signatures signature",
    "solvers": "RK4 solve",
    "tools": "",
    "tools.stores": "Store prepare",
    "training": "",
    "transforms": "Compose FillForward Scale TimeChannel",
}
_HOMES = {name: part for part, names in _PARTS.items() for name in names.split()}


def __getattr__(name: str):
    if name in _PARTS:
        return _import_module(f".{name}", __name__)
    if name in _HOMES:
        return getattr(_import_module(f".{_HOMES[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, *(part for part in _PARTS if "." not in part), "__version__"]
