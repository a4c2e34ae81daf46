"""Linear fields beside the nonlinear one on the same data; in parallel over time beside one window after the other."""

from collections.abc import Callable
from functools import partial

import numpy as np

from ..timing import milliseconds, table
from .processes import Run, race
from .training_steps import CHANNELS, STATE, Arrays, make_data, make_weights, ours, training_step


def linear(kind: str, data: Arrays, *, parallel: bool) -> Run:
    import jax

    from neuralrde.devices import use_all_cores
    from neuralrde.fields import DiagonalField, LinearField, RotationField
    from neuralrde.models import NeuralRDE
    from neuralrde.solvers import Exponential

    use_all_cores()
    controls, key = data["logs"].shape[-1], jax.random.key(0)
    field = {
        "diagonal": lambda: DiagonalField(controls, STATE, key=key),
        "rotations": lambda: RotationField(controls, STATE, key=key),
        "blocks of 4": lambda: LinearField(CHANNELS, STATE, 2, block=4, key=key),
    }[kind]()
    model = NeuralRDE(CHANNELS, 1, depth=2, field=field, solver=Exponential(parallel=parallel), key=key)
    place, step = training_step(model, data)
    placed = place(data)
    return lambda: np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(step(placed)[1])])


def main(batch: int = 181) -> None:
    print(f"# Linear fields: batch {batch}, depth 2, state {STATE}")
    data = make_data(batch, 2)
    kinds = ["diagonal", "rotations", "blocks of 4"]
    ways: dict[str, Callable] = {"nonlinear": partial(ours, make_weights(2), data, 2)}
    for kind in kinds:
        for order in ("parallel", "sequential"):
            ways[f"{kind}, {order}"] = partial(linear, kind, data, parallel=order == "parallel")
    gradients = {}
    found = race(ways, check=gradients.update)
    rows = [["nonlinear", "-", milliseconds(found["nonlinear"][0]), "1", "-"]]
    for kind in kinds:
        names = [f"{kind}, parallel", f"{kind}, sequential"]
        one, other = (gradients[name] for name in names)
        off = np.linalg.norm(one - other) / np.linalg.norm(other)
        assert off < 1e-4, (kind, off)
        times = [found[name][0] for name in names]
        times_faster = found["nonlinear"][0] / min(times)
        rows.append([kind, *map(milliseconds, times), f"{times_faster:.1f}", f"{off:.0e}"])
    print("\n" + table(["linear fields, ms", "parallel", "sequential", "times faster", "gradients apart"], rows))
