"""A small task for the tests: which of two channels moved first, as log-signatures."""

import jax
import numpy as np

from neuralrde.datasets import order_of_events
from neuralrde.models import MeanState, NeuralRDE
from neuralrde.signatures import log_signatures
from neuralrde.training import AdamW, CrossEntropy, Examples, Settings, accuracy

SETTINGS = Settings(epochs=6, batch_size=16, optimizer=AdamW(learning_rate=1e-2))


def task(samples=48, step=16):
    data = order_of_events(samples=samples, length=64, events=4, noise=0.05)
    path = data.series.values
    windows = np.asarray(log_signatures(path, 2, step=step), np.float32)
    return Examples((path[:, 0].astype(np.float32), windows), data.target.astype(np.int32))


def model(seed=0, **options):
    options = {"readout": MeanState(), "state": 4, "width": 8, "layers": 1, "outputs": 2} | options
    return NeuralRDE(2, depth=2, key=jax.random.key(seed), **options)


def arguments():
    """Model and data for `fit`, as a training in all tests."""
    examples = task()
    training, validation = examples.take(slice(0, 36)), examples.take(slice(36, None))
    start = model().fit_scale(training.inputs[1])
    return (start, training), {"validation": validation, "loss": CrossEntropy(), "metric": accuracy}
