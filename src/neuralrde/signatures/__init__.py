"""Windowed log-signatures: Lyndon words, the truncated tensor algebra, the transform itself, and streams.

Each file is imported when a name of it is first asked for: `neuralrde.torch` uses some of them without JAX.
"""

from importlib import import_module as _import_module
from typing import TYPE_CHECKING as _CHECKING

if _CHECKING:
    from ._log_signature import log_signature, log_signatures
    from .bases import change_basis
    from .events import EventLogSignature, event_log_signatures, frequent_pairs
    from .lyndon import Basis, basis_channels, bracketing, log_signature_channels, lyndon_words, signature_channels
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
_FILES = {
    "_log_signature": "log_signature log_signatures",
    "bases": "change_basis",
    "events": "EventLogSignature event_log_signatures frequent_pairs",
    "lyndon": "Basis basis_channels bracketing log_signature_channels lyndon_words signature_channels",
    "rounding": "without_padding without_rounding",
    "streams": "LogSignatureStream",
    "tensor": "chen_inverse chen_product signature tensor_exp tensor_log",
}
_HOMES = {name: file for file, names in _FILES.items() for name in names.split()}


def __getattr__(name: str):
    if name in _HOMES:
        return getattr(_import_module(f".{_HOMES[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, *_FILES]
