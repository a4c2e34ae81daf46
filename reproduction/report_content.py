"""What the report says, section by section, before it is written as HTML or Markdown."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .experiment import DATASETS, Experiment, Limits
from .paper_bugs import UNDOCUMENTED, Bug
from .pictures import against_time, depth_step_heatmaps
from .published import PUBLISHED_LATER, TABLES, Published
from .results import Line, Summary, grid_of, summaries
from .train import settings_of

BIDMC = {"RR": "BIDMC32RR", "HR": "BIDMC32HR", "SpO2": "BIDMC32SpO2"}
SPLITS = {
    "paper": "a random split as the paper's",
    "random": "random splits 70/15/15",
    "group": "by patient or speaker",
    "folds": "repeated folds",
}
MODELS = {
    "nrde": "NRDE",
    "ncde": "NCDE",
    "odernn": "ODE-RNN (folded)",
    "logncde": "Log-NCDE",
    "linear": "LinearRDE",
    "oscillators": "OscillatorRDE",
}
TITLES = {name: short for short, name in DATASETS.items()} | {"eigenworms_source44": "43 worms (not EigenWorms)"}
HEADER = ["model", "depth", "step", "protocol", "here", "seeds", "epochs", "published", "minutes", "published, hours",
          "MB", "published, MB", "s to paper's best"]  # fmt: skip


@dataclass
class Section:
    """A heading, sentences, a table, the commands that made it, pictures by name; in this order."""

    title: str
    text: list[str] = field(default_factory=list)
    header: list[str] = field(default_factory=list)
    rows: list[list[str]] = field(default_factory=list)
    commands: list[str] = field(default_factory=list)
    pictures: dict[str, Any] = field(default_factory=dict)
    level: int = 2


def content(lines: Sequence[Line]) -> list[Section]:
    found = summaries(lines)
    sections = [_how_to_read(found)]
    for name in [
        *BIDMC.values(),
        *(name for name in {s.experiment.dataset: 0 for s in found} if name not in BIDMC.values()),
    ]:
        of_set = [summary for summary in found if summary.experiment.dataset == name]
        sections += _of_data_set(name, of_set) if of_set else []
    return [*sections, *_heatmaps(found), _bugs()]


def _how_to_read(found: Sequence[Summary]) -> Section:
    done = sum(len(summary.values) for summary in found)
    waiting = sum(len(summary.unfinished) for summary in found)
    return Section(
        "How to read this",
        [
            f"{done} finished runs"
            + (f", {waiting} not finished" if waiting else "")
            + ". Values are the mean and the "
            "standard deviation over seeds; errors (RMSE) are better when lower, accuracies (%) when higher.",
            "`paper` does what the paper's code does, its bugs too, and reports what that code reports. `adjoint` is "
            "the same with the adjoint's gradients, `later` with time from 0 to 1, `corrected` without the bugs. "
            "`ours` conditions the log-signatures and follows our recipe.",
            "Minutes are of training and log-signatures on the cores of the machine that the lines name; the "
            "published hours are of a GPU. MB is by how much the process grew during an epoch, on top of the data; the "
            "published MB were measured on a GPU, in another way. "
            "`s to paper's best` is when the *validation* set first reached the paper's best value on that data set, "
            "a dash if a seed did not.",
            "A random split of BIDMC has windows of each recording in all parts, and neighbouring windows share 29 of "
            "their 32 seconds: the recording's mean, a floor there, shows what memory of patients alone is worth.",
        ],
    )


def _of_data_set(name: str, found: Sequence[Summary]) -> list[Section]:
    title = TITLES.get(name, name)
    sections = [Section(f"{title}" + (f" ({name})" if title != name else ""))]
    for split in dict.fromkeys(summary.experiment.split for summary in found):
        here = [summary for summary in found if summary.experiment.split == split]
        rows = [_row(summary) for summary in here]
        if split == "paper":
            rows += _not_run(name, here)
        text = _floors(here)
        if split == "random" and name in PUBLISHED_LATER:
            values = ", ".join(f"{model} {mean} ± {spread}" for model, (mean, spread) in PUBLISHED_LATER[name].items())
            text.append(f"Published later on random splits of the same kind: {values}.")
        sections.append(Section(SPLITS[split].capitalize(), text, HEADER, rows, commands(here), level=3))
        picture = _against_time(name, title, here)
        if picture is not None:
            sections[-1].pictures[f"time-{name}-{split}"] = picture
    return sections


def _row(summary: Summary) -> list[str]:
    experiment, theirs = summary.experiment, summary.published or Published(None)
    seeds = str(len(summary.values)) + (f", {len(summary.unfinished)} unfinished" if summary.unfinished else "")
    sizes = "" if experiment.sizes is None else f" ({'/'.join(map(str, experiment.sizes))})"
    return [
        MODELS[experiment.model] + sizes,
        str(experiment.depth or "–"),
        str(experiment.step),
        experiment.protocol,
        _here(summary),
        seeds,
        _plain(summary.epochs, 0),
        _spread(theirs.mean, theirs.deviation),
        _minutes(summary),
        _plain(theirs.hours),
        _plain(summary.memory, 0),
        _plain(theirs.memory),
        _plain(summary.seconds_to_published, 0),
    ]


def _here(summary: Summary) -> str:
    if not summary.values:
        return f"not finished ({summary.unfinished[0]})"
    absolute = "" if summary.absolute_error is None else f" (MAE {summary.absolute_error:.2f})"
    return _spread(summary.mean, summary.deviation) + absolute


def _not_run(name: str, here: Sequence[Summary]) -> list[list[str]]:
    """Of the steps that the paper's main tables show, the experiments that were not run."""
    there = {
        (s.experiment.model, s.experiment.depth, s.experiment.step) for s in here if s.experiment.protocol == "paper"
    }
    missing = [key[1:] for key in TABLES if key[0] == name and key[3] in (8, 128, 512) and key[1:] not in there]
    rows = []
    for model, depth, step in missing:
        theirs = TABLES[name, model, depth, step]
        rows.append([MODELS[model], str(depth or "–"), str(step), "paper", "not run", "0", "–",
                     _spread(theirs.mean, theirs.deviation), "–", _plain(theirs.hours), "–", _plain(theirs.memory),
                     "–"])  # fmt: skip
    return rows


