"""Long series of the UEA archive: which runs there are, and the table and picture of their lines."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from neuralrde.plots import COLOURS, INK, PALE, figure, save
from neuralrde.tools.assessment import published

from .experiment import DATASETS, Experiment
from .long_settings import SETTINGS
from .published import TABLES
from .results import Line, is_finished

FOLDER = Path("results/long")
# Walker's seeds, which LogSig-SSM has taken over.
SEEDS = (2345, 3456, 4567, 5678, 6789)
# The paper's cells that a CPU does in an evening: its smallest step takes a GPU ten hours.
CELLS = (("ncde", 1, 512), ("nrde", 2, 128), ("nrde", 2, 512), ("nrde", 3, 128), ("nrde", 3, 512))
METHODS = ("logsig-ssm", "defaults", "paper")
_NAMES = {
    ("logsig-ssm", "logsig-ssm"): "LogSig-SSM's settings",
    ("defaults", "closed-form"): "LogSignatureClassifier()",
    ("defaults", "neural"): "NeuralRDEClassifier()",
    ("defaults", "logsig-ssm"): 'NeuralRDEClassifier(model="logsig-ssm")',
}


def experiments(dataset: str, methods: Sequence[str], seeds: Sequence[int]) -> list[Experiment]:
    """The runs on a data set: LogSig-SSM on its own splits, all others on Walker's; the paper's cells if it has some.

    >>> [one.name for one in experiments("SCP2", ["logsig-ssm"], [2345])]
    ['SelfRegulationSCP2-logsig-ssm-2-46-2345-logsig-ssm-torch']
    """
    if unknown := [one for one in methods if one not in METHODS]:
        raise ValueError(f"Got the method {unknown[0]!r}; expected some of {', '.join(METHODS)}.")
    name, found = DATASETS.get(dataset, dataset), []
    known = SETTINGS.get(name)
    for method in methods:
        kinds: list[tuple[str, int, int]] = [("closed-form", 1, 1), ("neural", 1, 1), ("logsig-ssm", 1, 1)]
        if method == "logsig-ssm":
            kinds = [("logsig-ssm", 2, 1 if known is None else known.step)]
        elif method == "paper":
            kinds = [cell for cell in CELLS if (name, *cell) in TABLES]
        split = "torch" if method == "logsig-ssm" else "walker"
        found += [
            Experiment(dataset=name, model=model, depth=depth, step=step, seed=seed, protocol=method, split=split)
            for model, depth, step in kinds
            for seed in seeds
        ]
    return found


def table(lines: Iterable[Line], dataset: str) -> tuple[list[str], list[list[str]], dict[str, tuple[float, float]]]:
    """Header and rows: what was run here, and what was published; and means and deviations, for a picture.

    The two metrics of one line are of the same predictions: the share of series that is right, and the mean over
    shuffled batches, which LogSig-SSM reports.
    """
    header = ["method", "split", "seeds", "accuracy, %", "mean of batches, %", "minutes a seed", "settings"]
    groups: dict[tuple, list[Line]] = {}
    for line in lines:
        if line["cell"]["dataset"] == dataset and is_finished(line):
            cell = {name: value for name, value in line["cell"].items() if name != "seed"}
            groups.setdefault((*map(str, cell.values()), str(line["settings"])), []).append(line)
    rows, drawn = [], {}
    for some in groups.values():
        cell, settings = some[0]["cell"], some[0]["settings"]
        name = _NAMES.get(
            (cell["protocol"], cell["model"]), f"{cell['model']} depth {cell['depth']} step {cell['step']}"
        )
        values = {key: [100 * line["test"][key] for line in some if key in line["test"]] for key in _METRICS}
        minutes = float(np.mean([line["minutes"] for line in some]))
        rows.append([
            name, cell["split"], str(len(some)), *(_spread(one) for one in values.values()), f"{minutes:.2g}",
            f"a look every {settings['every']} steps, {settings['most']} at most" if "every" in settings else "",
        ])  # fmt: skip
        if values["accuracy"]:
            drawn[name] = float(np.mean(values["accuracy"])), float(np.std(values["accuracy"]))
    for one in _published(dataset):
        shown = f"{one.value} ± {one.spread}" if one.spread is not None else f"{one.value}"
        by_batches = one.metric == "mean_batch_accuracy"
        cells = ["", shown] if by_batches else [shown, ""]
        rows.append([f"{one.method}, published", "", "5", *cells, "", ""])
        drawn[f"{one.method}, published"] = one.value, one.spread or 0.0
    return header, rows, drawn


_METRICS = ("accuracy", "mean_of_batches")


def _published(dataset: str) -> list[Any]:
    try:
        return [one for one in published(dataset) if "accuracy" in one.metric and "five" in one.protocol]
    except ValueError:  # none are kept of this set
        return []


def _spread(values: list[float]) -> str:
    if not values:
        return ""
    return f"{np.mean(values):.1f} ± {np.std(values):.1f}" if len(values) > 1 else f"{values[0]:.1f}"


def write(lines: Sequence[Line], dataset: str, out: Path) -> list[Path]:
    """The table as Markdown, and a picture beside it."""
    header, rows, drawn = table(lines, dataset)
    if not rows:
        raise ValueError(f"There are no finished runs of {dataset}, and nothing was published; expected some.")
    text = ["| " + " | ".join(row) + " |" for row in (header, ["---"] * len(header), *rows)]
    out.mkdir(parents=True, exist_ok=True)
    file = out / f"{dataset}.md"
    file.write_text(f"# {dataset}\n\n" + "\n".join(text) + f"\n\n![{dataset}]({dataset}.png)\n", encoding="utf-8")
    return [file, save(_picture(drawn, dataset), out / f"{dataset}.png")]


def _picture(drawn: dict[str, tuple[float, float]], dataset: str) -> Any:
    names = sorted(drawn, key=lambda name: drawn[name][0])
    with figure(8.0, 1.2 + 0.28 * len(names)) as picture:
        axis = picture.subplots()
        for place, name in enumerate(names):
            mean, deviation = drawn[name]
            colour = PALE if "published" in name else COLOURS[0]
            axis.errorbar(mean, place, xerr=deviation, fmt="o", color=colour, ecolor=colour, capsize=2)
        axis.set_yticks(range(len(names)), names, fontsize=8.5)
        axis.set(xlabel="accuracy, % (LogSig-SSM publishes means of batches)", title=dataset)
        axis.grid(axis="x", color=INK, alpha=0.07)
    return picture
