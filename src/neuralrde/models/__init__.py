"""Models: Equinox modules of one example; `jax.vmap` for a batch."""

from .conditioning import ChannelScale, LabelScale, ScaledField
from .cubic_cde import CubicCDE, hermite_control, natural_control
from .driven import AbstractDrivenModel
from .linear_rde import LinearBlock, LinearRDE
from .neural_cde import LogNCDE, NeuralCDE
from .neural_rde import NeuralRDE
from .ode_rnn import ODERNN, fold
from .oscillators import OscillatorRDE
from .readouts import AbstractReadout, EveryState, FinalState, MeanEnergy, MeanState

__all__ = [
    "ODERNN",
    "AbstractDrivenModel",
    "AbstractReadout",
    "ChannelScale",
    "CubicCDE",
    "EveryState",
    "FinalState",
    "LabelScale",
    "LinearBlock",
    "LinearRDE",
    "LogNCDE",
    "MeanEnergy",
    "MeanState",
    "NeuralCDE",
    "NeuralRDE",
    "OscillatorRDE",
    "ScaledField",
    "fold",
    "hermite_control",
    "natural_control",
]
