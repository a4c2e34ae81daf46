"""What one process, or each of several, computes; with the same results: `python -m tests.distributed.work FOLDER`.

Its place among several is in the environment: COORDINATOR, COUNT, NUMBER.
"""

import os
import sys
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import numpy as np

from neuralrde import Windows
from neuralrde.datasets import order_of_events
from neuralrde.models import AbstractModel
from neuralrde.processes import Processes, join_processes
from neuralrde.training import AdamW, Examples, Settings, SquaredError, TrainingState, fit, predict

from ..training.examples import SETTINGS, arguments

# Of a training that is interrupted, killed and resumed; with a checkpoint after every epoch.
LONG = {
    "loss": SquaredError(),
    "settings": Settings(epochs=24, batch_size=8, save_every=0.0),
}  # fmt: skip


class Line(AbstractModel):
    """A model that compiles in no time. The keys of dropout show that every example has its own."""

    linear: eqx.nn.Linear
    takes_key = True

    def inputs(self, path, times, cuts):
        return (path[:, 0],)

    def __call__(self, x, *, key=None):
        return self.linear(x if key is None else x + 0.1 * jax.random.normal(key, x.shape))


class Step(eqx.Module):
    """A loss that is not finite for weights that have gone too far."""

    limit: float

    def __call__(self, prediction, target):
        loss = ((prediction - target) ** 2).sum()
        return jax.numpy.where(loss > self.limit, jax.numpy.nan, loss)


def line() -> Line:
    return Line(eqx.nn.Linear(3, 1, key=jax.random.key(0)))


def examples(count: int = 21, seed: int = 0, weight: Any = None) -> Examples:
    x = np.random.default_rng(seed).normal(size=(count, 3)).astype(np.float32)
    return Examples((x,), x.sum(1, keepdims=True), weight=weight)


def series(seed: int = 3) -> Any:
    return order_of_events(samples=40, length=32, events=4, seed=seed)


def quick_settings() -> dict[str, Any]:
    """Of an ensemble that compiles quickly; the default one takes minutes."""
    return {"model": "neural-rde", "members": 2, "epochs": 2, "windows": Windows(step=16, depth=1)}


def results(folder: Path) -> dict[str, Any]:
    """Numbers that do not depend on the number of processes."""
    found: dict[str, Any] = {}

    def keep(name: str, state: TrainingState) -> None:
        found[f"{name}.weights"] = np.concatenate([np.ravel(leaf) for leaf in _arrays(state.model)])
        found[f"{name}.best"] = np.concatenate([np.ravel(leaf) for leaf in _arrays(state.best)])
        found[f"{name}.losses"] = np.array([record["monitored"] for record in state.history])
        found[f"{name}.epochs"] = state.epoch

    # A model of ours, with a validation set; 36 examples in batches of 16, so the last batch is padded.
    (model, training), options = arguments()
    state = fit(model, training, **options, settings=SETTINGS)
    keep("rde", state)
    found["rde.predictions"] = predict(state.best, options["validation"])
    found["rde.few"] = predict(state.best, options["validation"].take([3]))

    # Keys, weights, and a batch in which nothing counts.
    weight = np.where(np.arange(8) < 4, 0.0, np.arange(8)).astype(np.float32)
    some = {"loss": SquaredError(), "settings": Settings(epochs=6, batch_size=2)}
    keep("weights", fit(line(), examples(8, weight=weight), **some))

    # Interrupted and resumed.
    whole = {"loss": SquaredError(), "settings": Settings(epochs=6, batch_size=8), "validation": examples(9, 1)}
    keep("whole", fit(line(), examples(), **whole))
    file = folder / "checkpoint.nrde"
    fit(line(), examples(), **whole, until=3, checkpoint=file)
    keep("resumed", fit(line(), examples(), **whole, checkpoint=file, resume=True))

    # What decides: a loss that is not finite, a time budget, patience.
    fast = replace(whole["settings"], optimizer=AdamW(learning_rate=3.0))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        state = fit(line(), examples(), **whole | {"settings": fast, "loss": Step(30.0)})
    keep("rollback", state)
    found["rollback.factor"] = state.rate_factor
    short = replace(whole["settings"], time_budget=1e-9 if jax.process_index() == 0 else 1e9)
    keep("budget", fit(line(), examples(), **whole | {"settings": short}))
    hasty = replace(whole["settings"], epochs=40, patience=1, optimizer=AdamW(learning_rate=0.5))
    keep("patience", fit(line(), examples(), **whole | {"settings": hasty}))

    # The long training as a whole; and from where one process has left it.
    keep("long", fit(line(), examples(), **LONG))
    keep("from one", fit(line(), examples(), **LONG, checkpoint=folder / "one.nrde", resume=True))

    # An estimator, with an ensemble and the closed form.
    from neuralrde import NeuralRDEClassifier

    data = series()
    classifier = NeuralRDEClassifier(**quick_settings(), random_state=0)
    classifier.fit(data.series.values, data.target)
    found["classifier.blend"] = np.array(classifier.blend_)
    found["classifier.probabilities"] = classifier.predict_proba(series(4).series.values)

    # From a store.
    from neuralrde.tools.stores import prepare

    place = folder / f"process-{jax.process_index()}"
    place.mkdir()
    np.save(place / "x.npy", data.series.values)
    np.save(place / "y.npy", data.target)
    options = {"labels": place / "y.npy", "task": "classification", "windows": Windows(step=16, depth=1)}
    store = prepare(place / "x.npy", place / "store", model="neural-rde", **options)
    stored = NeuralRDEClassifier(model="neural-rde", epochs=2, batch_size=16, random_state=0).fit(store)
    found["store.probabilities"] = stored.predict_proba(store)
    return found


