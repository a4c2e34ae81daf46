"""Every field, entered once: a new field added here is tested with every solver and every gradient."""

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from neuralrde.fields import (
    AbstractField,
    BoundedField,
    BracketField,
    DiagonalField,
    FreeField,
    FreeLinearField,
    LinearField,
    MatrixField,
    RotationField,
)

CHANNELS, STATE, DEPTH = 2, 4, 3
CONTROLS = 5  # β(2, 3)
KEY = jax.random.key(1)

# Most of the time goes into compiling, and these programs are too small to gain from optimisation.
quick = functools.partial(jax.jit, compiler_options={"xla_backend_optimization_level": 0})


def _polynomial(z):
    """A smooth field without weights: z -> (4, 5)."""
    return jnp.stack([jnp.roll(z, i) * jnp.sin(z + i) for i in range(CONTROLS)], axis=1) / 3


# Built by calling, so that they take the precision that is set when a test runs.
AFFINE = {
    "linear": lambda: LinearField(CHANNELS, STATE, DEPTH, key=KEY),
    "block": lambda: LinearField(CHANNELS, STATE, DEPTH, block=2, key=KEY),
    "free_linear": lambda: FreeLinearField.random(CONTROLS, STATE, key=KEY),
    "diagonal": lambda: DiagonalField(CONTROLS, STATE, key=KEY),
    "rotation": lambda: RotationField(CONTROLS, STATE, turns=(0.5, 2.0), key=KEY),
}
FIELDS = {
    "free": lambda: FreeField(CONTROLS, STATE, width=6, layers=2, activation=jax.nn.silu, key=KEY),
    "bounded": lambda: BoundedField(CONTROLS, STATE, width=6, layers=1, activation=jax.nn.silu, key=KEY),
    "bracket": lambda: BracketField(
        FreeField(CHANNELS, STATE, width=3, layers=1, activation=jax.nn.silu, key=KEY), DEPTH
    ),
    "matrix": lambda: MatrixField(_polynomial, STATE, CONTROLS),
    **AFFINE,
}


def driving(windows: int, *, seed: int = 0, size: float = 0.3):
    """Log-signatures, or anything of their shape: fields do not ask where they come from."""
    return jnp.asarray(np.random.default_rng(seed).normal(size=(windows, CONTROLS)) * size)


def start():
    return jnp.asarray(np.random.default_rng(7).normal(size=STATE))


def make(name: str) -> AbstractField:
    return _make(name, jax.config.read("jax_enable_x64"))


@functools.cache
def _make(name: str, wide: bool) -> AbstractField:
    # Real numbers even when first asked for inside a trace: what is kept must not hold tracers.
    with jax.ensure_compile_time_eval(), jax.enable_x64(wide):
        return eqx.filter_jit(FIELDS[name])()
