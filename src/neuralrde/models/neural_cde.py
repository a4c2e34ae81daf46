"""The neural CDE on a linear path, and the Log-NCDE: both are neural RDEs, with settings of their own."""

from collections.abc import Callable

import jax
from jaxtyping import PRNGKeyArray

from ..fields import BracketField, FreeField
from .neural_rde import NeuralRDE


def NeuralCDE(channels: int, outputs: int, *, key: PRNGKeyArray, **options) -> NeuralRDE:
    """The neural CDE driven by the piecewise-linear path (Kidger et al., 2020): a neural RDE of depth 1.

    With `model.log_signatures(path, step=1)` it is the neural CDE itself (section 3.2 of the paper); with a
    larger step it sees increments over windows only. For smooth control paths see `CubicCDE`. Options are
    `NeuralRDE`'s.

    >>> import jax
    >>> NeuralCDE(channels=3, outputs=1, key=jax.random.key(0)).depth
    1
    """
    return NeuralRDE(channels, outputs, depth=1, key=key, **options)


def LogNCDE(
    channels: int,
    outputs: int,
    *,
    depth: int,
    state: int = 32,
    width: int = 64,
    layers: int = 3,
    activation: Callable = jax.nn.silu,
    key: PRNGKeyArray,
    **options,
) -> NeuralRDE:
    """The Log-NCDE (Walker et al., 2024): a neural RDE whose field is a CDE's, with exact Lie brackets.

    Fewer weights than the free network and the true log-ODE, for one Jacobian-vector product per channel at
    depth 2. The activation must be smooth, because brackets are made of its derivatives. Its log-signatures are in
    the brackets basis: take them from `model.log_signatures`.

    >>> import jax
    >>> LogNCDE(channels=3, outputs=1, depth=2, key=jax.random.key(0)).basis
    'brackets'
    """
    model_key, field_key = jax.random.split(key)
    vectors = FreeField(channels, state, width=width, layers=layers, activation=activation, key=field_key)
    return NeuralRDE(channels, outputs, depth=depth, field=BracketField(vectors, depth), key=model_key, **options)
