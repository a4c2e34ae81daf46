"""`neuralrde demo`: a result in seconds on real data, a neural model beside it, and what depth and scale bring."""

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .._version import versions
from ..datasets import Dataset, DatasetUnavailable, given, load, order_of_events, random_split
from ..paths import Series
from ..plots import COLOURS, INK, PALE, PlotsUnavailable, accuracy_bars, confusion, figure, learning_curves, save
from .console import table
from .loading import targets
from .report import draw_windows
from .run import without_validation
from .run_folder import write_json
from .settings import closed_form_for

MOTIONS, VOWELS, BRAIN = "BasicMotions", "JapaneseVowels", "SelfRegulationSCP1"
SPLITS, SEEDS = 3, 3
# Of aeon 1.6.0 on the official parts, as the league measured them; and random splits 70/15/15, as published.
ROCKETS = {MOTIONS: (1.0, 1.0), VOWELS: (0.983, 0.989), BRAIN: (0.917, 0.945)}
PUBLISHED = {"NCDE": (0.798, 0.056), "NRDE": (0.809, 0.025), "Log-NCDE": (0.831, 0.028), "LinOSS": (0.878, 0.026)}
SOURCE = "Walker et al. 2024, Log neural controlled differential equations; Rusch and Rus 2025, LinOSS"
# Chosen by validation accuracy and loss of the Neural RDE on other splits of the same recordings (seeds 10 to 15),
# among some forty settings. Smaller than the defaults: 393 training series are few.
SETTINGS: dict[str, Any] = {"step": 128, "state": 8, "width": 16, "epochs": 40, "weight_decay": 0.5}
CLOSED_FORM, NEURAL_RDE = "closed form", "neural default"
# Depth, and how far back each window looks, in steps: one scale, or several.
WINDOWS = {
    "depth 1, one scale": {"depth": 1, "scales": (1,)},
    "depth 2, one scale": {"depth": 2, "scales": (1,)},
    "depth 2, four scales": {"depth": 2, "scales": (1, 2, 4, 8)},
}


def show(out: Path) -> None:
    """Print the tables of the demo, and write its pictures and results.json into a folder."""
    from ..devices import try_all_cores

    try_all_cores()
    begun = time.monotonic()
    out.mkdir(parents=True, exist_ok=True)
    results: dict[str, Any] = {"versions": versions()}
    found = _load((MOTIONS, VOWELS, BRAIN))
    if found:
        results["closed form"] = in_seconds(found, out)
    if BRAIN in found:
        results[BRAIN] = beside(found[BRAIN], out)
    results["scale"] = scale(found[MOTIONS]) if MOTIONS in found else {}
    results["depth"] = depth()
    _draw(lambda: save(depth_and_scale(results["scale"], results["depth"]), out / "depth_and_scale.png"))
    results["seconds"] = round(time.monotonic() - begun, 1)
    write_json(out / "results.json", results)
    pictures = ", ".join(sorted(file.name for file in out.glob("*.png")))
    print(f"\n{results['seconds']:.0f} s in all. In {out}/: {', '.join(filter(None, [pictures, 'results.json']))}")


def in_seconds(found: dict[str, Dataset], out: Path) -> dict[str, Any]:
    """The closed form on the official parts of each set, with no setting."""
    print("An answer in seconds: real data, official parts, closed form with its defaults")
    rows, results = [], {}
    for name, data in found.items():
        parts = without_validation(given(data, validation=0.0))
        train, test = data[parts.train], data[parts.test]
        begun = time.monotonic()
        model = closed_form_for(data)().fit(train.series, targets(train))
        probability = model.predict_proba(test.series)
        seconds = time.monotonic() - begun
        predicted = model.classes_[probability.argmax(axis=1)]
        accuracy = float((predicted == targets(test)).mean())
        results[name] = {"accuracy": accuracy, "seconds": round(seconds, 2)}
        rockets = [f"{value:.1%}" for value in ROCKETS[name]]
        rows.append([name, _size(data), f"{accuracy:.1%}", f"{seconds:.1f} s", *rockets])
        if name == MOTIONS:
            kept, asked = damaged(train.series, seed=0), damaged(test.series, seed=1)
            broken = closed_form_for(data)().fit(kept, targets(train)).score(asked, targets(test))
            results[name]["damaged"] = broken
            picture = lambda test=test, model=model, p=probability: motions(test, model.classes_, p)
            _draw(lambda picture=picture: save(picture(), out / "motions.png"))
        if name == VOWELS:
            title = f"Who says the vowel? Closed form, {accuracy:.1%} right"
            picture = confusion(targets(test).tolist(), predicted.tolist(), classes=data.classes, title=title)
            _draw(lambda picture=picture: save(picture, out / "speakers.png"))
    print(table(rows, header=["set", "series", "closed form", "fit and predict", "MiniRocket", "MultiRocket"]))
    print("  The Rockets are aeon's, as measured for docs/league.md.")
    if MOTIONS in results:
        print(f"  {MOTIONS} with half of its points dropped and then 30 % of its values missing: "
              f"{results[MOTIONS]['damaged']:.1%}")  # fmt: skip
    print()
    return results


