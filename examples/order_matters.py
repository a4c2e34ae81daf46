"""Order matters: which of two channels moves first? `python examples/order_matters.py [folder] [--quick]`.

Both channels make the same steps; in one class x makes each a little earlier, in the other y. Wherever the series is
cut the two are equal again, so increments over windows are the same in both classes and no model of them can tell.
The Levy area of a window, which is level 2 of its log-signature, has the answer in its sign.
"""

import argparse
import sys
from pathlib import Path

import numpy as np

import neuralrde as nrde
from neuralrde.datasets import Dataset, order_of_events
from neuralrde.plots import COLOURS, GRID, INK, figure, save

DEPTHS, STEPS = (1, 2), (16, 32, 64, 128)
SMALL = nrde.Config(nrde.NeuralRDE, state=16, width=32, layers=2, readout="mean", solver="heun")


def accuracies(train: Dataset, test: Dataset, *, steps: tuple[int, ...], epochs: int) -> dict[tuple[int, int], float]:
    """Test accuracy for each depth and step."""
    found = {}
    for depth in DEPTHS:
        for step in steps:
            windows = nrde.Windows(step=step, depth=depth)
            model = nrde.NeuralRDEClassifier(model=SMALL, windows=windows, epochs=epochs, random_state=0)
            model.fit(train.series, train.target)
            found[depth, step] = model.score(test.series, test.target)
    return found


def draw(data: Dataset, found: dict[tuple[int, int], float], steps: tuple[int, ...]):
    areas = nrde.log_signatures(data.series.values, depth=2, step=32)[..., 2]
    with figure(10, 5.6) as picture:
        grid = picture.add_gridspec(2, 2, width_ratios=[1.6, 1])
        for label in (0, 1):
            axis = picture.add_subplot(grid[label, 0])
            one = data.series.values[np.flatnonzero(data.target == label)[0], :129]
            for cut in range(0, 129, 32):
                axis.axvline(cut, color=GRID, linewidth=1, zorder=0)
            axis.step(range(129), one[:, 0], where="post", color=COLOURS[0], linewidth=1.8, label="x")
            axis.step(range(129), one[:, 1] + 0.06, where="post", color=COLOURS[1], linewidth=1.8, label="y")
            axis.set(title=f"{data.classes[label]}: the first four of eight windows", xlim=(0, 128))
            axis.legend(ncols=2, loc="best")
        axis.set_xlabel("point")
        histogram = picture.add_subplot(grid[0, 1])
        for label, colour in ((0, COLOURS[2]), (1, COLOURS[3])):
            of_class = areas[data.target == label].ravel()
            histogram.hist(of_class, bins=np.linspace(-0.9, 0.9, 37), color=colour, label=data.classes[label])
        histogram.set(title="Levy area of each window of 32", xlabel="area", yticks=[])
        histogram.legend()
        scores = picture.add_subplot(grid[1, 1])
        for depth, colour in ((2, COLOURS[0]), (1, COLOURS[1])):
            values = [found[depth, step] for step in steps]
            scores.plot(range(len(steps)), values, "o-", color=colour, label=f"depth {depth}")
        scores.axhline(0.5, color=INK, linewidth=0.8, linestyle="--")
        scores.set(title="Test accuracy", xlabel="points in a window", ylim=(0.3, 1.05))
        scores.set_xticks(range(len(steps)), [str(step) for step in steps])
        scores.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
        scores.legend(loc="center right")
    return picture


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path, default=Path("demo"), help="where the picture goes")
    parser.add_argument("--quick", action="store_true", help="fewer series, epochs and steps: seconds, not minutes")
    options = parser.parse_args()
    steps = (32,) if options.quick else STEPS
    train, test = order_of_events(100 if options.quick else 600, seed=0), order_of_events(1000, seed=1)
    found = accuracies(train, test, steps=steps, epochs=20 if options.quick else 25)
    print(f"{len(train)} training series of 256 points; accuracy on {len(test):,} others, chance is 50 %.\n")
    print("| points in a window | " + " | ".join(f"depth {depth}" for depth in DEPTHS) + " |\n" + "|---:" * 3 + "|")
    for step in steps:
        print(f"| {step} | " + " | ".join(f"{found[depth, step]:.1%}" for depth in DEPTHS) + " |")
    file = save(draw(test, found, steps), options.folder / "order_matters.png")
    print(f"Picture: {file}", file=sys.stderr)


if __name__ == "__main__":
    main()
