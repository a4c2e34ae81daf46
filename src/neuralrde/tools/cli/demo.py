"""`neuralrde demo`: a result in seconds on real data, and a neural model beside it."""

import time
from pathlib import Path
from typing import Any

import numpy as np

from ..._version import versions
from ...datasets import Dataset, DatasetUnavailable, given, load, order_of_events, random_split
from ...plots import COLOURS, INK, PALE, PlotsUnavailable, figure, save
from .console import table
from .loading import targets
from .run import without_validation
from .run_folder import write_json
from .settings import closed_form_for

# Of aeon 1.6.0's MiniRocket and MultiRocket on the official parts, as the league measured them.
ROCKETS = {"BasicMotions": (1.0, 1.0), "JapaneseVowels": (0.983, 0.989), "SelfRegulationSCP1": (0.917, 0.945)}
BRAIN, SIMULATED = "SelfRegulationSCP1", "order_of_events"
# Means and standard deviations of five random splits 70/15/15, as published.
PUBLISHED = {"NCDE": (0.798, 0.056), "NRDE": (0.809, 0.025), "Log-NCDE": (0.831, 0.028), "LinOSS": (0.878, 0.026)}
SOURCE = "Walker et al. 2024, Log neural controlled differential equations; Rusch and Rus 2025, LinOSS"
SPLITS = 3
# Chosen by validation accuracy and loss of the Neural RDE on other splits of the same recordings (seeds 10 to 15),
# among some forty settings. Smaller than the defaults: 393 training series are few.
SETTINGS: dict[str, Any] = {"step": 128, "state": 8, "width": 16, "epochs": 40, "weight_decay": 0.5}


def show(out: Path) -> None:
    """Print the tables of the demo, and write its pictures and results.json into a folder."""
    from ...devices import try_all_cores

    try_all_cores()
    begun = time.monotonic()
    out.mkdir(parents=True, exist_ok=True)
    found = {}
    for name in ROCKETS:
        try:
            found[name] = load(name)
        except DatasetUnavailable as error:
            print(f"{name} is left out, because it is not here:\n  {error}\n")
    found = found or {SIMULATED: order_of_events(samples=400, length=128, seed=0)}
    results = {"versions": versions(), "closed form": in_seconds(found, out)}
    for name in (BRAIN, SIMULATED):
        if name in found:
            results[name] = beside(name, found[name], out)
    results["seconds"] = round(time.monotonic() - begun, 1)
    write_json(out / "results.json", results)
    files = [*sorted(file.name for file in out.glob("*.png")), "results.json"]
    print(f"\n{results['seconds']:.0f} s in all. In {out}/: {', '.join(files)}")


def in_seconds(found: dict[str, Dataset], out: Path) -> dict[str, Any]:
    """The closed form on the official parts of each set, with no setting."""
    print("An answer in seconds: real data, official parts, closed form with its defaults")
    rows, results = [], {}
    for name, data in found.items():
        parts = random_split(data, seed=0) if data.split is None else given(data, validation=0.0)
        train, test = data[without_validation(parts).train], data[parts.test]
        begun = time.monotonic()
        model = closed_form_for(data)().fit(train.series, targets(train))
        probability = model.predict_proba(test.series)
        seconds = time.monotonic() - begun
        accuracy = float((model.classes_[probability.argmax(axis=1)] == targets(test)).mean())
        results[name] = {"accuracy": accuracy, "seconds": round(seconds, 2)}
        lengths, channels = data.series.lengths, data.series.values.shape[2]
        points = f"{lengths.max()}" if lengths.min() == lengths.max() else f"{lengths.min()} to {lengths.max()}"
        rockets = [f"{value:.1%}" for value in ROCKETS.get(name, ())] or ["", ""]
        size = f"{len(data)} of {points} points, {channels} channels"
        rows.append([name, size, f"{accuracy:.1%}", f"{seconds:.1f} s", *rockets])
        if name == "BasicMotions":
            _draw(lambda test=test, model=model, p=probability: motions(test, model.classes_, p), out / "motions.png")
    print(table(rows, header=["set", "series", "closed form", "fit and predict", "MiniRocket", "MultiRocket"]))
    print("  The Rockets are aeon's, as measured for docs/league.md.\n")
    return results