def beside(data: Dataset, out: Path) -> dict[str, Any]:
    """Closed form and neural model on the same random splits, beside published accuracies."""
    print(f"A neural model beside it: {BRAIN}, {SPLITS} random splits 70/15/15")
    accuracies: dict[str, list[float]] = {CLOSED_FORM: [], NEURAL_RDE: []}
    histories, shown = {}, None
    for seed in range(SPLITS):
        split = random_split(data, seed=seed)
        train, validation, test = (data[rows] for rows in split)
        everything = data[without_validation(split).train]
        closed = lambda everything=everything: closed_form_for(data)().fit(everything.series, targets(everything))
        held_out = (validation.series, targets(validation))
        neural = lambda seed=seed, train=train, held_out=held_out: _classifier(seed, depth=2, **SETTINGS).fit(
            train.series, targets(train), validation=held_out
        )
        line = f"  split {seed + 1}:"
        for name, fit in ((CLOSED_FORM, closed), (NEURAL_RDE, neural)):
            begun = time.monotonic()
            model = fit()
            accuracies[name].append(float(model.score(test.series, targets(test))))
            line += f"  {name} {accuracies[name][-1]:6.1%} ({time.monotonic() - begun:.0f} s)"
        shown = model
        histories[f"{NEURAL_RDE}/{seed}"] = shown.history_
        print(line, flush=True)

    measured = {name: (float(np.mean(values)), float(np.std(values, ddof=1))) for name, values in accuracies.items()}
    rows = [[name, _percent(value), "here"] for name, value in measured.items()]
    rows += [[name, _percent(value), "published"] for name, value in PUBLISHED.items()]
    print(table(rows, header=["model", "test accuracy", "where"]))
    print(f"  Published, of five such splits: {SOURCE}.")
    if measured[CLOSED_FORM][0] >= measured[NEURAL_RDE][0]:
        print("  The closed form is better here: a neural model has to earn its time.")
    print()

    def pictures() -> None:
        ours = {f"{name}, here": value for name, value in measured.items()}
        theirs = {f"{name}, published": value for name, value in PUBLISHED.items()}
        note = f"{SOURCE}\nlines: standard deviation over random splits, {SPLITS} here, 5 published"
        bars = accuracy_bars(ours, theirs, title=f"Test accuracy on {BRAIN}", source=note, chance=0.5)
        save(bars, out / "accuracy.png")
        save(learning_curves(histories, title=f"Loss, {SPLITS} splits"), out / "learning_curves.png")
        draw_windows(shown, data, out)

    _draw(pictures)
    return {"accuracies": accuracies, "settings": SETTINGS, "published": PUBLISHED, "source": SOURCE}


def scale(data: Dataset) -> dict[str, list[float]]:
    """The same small Neural RDE with windows of one length, and with windows of four lengths."""
    parts = given(data, validation=0.0)
    train, test = data[parts.train], data[parts.test]
    print(f"What scale brings: {MOTIONS}, official parts, a small Neural RDE, step 4, {SEEDS} seeds")
    found: dict[str, list[float]] = {}
    for name, windows in WINDOWS.items():
        for seed in range(SEEDS):
            model = _classifier(seed, name="neural-rde", step=4, state=16, width=32, epochs=60, **windows)
            model.set_params(validation_fraction=0.0).fit(train.series, targets(train))
            found.setdefault(name, []).append(float(model.score(test.series, targets(test))))
    notes = ("increments over 4 points", "and areas", "of the last 4, 8, 16 and 32 points")
    rows = [[name, f"{np.mean(values):.1%}", note] for (name, values), note in zip(found.items(), notes, strict=True)]
    print(table(rows, header=["windows", "test accuracy", "what drives the state"]))
    print(f"  One test series more is {1 / len(test):.1%}.\n")
    return found


def depth() -> dict[str, float]:
    """Half of the series have channel x move first, half y; at the windows' boundaries the two are equal."""
    data, test = order_of_events(samples=600, seed=0), order_of_events(samples=1000, seed=1)
    parts = random_split(data, (0.85, 0.15, 0.0), seed=0)
    train, validation = data[parts.train], data[parts.validation]
    print("What depth brings: simulated, which of two channels moves first? 600 series of 256 points, step 32")
    found = {}
    for depth in (1, 2):
        model = _classifier(0, name="neural-rde", depth=depth, step=32, state=16, width=32, epochs=25)
        model.fit(train.series, targets(train), validation=(validation.series, targets(validation)))
        found[f"depth {depth}"] = float(model.score(test.series, targets(test)))
    notes = ("increments alone cannot: 50 % is chance", "the Levy area of a window shows which led")
    rows = [[name, f"{value:.1%}", note] for (name, value), note in zip(found.items(), notes, strict=True)]
    print(table(rows, header=["model", "test accuracy", "why"]))
    return found


