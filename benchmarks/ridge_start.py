"""Training that starts from a closed-form head, for `python -m benchmarks ablations`. The library does without it.

Before its first step, each member of an ensemble gets the linear head that ridge regression finds on the features of
its random initial weights, for the series that it learns from. The logits are calibrated by leaving series out.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from neuralrde.estimators.closed_form import calibrated
from neuralrde.estimators.features import Standardised
from neuralrde.estimators.ridge import Ridge
from neuralrde.estimators.run import Run
from neuralrde.models import Ensemble

_conditioned = Run._conditioned
# Series whose features are computed at once.
_PIECE = 64


def conditioned(run: Run, model: Any, training: Any) -> Any:
    """In place of `Run._conditioned`: the same model, each member with a head of its own."""
    model = _conditioned(run, model, training)
    if not isinstance(model, Ensemble):
        return model
    *inputs, fold = training.inputs
    target, classes = np.asarray(training.target), model.first.decoder.linear.out_features
    heads = []
    for number in range(model.number):
        member = jax.tree.map(lambda leaf, n=number: leaf[n] if eqx.is_array(leaf) else leaf, model.members)
        features = initial_features(member, inputs, training.windows)
        heads.append(head(features, target, classes, known=np.asarray(fold) != number))
    weights, biases = (jnp.asarray(np.stack(arrays), jnp.float32) for arrays in zip(*heads, strict=True))
    linear = lambda ensemble: (ensemble.members.decoder.linear.weight, ensemble.members.decoder.linear.bias)
    return eqx.tree_at(linear, model, (weights, biases))


def initial_features(member: Any, inputs: Any, windows: np.ndarray | None) -> np.ndarray:
    """What the member's head would see of each series."""

    @eqx.filter_jit
    @jax.vmap
    def of(x0, logs, count):
        return member.decoder.readout(member._features(x0, logs, count, None), count)

    x0, logs = inputs
    counts = np.full(len(x0), logs.shape[1]) if windows is None else np.asarray(windows)
    pieces = [slice(first, first + _PIECE) for first in range(0, len(x0), _PIECE)]
    return np.concatenate([np.asarray(of(x0[piece], logs[piece], counts[piece])) for piece in pieces])


def head(features: np.ndarray, target: np.ndarray, classes: int, *, known: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Weights `(classes, features)` and biases of the calibrated ridge classifier, from the known series only."""
    scale = Standardised.fit(features[known])
    labels = target[known]
    ridge = Ridge.fit(
        scale(features[known]),
        np.where(labels[:, None] == np.arange(classes), 1.0, -1.0),
        loss=lambda scores, rows: calibrated(scores, labels[rows])[1],
    )
    sharpness = calibrated(ridge.left_out, labels)[0]
    weights = sharpness * scale.factor[:, None] * ridge.coefficients
    return weights.T, sharpness * ridge.intercept - scale.mean @ weights
