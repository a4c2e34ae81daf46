"""Cores and GPUs are devices of one mesh, and each takes a share of every batch.

On a CPU each core becomes a device (`use_all_cores`), because XLA does not use threads for products as small as ours.
"""

import contextlib
import gc
import os
import platform
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import platformdirs
from jax.flatten_util import ravel_pytree
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import Array, Float, Int, PyTree

from ._cores import cores
from ._types import Devices, Model
from ._write import digest_of, private_folder
from .frozen import partition_weights

__all__ = [
    "device_mesh",
    "local_rows",
    "pad_batch",
    "replicate",
    "shard_batch",
    "sharded_value_and_grad",
    "use_all_cores",
]

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
    chosen = getattr(jax.config, "jax_num_cpu_devices", -1) > 0 or _DEVICE_FLAG in os.environ.get("XLA_FLAGS", "")
    if count is None and chosen:
        return jax.device_count()
    count = cores() if count is None else count
    try:
        jax.config.update("jax_num_cpu_devices", count)
    except RuntimeError:
        if jax.default_backend() == "cpu" and jax.device_count() < count:
            raise RuntimeError(
                f"Got a call of use_all_cores({count}) after JAX has started with {jax.device_count()} CPU device(s); "
                "expected it at the top of the program, before any array is made, because JAX fixes its devices when "
                f"it first computes something. Or set the environment variable JAX_NUM_CPU_DEVICES={count}."
            ) from None
    return jax.device_count()


def try_all_cores() -> int:
    """As `use_all_cores`, where it is not too late: a program that has computed something goes on as it is.

    >>> try_all_cores() == jax.device_count()
    True
    """
    check_process()
    with contextlib.suppress(RuntimeError):
        use_all_cores()
    return jax.device_count()


def check_process() -> None:
    """Refuse to compute in a forked child, where JAX would hang.

    >>> check_process()
    """
    if _forked:
        raise RuntimeError(
            "Got a call in a process that was forked from one in which JAX had already computed something; expected a "
            "fresh process, because JAX's threads do not survive a fork, and this call would never return. Start "
            'workers with multiprocessing.get_context("spawn") or "forkserver" (gunicorn without --preload), and load '
            "the model in each of them."
        )


_forked = False


