"""How cost grows with the number of series, their length and channels, the depth and the state.

`python -m benchmarks scaling preparation`, `... scaling steps` and `... scaling scenario` measure, each in a minute or
two, and append to results/scaling/lines.jsonl; what is there is not measured again. `... scaling page` makes the tables
and the picture of docs/scaling.md from these lines, and the arithmetic for a million series.
"""

import json
import math
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..timing import table

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "results" / "scaling" / "lines.jsonl"
NAMES = {"series": "series", "length": "points in each", "channels": "channels", "depth": "depth", "state": "state"}
# One at a time is varied from here.
PREPARATION = {"series": 64, "length": 4000, "channels": 4, "depth": 3, "step": 50}
STEPS = {"series": 32, "length": 4000, "channels": 4, "depth": 2, "step": 50, "state": 32, "width": 64, "layers": 3}
VARIED: dict[str, dict[str, Sequence[int]]] = {
    "preparation": {
        "series": (16, 32, 64, 128, 256),
        "length": (1000, 2000, 4000, 8000, 16000),
        "channels": (2, 3, 4, 6, 8, 12),
        "depth": (1, 2, 3, 4, 5),
    },
    "steps": {
        "series": (8, 16, 32, 64, 128, 256),
        "length": (1000, 2000, 4000, 8000, 16000),
        "channels": (2, 4, 6, 8, 12),
        "depth": (1, 2, 3, 4),
        "state": (8, 16, 32, 64, 128),
    },
}
# What the arithmetic starts from, measured as it stands: 1e5 points of 5 channels and time, 1000 windows.
LONG = {"length": 100_000, "channels": 6, "step": 100, "state": 32, "width": 64, "layers": 3}


