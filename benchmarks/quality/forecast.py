"""`python -m benchmarks forecast`: forecasts in closed form and by a driven state, beside naive and published ones.

PhysioNet 2012 in the protocol of t-PatchGNN (Zhang et al., ICML 2024): the first day of each stay, all observations of
the next; ETTh1 in that of DLinear (Zeng et al., AAAI 2023), whole and with half of its points dropped; the pulse of
BIDMC one second ahead, for patients never seen; two cascaded tanks under a controller with two points; and the coverage
of intervals on simulated series. Every row is a line of `results/forecast/lines.jsonl`; one that has its line is not
run again. Nothing is chosen here: settings are the defaults, and the look-backs those of the protocols.
"""

import argparse
import csv
import json
import sys
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.model_selection import train_test_split

from neuralrde import LogSignatureForecaster, NeuralRDEForecaster, Series
from neuralrde.datasets import two_tanks
from neuralrde.datasets.bidmc import PATIENTS
from neuralrde.datasets.cache import data_folder
from neuralrde.datasets.files import DatasetUnavailable
from neuralrde.features.ridge import Ridge

from ..timing import table
from .patients import lines, versions

RESULTS = Path("results/forecast/lines.jsonl")
HORIZONS = (96, 192, 336, 720)
LOOKBACK, DAY = 336, 24
# Every so many hours a forecast is made of ETTh1's test part: of 2,785 and fewer moments, about a fourth.
EVERY = 4


def physionet2012() -> Series:
    """All 12,000 stays with their 41 variables; the mean of several values at one minute. No outcome is read."""
    folder = data_folder() / "physionet2012"
    stays: list[np.ndarray] = []
    names: Any = None
    for name in "abc":
        file = folder / f"physionet2012_{name}.npz"
        if not file.exists():
            raise DatasetUnavailable(f"There is no {file.name} in the data folder; this protocol takes all three sets.")
        with np.load(file) as arrays:
            offsets, names = arrays["offsets"], arrays["names"]
            minute, variable, value = (arrays[key] for key in ("minute", "variable", "value"))
        for low, high in pairwise(offsets):
            stays.append(np.stack([minute[low:high], variable[low:high], value[low:high]]).astype(np.float64))
    values, times = [], []
    for minute, variable, value in stays:
        moments, row = np.unique(minute if len(minute) else np.zeros(1), return_inverse=True)
        sums, counts = np.zeros((2, len(moments), len(names)))
        if len(minute):
            np.add.at(sums, (row, variable.astype(int)), value)
            np.add.at(counts, (row, variable.astype(int)), 1)
        values.append(np.where(counts > 0, sums / np.maximum(counts, 1), np.nan).astype(np.float32))
        times.append(moments / 60)
    return Series.from_arrays(values, times=times, channels=[str(name) for name in names])


