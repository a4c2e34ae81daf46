"""Predictions while data arrive: the same that the whole series would get, from a state that does not grow."""

from .export import export_model
from .stream import Stream, StreamBatch

__all__ = ["Stream", "StreamBatch", "export_model"]
