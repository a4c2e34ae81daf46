"""Sweeps: many runs that differ in their settings, on all cores or on a Ray cluster.

A sweep is a list of tasks, each known by a hash of all that decides its result. This part knows nothing of models: it
is given a function that runs one task. It sees to it that each is run once, whatever dies meanwhile, and that results
can be read at any time. `neuralrde sweep` is built on it.
"""

from .driver import InProcess, RayPool, Sweep
from .results import Task, content_key, grid_points, summarise

__all__ = [
    "InProcess",
    "RayPool",
    "Sweep",
    "Task",
    "content_key",
    "grid_points",
    "summarise",
]
