"""`neuralrde inspect`, `card` and `parts`: what data or a model is, what would suit it, and what can be chosen."""

import inspect as signatures
import json as json_module
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from ..._write import Values
from ...errors import few
from . import flags
from .console import WRONG_USE, Refusal, count, number, pairs, print_json
from .console import table as as_table

if TYPE_CHECKING:
    from ...datasets import Dataset
    from .run_folder import RunFolder
    from .settings import Estimator

# Rows of a table of channels that are shown.
_CHANNELS = 20
# Gaps that differ by less from the usual one are even: times in whole milliseconds at 16 per second are 62 or 63.
_JITTER = 0.05
# Beyond this many distinct whole numbers nobody would speak of classes, and below it perhaps.
_FEW = 20
_SPANS = ((86400 * 7, "week"), (86400, "day"), (3600, "hour"), (60, "minute"), (1, "second"), (1e-3, "millisecond"))


@flags.with_table
def inspect(
    *,
    what: Annotated[
        str, typer.Argument(metavar="WHAT", help="Data (file, folder or name), a run folder or a model file.")
    ],
    table: flags.Table,
    task: flags.Task = None,
    json: flags.AsJson = False,
) -> None:
    """Describe data or a model.

    For data it shows lengths, sampling, missing values, channels and classes, and suggests a depth and a step to begin
    with. Of a table that it cannot read it lists the columns, and proposes a command that can. For a model it shows
    what it is, how it was trained, and what it expects.

        neuralrde inspect hearts.csv
        neuralrde inspect hearts.csv --id patient --time hour --target ill
        neuralrde inspect runs/hearts
    """
    path = Path(what)
    if path.suffix == ".nrde" or (path / "model.nrde").exists() or (path / "settings.toml").exists():
        from .evaluation import load_model

        about = about_model(load_model(path))
        print_json(about) if json else print(f"{path}\n{pairs(about)}")
        return
    from .proposal import group_hints, open_or_propose, proposed

    options = table if task is None else {**table, "task": task}
    data = open_or_propose(what, options)
    hints = [*task_hints(data, options), *group_hints(data), *suggestions(data)]
    about, channels = about_data(data), about_channels(data)
    if json:
        print_json({"name": data.name, **about, "channels": channels, "suggestions": hints})
        return
    body = [[row["name"], *(number(value) for value in list(row.values())[1:])] for row in channels[:_CHANNELS]]
    more = f"\n  ... and {len(channels) - _CHANNELS} more" if len(channels) > _CHANNELS else ""
    print(f"{data.summary()}\n\nSampling\n{pairs(about)}")
    print("\nChannels\n" + as_table(body, header=["name", "missing %", "mean", "spread", "lowest", "highest"]) + more)
    print("\nSuggestions\n" + "\n".join(f"  - {hint}" for hint in hints))
    if data.target is None and (text := proposed(what, options)) is not None:
        print(f"\n{text}")


def card(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run folder, or a model file.")],
    out: Annotated[Path | None, typer.Option(help="The file to write [shows it]")] = None,
) -> None:
    """Write a model card: what a model is, its data, metrics with intervals, and versions, in Markdown.

    neuralrde card runs/hearts --out README.md
    """
    from .evaluation import load_model
    from .run_folder import RunFolder, write

    text = card_of(run.stem if run.is_file() else run.resolve().name, load_model(run), RunFolder(run))
    print(text, end="") if out is None else write(out, text)


