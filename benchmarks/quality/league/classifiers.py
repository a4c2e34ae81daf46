"""Who plays: our classifiers and their peers, each by a short name and with its defaults.

A classifier is a function of training series, their labels, test series and a seed. Peers get the same series.
"""

import importlib.metadata
import json
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from neuralrde import Series
from neuralrde.paths import concatenate

from .grid import on_grid

ENVIRONMENT = Path(__file__).parents[3] / ".venv-league"
PEER = Path(__file__).with_name("peer.py")


class Absent(Exception):
    """A classifier that cannot play, and why."""


@dataclass(frozen=True, eq=False)
class Outcome:
    """Predicted labels, probabilities of the classes where there are any, and seconds."""

    predicted: np.ndarray
    fit_seconds: float
    predict_seconds: float
    probability: np.ndarray | None = None
    classes: tuple[str, ...] = ()
    versions: dict[str, str] = field(default_factory=dict)


Run = Callable[..., Outcome]
"""Of training series, their labels, test series and a seed; and of `static`, the tables beside both, if any."""
# Those that take such tables.
TAKES_TABLES = ("closed-form", "neural")


@dataclass(frozen=True)
class Classifier:
    """A short name for tables and options, what it stands for, and how it is run."""

    name: str
    meaning: str
    run: Run


def ours(class_name: str, options: Callable[[], dict[str, Any]] = dict) -> Run:
    """An estimator of the library, which takes series as they are. Compilation is a part of fitting."""

    def run(train: Series, labels: np.ndarray, test: Series, seed: int, static: Any = (None, None)) -> Outcome:
        import jax

        from neuralrde import estimators

        if not hasattr(estimators, class_name):
            raise Absent(f"neuralrde.estimators has no {class_name}")
        model = getattr(estimators, class_name)(random_state=seed, **options())
        jax.clear_caches()  # else a second seed would profit from what the first has compiled
        begin = time.perf_counter()
        model.fit(train, labels, static=static[0])
        fitted = time.perf_counter()
        probability = model.predict_proba(test, static=static[1])
        done = time.perf_counter()
        classes = np.asarray(model.classes_)
        return Outcome(
            classes[probability.argmax(axis=1)],
            fitted - begin,
            done - fitted,
            np.asarray(probability, np.float64),
            tuple(map(str, classes)),
            {name: importlib.metadata.version(name) for name in ("jax", "numpy", "scikit-learn")},
        )

    return run


def options_before() -> dict[str, Any]:
    """The defaults with which the league began, written out, so that they stay when the defaults change."""
    from neuralrde import Config, NeuralRDE, Windows

    return {
        "model": Config(NeuralRDE, layers=2, readout="mean", solver="heun"),
        "transform": "standard",
        "windows": Windows(count=32, depth=2),
        "loss": "cross-entropy",
        "optimizer": "adamw",
        "epochs": None,
        "batch_size": 32,
        "validation_fraction": 0.15,
        "patience": 20,
    }


def on_statistics(make: Callable[[int], Any]) -> Run:
    """A classifier of scikit-learn on seven statistics per channel, for sets where probabilities matter."""

    def run(train: Series, labels: np.ndarray, test: Series, seed: int) -> Outcome:
        from neuralrde.tools.assessment import summary_statistics

        begin = time.perf_counter()
        model = make(seed).fit(summary_statistics(train), labels)
        fitted = time.perf_counter()
        probability = model.predict_proba(summary_statistics(test))
        predicting, classes = time.perf_counter() - fitted, model.classes_
        versions = {name: importlib.metadata.version(name) for name in ("numpy", "scikit-learn")}
        predicted = classes[probability.argmax(axis=1)]
        return Outcome(predicted, fitted - begin, predicting, probability, tuple(map(str, classes)), versions)

    return run


def boosting(seed: int) -> Any:
    from sklearn.ensemble import HistGradientBoostingClassifier

    return HistGradientBoostingClassifier(learning_rate=0.05, random_state=seed)


def logistic(seed: int) -> Any:
    """The penalty is chosen by cross-validation; what is missing becomes the mean."""
    from sklearn.impute import SimpleImputer
    from sklearn.linear_model import LogisticRegressionCV
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    chosen = LogisticRegressionCV(Cs=np.logspace(-4, 0, 5), scoring="neg_log_loss", max_iter=1000, random_state=seed)
    return make_pipeline(StandardScaler(), SimpleImputer(), chosen)


