"""Cores and GPUs are devices of one mesh, and each takes a share of every batch.

On a CPU each core becomes a device (`use_all_cores`), because XLA does not use threads for products as small as ours.
The same code runs on several GPUs of one process. Several processes or hosts (`jax.distributed`) are not supported yet.
"""

import contextlib
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import Array, Float, PyTree

from ._cores import cores
from .frozen import partition_weights

__all__ = ["device_mesh", "pad_batch", "replicate", "shard_batch", "sharded_value_and_grad", "use_all_cores"]

# With fewer examples than this on each device, sharing a batch out costs more than it saves (measured on two cores).
_FEWEST_EXAMPLES = 8
_DEVICE_FLAG = "xla_force_host_platform_device_count"
_BATCH, _EVERYWHERE = PartitionSpec("batch"), PartitionSpec()


def use_all_cores(count: int | None = None) -> int:
    """Make each CPU core a JAX device. Call it first: JAX fixes its devices when it first computes something.

    Args:
        count: number of devices. The default is all cores that its affinity and its container's quota allow this
            process, unless `JAX_NUM_CPU_DEVICES`, `XLA_FLAGS` or `jax.config` already set a number.

    Returns:
        The number of devices that JAX now has. GPUs, where there are any, are used instead of cores.
    """
    if count is None and _chosen_by_user():
        return jax.device_count()
    count = cores() if count is None else count
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
    _check_fork()
    with contextlib.suppress(RuntimeError):
        use_all_cores()
    return jax.device_count()


def _chosen_by_user() -> bool:
    """Whether the number of devices was set already: by environment variable (JAX reads them) or in code."""
    return getattr(jax.config, "jax_num_cpu_devices", -1) > 0 or _DEVICE_FLAG in os.environ.get("XLA_FLAGS", "")


def check_process() -> None:
    """Refuse to compute where JAX would hang or fail: in a forked child, or as one of several processes.

    >>> check_process()
    """
    _check_fork()
    if jax.process_count() > 1:
        raise RuntimeError(
            f"Got jax.distributed with {jax.process_count()} processes; expected one process, which may have several "
            "devices: several hosts are not supported yet. Run it without jax.distributed.initialize()."
        )


def _check_fork() -> None:
    if _forked:
        raise RuntimeError(
            "Got a call in a process that was forked from one in which JAX had already computed something; expected a "
            "fresh process, because JAX's threads do not survive a fork, and this call would never return. Start "
            'workers with multiprocessing.get_context("spawn") or "forkserver" (gunicorn without --preload), and load '
            "the model in each of them."
        )


_forked = False


def _after_fork() -> None:
    global _forked
    _forked = _forked or _jax_has_started()


def _jax_has_started() -> bool:
    # JAX has no public way to ask without starting it. No import and no lock, which another thread may have held at
    # the time of the fork.
    return bool(getattr(sys.modules.get("jax._src.xla_bridge"), "_backends", None))


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def device_mesh(devices: Mesh | Sequence[Any] | None = None, *, batch: int | None = None) -> Mesh:
    """Devices in a row called "batch".

    Args:
        devices: a list of JAX devices, or a mesh of any shape; None takes all devices.
        batch: the size of the batches. Without `devices` it limits how many are used, so that each has at least eight
            examples to work on. With fewer, sharing costs more than it saves.

    >>> device_mesh().axis_names, device_mesh(batch=4).size
    (('batch',), 1)
    """
    if devices is None:
        most = None if batch is None else max(1, batch // _FEWEST_EXAMPLES)
        devices = jax.devices()[:most]
    row = list(devices.devices.flat) if isinstance(devices, Mesh) else list(devices)
    if not row:
        raise ValueError("Got an empty list of devices; expected at least one. Write for example `jax.devices()[:1]`.")
    return Mesh(np.array(row), ("batch",))


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
    """Divide the examples of each array of a batch over the devices."""
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
    """The weighted mean of `losses(model, batch)`, one loss per example, and its gradient, over all devices.

    Each device works on its share of the batch, and sums are added up between them: the same result as on one
    device, to rounding. A batch whose weights are all zero has value and gradient zero. Call it inside
    `eqx.filter_jit` as `function(model, batch, weights)`, with weights from `pad_batch`.

    >>> import jax.numpy as jnp
    >>> mesh = device_mesh()
    >>> function = sharded_value_and_grad(lambda slope, x: slope * x, mesh)
    >>> value, gradient = function(jnp.array(2.0), jnp.full(mesh.size, 3.0), jnp.ones(mesh.size))
    >>> float(value), float(gradient)
    (6.0, 3.0)
    """

    def function(model: Any, batch: PyTree, weights: Float[Array, " batch"]) -> tuple[Float[Array, ""], Any]:
        trained, rest = partition_weights(model)

        def share(trained, batch, weights):
            total = lambda trained: (weights * losses(eqx.combine(trained, rest), batch)).sum()
            sums = (*jax.value_and_grad(total)(trained), weights.sum())
            return jax.lax.psum(sums, "batch") if mesh.size > 1 else sums

        run = share
        if mesh.size > 1:
            specs = {"in_specs": (_EVERYWHERE, _BATCH, _BATCH), "out_specs": _EVERYWHERE}
            run = jax.shard_map(share, mesh=mesh, check_vma=False, **specs)
        value, gradient, weight = run(trained, batch, weights)
        weight = jnp.where(weight > 0, weight, 1.0)  # where nothing counts, value and gradient are zero
        return value / weight, jax.tree.map(lambda leaf: leaf / weight, gradient)

    return function
