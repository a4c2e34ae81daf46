"""aeon's classifiers, in a process and an environment of their own. `classifiers.py` starts this file and talks to it.

Every request is a line of JSON that names a classifier, a seed, a file of arrays and a file for the predictions. The
answer is a line with the seconds. Nothing of neuralrde is imported here.
"""

import importlib.metadata
import json
import sys
import time

import numpy as np

LIBRARIES = ("aeon", "numpy", "numba", "scikit-learn", "torch")


def fit_and_predict(name, train, labels, test, seed, **options):
    from aeon.classification import convolution_based

    model = getattr(convolution_based, name)(random_state=seed, **options)
    begin = time.perf_counter()
    model.fit(train, labels)
    fitted = time.perf_counter()
    predicted = model.predict(test)
    return predicted, fitted - begin, time.perf_counter() - fitted


def warm_up():
    """Compile with Numba, for one channel and for several, so that no compilation is timed."""
    rng = np.random.default_rng(0)
    for name in ("MiniRocketClassifier", "MultiRocketClassifier", "MultiRocketHydraClassifier"):
        for channels in (1, 3):
            series = rng.normal(size=(8, channels, 40)).astype(np.float32)
            fit_and_predict(name, series, np.arange(8) % 2, series, 0)


def main():
    # Whatever else is printed must not come between the answers.
    answers, sys.stdout = sys.stdout, sys.stderr
    answer = lambda **content: print(json.dumps(content), file=answers, flush=True)
    warm_up()
    answer(versions={name: importlib.metadata.version(name) for name in LIBRARIES})
    for request in map(json.loads, sys.stdin):
        try:
            with np.load(request["arrays"], allow_pickle=False) as given:
                train, labels, test = given["train"], given["labels"], given["test"]
            options = request["options"]
            predicted, fit, predict = fit_and_predict(request["name"], train, labels, test, request["seed"], **options)
            np.save(request["predicted"], predicted)
            answer(fit_seconds=fit, predict_seconds=predict)
        except Exception as error:
            answer(error=f"{type(error).__name__}: {error}")


if __name__ == "__main__":
    main()
