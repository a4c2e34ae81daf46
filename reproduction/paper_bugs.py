"""What the paper's code does wrong, each bug by name; the library has none of them.

The protocol `paper` and its variants have all of them, `corrected` has none. They were found in the authors' public
code, jambo6/neuralRDEs, in its first version (commit 96f3109) and later ones.
"""

from enum import Enum

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray


class Bug(Enum):
    TAIL_DROPPED = "The points after the last whole window are thrown away: 10 % of a BIDMC series at step 512."
    LAST_WINDOW_TWICE = "The solve runs to windows + 1, so the last window's log-signature is applied twice."
    SHARED_HIDDEN_LAYERS = "With 3 layers or more, the hidden layers are one object, `[layer] * n`: fewer weights."
    SWAPPED_SIZES = (
        "The number of layers and the multiplier of their width are swapped: only so do the numbers of weights in the "
        "appendix come out, all 54 of them."
    )
    ZERO_BLOCK = "Folding fills with zeros, and adds a whole block of them when the step divides the length."
    NO_SHUFFLING = "Every epoch sees the same batches in the same order, which the split has mixed once."
    MEAN_OVER_BATCHES = "The value reported is the mean of the batches' RMSE, by their sizes, which is not the RMSE."


# Not wrong, but not in the paper either. Both protocols keep these choices, except for the adjoint's gradients.
UNDOCUMENTED = {
    "log-signatures": "not scaled: channels differ in size by factors of 10,000",
    "initial weights": "PyTorch's uniform ones, biases too",
    "solver": "torchdiffeq's rk4 is the 3/8 rule, one step per window",
    "learning rate": "0.01 * 32 / batch, ten times what the paper says; ten times more for the last layer",
    "time": "standardised as the other channels, for neural CDEs and RDEs: from -1.7 to 1.7, not from 0 to 1 (that is "
    "`later`)",
    "gradients": "the main tables' by the adjoint, the search for sizes' exact; here exact, but for `adjoint`",
    "labels": "in their own units; BIDMC is trained on the batch's RMSE",
    "repeats": "the seeds 111, 222 and 333 change the initial weights only; the split is always the same",
    "split": "train and test set pooled, 70/15/15 at random, not stratified: windows of a recording are in all parts; "
    "the authors' rows are not known, ours are drawn in the same way",
}


def drop_tail(cuts: Int[np.ndarray, " cuts"], step: int) -> Int[np.ndarray, " whole"]:
    """TAIL_DROPPED: without the last window, if it is shorter than the others.

    >>> drop_tail(np.array([0, 4, 8, 9]), step=4)
    array([0, 4, 8])
    """
    if len(cuts) < 3 and cuts[-1] - cuts[0] < step:
        raise ValueError(
            f"Got series of {cuts[-1] + 1} points and step={step}; expected a step of at most {cuts[-1]}, because the "
            "paper's code would drop all of a series that fills no window. Write a smaller --step."
        )
    return cuts[:-1] if cuts[-1] - cuts[-2] < step else cuts


def repeat_last(log_signatures: Float[np.ndarray, "n windows channels"]) -> Float[np.ndarray, "n more channels"]:
    """LAST_WINDOW_TWICE, as what drives the solve."""
    return np.concatenate([log_signatures, log_signatures[:, -1:]], axis=1)


def fold_with_zeros(path: Float[np.ndarray, "n length channels"], step: int) -> Float[np.ndarray, "n blocks block"]:
    """ZERO_BLOCK.

    >>> fold_with_zeros(np.ones((1, 4, 1)), step=2).tolist()
    [[[1.0, 1.0], [1.0, 1.0], [0.0, 0.0]]]
    """
    missing = step - path.shape[1] % step  # never 0: this is the bug
    filled = np.pad(path, [(0, 0), (0, missing), (0, 0)])
    return filled.reshape(len(path), -1, step * path.shape[2])


class SharedTrunk(eqx.Module):
    """SHARED_HIDDEN_LAYERS: Linear, [ReLU, one Linear] x (layers - 1), tanh."""

    first: eqx.nn.Linear
    hidden: eqx.nn.Linear
    repeats: int = eqx.field(static=True)

    def __init__(self, state: int, width: int, layers: int, *, key: PRNGKeyArray):
        first_key, hidden_key = jax.random.split(key)
        self.first = eqx.nn.Linear(state, width, key=first_key)
        self.hidden = eqx.nn.Linear(width, width, key=hidden_key)
        self.repeats = layers - 1

    def __call__(self, z: Float[Array, " state"]) -> Float[Array, " width"]:
        z = self.first(z)
        for _ in range(self.repeats):
            z = self.hidden(jax.nn.relu(z))
        return jnp.tanh(z)


def mean_over_batches(predicted: np.ndarray, true: np.ndarray, batch: int) -> float:
    """MEAN_OVER_BATCHES: never more than the RMSE, and less where batches differ.

    >>> mean_over_batches(np.zeros(3), np.array([0.0, 0.0, 3.0]), batch=2)  # the RMSE is 1.73
    1.0
    """
    starts = range(0, len(true), batch)
    squared = [(predicted[i : i + batch] - true[i : i + batch]) ** 2 for i in starts]
    return float(np.average([np.sqrt(part.mean()) for part in squared], weights=[len(part) for part in squared]))