def points(what: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """What is to be measured, and what is varied in it."""
    if what == "scenario":
        for depth in (2, 3):
            yield "preparation", {**LONG, "series": 16, "depth": depth, "varied": "scenario"}
            yield "steps", {**LONG, "series": 64, "depth": depth, "varied": "scenario"}
        return
    base = PREPARATION if what == "preparation" else STEPS
    for varied, values in VARIED[what].items():
        for value in values:
            yield what, {**base, varied: value, "varied": varied}


def prepare(point: dict[str, Any]) -> dict[str, Any]:
    """Log-signatures of random walks, all cores: the best of several."""
    from neuralrde import log_signatures

    rng = np.random.default_rng(0)
    shape = point["series"], point["length"] + 1, point["channels"]
    path = rng.normal(size=shape).astype(np.float32).cumsum(axis=1)
    seconds, found = _best(lambda: log_signatures(path, point["depth"], step=point["step"]))
    return {"seconds": seconds, "bytes_in": path.nbytes, "bytes_out": np.asarray(found).nbytes}


def train(point: dict[str, Any]) -> dict[str, Any]:
    """Loss and gradient of one batch of all series, on all cores; XLA says how much memory lies between."""
    import jax

    from neuralrde.models import NeuralRDE
    from neuralrde.signatures import log_signature_channels

    from .training_steps import training_step

    rng = np.random.default_rng(0)
    windows, logs = point["length"] // point["step"], log_signature_channels(point["channels"], point["depth"])
    data = {
        "x0": rng.normal(size=(point["series"], point["channels"])).astype(np.float32),
        "logs": (rng.normal(size=(point["series"], windows, logs)) / math.sqrt(windows * logs)).astype(np.float32),
        "labels": rng.normal(size=(point["series"], 1)).astype(np.float32),
    }
    sizes = {name: point[name] for name in ("depth", "state", "width", "layers")}
    model = NeuralRDE(point["channels"], 1, key=jax.random.key(0), **sizes)
    begun = time.perf_counter()
    place, run = training_step(model, data)
    compiled = time.perf_counter() - begun
    placed = place(data)
    seconds, _ = _best(lambda: run(placed))
    weights = sum(leaf.size for leaf in jax.tree.leaves(model) if hasattr(leaf, "size"))
    bytes_in = data["logs"].nbytes
    return {
        "seconds": seconds,
        "compile_seconds": round(compiled, 2),
        "temporary_bytes": run.temporary,
        "bytes_in": bytes_in,
        "weights": int(weights),
    }


def _best(run: Any) -> tuple[float, Any]:
    """The best of several rounds, for a second and a half."""
    run()
    best, begun, rounds, found = math.inf, time.perf_counter(), 0, None
    while rounds < 3 or (time.perf_counter() - begun < 1.5 and rounds < 100):
        start = time.perf_counter()
        found = run()
        best, rounds = min(best, time.perf_counter() - start), rounds + 1
    return best, found


def measure(what: str) -> None:
    from neuralrde.devices import use_all_cores

    devices = use_all_cores()
    known = {_key(line["what"], line["point"]) for line in lines()}
    for kind, point in points(what):
        if _key(kind, point) in known:
            continue
        found = (prepare if kind == "preparation" else train)(point)
        RESULTS.parent.mkdir(parents=True, exist_ok=True)
        with RESULTS.open("a") as file:
            file.write(json.dumps({"what": kind, "point": point, "cores": devices, **found}) + "\n")
        print(kind, point["varied"], point.get(point["varied"], ""), f"{found['seconds'] * 1e3:.2f} ms", flush=True)


def lines() -> list[dict[str, Any]]:
    return [json.loads(line) for line in RESULTS.read_text("utf-8").splitlines()] if RESULTS.exists() else []


def _key(what: str, point: dict[str, Any]) -> str:
    return json.dumps([what, sorted(point.items())])


# The page's tables and its picture.


def slope(xs: Sequence[float], ys: Sequence[float]) -> float:
    """By how much the last doubling grows: 1 is in proportion, 2 as the square.

    >>> slope([1, 2, 4], [3.0, 6.0, 24.0])
    2.0
    """
    return math.log(ys[-1] / ys[-2]) / math.log(xs[-1] / xs[-2])


def growth(what: str, found: list[dict[str, Any]]) -> str:
    rows = []
    for varied in VARIED[what]:
        own = sorted(
            (line for line in found if line["what"] == what and line["point"]["varied"] == varied),
            key=lambda line: line["point"][varied],
        )
        values = [line["point"][varied] for line in own]
        seconds = [line["seconds"] for line in own]
        size = "bytes_out" if what == "preparation" else "temporary_bytes"
        rows.append(
            [
                NAMES[varied],
                ", ".join(f"{value:,}" for value in values),
                ", ".join(f"{second * 1e3:.3g}" for second in seconds),
                _growth(varied, values, seconds),
                ", ".join(f"{line[size] / 1e6:.3g}" for line in own),
                _growth(varied, values, [line[size] for line in own]),
            ]
        )
    memory = "log-signatures, MB" if what == "preparation" else "memory, MB"
    return table(["varied", "values", "milliseconds", "growth", memory, "growth"], rows)


def _growth(varied: str, values: Sequence[float], costs: Sequence[float]) -> str:
    """An exponent; of depth, in which cost is no power, the factor of the last level."""
    return f"x {costs[-1] / costs[-2]:.1f}" if varied == "depth" else f"^ {slope(values, costs):.2f}"


def draw(found: list[dict[str, Any]], path: Path) -> None:
    from neuralrde.plots import figure

    with figure(9.0, 3.4) as fig:
        for place, what in enumerate(("preparation", "steps")):
            axes = fig.add_subplot(1, 2, place + 1)
            for varied in VARIED[what]:
                own = sorted(
                    (line for line in found if line["what"] == what and line["point"]["varied"] == varied),
                    key=lambda line: line["point"][varied],
                )
                base = (PREPARATION if what == "preparation" else STEPS)[varied]
                axes.plot(
                    [line["point"][varied] / base for line in own],
                    [line["seconds"] * 1e3 for line in own],
                    "o-",
                    markersize=4,
                    label=NAMES[varied],
                )
            axes.set(xscale="log", yscale="log", xlabel="times the usual value", ylabel="milliseconds")
            # Plain numbers: the pictures' look has no mathematics in its text.
            ticks = [0.2, 0.5, 1, 2, 5, 10, 20, 50, 100]
            low, high = axes.get_ylim()
            shown = [tick for tick in ticks if low <= tick <= high]
            axes.set_yticks(shown, [f"{tick:g}" for tick in shown])
            axes.set_xticks([0.25, 0.5, 1, 2, 4, 8], ["1/4", "1/2", "1", "2", "4", "8"])
            axes.minorticks_off()
            axes.set_title("log-signatures" if what == "preparation" else "one training step")
            axes.legend(fontsize=8)
        fig.savefig(path, dpi=120)


def main(arguments: Sequence[str] = ()) -> None:
    for what in arguments or ("preparation", "steps", "scenario", "page"):
        if what == "page":
            from .scaling_page import write

            write(lines())
        else:
            measure(what)


if __name__ == "__main__":
    main(sys.argv[1:])
