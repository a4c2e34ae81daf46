"""`neuralrde fit`: train a model on data, into a run folder."""

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from . import flags
from .answers import answers, measures, write_csv
from .config import Settings, as_toml, assignments, check_model_names, resolve, settings_of, whole_or_auto
from .errors import INTERRUPTED, WRONG_USE, Refusal
from .loading import divided, open_data, targets, with_channels
from .pictures import draw_answers, draw_curves, draw_windows
from .run_folder import RunFolder
from .screen import count, number, print_json, table

PROGRESS = ("bar", "json", "none")
PARTS = ("train", "validation", "test")
_MODEL: Any = {"rich_help_panel": "Model and training"}


def fit(
    data: Annotated[
        str | None, typer.Argument(metavar="DATA", help="A file, a folder, or a data set's name.", show_default=False)
    ] = None,
    target: flags.Target = None,
    id: flags.Id = None,
    time_column: flags.Time = None,
    group: flags.Group = None,
    split: flags.SplitColumn = None,
    columns: flags.Columns = None,
    per_time: flags.PerTime = None,
    task: flags.Task = None,
    depth: Annotated[str | None, typer.Option(metavar="N|auto", help="Of the log-signatures. [2]", **_MODEL)] = None,
    step: Annotated[
        str | None, typer.Option(metavar="N|auto", help="Points in a window. [for about 32 windows]", **_MODEL)
    ] = None,
    every: Annotated[
        float | None, typer.Option(metavar="TIME", help="Instead of --step, the time in a window.", **_MODEL)
    ] = None,
    epochs: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Passes over the training set, at most. [about 1000 steps]", **_MODEL),
    ] = None,
    state: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Channels of the hidden state. [32]", **_MODEL)
    ] = None,
    width: Annotated[int | None, typer.Option(min=1, metavar="N", help="Of the network. [64]", **_MODEL)] = None,
    learning_rate: Annotated[
        float | None, typer.Option(min=0.0, metavar="RATE", help="The highest. [0.003]", **_MODEL)
    ] = None,
    batch_size: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Examples in a step. [32]", **_MODEL)
    ] = None,
    time_budget: Annotated[
        float | None, typer.Option(min=0.0, metavar="SECONDS", help="After which training stops.", **_MODEL)
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Any other parameter of the estimator; repeatable.", **_MODEL),
    ] = None,
    seed: Annotated[int | None, typer.Option(min=0, metavar="N", help="Of split, weights and order. [0]")] = None,
    divide: Annotated[
        str | None, typer.Option(metavar="HOW", help="auto, given, group, class or random. [auto]")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="The run's folder. [runs/NAME]", show_default=False)
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run in --out.")] = False,
    config: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A TOML file of settings; flags win over it.")
    ] = None,
    plots: Annotated[bool, typer.Option(help="Draw pictures into the run folder.")] = True,
    progress: Annotated[
        str, typer.Option(metavar="HOW", help="bar (on a terminal), json (a line an epoch, on stderr) or none.")
    ] = "bar",
    tensorboard: Annotated[bool, typer.Option("--tensorboard", help="Write event files into the run folder.")] = False,
    json: flags.AsJson = False,
) -> None:
    """Train a model, and test it on what it has not seen.

    A classifier for classes, a regressor for numbers. The folder holds settings, versions, metrics, history, model and
    pictures; its settings.toml repeats the run. Stopped by Ctrl-C or a time budget, it goes on with --resume.

        neuralrde fit SelfRegulationSCP1 --depth 2 --step 28
        neuralrde fit hearts.csv --id patient --target ill --depth auto
        neuralrde fit --resume --out runs/hearts
    """
    # Settings: defaults, then the file, then flags.
    if resume and config is None and out is not None and (out / "settings.toml").exists():
        config = out / "settings.toml"
    model_flags = {
        "depth": whole_or_auto(depth, "--depth"),
        "step": whole_or_auto(step, "--step"),
        "every": every,
        "epochs": epochs,
        "state": state,
        "width": width,
        "learning_rate": learning_rate,
        "batch_size": batch_size,
        "time_budget": time_budget,
    }
    table_flags = flags.table_options(
        target=target, id=id, time=time_column, group=group, split=split, columns=columns, per_time=per_time, task=task
    )
    settings = settings_of(config, data=data, seed=seed, divide=divide, table=table_flags, model=model_flags)
    settings.model.update(assignments(set_ or []))
    if resume and time_budget is None:
        settings.model.pop("time_budget", None)  # what stopped the run then is not to stop it now

    if progress not in PROGRESS:
        raise Refusal(f"Got --progress {progress}; expected one of {', '.join(PROGRESS)}.", WRONG_USE)
    result = train(
        settings,
        out,
        resume=resume,
        plots=plots,
        say=_nothing if json else print,
        progress=progress,
        tensorboard=tensorboard,
    )
    if json:
        print_json(result)