def _after_fork() -> None:
    # JAX has no public way to ask whether it has started without starting it. No import and no lock, which another
    # thread may have held at the time of the fork.
    global _forked
    _forked = _forked or bool(getattr(sys.modules.get("jax._src.xla_bridge"), "_backends", None))


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def device_mesh(devices: Devices = None, *, batch: int | None = None) -> Mesh:
    """Devices in a row called "batch".

    Args:
        devices: a list of JAX devices, or a mesh of any shape; None takes all devices of all processes. With
            `jax.local_devices()` a process works for itself, whatever the others do.
        batch: the size of the batches. Without `devices` it limits how many are used, so that each has at least eight
            examples to work on. With fewer, sharing costs more than it saves. Every process keeps one at least.

    >>> device_mesh().axis_names, device_mesh(batch=4).size
    (('batch',), 1)
    """
    if devices is None:
        most = None if batch is None else max(1, batch // _FEWEST_EXAMPLES // jax.process_count())
        owned = [[device for device in jax.devices() if device.process_index == n] for n in range(jax.process_count())]
        devices = [device for own in owned for device in own[:most]]
    row = list(devices.devices.flat) if isinstance(devices, Mesh) else list(devices)
    if not row:
        raise ValueError("Got an empty list of devices; expected at least one. Write for example `jax.devices()[:1]`.")
    if all(device.process_index != jax.process_index() for device in row):
        owners = sorted({device.process_index for device in row})
        raise ValueError(
            f"Got devices of process {', '.join(map(str, owners))} only, in process {jax.process_index()}; expected "
            "some of its own too, because each process works on its own. Write for example `jax.local_devices()`."
        )
    return Mesh(np.array(row), ("batch",))


def local_rows(mesh: Mesh, size: int) -> Int[np.ndarray, " rows"]:
    """Which examples of a batch of `size` this process's devices work on: all of them, if it is the only process.

    >>> local_rows(device_mesh(), 2 * device_mesh().size).tolist() == list(range(2 * device_mesh().size))
    True
    """
    own = [place for place, device in enumerate(mesh.devices.flat) if device.process_index == jax.process_index()]
    return np.arange(size).reshape(mesh.size, -1)[own].ravel()


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
    """Divide the examples of each array of a batch over the devices; each process gives its own rows (`local_rows`)."""
    own = sum(device.process_index == jax.process_index() for device in mesh.devices.flat)
    for leaf in jax.tree.leaves(batch):
        if leaf.ndim == 0 or leaf.shape[0] % own:
            raise ValueError(
                f"Got an array of shape {leaf.shape} to share out over {own} devices; expected a first axis of "
                f"examples that divides by {own}. Write `batch, weights = pad_batch(batch, {own})` first."
            )
    sharding = NamedSharding(mesh, _BATCH)
    if own == mesh.size:
        return jax.device_put(batch, sharding)

    def place(leaf: Any) -> Array:
        shape = (leaf.shape[0] // own * mesh.size, *leaf.shape[1:])
        return jax.make_array_from_process_local_data(sharding, np.asarray(leaf), shape)

    return jax.tree.map(place, batch)


def replicate(tree: PyTree, mesh: Mesh) -> PyTree:
    """A copy of each JAX array on every device, the same in all processes; everything else as it is."""
    arrays, rest = eqx.partition(tree, eqx.is_array)
    sharding, own = NamedSharding(mesh, _EVERYWHERE), [*mesh.local_devices]
    if len(own) == mesh.size:
        return eqx.combine(jax.device_put(local_copy(arrays), sharding), rest)

    def place(leaf: Array) -> Array:
        if isinstance(leaf, jax.Array) and leaf.sharding == sharding:
            return leaf
        leaf = local_copy(leaf)
        copies = [jax.device_put(leaf, device) for device in own]
        return jax.make_array_from_single_device_arrays(leaf.shape, sharding, copies)

    return eqx.combine(jax.tree.map(place, arrays), rest)


def local_copy(tree: PyTree) -> PyTree:
    """Arrays that are on devices of several processes as this process has them; all others as they are."""
    several = lambda leaf: isinstance(leaf, jax.Array) and not leaf.is_fully_addressable
    return jax.tree.map(lambda leaf: leaf.addressable_data(0) if several(leaf) else leaf, tree)


def sharded_value_and_grad(losses: Callable[[Any, Any], Float[Array, " batch"]], mesh: Mesh) -> Callable:
    """The weighted mean of `losses(model, batch)`, one loss per example, and its gradient, over all devices.

    A batch whose weights are all zero has value and gradient zero. Call it inside `eqx.filter_jit` as
    `function(model, batch, weights)`, with weights from `pad_batch`.

    >>> import jax.numpy as jnp
    >>> mesh = device_mesh()
    >>> function = sharded_value_and_grad(lambda slope, x: slope * x, mesh)
    >>> value, gradient = function(jnp.array(2.0), jnp.full(mesh.size, 3.0), jnp.ones(mesh.size))
    >>> float(value), float(gradient)
    (6.0, 3.0)
    """

    several = len({device.process_index for device in mesh.devices.flat}) > 1

    def function(model: Model, batch: PyTree, weights: Float[Array, " batch"]) -> tuple[Float[Array, ""], Any]:
        trained, rest = partition_weights(model)

        def share(trained, batch, weights):
            total = lambda trained: (weights * losses(eqx.combine(trained, rest), batch)).sum()
            sums = (*jax.value_and_grad(total)(trained), weights.sum())
            if several:  # in one message: each has the latency of the network
                flat, apart = ravel_pytree(sums)
                return apart(jax.lax.psum(flat, "batch"))
            return jax.lax.psum(sums, "batch") if mesh.size > 1 else sums

        run = share
        if mesh.size > 1:
            specs = {"in_specs": (_EVERYWHERE, _BATCH, _BATCH), "out_specs": _EVERYWHERE}
            run = jax.shard_map(share, mesh=mesh, check_vma=False, **specs)
        value, gradient, weight = run(trained, batch, weights)
        weight = jnp.where(weight > 0, weight, 1.0)  # where nothing counts, value and gradient are zero
        return value / weight, jax.tree.map(lambda leaf: leaf / weight, gradient)

    return function


_PROGRAMS = "NEURALRDE_PROGRAMS"


@cache
def keep_programs() -> Path | None:
    """Let JAX keep compiled programs on the disk, so that no other process has to compile them again.

    They take at most a gigabyte of the user's cache folder. `NEURALRDE_PROGRAMS=FOLDER` names another folder, and
    `NEURALRDE_PROGRAMS=off` keeps none. A folder that was set for JAX itself stays.

    Returns:
        The folder; None if nothing is kept there.
    """
    chosen = os.environ.get(_PROGRAMS, "")
    if chosen.lower() in ("off", "0") or jax.config.jax_compilation_cache_dir is not None:  # type: ignore
        return None
    # On a shared disk, another kind of processor might not know a program's instructions.
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
        kind = sorted({line for line in lines if line.startswith(("model name", "flags", "Features", "CPU part"))})
    except OSError:
        kind = [platform.machine(), platform.processor()]
    name = digest_of(jax.__version__, kind)[:16]
    folder = (Path(chosen) if chosen else platformdirs.user_cache_path("neuralrde") / "programs") / name
    try:
        private_folder(folder)
    except OSError:  # a home that cannot be written to
        return None
    jax.config.update("jax_compilation_cache_dir", str(folder))
    jax.config.update("jax_compilation_cache_max_size", 2**30)
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.1)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
    return folder


_MAPS, _LIMIT = Path("/proc/self/maps"), Path("/proc/sys/vm/max_map_count")


def drop_programs(most: int | None = None) -> bool:
    """Let JAX forget its compiled programs, if this process has more memory maps than `most`: half of the limit.

    Those of a training take some 2,000 maps, so that after thirty trainings of different shapes JAX would crash.

    >>> drop_programs(most=10**9)
    False
    """
    try:
        most = int(_LIMIT.read_text()) // 2 if most is None else most
        many = _MAPS.read_bytes().count(b"\n") > most
    except OSError:  # not Linux
        return False
    if many:
        jax.clear_caches()
        gc.collect()
    return many
