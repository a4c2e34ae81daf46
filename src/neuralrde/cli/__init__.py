"""The command line: a file for each command, `app` puts them together and turns errors into sentences."""

from .app import main

__all__ = ["main"]