def card_of(name: str, estimator: "Estimator", folder: "RunFolder") -> str:
    """The card; what a folder does not say, as of a model file alone, is left out."""
    about = {**about_model(estimator), "channels": ", ".join(estimator.fitted_.inputs.channels)}
    sections = [f"# {name}", _markdown(["", ""], [[key, str(value)] for key, value in about.items()])]
    if folder.split.exists():
        split = json_of(folder.split)
        sizes = ", ".join(f"{len(split[part]):,} {part}" for part in ("train", "validation", "test") if split.get(part))
        sections += ["## Data", f"Divided {split['how']}: {sizes}. Fingerprint of the series: `{split['data']}`."]
    if metrics := folder.read_metrics():
        judged = metrics["assessment"]
        intervals, units = judged["intervals_95"], judged["units"]
        rows = [[key, number(value), _interval(intervals.get(key))] for key, value in judged["measures"].items()]
        rows += [
            [f"{judged['metric']}, {one['name']}", number(one[judged["metric"]]), ""] for one in judged["baselines"]
        ]
        of = units["of"] if units["of"] == "series" else f"{units['of']}s"
        sections += [f"## Metrics of the {judged['part']} part, {units['count']:,} {of}"]
        sections += [_markdown(["metric", "value", "95 % interval"], rows), *judged["verdict"]]
    if (versions := folder.path / "versions.json").exists():
        found = json_of(versions)
        command = found.pop("command")
        sections += [
            "## Versions",
            f"Made by `{command}`, with " + ", ".join(f"{k} {v}" for k, v in found.items()) + ".",
        ]
    sections += ["## Use", f"```sh\nneuralrde predict {folder.path.name} NEW_DATA\n```"]
    return "\n\n".join(sections) + "\n"


def json_of(path: Path) -> Any:
    return json_module.loads(path.read_text("utf-8"))


def _interval(found: list[float] | None) -> str:
    return "" if found is None else f"{number(found[0])} to {number(found[1])}"


def _markdown(header: list[str], rows: list[list[str]]) -> str:
    cells = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in cells)


def parts(
    family: Annotated[str | None, typer.Argument(metavar="FAMILY", help="model, transform, loss, ... [all]")] = None,
    json: flags.AsJson = False,
) -> None:
    """List the parts that can be chosen by name, such as models, transforms and losses.

    neuralrde fit hearts.csv --model log-ncde --set model.state=64 --set model.solver=tsit5
    """
    from ... import estimators, registry  # noqa: F401 (makes every registry known)
    from .settings import CLOSED_FORM

    families = registry.Registry.families
    if family is not None and family not in families:
        raise Refusal(f"Got the family {family}; expected one of {', '.join(families)}.", WRONG_USE)
    chosen = families if family is None else {family: families[family]}
    if json:
        print_json({name: {short: cls.__name__ for short, cls in one.items()} for name, one in chosen.items()})
        return
    rows = [[name, short, _first_sentence(cls)] for name, one in chosen.items() for short, cls in one.items()]
    if "model" in chosen:
        rows.insert(0, ["model", CLOSED_FORM, "No training: random log-signature features and ridge, in seconds"])
    print(as_table(rows, header=["part", "name", "what it is"]))


def _first_sentence(cls: type) -> str:
    text = " ".join((signatures.getdoc(cls) or "").split("\n\n")[0].split())
    first = text.split(". ")[0].rstrip(".").replace("`", "")
    return first if len(first) <= 90 else f"{first[:87]} ..."


def is_dated(data: "Dataset") -> bool:
    """Whether the times were dates."""
    from ...datasets.times import SINCE_1970

    return data.time_unit == SINCE_1970


def span(seconds: float) -> str:
    """
    >>> span(86400.0), span(5400.0), span(0.0625), span(0.0)
    ('1 day', '1.5 hours', '62.5 milliseconds', '0 seconds')
    """
    size, name = next(((size, name) for size, name in _SPANS if abs(seconds) >= size), _SPANS[-2])
    amount = f"{seconds / size:.4g}"
    return f"{amount} {name}{'' if amount == '1' else 's'}"


def task_hints(data: "Dataset", table: flags.Table) -> Iterator[str]:
    """How the task was guessed, where somebody could think otherwise."""
    from ...datasets.targets import is_number_text

    if data.target is None or "task" in table or "task" in data.reading:
        return
    if data.classes is not None and len(data.classes) > 2 and all(map(is_number_text, data.classes)):
        yield f"the target's {len(data.classes)} numbers are taken for classes; --task regression predicts numbers"
    if data.classes is None:
        known = np.asarray(data.target)[np.isfinite(data.target)]
        distinct = np.unique(known)
        if len(distinct) <= _FEW and (distinct == np.round(distinct)).all() and len(distinct) < len(known) / 2:
            yield (
                f"the target's {len(distinct)} distinct whole numbers are predicted as numbers; --task classification "
                "takes them for classes"
            )


