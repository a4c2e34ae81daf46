"""Neural rough differential equations for long time series: log-signatures over windows, driving a hidden state.

Names stand in the order in which a newcomer needs them; everything else is in the subpackages.
"""

from typing import TYPE_CHECKING as _CHECKING
from typing import Any as _Any

from . import (  # noqa: F401
    datasets,
    devices,
    fields,
    models,
    paths,
    processes,
    registry,
    signatures,
    solvers,
    stores,
    training,
    transforms,
)  # fmt: skip
from ._version import __version__  # noqa: F401
from .datasets import Dataset, load, read
from .fields import AbstractField, BracketField, FreeField
from .models import LinearRDE, LogNCDE, NeuralCDE, NeuralRDE, OscillatorRDE
from .paths import Series, Windows
from .registry import Config
from .signatures import LogSignatureStream, log_signature, log_signatures, signature
from .solvers import RK4, solve
from .stores import Store, prepare
from .training import Examples, Settings, fit, predict
from .transforms import Compose, FillForward, Scale, TimeChannel

if _CHECKING:
    from . import assessment, estimators, online, plots  # noqa: F401
    from .estimators import (
        LogSignatureClassifier,
        LogSignatureFeatures,
        LogSignatureRegressor,
        NeuralRDEClassifier,
        NeuralRDERegressor,
    )

__all__ = [  # noqa: RUF022 (in the order in which a newcomer needs them)
    "read",
    "load",
    "Dataset",
    "Series",
    "LogSignatureClassifier",
    "LogSignatureRegressor",
    "LogSignatureFeatures",
    "NeuralRDEClassifier",
    "NeuralRDERegressor",
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
    "fit",
    "predict",
    "Examples",
    "Settings",
]
_ESTIMATORS = (
    "LogSignatureClassifier", "LogSignatureRegressor", "LogSignatureFeatures", "NeuralRDEClassifier",
    "NeuralRDERegressor",
)  # fmt: skip
_PARTS = (
    "assessment", "datasets", "devices", "estimators", "fields", "models", "online", "paths", "plots", "processes",
    "registry", "signatures", "solvers", "stores", "training", "transforms",
)  # fmt: skip


def __getattr__(name: str) -> _Any:
    """What needs scikit-learn is imported when it is asked for: others need not wait a second for it."""
    import importlib

    if name in ("assessment", "estimators", "online", "plots"):
        return importlib.import_module(f".{name}", __name__)
    if name in _ESTIMATORS:
        return getattr(importlib.import_module(".estimators", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, *_PARTS, "__version__"]
