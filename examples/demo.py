"""A result in seconds on real data, and what only a state can do: `python examples/demo.py [folder] [--quick]`.

On movements of a wrist, spoken vowels and slow cortical potentials the closed form is compared with aeon's Rockets, and
then with published neural models on three random splits. Then a neural RDE forecasts two tanks whose valve is never
seen. The tables are printed; pictures and results.json go into the folder. What cannot be fetched is left out.
"""

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np

import neuralrde as nrde
from neuralrde.datasets import Dataset, DatasetUnavailable, given, load, order_of_events, random_split, two_tanks
from neuralrde.plots import COLOURS, INK, PALE, figure, forecast, save

# Of aeon 1.6.0's MiniRocket and MultiRocket on the official parts, as the league measured them.
ROCKETS = {"BasicMotions": (1.0, 1.0), "JapaneseVowels": (0.983, 0.989), "SelfRegulationSCP1": (0.917, 0.945)}
BRAIN, SIMULATED = "SelfRegulationSCP1", "order_of_events"
# Means and standard deviations of five random splits 70/15/15, as published.
PUBLISHED = {"NCDE": (0.798, 0.056), "NRDE": (0.809, 0.025), "Log-NCDE": (0.831, 0.028), "LinOSS": (0.878, 0.026)}
SOURCE = "Walker et al. 2024, Log neural controlled differential equations; Rusch and Rus 2025, LinOSS"
SPLITS = 3
RUNS = 240


def labels(data: Dataset) -> np.ndarray:
    return np.asarray(data.classes)[np.asarray(data.target)]


def in_seconds(found: dict[str, Dataset], out: Path) -> dict[str, Any]:
    """The closed form on the official parts of each set, with no setting."""
    print("An answer in seconds: real data, official parts, closed form with its defaults")
    print(f"  {'set':18} {'series':38} closed form  fit and predict  MiniRocket  MultiRocket")
    results = {}
    for name, data in found.items():
        parts = random_split(data, seed=0) if data.split is None else given(data)
        train, test = data[np.sort(np.concatenate([parts.train, parts.validation]))], data[parts.test]
        begun = time.monotonic()
        model = nrde.LogSignatureClassifier().fit(train.series, labels(train))
        probability = model.predict_proba(test.series)
        seconds = time.monotonic() - begun
        accuracy = float((model.classes_[probability.argmax(axis=1)] == labels(test)).mean())
        results[name] = {"accuracy": accuracy, "seconds": round(seconds, 2)}
        lengths, channels = data.series.lengths, data.series.values.shape[2]
        points = f"{lengths.max()}" if lengths.min() == lengths.max() else f"{lengths.min()} to {lengths.max()}"
        size = f"{len(data)} of {points} points, {channels} channels"
        rockets = "".join(f"{value:13.1%}" for value in ROCKETS.get(name, ()))
        print(f"  {name:18} {size:38} {accuracy:11.1%}  {seconds:13.1f} s{rockets}", flush=True)
        if name == "BasicMotions":
            save(motions(test, model.classes_, probability), out / "motions.png")
    print("  The Rockets are aeon's, as measured for docs/league.md.\n")
    return results


def beside(name: str, data: Dataset, out: Path) -> dict[str, Any]:
    """The closed form on random splits, beside published accuracies of neural models on such splits."""
    print(f"Beside published neural models: {name}, {SPLITS} random splits 70/15/15")
    accuracies = []
    for seed in range(SPLITS):
        split = random_split(data, seed=seed)
        train, test = data[np.sort(np.concatenate([split.train, split.validation]))], data[split.test]
        model = nrde.LogSignatureClassifier(random_state=seed).fit(train.series, labels(train))
        accuracies.append(float(model.score(test.series, labels(test))))
    published = PUBLISHED if name == BRAIN else {}
    bars = [("closed form", float(np.mean(accuracies)), float(np.std(accuracies, ddof=1)), "here")]
    bars += [(kind, *value, "published") for kind, value in published.items()]
    print(f"  {'model':14} {'test accuracy':14} where")
    for kind, mean, spread, where in bars:
        print(f"  {kind:14} {100 * mean:.1f} ± {100 * spread:.1f} %   {where}")
    if published:
        print(f"  Published, of five such splits: {SOURCE}.")
    save(accuracy_bars(bars, f"Test accuracy on {name}"), out / "accuracy.png")
    return {"accuracies": accuracies, "published": published, "source": SOURCE}


def going_on(out: Path, runs: int) -> dict[str, float]:
    """Forecasts of two tanks, in closed form and by a state that goes on, for runs that were not learned from."""
    print("\nWhat only a state can do: two tanks, seen at random times; the valve that fills them is never seen")
    series = two_tanks(runs, seed=0)
    train, test = series[: runs * 2 // 3], series[runs * 2 // 3 :]
    errors = {}
    for kind in (nrde.LogSignatureForecaster, nrde.NeuralRDEForecaster):
        begun = time.monotonic()
        model = kind(horizon=4.0, lookback=8.0, random_state=0).fit(train)
        found = model.evaluate(test)
        errors.setdefault("last value", found["naive"]["last"]["mse"])
        name = "neural RDE" if kind is nrde.NeuralRDEForecaster else "closed form"
        errors[name] = found["mse"]
        print(
            f"  {name:12} fitted to {len(train)} runs and judged on {len(test)}: {time.monotonic() - begun:.0f} s",
            flush=True,
        )
    save(forecast(model, test, now=20.0, title="Two tanks, what comes next, and what came"), out / "forecast.png")
    print("  squared error of both levels, up to 4 units of time ahead, in variances: ", end="")
    print(", ".join(f"{name} {error:.3f}" for name, error in errors.items()))
    if errors["neural RDE"] < errors["closed form"]:
        print(f"  The state's error is {errors['closed form'] / errors['neural RDE']:.1f} times smaller.")
    return errors


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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path, default=Path("demo"))
    parser.add_argument("--quick", action="store_true", help="simulated data only, and little of it")
    options = parser.parse_args()
    begun, out, found = time.monotonic(), options.folder, {}
    out.mkdir(parents=True, exist_ok=True)
    for name in () if options.quick else ROCKETS:
        try:
            found[name] = load(name)
        except DatasetUnavailable as error:
            print(f"{name} is left out, because it is not here:\n  {error}\n")
    found = found or {SIMULATED: order_of_events(samples=400, length=128, seed=0)}
    results: dict[str, Any] = {"neuralrde": nrde.__version__, "closed form": in_seconds(found, out)}
    for name in {BRAIN, SIMULATED} & set(found):
        results[name] = beside(name, found[name], out)
    results["tanks"] = going_on(out, 30 if options.quick else RUNS)
    results["seconds"] = round(time.monotonic() - begun, 1)
    (out / "results.json").write_text(json.dumps(results, indent=2) + "\n")
    files = [*sorted(file.name for file in out.glob("*.png")), "results.json"]
    print(f"\n{results['seconds']:.0f} s in all. In {out}/: {', '.join(files)}")


if __name__ == "__main__":
    main()