def about_data(data: "Dataset") -> Values:
    """Lengths, times, gaps, missing values and duplicates."""
    from ...datasets import duplicates

    series, lengths, timed = data.series, data.series.lengths, data.time_unit is not None
    found: Values = {"samples": len(series)}
    apart = f"{lengths.min():,} to {lengths.max():,}, median {np.median(lengths):,.0f}"
    found["lengths"] = apart if series.ragged else f"{lengths[0]:,}, all the same"
    gaps = _gaps(data)
    if series.times is None:
        found["times"] = "none given; points are taken as evenly spaced"
    elif len(gaps):
        middle = float(np.median(gaps))
        uneven = float((np.abs(gaps - middle) > _JITTER * middle).mean())
        found["times"] = (
            "evenly spaced" if uneven < 0.01 else f"irregular: {uneven:.0%} of the gaps are not the usual one"
        )
        if is_dated(data):
            ends = (data.time_text(series.times.min()), data.time_text(series.times.max()))
            found["times"] = f"{ends[0]} to {ends[1]}, {found['times']}"
        found["gap"] = f"usually every {_time_span(data, middle)}"
        if gaps.min() < gaps.max():
            found["gap"] += f", {_time_span(data, gaps.min())} to {_time_span(data, gaps.max())}"
        if middle < 1 or not timed:
            found["gap"] += f" ({1 / middle:.4g} per {'second' if timed else 'unit of time'})"
    found["missing"] = f"{_missing(data).mean():.2%} of the values"
    twins = int((duplicates(series) != np.arange(len(series))).sum())
    repeats = "repeats" if twins == 1 else "repeat"
    found["duplicates"] = f"{count(twins, 'sample')} {repeats} an earlier one" if twins else "none"
    return found


def about_channels(data: "Dataset") -> list[Values]:
    """A row per channel: its missing values, in percent, and its mean, spread, lowest and highest value."""
    values, missing = data.series.values[data.series.valid].astype(float), _missing(data)
    rows = []
    for name, own, lost in zip(data.series.channels, values.T, missing.T, strict=True):
        real = own[~np.isnan(own)]
        spread = [real.mean(), real.std(), real.min(), real.max()] if len(real) else [np.nan] * 4
        named = zip(("mean", "spread", "lowest", "highest"), map(float, spread), strict=True)
        rows.append({"name": name, "missing": round(100 * float(lost.mean()), 2), **dict(named)})
    return rows


def suggestions(data: "Dataset") -> Iterator[str]:
    """What to begin with, and what to watch out for."""
    from ...paths import Windows

    series, rows = data.series, about_channels(data)
    missing = int(_missing(data).any(axis=0).sum())
    channels = series.values.shape[2] + 1 + missing
    step = Windows().resolved(series).step or 1
    two = channels * (channels + 1) // 2
    # As `log_signature_channels` counts them, which would load JAX.
    sizes = f"depth 1: {channels:,}, depth 2: {two:,}, depth 3: {two + (channels**3 - channels) // 3:,}"
    yield f"begin with --depth {2 if two <= 500 else 1} --step {step} (about 32 windows per series)"
    yield f"log-signature channels with time{' and counts of observations' if missing else ''}: {sizes}"
    if len(gaps := _gaps(data)) and np.ptp(gaps) > 0.5 * np.median(gaps):
        middle = float(np.median(gaps)) * step
        unit = f" ({span(middle)}, in seconds)" if data.time_unit is not None else ""
        yield f"times are irregular: --every {middle:.4g}{unit} cuts by time instead of by points"
    if empty := [row["name"] for row in rows if np.isnan(row["mean"])]:
        yield f"without any value, so that `fit` refuses it: {few(empty, 5)}; name the others with --columns"
    if filled := missing - len(empty):
        yield f"{count(filled, 'channel')} with missing values: filled forward, and counted in one more channel each"
    if still := [row["name"] for row in rows if row["spread"] == 0]:
        yield f"constant, and of no use: {few(still, 5)}; leave it out with --columns"
    if data.classes is not None and not data.per_time:
        sizes = np.bincount(np.asarray(data.target), minlength=len(data.classes))
        if sizes.max() > 3 * max(1, sizes.min()):
            yield "classes are of very different sizes: --set class_weight=balanced"
    if data.target is None:
        yield "there is no target yet: name its column with --target"
    if data.groups is not None:
        yield "there are groups: `fit` keeps each in one part, because a random split would leak"
    if len(series) < 100:
        yield "few samples: a single test part says little; --folds 5 tests on every sample once"
    if single := int((series.lengths < 2).sum()):
        has = "has" if single == 1 else "have"
        yield f"{count(single, 'sample')} {has} one point only, from which nothing about time can be learned"


