"""Heart rate from half a minute of pulse (PPG) and ECG: `python examples/heart_rate.py [folder] [--quick]`.

BIDMC32HR: windows of 32 seconds, 125 samples a second, from 53 recordings of 46 patients. Windows of a recording are
alike, so how they are divided decides what is measured. If windows of one patient are in the training and in the test
set, a model may recognise the patient; if no patient is in both, it must have learned what a heart rate is.

The data come from the folder that NEURALRDE_DATA names, or from PhysioNet (once).
"""

import argparse
import sys
from pathlib import Path
from typing import Any

import jax
import numpy as np

import neuralrde as nrde
from neuralrde.datasets import Dataset, DatasetUnavailable, Split, by_group, load, random_split
from neuralrde.plots import COLOURS, PALE, figure, save
from neuralrde.training import AdamW, Examples, Settings, SquaredError, fit, predict, rmse

DEPTH, STEP = 2, 16
# Each window to its own scale, because a sensor's gain says nothing; and time, because a rate is about time.
PREPARE = nrde.Compose(nrde.transforms.ScaleEach(), nrde.TimeChannel(duration=32.0))
DIVIDED = {"patients mixed": random_split, "patients apart": by_group}


def examples(data: Dataset) -> Examples:
    """First points and log-signatures, the model's inputs, and beats per minute."""
    path = PREPARE(data.series).values
    logs = nrde.log_signatures(path, DEPTH, step=STEP)
    return Examples((path[:, 0], logs), np.asarray(data.target, np.float32).reshape(-1, 1))


def train_and_test(data: Dataset, split: Split, *, epochs: int) -> np.ndarray:
    """Predicted beats per minute of the test windows."""
    train, validation, test = (examples(data[rows]) for rows in split)
    model = nrde.LinearRDE(channels=3, outputs=1, depth=DEPTH, key=jax.random.key(0))
    state = fit(
        model.fit_scale(train.inputs[1]).fit_labels(train.target),
        train,
        loss=SquaredError(spread=train.target.std(axis=0)),
        validation=validation,
        metric=rmse,
        settings=Settings(epochs=epochs, optimizer=AdamW(learning_rate=5e-3)),
    )
    return np.asarray(predict(state.best, test))[:, 0]


def spectral_peak(data: Dataset) -> np.ndarray:
    """The strongest frequency of the pulse between 42 and 150 beats per minute."""
    points = 2**16  # zero-padded, so that frequencies are 0.11 beats per minute apart
    beats = 60 * np.fft.rfftfreq(points, float(np.median(np.diff(data.series.clock[0]))))
    band = slice(*np.searchsorted(beats, [42, 150]))
    pulse = data.series.values[..., data.series.channels.index("PLETH")].astype(np.float64)
    pulse = (pulse - pulse.mean(axis=1, keepdims=True)) * np.hanning(pulse.shape[1])
    return beats[band][np.abs(np.fft.rfft(pulse, points, axis=1))[:, band].argmax(axis=1)]


def error(predicted: Any, true: Any) -> float:
    return float(np.sqrt(np.mean((np.asarray(predicted) - np.asarray(true).ravel()) ** 2)))


def draw(data: Dataset, answers: dict[str, tuple[np.ndarray, np.ndarray]]) -> Any:
    with figure(9, 6.6) as picture:
        grid = picture.add_gridspec(2, 2, height_ratios=[1, 1.9])
        signals, shown = picture.add_subplot(grid[0, :]), slice(0, 1001)
        seconds = data.series.clock[0, shown]
        for c, (name, colour) in enumerate(zip(("PPG", "ECG"), COLOURS, strict=False)):
            value = data.series.values[0, shown, c]
            signals.plot(seconds, (value - value.mean()) / value.std() / 6 - c, color=colour, linewidth=1.2)
            signals.text(-0.1, -c, name, color=colour, va="center", ha="right")
        signals.set(title=f"8 of the 32 seconds of a window; its label is {data.target[0]:.0f} beats per minute",
                    yticks=[], xlabel="second", xlim=(0, 8))  # fmt: skip
        for place, (name, (true, predicted)) in enumerate(answers.items()):
            axis = picture.add_subplot(grid[1, place])
            axis.plot([45, 130], [45, 130], color=PALE, linewidth=1, linestyle="--")
            axis.scatter(true, predicted, s=14, alpha=0.5, linewidths=0, color=COLOURS[place])
            axis.set(title=f"{name}, all splits", xlim=(45, 130), ylim=(45, 130), aspect="equal", xlabel="true rate")
        picture.axes[1].set_ylabel("predicted rate")
    return picture


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path, default=Path("demo"), help="where the picture goes")
    parser.add_argument("--quick", action="store_true", help="few windows, splits and epochs: seconds, not minutes")
    options = parser.parse_args()
    nrde.devices.use_all_cores()
    try:
        data = load("BIDMC32HR")
    except DatasetUnavailable as missing:
        print(f"Left out, because the recordings are not here: {missing}")
        return
    window = np.array([int(str(name).split("/")[1]) for name in np.asarray(data.series.ids)])
    data = data[window % (50 if options.quick else 10) == 0]  # neighbouring windows share 29 of their 32 seconds
    splits, epochs = (1, 2) if options.quick else (3, 20)
    print(f"{len(data)} windows of {len(set(data.groups))} patients; root mean square error on the test windows, "
          "in beats per minute.\n")  # fmt: skip
    print(
        "| windows divided | split | linear RDE | mean of the training set | spectral peak |\n|---|---|---:|---:|---:|"
    )
    answers = {}
    for name, divide in DIVIDED.items():
        true, predicted = [], []
        for seed in range(splits):
            split = divide(data, seed=seed)
            test = data[split.test]
            predicted.append(train_and_test(data, split, epochs=epochs))
            true.append(np.asarray(test.target).ravel())
            floors = np.full(len(test), np.asarray(data.target)[split.train].mean()), spectral_peak(test)
            print(f"| {name} | {seed + 1} | " + " | ".join(f"{error(answer, true[-1]):.1f}" for answer in
                                                           (predicted[-1], *floors)) + " |", flush=True)  # fmt: skip
        answers[name] = (np.concatenate(true), np.concatenate(predicted))
    file = save(draw(data, answers), options.folder / "heart_rate.png")
    print(f"Picture: {file}", file=sys.stderr)


if __name__ == "__main__":
    main()
