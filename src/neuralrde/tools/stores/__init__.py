"""Data larger than memory: log-signatures are prepared once, into a store on a disk, and trained from there."""

from ._prepare import prepare
from ._store import Store, is_store
from .files import SourceError, StoreError

__all__ = ["SourceError", "Store", "StoreError", "is_store", "prepare"]
