"""Predictions while data arrive: the same that the whole series would get, from a state that does not grow."""

from .batch import StreamBatch
from .export import export_model
from .single import Stream

__all__ = ["Stream", "StreamBatch", "export_model"]