def train(
    settings: Settings,
    out: Path | None,
    *,
    resume: bool,
    plots: bool,
    say: Callable,
    progress: str,
    tensorboard: bool,
) -> dict[str, Any]:
    """The run itself: data, model, training, and what came out of it."""
    # Data, and its parts.
    dataset = open_data(settings.data, settings.table)
    settings = with_channels(settings, dataset)
    y = targets(dataset)
    rows, told = divided(dataset, settings.divide, settings.seed)
    say(dataset.summary())
    say(f"  parts   train {len(rows.train)}, validation {len(rows.validation)}, test {len(rows.test)}: {told}")

    # Model. Loaded here and not above, because scikit-learn and diffrax would slow every --help down.
    from ..devices import try_all_cores
    from ..estimators import NeuralRDEClassifier, NeuralRDERegressor
    from ..training import EventFile, JSONLines

    try_all_cores()
    kind = NeuralRDERegressor if dataset.classes is None else NeuralRDEClassifier
    check_model_names(settings.model, kind)
    estimator: Any = kind(random_state=settings.seed, verbose=progress == "bar", **settings.model)
    searched = "auto" in (estimator.depth, estimator.step)
    if resume and searched:
        raise Refusal(
            "Got --resume with depth or step auto; expected numbers, because a search has many states. Give --depth "
            "and --step as metrics.json of an earlier run names them.",
            WRONG_USE,
        )

    # Training. What is resumed keeps its own settings until the checkpoint is found to belong to these.
    folder = RunFolder.new(dataset.name, out, resume=resume)
    resolved = as_toml(resolve(settings, estimator.get_params()))
    if not resume:
        folder.begin(resolved, dataset, rows, told)
    listeners: list[Any] = [JSONLines(sys.stderr)] if progress == "json" else []
    listeners += [EventFile(folder.path / "events")] if tensorboard else []
    begun = time.monotonic()
    try:
        estimator.fit(
            dataset[rows.train].series,
            y[rows.train],
            validation=(dataset[rows.validation].series, y[rows.validation]) if len(rows.validation) else None,
            checkpoint=None if searched else folder.checkpoint,
            resume=resume,
            listeners=listeners,
        )
    except KeyboardInterrupt:
        hint = "" if searched else f" Go on with `neuralrde fit --resume --out {folder.path}`."
        raise Refusal(f"Interrupted.{hint}", INTERRUPTED) from None
    seconds = time.monotonic() - begun
    if resume:
        folder.begin(resolved, dataset, rows, told)

    # What came out.
    estimator.save(folder.model)
    parts = {part: dataset[getattr(rows, part)] for part in PARTS if len(getattr(rows, part))}
    found = {part: answers(estimator, data) for part, data in parts.items()}
    result = {
        "model": kind.__name__,
        "depth": int(estimator.depth_),
        "step": None if estimator.step_ is None else int(estimator.step_),
        "every": None if estimator.step_ is not None else float(estimator.cut_),
        "epochs": len(estimator.history_),
        "best_epoch": int(estimator.best_epoch_),
        "seconds": round(seconds, 2),
        "parts": {part: measures(answer) for part, answer in found.items()},
    }
    folder.finish(estimator.history_, result)
    last = list(found)[-1]
    write_csv(found[last], folder.predictions)
    if plots:
        try:
            draw_curves(estimator.history_, folder.pictures)
            draw_answers(found[last], folder.pictures)
            draw_windows(estimator, parts[last].series, folder.pictures)
        except Exception as error:  # the model is trained and saved: nothing that a picture does may spoil that
            say(f"  no pictures: {error}")
    say(f"\n{_summary(result)}\n\nRun folder: {folder.path}")
    return result | {"folder": str(folder.path)}


def _summary(result: dict[str, Any]) -> str:
    cut = f"step {result['step']}" if result["step"] is not None else f"every {result['every']:g}"
    names = list(next(iter(result["parts"].values())))
    rows = [[part, *(number(values[name]) for name in names)] for part, values in result["parts"].items()]
    return (
        f"{result['model']}, depth {result['depth']}, {cut}: {count(result['epochs'], 'epoch')} in "
        f"{result['seconds']:.0f} s, the weights of epoch {result['best_epoch']} kept\n"
        + table(rows, header=["part", *(name.replace("_", " ") for name in names)])
    )


def _nothing(*lines: str) -> None:
    """Where people would be told something; scripts want one object."""
