"""Affine autonomous fields z' = A z + b and their exact flows z -> E z + c.

Two kinds: dense or block-diagonal, and diagonal. Flows compose associatively, so that a long series can be
solved in parallel over time (`neuralrde.solve.exponential`).
"""

from abc import abstractmethod
from typing import Self

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Complex, Float

from .expm import expm, phi


class AbstractFlow(eqx.Module):
    """An affine map of the state: where the flow of a window, or of many, takes it."""

    @abstractmethod
    def __call__(self, z: Float[Array, " state"]) -> Float[Array, " state"]:
        """The state after this flow."""

    @abstractmethod
    def then(self, later: Self) -> Self:
        """This flow followed by a later one."""


class AbstractAffine(eqx.Module):
    """An affine autonomous field. `flow` solves it exactly over unit time (appendix B of the paper)."""

    @abstractmethod
    def __call__(self, z: Float[Array, " state"]) -> Float[Array, " state"]:
        """dz/du."""

    @abstractmethod
    def flow(self) -> AbstractFlow:
        """The map from the state before the window to the state after it."""


class BlockFlow(AbstractFlow):
    matrix: Float[Array, "*steps blocks size size"]
    offset: Float[Array, "*steps blocks size"]

    def __call__(self, z):
        blocks = z.reshape(self.offset.shape)
        return (jnp.einsum("kij,kj->ki", self.matrix, blocks) + self.offset).reshape(-1)

    def then(self, later):
        offset = jnp.einsum("...kij,...kj->...ki", later.matrix, self.offset) + later.offset
        return BlockFlow(later.matrix @ self.matrix, offset)


class BlockAffine(AbstractAffine):
    matrix: Float[Array, "blocks size size"]
    offset: Float[Array, "blocks size"]

    def __call__(self, z):
        blocks = z.reshape(self.offset.shape)
        return (jnp.einsum("kij,kj->ki", self.matrix, blocks) + self.offset).reshape(-1)

    def flow(self) -> BlockFlow:
        # [[A, b], [0, 0]] acts on (z, 1) as the affine field does, so one exponential gives its whole flow.
        size = self.offset.shape[-1]
        augmented = jnp.concatenate([self.matrix, self.offset[..., None]], axis=-1)
        augmented = jnp.pad(augmented, ((0, 0), (0, 1), (0, 0)))
        exponential = jax.vmap(expm)(augmented)
        return BlockFlow(exponential[:, :size, :size], exponential[:, :size, size])


class DiagonalFlow(AbstractFlow):
    """One factor a state; complex ones, one a pair of states (first all real parts, then all imaginary)."""

    factor: Float[Array, "*steps modes"] | Complex[Array, "*steps modes"]
    offset: Float[Array, "*steps modes"] | Complex[Array, "*steps modes"]

    def __call__(self, z):
        return from_modes(self.factor * to_modes(z, self.factor) + self.offset)

    def then(self, later):
        return DiagonalFlow(later.factor * self.factor, later.factor * self.offset + later.offset)


class DiagonalAffine(AbstractAffine):
    rate: Float[Array, " modes"] | Complex[Array, " modes"]
    offset: Float[Array, " modes"] | Complex[Array, " modes"]

    def __call__(self, z):
        return from_modes(self.rate * to_modes(z, self.rate) + self.offset)

    def flow(self) -> DiagonalFlow:
        return DiagonalFlow(jnp.exp(self.rate), phi(self.rate) * self.offset)


def to_modes(z: Float[Array, " state"], like: Array) -> Array:
    if not jnp.iscomplexobj(like):
        return z
    real, imaginary = jnp.split(z, 2)
    return jax.lax.complex(real, imaginary)


def from_modes(modes: Array) -> Float[Array, " state"]:
    if not jnp.iscomplexobj(modes):
        return modes
    return jnp.concatenate([modes.real, modes.imag])