def split_of(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Training and validation together, as the penalty needs no validation; and test: 80 and 20 of 100.

    42 is t-PatchGNN's call, though of stays in another order than theirs.
    """
    if seed == 42:
        seen, test = train_test_split(np.arange(count), train_size=0.8, random_state=42)
        return np.sort(seen), np.sort(test)
    order = np.random.default_rng(seed).permutation(count)
    return np.sort(order[: count * 4 // 5]), np.sort(order[count * 4 // 5 :])


def stays_line(series: Series, seed: int, *, neural: bool = False) -> dict[str, Any]:
    """Errors in t-PatchGNN's units: every variable from 0 to 1 over training and validation."""
    seen, test = split_of(len(series), seed)
    part = series.values[seen]
    low, high = np.nanmin(part, axis=(0, 1)), np.nanmax(part, axis=(0, 1))
    width = np.where(high > low, high - low, 1.0)
    scaled = Series((series.values - low) / width, times=series.times, lengths=series.lengths, channels=series.channels)
    now = 24 - 0.5 / 60  # before what was observed at 24:00
    begin = time.monotonic()
    options: dict[str, Any] = {"horizon": 24 + 1 / 60, "lookback": 24, "random_state": seed}
    if neural:  # it goes on where it was interrupted
        checkpoint = RESULTS.with_name(f"stays-{seed}.checkpoint")
        model = NeuralRDEForecaster(**options, windows=24)
        model.fit(scaled[seen], cuts=[now], checkpoint=checkpoint, resume=True)
        checkpoint.unlink(missing_ok=True)
    else:
        model = LogSignatureForecaster(**options).fit(scaled[seen], cuts=[now])
    fitted = time.monotonic()
    found = model.evaluate(scaled[test], cuts=[now])
    done = time.monotonic()
    channels = found["channels"].values()
    mean = lambda key: float(np.mean([one[key] for one in channels]))
    return {
        "row": f"PhysioNet 2012, seed {seed}" + (", neural" if neural else ""),
        "mse": 1e3 * mean("mse"),
        "mae": 1e2 * mean("mae"),
        "coverage": mean("coverage"),
        "coverage of variables": {name: round(one["coverage"], 3) for name, one in found["channels"].items()},
        "last value": [1e3 * mean("last mse"), 1e2 * mean("last mae")],
        "mean": [1e3 * mean("mean mse"), 1e2 * mean("mean mae")],
        "variables": len(channels),
        "seconds": {"fit": round(fitted - begin, 1), "evaluate": round(done - fitted, 1)},
    }


def pulses() -> tuple[Series, np.ndarray]:
    """Half a minute of each of 53 records' pulse at 125 Hz, and whose it is."""
    file = data_folder() / "bidmc" / "bidmc_records.npz"
    if not file.exists():
        raise DatasetUnavailable("There is no bidmc/bidmc_records.npz in the data folder.")
    with np.load(file) as arrays:
        values = arrays["X"][:, 15_000:18_750, list(arrays["channels"]).index("PLETH")]
    clock = np.tile(np.arange(values.shape[1]) / 125, (len(values), 1))
    return Series(values[..., None], times=clock, channels=["pulse"]), np.unique(PATIENTS, return_inverse=True)[1]


def pulse_line(seed: int) -> dict[str, Any]:
    """The pulse one second ahead from four, for a third of the patients, of whom nothing was learned.

    Errors are in standard deviations of training; each record is scaled by its own past, for all alike.
    """
    series, patient = pulses()
    past = series.values[:, :500]
    scaled = (series.values - past.mean(axis=1, keepdims=True)) / past.std(axis=1, keepdims=True)
    series = Series(scaled, times=series.times, channels=series.channels)
    order = np.random.default_rng(seed).permutation(patient.max() + 1)
    test = np.isin(patient, order[: len(order) // 3])
    line = _both(series[~test], series[test], horizon=1.0, lookback=4.0, groups=patient[~test], seed=seed)
    # A linear autoregression: the next second from the last four, with a penalty chosen by leaving out patients.
    starts = np.arange(0, series.values.shape[1] - 625, 25)
    rows = lambda values: np.concatenate([values[:, start : start + 625] for start in starts])
    train, judged = rows(scaled[~test, :, 0]), rows(scaled[test, :, 0])
    ridge = Ridge.fit(train[:, :500], train[:, 500:], groups=np.tile(patient[~test], len(starts)))
    off = judged[:, 500:] - ridge(judged[:, :500])
    spread = scaled[~test].std()
    return {
        "row": f"pulse, seed {seed}",
        **line,
        "autoregression": [float((off**2).mean() / spread**2), float(abs(off).mean() / spread)],
    }


def tanks_line(seed: int) -> dict[str, Any]:
    """Two cascaded tanks, of new runs."""
    series = two_tanks(360, seed=seed)
    return {"row": f"tanks, seed {seed}", **_both(series[:240], series[240:], horizon=4.0, lookback=8.0, seed=seed)}


def _both(train: Series, test: Series, *, groups: Any = None, seed: int, **options: Any) -> dict[str, Any]:
    """Errors of both forecasters, in standard deviations of training; and a stream's time for one forecast."""
    line: dict[str, Any] = {}
    for kind in (LogSignatureForecaster, NeuralRDEForecaster):
        begin = time.monotonic()
        model = kind(**options, random_state=seed).fit(train, groups=groups)
        fitted = time.monotonic()
        found, name = model.evaluate(test), "neural" if kind is NeuralRDEForecaster else "closed form"
        stream, ahead, taken = model.stream(), options["horizon"] * np.arange(1, 9) / 8, []
        values, clock = test.values[0], test.clock[0]
        for number in range(60):
            stream.push(values[number : number + 1], clock[number : number + 1])
            start = time.monotonic()
            stream.forecast(clock[number] + ahead, interval=0.9)
            taken.append(time.monotonic() - start)
        line |= {
            name: [found["mse"], found["mae"]],
            f"{name}, coverage": found["coverage"],
            f"{name}, seconds": round(fitted - begin, 1),
            f"{name}, stream p50, ms": round(1e3 * float(np.median(taken[10:])), 2),
        }
    return line | {"last value": [found["naive"]["last"][key] for key in ("mse", "mae")]}


def etth1() -> np.ndarray:
    file = data_folder() / "ett" / "ETTh1.csv"
    if not file.exists():
        raise DatasetUnavailable("There is no ett/ETTh1.csv in the data folder.")
    with file.open() as rows:
        return np.array([row[1:] for row in list(csv.reader(rows))[1:]], float)


def hours_line(horizon: int, dropped: float) -> dict[str, Any]:
    """Errors on ETTh1's test part, in standard deviations of its training part, as DLinear's authors count them."""
    values = etth1()[: 20 * 30 * DAY]
    train, test = 12 * 30 * DAY, 16 * 30 * DAY
    values = (values - values[:train].mean(axis=0)) / values[:train].std(axis=0)
    hours = np.arange(len(values), dtype=float)
    seen = values.copy()
    seen[np.random.default_rng(0).random(values.shape) < dropped] = np.nan
    # Interpolated within what a forecast may know: a gap at the end of a look-back is held.
    cuts = np.arange(test - 1, len(values) - horizon, EVERY)
    pasts, future = (np.stack([array[cut + 1 + a : cut + 1 + b] for cut in cuts])
                     for array, a, b in ((seen, -LOOKBACK, 0), (values, 0, horizon)))  # fmt: skip

    begin = time.monotonic()
    model = LogSignatureForecaster(horizon=horizon, lookback=LOOKBACK, period=DAY)
    model.fit(Series.from_arrays([seen[:train]], times=[hours[:train]]))
    fitted = time.monotonic()
    times = hours[cuts][:, None] + np.arange(1, horizon + 1)
    past_times = hours[cuts][:, None] + np.arange(1 - LOOKBACK, 1)
    found, ends = model.predict(Series(pasts, times=past_times), times, now=hours[cuts], interval=0.9)
    done = time.monotonic()
    inside = (future >= ends[..., 0]) & (future <= ends[..., 1])
    filled = np.stack([[_interpolated(channel) for channel in past.T] for past in pasts]).transpose(0, 2, 1)
    day = np.take(filled, LOOKBACK - DAY + np.arange(horizon) % DAY, axis=1)
    errors = lambda found: [float(((found - future) ** 2).mean()), float(abs(found - future).mean())]
    return {
        "row": f"ETTh1, {horizon} ahead" + (f", {dropped:.0%} dropped" if dropped else ""),
        "closed form": errors(found),
        "coverage": float(inside.mean()),
        "DLinear": errors(dlinear(seen[:train], filled, horizon)),
        "day before": errors(day),
        "moments": len(cuts),
        "seconds": {"fit": round(fitted - begin, 1), "predict": round(done - fitted, 1)},
    }


def _interpolated(values: np.ndarray) -> np.ndarray:
    known = ~np.isnan(values)
    places = np.arange(len(values))
    return np.interp(places, places[known], values[known]) if known.any() else np.zeros(len(values))


def dlinear(train: np.ndarray, pasts: np.ndarray, horizon: int) -> np.ndarray:
    """DLinear, solved exactly: a linear map of the look-back, the same for all channels, with a chosen penalty.

    Its two layers, of a moving average and of the rest, are one linear map; gradient descent that stops early is a
    penalty by other means. As NLinear does, the last value is taken away and added again, which does it good here.
    """
    filled = np.stack([_interpolated(channel) for channel in train.T], axis=1)
    starts = np.arange(0, len(filled) - LOOKBACK - horizon, 4)
    rows = np.stack([filled[start : start + LOOKBACK + horizon] for start in starts]).transpose(0, 2, 1)
    rows = rows.reshape(-1, LOOKBACK + horizon)
    rows = rows - rows[:, LOOKBACK - 1 : LOOKBACK]
    # The penalty by the last fifth of training, then all of it.
    cut = len(rows) * 4 // 5
    fit = lambda part, penalty: Ridge.fit(part[:, :LOOKBACK], part[:, LOOKBACK:], penalties=[penalty])
    off = lambda ridge: float(((ridge(rows[cut:, :LOOKBACK]) - rows[cut:, LOOKBACK:]) ** 2).mean())
    before = rows[: cut - 7 * (LOOKBACK + horizon) // 4]
    best = min((1.0, 10.0, 100.0, 1000.0), key=lambda penalty: off(fit(before, penalty)))
    last = pasts[:, -1:, :]
    flat = (pasts - last).transpose(0, 2, 1).reshape(-1, LOOKBACK)
    return fit(rows, best)(flat).reshape(len(pasts), -1, horizon).transpose(0, 2, 1) + last


def simulated_line(seed: int) -> dict[str, Any]:
    """The share of what came inside 90 % intervals: noisy oscillators at random times, one channel seen rarely."""
    series = oscillators(400, seed=seed)
    begin = time.monotonic()
    model = LogSignatureForecaster(horizon=5.0, lookback=10.0).fit(series[:200])
    fitted = time.monotonic()
    found = model.evaluate(series[200:])
    return {
        "row": f"simulated, seed {seed}",
        "coverage": float(np.mean([one["coverage"] for one in found["channels"].values()])),
        "by time": [round(one["coverage"], 3) for one in found["ahead"]],
        "mse": found["mse"],
        "last value": found["naive"]["last"]["mse"],
        "seconds": {"fit": round(fitted - begin, 1)},
    }


def oscillators(samples: int, *, seed: int) -> Series:
    """Damped oscillators pushed by noise, seen at random times: position at 7 of 10, velocity at 2 of 10."""
    random, step, values, clocks = np.random.default_rng(seed), 0.05, [], []
    for _ in range(samples):
        state, found = random.normal(size=2), []
        for _ in range(600):
            push = 0.7 * np.sqrt(step) * random.normal()
            state = state + step * np.array([state[1], -1.5 * state[0] - 0.3 * state[1]]) + [0.0, push]
            found.append(state)
        chosen = np.sort(random.choice(600, 120, replace=False))
        seen = np.where(random.random((120, 2)) < [0.7, 0.2], np.array(found)[chosen], np.nan)
        values.append(seen + 0.05 * random.normal(size=seen.shape))
        clocks.append(chosen * step)
    return Series.from_arrays(values, times=clocks, channels=["position", "velocity"])


def summary(found: list[dict[str, Any]]) -> str:
    """The rows as tables."""
    pair = lambda line, name, digits=2: "  ".join(f"{one:.{digits}f}" for one in line[name])
    stays = [line for line in found if line["row"].startswith("Physio")]
    rows = [[one["row"], f"{one['mse']:.2f}  {one['mae']:.2f}", f"{one['coverage']:.3f}", pair(one, "last value"),
             pair(one, "mean"), str(one["seconds"]["fit"])] for one in stays]  # fmt: skip
    texts = [table(["MSE x 1e-3, MAE x 1e-2", "closed form", "coverage", "last value", "mean", "fit, s"], rows)]
    hours = [line for line in found if line["row"].startswith("ETT")]
    rows = [[one["row"], *(pair(one, name, 3) for name in ("closed form", "DLinear", "day before")),
             f"{one['coverage']:.3f}", str(one["seconds"]["fit"])] for one in hours]  # fmt: skip
    texts.append(table(["MSE, MAE", "closed form", "DLinear", "day before", "coverage", "fit, s"], rows))
    both = [line for line in found if "neural" in line]
    kinds = ("closed form", "neural")
    rows = [[one["row"], *(pair(one, kind, 3) for kind in kinds), pair(one, "last value", 3),
             pair(one, "autoregression", 3) if "autoregression" in one else "",
             "  ".join(f"{one[f'{kind}, coverage']:.3f}" for kind in kinds),
             "  ".join(f"{one[f'{kind}, seconds']:.0f}" for kind in kinds),
             "  ".join(f"{one[f'{kind}, stream p50, ms']:.1f}" for kind in kinds)] for one in both]  # fmt: skip
    head = ["MSE, MAE", *kinds, "last value", "autoregression", "coverage", "fit, s", "stream, ms"]
    texts.append(table(head, rows))
    rows = [[one["row"], f"{one['coverage']:.3f}", f"{one['mse']:.3f}", f"{one['last value']:.3f}"]
            for one in found if one["row"].startswith("sim")]  # fmt: skip
    texts.append(table(["coverage of 90 % intervals", "coverage", "MSE", "last value"], rows))
    return "\n\n".join(texts)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks forecast", description=__doc__)
    parser.add_argument(
        "--only", choices=("stays", "neural-stays", "hours", "pulse", "tanks", "simulated"), help="only these rows"
    )
    parser.add_argument("--results", type=Path, default=RESULTS, help="the file of lines")
    options = parser.parse_args([] if arguments is None else arguments)
    jobs: list[tuple[str, str, Any]] = [
        *(("simulated", f"simulated, seed {seed}", lambda seed=seed: simulated_line(seed)) for seed in range(3)),
        *(
            ("hours", f"ETTh1, {h} ahead" + (", 50% dropped" if d else ""), lambda h=h, d=d: hours_line(h, d))
            for h in HORIZONS
            for d in (0.0, 0.5)
        ),
    ]
    stays: list[Series] = []

    def stay(seed: int, **options: Any) -> dict[str, Any]:
        if not stays:
            stays.append(physionet2012())
        return stays_line(stays[0], seed, **options)

    jobs += [("tanks", f"tanks, seed {seed}", lambda seed=seed: tanks_line(seed)) for seed in range(3)]
    jobs += [("pulse", f"pulse, seed {seed}", lambda seed=seed: pulse_line(seed)) for seed in range(3)]
    jobs += [("stays", f"PhysioNet 2012, seed {seed}", lambda seed=seed: stay(seed)) for seed in (0, 1, 2, 42)]
    jobs += [
        ("neural-stays", f"PhysioNet 2012, seed {seed}, neural", lambda seed=seed: stay(seed, neural=True))
        for seed in (0, 1, 2)
    ]
    done = {line["row"] for line in lines(options.results)}
    for kind, row, job in jobs:
        if row in done or options.only not in (None, kind):
            continue
        line = job() | {"versions": versions()}
        options.results.parent.mkdir(parents=True, exist_ok=True)
        with options.results.open("a") as file:
            file.write(json.dumps(line) + "\n")
        print(row, file=sys.stderr, flush=True)
    print(summary(lines(options.results)))
