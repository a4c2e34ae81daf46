"""A state that is not finite is reported with its sample and window, never silently trained on.

Not-finite values stay not finite through the scan, so inside a compiled training step it is enough to look at
the final state (`stop_if_divergent`, or the loss itself). Only when it has happened is it worth finding out
where: `explain_divergence` solves again, keeping every window.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..fields import AbstractControlledField
from .log_ode import solve


class DivergenceError(FloatingPointError):
    """A state is not finite. `sample` and `window` say where it first happened."""

    def __init__(self, message: str, *, sample: int, window: int):
        super().__init__(message)
        self.sample, self.window = sample, window


def stop_if_divergent(z: Float[Array, "..."]) -> Float[Array, "..."]:
    """Returns z; inside `jit`, raises an error at run time if z is not finite.

    >>> import jax.numpy as jnp
    >>> stop_if_divergent(jnp.ones(2)).tolist()
    [1.0, 1.0]
    """
    return eqx.error_if(
        z,
        ~jnp.isfinite(z).all(),
        "The solve diverged: a state is not finite. `explain_divergence` names the sample and window.",
    )


def explain_divergence(
    field: AbstractControlledField,
    z0: Float[Array, "batch state"],
    log_signatures: Float[Array, "batch windows controls"],
    **options,
) -> None:
    """Solve a batch again and raise `DivergenceError` at the first window after which a state is not finite.

    Returns None if all is well. `options` are those of `solve`: `solver` and `substeps`.

    >>> import jax, jax.numpy as jnp
    >>> from neuralrde.fields import MatrixField
    >>> explosive = MatrixField(lambda z: (z**2)[:, None], state=1, controls=1)
    >>> explain_divergence(explosive, jnp.ones((2, 1)), jnp.zeros((2, 5, 1)).at[1].set(50.0))
    Traceback (most recent call last):
        ...
    neuralrde.solvers.divergence.DivergenceError: The solve diverged: sample 1 is not finite after window ...
    """
    one = lambda z0, log_signatures: solve(field, z0, log_signatures, every_window=True, **options)
    states: np.ndarray = np.asarray(eqx.filter_jit(jax.vmap(one))(z0, log_signatures))
    broken: Any = ~np.isfinite(states).all(axis=-1)  # (batch, windows + 1)
    if not broken.any():
        return
    first = np.where(broken.any(axis=1), broken.argmax(axis=1), broken.shape[1])
    sample, window = int(first.argmin()), int(first.min()) - 1
    windows = broken.shape[1] - 1
    if window < 0:
        raise DivergenceError(
            f"The initial state of sample {sample} is not finite already, before any window. Look at the "
            "sample's first values, or at the weights of the encoder.",
            sample=sample,
            window=0,
        )
    driving = np.asarray(log_signatures[sample, window])
    if not np.isfinite(driving).all():
        channel = int((~np.isfinite(driving)).argmax())
        why = f"Its log-signature is {driving[channel]} in channel {channel}: look at the data, not the model."
    else:
        why = (
            f"Its log-signature is finite, at most {np.abs(driving).max():.3g}: the field runs away. Scale "
            "the log-signatures (`model.fit_scale`), lower the learning rate, clip the gradients, or use "
            "more `substeps`."
        )
    raise DivergenceError(
        f"The solve diverged: sample {sample} is not finite after window {window} of {windows} (counted from 0). {why}",
        sample=sample,
        window=window,
    )