def damaged(series: Series, *, seed: int) -> Series:
    """A random half of the points of each series, at their own times, and of these 30 % of the values missing."""
    rng, values, times = np.random.default_rng(seed), [], []
    for one in series.values:
        kept = np.sort(rng.choice(len(one), len(one) // 2, replace=False))
        values.append(np.where(rng.uniform(size=(len(kept), one.shape[1])) < 0.3, np.nan, one[kept]))
        times.append(kept.astype(float))
    return Series.from_arrays(values, times=times)


def _load(names: tuple[str, ...]) -> dict[str, Dataset]:
    """Those that are here or can be fetched."""
    found = {}
    for name in names:
        try:
            found[name] = load(name)
        except DatasetUnavailable as error:
            print(f"{name} is left out, because it is not here:\n  {error}\n")
    return found


def _classifier(
    seed: int,
    *,
    depth: int,
    step: int,
    epochs: int,
    weight_decay: float = 0.2,
    scales: tuple[int, ...] = (1,),
    name: str = "multi-scale-rde",
    **sizes: int,
) -> Any:
    """The default model in a small size, blended with the closed form; or the paper's, by its name."""
    from ..estimators import NeuralRDEClassifier
    from ..paths import Windows
    from ..training import AdamW

    windows = Windows(step=step, depth=depth, scales=scales)
    if name == "neural-rde":
        sizes |= {"layers": 2, "readout": "mean", "solver": "heun"}  # type: ignore
    optimizer, model = AdamW(weight_decay=weight_decay), {"name": name, **sizes}
    return NeuralRDEClassifier(model=model, windows=windows, optimizer=optimizer, epochs=epochs, random_state=seed)


def _draw(picture: Any) -> None:
    """Without Matplotlib the demo has its tables still."""
    try:
        picture()
    except PlotsUnavailable as error:
        print(f"  No picture: {error}")


def _size(data: Dataset) -> str:
    lengths, channels = data.series.lengths, data.series.values.shape[2]
    points = f"{lengths.max()}" if lengths.min() == lengths.max() else f"{lengths.min()} to {lengths.max()}"
    return f"{len(data)} of {points} points, {channels} channels"


def _percent(value: tuple[float, float]) -> str:
    return f"{100 * value[0]:.1f} ± {100 * value[1]:.1f} %"


def motions(test: Dataset, classes: np.ndarray, probability: np.ndarray) -> Any:
    """One test series of each class: three accelerations over time, and how sure the model is of the true class."""
    assert test.classes is not None
    order = list(test.classes)
    with figure(7.4, 4.6) as picture:
        axes = picture.subplots(2, 2, sharex=True, sharey=True)
        for axis, name in zip(axes.flat, order, strict=False):
            row = int(np.flatnonzero(np.asarray(test.target) == order.index(name))[0])
            seconds = np.arange(test.series.lengths[row]) / 10
            for channel, colour in zip(range(3), COLOURS, strict=False):
                values = test.series.values[row, : len(seconds), channel]
                axis.plot(seconds, values, color=colour, linewidth=1.3)
            sure = probability[row, list(classes).index(name)]
            axis.set_title(f"{name}: {sure:.0%} sure", loc="left", fontweight="bold")
        picture.suptitle("What is the wrist doing? The closed form has learned it from 40 recordings", color=INK)
        picture.supxlabel("seconds; acceleration along three axes of a smart watch", fontsize=9, color=INK)
    return picture


def depth_and_scale(scale: Mapping[str, Sequence[float]], depth: Mapping[str, float]) -> Any:
    """Accuracies with one and with several scales, and with depth 1 and 2; a dot for each of several seeds."""
    panels = [("Scale: what is the wrist doing?", {name: list(values) for name, values in scale.items()}, 0.25)]
    panels += [("Depth: which channel moves first?", {name: [value] for name, value in depth.items()}, 0.5)]
    panels = [panel for panel in panels if panel[1]]
    with figure(4.2 * len(panels), 3.2) as picture:
        axes = np.atleast_1d(picture.subplots(1, len(panels)))
        for axis, (title, bars, chance) in zip(axes, panels, strict=True):
            for place, values in enumerate(bars.values()):
                mean = float(np.mean(values))
                axis.bar(place, mean, width=0.6, color=PALE if place + 1 < len(bars) else COLOURS[0])
                if len(values) > 1:
                    axis.scatter(np.full(len(values), place), values, color=INK, s=12, zorder=3)
                axis.text(place, 0.04, f"{mean:.1%}", ha="center", color="white", fontweight="bold")
            axis.axhline(chance, color=INK, linewidth=1, linestyle=":")
            axis.text(-0.5, chance + 0.015, "chance", ha="right", fontsize=8.5)
            axis.set_xticks(range(len(bars)), [name.replace(", ", "\n") for name in bars])
            axis.set(xlim=(-0.9, len(bars) - 0.5), ylim=(0, 1.02), title=title)
            axis.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    return picture
