"""Fields, which log-signatures drive. A field's one duty is `contract(log_signature) -> (z -> dz/du)`.

| field | driven by | F(z) |
|---|---|---|
| `FreeField` | log-signature, words | the paper's network |
| `BoundedField` | log-signature, words | the same with tanh last (Kidger) |
| `BracketField` | log-signature, brackets | exact Lie brackets of a field of the path's channels |
| `LinearField` | log-signature, brackets | affine, exact brackets; dense or block-diagonal |
| `DiagonalField`, `RotationField` | anything | affine, one rate per state or pair of states |
| `SelectiveField` | tokens of a model | rotations whose speeds the input chooses |
"""

import jax

from ..registry import Registry
from ._expm import expm
from .affine import AbstractAffine, AbstractFlow
from .base import AbstractControlledField, AbstractField, Autonomous, check_controls
from .bracket import BracketField, MatrixField
from .derivatives import lie_bracket, split_levels, taylor_step, tensor_field
from .diagonal import DiagonalField, RotationField
from .free import BoundedField, ContractedNetwork, FreeField
from .linear import FreeLinearField, LinearField
from .selective import SelectiveField

FIELDS = Registry(
    "field",
    AbstractControlledField,
    {
        "free": FreeField,
        "bounded": BoundedField,
        "linear": LinearField,
        "free-linear": FreeLinearField.random,
        "diagonal": DiagonalField,
        "rotation": RotationField,
        "selective": SelectiveField,
    },
    later=True,
)
ACTIVATIONS = Registry(
    "activation",
    object,
    {"relu": jax.nn.relu, "silu": jax.nn.silu, "gelu": jax.nn.gelu, "tanh": jax.nn.tanh, "softplus": jax.nn.softplus},
)

__all__ = [
    "ACTIVATIONS",
    "FIELDS",
    "AbstractAffine",
    "AbstractControlledField",
    "AbstractField",
    "AbstractFlow",
    "Autonomous",
    "BoundedField",
    "BracketField",
    "ContractedNetwork",
    "DiagonalField",
    "FreeField",
    "FreeLinearField",
    "LinearField",
    "MatrixField",
    "RotationField",
    "SelectiveField",
    "check_controls",
    "expm",
    "lie_bracket",
    "split_levels",
    "taylor_step",
    "tensor_field",
]