def _floors(found: Sequence[Summary]) -> list[str]:
    with_floors = [summary for summary in found if summary.floors]
    if not with_floors:
        return []
    # Test sets differ from split to split: the floors are those of the summary with the most seeds.
    most = max(with_floors, key=lambda summary: len(summary.values))
    absolute = {name: f" (MAE {value:.2f})" for name, value in most.absolute_floors.items()}
    listed = ", ".join(f"{name} **{value:.3g}**{absolute.get(name, '')}" for name, value in most.floors.items())
    return [f"Floors on the same test sets: {listed}."]


def commands(found: Iterable[Summary]) -> list[str]:
    """The commands that run these experiments again; of the appendix's grid, all sizes.

    A run whose settings are not today's, apart from the number of epochs, has none.
    """
    steps: dict[tuple, set[int]] = defaultdict(set)
    for summary in found:
        experiment, epochs = summary.experiment, summary.settings.get("epochs")
        for limit in (None, epochs):
            if settings_of(experiment, Limits(epochs=limit)) == summary.settings:
                steps[_but_step(experiment), summary.seeds, limit, experiment.depth].add(experiment.step)
                break
    depths: dict[tuple, list[int]] = defaultdict(list)
    for (kind, seeds, limit, depth), of_depth in steps.items():
        depths[kind, seeds, limit, tuple(sorted(of_depth))].append(depth)
    return [_command(*key, depths=sorted(of_steps)) for key, of_steps in depths.items()]


def _but_step(experiment: Experiment) -> tuple[str, str, str, str, bool]:
    names = experiment.dataset, experiment.model, experiment.protocol, experiment.split
    return *names, experiment.sizes is not None


def _command(kind: tuple, seeds: Sequence[int], limit: int | None, steps: Sequence[int], depths: Sequence[int]) -> str:
    dataset, model, protocol, split, grid = kind
    short = {name: word for word, name in DATASETS.items()}.get(dataset, dataset)
    depth = "" if model in ("ncde", "odernn") else f" --depth {_list(depths)}"
    return (
        f"python -m reproduction run --dataset {short} --model {model}{depth} --step {_list(steps)}"
        f" --seed {_list(seeds)} --protocol {protocol} --split {split}"
        + ("" if limit is None else f" --epochs {limit}")
        + (" --grid" if grid else "")
    )


