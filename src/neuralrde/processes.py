"""Several processes as one training: how they start, what they agree on, and what happens when one of them is lost.

Whatever decides how to go on must be the same in all of them: one that takes a step that another does not take would
wait for it forever. So the first process decides, and the others follow.
"""

import atexit
import base64
import contextlib
import ipaddress
import json
import os
import socket
import sys
from collections.abc import Callable, Iterator
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jax.sharding import Mesh, PartitionSpec
from jaxtyping import Array

from ._types import Options, Plain
from .devices import device_mesh, shard_batch

__all__ = ["ProcessLost", "Processes", "join_processes"]

# The exit code of a process that has lost another one: a temporary failure, in the words of sysexits.h.
LOST = 75
# Seconds without a sign of life after which a process counts as lost.
PATIENCE = 20
# What JAX says when the other end is gone: gloo on CPUs, NCCL on GPUs, and the service by which processes find another.
_SIGNS = ("gloo", "nccl", "connection closed by peer", "connection reset", "coordination service", "socket closed")


class ProcessLost(RuntimeError):
    """Another process has ended, or cannot be reached any more. Start all of them again, and resume."""


def join_processes(
    coordinator: str | None = None,
    count: int | None = None,
    number: int | None = None,
    *,
    patience: int = PATIENCE,
) -> None:
    """`jax.distributed.initialize` as training wants it. Call it first: before JAX has computed something.

    Args:
        coordinator: HOST:PORT of process 0, as all others can reach it; None takes what SLURM or Open MPI say.
        count: of processes.
        number: of this process, from 0.
        patience: seconds without a sign of life after which a process counts as lost. JAX's own default is 100.
    """
    if jax.config.jax_cpu_collectives_implementation is None:  # type: ignore
        jax.config.update("jax_cpu_collectives_implementation", "gloo")
    # It would catch SIGTERM, for itself: `interrupts_between_steps` does.
    jax.config.update("jax_enable_preemption_service", False)
    # At the end the first process may still be drawing pictures.
    limits: Options = {"heartbeat_timeout_seconds": patience, "shutdown_timeout_seconds": 300}
    jax.distributed.initialize(coordinator, count, number, **limits, coordinator_bind_address=_bound(coordinator))


def _bound(coordinator: str | None) -> str | None:
    """Where process 0 listens: at the address asked for, and no other. None is all, or what JAX itself finds."""
    if coordinator is None or "JAX_COORDINATOR_BIND_ADDRESS" in os.environ:
        return None
    host = coordinator.rpartition(":")[0].strip("[]")
    # Some systems give their own name a loopback address, at which no other machine could reach it.
    with contextlib.suppress(OSError, ValueError):
        address = socket.gethostbyname(host)
        if host not in ("localhost", address) and ipaddress.ip_address(address).is_loopback:
            return None
    return coordinator


