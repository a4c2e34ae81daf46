"""Windowed log-signatures: Lyndon words, the truncated tensor algebra, the transform itself, and streams.

Each file is imported when a name of it is first asked for: `neuralrde.torch` uses some of them without JAX.
"""

from typing import TYPE_CHECKING as _CHECKING

from .lyndon import Basis, basis_channels, bracketing, log_signature_channels, lyndon_words, signature_channels

if _CHECKING:
    from ._log_signature import log_signature, log_signatures
    from .bases import change_basis
    from .events import EventLogSignature, event_log_signatures, frequent_pairs
    from .rounding import without_padding, without_rounding
    from .streams import LogSignatureStream
    from .tensor import chen_inverse, chen_product, signature, tensor_exp, tensor_log

__all__ = [
    "Basis",
    "EventLogSignature",
    "LogSignatureStream",
    "basis_channels",
    "bracketing",
    "change_basis",
    "chen_inverse",
    "chen_product",
    "event_log_signatures",
    "frequent_pairs",
    "log_signature",
    "log_signature_channels",
    "log_signatures",
    "lyndon_words",
    "signature",
    "signature_channels",
    "tensor_exp",
    "tensor_log",
    "without_padding",
    "without_rounding",
]


def __getattr__(name: str):
    match name:
        case "log_signature" | "log_signatures":
            import neuralrde.signatures._log_signature as file
        case "change_basis":
            import neuralrde.signatures.bases as file
        case "EventLogSignature" | "event_log_signatures" | "frequent_pairs":
            import neuralrde.signatures.events as file
        case "without_padding" | "without_rounding":
            import neuralrde.signatures.rounding as file
        case "LogSignatureStream":
            import neuralrde.signatures.streams as file
        case "chen_inverse" | "chen_product" | "signature" | "tensor_exp" | "tensor_log":
            import neuralrde.signatures.tensor as file
        case _:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(file, name)


def __dir__() -> list[str]:
    return [*__all__]
