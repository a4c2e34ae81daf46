"""`neuralrde forecast`: what comes after the end of each series."""

import contextlib
import csv
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from ..._write import Values
from . import flags
from .console import WRONG_USE, Refusal, count, number, pairs, print_json
from .flags import option

# The share of each series' time that a forecaster is judged on, and moments in it.
_JUDGED, _MOMENTS = 0.2, 20


@flags.with_table
def forecast(
    *,
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="[MODEL] DATA", help="A forecaster, if there is one; a file of series.", show_default=False
        ),
    ],
    horizon: Annotated[
        str | None,
        option("How far ahead: 24h where times are dates, or else a number. [as far as MODEL has learned]", "TIME"),
    ] = None,
    model: Annotated[Path | None, option("A forecaster's file or folder; the same as MODEL.", "FILE")] = None,
    lookback: Annotated[str | None, option("How far back to look. [four horizons]", "TIME")] = None,
    period: Annotated[str | None, option("Of a season, such as 24h.", "TIME")] = None,
    interval: Annotated[float, option("The share of what comes that intervals hold.", "SHARE")] = 0.9,
    out: Annotated[Path, option("The CSV file to write; - is stdout.")] = Path("forecast.csv"),
    plot: Annotated[Path | None, option("Draw the first series and its forecast into this file.", "FILE")] = None,
    save: Annotated[Path | None, option("Keep the fitted forecaster in this file.", "FILE")] = None,
    table: flags.Table,
    json: flags.AsJson = False,
) -> None:
    """Forecast every channel after the end of each series, in closed form, with intervals.

    The forecaster is fitted to moments in the past of the same series, within seconds, and judged on their last
    stretch, which it has not seen, beside the last value and the mean. Series may be irregular, with gaps.

        neuralrde forecast beds.csv --time hour --horizon 24 --plot beds.png
        neuralrde forecast beds.csv --id ward --time date --horizon 24h --period 24h --save beds.nrde
        neuralrde forecast beds.nrde new.csv --id ward --time date --horizon 12h
    """
    from ... import plots
    from ..._write import writing
    from ...datasets.times import time_text
    from ...estimators import LogSignatureForecaster, load
    from .loading import open_data

    if len(files) > 2 or (len(files) == 2 and model is not None):
        raise Refusal(f"Got {len(files)} files; expected DATA, or MODEL and DATA.", WRONG_USE)
    model = Path(files[0]) if len(files) == 2 else model
    if horizon is None and model is None:
        raise Refusal(
            "Got no --horizon and no model; expected one of them. Write for example --horizon 24h.", WRONG_USE
        )
    ahead, judged = _duration(horizon), None
    dataset = open_data(files[-1], table)
    if model is None:
        make = partial(LogSignatureForecaster, horizon=ahead, lookback=_duration(lookback), period=_duration(period))
        forecaster = make().fit(dataset)
        judged = _judged(dataset, make, interval)
    else:
        model = model / "model.nrde" if model.is_dir() else model
        if not model.exists():
            raise Refusal(f"There is no file {model}; expected a forecaster that `neuralrde forecast --save` wrote.")
        forecaster = load(model)
        if not isinstance(forecaster, LogSignatureForecaster):
            raise Refusal(f"{model} holds a {type(forecaster).__name__}; expected a forecaster.")
    times = forecaster.times_ahead(dataset, ahead)
    found, ends = forecaster.predict(dataset, times, interval=interval)
    ids = range(len(found)) if dataset.series.ids is None else dataset.series.ids.tolist()
    names = dataset.series.channels
    header = ["id", "time", *(f"{name}{end}" for name in names for end in ("", " low", " high"))]
    rows = [
        [one, time_text(time, dataset.time_unit), *(float(value) for c in range(len(names)) for value in
         (found[i, t, c], *ends[i, t, c]))] for i, one in enumerate(ids) for t, time in enumerate(times[i])
    ]  # fmt: skip
    with contextlib.nullcontext(sys.stdout) if str(out) == "-" else writing(out, "w", newline="") as file:
        csv.writer(file).writerows([header, *rows])
    if save is not None:
        forecaster.save(save)
    if plot is not None:
        plots.save(plots.forecast(forecaster, dataset, horizon=ahead, interval=interval), plot)
    if str(out) == "-":
        return
    if json:
        print_json({"file": str(out), "rows": len(rows), **({} if judged is None else {"evaluation": judged})})
        return
    print(f"{count(len(rows), 'forecast')}: {out}")
    _print_trial(judged)


def fit_forecaster(
    data: str, table: Values, horizon: str, *, neural: bool, out: Path | None, json: bool, **options: Any
) -> None:
    """Fit a forecaster, and write it into a folder with its trial: `neuralrde fit --forecast`."""
    from ...estimators import LogSignatureForecaster, NeuralRDEForecaster
    from .loading import open_data
    from .run_folder import RunFolder, write_json

    dataset = open_data(data, table)
    make = partial(NeuralRDEForecaster if neural else LogSignatureForecaster, horizon=_duration(horizon), **options)
    with RunFolder.new(f"{dataset.name}-forecast", out, resume=False) as folder:
        forecaster = make().fit(dataset)
        judged = _judged(dataset, make, 0.9)
        write_json(folder.metrics, {"evaluation": judged})
        forecaster.save(folder.model)
        if json:
            print_json({"model": str(folder.model), "evaluation": judged})
            return
        print(f"A {type(forecaster).__name__}: {folder.model}")
        _print_trial(judged)


def _print_trial(judged: Values | None) -> None:
    if judged is not None:
        print("\nThe last stretch of the series, forecast by what came before (standard deviations squared)")
        naive = {f"{name} instead": number(one["mse"]) for name, one in judged["naive"].items()}
        print(pairs({"mean squared error": number(judged["mse"]), **naive, "coverage": number(judged["coverage"])}))


def _duration(text: str | None) -> float | str | None:
    """A number, or a text such as 24h."""
    try:
        return text if text is None else float(text)
    except ValueError:
        return text


def _judged(dataset: Any, make: Callable[[], Any], interval: float) -> Values | None:
    """How another forecaster, which has seen only what came before, does on the last stretch; None if it is short."""
    from ...datasets import Dataset
    from ...paths import Series

    series = dataset.series
    ends = series.clock[np.arange(len(series)), series.lengths - 1]
    first = ends - _JUDGED * (ends - series.clock[:, 0])
    lengths = np.maximum(1, (series.clock <= first[:, None]).sum(axis=1))
    before = Series(series.values, times=series.times, lengths=lengths, channels=series.channels)
    before = Dataset(before, groups=dataset.groups, name=dataset.name, time_unit=dataset.time_unit)
    cuts = [np.linspace(start, end, _MOMENTS, endpoint=False) for start, end in zip(first, ends, strict=True)]
    try:
        return make().fit(before).evaluate(series, cuts=cuts, interval=interval)
    except ValueError:
        return None
