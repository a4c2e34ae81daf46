"""PyTorch: log-signatures with gradients, torchcde's and Signatory's names for them, and neural RDEs. Without JAX."""

from .models import ExportedModel, NeuralRDE
from .windows import (
    LogSignature,
    LogSignatureWindows,
    log_signature,
    log_signatures,
    logsig_windows,
    signature,
    signatures,
)

__all__ = [
    "ExportedModel",
    "LogSignature",
    "LogSignatureWindows",
    "NeuralRDE",
    "log_signature",
    "log_signatures",
    "logsig_windows",
    "signature",
    "signatures",
]
