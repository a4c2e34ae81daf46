"""Reading a window of a batch where it lies.

A scan takes its inputs apart along their first axis, so under `jax.vmap` JAX moves the batch behind the windows:
a copy of all log-signatures, often the largest array of a training step. Scanning over the windows' *numbers*
and reading each window from where it lies needs no copy, but JAX would then add a gradient the size of the whole
array at every window. Here the derivative of a window is that of a scan input on which no value depends, a probe; the
derivatives of the probes are those of the log-signatures. On the way back the scan stacks them. Where nobody asks for
that gradient, which is nearly always, the probes are dead code.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

Windows = Float[Array, "windows controls"]


def windows_and_probes(log_signatures: Windows) -> tuple[Int[Array, " windows"], Windows]:
    """What to scan over: the windows' numbers, and probes. Hand both to `read_window`."""
    return jnp.arange(log_signatures.shape[0]), _probes(log_signatures)


@jax.custom_jvp
def read_window(
    log_signatures: Windows, window: Int[Array, ""], probe: Float[Array, " controls"]
) -> Float[Array, " controls"]:
    """The log-signature of one window."""
    return jax.lax.dynamic_index_in_dim(log_signatures, window, keepdims=False)


@read_window.defjvp
def _read_window_jvp(primals, tangents):
    return read_window(*primals), tangents[2]


@jax.custom_jvp
def _probes(log_signatures: Windows) -> Windows:
    return jnp.zeros_like(log_signatures)


@_probes.defjvp
def _probes_jvp(primals, tangents):
    return _probes(*primals), tangents[0]
