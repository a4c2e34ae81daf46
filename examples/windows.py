"""Windows and log-signatures of a long series, as a picture: `python examples/windows.py [folder]`.

Two sensors see the same bursts. In half of the series the first sensor leads, in the other half the second: averages,
spectra and increments are the same throughout. The Levy area, which is level 2 of the log-signature, has the answer in
its sign, window by window.
"""

import argparse
from pathlib import Path
from typing import Any

import numpy as np

import neuralrde as nrde
from neuralrde.plots import COLOURS, GRID, INK, figure, save

LENGTH, STEP, LAG = 24_000, 400, 25
FIRST, SECOND = COLOURS[:2]


def two_sensors(seed: int = 0) -> np.ndarray:
    """Noise through a resonance, seen by two sensors a little apart; halfway, leader and follower change places."""
    rng = np.random.default_rng(seed)
    time = np.arange(400)
    response = np.sin(2 * np.pi * time / 130) * np.exp(-time / 90)
    source = np.convolve(rng.normal(size=LENGTH + 600), response, mode="valid")[: LENGTH + LAG]
    ahead, behind = source[LAG:], source[:-LAG]
    first = np.where(np.arange(LENGTH) < LENGTH // 2, ahead, behind)
    second = np.where(np.arange(LENGTH) < LENGTH // 2, behind, ahead)
    return np.stack([first, second], axis=-1) + 0.3 * rng.normal(size=(LENGTH, 2))


def draw(path: np.ndarray, logs: np.ndarray) -> Any:
    names = ["increment of 1", "increment of 2", "Levy area [1,2]", "[1,[1,2]]", "[[1,2],2]"]
    with figure(10, 7.2) as picture:
        close, levy, heat = picture.subplots(3, 1, height_ratios=[1.1, 1.1, 1.2])

        middle = slice(LENGTH // 2 - 5 * STEP // 2, LENGTH // 2 + 5 * STEP // 2)
        at = np.arange(middle.start, middle.stop)
        close.plot(at, path[middle, 0], color=FIRST, linewidth=1.3, label="sensor 1")
        close.plot(at, path[middle, 1], color=SECOND, linewidth=1.3, label="sensor 2")
        for cut in range(middle.start // STEP * STEP, middle.stop + 1, STEP):
            close.axvline(cut, color=GRID, linewidth=1, zorder=0)
        close.axvline(LENGTH // 2, color=INK, linewidth=1.2, linestyle="--")
        close.set(xlim=(at[0], at[-1]), ylim=(-3.3, 3.6), xlabel="point", ylabel="value",
                  title="Which sensor leads? A look at the moment of the change")  # fmt: skip
        close.legend(ncols=2, loc="upper left")

        area = logs[:, 2]
        levy.bar(range(len(logs)), area, width=0.85, color=np.where(area > 0, FIRST, SECOND))
        levy.axhline(0, color=INK, linewidth=0.8)
        levy.axvline(len(logs) / 2 - 0.5, color=INK, linewidth=1.2, linestyle="--")
        levy.set(xlim=(-0.5, len(logs) - 0.5), ylabel="area", title="The sign of each window's Levy area shows which")
        levy.set_xlabel(f"window of {STEP} points")

        scaled = logs / np.sqrt((logs**2).mean(axis=0))
        image = heat.imshow(scaled.T, aspect="auto", cmap="RdBu_r", vmin=-2.5, vmax=2.5, interpolation="nearest")
        heat.set_yticks(range(len(names)), names)
        heat.axvline(len(logs) / 2 - 0.5, color=INK, linewidth=1.2, linestyle="--")
        heat.set(
            title="What drives the hidden state: the depth-3 log-signature of each window, each row to its own scale"
        )
        heat.set_xlabel(f"window of {STEP} points")
        heat.spines[["top", "right"]].set_visible(True)
        picture.colorbar(image, ax=heat, pad=0.01, label="in root mean squares")
    return picture


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path, default=Path("demo"), help="where the picture goes")
    folder = parser.parse_args().folder
    series = nrde.Series.from_array(two_sensors()[None], channels=["first", "second"])
    path = nrde.Scale().fit(series)(series).values[0]
    logs = nrde.log_signatures(path, depth=3, step=STEP, basis="brackets")
    print(f"{LENGTH:,} points of 2 channels -> {len(logs)} windows of {logs.shape[1]} log-signature channels.")
    half, area = len(logs) // 2, logs[:, 2]
    right = np.concatenate([area[:half] > 0, area[half:] < 0]).mean()
    print(f"The sign of the Levy area names the leader in {right:.0%} of the windows.")
    print(f"Picture: {save(draw(path, logs), folder / 'windows.png')}")


if __name__ == "__main__":
    main()