def about_model(estimator: "Estimator") -> Values:
    """What it is, how it was trained, and what it expects."""
    from ...estimators import NeuralRDEClassifier, NeuralRDERegressor
    from .settings import blend_of

    neural = isinstance(estimator, NeuralRDEClassifier | NeuralRDERegressor)
    found: Values = {
        "estimator": type(estimator).__name__,
        "model": str(estimator.config_) if neural else "random log-signature features and ridge, in closed form",
        "predicts": "for each point" if estimator.per_time_ else "for each series",
        "expects": count(int(estimator.n_channels_in_), "channel"),
        "transform": str(estimator.transform_),
    }
    if not neural:
        found["features"] = f"{estimator.features_:,}"
        found["penalty"] = f"{estimator.penalty_:.3g}, by the error on series that were left out"
    else:
        import jax

        from ...frozen import weights_of

        windows = estimator.windows_
        found["depth"], found["scales"] = (
            windows.looks["depth"],
            ", ".join(f"{one:.4g}" for one in windows.looks["scales"]),
        )
        found["windows"] = f"{windows.step} points" if windows.every is None else f"time {windows.every:g}"
        found["weights"] = f"{sum(leaf.size for leaf in jax.tree.leaves(weights_of(estimator.model_))):,}"
        if (blend := blend_of(estimator)) is not None:
            found["blend"] = about_blend(*blend)
        epochs = count(len(estimator.history_), "epoch")
        loss = f"monitored loss {estimator.validation_loss_:.4g}"
        found["trained"] = f"{epochs}, best {estimator.best_epoch_}, {loss}"
    if (classes := estimator.fitted_.targets.classes) is not None:
        found["classes"] = ", ".join(map(str, classes))
    return found


def about_blend(closed: float, neural: float) -> str:
    """The weights of both parts of a prediction.

    >>> about_blend(1.0, 0.0)
    'the neural part has weight 0: this is the closed form (its weight is 1)'
    >>> about_blend(0.8, 0.4)
    'weights: closed form 0.8, neural 0.4'
    """
    if neural == 0:
        return f"the neural part has weight 0: this is the closed form (its weight is {closed:.3g})"
    return f"weights: closed form {closed:.3g}, neural {neural:.3g}"


def _time_span(data: "Dataset", value: float) -> str:
    """A stretch of the data's time, with its unit where that is known."""
    return f"{value:.4g}" if data.time_unit is None else span(value)


def _gaps(data: "Dataset") -> np.ndarray:
    """The gaps between the times of neighbouring points; empty without times."""
    times = data.series.times
    return np.zeros(0) if times is None else np.diff(times, axis=1)[data.series.valid[:, 1:]]


def _missing(data: "Dataset") -> np.ndarray:
    """Whether the value of each real point and channel is missing."""
    return np.isnan(data.series.values[data.series.valid])