def beside(name: str, data: Dataset, out: Path) -> dict[str, Any]:
    """Closed form and neural model on the same random splits, beside published accuracies."""
    from ...estimators import NeuralRDEClassifier
    from ...paths import Windows
    from ...training import AdamW

    settings = SETTINGS if name == BRAIN else SETTINGS | {"step": 16}
    print(f"A neural model beside it: {name}, {SPLITS} random splits 70/15/15")
    accuracies: dict[str, list[float]] = {"closed form": [], "neural default": []}
    for seed in range(SPLITS):
        split = random_split(data, seed=seed)
        train, validation, test = (data[rows] for rows in split)
        everything = data[without_validation(split).train]
        neural = NeuralRDEClassifier(
            model={"name": "multi-scale-rde", "state": settings["state"], "width": settings["width"]},
            windows=Windows(step=settings["step"], depth=2, scales=(1,)),
            optimizer=AdamW(weight_decay=settings["weight_decay"]),
            epochs=settings["epochs"],
            random_state=seed,
        )
        line = f"  split {seed + 1}:"
        for kind in accuracies:
            begun = time.monotonic()
            if kind == "closed form":
                model = closed_form_for(data)().fit(everything.series, targets(everything))
            else:
                held_out = validation.series, targets(validation)
                model = neural.fit(train.series, targets(train), validation=held_out)
            accuracies[kind].append(float(model.score(test.series, targets(test))))
            line += f"  {kind} {accuracies[kind][-1]:6.1%} ({time.monotonic() - begun:.0f} s)"
        print(line, flush=True)
    here = {kind: (float(np.mean(values)), float(np.std(values, ddof=1))) for kind, values in accuracies.items()}
    published = PUBLISHED if name == BRAIN else {}
    bars = [(kind, *value, "here") for kind, value in here.items()]
    bars += [(kind, *value, "published") for kind, value in published.items()]
    rows = [[kind, f"{100 * mean:.1f} ± {100 * spread:.1f} %", where] for kind, mean, spread, where in bars]
    print(table(rows, header=["model", "test accuracy", "where"]))
    if published:
        print(f"  Published, of five such splits: {SOURCE}.")
    if here["closed form"][0] >= here["neural default"][0]:
        print("  The closed form is better here: a neural model has to earn its time.")
    _draw(lambda: accuracy_bars(bars, f"Test accuracy on {name}"), out / "accuracy.png")
    return {"accuracies": accuracies, "settings": settings, "published": published, "source": SOURCE}


def _draw(picture: Any, file: Path) -> None:
    """Without Matplotlib the demo has its tables still."""
    try:
        save(picture(), file)
    except PlotsUnavailable as error:
        print(f"  No picture: {error}")


def accuracy_bars(bars: list[tuple[str, float, float, str]], title: str) -> Any:
    """A bar for each mean, with its standard deviation."""
    with figure(7.4, 1.4 + 0.45 * len(bars)) as picture:
        axis = picture.subplots()
        names, means, spreads, where = zip(*reversed(bars), strict=True)
        colours = [COLOURS[0] if one == "here" else PALE for one in where]
        axis.barh(range(len(bars)), means, height=0.62, color=colours, xerr=spreads, ecolor=INK, capsize=3)
        for row, mean in enumerate(means):
            axis.text(0.51, row, f"{mean:.1%}", color="white", va="center", fontweight="bold")
        axis.set_yticks(range(len(bars)), [f"{name}, {one}" for name, one in zip(names, where, strict=True)])
        axis.set(xlim=(0.5, 1.0), title=title)  # from chance
        axis.xaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
        note = f"{SOURCE}\nlines: standard deviation over random splits, {SPLITS} here, 5 published"
        axis.set_xlabel(note if "published" in where else "", fontsize=8.5)
    return picture


def motions(test: Dataset, classes: np.ndarray, probability: np.ndarray) -> Any:
    """One test series of each class: three accelerations over time, and how sure the model is of the true class."""
    order = list(test.classes or ())
    with figure(7.4, 4.6) as picture:
        for axis, name in zip(picture.subplots(2, 2, sharex=True, sharey=True).flat, order, strict=False):
            row = int(np.flatnonzero(np.asarray(test.target) == order.index(name))[0])
            seconds = np.arange(test.series.lengths[row]) / 10
            for channel, colour in zip(range(3), COLOURS, strict=False):
                axis.plot(seconds, test.series.values[row, : len(seconds), channel], color=colour, linewidth=1.3)
            sure = probability[row, list(classes).index(name)]
            axis.set_title(f"{name}: {sure:.0%} sure", loc="left", fontweight="bold")
        picture.suptitle("What is the wrist doing? The closed form has learned it from 40 recordings", color=INK)
        picture.supxlabel("seconds; acceleration along three axes of a smart watch", fontsize=9, color=INK)
    return picture
