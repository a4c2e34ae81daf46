"""A service for trained models: whole series and streams, by REST and WebSocket, with a live page.

It needs the packages of `pip install 'neuralrde[serve]'`.
"""

from .app import create_app
from .errors import Refused
from .limits import Limits
from .load import Load, Report
from .recording import Push, Recording
from .service import Service
from .store import Store

__all__ = ["Limits", "Load", "Push", "Recording", "Refused", "Report", "Service", "Store", "create_app"]
