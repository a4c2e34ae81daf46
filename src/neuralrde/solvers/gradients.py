"""How a solve is differentiated: four objects that carry the state through all windows.

| | gradient | memory for m windows |
|---|---|---|
| `Recompute()` | exact, of any order | m states |
| `Nested()` | exact, of any order | about 2 sqrt(m) states |
| `Direct()` | exact, of any order | everything |
| `Backsolve()` | the paper's continuous adjoint, approximate, of first order in reverse mode | one state |

Exact gradients work in forward mode too. The exception is a `LinearField` solved by `Exponential()`: the length of its
loops depends on the data, so only reverse mode works (of any order).
"""

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from ..fields import AbstractControlledField, Autonomous

States = Float[Array, "..."]
# (autonomous field, state) -> the state after unit time. Backsolve also flows trees of arrays.
Advance = Callable[..., Any]


class AbstractGradient(eqx.Module):
    left_to_jax: eqx.AbstractClassVar[bool]
    """Whether a step is left to JAX's own rules, which keep everything."""

    @abstractmethod
    def integrate(
        self, advance: Advance, field: AbstractControlledField, z0: States, log_signatures: States, every_window: bool
    ) -> States:
        """The final state, or the states after every window, (windows, state)."""


class Recompute(AbstractGradient):
    """Exact gradients at the memory of the adjoint method.

    Only one state per window is kept, and each window is computed again on the way back. This is faster than keeping
    everything, because the memory traffic would cost more than the work.
    """

    left_to_jax: ClassVar[bool] = False

    def integrate(self, advance, field, z0, log_signatures, every_window):
        window = _window(advance, field, every_window)

        @jax.checkpoint
        def read_and_advance(z, window_and_probe):
            return window(z, _read_window(log_signatures, *window_and_probe))

        return _scan(read_and_advance, z0, _windows_and_probes(log_signatures), every_window)


class Direct(AbstractGradient):
    """Exact gradients that keep everything. For short series, and to check the others."""

    left_to_jax: ClassVar[bool] = True

    def integrate(self, advance, field, z0, log_signatures, every_window):
        return _scan(_window(advance, field, every_window), z0, log_signatures, every_window)


