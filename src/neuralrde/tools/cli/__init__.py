"""The command line. `app` has the commands; what they need is loaded when they run, so that `--help` is quick."""

from .app import main

__all__ = ["main"]
