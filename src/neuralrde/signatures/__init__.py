"""Windowed log-signatures: Lyndon words, the truncated tensor algebra, the transform itself, and streams."""

from ._log_signature import log_signature, log_signatures
from .bases import Basis, basis_channels, change_basis
from .events import EventLogSignature, event_log_signatures, frequent_pairs
from .lyndon import bracketing, log_signature_channels, lyndon_words, signature_channels
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
