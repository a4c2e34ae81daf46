"""Predictions for many examples, in batches of one shape, over all devices."""

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jax.sharding import Mesh, PartitionSpec
from jaxtyping import Float

from ..devices import check_process, device_mesh, replicate, shard_batch
from .examples import Examples, padded


def predict(
    model: Any, examples: Examples, *, batch: int = 32, mesh: Mesh | Sequence[Any] | None = None
) -> Float[np.ndarray, "examples *out outputs"]:
    """The model's prediction for each example.

    All batches have one shape, the last one padded: nothing is compiled twice, and an example's prediction does
    not depend on how many others were asked for with it.

    Args:
        model: an Equinox module of one example.
        examples: without targets, if need be.
        batch: examples at a time.
        mesh: the devices to work on, a list or a mesh; None for all of this process, but only as many as have
            eight examples of a batch each.

    >>> from neuralrde.models import NeuralRDE
    >>> model = NeuralRDE(channels=3, outputs=2, depth=2, key=jax.random.key(0))
    >>> predict(model, Examples((np.zeros((5, 3), np.float32), np.zeros((5, 10, 6), np.float32)))).shape
    (5, 2)
    """
    check_process()
    mesh = device_mesh(mesh, batch=batch)
    model = replicate(model, mesh)  # it may have been trained on others
    size = batch_size(batch, mesh)
    inputs = Examples(examples.inputs, windows=examples.windows)
    answers = []
    for start in range(0, len(inputs), size):
        part, _ = padded(inputs.take(slice(start, start + size)), size)
        answers.append(np.asarray(_answers(model, shard_batch(part, mesh), mesh)))
    return np.concatenate(answers)[: len(inputs)]


def batch_size(wanted: int, mesh: Mesh) -> int:
    """The next size that can be shared out over the devices."""
    return -(-wanted // mesh.size) * mesh.size


@eqx.filter_jit
def _answers(model: Any, examples: Examples, mesh: Mesh) -> Any:
    arrays, rest = eqx.partition(model, eqx.is_array)
    everywhere, shared = PartitionSpec(), PartitionSpec("batch")
    share = lambda arrays, examples: examples.predictions(eqx.combine(arrays, rest))
    specs = {"in_specs": (everywhere, shared), "out_specs": shared, "check_vma": False}
    return jax.shard_map(share, mesh=mesh, **specs)(arrays, examples)
