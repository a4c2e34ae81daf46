"""Predictions while data arrive: the same that the whole series would get, from a state that does not grow."""

from .batch import StreamBatch
from .single import Stream

__all__ = ["Stream", "StreamBatch"]