class Nested(AbstractGradient):
    """Exact gradients for very long series: recomputation inside recomputation.

    Args:
        levels: levels of recomputation. Memory is about levels · windows^(1/levels) states, at the cost of levels - 1
            more forward passes.
    """

    levels: int = 2
    left_to_jax: ClassVar[bool] = False

    def __check_init__(self):
        if self.levels < 1:
            raise ValueError(f"Got levels={self.levels}; expected at least 1. Write `Nested(levels=2)`.")

    def integrate(self, advance, field, z0, log_signatures, every_window):
        total, window = log_signatures.shape[0], _window(advance, field, every_window)

        @jax.checkpoint
        def read_and_advance(z, window_and_probe):
            # Windows added to fill the last chunk have zero log-signatures, and leave the state where it was.
            log_signature = _read_window(log_signatures, *window_and_probe)
            return window(z, jnp.where(window_and_probe[0] < total, log_signature, 0.0))

        def nested(z, inputs, levels):
            if levels == 1:
                return jax.lax.scan(read_and_advance, z, inputs)
            windows = inputs[0].shape[0]
            inner = max(round(windows ** ((levels - 1) / levels)), 1)
            outer = -(-windows // inner)
            numbers = jnp.pad(inputs[0], (0, outer * inner - windows), constant_values=total)
            probes = jnp.pad(inputs[1], ((0, outer * inner - windows), (0, 0)))
            chunks = numbers.reshape(outer, inner), probes.reshape(outer, inner, -1)
            chunk = jax.checkpoint(lambda z, chunk: nested(z, chunk, levels - 1))
            z, states = jax.lax.scan(chunk, z, chunks)
            return z, states.reshape(outer * inner, -1)[:windows] if every_window else None

        final, states = nested(z0, _windows_and_probes(log_signatures), self.levels)
        return states if every_window else final


class Backsolve(AbstractGradient):
    """The continuous adjoint of the paper (Chen et al., 2018).

    On the way back the state is integrated in reverse, together with its adjoint and the gradients of the
    weights and log-signatures.

    The gradient is approximate. It converges to the exact one as substeps grow, and can drift where the field contracts
    strongly. Under `jax.vmap` it carries the weights' gradient of each sample. It is here for comparison; prefer
    `Recompute`.
    """

    left_to_jax: ClassVar[bool] = False

    def integrate(self, advance, field, z0, log_signatures, every_window):
        # Statistics too: `eqx.filter_grad` traces them, and a custom rule must not close over a trace.
        weights, static = eqx.partition(field, eqx.is_inexact_array)

        def slope(weights, log_signature, z):
            return eqx.combine(weights, static).contract(log_signature)(z)

        def forward(weights, z0, log_signatures):
            return _scan(_window(advance, eqx.combine(weights, static), every_window), z0, log_signatures, every_window)

        def backward(saved, cotangents):
            weights, log_signatures, states = saved

            def window(carry, inputs):
                z, adjoint, gradient = carry
                log_signature, end, cotangent = inputs
                if every_window:
                    z, adjoint = end, adjoint + cotangent

                def reverse(augmented):
                    z, adjoint, _, _ = augmented
                    dz, pull_back = jax.vjp(slope, weights, log_signature, z)
                    to_weights, to_log_signature, to_z = pull_back(adjoint)
                    return -dz, to_z, to_weights, to_log_signature

                start = (z, adjoint, gradient, jnp.zeros_like(log_signature))
                z, adjoint, gradient, to_log_signature = advance(reverse, start)
                return (z, adjoint, gradient), to_log_signature

            zeros = jax.tree.map(jnp.zeros_like, weights)
            if every_window:
                start = (states[-1], jnp.zeros_like(states[-1]), zeros)
                inputs = (log_signatures, states, cotangents)
            else:
                start, inputs = (states, cotangents, zeros), (log_signatures, None, None)
            (_, adjoint, gradient), to_log_signatures = jax.lax.scan(window, start, inputs, reverse=True)
            return gradient, adjoint, to_log_signatures

        def keep(weights, z0, log_signatures):
            states = forward(weights, z0, log_signatures)
            return states, (weights, log_signatures, states)

        integrate = jax.custom_vjp(forward)
        integrate.defvjp(keep, backward)
        return integrate(weights, z0, log_signatures)


def _window(advance: Advance, field: AbstractControlledField, every_window: bool) -> Callable:
    def window(z: States, log_signature: States):
        contracted: Autonomous = field.contract(log_signature)
        z = advance(contracted, z)
        return z, z if every_window else None

    return window


def _scan(window: Callable, z0: States, inputs: Any, every_window: bool) -> States:
    final, states = jax.lax.scan(window, z0, inputs)
    return states if every_window else final


# Reading a window of a batch where it lies. A scan takes its inputs apart along their first axis, so under `jax.vmap`
# JAX moves the batch behind the windows: a copy of all log-signatures, often the largest array of a training step.
# Scanning over the windows' *numbers* and reading each window from where it lies needs no copy, but JAX would then add
# a gradient the size of the whole array at every window. Here the derivative of a window is that of a scan input on
# which no value depends, a probe; the derivatives of the probes are those of the log-signatures. On the way back the
# scan stacks them. Where nobody asks for that gradient, which is nearly always, the probes are dead code.

_LogSignatures = Float[Array, "windows controls"]


def _windows_and_probes(log_signatures: _LogSignatures) -> tuple[Int[Array, " windows"], _LogSignatures]:
    """What to scan over: the windows' numbers, and probes. Hand both to `_read_window`."""
    return jnp.arange(log_signatures.shape[0]), _probes(log_signatures)


@jax.custom_jvp
def _read_window(
    log_signatures: _LogSignatures, window: Int[Array, ""], probe: Float[Array, " controls"]
) -> Float[Array, " controls"]:
    """The log-signature of one window."""
    return jax.lax.dynamic_index_in_dim(log_signatures, window, keepdims=False)


@_read_window.defjvp
def _read_window_jvp(primals, tangents):
    return _read_window(*primals), tangents[2]


@jax.custom_jvp
def _probes(log_signatures: _LogSignatures) -> _LogSignatures:
    # Any numbers would do, but they must depend on the argument: zeros would not be batched by `jax.vmap` where their
    # derivatives are, and a loop over an ensemble's members could not be differentiated (seen with JAX 0.10).
    return jnp.broadcast_to(log_signatures[:1, :1], log_signatures.shape)


@_probes.defjvp
def _probes_jvp(primals, tangents):
    return _probes(*primals), tangents[0]
