"""Models: Equinox modules of one example; `jax.vmap` for a batch."""

import equinox as eqx

from ..registry import Registry
from .base import AbstractDecodedModel, AbstractDrivenModel, AbstractModel, Recommended, as_model
from .conditioning import ChannelScale, LabelScale, LogSignatureSizes, ScaledField
from .cubic_cde import CubicCDE, hermite_control, natural_control
from .ensemble import CrossFitted, Ensemble, out_of_fold
from .forecast_rde import ForecastRDE
from .linear_rde import LinearBlock, LinearRDE
from .logsig_ssm import LogSigSSM
from .multi_scale import MultiScaleRDE
from .neural_rde import LogNCDE, NeuralCDE, NeuralRDE
from .ode_rnn import ODERNN, fold
from .oscillators import OscillatorRDE
from .readouts import READOUTS, AbstractReadout, EveryState, FinalState, MeanEnergy, MeanState, Pools

MODELS = Registry(
    "model",
    eqx.Module,  # any will do
    {
        "multi-scale-rde": MultiScaleRDE,
        "neural-rde": NeuralRDE,
        "neural-cde": NeuralCDE,
        "log-ncde": LogNCDE,
        "linear-rde": LinearRDE,
        "oscillator-rde": OscillatorRDE,
        "logsig-ssm": LogSigSSM,
        "ode-rnn": ODERNN,
        "cubic-cde": CubicCDE,
    },
    later=True,
)

__all__ = [
    "MODELS",
    "ODERNN",
    "READOUTS",
    "AbstractDecodedModel",
    "AbstractDrivenModel",
    "AbstractModel",
    "AbstractReadout",
    "ChannelScale",
    "CrossFitted",
    "CubicCDE",
    "Ensemble",
    "EveryState",
    "FinalState",
    "ForecastRDE",
    "LabelScale",
    "LinearBlock",
    "LinearRDE",
    "LogNCDE",
    "LogSigSSM",
    "LogSignatureSizes",
    "MeanEnergy",
    "MeanState",
    "MultiScaleRDE",
    "NeuralCDE",
    "NeuralRDE",
    "OscillatorRDE",
    "Pools",
    "Recommended",
    "ScaledField",
    "as_model",
    "fold",
    "hermite_control",
    "natural_control",
    "out_of_fold",
]
