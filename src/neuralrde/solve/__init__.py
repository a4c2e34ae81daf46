"""The log-ODE integrator: carry a state through all windows, with a solver and a way to differentiate it."""

from .adaptive import LogSignaturePath, solve_adaptive
from .divergence import DivergenceError, explain_divergence, stop_if_divergent
from .exponential import Exponential
from .gradients import AbstractGradient, Backsolve, Direct, Nested, Recompute
from .runge_kutta import RK4, RK4ThreeEighths
from .solve import solve

__all__ = [
    "RK4",
    "AbstractGradient",
    "Backsolve",
    "Direct",
    "DivergenceError",
    "Exponential",
    "LogSignaturePath",
    "Nested",
    "RK4ThreeEighths",
    "Recompute",
    "explain_divergence",
    "solve",
    "solve_adaptive",
    "stop_if_divergent",
]