def _list(numbers: Iterable[int]) -> str:
    return ",".join(map(str, numbers))


def _against_time(name: str, title: str, found: Sequence[Summary]) -> Any:
    runs: dict[str, list[tuple[float, float]]] = {}
    for summary in found:
        if summary.minutes and summary.mean is not None:
            label = (
                f"{MODELS[summary.experiment.model]} depth {summary.experiment.depth}, {summary.experiment.protocol}"
            )
            label = label.replace(" depth 0", "").replace("NCDE depth 1", "NCDE")
            runs.setdefault(label, []).append((summary.minutes, summary.mean))
    theirs = [(60 * value.hours, value.mean) for (dataset, *_), value in TABLES.items()
              if dataset == name and value.mean is not None and value.hours]  # fmt: skip
    if theirs and found[0].experiment.split == "paper":
        runs["published"] = theirs
    if sum(map(len, runs.values())) < 3:  # the table says it better
        return None
    floors = max((summary.floors for summary in found), key=len)
    quantity = "test RMSE" if found[0].absolute_error is not None else "test accuracy, %"
    return against_time(runs, title=f"{title}, {SPLITS[found[0].experiment.split]}", quantity=quantity, floors=floors)


def _heatmaps(found: Sequence[Summary]) -> list[Section]:
    sections = []
    for protocol in ("ours", "corrected", "paper"):
        for split in SPLITS:
            grids = {}
            for short, name in BIDMC.items():
                here = [
                    s
                    for s in found
                    if (s.experiment.dataset, s.experiment.protocol, s.experiment.split) == (name, protocol, split)
                ]
                depths, steps, means = grid_of(here)
                if min(means.shape) > 1:
                    grids[short] = depths, steps, means
            if grids:
                title = f"Test RMSE, {protocol}, {SPLITS[split]}"
                picture = depth_step_heatmaps(grids, title=title)
                sections.append(
                    Section(f"Depth and step: {title}", pictures={f"heatmap-{protocol}-{split}": picture}, level=3)
                )
    theirs = _published_grids()
    picture = depth_step_heatmaps(theirs, title="Test RMSE, as published")
    sections.append(Section("Depth and step: as published", pictures={"heatmap-published": picture}, level=3))
    return [Section("Depth and step", ["Dark is good, a dash was not run."]), *sections]


def _published_grids() -> dict[str, Any]:
    steps, grids = [8, 16, 32, 64, 128, 256, 512, 1024], {}
    for short, name in BIDMC.items():
        means = [[_mean(name, depth, step) for step in steps] for depth in (1, 2, 3)]
        grids[short] = [1, 2, 3], steps, np.array(means)
    return grids


def _mean(name: str, depth: int, step: int) -> float:
    mean = TABLES[name, "ncde" if depth == 1 else "nrde", depth, step].mean
    return float("nan") if mean is None else mean


def _bugs() -> Section:
    rows = [["bug", bug.name.lower().replace("_", " "), bug.value] for bug in Bug]
    rows += [["choice", name, text] for name, text in UNDOCUMENTED.items()]
    text = [
        "What the paper's code does and the paper does not say. `corrected` leaves out the bugs, and keeps the choices."
    ]
    return Section("The paper's code", text, ["kind", "name", "what it does"], rows)


def _spread(mean: float | None, deviation: float | None) -> str:
    if mean is None:
        return "–"
    # Spaces that do not break: a number and its deviation stay on one line of a narrow column.
    return f"{mean:.2f}" + (f"\N{NO-BREAK SPACE}±\N{NO-BREAK SPACE}{deviation:.2f}" if deviation is not None else "")


def _minutes(summary: Summary) -> str:
    if summary.minutes is None:
        return "–"
    return f"{summary.minutes:.1f}" + (f" ({share:.0%} log-sig.)" if (share := summary.log_signature_share) else "")


def _plain(value: float | None, digits: int = 1) -> str:
    return "–" if value is None else f"{value:.{digits}f}"
