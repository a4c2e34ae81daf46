"""Solvers carry a state through the log-ODEs of all windows; gradients say how that is differentiated."""

import diffrax
import equinox as eqx

from ..registry import Registry
from .adaptive import Adaptive, LogSignaturePath
from .base import AbstractSolver
from .divergence import DivergenceError, explain_divergence, stop_if_divergent
from .exponential import Exponential
from .gradients import AbstractGradient, Backsolve, Direct, Nested, Recompute
from .log_ode import solve
from .runge_kutta import RK4, RK4ThreeEighths, RungeKutta

SOLVERS = Registry(
    "solver",
    eqx.Module,
    {
        "rk4": RK4,
        "rk4-three-eighths": RK4ThreeEighths,
        "euler": diffrax.Euler,
        "midpoint": diffrax.Midpoint,
        "heun": diffrax.Heun,
        "tsit5": diffrax.Tsit5,
        "dopri5": diffrax.Dopri5,
        "exponential": Exponential,
        "adaptive": Adaptive,
    },
)
GRADIENTS = Registry(
    "gradient",
    AbstractGradient,
    {"recompute": Recompute, "nested": Nested, "direct": Direct, "backsolve": Backsolve},
)

__all__ = [
    "GRADIENTS",
    "RK4",
    "SOLVERS",
    "AbstractGradient",
    "AbstractSolver",
    "Adaptive",
    "Backsolve",
    "Direct",
    "DivergenceError",
    "Exponential",
    "LogSignaturePath",
    "Nested",
    "RK4ThreeEighths",
    "Recompute",
    "RungeKutta",
    "explain_divergence",
    "solve",
    "stop_if_divergent",
]
