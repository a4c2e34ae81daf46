"""A service for trained models: whole series and streams, by REST and WebSocket, with a live page.

It needs the packages of `pip install 'neuralrde[serve]'`.
"""

from .app import create_app
from .limits import Limits, RequestError
from .loadtest import Load, Push, Recording, Report
from .service import Service
from .store import Store

__all__ = ["Limits", "Load", "Push", "Recording", "Report", "RequestError", "Service", "Store", "create_app"]
