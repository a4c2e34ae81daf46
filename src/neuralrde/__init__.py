"""Neural rough differential equations for long time series: log-signatures over windows, driving a hidden state.

The imports stand in the order in which data flows.
"""

from typing import TYPE_CHECKING as _CHECKING
from typing import Any as _Any

from ._version import __version__
from .devices import (
    device_mesh,
    pad_batch,
    replicate,
    shard_batch,
    sharded_value_and_grad,
    use_all_cores,
)
from .fields import (
    AbstractField,
    BoundedField,
    BracketField,
    DiagonalField,
    FreeField,
    FreeLinearField,
    LinearField,
    MatrixField,
    RotationField,
    expm,
    lie_bracket,
    taylor_step,
)
from .models import (
    ODERNN,
    CubicCDE,
    EveryState,
    FinalState,
    LinearRDE,
    LogNCDE,
    MeanEnergy,
    MeanState,
    NeuralCDE,
    NeuralRDE,
    OscillatorRDE,
    fold,
    hermite_control,
    natural_control,
)
from .paths import (
    BasePoint,
    FillForward,
    FillLinear,
    Integral,
    ObservationCounts,
    Products,
    Scale,
    ScaleEach,
    Series,
    Spectrogram,
    Step,
    Steps,
    TimeChannel,
    WithBoundaries,
    check_finite,
    concatenate,
    cuts_by_count,
    cuts_by_time,
    window_cuts,
)
from .signatures import (
    LogSignatureStream,
    bracketing,
    change_basis,
    chen_inverse,
    chen_product,
    log_signature,
    log_signature_channels,
    log_signatures,
    lyndon_words,
    signature,
    signature_channels,
    tensor_exp,
    tensor_log,
)
from .solve import (
    RK4,
    Backsolve,
    Direct,
    DivergenceError,
    Exponential,
    LogSignaturePath,
    Nested,
    Recompute,
    RK4ThreeEighths,
    explain_divergence,
    solve,
    solve_adaptive,
    stop_if_divergent,
)

if _CHECKING:
    from .estimators import LogSignatureTransformer, NeuralRDEClassifier, NeuralRDERegressor

__all__ = [
    "ODERNN",
    "RK4",
    "AbstractField",
    "Backsolve",
    "BasePoint",
    "BoundedField",
    "BracketField",
    "CubicCDE",
    "DiagonalField",
    "Direct",
    "DivergenceError",
    "EveryState",
    "Exponential",
    "FillForward",
    "FillLinear",
    "FinalState",
    "FreeField",
    "FreeLinearField",
    "Integral",
    "LinearField",
    "LinearRDE",
    "LogNCDE",
    "LogSignaturePath",
    "LogSignatureStream",
    "LogSignatureTransformer",
    "MatrixField",
    "MeanEnergy",
    "MeanState",
    "Nested",
    "NeuralCDE",
    "NeuralRDE",
    "NeuralRDEClassifier",
    "NeuralRDERegressor",
    "ObservationCounts",
    "OscillatorRDE",
    "Products",
    "RK4ThreeEighths",
    "Recompute",
    "RotationField",
    "Scale",
    "ScaleEach",
    "Series",
    "Spectrogram",
    "Step",
    "Steps",
    "TimeChannel",
    "WithBoundaries",
    "__version__",
    "bracketing",
    "change_basis",
    "check_finite",
    "chen_inverse",
    "chen_product",
    "concatenate",
    "cuts_by_count",
    "cuts_by_time",
    "device_mesh",
    "explain_divergence",
    "expm",
    "fold",
    "hermite_control",
    "lie_bracket",
    "log_signature",
    "log_signature_channels",
    "log_signatures",
    "lyndon_words",
    "natural_control",
    "pad_batch",
    "replicate",
    "shard_batch",
    "sharded_value_and_grad",
    "signature",
    "signature_channels",
    "solve",
    "solve_adaptive",
    "stop_if_divergent",
    "taylor_step",
    "tensor_exp",
    "tensor_log",
    "use_all_cores",
    "window_cuts",
]


def __getattr__(name: str) -> _Any:
    """The estimators are imported when they are asked for: scikit-learn takes a second that others need not wait."""
    if name in ("LogSignatureTransformer", "NeuralRDEClassifier", "NeuralRDERegressor"):
        from . import estimators

        return getattr(estimators, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
