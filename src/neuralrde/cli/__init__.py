"""The command line: one file per command. `app` puts them together and turns errors into sentences."""

from .app import main

__all__ = ["main"]