class Processes:
    """The processes whose devices are in a mesh. If there is only one, nothing is communicated.

    Every process must call the same methods in the same order.

    >>> processes = Processes()
    >>> processes.count, processes.is_first, processes.sum(1.5, 2), processes.agree({"epochs": 3})
    (1, True, (1.5, 2.0), {'epochs': 3})

    Args:
        mesh: a row of the devices of all of them, as `device_mesh` makes it; None for all devices that there are.
    """

    def __init__(self, mesh: Mesh | None = None):
        mesh = device_mesh() if mesh is None else mesh
        owners = [device.process_index for device in mesh.devices.flat]
        self.mesh, self.count = mesh, len(set(owners))
        self.is_first = owners[0] == jax.process_index()
        self._own = owners.count(jax.process_index())
        if self.count > 1 and (ids := tuple(device.id for device in mesh.devices.flat)) not in _connected:
            with self.lost_explained(), _without_greetings():
                self._total(np.zeros(1, np.float32))
            _connected.add(ids)

    def sum(self, *numbers: float) -> tuple[float, ...]:
        """The sums of what all processes give, in float32."""
        if self.count == 1:
            return tuple(float(number) for number in numbers)
        with self.lost_explained():
            return tuple(float(total) for total in self._total(np.array(numbers, np.float32)))

    def agree(self, value: Any) -> Any:
        """The first process's value, in all of them: numbers, text, arrays, and lists, tuples, dictionaries of them."""
        if self.count == 1:
            return value
        with self.lost_explained():
            data = json.dumps(_plain(value)).encode() if self.is_first else b""
            size = int(self._total(np.array([len(data)], np.uint32))[0])
            # Few lengths, because each is compiled anew.
            words = np.zeros(2 ** max(6, (size // 4).bit_length()), np.uint32)
            words.view(np.uint8)[: len(data)] = np.frombuffer(data, np.uint8)
            return _read(self._total(words).tobytes()[:size])

    def from_first(self, make: Callable[[], Any]) -> Any:
        """What `make()` returns in the first process. An error there is a ValueError with its text in the others."""
        if self.count == 1:
            return make()
        value, error = None, None
        if self.is_first:
            try:
                value = make()
            except Exception as raised:
                error = raised
        value, refusal = self.agree((value, None if error is None else str(error)))
        if refusal is not None:
            raise ValueError(refusal) if error is None else error
        return value

    @contextlib.contextmanager
    def lost_explained(self) -> Iterator[None]:
        """What JAX raises when another process is gone becomes `ProcessLost`."""
        try:
            yield
        except (RuntimeError, ValueError) as error:
            message = str(error)
            is_loss = any(sign in message.lower() for sign in _SIGNS)
            if isinstance(error, ProcessLost) or self.count == 1 or not is_loss:
                raise
            atexit.register(_leave)
            raise ProcessLost(
                f"Another of the {self.count} processes was lost ({message.splitlines()[0][:200]}); expected all of "
                "them until the end, because each works on a part of every batch. Start all of them again with "
                "resume=True: training goes on from its last checkpoint."
            ) from error

    def _total(self, numbers: np.ndarray) -> np.ndarray:
        """Sums over the processes. Only one device of each gives its numbers, the others zeros."""
        rows = np.zeros((self._own, len(numbers)), numbers.dtype)
        rows[0] = numbers
        return np.asarray(_summed(shard_batch(rows, self.mesh), self.mesh))[0]


def _plain(value: Any) -> Plain:
    """What JSON can hold: lists as they are; tuples, dictionaries and arrays with a mark."""
    value = value.item() if isinstance(value, np.generic) else value
    match value:
        case None | bool() | int() | float() | str():
            return value
        case list():
            return [_plain(item) for item in value]
        case tuple():
            return {"tuple": [_plain(item) for item in value]}
        case dict():
            return {"pairs": [[_plain(key), _plain(item)] for key, item in value.items()]}
        case np.ndarray() | jax.Array():
            array = np.asarray(value)
            plain = array.dtype.kind in "biufcSU"
            if plain or hasattr(jax.numpy, array.dtype.name):  # bfloat16 and the like
                kind = array.dtype.str if plain else array.dtype.name
                return {"array": [kind, array.shape, base64.b64encode(array.tobytes()).decode()]}
    raise TypeError(
        f"Got {type(value).__name__} to send to other processes; expected numbers, text, arrays of them, and lists, "
        "tuples and dictionaries of these, because nothing else is read without running what a message says."
    )


def _made(plain: Plain) -> Any:
    """`_plain`, undone."""
    match plain:
        case list():
            return [_made(item) for item in plain]
        case {"tuple": items}:
            return tuple(_made(item) for item in items)
        case {"pairs": pairs}:
            return {_made(key): _made(item) for key, item in pairs}
        case {"array": [kind, shape, numbers]}:
            return np.frombuffer(base64.b64decode(numbers), kind).reshape(shape).copy()
    return plain


def _read(message: bytes) -> Any:
    try:
        return _made(json.loads(message))
    except (ValueError, TypeError, RecursionError) as error:
        raise ValueError(
            f"Got a message of another kind from the first process ({error}); expected what `Processes.agree` sends. "
            "Run the same version of neuralrde in all processes."
        ) from None


# The meshes, by the numbers of their devices, whose processes have found each other.
_connected: set[tuple[int, ...]] = set()


@eqx.filter_jit
def _summed(rows: Array, mesh: Mesh) -> Array:
    # `psum` only: on CPUs a reduce-scatter fails after 30 seconds of waiting (jax issue 40831).
    specs = {"in_specs": PartitionSpec("batch"), "out_specs": PartitionSpec(), "check_vma": False}
    return jax.shard_map(lambda row: jax.lax.psum(row, "batch"), mesh=mesh, **specs)(rows)


@contextlib.contextmanager
def _without_greetings() -> Iterator[None]:
    """Gloo tells the standard output that it has connected: not what a program that reads it expects."""
    sys.stdout.flush()
    kept = os.dup(1)
    try:
        with open(os.devnull, "w") as nowhere:
            os.dup2(nowhere.fileno(), 1)
        yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)


def _leave() -> None:
    """At its end JAX would wait for the process that is gone, for minutes, and then abort."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(LOST)
