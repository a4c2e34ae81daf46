"""How long the first training step of each model takes: tracing and compiling, in a fresh process without a cache."""

import multiprocessing
import os
import time
from typing import Any

from ..timing import table

SAMPLES, WINDOWS, CHANNELS = 32, 50, 3
MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "NeuralRDE, depth 2": ("NeuralRDE", {"depth": 2}),
    "NeuralRDE, depth 3": ("NeuralRDE", {"depth": 3}),
    "LogNCDE, depth 2": ("LogNCDE", {"depth": 2}),
    "LinearRDE, depth 2": ("LinearRDE", {"depth": 2}),
}


def first_and_second(name: str, options: dict[str, Any]) -> tuple[float, float]:
    """Seconds of two trainings of one step each. The second takes what the first compiled."""
    import jax
    import numpy as np

    from neuralrde import models
    from neuralrde.signatures import log_signature_channels
    from neuralrde.training import Examples, Settings, SquaredError, fit

    rng = np.random.default_rng(0)
    controls = log_signature_channels(CHANNELS, options["depth"])
    windows = 0.1 * rng.normal(size=(SAMPLES, WINDOWS, controls)).astype(np.float32)
    targets = rng.normal(size=(SAMPLES, 1)).astype(np.float32)
    examples = Examples((windows[:, 0, :CHANNELS], windows), targets)
    model = getattr(models, name)(CHANNELS, 1, key=jax.random.key(0), **options)
    seconds = []
    for _ in range(2):
        begin = time.perf_counter()
        fit(model, examples, loss=SquaredError(), settings=Settings(epochs=1, batch_size=SAMPLES))
        seconds.append(time.perf_counter() - begin)
    return seconds[0], seconds[1]


def main() -> None:
    print(f"# Compile times: a training step, batch {SAMPLES}, {WINDOWS} windows, {CHANNELS} channels")
    os.environ["JAX_ENABLE_COMPILATION_CACHE"] = "false"
    rows = []
    for title, (name, options) in MODELS.items():
        with multiprocessing.get_context("spawn").Pool(1) as process:  # anew: nothing is compiled yet
            first, second = process.apply(first_and_second, (name, options))
        rows.append([title, f"{first:.1f}", f"{second:.2f}"])
    print("\n" + table(["model", "first step, s", "second step, s"], rows))
