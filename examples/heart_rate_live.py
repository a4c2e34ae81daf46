"""A model and recordings for the service: `python examples/heart_rate_live.py [folder] [--quick]`.

Pulse (PPG) and ECG of the 53 recordings of BIDMC, at 125 points per second. The model is trained on the first six
minutes of every recording to follow the monitor's own heart rate, its mean over the last 32 seconds. The last two
minutes, which it has not seen, go into `bidmc.npz`, for `serving/send.py` to send them. The patients are the same in
both parts: this shows a model at work, not how it does on new patients (see the example *Heart rate from PPG and ECG*).

The data come from the folder that NEURALRDE_DATA names, or from PhysioNet (once).
"""

import argparse
from pathlib import Path

import numpy as np

import neuralrde as nrde
from neuralrde.datasets import Dataset, DatasetUnavailable, load, write_npz

RATE = 125
STEP = 15  # points per window: an eighth of a second
TICK = 375  # points between two windows of the archive, and between two numbers of the monitor here: three seconds
PIECE = 120 * RATE  # points


def recordings(data: Dataset) -> tuple[np.ndarray, np.ndarray]:
    """Signals `(53, points, 2)`, and after every 375 points the monitor's mean over the last 32 seconds.

    The archive's windows of a recording overlap: the first 375 points of each, and the last one whole, are the
    recording. Rates start with the one at point 4000.
    """
    values = np.asarray(data.series.values).reshape(53, -1, 4000, 2)
    signals = np.concatenate([values[:, :-1, :TICK].reshape(53, -1, 2), values[:, -1]], axis=1)
    return signals, np.asarray(data.target, np.float64).reshape(53, -1)


def pieces(signals: np.ndarray, rates: np.ndarray, starts: list[int]) -> Dataset:
    """Pieces of two minutes, with the monitor's rate every three seconds and none in between.

    A piece starts at point 375 a + 250, so that the rate after 375 b of its points is number a + b - 10: windows of 15
    points end at all of them.
    """
    values, target, ids = [], [], []
    for record in range(len(signals)):
        for a in starts:
            start = TICK * a + 250
            values.append(signals[record, start : start + PIECE + 1])
            row = np.full((PIECE + 1, 1), np.nan)
            ticks = np.arange(1, PIECE // TICK + 1)
            known = ticks[ticks + a >= 10]
            row[TICK * known, 0] = rates[record, np.minimum(known + a - 10, rates.shape[1] - 1)]
            target.append(row)
            ids.append(f"{record + 1:02d}" if len(starts) == 1 else f"{record + 1:02d}/{a:03d}")
    series = nrde.Series.from_array(
        np.array(values), times=np.arange(PIECE + 1) / RATE, channels=["PPG", "ECG"], ids=np.array(ids)
    )
    return Dataset(series, np.array(target), task="regression", name="bidmc", source=data_source())


def data_source() -> str:
    return "PhysioNet, BIDMC PPG and Respiration Dataset 1.0.0, doi:10.13026/C2208R, ODC-By 1.0"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path, default=Path("demo"), help="where model and recordings go")
    parser.add_argument("--quick", action="store_true", help="few pieces and epochs: seconds, not minutes")
    parser.add_argument("--epochs", type=int, default=30)
    options = parser.parse_args()
    nrde.devices.use_all_cores()
    try:
        signals, rates = recordings(load("BIDMC32HR"))
    except DatasetUnavailable as missing:
        print(f"Left out, because the recordings are not here: {missing}")
        return
    last = (signals.shape[1] - PIECE - 251) // TICK
    if options.quick:
        signals, rates = signals[:8], rates[:8]
    train = pieces(signals, rates, [0, 20, 40, 60, 80] if not options.quick else [40])
    test = pieces(signals, rates, [last])
    options.folder.mkdir(parents=True, exist_ok=True)
    write_npz(test, options.folder / "bidmc.npz")
    model = nrde.NeuralRDERegressor(
        model=nrde.Config(nrde.OscillatorRDE),
        windows=nrde.Windows(step=STEP, depth=2),
        closed_form=False,
        members=1,
        loss="quantiles",
        epochs=2 if options.quick else options.epochs,
        batch_size=16,
        patience=None,
        random_state=0,
    )
    groups = np.array([str(name)[:2] for name in np.asarray(train.series.ids)])
    model.fit(train.series, train.target, groups=groups if options.quick else None)
    model.save(options.folder / "heart-rate.nrde")
    predicted, known = model.predict(test.series), ~np.isnan(np.asarray(test.target))
    error = float(np.abs(predicted[known] - np.asarray(test.target)[known]).mean())
    spread = float(np.abs(np.asarray(test.target)[known] - np.nanmean(train.target)).mean())
    print(f"Mean absolute error in the last two minutes: {error:.1f} beats per minute; of the mean rate {spread:.1f}.")
    print(f"Written: {options.folder / 'heart-rate.nrde'}, {options.folder / 'bidmc.npz'}")


if __name__ == "__main__":
    main()
