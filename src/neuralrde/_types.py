"""The vocabulary of annotations that several parts share."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh
from jaxtyping import PyTree

from ._write import Options, Part, Plain

__all__ = [
    "AnyArray", "Depth", "Devices", "Model", "OnePerSeries", "Options", "Part", "Plain", "Record", "Seed", "Selection",
    "SeriesLike", "Spec", "State", "TableLike", "TargetLike",
]  # fmt: skip

AnyArray = np.ndarray | jax.Array
"""NumPy's or JAX's."""
Depth = int | tuple[int, ...]
"""Of log-signatures: one for all scales, or one for each."""
Devices = Mesh | Sequence | None
"""What computes: a mesh, some devices, or None for all there are."""
Model = PyTree
"""An Equinox module that takes one example."""
State = PyTree
"""Arrays that are carried from one step to the next."""
Selection = slice | int | np.integer | np.bool | Sequence[int] | np.ndarray
"""Some of the samples: a slice, a mask or numbers."""
Record = dict[str, Any]
"""What is known of an epoch: numbers by name."""
Spec = str | Mapping[str, Any] | Callable
"""What `registry.make` makes a part of: a short name, a dictionary, a class or a `Config`."""
SeriesLike = Any
"""Series as estimators take them: a `Series`, arrays, lists of arrays or of DataFrames, or a `Store`."""
TargetLike = Any
"""Labels or numbers, one per series or one per point: an array, a list, or an array for each series."""
TableLike = Any
"""What is known of each series as a whole: a DataFrame, columns by their names, or for one series values by name."""
OnePerSeries = Any
"""Weights or groups: an array or a list with one for each series."""
Seed = Any
"""A number, or what scikit-learn takes for `random_state`."""
