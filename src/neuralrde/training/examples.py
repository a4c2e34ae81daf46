"""Examples: what a model is called with, and what it should have answered."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Shaped

from ..devices import pad_batch

Arrays = np.ndarray | Array


class Examples(eqx.Module):
    """A model's inputs, and what goes with them; the first axis of every array are the examples.

    Args:
        inputs: what the model is called with, `(x0, log_signatures)` for models driven by log-signatures,
            `(blocks,)` for the ODE-RNN.
        target: one for each example; or, with `EveryState()`, one for z0 and one after every window.
            A class below 0, or NaN, is a target that is not known and not trained on.
        windows: each example's own number of windows, where they were padded.
        weight: how much each example counts; None counts all alike.

    >>> examples = Examples((np.zeros((5, 3)), np.zeros((5, 10, 6))), np.array([0, 1, 1, 0, 1]))
    >>> len(examples), examples.take([0, 3]).target.tolist()
    (5, [0, 0])
    """

    inputs: tuple[Shaped[Arrays, "examples ..."], ...]
    target: Shaped[Arrays, "examples ..."] | None = None
    windows: Int[Arrays, " examples"] | None = None
    weight: Float[Arrays, " examples"] | None = None

    def __len__(self) -> int:
        return self.inputs[0].shape[0]

    def take(self, rows: Any) -> "Examples":
        """Some of the examples, by numbers, a slice or a mask."""
        rows = np.arange(len(self))[rows]
        return jax.tree.map(lambda leaf: leaf[rows], self)

    def predictions(self, model: Any) -> Float[Array, "examples *out outputs"]:
        """What the model answers."""

        def one(inputs, windows):
            return model(*inputs) if windows is None else model(*inputs, windows=windows)

        return jax.vmap(one)(self.inputs, self.windows)


def padded(examples: Examples, size: int) -> tuple[Examples, Float[np.ndarray, " size"]]:
    """A batch of `size` whatever comes, so that nothing is compiled twice; and how much each example counts."""
    batch, weights = pad_batch(examples, size)
    return batch, weights if batch.weight is None else (weights * np.asarray(batch.weight)).astype(np.float32)


def check_weights(examples: Examples, what: str) -> None:
    """Refuse weights with which a weighted mean would mean nothing; `what` the examples are, for the sentence."""
    if examples.weight is None:
        return
    with np.errstate(over="ignore"):
        weight = np.asarray(examples.weight, np.float32)  # as they are used
    if weight.shape != (len(examples),):
        raise ValueError(
            f"Got weights of shape {weight.shape} for the {what}; expected ({len(examples)},), one weight per example."
        )
    wrong = np.flatnonzero(~(np.isfinite(weight) & (weight >= 0)))
    if wrong.size:
        raise ValueError(
            f"Got the weight {weight[wrong[0]]:g} for example {wrong[0]} of the {what}; expected finite weights of 0 "
            "or more, because a weight says how much an example counts. Write 0 for one that should not count."
        )
    if not weight.any():
        raise ValueError(
            f"Got weights that are all 0 for the {what}; expected at least one above 0, because nothing else counts. "
            "Look at class_weight or sample_weight, if they were given."
        )


def targets_at_cuts(
    targets: Shaped[np.ndarray, "samples length *outputs"], cuts: Int[np.ndarray, "*samples cuts"]
) -> Shaped[np.ndarray, "samples cuts *outputs"]:
    """Of targets at every point those at the windows' ends, where a model with `EveryState()` answers.

    Two equal cuts are a window in which nothing happens (a series that has ended): its target counts as not
    known, so that nothing is counted twice.

    >>> targets_at_cuts(np.array([[0, 1, 2, 3, 4], [5, 6, 7, 7, 7]]), np.array([[0, 2, 4], [0, 2, 2]]))
    array([[ 0,  2,  4],
           [ 5,  7, -1]])
    """
    cuts = np.broadcast_to(cuts, (len(targets), np.shape(cuts)[-1]))
    rows = np.arange(len(targets))[:, None]
    chosen = np.array(targets[rows, cuts])
    chosen[:, 1:][np.diff(cuts, axis=1) == 0] = np.nan if chosen.dtype.kind == "f" else -1
    return chosen


def is_known(target: Any) -> Any:
    """Where there is a target: numbers that are not NaN, classes from 0."""
    return ~jnp.isnan(target) if jnp.issubdtype(target.dtype, jnp.floating) else target >= 0
