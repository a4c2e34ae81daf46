"""A service for trained models: whole series and streams, by REST and WebSocket, with a live page.

It needs the packages of `pip install 'neuralrde[serve]'`.
"""

from .app import create_app
from .limits import Limits, RequestError
from .service import Service
from .store import Store

__all__ = ["Limits", "RequestError", "Service", "Store", "create_app"]
