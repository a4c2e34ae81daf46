"""The next day of a patient in intensive care: `python examples/forecast.py [folder] [--quick]`.

PhysioNet 2012: set a is learned from, and a stay of set b is drawn from its 24th hour on, beside what came. Whose stay
it is was chosen by the number of its measurements, not by how well it is forecast.

The data come from the folder that NEURALRDE_DATA names, or from PhysioNet (once).
"""

import argparse
import sys
from pathlib import Path

import numpy as np

from neuralrde import LogSignatureForecaster, plots
from neuralrde.datasets import DatasetUnavailable, load

SHOWN = ("HR", "MAP", "Temp", "GCS", "Urine")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, default=Path())
    parser.add_argument("--quick", action="store_true", help="from fewer stays")
    options = parser.parse_args()
    try:
        data = load("PhysioNet2012")
    except DatasetUnavailable as error:
        sys.exit(str(error))
    train, test = (data.series[data.split == part] for part in ("train", "test"))
    model = LogSignatureForecaster(horizon=24, lookback=24)
    model.fit(train[:300] if options.quick else train, cuts=[24])

    found = model.evaluate(test[:300] if options.quick else test, cuts=[24])
    print(f"mean squared error {found['mse']:.3f}, coverage {found['coverage']:.3f}; instead:", found["naive"])
    seen = ~np.isnan(test.values[:, :, [test.channels.index(name) for name in SHOWN]])
    early = (test.clock <= 24)[..., None]
    # Much of all five, on both days: of the rarest the most.
    stay = int(np.minimum((seen & early).sum(axis=1), (seen & ~early).sum(axis=1)).min(axis=1).argmax())
    picture = plots.forecast(model, test, sample=stay, now=24, channels=SHOWN, title=f"Stay {test.ids[stay]}, hours")
    plots.save(picture, options.folder / "forecast.png")
    plots.save(plots.forecast_errors(found), options.folder / "forecast_errors.png")


if __name__ == "__main__":
    main()
