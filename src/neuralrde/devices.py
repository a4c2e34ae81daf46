"""Cores, GPUs and hosts are one thing: devices of a mesh, over which a batch is shared out.

On a CPU the cores are made devices (`use_all_cores`), because XLA does not thread products as small as ours.
The same code runs on GPUs and, after `jax.distributed.initialize()`, on several hosts.
"""

import contextlib
import os
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import Array, Float, PyTree

_BATCH, _EVERYWHERE = PartitionSpec("batch"), PartitionSpec()


def use_all_cores(count: int | None = None) -> int:
    """Make each CPU core a JAX device. Call it first: JAX fixes its devices when it first computes something.

    Args:
        count: how many; by default all cores that this process may use.

    Returns:
        The number of devices that JAX now has. GPUs, where there are any, are used instead of cores.
    """
    count = _cores() if count is None else count
    try:
        jax.config.update("jax_num_cpu_devices", count)
    except RuntimeError:
        have = jax.device_count()
        if jax.default_backend() == "cpu" and have < count:
            raise RuntimeError(
                f"Got a call of use_all_cores({count}) after JAX has started with {have} CPU device(s); "
                "expected it before, because JAX fixes its devices when it first computes something. Call "
                "it at the top of the program, before any array is made, or set the environment variable "
                f"JAX_NUM_CPU_DEVICES={count}."
            ) from None
    return jax.device_count()


def try_all_cores() -> int:
    """As `use_all_cores`, where it is not too late: a program that has computed something goes on as it is.

    >>> try_all_cores() == jax.device_count()
    True
    """
    with contextlib.suppress(RuntimeError):
        use_all_cores()
    return jax.device_count()


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def device_mesh(devices: list | None = None) -> Mesh:
    """All devices, of all hosts, in a row called "batch".

    >>> device_mesh().axis_names
    ('batch',)
    """
    return Mesh(np.array(jax.devices() if devices is None else devices), ("batch",))


def pad_batch(batch: PyTree, multiple: int) -> tuple[PyTree, Float[np.ndarray, " padded"]]:
    """Repeat the last example until the batch divides by `multiple`; the weights say which examples count.

    >>> batch, weights = pad_batch(np.arange(3), multiple=2)
    >>> batch.tolist(), weights.tolist()
    ([0, 1, 2, 2], [1.0, 1.0, 1.0, 0.0])
    """
    size = jax.tree.leaves(batch)[0].shape[0]
    missing = -size % multiple
    rows = np.minimum(np.arange(size + missing), size - 1)
    weights = (np.arange(size + missing) < size).astype(np.float32)
    return jax.tree.map(lambda leaf: leaf[rows], batch), weights


def shard_batch(batch: PyTree, mesh: Mesh) -> PyTree:
    """Place each array of a batch with its examples shared out over the devices."""
    for leaf in jax.tree.leaves(batch):
        if leaf.ndim == 0 or leaf.shape[0] % mesh.size:
            raise ValueError(
                f"Got an array of shape {leaf.shape} to share out over {mesh.size} devices; expected a first "
                f"axis of examples that divides by {mesh.size}. Write `batch, weights = pad_batch(batch, "
                f"{mesh.size})` first."
            )
    return jax.device_put(batch, NamedSharding(mesh, _BATCH))


def replicate(tree: PyTree, mesh: Mesh) -> PyTree:
    """A copy of each JAX array on every device; everything else as it is."""
    arrays, rest = eqx.partition(tree, eqx.is_array)
    return eqx.combine(jax.device_put(arrays, NamedSharding(mesh, _EVERYWHERE)), rest)


def sharded_value_and_grad(losses: Callable[[Any, Any], Float[Array, " batch"]], mesh: Mesh) -> Callable:
    """The weighted mean of `losses(model, batch)`, one loss an example, and its gradient, over all devices.

    Each device works on its share of the batch, and sums are added up between them: the same result as on one
    device, to rounding. Call it inside `eqx.filter_jit` as `function(model, batch, weights)`, with weights
    from `pad_batch`.

    >>> import jax.numpy as jnp
    >>> mesh = device_mesh()
    >>> function = sharded_value_and_grad(lambda slope, x: slope * x, mesh)
    >>> value, gradient = function(jnp.array(2.0), jnp.full(mesh.size, 3.0), jnp.ones(mesh.size))
    >>> float(value), float(gradient)
    (6.0, 3.0)
    """

    def function(model: Any, batch: PyTree, weights: Float[Array, " batch"]) -> tuple[Float[Array, ""], Any]:
        trained, rest = eqx.partition(model, eqx.is_inexact_array)

        def share(trained, batch, weights):
            total = lambda trained: (weights * losses(eqx.combine(trained, rest), batch)).sum()
            return jax.lax.psum((*jax.value_and_grad(total)(trained), weights.sum()), "batch")

        run = jax.shard_map(
            share, mesh=mesh, in_specs=(_EVERYWHERE, _BATCH, _BATCH), out_specs=_EVERYWHERE, check_vma=False
        )
        value, gradient, weight = run(trained, batch, weights)
        return value / weight, jax.tree.map(lambda leaf: leaf / weight, gradient)

    return function
