"""What a log-signature drives. A field's one duty is `contract(log_signature) -> (z -> dz/du)`.

| field | driven by | F(z) |
|---|---|---|
| `FreeField` | log-signature, words | the paper's network |
| `BoundedField` | log-signature, words | the same with tanh last (Kidger) |
| `BracketField` | log-signature, brackets | exact Lie brackets of a field of the path's channels |
| `LinearField` | log-signature, brackets | affine, exact brackets; dense or block-diagonal |
| `DiagonalField`, `RotationField` | anything | affine, a rate for each state or pair of states |
"""

from .affine import AbstractAffine, AbstractFlow
from .base import AbstractField, Autonomous, check_controls
from .bounded import BoundedField
from .bracket import BracketField, MatrixField
from .derivatives import lie_bracket, split_levels, taylor_step, tensor_field
from .diagonal import DiagonalField, RotationField
from .expm import expm
from .free import ContractedNetwork, FreeField
from .linear import FreeLinearField, LinearField

__all__ = [
    "AbstractAffine",
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
    "check_controls",
    "expm",
    "lie_bracket",
    "split_levels",
    "taylor_step",
    "tensor_field",
]