def seven_statistics(train: Series, labels: np.ndarray, test: Series, seed: int) -> Outcome:
    """Ridge on seven statistics per channel. Like ours, it takes series as they are; missing values are left out."""
    from neuralrde.datasets import Dataset
    from neuralrde.tools.assessment import cheap_model, summary_statistics

    classes, numbers = np.unique(labels, return_inverse=True)
    known = Dataset(train, numbers, classes=[str(name) for name in classes])
    begin = time.perf_counter()
    found = cheap_model(known, Dataset(test), seed=seed)
    done = time.perf_counter()
    summary_statistics(test)  # nearly all of predicting; the rest of the call was fitting
    predicting = time.perf_counter() - done
    versions = {name: importlib.metadata.version(name) for name in ("numpy", "scikit-learn")}
    return Outcome(np.asarray(found.predicted), max(0.0, done - begin - predicting), predicting, versions=versions)


def rocket(class_name: str, **options: Any) -> Run:
    """One of aeon's, which take one regular grid. Their ridge gives no probabilities."""

    def run(train: Series, labels: np.ndarray, test: Series, seed: int) -> Outcome:
        grid = on_grid(concatenate([train, test]))  # one grid for both, as long as the longest
        arrays = {"train": grid[: len(train)], "labels": labels, "test": grid[len(train) :]}
        return peer_process().ask(class_name, arrays, seed, options)

    return run


class PeerProcess:
    """The process that holds aeon ready. Its first answer comes when everything is compiled."""

    def __init__(self, python: Path):
        if not python.exists():
            raise Absent(f"there is no {python.parent.parent.name}; make it with `make {ENVIRONMENT.name}/ready`")
        # -I: not the modules that lie beside the file.
        command = [str(python), "-I", str(PEER)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.versions = self._answer()["versions"]

    def _answer(self) -> dict[str, Any]:
        line = self.process.stdout.readline()  # type: ignore
        if not line:
            raise RuntimeError(f"The peers' process ended with code {self.process.wait()}; see its message above.")
        return json.loads(line)

    def ask(self, name: str, arrays: dict[str, np.ndarray], seed: int, options: dict[str, Any]) -> Outcome:
        with tempfile.TemporaryDirectory() as folder:
            given, predicted = Path(folder, "arrays.npz"), Path(folder, "predicted.npy")
            np.savez(given, **arrays)  # type: ignore
            request = {"name": name, "seed": seed, "arrays": str(given), "predicted": str(predicted)}
            self.process.stdin.write(json.dumps(request | {"options": options}) + "\n")  # type: ignore
            self.process.stdin.flush()  # type: ignore
            answer = self._answer()
            if "error" in answer:
                raise RuntimeError(f"{name}: {answer['error']}")
            found = np.load(predicted, allow_pickle=False)
        return Outcome(found, answer["fit_seconds"], answer["predict_seconds"], versions=self.versions)


@cache
def peer_process() -> PeerProcess:
    return PeerProcess(ENVIRONMENT / "bin" / "python")


# In the order of the tables' columns.
CLASSIFIERS = {
    one.name: one
    for one in (
        Classifier("closed-form", "`LogSignatureClassifier()`", ours("LogSignatureClassifier")),
        Classifier("neural", "`NeuralRDEClassifier()`", ours("NeuralRDEClassifier")),
        Classifier(
            "neural-before",
            "`NeuralRDEClassifier()` with the defaults that it had when the league began",
            ours("NeuralRDEClassifier", options_before),
        ),
        Classifier(
            "statistics", "ridge on seven statistics per channel (`neuralrde.tools.assessment`)", seven_statistics
        ),
        Classifier("minirocket", "aeon's `MiniRocketClassifier()`", rocket("MiniRocketClassifier")),
        Classifier("multirocket", "aeon's `MultiRocketClassifier()`", rocket("MultiRocketClassifier")),
        Classifier("multirocket-hydra", "aeon's `MultiRocketHydraClassifier()`", rocket("MultiRocketHydraClassifier")),
        Classifier("boosting", "scikit-learn's gradient boosting on the seven statistics", on_statistics(boosting)),
        Classifier("logistic", "scikit-learn's logistic regression on the seven statistics", on_statistics(logistic)),
    )
}
