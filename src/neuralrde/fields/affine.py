"""Affine autonomous fields z' = A z + b and their exact flows z -> E z + c.

Three kinds: dense or block-diagonal, diagonal, and rotations of pairs. Flows compose associatively, so that a long
series can be solved in parallel over time (`neuralrde.solvers.exponential`).
"""

from abc import abstractmethod
from typing import Self

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ._expm import affine_flow, augmented, expm, phi, phi_of_pair


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
        """The map from the state before the window to the state after it, for solving in parallel."""

    def advance(self, z: Float[Array, " state"]) -> Float[Array, " state"]:
        """The state after the window, from the state before it."""
        return self.flow()(z)


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

    def advance(self, z):
        return affine_flow(self.matrix, self.offset, z.reshape(self.offset.shape)).reshape(-1)

    def flow(self) -> BlockFlow:
        size = self.offset.shape[-1]
        exponential = jax.vmap(expm)(augmented(self.matrix, self.offset))  # one exponential gives the whole flow
        return BlockFlow(exponential[:, :size, :size], exponential[:, :size, size])


class DiagonalFlow(AbstractFlow):
    """A factor for each state."""

    factor: Float[Array, "*steps state"]
    offset: Float[Array, "*steps state"]

    def __call__(self, z):
        return self.factor * z + self.offset

    def then(self, later):
        return DiagonalFlow(later.factor * self.factor, later.factor * self.offset + later.offset)


class DiagonalAffine(AbstractAffine):
    rate: Float[Array, " state"]
    offset: Float[Array, " state"]

    def __call__(self, z):
        return self.rate * z + self.offset

    def flow(self) -> DiagonalFlow:
        return DiagonalFlow(jnp.exp(self.rate), phi(self.rate) * self.offset)


class RotationFlow(AbstractFlow):
    """A rotation and a growth for each pair of states, (first, second): multiplication by a complex number.

    Written out in real numbers, which XLA vectorises on a CPU; complex ones it does not, and was ten times slower.
    """

    first: Float[Array, "*steps pairs"]
    second: Float[Array, "*steps pairs"]
    offset: Float[Array, "*steps state"]

    def __call__(self, z):
        return complex_product(self.first, self.second, z) + self.offset

    def then(self, later):
        first = later.first * self.first - later.second * self.second
        second = later.first * self.second + later.second * self.first
        return RotationFlow(first, second, complex_product(later.first, later.second, self.offset) + later.offset)


class RotationAffine(AbstractAffine):
    growth: Float[Array, " pairs"]
    turning: Float[Array, " pairs"]
    offset: Float[Array, " state"]

    def __call__(self, z):
        return complex_product(self.growth, self.turning, z) + self.offset

    def flow(self) -> RotationFlow:
        size = jnp.exp(self.growth)
        first, second = size * jnp.cos(self.turning), size * jnp.sin(self.turning)
        return RotationFlow(first, second, complex_product(*phi_of_pair(self.growth, self.turning), self.offset))


def complex_product(first: Array, second: Array, z: Array) -> Array:
    """(first + i second) times a state whose first half are real parts and whose second half imaginary ones."""
    real, imaginary = jnp.split(z, 2, axis=-1)
    return jnp.concatenate([first * real - second * imaginary, first * imaginary + second * real], axis=-1)