def alone_and_together(found: dict[str, Any]) -> None:
    """What only several processes can show."""
    number, processes = jax.process_index(), Processes()
    found["sum"] = processes.sum(number + 1.0, 0.5)
    found["agree"] = repr(processes.agree({"number": number, "text": "x" * 1000}))
    for raised in (ValueError("from the first"), None):

        def make(raised=raised):
            if raised is not None:
                raise raised
            return jax.process_index()

        try:
            found["from_first"] = processes.from_first(make)
        except ValueError as error:
            found["error"] = str(error)
    # Another number of examples, and other examples, are noticed in all processes.
    for name, other in (("length", examples(20 + number)), ("data", examples(20, seed=number))):
        try:
            fit(line(), other, loss=SquaredError())
        except ValueError as error:
            found[f"differing.{name}"] = str(error)
    # With its own devices a process trains alone, on what it likes.
    own = {"loss": SquaredError(), "settings": Settings(epochs=2 + number), "mesh": jax.local_devices()}
    state = fit(line(), examples(20 + number, seed=number), **own)
    found["alone.epochs"] = state.epoch
    found["alone"] = predict(state.best, examples(5), mesh=jax.local_devices())
    try:
        others = [one for one in jax.devices() if one.process_index != number]
        predict(line(), examples(5), mesh=others)
    except ValueError as error:
        found["elsewhere"] = str(error)
    # Without a seed each would draw its own: they agree on one.
    from neuralrde import NeuralRDEClassifier

    data = series()
    one = NeuralRDEClassifier(**quick_settings(), random_state=None)
    found["unseeded"] = one.fit(data.series.values, data.target).predict_proba(data.series.values)


def _arrays(model: Any) -> list[np.ndarray]:
    return [np.asarray(leaf) for leaf in jax.tree.leaves(eqx.filter(model, eqx.is_array))]


def join() -> None:
    join_processes(os.environ["COORDINATOR"], int(os.environ["COUNT"]), int(os.environ["NUMBER"]), patience=10)


if __name__ == "__main__":
    join()
    folder = Path(sys.argv[1])
    found = results(folder)
    alone_and_together(found)
    np.savez(folder / f"{jax.process_index()}.npz", **{k: np.asarray(v) for k, v in found.items()})
