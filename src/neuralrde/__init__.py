"""Neural rough differential equations for long time series: log-signatures over windows, driving a hidden state.

Names stand in the order in which a newcomer needs them; everything else is in the subpackages. Each part is imported
when it is first asked for, so that the command line can show its help without JAX.
"""

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
_PARTS = (
    "datasets", "devices", "estimators", "fields", "models", "online", "paths", "plots", "processes", "registry",
    "signatures", "solvers", "tools", "training", "transforms",
)  # fmt: skip


def __getattr__(name: str):
    match name:
        case "Dataset" | "read" | "datasets":
            import neuralrde.datasets as part
        case "devices":
            import neuralrde.devices as part
        case (
            "LogSignatureClassifier" | "LogSignatureFeatures" | "LogSignatureForecaster" | "LogSignatureRegressor"
            | "NeuralRDEClassifier" | "NeuralRDEForecaster" | "NeuralRDERegressor" | "load" | "estimators"
        ):  # fmt: skip
            import neuralrde.estimators as part
        case "AbstractField" | "BracketField" | "FreeField" | "fields":
            import neuralrde.fields as part
        case "LinearRDE" | "LogNCDE" | "NeuralCDE" | "NeuralRDE" | "OscillatorRDE" | "models":
            import neuralrde.models as part
        case "online":
            import neuralrde.online as part
        case "Series" | "Windows" | "paths":
            import neuralrde.paths as part
        case "plots":
            import neuralrde.plots as part
        case "processes":
            import neuralrde.processes as part
        case "Config" | "registry":
            import neuralrde.registry as part
        case "LogSignatureStream" | "log_signature" | "log_signatures" | "signature" | "signatures":
            import neuralrde.signatures as part
        case "RK4" | "solve" | "solvers":
            import neuralrde.solvers as part
        case "Store" | "prepare":
            import neuralrde.tools.stores as part
        case "tools":
            import neuralrde.tools as part
        case "training":
            import neuralrde.training as part
        case "Compose" | "FillForward" | "Scale" | "TimeChannel" | "transforms":
            import neuralrde.transforms as part
        case _:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return part if part.__name__ == f"{__name__}.{name}" else getattr(part, name)


def __dir__() -> list[str]:
    return [*__all__, *_PARTS, "__version__"]
